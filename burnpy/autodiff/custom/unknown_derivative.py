"""Gradients and tangents whose derivative is not known: whoever asks for it is told, instead of being given zeros."""

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
    """The identity of some tensors, with a derivative by these and others that is refused."""

    @staticmethod
    def forward(ctx: Context, message: str, count: int, *tensors: Any) -> Any:
        """The first ``count``."""
        ctx.message = message
        return tensors[:count]

    @staticmethod
    def backward(ctx: Context, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        raise GraphError(ctx.message)

    jvp = backward


_Refused._kind = node_kind("unknown_derivative")


def refused(
    message: str, device: Any, parts: Sequence[Any], places: Sequence[Kept | None], sources: Sequence[Any]
) -> list[Any]:
    """What user code gave, where differentiating it is refused.

    Args:
        message: what is said then.
        device: where all this is.
        parts: its primitives; None and absent parts stay as they are.
        places: what each is like.
        sources: tensors on which it may depend.
    """
    there = [k for k, part in enumerate(parts) if part is not None and not isinstance(part, PartialGrad)]
    given = [tensor(like, device, parts[k]) for k in there if (like := places[k]) is not None]
    outs: list[Any] = list(parts)
    if given:
        found = applied(_Refused, (message, len(given), *given, *sources))
        for k, part in zip(there, primitives(found), strict=True):
            outs[k] = part
    return outs


def refused_tensors(message: str, tensors: Sequence[TensorBase[Any]], sources: Sequence[Any]) -> tuple[Any, ...]:
    """Tensors of one device as they are, but for floats, of which the derivative by ``sources`` is refused."""
    places = [like if (like := kept_of_tensor(x)).floats else None for x in tensors]
    parts = [x._primitive if like else None for x, like in zip(tensors, places, strict=True)]
    if not any(places):
        return tuple(tensors)
    found = refused(message, tensors[0].device, parts, places, sources)
    return tuple([x if part is None else x._like(part) for x, part in zip(tensors, found, strict=True)])
