"""Weighted sums of rows at indices, by a kernel."""

from __future__ import annotations

from typing import Any

from burnpy.backend.primitives import below
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.kernel import MANY, family_kernels


class NumPyEmbedding(ArrayBackend):
    """Sums of rows by a kernel; few elements, and what has no kernel, as by default."""

    def sum_rows(self, x: Any, source: Any, target: Any, scale: Any, count: int) -> Any:
        if (
            len(source) * x.shape[1] >= MANY
            and below(source, len(x))
            and below(target, count)
            and (kernels := family_kernels("embedding"))
        ):
            out = kernels.rows_summed(x, source, target, scale, count)
            if out is not None:
                return out
        return super().sum_rows(x, source, target, scale, count)
