"""Checkpointing: parts of a forward pass that keep nothing but their arguments, and run again when a backward pass
comes to them.

The first run records its graph as always, but every array that a node would keep is dropped, and a number stands in its
place. The first pull that wants one of them has the whole section run again, on the same arguments and random numbers,
and takes the arrays of that run's nodes in order: a node holds its own, so that each goes as it is used, or with its
node. Nothing recurses from one section into the next; of nested ones the inner section's arguments are among what
the outer one drops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar, overload
from weakref import ref

from burnpy.autodiff.graph import Leaf, mapped
from burnpy.autodiff.modes import Mode, Watcher, current_mode, observing, using
from burnpy.autodiff.saving.fingerprint import Fingerprint, fingerprint, same, with_tensors
from burnpy.autodiff.saving.keeping import Saver, Stored, array_of, innermost_saver, refuse_where_disabled, restored
from burnpy.backend.errors import ArgumentError, SavedTensorsError
from burnpy.backend.place import carried
from burnpy.tensor.base import TensorBase, made
from burnpy.tensor.levels import reopened
from burnpy.tensor.replay import States, completed, replayed, states

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@overload
def checkpoint(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
@overload
def checkpoint(  # type: ignore[overload-cannot-match]  # it is, by calls that the function itself could not take
    function: Callable[..., R],
    *args: Any,
    preserve_rng_state: bool = True,
    determinism_check: bool = True,
    **kwargs: Any,
) -> R: ...
def checkpoint(  # type: ignore[misc]  # the options are taken from what is handed on
    function: Callable[..., R],
    *args: Any,
    preserve_rng_state: bool = True,
    determinism_check: bool = True,
    **kwargs: Any,
) -> R:
    """``function(*args, **kwargs)``, of which the graph keeps the arguments only; a backward pass runs it again.

    Results and derivatives of any order are the same as without, whatever the function returns, and whether its tensors
    are arguments or come from outside. Tracked or not is as without, too; where nothing is tracked this is a call.

    Args:
        function: computes the same each time, and changes nothing outside; modes, and other context variables, are
            those of the first time.
        args: handed on; tensors may stand in tuples, lists and dicts.
        preserve_rng_state: draw the same numbers from default generators again, as for dropout. A generator that the
            function is given, or has, is not turned back.
        determinism_check: compare some elements of the results of both runs, where the device need not be waited for.
        kwargs: handed on.

    Raises:
        SavedTensorsError: hooks are disabled here; in the backward pass: the second run did something else.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> y = checkpoint(lambda x: (x * x).exp(), x)
    >>> x.grad(y.sum().backward()).tolist() == x.grad((x * x).exp().sum().backward()).tolist()
    True
    """
    refuse_where_disabled("checkpoint()")
    outer = innermost_saver()
    section = _Section(function, args, kwargs)
    section.states = states() if preserve_rng_state else None
    with observing(section):
        results = function(*args, **kwargs)
    section.close(results, outer, determinism_check)
    return results


def checkpoint_sequential(
    functions: Iterable[Callable[[T], T]], segments: int, x: T, *, preserve_rng_state: bool = True
) -> T:
    """One function after another, checkpointed in ``segments`` parts of equal length.

    The last part, which a backward pass comes to first, and what is left over, is not checkpointed. For n functions
    that keep the same, √n segments hold least.

    Args:
        functions: each takes what the one before it returned, as the layers of a network do.
        segments: how many parts, from 1 (no checkpointing) to the number of functions.
        x: what the first one is given.
        preserve_rng_state: as for `checkpoint`.

    Raises:
        ArgumentError: there are no functions, or not that many.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> y = checkpoint_sequential([lambda x: x * x, lambda x: x.exp(), lambda x: x + 1.0], 3, x)
    >>> x.grad(y.sum().backward()).shape
    (2,)
    """
    layers = list(functions)
    if not 1 <= segments <= len(layers):
        raise ArgumentError(
            f"checkpoint_sequential() was asked for {segments} segments of {len(layers)} functions; "
            "there must be at least one, and no more than functions"
        )
    length = len(layers) // segments
    for start in range(0, length * (segments - 1), length):
        x = checkpoint(_chained, layers[start : start + length], x, preserve_rng_state=preserve_rng_state)
    return _chained(layers[length * (segments - 1) :], x)


def _chained(layers: list[Callable[[T], T]], x: T) -> T:
    for layer in layers:
        x = layer(x)
    return x


class _Section(Saver):
    """One call of `checkpoint`, while it runs for the first time and after."""

    __slots__ = ("args", "context", "function", "handles", "kwargs", "result", "states", "trace")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.context = copy_context()
        self.states: States | None = None
        self.result: Fingerprint | None = None
        self.trace: list[Any] = []  #: each operation recorded, and the shape and dtype of each array that it keeps
        self.handles: list[Any] = []  #: weak references to what stands in place of the arrays, in order

    def __call__(self, device: Any, node: Any) -> None:
        """Note an operation, and put numbers in place of its arrays."""
        self.trace.append(node.operation)
        super().__call__(device, node)

    def swapped(self, device: Any, operation: str, x: Any) -> Any:
        """What stands in place of an array; it holds the array as long as the function runs, which may want it."""
        handle = _Handle(self, len(self.handles), x)
        self.handles.append(ref(handle))
        self.trace.append((x.shape, x.dtype))
        return handle

    def close(self, results: Any, outer: Saver | None, check: bool) -> None:
        """Drop the arrays; hand the arguments to the section or the hooks around this one."""
        if not self.handles:
            return
        for handle in self.handles:
            alive = handle()
            if alive is not None:
                alive.array = None
        if self.states is not None:
            self.states = completed(self.states)
        if check:
            self.result = fingerprint(results)
        hand = _alone if outer is None else _handing_to(outer)
        self.args, self.kwargs = with_tensors(hand, self.args), with_tensors(hand, self.kwargs)

    def ran_again(self, wanted: int) -> Any:
        """Run the function again, give every node that is left its array, and return the one that is wanted."""
        second = _SecondRun(self)
        watchers = (current_mode() or Mode()).watchers
        self.context.copy().run(self._run, second, watchers, carried())
        found = second.arrays[wanted]
        for handle, array in zip(self.handles, second.arrays, strict=True):
            alive = handle()
            if alive is not None and alive.position != wanted:
                alive.array = array
        return found

    def _run(self, second: _SecondRun, watchers: tuple[Watcher, ...], bring: Callable[[], None]) -> None:
        bring()
        args, kwargs = with_tensors(_restored, self.args), with_tensors(_restored, self.kwargs)
        drawing = nullcontext() if self.states is None else replayed(self.states)
        with using(observers=(second,), watchers=watchers), reopened(), drawing:
            results = self.function(*args, **kwargs)
        second.finish(results)


class _Handle(Stored):
    """What stands in place of an array: its section, and its number among what the section keeps."""

    __slots__ = ("__weakref__", "array", "position", "section")

    def __init__(self, section: _Section, position: int, array: Any) -> None:
        self.section, self.position, self.array = section, position, array

    def restored(self) -> Any:
        """The array, which is let go by this; each time that it is not there, the section runs again."""
        array, self.array = self.array, None
        return self.section.ran_again(self.position) if array is None else array


class _SecondRun(Saver):
    """Takes the arrays of a second run, and compares what happens with the first."""

    __slots__ = ("arrays", "section", "step")

    def __init__(self, section: _Section) -> None:
        self.section, self.step = section, 0
        self.arrays: list[Any] = []

    def __call__(self, device: Any, node: Any) -> None:
        """See that this is the same operation as the first time, and take its arrays, which stay where they are."""
        self._expect(node.operation)
        super().__call__(device, node)

    def swapped(self, device: Any, operation: str, x: Any) -> Any:
        """The array itself."""
        self._expect((x.shape, x.dtype))
        wanted = self.section.handles[len(self.arrays)]() is not None
        self.arrays.append(x if wanted else None)
        return x

    def _expect(self, found: Any) -> None:
        trace = self.section.trace
        if self.step >= len(trace):
            raise self._different(f"went on with {_shown(found)} after the {len(trace)} steps of the first")
        if trace[self.step] != found:
            raise self._different(
                f"has {_shown(found)} as step {self.step}, where the first had {_shown(trace[self.step])}"
            )
        self.step += 1

    def finish(self, results: Any) -> None:
        """See that nothing is missing, and that the results are those of the first run."""
        section = self.section
        if self.step < len(section.trace):
            raise self._different(f"ended where the first had {_shown(section.trace[self.step])} as step {self.step}")
        if section.result is not None:
            difference = same(section.result, fingerprint(results))
            if difference is not None:
                raise self._different(difference)

    def _different(self, what: str) -> SavedTensorsError:
        function = self.section.function
        name = getattr(function, "__qualname__", repr(function))
        return SavedTensorsError(
            f"checkpoint() ran {name} again for a backward pass, and the second run {what}; a checkpointed function "
            "must do the same each time: keep state, and randomness that is not from default generators, out of it"
        )


def _shown(step: Any) -> str:
    return step if isinstance(step, str) else f"an array of shape {step[0]} and dtype {step[1]} kept"


def _handing_to(outer: Saver) -> Callable[[TensorBase[Any]], TensorBase[Any]]:
    """What gives a section's argument to the saver around it, as it is given what nodes keep."""

    def handed(x: TensorBase[Any]) -> TensorBase[Any]:
        if _is_leaf(x):
            return x  # the graph holds it
        return _with_arrays(x, lambda array: outer.swapped(x.device, "checkpoint", array))

    return handed


def _is_leaf(x: TensorBase[Any]) -> bool:
    node = getattr(x._primitive, "node", None)
    return node is not None and node.target.__class__ is Leaf


def _alone(x: TensorBase[Any]) -> TensorBase[Any]:
    """A section's argument, without a recipe for it and what that is made of."""
    if _is_leaf(x):
        return x

    def alone(array: Any) -> Any:
        return array.holding(array_of(array)) if hasattr(array, "holding") else array

    return _with_arrays(x, alone)


def _restored(x: TensorBase[Any]) -> TensorBase[Any]:
    return _with_arrays(x, restored)


def _with_arrays(x: TensorBase[Any], f: Callable[[Any], Any]) -> TensorBase[Any]:
    return made(type(x), x._device, x._backend, mapped(f, x._primitive))  # type: ignore[no-any-return]  # of that class
