"""The masks of attention: of pairs of queries and keys, and of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from burnpy.backend.errors import KindError, ShapeError
from burnpy.tensor.tensor import BoolTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from typing import TypedDict

    from burnpy.tensor.tensor_types import Bools

    class AttentionMasks(TypedDict, Generic[B], total=False):
        """The masks that a call of an attention takes as keyword arguments, for type checkers."""

        mask: Bools[B] | Tensor[B] | None
        key_mask: Bools[B] | None
        causal: bool


def joined_masks(mask: Any, key_mask: Any) -> Any:
    """Combine a mask, (T, S) or (N, heads, T, S), and a ``key_mask``, (N, S), into one mask; either may be None."""
    if mask is not None and mask.ndim == 3:
        raise ShapeError(
            f"MultiHeadAttention() got a mask of shape {mask.shape}, which may be one for each example or "
            "for each head; say which: mask[:, None] or mask[None]"
        )
    if key_mask is None:
        return mask
    if not isinstance(key_mask, BoolTensor) or key_mask.ndim != 2:
        error = ShapeError if isinstance(key_mask, BoolTensor) else KindError
        raise error(f"MultiHeadAttention() takes a BoolTensor of shape (N, S) as key_mask, got {describe(key_mask)}")
    return both_allow(mask, key_mask[:, None, None, :])


def both_allow(mask: BoolTensor[B] | Tensor[B] | None, other: BoolTensor[B] | None) -> BoolTensor[B] | Tensor[B] | None:
    """Return a mask, of bools or of floats to add, that allows what both masks allow; None allows all."""
    if mask is None or other is None:
        return other if mask is None else mask
    if isinstance(mask, BoolTensor):
        return mask & other
    zeros = Tensor.zeros(other.shape, dtype=mask.dtype, device=mask.device)
    return mask + zeros.masked_fill(~other, -float("inf"))
