"""Linear algebra by kernels for small matrices, LAPACK of NumPy and of SciPy, where it is faster; distances of rows.

For matrices of many rows SciPy takes a half to a tenth of the time of ``numpy.linalg``. NumPy's functions loop over a
batch in C, which is faster for small matrices, and copy each matrix into LAPACK's order of columns. SciPy gets the
transposed view of a matrix instead, which needs no copy.

Distances and their gradients are computed by kernels without an array of all differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

import burnpy.backend.numerics.lapack as lapack
from burnpy.backend.dtypes import float32, float64
from burnpy_array import ArrayBackend
from burnpy_array.reduction import SAFE
from burnpy_numpy.kernels.kernel import family_kernels

_TRIANGULAR, _FACTORED = 48, 32
"""The least numbers of rows for which LAPACK takes less time for triangular equations, and for factors."""


class NumPyLinalg(ArrayBackend):
    """Small matrices by kernels, others by SciPy or NumPy."""

    def _lapack(self, function: Callable[..., Any], *args: Any) -> Any:

        return self._call(function, xp, *args)

    def solve_triangular(self, a: Any, b: Any, upper: bool, unitriangular: bool) -> Any:
        if (
            _suits(a, _TRIANGULAR)
            and b.size
            and b.dtype is a.dtype
            and b.shape[:-2] == a.shape[:-2]
            and (kernels := family_kernels("linalg_and_distances"))
        ):
            out = kernels.run_substitution(a, b, upper, unitriangular)
            if out is not None:
                return out

        return self._call(solve_triangular, a, b, upper, unitriangular)

    def lu_factor(self, x: Any) -> Any:
        out = None
        if _suits(x, MIN_ROWS) and (kernels := family_kernels("linalg_and_distances")):
            out = kernels.run_lu_factor(x)
        return self._call(lu_factor, x) if out is None else out

    def eigvals(self, x: Any) -> Any:
        return self._lapack(lapack.eigvals, x)

    def cholesky(self, x: Any) -> Any:
        out = None
        if _suits(x, _FACTORED) and (kernels := family_kernels("linalg_and_distances")):
            out = kernels.run_cholesky_factor(x)
        return super().cholesky(x) if out is None else out


def _suits(x: Any, most: int) -> bool:
    """Return whether kernels are used for matrices, which are of fewer than ``most`` rows."""
    return x.shape[-1] < most and x.size > 0 and (x.dtype is float32 or x.dtype is float64)


MIN_ROWS = 48
"""The least number of rows for which SciPy is called."""


@cache
def _scipy() -> Any:
    """Return the package ``scipy.linalg``, or None."""
    try:
        return import_module("scipy.linalg")
    except ImportError:
        return None


def routine(name: str, x: Any) -> Callable[..., Any]:
    """Return LAPACK's or BLAS's routine for the dtype of x."""
    package = _scipy().blas if name in ("trsm", "trsv") else _scipy().lapack
    return getattr(package, f"{'s' if x.dtype is float32 else 'd'}{name}")  # type: ignore[no-any-return]  # of SciPy


def fits(x: Any) -> bool:
    """Return whether SciPy computes of x: matrices of many rows and columns, float32 or float64."""
    return (
        x.ndim > 1
        and min(x.shape[-2:]) >= MIN_ROWS
        and (x.dtype is float32 or x.dtype is float64)
        and x.size > 0
        and _scipy() is not None
    )


def each(f: Callable[..., Any], *arrays: Any) -> Any:
    """Return f of each matrix of the batch, stacked; a tuple of arrays where f returns one."""
    batch = arrays[0].shape[:-2]
    if not batch:
        return f(*arrays)
    results = [f(*[a[index] for a in arrays]) for index in np.ndindex(*batch)]
    if isinstance(results[0], tuple):
        return tuple([_stacked(part, batch) for part in zip(*results, strict=True)])
    return _stacked(results, batch)


def _stacked(parts: Any, batch: tuple[int, ...]) -> Any:
    return np.stack(parts).reshape((*batch, *np.shape(parts[0])))


def _checked(info: int) -> None:
    if info > 0:
        raise np.linalg.LinAlgError


def _cholesky(x: Any) -> Any:
    upper, info = routine("potrf", x)(x.T, lower=0, clean=1)
    _checked(info)
    return upper.T


def _factored(x: Any) -> tuple[Any, Any]:
    """Return the LU decomposition of the transpose."""
    factors, pivots, info = routine("getrf", x)(x.T)
    if info > 0:
        factors[info - 1, info - 1] = 0
    return factors, pivots


def _solve(a: Any, b: Any) -> Any:
    factors, pivots = _factored(a)
    _checked(int((factors.diagonal() == 0).any()))
    return routine("getrs", a)(factors, pivots, b, trans=1)[0]


def _inv(x: Any) -> Any:
    factors, pivots = _factored(x)
    _checked(int((factors.diagonal() == 0).any()))
    inverse, info = routine("getri", x)(factors, pivots, lwork=64 * len(x), overwrite_lu=1)
    _checked(info)
    return inverse.T


def _slogdet(x: Any) -> tuple[Any, Any]:
    factors, pivots = _factored(x)
    diagonal = factors.diagonal()
    swaps = int((pivots != np.arange(len(pivots))).sum())
    sign = np.sign(diagonal).prod() * (-1) ** swaps
    return x.dtype.type(sign), np.log(np.abs(diagonal)).sum()


def _det(x: Any) -> Any:
    sign, logarithm = _slogdet(x)
    return sign * np.exp(logarithm)


def _eigh(x: Any) -> tuple[Any, Any]:
    values, vectors, info = routine("syevd", x)(x.T, compute_v=1, lower=0)
    _checked(info)
    return values, vectors


def _svd(x: Any, full_matrices: bool) -> tuple[Any, Any, Any]:
    factors: tuple[Any, Any, Any] = _scipy().svd(x, full_matrices=full_matrices, check_finite=False)
    return factors


def _qr(x: Any, mode: str) -> tuple[Any, Any]:
    factors: tuple[Any, Any] = _scipy().qr(x, mode="economic" if mode == "reduced" else "full", check_finite=False)
    return factors


class Linalg:
    """``numpy.linalg``, in which SciPy computes matrices of many rows."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np.linalg, name)

    def cholesky(self, x: Any) -> Any:
        """Compute the same as ``numpy.linalg.cholesky``."""
        return each(_cholesky, x) if fits(x) else np.linalg.cholesky(x)

    def solve(self, a: Any, b: Any) -> Any:
        """Compute the same as ``numpy.linalg.solve``."""
        return each(_solve, a, b) if fits(a) and b.size else np.linalg.solve(a, b)

    def inv(self, x: Any) -> Any:
        """Compute the same as ``numpy.linalg.inv``."""
        return each(_inv, x) if fits(x) else np.linalg.inv(x)

    def det(self, x: Any) -> Any:
        """Compute the same as ``numpy.linalg.det``."""
        return each(_det, x) if fits(x) else np.linalg.det(x)

    def slogdet(self, x: Any) -> Any:
        """Compute the same as ``numpy.linalg.slogdet``."""
        return each(_slogdet, x) if fits(x) else np.linalg.slogdet(x)

    def eigh(self, x: Any) -> Any:
        """Compute the same as ``numpy.linalg.eigh``."""
        return each(_eigh, x) if fits(x) else np.linalg.eigh(x)

    def svd(self, x: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
        """Compute the same as ``numpy.linalg.svd``."""
        if compute_uv and fits(x):
            return each(lambda x: _svd(x, full_matrices), x)
        svd: Any = np.linalg.svd
        return svd(x, full_matrices, compute_uv)

    def qr(self, x: Any, mode: Any = "reduced") -> Any:
        """Compute the same as ``numpy.linalg.qr``."""
        return each(lambda x: _qr(x, mode), x) if fits(x) else np.linalg.qr(x, mode)


class Accelerated:
    """NumPy, with `Linalg` in place of its ``linalg``."""

    linalg = Linalg()

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


xp = Accelerated()


def solve_triangular(a: Any, b: Any, upper: bool, unitriangular: bool) -> Any:
    """Compute the same as `burnpy.backend.numerics.lapack.solve_triangular`, also for a diagonal with zeros."""
    if not (fits(a) and b.size):
        return lapack.solve_triangular(np, a, b, upper, unitriangular)

    def solved(a: Any, b: Any) -> Any:
        turned = not a.flags.f_contiguous  # and so given as its transpose, which is in LAPACK's order
        matrix, lower, diag = a.T if turned else a, int(upper == turned), int(unitriangular)
        if b.shape[1] == 1:  # a quarter of the time
            return routine("trsv", a)(matrix, b[:, 0], lower=lower, trans=int(turned), diag=diag)[:, None]
        # xᵀ aᵀ = bᵀ
        return routine("trsm", a)(1.0, matrix, b.T, side=1, lower=lower, trans_a=int(not turned), diag=diag).T

    return each(solved, a, b)


def lu_factor(x: Any) -> tuple[Any, Any, Any]:
    """Compute the same as `burnpy.backend.numerics.lapack.lu_factor`."""
    if not fits(x):
        return lapack.lu_factor(np, x)

    def factored(x: Any) -> tuple[Any, Any, Any]:
        factors, pivots, _ = routine("getrf", x)(x)
        order = np.arange(len(x))
        for row, other in enumerate(pivots):
            order[row], order[other] = order[other], order[row]
        return factors, pivots.astype(np.int64) + 1, order

    return each(factored, x)  # type: ignore[no-any-return]  # a triple


_FEW_DIFFERENCES = 512
"""The number of differences below which the default's dozen calls take no longer than a kernel's."""
_LONGEST_SUM = 4096
"""The longest sum: a longer one would be less exact than NumPy's."""


class NumPyDistances(ArrayBackend):
    """Distances of float32 and float64 rows by kernels."""

    def cdist(self, x: Any, y: Any, p: float) -> Any:
        out = None
        if _has_kernels(x, y) and (kernels := family_kernels("linalg_and_distances")):
            out = kernels.run_distances(x, y, p)
        if out is None:
            return super().cdist(x, y, p)
        return self._call(_exact, self, out, x, y) if p == 2 else out

    def cdist_backward(self, grad: Any, x: Any, y: Any, out: Any, p: float) -> Any:
        total = None
        if (
            _has_kernels(x, y)
            and grad.dtype is x.dtype
            and (p != 2 or out.max() < math.inf)
            and (kernels := family_kernels("linalg_and_distances"))
        ):
            weights = self._call(_shares, grad, out) if p == 2 else grad
            if p == math.inf and (counts := kernels.run_tie_counts(x, y, out)) is not None:
                weights = self._call(np.divide, grad, counts)
            total = kernels.run_weighted_differences(weights, x, y, out, p)
        return super().cdist_backward(grad, x, y, out, p) if total is None else total


def _has_kernels(x: Any, y: Any) -> bool:
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
