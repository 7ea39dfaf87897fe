"""Distances of rows, and their gradients, by kernels without an array of all differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy_array import ArrayBackend
from burnpy_array.reduction import SAFE
from burnpy_numpy.kernels.kernel import family_kernels

_FEW_DIFFERENCES = 512
"""The number of differences below which the default's dozen calls take no longer than a kernel's."""
_LONGEST_SUM = 4096
"""The longest sum: a longer one would be less exact than NumPy's."""


class NumPyDistances(ArrayBackend):
    """Distances of float32 and float64 rows by kernels."""

    def cdist(self, x: Any, y: Any, p: float) -> Any:
        out = None
        if _suits(x, y) and (kernels := family_kernels("distances")):
            out = kernels.run_distances(x, y, p)
        if out is None:
            return super().cdist(x, y, p)
        return self._call(_exact, self, out, x, y) if p == 2 else out

    def cdist_backward(self, grad: Any, x: Any, y: Any, out: Any, p: float) -> Any:
        total = None
        if (
            _suits(x, y)
            and grad.dtype is x.dtype
            and (p != 2 or out.max() < math.inf)
            and (kernels := family_kernels("distances"))
        ):
            weights = self._call(_shares, grad, out) if p == 2 else grad
            if p == math.inf and (counts := kernels.run_tie_counts(x, y, out)) is not None:
                weights = self._call(np.divide, grad, counts)
            total = kernels.run_weighted_differences(weights, x, y, out, p)
        return super().cdist_backward(grad, x, y, out, p) if total is None else total


def _suits(x: Any, y: Any) -> bool:
    """Return whether kernels are used for rows."""
    dtype, k, m = x.dtype, x.shape[-1], y.shape[-2]
    return (
        (dtype is float32 or dtype is float64)
        and y.dtype is dtype
        and x.size * m >= _FEW_DIFFERENCES
        and max(k, m) <= _LONGEST_SUM
    )


def _shares(grad: Any, out: Any) -> Any:
    """Return grad over the distances; 0 where these are 0."""
    shares = np.divide(grad, out)
    if not out.all():
        shares[out == 0] = 0.0
    return shares


def _exact(b: NumPyDistances, out: Any, x: Any, y: Any) -> Any:
    """Return distances; those whose sums of squares may have over- or underflowed are computed again, scaled."""
    least, most = SAFE[out.dtype]
    least **= 0.5
    own = out.diagonal(0, -2, -1) if x is y else None
    if own is not None and not own.any():  # rows have the distance 0 to themselves, which is exact
        own.flags.writeable = True
        own.fill(1.0)
        safe = least < out.min() and out.max() < most
        own.fill(0.0)
    else:
        safe = least < out.min() and out.max() < most
    if safe:
        return out
    unsafe = np.logical_not(np.logical_and(np.greater(out, least), np.less(out, most)))
    *outer, row, column = np.nonzero(unsafe)
    difference = x[(*outer, row)] - y[(*outer, column)]
    if difference.any():  # not of equal rows alone
        out[(*outer, row, column)] = b.vector_norm(difference, 2.0, (1,), False)
    return out
