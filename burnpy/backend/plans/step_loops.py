"""`StepLoop`: a plan that runs for many steps in one call of compiled code.

Values that go from step to step are written to the places that the next step reads: two that alternate, or one for each
step where they are results of the loop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from burnpy.backend.plans.executor import Executor, JoinedSteps, Moved
from burnpy.backend.plans.recording import Ref
from burnpy.backend.plans.storage import Storage


class StepLoop:
    """The loop of a plan whose replay is nothing but one call of compiled code.

    Args:
        calls: the calls.
        storage: the memory of the plan.
        objects: the other objects of its replay, by name.
        inputs: the names of its inputs: fixed values, carried ones and slices.
        outputs: its outputs with their names: the carried values, and those that are stacked.
        carried: the number of carried values.
        sliced: the number of slices.
    """

    def __init__(
        self,
        calls: JoinedSteps,
        storage: Storage,
        objects: Mapping[str, Any],
        inputs: Sequence[str],
        outputs: Sequence[tuple[str, Ref]],
        carried: int,
        sliced: int,
    ) -> None:
        first, last = len(inputs) - carried - sliced, len(inputs) - sliced
        self._calls, self._storage, self._objects = calls, storage, objects
        self._fixed, self._into, self._sliced = inputs[:first], inputs[first:last], inputs[last:]
        self._out, self._stacked = [name for name, _ in outputs[:carried]], outputs[carried:]
        self._free: list[Any] = []

    @property
    def possible(self) -> bool:
        """True if each carried value is a result of its own or stays, and no fixed value or slice is stacked."""
        pairs = [*zip(self._into, self._out, strict=True)]
        made = [name for own, name in pairs if name != own]
        still = {*self._fixed, *self._sliced, *self._storage.names, *self._objects}
        stacked = [name for name, _ in self._stacked]
        moves = len({*made}) == len(made) and still.isdisjoint(made) and {*self._into}.isdisjoint(made)
        return moves and still.isdisjoint(stacked) and not any(own == name and own in stacked for own, name in pairs)

    def run(self, values: Sequence[Any], length: int, reverse: bool) -> tuple[list[Any], set[int]]:
        """Run all steps.

        Returns:
            The last carried values and the stacks, and the positions of those that are in memory of their own.

        Args:
            values: the fixed values, the first carried ones, and the arrays that are sliced.
            length: the number of steps.
            reverse: whether the last slice comes first.
        """
        executor, count = self._storage.executor, len(self._fixed)
        steps, still = np.arange(length), np.zeros(length, np.int64)
        slices = steps[::-1] if reverse else steps
        given = [_prepared(executor, x) for x in values]
        places = {name: Moved(x, still) for name, x in zip(self._fixed, given, strict=False)}
        for name, x in zip(self._sliced, given[len(given) - len(self._sliced) :], strict=True):
            places[name] = Moved(x, slices, math.prod(x.shape[1:]))
        stacked = {name for name, _ in self._stacked}
        memories: dict[str, int] = {}  # the numbers of the arrays that traces are parts of
        last: list[Any] = []
        traces: dict[str, Any] = {}  # the values before and after each step, by name
        for own, name, x in zip(self._into, self._out, given[count:], strict=False):
            if own == name:
                places[own] = Moved(x, still)
                last.append(x)
                continue
            traced, size = own in stacked or name in stacked, math.prod(x.shape)
            memory = executor.empty((length + 1 if traced else 2, *x.shape), x.dtype)
            before, after = (slices + reverse, slices + (not reverse)) if traced else (steps % 2, (steps + 1) % 2)
            places[own], places[name] = Moved(memory, before, size), Moved(memory, after, size)
            executor.part(memory, (int(before[0]),))[...] = x
            last.append(executor.part(memory, (int(after[-1]),)))
            if traced:
                whole = (slice(int(reverse), length + reverse, 1), slice(int(not reverse), length + (not reverse), 1))
                traces[own], traces[name] = (executor.part(memory, (part,)) for part in whole)
                memories[own] = memories[name] = len(last)
        for name, ref in self._stacked:
            if name not in traces:
                traces[name] = executor.empty((length, *ref.shape), ref.dtype)
                places[name] = Moved(traces[name], slices, math.prod(ref.shape))
        self._run(places)
        owners: dict[int | str, int] = {}  # for each memory, the position of the first result in it
        for k, (name, _) in enumerate(self._stacked):
            owners.setdefault(memories.get(name, name), len(last) + k)
        return [*last, *[traces[name] for name, _ in self._stacked]], {*owners.values()}

    def _run(self, places: Mapping[str, Moved]) -> None:
        """Run all steps in memory that no other thread uses."""
        try:
            run = self._free.pop()
        except IndexError:
            run = self._calls.bind_steps({**self._objects, **self._storage.arrays()})
        run(places)
        self._free.append(run)


def _prepared(executor: Executor, x: Any) -> Any:
    """Return an array as calls of compiled code read it."""
    return executor.contiguous(x) if x.shape else executor.number(x)
