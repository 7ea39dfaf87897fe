"""Norms of vectors."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import Dims
from burnpy_array.base import ArrayBase, is_half
from burnpy_array.reduction import SAFE


class Norms(ArrayBase):
    """The Euclidean norm by squares, if none over- or underflows."""

    def vector_norm(self, x: Any, p: float, dims: Dims, keepdim: bool) -> Any:
        if p == 2 and dims and x.size and self.eager_checks:
            out = self._call(_by_squares, self, x, dims, keepdim)
            if out is not None:
                return out
        return super().vector_norm(x, p, dims, keepdim)

    def _sum_of_squares(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        """Return the sum of the squares of floats over ``dims``, which are not empty."""
        return self._total(self.xp.multiply(x, x), dims, keepdim)


def _by_squares(b: Norms, x: Any, dims: Dims, keepdim: bool) -> Any:
    """The root of the sum of squares; None where it may have over- or underflowed."""
    xp = b.xp
    wide = x.astype(float32) if is_half(x.dtype) else x
    total = b._sum_of_squares(wide, dims, keepdim)
    least, most = SAFE[wide.dtype]
    if total.shape == ():  # numbers are compared in a fifth of the time of arrays
        safe = least < total < most
    else:
        safe = xp.logical_and(xp.greater(total, least), xp.less(total, most)).all()
    if not safe:
        return None
    return xp.sqrt(total).astype(x.dtype, copy=False)
