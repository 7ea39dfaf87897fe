"""Checkpointing: parts of a forward pass that keep nothing but their arguments, and run again when a backward pass
comes to them.

The first run records its graph as always, but every array that a node would keep is dropped, and a handle stands in its
place. The first vjp that wants one of them has the whole section run again, on the same arguments and random numbers,
and takes the arrays of that run's nodes in order: a node holds its own, so that each goes as it is used, or with its
node. Nothing recurses from one section into the next; of nested ones the inner section's arguments are among what
the outer one drops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar, overload

from burnpy.autodiff.checkpointing.segment import Section
from burnpy.autodiff.modes import flag
from burnpy.autodiff.saved_tensors.slots import innermost_saver, refuse_where_disabled
from burnpy.backend.errors import ArgumentError, KindError
from burnpy.tensor.rng_state import states

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
        determinism_check: compare some elements of what both runs keep, where the device need not be waited for.
        kwargs: handed on.

    Raises:
        KindError: ``function`` is none, or an option is no flag.
        TypeError: an option of PyTorch's that there is not was passed, and the function does not take it.
        SavedTensorsError: hooks are disabled here; in the backward pass: the second run did something else.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
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
    "early_stop": "a second run always ends with the last array that is wanted",
    "context_fn": "enter what the second run needs inside of the function",
    "debug": "the error of a second run that differs says where it does",
}
"""Options of PyTorch's, and why there is none here."""


def _refuse_options(function: Callable[..., Any], kwargs: dict[str, Any]) -> None:
    """Explain an option of PyTorch's that the function itself does not take.

    Raises:
        TypeError: there is one.
    """
    for name in _REMOVED.keys() & kwargs.keys():
        try:
            parameters = signature(function).parameters.values()
        except (TypeError, ValueError):  # a builtin without a signature
            return
        if not any(p.name == name or p.kind is Parameter.VAR_KEYWORD for p in parameters):
            raise TypeError(f"checkpoint() takes no argument {name}; {_REMOVED[name]}")


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
