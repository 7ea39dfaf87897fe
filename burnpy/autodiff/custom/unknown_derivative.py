"""Gradients and tangents whose derivative is unknown: differentiating them raises an error instead of giving zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from burnpy.autodiff.custom.apply import applied
from burnpy.autodiff.custom.arguments import Kept, kept_of_tensor, primitives, tensor
from burnpy.autodiff.custom.context import Context
from burnpy.autodiff.custom.function import Function
from burnpy.autodiff.graph import PartialGrad
from burnpy.autodiff.multi_output import node_kind
from burnpy.backend.errors import GraphError
from burnpy.tensor.base import TensorBase


class _Refused(Function):
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


_Refused._kind = node_kind("unknown_derivative")


def refused(
    message: str, device: Any, parts: Sequence[Any], places: Sequence[Kept | None], sources: Sequence[Any]
) -> list[Any]:
    """Return the results of user code such that differentiating them raises an error.

    Args:
        message: the error message.
        device: the device of the results and sources.
        parts: the primitives of the results; None and absent parts are unchanged.
        places: the class, shape and dtype of each.
        sources: tensors on which the results may depend.
    """
    present = [k for k, part in enumerate(parts) if part is not None and not isinstance(part, PartialGrad)]
    results = [tensor(like, device, parts[k]) for k in present if (like := places[k]) is not None]
    outs: list[Any] = list(parts)
    if results:
        refusing = applied(_Refused, (message, len(results), *results, *sources))
        for k, part in zip(present, primitives(refusing), strict=True):
            outs[k] = part
    return outs


def refused_tensors(message: str, tensors: Sequence[TensorBase[Any]], sources: Sequence[Any]) -> tuple[Any, ...]:
    """Return tensors of one device such that the derivative of the floats among them by ``sources`` is refused."""
    places = [like if (like := kept_of_tensor(x)).floats else None for x in tensors]
    parts = [x._primitive if like else None for x, like in zip(tensors, places, strict=True)]
    if not any(places):
        return tuple(tensors)
    refusing = refused(message, tensors[0].device, parts, places, sources)
    return tuple([x if part is None else x._like(part) for x, part in zip(tensors, refusing, strict=True)])
