"""Padding with a primitive's own elements."""

from __future__ import annotations

from typing import Any, TypeAlias

from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.scans import part
from burnpy.backend.primitives import Float, Shape, Value
from burnpy.backend.schema import LINEAR, STRUCTURAL, derived

Pairs: TypeAlias = tuple[tuple[int, int], ...]
Range: TypeAlias = tuple[int, int]


class Padding(OperationsBase):
    """Padding at both ends of dimensions.

    ``pairs`` has the numbers of elements before and after each dimension. At least one is not 0; a negative number cuts
    elements off. ``how`` is "reflect", "replicate" or "circular".
    """

    @derived(STRUCTURAL, vjp=lambda i, g, x_shape, pairs, how: i.pad_ends_backward(g, x_shape, pairs, how))
    def pad_ends(self, x: Value, pairs: Pairs, how: str) -> Value:
        """Pad x with its own elements: the reflected ones, the outermost one, or those of the other end."""
        for dim in reversed(range(len(pairs))):
            low, high = pairs[dim]
            if low or high:
                size = x.shape[dim]
                before, after = (_piece(self, x, how, dim, n, at) for n, at in _ends(how, size, low, high))
                x = self.cat([before, part(self, x, dim, max(-low, 0), size - max(-high, 0)), after], dim)
        return x

    @derived(LINEAR, flops=1, vjp=lambda i, g, pairs, how: i.pad_ends(g, pairs, how))
    def pad_ends_backward(self, grad: Float, shape: Shape, pairs: Pairs, how: str) -> Float:
        """Gradient of `pad_ends` by x, of ``shape``."""
        for dim, (low, high) in enumerate(pairs):
            if low or high:
                size, kept = shape[dim], shape[dim] + min(low, 0) + min(high, 0)
                whole = (*grad.shape[:dim], size, *grad.shape[dim + 1 :])
                before, after = max(low, 0), grad.shape[dim] - max(high, 0)
                total = self.expand(self.full((), 0.0, grad.dtype), whole)
                total = self.slice_scatter(total, _key(dim, max(-low, 0), kept), part(self, grad, dim, before, after))
                pieces = (part(self, grad, dim, 0, before), part(self, grad, dim, after, grad.shape[dim]))
                for piece, (count, (start, stop)) in zip(pieces, _ends(how, size, low, high), strict=True):
                    if count:
                        total = self.accumulate_slice(
                            total, _key(dim, start, stop - start), _sum(self, piece, how, dim)
                        )
                grad = total
        return grad


def _ends(how: str, size: int, low: int, high: int) -> tuple[tuple[int, Range], tuple[int, Range]]:
    """Return how many elements are added before and after a dimension, each with the range that they are taken from."""
    before, after = max(low, 0), max(high, 0)
    if how == "reflect":
        return (before, (1, 1 + before)), (after, (size - 1 - after, size - 1))
    if how == "replicate":
        return (before, (0, 1)), (after, (size - 1, size))
    first, last = max(-low, 0), size - max(-high, 0)
    return (before, (last - before, last)), (after, (first, first + after))


def _piece(b: Any, x: Value, how: str, dim: int, count: int, source: Range) -> Value:
    """Return ``count`` elements to put at an end."""
    if not count:
        return part(b, x, dim, 0, 0)
    piece = part(b, x, dim, *source)
    if how == "replicate":
        return b.expand(piece, (*x.shape[:dim], count, *x.shape[dim + 1 :]))
    return b.flip(piece, (dim,)) if how == "reflect" else piece


def _sum(b: Any, piece: Float, how: str, dim: int) -> Float:
    """Return the gradient of `_piece`'s source elements."""
    if how == "replicate":
        return b.sum(piece, (dim,), True)
    return b.flip(piece, (dim,)) if how == "reflect" else piece


def _key(dim: int, start: int, count: int) -> tuple[slice, ...]:
    return (*(slice(None, None, 1),) * dim, slice(start, start + count, 1))
