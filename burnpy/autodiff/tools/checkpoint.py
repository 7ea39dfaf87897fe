"""`checkpoint`: a section of a forward pass that saves only its arguments, and runs again during the backward pass.

One recorded section is a `burnpy.autodiff.tools.checkpoint_section.Section`. The first run records its graph as usual,
but every array that a node would save is dropped and replaced by a handle. The first vjp that needs one of them runs
the whole section again, with the same arguments and random numbers. The arrays that this run saves are assigned to the
handles in order. Each handle belongs to its node, so that its array is freed when it is used, or with the node.
Sections do not recurse into each other; the arguments of a nested section are among the arrays that the outer section
drops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter
from typing import Any, ParamSpec, overload

from burnpy.autodiff.modes import flag
from burnpy.autodiff.tools.checkpoint_section import Section
from burnpy.autodiff.tools.saved_tensors import innermost_saver, refuse_where_disabled
from burnpy.backend.errors import ArgumentError, CallError, KindError
from burnpy.backend.functions import signature
from burnpy.tensor.call_errors import explained
from burnpy.tensor.generator import states
from burnpy.typevars import R, T

P = ParamSpec("P")


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
def checkpoint(  # type: ignore[misc]  # the options are separated from the keyword arguments
    function: Callable[..., R],
    *args: Any,
    preserve_rng_state: bool = True,
    determinism_check: bool = True,
    **kwargs: Any,
) -> R:
    """Call ``function(*args, **kwargs)`` and save only its arguments; the backward pass runs it again.

    Results, derivatives of any order and tracking are the same as for a plain call, whatever the function returns, and
    whether its tensors are arguments or come from an enclosing scope. If nothing is tracked, this is a plain call.

    Args:
        function: must compute the same each time and have no side effects; modes and other context variables are
            those of the first run.
        args: passed to the function; tensors may be nested in tuples, lists and dicts.
        preserve_rng_state: draw the same numbers from the default generators again, for instance for dropout. The state
            of a generator passed to the function, or owned by it, is not restored.
        determinism_check: compare some elements of the arrays that both runs save, if that does not wait for the
            device.
        kwargs: passed to the function.

    Raises:
        KindError: ``function`` is not callable, or an option is not a bool.
        CallError: a PyTorch option that does not exist here was passed, and the function does not take it.
        SavedTensorsError: hooks are disabled here; or, in the backward pass, the second run differed from the first.

    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> y = checkpoint(lambda x: (x * x).exp(), x)
    >>> x.grad(y.sum().backward()).tolist() == x.grad((x * x).exp().sum().backward()).tolist()
    True
    """
    refuse_where_disabled("checkpoint()")
    if not callable(function):
        raise KindError(f"checkpoint() takes a function and its arguments, not {function!r:.80}")
    if kwargs:
        _refuse_options(function, kwargs)
    outer = innermost_saver()
    section = Section(function, args, kwargs)
    section.states = states() if flag("checkpoint(preserve_rng_state)", preserve_rng_state) else None
    section.check = flag("checkpoint(determinism_check)", determinism_check)
    with section.first_run():
        results = function(*args, **kwargs)
    section.close(outer)
    return results


_REMOVED = {
    "use_reentrant": "there is one way of doing it, without the limitations of either there",
    "early_stop": "a second run always ends with the last array that is needed",
    "context_fn": "enter what the second run needs inside of the function",
    "debug": "the error of a second run that differs says where it does",
}
"""Options of PyTorch that do not exist here, with the reason."""


def _refuse_options(function: Callable[..., Any], kwargs: dict[str, Any]) -> None:
    """Refuse options of PyTorch that do not exist here and that the function itself does not take."""
    for name in _REMOVED.keys() & kwargs.keys():
        try:
            parameters = signature(function).parameters.values()
        except (TypeError, ValueError):  # a builtin without a signature
            return
        if not any(p.name == name or p.kind is Parameter.VAR_KEYWORD for p in parameters):
            raise CallError(f"checkpoint() takes no argument {name}; {_REMOVED[name]}")


@explained
def checkpoint_sequential(
    functions: Iterable[Callable[[T], T]], segments: int, x: T, *, preserve_rng_state: bool = True
) -> T:
    """Apply functions one after another, checkpointed in ``segments`` parts of equal length.

    The last part, which the backward pass needs first, is not checkpointed; it includes the remainder. For n functions
    that save arrays of the same size, √n segments need the least memory.

    Args:
        functions: each takes the result of the one before it, like the layers of a network.
        segments: the number of parts, from 1 (no checkpointing) to the number of functions.
        x: the argument of the first function.
        preserve_rng_state: as for `checkpoint`.

    Raises:
        ArgumentError: there are no functions, or fewer than segments.

    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> y = checkpoint_sequential([lambda x: x * x, lambda x: x.exp(), lambda x: x + 1.0], 3, x)
    >>> x.grad(y.sum().backward()).shape
    (2,)
    """
    layers = list(functions)
    if not 1 <= segments <= len(layers):
        raise ArgumentError(
            f"checkpoint_sequential() got {segments} segments of {len(layers)} functions; "
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
