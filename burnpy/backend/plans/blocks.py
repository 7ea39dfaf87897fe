"""Loops and branches of a recording: `Loop`, `WhileLoop` and `Choice`, whose bodies are recordings of their own.

Each is one node of the outer recording, a call of `Backend.nested`. It makes the plans of its bodies at its first run
on a device, and runs them as often as the values say. Values are passed in a fixed order: those that stay the same,
those that a step changes, and those that have one slice for each step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.backend.dtypes import kind_of
from burnpy.backend.plans.loops import MOST_ELEMENTS, StepLoop
from burnpy.backend.plans.memory import Sharing
from burnpy.backend.plans.plan import Plan
from burnpy.backend.plans.recording import Recording, alike, part, refs_in, simplified
from burnpy.backend.primitives import DType, Shape, Value

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend


_STEPS_OF_PYTHON = 10
"""The number of steps that Python makes one by one, as preparing one call for so few takes longer."""
_FIRST_AHEAD, _MOST_AHEAD = 8, 512
"""The number of steps of a `WhileLoop` that are computed at a time, at first and at most."""


class Block:
    """A part of a recording that runs other recordings.

    Args:
        recordings: the recordings that it runs.
    """

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self.recordings = tuple(recordings)
        self.effect = any(node.effect for recording in recordings for node in recording.nodes)
        """True if it does more than compute results, such as drawing random numbers."""
        self.draws = any(node.draws for recording in recordings for node in recording.nodes)
        """True if it draws random numbers."""
        self._plans: dict[Backend, list[Plan]] = {}
        self._loops: dict[Backend, Any] = {}  # what makes many steps in one call, of blocks that can
        self._fixed: list[dict[int, Value]] = [{} for _ in recordings]
        self._shared = [_shared(recording) for recording in recordings]

    def plans(self, device: Backend) -> list[Plan]:
        """Return the plans of the recordings on a device, which the first call makes."""
        plans = self._plans.get(device)
        if plans is None:
            pairs = zip(self.recordings, self._fixed, strict=True)
            plans = [Plan(recording, device, unroll=True, fixed=fixed) for recording, fixed in pairs]
            self._plans[device] = plans
        return plans

    def fixing(self, given: Mapping[int, Value]) -> Block:
        """Return the block for one plan, in which some values are the same in each run; they are given by position."""
        block = copy(self)
        block._plans, block._loops = {}, {}
        block._fixed = [
            {k: given[place] for k, place in enumerate(places) if place in given} for places in self._still()
        ]
        return block

    def _still(self) -> Sequence[Sequence[int]]:
        """Return for each recording the positions of the values of its first inputs, which no step changes."""
        return [() for _ in self.recordings]

    @property
    def description(self) -> str:
        """The words for it in explanations."""
        raise NotImplementedError

    def run(self, device: Backend, values: Sequence[Value]) -> tuple[Value, ...]:
        """Return the results for values, in memory that nothing else shares."""
        raise NotImplementedError

    def shapes(self) -> list[tuple[Shape, DType]]:
        """Return the shape and dtype of each result."""
        return [(ref.shape, ref.dtype) for ref in self.recordings[-1].outputs]

    def alike(self, other: Block) -> bool:
        """Return whether another block runs the same operations as often."""
        mine, others = self.recordings, other.recordings
        return (
            type(self) is type(other)
            and self._settings() == other._settings()
            and len(mine) == len(others)
            and all(
                len(one.nodes) == len(two.nodes)
                and all(alike(a, b, one, two) for a, b in zip(one.nodes, two.nodes, strict=True))
                for one, two in zip(mine, others, strict=True)
            )
        )

    def _settings(self) -> tuple[Any, ...]:
        """Return what distinguishes blocks of equal recordings."""
        return ()

    def _own(self, device: Backend, number: int, results: Sequence[Value]) -> list[Value]:
        """Return results of a recording, with those copied that share memory with its inputs or with each other."""
        shared = self._shared[number]
        return [_copied(device, x) if k in shared else x for k, x in enumerate(results)]


class Loop(Block):
    """A recording that runs for a fixed number of steps, each with the values of the one before it.

    The recording's inputs are the fixed values, the carried ones, and the slices of this step; its outputs the carried
    values and those that each step adds to a stack. The results are the last carried values, and the stacks.

    Args:
        body: the recording of one step.
        carried: the number of carried values.
        sliced: the number of values with a slice for each step.
        length: the number of steps, at least one.
        reverse: whether the last step comes first.
    """

    def __init__(self, body: Recording, carried: int, sliced: int, length: int, reverse: bool) -> None:
        super().__init__([body])
        self.carried, self.sliced, self.length, self.reverse = carried, sliced, length, reverse

    def _still(self) -> Sequence[Sequence[int]]:
        return [range(len(self.recordings[0].inputs) - self.carried - self.sliced)]

    def run(self, device: Backend, values: Sequence[Value]) -> tuple[Value, ...]:
        """Run all steps."""
        return self.over(device, values, self.length)

    def over(self, device: Backend, values: Sequence[Value], length: int) -> tuple[Value, ...]:
        """Run a number of steps, at least one."""
        (plan,) = self.plans(device)
        count = self.carried
        if device not in self._loops:
            self._loops[device] = plan.steps(count, self.sliced)
        loop: StepLoop | None = self._loops[device]
        if loop is not None and length >= _STEPS_OF_PYTHON:
            results, owning = loop.run(values, length, self.reverse)
            return tuple([x if k in owning else _copied(device, x) for k, x in enumerate(results)])
        fixed = list(values[: len(values) - count - self.sliced])
        xs = values[len(values) - self.sliced :]
        state = list(values[len(fixed) : len(fixed) + count])
        stacks: list[list[Value]] = [[] for _ in range(len(self.recordings[0].outputs) - count)]
        steps = range(length - 1, -1, -1) if self.reverse else range(length)
        cut = device.slice
        for k in steps:
            outs = plan([*fixed, *state, *[cut(x, (k,)) for x in xs]])
            state = outs[:count]
            for stack, out in zip(stacks, outs[count:], strict=True):
                stack.append(out)
        if self.reverse:
            for stack in stacks:
                stack.reverse()
        return (*self._own(device, 0, state), *[device.stack(stack, 0) for stack in stacks])

    def shapes(self) -> list[tuple[Shape, DType]]:
        """Return the shapes and dtypes of the last carried values, and of the stacks."""
        all_shapes = super().shapes()
        return all_shapes[: self.carried] + [((self.length, *shape), d) for shape, d in all_shapes[self.carried :]]

    @property
    def description(self) -> str:
        """The words for it in explanations."""
        return f"scan of {self.length} steps"

    def _settings(self) -> tuple[Any, ...]:
        return self.carried, self.sliced, self.length, self.reverse


class WhileLoop(Block):
    """A recording that runs for as long as a bool is True, each time with the values of the time before.

    Where steps on few elements are one call of compiled code, they run ahead of the bool, more and more at a time; the
    steps after its first False are dropped.

    Args:
        step: the recording of one step. Its inputs are the fixed values and the carried ones, its outputs the carried
            values after the step, and the bool before it.
        carried: the number of carried values.
        tested: the number of the nodes that compute the bool, which come first. Only they have effects before it is
            known.
    """

    def __init__(self, step: Recording, carried: int, tested: int) -> None:
        *new, answer = step.outputs
        known = [node.replacement(node.name, node.args, node.results) for node in step.nodes[:tested]]
        super().__init__(
            [
                part(step, step.nodes[:tested], step.inputs, [answer]),
                part(step, [*known, *step.nodes[tested:]], step.inputs, new),
            ]
        )
        self.carried, self._step = carried, step
        inputs = step.inputs[len(step.inputs) - carried :]
        self._changed = [k for k, (old, ref) in enumerate(zip(inputs, new, strict=True)) if old is not ref]

    def _still(self) -> Sequence[Sequence[int]]:
        return [range(len(self._step.inputs) - self.carried)] * 2

    def _ahead(self, device: Backend) -> tuple[Plan, StepLoop] | None:
        """Return the plan of a step with the bool before it, and many of them as one call; None if they are not."""
        if device not in self._loops:
            refs = [ref for node in self._step.nodes for ref in refs_in((node.args, node.results))]
            plan = loop = None
            if not self.effect and all(math.prod(ref.shape) <= MOST_ELEMENTS for ref in refs):
                new = self._step.outputs
                whole = part(self._step, self._step.nodes, self._step.inputs, [*new, *[new[k] for k in self._changed]])
                plan = Plan(whole, device, unroll=True, fixed=self._fixed[1])
                loop = plan.steps(self.carried, 0)
            self._loops[device] = None if plan is None or loop is None else (plan, loop)
        found: tuple[Plan, StepLoop] | None = self._loops[device]
        return found

    def run(self, device: Backend, values: Sequence[Value]) -> tuple[Value, ...]:
        """Run steps while the condition holds."""
        first = values[len(values) - self.carried :]
        last = self.trace(device, values, keep=False).last
        if all(x is y for x, y in zip(first, last, strict=True)):
            return tuple([_copied(device, x) for x in last])
        return tuple(self._own(device, 1, last))

    def trace(self, device: Backend, values: Sequence[Value], keep: bool = True) -> Trace:
        """Run steps while the condition holds; return the values before each of them, if they are to be kept."""
        fixed, state = split_at(values, len(values) - self.carried)
        ahead, last = self._ahead(device), list(state)
        if ahead is None:
            return self._one_by_one(device, fixed, last, keep)
        plan, loop = ahead
        early: list[list[Value]] = []
        for _ in range(_STEPS_OF_PYTHON):
            outs = plan([*fixed, *last])
            if not device.to_numpy(outs[self.carried]).item():
                return Trace(early, [], 0, last)
            early.append(last)
            last = outs[: self.carried]
        pieces: list[list[Value]] = []  # the stacks of the values after each step, for each call
        begin, total, count = last, 0, _FIRST_AHEAD
        while True:
            results, _ = loop.run([*fixed, *last], count, False)
            goes_on = device.to_numpy(results[self.carried])
            steps = count if goes_on.all() else int(goes_on.argmin())
            if steps:
                stacks = [device.slice(x, (slice(0, steps, 1),)) for x in results[self.carried + 1 :]]
                pieces.append(stacks if keep else [])
                last = self._after(device, last, stacks, steps)
            total += steps
            if steps < count:
                return Trace(early, self._before(device, begin, pieces, total) if keep else [], total, last)
            count = min(2 * count, _MOST_AHEAD)

    def _one_by_one(self, device: Backend, fixed: Sequence[Value], last: list[Value], keep: bool) -> Trace:
        """Run steps each after the bool before it is known."""
        condition, step = self.plans(device)
        early: list[list[Value]] = []
        while device.to_numpy(condition([*fixed, *last])[0]).item():
            if keep:
                early.append(last)
            last = step([*fixed, *last])
        return Trace(early, [], 0, last)

    def _after(self, device: Backend, last: list[Value], stacks: list[Value], steps: int) -> list[Value]:
        """Return the carried values after some steps, given those before and the stacks of those that change."""
        last = list(last)
        for k, stack in zip(self._changed, stacks, strict=True):
            last[k] = device.slice(stack, (steps - 1,))
        return last

    def _before(self, device: Backend, begin: list[Value], pieces: list[list[Value]], length: int) -> list[Value]:
        """Return the values before each step as stacks, given those before the first and the stacks after each one."""
        stacks: list[Value] = []
        for k, x in enumerate(begin if length else ()):
            row = device.reshape(x, (1, *x.shape))
            if k in self._changed:
                parts = [piece[self._changed.index(k)] for piece in pieces]
                stacks.append(device.slice(device.cat([row, *parts], 0), (slice(0, length, 1),)))
            else:
                stacks.append(device.expand(row, (length, *x.shape)))
        return stacks

    @property
    def description(self) -> str:
        """The words for it in explanations."""
        return "while_loop: the condition and the body"

    def _settings(self) -> tuple[Any, ...]:
        return (self.carried,)


class Trace(NamedTuple):
    """The values that a `WhileLoop` carried: before each of the first steps, as stacks before the others, and last."""

    early: list[list[Value]]
    late: list[Value]
    length: int  #: the number of the steps in the stacks
    last: list[Value]


class WhileGradient(Block):
    """The gradient of a `WhileLoop`: the loop again, for the values before each step, and its steps from the last on.

    Its values are the fixed ones of the loop and of the gradient, the carried ones, the gradients of the last carried
    values, and zeros for the sums of gradients of fixed values.

    Args:
        loop: the loop.
        gradient: the recording of the gradient of one step; its inputs are its own fixed values, the gradients of the
            values after the step, the sums, and the values before the step; its outputs the gradients of these, and
            the sums.
        grads: the number of gradients and sums.
    """

    def __init__(self, loop: WhileLoop, gradient: Recording, grads: int) -> None:
        super().__init__([*loop.recordings, gradient])
        self.loop, self.grads = loop, grads
        self._back = Loop(gradient, grads, loop.carried, 0, True)

    def run(self, device: Backend, values: Sequence[Value]) -> tuple[Value, ...]:
        """Run the steps forward, and then backward."""
        begin = len(self.loop.recordings[0].inputs) - self.loop.carried
        rest, grads = split_at(values, len(values) - self.grads)
        rest, state = split_at(rest, len(rest) - self.loop.carried)
        early, late, length, _ = self.loop.trace(device, [*rest[:begin], *state])
        if not early:
            return tuple([_copied(device, x) for x in grads])
        if length:
            grads = self._back.over(device, [*rest[begin:], *grads, *late], length)
        (plan,) = self._back.plans(device)
        for before in reversed(early):
            grads = plan([*rest[begin:], *grads, *before])
        return tuple(self._own(device, 2, grads))

    @property
    def description(self) -> str:
        """The words for it in explanations."""
        return "gradient of while_loop: the condition, the body and its gradient"

    def _settings(self) -> tuple[Any, ...]:
        return self.loop.carried, self.grads


def split_at(values: Sequence[Value], position: int) -> tuple[Sequence[Value], Sequence[Value]]:
    """Return the values before a position, and the others."""
    return values[:position], values[position:]


class Choice(Block):
    """Two recordings; the value of a bool chooses one of them.

    Its values are the bool, the fixed values of the first recording, those of the second one, and those of both.

    Args:
        if_true: the recording that runs for True; its inputs are its own fixed values and those of both.
        if_false: the one that runs for False, with outputs of the same shapes and dtypes.
        common: the number of values that both take.
    """

    def __init__(self, if_true: Recording, if_false: Recording, common: int) -> None:
        super().__init__([if_true, if_false])
        self.common = common

    def run(self, device: Backend, values: Sequence[Value]) -> tuple[Value, ...]:
        """Run one of the recordings."""
        chosen = 0 if device.to_numpy(values[0]).item() else 1
        given = [values[k] for k in self._still()[chosen]]
        return tuple(self._own(device, chosen, self.plans(device)[chosen](given)))

    def _still(self) -> Sequence[Sequence[int]]:
        own, other = [len(recording.inputs) - self.common for recording in self.recordings]
        end = 1 + own + other
        both = range(end, end + self.common)
        return [*range(1, 1 + own), *both], [*range(1 + own, end), *both]

    @property
    def description(self) -> str:
        """The words for it in explanations."""
        return "cond: the branches for True and False"

    def _settings(self) -> tuple[Any, ...]:
        return (self.common,)


def _copied(device: Backend, x: Value) -> Value:
    """Return a copy in new memory, with the same bits."""
    kind = kind_of(x.dtype)
    if kind == "float":
        return device.mul(x, 1)
    return device.bitwise_or(x, x)


def _shared(recording: Recording) -> set[int]:
    """Return the positions of the outputs that may share memory with an input, a constant or an earlier output."""
    nodes, outputs = simplified(recording)
    sharing = Sharing(nodes, outputs)
    made = {ref.number for node in nodes for ref in refs_in(node.results) if sharing.root(ref) == ref.number}
    shared: set[int] = set()
    for k, ref in enumerate(outputs):
        root = sharing.root(ref)
        if root in made:
            made.remove(root)
        else:
            shared.add(k)
    return shared
