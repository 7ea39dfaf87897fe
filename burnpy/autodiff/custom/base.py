"""`FunctionBase`: the methods that define an operation with a derivative of its own, without the means to apply it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burnpy.autodiff.custom.context import Context
    from burnpy.autodiff.graph import Node


class FunctionBase:
    """The base class of `Function` and of the operations by which `Function` is implemented."""

    _kind: type[Node]

    @classmethod
    def defines(cls, method: str) -> bool:
        """Return whether the class defines ``method``: forward, backward or jvp."""
        return getattr(cls, method) is not getattr(FunctionBase, method)

    @staticmethod
    def forward(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        """Compute the operation, on tensors of a plain backend."""
        raise NotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        """Compute the gradients of the arguments from those of the results."""
        raise NotImplementedError("backward() is not there")

    @staticmethod
    def jvp(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        """Compute the tangents of the results from those of the arguments."""
        raise NotImplementedError("jvp() is not there")
