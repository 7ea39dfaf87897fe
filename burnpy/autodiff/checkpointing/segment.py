"""A section: one call of `checkpoint`, while its function runs for the first time, and when it runs again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import copy_context
from typing import Any
from weakref import ref

from burnpy.autodiff.checkpointing.arguments import (
    alone,
    arrays_in,
    handing_to,
    innermost,
    there_again,
    with_tensors,
    without_recipe,
)
from burnpy.autodiff.modes import Mode, Watcher, current_mode, using
from burnpy.autodiff.saved_tensors.slots import Saver, Stored, array_of, with_relays
from burnpy.backend.errors import SavedTensorsError
from burnpy.backend.fingerprint import Fingerprint
from burnpy.backend.op_context import capture_context
from burnpy.tensor.levels import reopened
from burnpy.tensor.rng_state import States, completed, replayed

_BEFORE = -1
"""The step before the first, at which the arguments are there."""


class Section(Saver):
    """One call of `checkpoint`.

    A run is a sequence of steps: a node that is recorded, or an argument that a section within hands over. The arrays
    that are kept have positions. An array is there after the step that computed it, where that was seen, which may be
    long before the one that keeps it; so a second run is over with the last array that is wanted, and the product that
    a section ends with is not computed again.
    """

    __slots__ = (
        *("args", "arguments", "check", "computed", "context", "function", "handles", "keepers", "kept", "kwargs"),
        *("nodes", "parents", "states", "step", "trace"),
    )

    leaves = False

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.context = copy_context()
        self.states: States | None = None  #: of random generators, to be drawn from again
        self.check = True  #: whether to compare values
        self.step = _BEFORE
        self.trace: list[Any] = []  #: each operation recorded, and the shape and dtype of each array that is kept
        self.handles: list[Any] = []  #: by position, a weak reference to what stands in place of the array,
        self.keepers: list[int] = []  #: the step that keeps it,
        self.kept: list[_Kept] = []  #: and what is known of it
        self.arguments: set[int] = set()  #: positions of the arguments of sections within
        self.computed: dict[int, _Kept] = {}  #: what steps computed, by id, while the function runs,
        self.nodes: dict[int, int] = {}  #: the step of each node, likewise,
        self.parents: list[list[int]] = []  #: and by step, those that it goes on from
        self._note(arrays_in((args, kwargs)))

    def first_run(self) -> AbstractContextManager[None]:
        """The block in which the function runs for the first time."""
        mode = current_mode() or Mode()
        return using(observers=(self, *mode.observers), takers=(self.take, *mode.takers))

    def __call__(self, device: Any, node: Any) -> None:
        """Note an operation, and put handles in place of its arrays."""
        self.step += 1
        self.trace.append(node.operation)
        steps = self.nodes
        parents = []
        for part in with_relays(node):
            for parent in (part.parent0, part.parent1):
                step = steps.get(id(parent))
                if step is not None:
                    parents.append(step)
        self.parents.append(parents)
        steps[id(node)] = self.step
        super().__call__(device, node)

    def of_leaf(self, x: Any) -> Any:
        """The array itself, but not for savers around this one."""
        return _Here(x)

    def handed(self, device: Any, x: Any) -> Any:
        """Likewise of an argument of a section within."""
        self.step += 1
        self.trace.append("checkpoint")
        self.parents.append([])
        self.arguments.add(len(self.handles))
        return self.swapped(device, "checkpoint", x)

    def swapped(self, device: Any, operation: str, x: Any) -> Any:
        """What stands in place of an array; it holds the array as long as the function runs, which may want it."""
        handle = _Handle(self, len(self.handles), x)
        self.handles.append(ref(handle))
        self.keepers.append(self.step)
        self.trace.append((x.shape, x.dtype))
        array = array_of(x)
        kept = self.computed.get(id(array))
        if kept is None or kept.seen is None or kept.seen() is not array:  # an id may be given again
            kept = _Kept(self.step, None, None)
        kept.device = device
        self.kept.append(kept)
        return handle

    def take(self, device: Any, value: Any) -> None:
        """Note that this step computed a value."""
        self._note(innermost(value))

    def _note(self, primitives: Sequence[Any]) -> None:
        for k, x in enumerate(primitives):
            array = array_of(x)
            try:
                self.computed[id(array)] = _Kept(self.step, k, ref(array))
            except TypeError:  # of a NumPy scalar there are no weak references
                continue

    def close(self, outer: Saver | None) -> None:
        """Drop the arrays; hand the arguments to the section or the hooks around this one."""
        if self.check:
            self._sample()
        self.computed, self.nodes, self.parents = {}, {}, []
        if not self.handles:
            return
        for handle in self.handles:
            alive = handle()
            if alive is not None:
                alive.array = None
        if self.states is not None:
            self.states = completed(self.states)
        hand = alone if outer is None else handing_to(outer)
        self.args, self.kwargs = with_tensors(hand, self.args), with_tensors(hand, self.kwargs)

    def _sample(self) -> None:
        """Take samples of what is kept, but not of what led to something of which there is one: if it were another,
        that would be, too."""
        steps: dict[int, list[tuple[_Kept, Any]]] = {}
        for kept, handle in zip(self.kept, self.handles, strict=True):
            alive = handle()
            if alive is not None and alive.array is not None and kept.step != _BEFORE:
                steps.setdefault(kept.step, []).append((kept, alive.array))
        sampled = [False] * len(self.parents)
        for step in range(len(self.parents) - 1, -1, -1):
            for kept, array in steps.get(step, ()):
                if kept.sample is None and (kept.index is None or not sampled[step]):
                    kept.sample = kept.device.discrete.fingerprint(array_of(array))
            if sampled[step] or any(kept.index is not None for kept, _ in steps.get(step, ())):
                for parent in self.parents[step]:
                    sampled[parent] = True

    def ran_again(self, wanted: int) -> Any:
        """Run the function again, give every node that is left its array, and return the one that is wanted."""
        second = _SecondRun(self)
        watchers = (current_mode() or Mode()).watchers
        self.context.copy().run(second.run, watchers, capture_context())
        for position in second.wanted:
            alive = self.handles[position]()
            if alive is not None and position != wanted:
                alive.array = second.arrays[position]
        return second.arrays[wanted]


class _Kept:
    """What a section remembers of an array."""

    __slots__ = ("device", "index", "sample", "seen", "step")

    def __init__(self, step: int, index: int | None, seen: Callable[[], Any] | None) -> None:
        self.step = step  #: after which it is there
        self.index = index  #: its number among the arrays that this step computed; None where that was not seen
        self.seen = seen  #: the array as long as it is alive
        self.device: Any = None
        self.sample: Fingerprint | None = None  #: some of its elements


class _Handle(Stored):
    """What stands in place of an array: its section and its position there."""

    __slots__ = ("__weakref__", "array", "deferred", "position", "section")

    def __init__(self, section: Section, position: int, array: Any) -> None:
        self.section, self.position, self.array = section, position, array
        self.deferred = hasattr(array, "read")  #: whether the vjp knows what to do with a recipe

    def restored(self) -> Any:
        """The array, which is let go by this; each time that it is not there, the section runs again."""
        array, self.array = self.array, None
        if array is None:
            array = self.section.ran_again(self.position)
        return array if self.deferred or not hasattr(array, "read") else array.read()


class _Here(Stored):
    """What stands in place of an array that is where it was."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def restored(self) -> Any:
        """The array."""
        return self.array


class _Enough(BaseException):  # no error, and nothing that a function should handle
    """Ends a second run of which nothing more is wanted."""


class _SecondRun(Saver):
    """Takes the arrays of a second run, and compares what happens with the first."""

    __slots__ = ("arrays", "compared", "early", "last", "position", "section", "step", "traced", "wanted")

    leaves = False

    def __init__(self, section: Section) -> None:
        self.section = section
        self.step, self.position, self.traced = _BEFORE, 0, 0
        self.wanted = [k for k, handle in enumerate(section.handles) if handle() is not None]
        self.last = max(section.kept[k].step for k in self.wanted)  #: the step that this run ends with
        self.early: dict[int, list[int]] = {}  #: by step, positions of what only a later step than the last keeps
        for k in self.wanted:
            if section.keepers[k] > self.last:
                self.early.setdefault(section.kept[k].step, []).append(k)
        self.arrays: dict[int, Any] = dict.fromkeys(self.wanted)
        self.compared: set[_Kept] = set()

    def run(self, watchers: tuple[Watcher, ...], bring: Callable[[], None]) -> None:
        """Run the function as far as it is wanted."""
        bring()
        section = self.section
        args, kwargs = with_tensors(there_again, section.args), with_tensors(there_again, section.kwargs)
        if _BEFORE in self.early:
            self._take_early(None, arrays_in((args, kwargs)))
        if self.last == _BEFORE:
            return
        drawing = nullcontext() if section.states is None else replayed(section.states)
        with suppress(_Enough), using(observers=(self,), takers=(self.take,), watchers=watchers), reopened(), drawing:
            section.function(*args, **kwargs)
        if self.step < self.last:
            raise self._different(
                f"ended where the first had {_shown(section.trace[self.traced])} as step {self.traced}"
            )

    def __call__(self, device: Any, node: Any) -> None:
        """See that this is the same operation as the first time, and take its arrays, which stay where they are."""
        self._begin(node.operation)
        super().__call__(device, node)

    def handed(self, device: Any, x: Any) -> Any:
        """Likewise of an argument of a section within."""
        self._begin("checkpoint")
        self.swapped(device, "checkpoint", x)
        if self.step == self.last:
            raise _Enough
        return x

    def swapped(self, device: Any, operation: str, x: Any) -> Any:
        """The array itself."""
        self._expect((x.shape, x.dtype))
        if self.position in self.arrays:
            self._enter(device, self.position, x)
        self.position += 1
        return x

    def take(self, device: Any, value: Any) -> None:
        """Take of a value what would be kept later, if this is where the run ends."""
        if self.step in self.early:
            self._take_early(device, innermost(value))
        if self.step == self.last:
            raise _Enough

    def _take_early(self, device: Any, primitives: Sequence[Any]) -> None:
        for position in self.early[self.step]:
            kept = self.section.kept[position]
            x = primitives[kept.index or 0]
            if position in self.section.arguments:
                x = without_recipe(x)
            elif hasattr(x, "kept"):
                x = x.kept()
            self._enter(device, position, x)

    def _enter(self, device: Any, position: int, x: Any) -> None:
        kept = self.section.kept[position]
        if kept.sample is not None and kept not in self.compared:
            self.compared.add(kept)
            again = device.discrete.fingerprint(array_of(x))
            if again is not None and not kept.sample.resembles(again):
                operation = next(step for step in reversed(self.section.trace[: self.traced]) if isinstance(step, str))
                raise self._different(
                    f"has other values in what {operation} made or kept, of shape {x.shape} and dtype {x.dtype}, than "
                    "the first"
                )
        self.arrays[position] = x

    def _begin(self, operation: str) -> None:
        if self.step == self.last:  # of which there was no value to take, or the function handled the end
            raise _Enough
        self._expect(operation)
        self.step += 1

    def _expect(self, found: Any) -> None:
        expected = self.section.trace[self.traced]
        if expected != found:
            raise self._different(f"has {_shown(found)} as step {self.traced}, where the first had {_shown(expected)}")
        self.traced += 1

    def _different(self, what: str) -> SavedTensorsError:
        function = self.section.function
        name = getattr(function, "__qualname__", repr(function))
        return SavedTensorsError(
            f"checkpoint() ran {name} again for a backward pass, and the second run {what}; a checkpointed function "
            "must do the same each time: keep state, and randomness that is not from default generators, out of it"
        )


def _shown(step: Any) -> str:
    return step if isinstance(step, str) else f"an array of shape {step[0]} and dtype {step[1]} kept"
