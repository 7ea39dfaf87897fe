"""`once_differentiable`: marks a backward() that cannot be differentiated again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from burnpy.autodiff.custom.arguments import primitives, tensor
from burnpy.autodiff.custom.base import FunctionBase
from burnpy.autodiff.custom.call import ONCE, Call
from burnpy.autodiff.custom.context import Context
from burnpy.autodiff.custom.results import zero_like
from burnpy.autodiff.multi_output import node_kind
from burnpy.backend.errors import GraphError, KindError
from burnpy.backend.rules import PartialGrad
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import F


def once_differentiable(backward: F) -> F:
    """Decorate a backward() that cannot be differentiated again.

    It gets plain tensors on every level, so that it may use any computation, NumPy included; second derivatives through
    it raise a `GraphError` instead of being wrong.

    Raises:
        KindError: ``backward`` is no function.

    >>> from burnpy.autodiff import Function
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
    method: Any = backward
    if not callable(getattr(method, "__func__", method)):
        raise KindError(f"once_differentiable decorates a backward() of a Function, not {method!r:.80}")
    setattr(getattr(method, "__func__", method), ONCE, True)  # set on the function, for either order of the decorators
    return backward


class Once(FunctionBase):
    """One call of a once-differentiable backward(), as an operation whose arguments are all of its inputs."""

    @staticmethod
    def forward(
        ctx: Context,
        backward: Callable[..., Any],
        call: Call,
        needs: tuple[bool, ...],
        missing: list[Any],
        *inputs: Any,
    ) -> Any:
        """Call ``backward`` and return the needed gradients.

        ``inputs`` are the results' gradients, then the saved tensors. A missing gradient is returned as zeros. To
        ``missing``, its `absent` part is appended; None for any other.
        """
        ctx.name = call.function.__name__
        count = len(call.outputs)
        plain = next(x.device for x in inputs if isinstance(x, TensorBase))
        parts = backward(call, "backward", needs, plain, inputs[:count], primitives(inputs[count:]))
        outs = []
        for like, part, needed in zip(call.arguments, parts, needs, strict=True):
            if needed and like is not None:
                is_absent = isinstance(part, PartialGrad)
                missing.append(part if is_absent else None)
                outs.append(zero_like(like, plain) if is_absent else tensor(like, plain, part))
        return tuple(outs)

    @staticmethod
    def backward(ctx: Context, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise an error: the derivative is not known."""
        raise GraphError(
            f"{ctx.name}.backward() is once_differentiable and cannot be differentiated again; drop the decorator and "
            "write backward() with operations on the gradients and ctx.saved_tensors alone"
        )

    jvp = backward


Once._kind = node_kind("once_differentiable")
