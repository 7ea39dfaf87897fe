"""`Section`: one call of `checkpoint`, during the first run of its function and the second, and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import copy_context
from typing import Any
from weakref import ref

from burnpy.autodiff.graph import Leaf, mapped, with_relays
from burnpy.autodiff.recording import Interceptor, Mode, current_mode, using
from burnpy.autodiff.tools.saved_tensors import Saver, Stored, array_of, restored
from burnpy.autodiff.tools.user_code import map_members, tensors_in
from burnpy.backend.backend import Fingerprint
from burnpy.backend.call_origin import capture_context
from burnpy.backend.errors import SavedTensorsError
from burnpy.tensor.generator import States, completed, replayed
from burnpy.tensor.levels import reopened
from burnpy.tensor.tensor_base import TensorBase, new_tensor

_BEFORE = -1
"""The step before the first one, at which the arguments exist."""


class Section(Saver):
    """One call of `checkpoint`: a saver that replaces all saved arrays of a section by handles.

    A run is a sequence of steps: a step records a node, or saves an argument of a nested section. Saved arrays are
    numbered by position. An array exists from the step that computed it on, if that step was observed; the step that
    saves the array may come much later. So the second run stops at the last array that is needed, and a product at the
    end of a section is not computed again.
    """

    __slots__ = (
        *("args", "arguments", "check", "computed", "context", "function", "handles", "keepers", "kept", "kwargs"),
        *("nodes", "parents", "states", "step", "trace"),
    )

    leaves = False

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.context = copy_context()
        self.states: States | None = None  #: states of the random generators, restored for the second run
        self.check = True  #: whether to compare values
        self.step = _BEFORE
        self.trace: list[Any] = []  #: each recorded operation, and the shape and dtype of each saved array
        self.handles: list[Any] = []  #: by position, a weak reference to the array's handle,
        self.keepers: list[int] = []  #: the step that saves the array,
        self.kept: list[_SavedArray] = []  #: and the record of the array
        self.arguments: set[int] = set()  #: positions of the arguments of nested sections
        self.computed: dict[int, _SavedArray] = {}  #: arrays that steps computed, by id, while the function runs,
        self.nodes: dict[int, int] = {}  #: the step of each node, by id of the node,
        self.parents: list[list[int]] = []  #: and by step, the steps of the node's parents
        self._note(arrays_in((args, kwargs)))

    def first_run(self) -> AbstractContextManager[None]:
        """Return the context manager in which the function runs for the first time."""
        mode = current_mode() or Mode()
        return using(observers=(self, *mode.observers), value_observers=(self.take, *mode.value_observers))

    def __call__(self, device: Any, node: Any) -> None:
        """Record an operation as a step and replace its saved arrays by handles."""
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
        """Return a wrapper that leaves the array in place, and that enclosing savers do not replace."""
        return _Here(x)

    def handed(self, device: Any, x: Any) -> Any:
        """Record an argument of a nested section as a step and replace its array by a handle."""
        self.step += 1
        self.trace.append("checkpoint")
        self.parents.append([])
        self.arguments.add(len(self.handles))
        return self.swapped(device, "checkpoint", x)

    def swapped(self, device: Any, operation: str, x: Any) -> Any:
        """Return the handle for an array; it keeps the array while the function runs, which may need it."""
        handle = _Handle(self, len(self.handles), x)
        self.handles.append(ref(handle))
        self.keepers.append(self.step)
        self.trace.append((x.shape, x.dtype))
        array = array_of(x)
        kept = self.computed.get(id(array))
        if kept is None or kept.seen is None or kept.seen() is not array:  # ids of freed arrays may be reused
            kept = _SavedArray(self.step, None, None)
        kept.device = device
        self.kept.append(kept)
        return handle

    def take(self, device: Any, value: Any) -> None:
        """Record that this step computed a value."""
        self._note(innermost_arrays(value))

    def _note(self, primitives: Sequence[Any]) -> None:
        for k, x in enumerate(primitives):
            array = array_of(x)
            try:
                self.computed[id(array)] = _SavedArray(self.step, k, ref(array))
            except TypeError:  # NumPy scalars have no weak references
                continue

    def close(self, outer: Saver | None) -> None:
        """End the first run: drop the arrays, and pass the arguments to the saver around this section, if any."""
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
        hand = without_saver if outer is None else handing_to(outer)
        self.args, self.kwargs = map_members(TensorBase, hand, (self.args, self.kwargs))

    def _sample(self) -> None:
        """Take fingerprints of saved arrays, except of those that led to an array with a fingerprint: if they differed
        in the second run, that array would differ too."""
        steps: dict[int, list[tuple[_SavedArray, Any]]] = {}
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

    def ran_again(self, needed: int) -> Any:
        """Run the function again, assign its arrays to all living handles, and return the ``needed`` one."""
        second = _SecondRun(self)
        interceptors = (current_mode() or Mode()).interceptors
        self.context.copy().run(second.run, interceptors, capture_context())
        for position in second.needed:
            alive = self.handles[position]()
            if alive is not None and position != needed:
                alive.array = second.arrays[position]
        return second.arrays[needed]


class _SavedArray:
    """A section's record of an array."""

    __slots__ = ("device", "index", "sample", "seen", "step")

    def __init__(self, step: int, index: int | None, seen: Callable[[], Any] | None) -> None:
        self.step = step  #: the step that computed it
        self.index = index  #: its number among the arrays that this step computed; None if that was not observed
        self.seen = seen  #: a weak reference to the array
        self.device: Any = None
        self.sample: Fingerprint | None = None  #: some of its elements


class _Handle(Stored):
    """A placeholder for an array: the section and the array's position in it."""

    __slots__ = ("__weakref__", "array", "deferred", "position", "section")

    def __init__(self, section: Section, position: int, array: Any) -> None:
        self.section, self.position, self.array = section, position, array
        self.deferred = hasattr(array, "read")  #: whether the vjp accepts a recipe

    def restored(self) -> Any:
        """Return the array and release it; if it is not present, the section runs again."""
        array, self.array = self.array, None
        if array is None:
            array = self.section.ran_again(self.position)
        return array if self.deferred or not hasattr(array, "read") else array.read()


class _Here(Stored):
    """A wrapper of an array that stays in place."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def restored(self) -> Any:
        return self.array


class _Enough(BaseException):  # a BaseException, so that the function's own handlers do not catch it
    """Ends the second run when no more arrays are needed."""


class _SecondRun(Saver):
    """A saver that collects the arrays of the second run and compares its steps with those of the first."""

    __slots__ = ("arrays", "compared", "early", "last", "needed", "position", "section", "step", "traced")

    leaves = False

    def __init__(self, section: Section) -> None:
        self.section = section
        self.step, self.position, self.traced = _BEFORE, 0, 0
        self.needed = [k for k, handle in enumerate(section.handles) if handle() is not None]
        self.last = max(section.kept[k].step for k in self.needed)  #: the step that this run ends with
        self.early: dict[int, list[int]] = {}  #: by step, positions of arrays that are saved after the last step only
        for k in self.needed:
            if section.keepers[k] > self.last:
                self.early.setdefault(section.kept[k].step, []).append(k)
        self.arrays: dict[int, Any] = dict.fromkeys(self.needed)
        self.compared: set[_SavedArray] = set()

    def run(self, interceptors: tuple[Interceptor, ...], bring: Callable[[], None]) -> None:
        """Run the function up to the last step that is needed."""
        bring()
        section = self.section
        args, kwargs = map_members(TensorBase, with_restored, (section.args, section.kwargs))
        if _BEFORE in self.early:
            self._take_early(None, arrays_in((args, kwargs)))
        if self.last == _BEFORE:
            return
        drawing = nullcontext() if section.states is None else replayed(section.states)
        with (
            suppress(_Enough),
            using(observers=(self,), value_observers=(self.take,), interceptors=interceptors),
            reopened(),
            drawing,
        ):
            section.function(*args, **kwargs)
        if self.step < self.last:
            raise self._different(
                f"ended where the first had {_shown(section.trace[self.traced])} as step {self.traced}"
            )

    def __call__(self, device: Any, node: Any) -> None:
        """Check that this is the same operation as in the first run, and collect its arrays without replacing them."""
        self._begin(node.operation)
        super().__call__(device, node)

    def handed(self, device: Any, x: Any) -> Any:
        """Do the same for an argument of a nested section."""
        self._begin("checkpoint")
        self.swapped(device, "checkpoint", x)
        if self.step == self.last:
            raise _Enough
        return x

    def swapped(self, device: Any, operation: str, x: Any) -> Any:
        """Collect the array and return it unchanged."""
        self._expect((x.shape, x.dtype))
        if self.position in self.arrays:
            self._enter(device, self.position, x)
        self.position += 1
        return x

    def take(self, device: Any, value: Any) -> None:
        """Collect the arrays of a value that the first run saved later, and end the run at the last step."""
        if self.step in self.early:
            self._take_early(device, innermost_arrays(value))
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
                    f"has other values in a result or saved value of {operation}, of shape {x.shape} and dtype "
                    f"{x.dtype}, than the first"
                )
        self.arrays[position] = x

    def _begin(self, operation: str) -> None:
        if self.step == self.last:  # the last step computed no value, or the function swallowed _Enough
            raise _Enough
        self._expect(operation)
        self.step += 1

    def _expect(self, actual: Any) -> None:
        expected = self.section.trace[self.traced]
        if expected != actual:
            raise self._different(f"has {_shown(actual)} as step {self.traced}, where the first had {_shown(expected)}")
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


def innermost_arrays(value: Any) -> Sequence[Any]:
    """Return the innermost arrays, or deferred primitives, of a primitive."""
    if not hasattr(value, "mapped"):
        return (value,)
    arrays: list[Any] = []

    def collect(x: Any) -> Any:
        arrays.append(x)
        return x

    mapped(collect, value)
    return arrays


def arrays_in(arguments: Any) -> list[Any]:
    """Return the innermost arrays of all tensors in nested tuples, lists and dicts."""
    return [x for tensor in tensors_in(arguments) for x in innermost_arrays(tensor._primitive)]


def handing_to(outer: Saver) -> Callable[[TensorBase[Any]], TensorBase[Any]]:
    """Return a function that lets the saver around a section replace the arrays of the section's arguments."""

    def handed(x: TensorBase[Any]) -> TensorBase[Any]:
        if _is_leaf(x):
            return x  # the graph keeps it alive anyway
        return _with_arrays(x, lambda array: outer.handed(x.device, without_recipe(array)))

    return handed


def _is_leaf(x: TensorBase[Any]) -> bool:
    node = getattr(x._primitive, "node", None)
    return node is not None and node.target.__class__ is Leaf


def without_saver(x: TensorBase[Any]) -> TensorBase[Any]:
    """Return a section's argument without the recipe for recomputing it, for a section with no saver around it."""
    if _is_leaf(x):
        return x
    return _with_arrays(x, without_recipe)


def without_recipe(x: Any) -> Any:
    """Return a deferred primitive that has only its array and no recipe; arrays are returned unchanged."""
    return x.holding(array_of(x)) if hasattr(x, "holding") else x


def with_restored(x: TensorBase[Any]) -> TensorBase[Any]:
    """Return a section's argument with its arrays restored."""
    return _with_arrays(x, restored)


def _with_arrays(x: TensorBase[Any], f: Callable[[Any], Any]) -> TensorBase[Any]:
    return new_tensor(type(x), x._device, mapped(f, x._primitive))  # type: ignore[no-any-return]  # of that class
