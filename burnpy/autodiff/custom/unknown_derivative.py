"""`Refused`: an operation whose derivative is unknown: differentiating it raises an error instead of giving zeros."""

from __future__ import annotations

from typing import Any, NoReturn

from burnpy.autodiff.custom.base import FunctionBase
from burnpy.autodiff.custom.context import Context
from burnpy.autodiff.multi_output import node_kind
from burnpy.backend.errors import GraphError


class Refused(FunctionBase):
    """The identity of some tensors, whose derivative by these and other tensors raises an error."""

    @staticmethod
    def forward(ctx: Context, message: str, count: int, *tensors: Any) -> Any:
        """Return the first ``count`` tensors."""
        ctx.message = message
        return tensors[:count]

    @staticmethod
    def backward(ctx: Context, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise an error: the derivative is not known."""
        raise GraphError(ctx.message)

    jvp = backward


Refused._kind = node_kind("unknown_derivative")
