"""`once_differentiable`: a backward() that may compute as it likes, and cannot be differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from burnpy.autodiff.custom.apply import ONCE, Call, applied
from burnpy.autodiff.custom.arguments import primitives, tensor, tensors
from burnpy.autodiff.custom.context import Context
from burnpy.autodiff.custom.function import Function
from burnpy.autodiff.custom.results import zero_like
from burnpy.autodiff.graph import PartialGrad
from burnpy.autodiff.multi_output import node_kind
from burnpy.backend.errors import GraphError, KindError
from burnpy.backend.primitives import Float
from burnpy.tensor.base import TensorBase

F = TypeVar("F", bound=Callable[..., Any])


def once_differentiable(backward: F) -> F:
    """For a backward() that is not differentiable: it is given plain tensors on every level, so that it may compute as
    it likes, through NumPy too; second derivatives through it raise a `GraphError` instead of being wrong.

    Raises:
        KindError: it is no function.

    >>> class Double(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2.0
    ...
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, grad):
    ...         return grad * 2.0
    """
    given: Any = backward
    if not callable(getattr(given, "__func__", given)):
        raise KindError(f"once_differentiable decorates a backward() of a Function, not {given!r:.80}")
    setattr(getattr(given, "__func__", given), ONCE, True)  # a static method's own, in either order of the decorators
    return backward


class _Once(Function):
    """One call of a backward() that is differentiable once, as an operation on what it computes from."""

    @staticmethod
    def forward(ctx: Context, call: Call, needs: tuple[bool, ...], missing: list[Any], *given: Any) -> Any:
        """The gradients that are needed, of those of the results, followed by the tensors saved. For each that is
        `absent` there are zeros, and in ``missing`` the part; None for each that is there."""
        ctx.name = call.function.__name__
        count = len(call.outputs)
        plain = next(g.device for g in given if isinstance(g, TensorBase))
        parts = call.called("backward", needs, plain, given[:count], primitives(given[count:]))
        outs = []
        for like, part, needed in zip(call.arguments, parts, needs, strict=True):
            if needed and like is not None:
                gone = isinstance(part, PartialGrad)
                missing.append(part if gone else None)
                outs.append(zero_like(like, plain) if gone else tensor(like, plain, part))
        return tuple(outs)

    @staticmethod
    def backward(ctx: Context, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        raise GraphError(
            f"{ctx.name}.backward() is once_differentiable, and its derivative was asked for; to have one, drop the "
            "decorator and write backward() with operations on the gradients and ctx.saved_tensors alone"
        )

    jvp = backward


_Once._kind = node_kind("once_differentiable")


def pulled_once(
    inner: Any, call: Call, needs: tuple[bool, ...], given: Sequence[Any], saved: Sequence[Any]
) -> tuple[Float, ...]:
    """What such a backward() gives, on ``inner``, where differentiating it is refused."""
    missing: list[Any] = []
    found = applied(_Once, (call, needs, missing, *given, *tensors(inner, call.saved, saved)))
    return tuple(part or made for part, made in zip(missing, primitives(found), strict=True))
