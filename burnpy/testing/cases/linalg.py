"""Examples of linear algebra: norms, distances, decompositions and equations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.testing.cases.samples import Array, Large, Values, x
from burnpy.testing.cases.table import Example, row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.primitives import DType

_POWERS = (2.0, 1.0, 3.0, 0.5, -1.5, 0.0, math.inf, -math.inf)
_EXAMPLES: list[tuple[Any, ...]] = [
    *((x(2, 3, 2), p, dims, keepdim) for p in _POWERS for dims, keepdim in (((0, 2), False), ((1,), True))),
    *((x(2, 3), p, (), False) for p in (2.0, 0.5)),
    *((x(), p, (), False) for p in (2.0, -1.5)),
    *((x(2, 0), p, (1,), False) for p in (2.0, 1.0, 3.0, 0.0)),
    *((x(0, 2), p, (1,), False) for p in (2.0, math.inf, -2.0)),
    *((Large((30, 50)), p, (1,), False) for p in (2.0, 1.5)),
    *((Values((0.0, 2.0, -3.0)), p, (0,), False) for p in _POWERS),
    *((Values((0.0, 0.0)), p, (0,), False) for p in _POWERS),
    *((Values((math.inf, 1.0)), p, (0,), True) for p in _POWERS),
    *((Values((math.nan, 1.0)), p, (0,), False) for p in _POWERS),
]


def _norm(x: Any, p: float, dims: tuple[int, ...], keepdim: Any) -> Any:
    size = np.abs(x)
    if p == 0:
        return (x != 0).astype(x.dtype).sum(dims, keepdims=keepdim)
    if math.isinf(p):
        return np.max(size, dims, keepdims=keepdim, initial=0) if p > 0 else np.min(size, dims, keepdims=keepdim)
    total = (size**p).sum(dims, keepdims=keepdim)
    return total ** (1 / p)


row("vector_norm", _norm, _EXAMPLES, loose=8)


def _distances(x: Any, y: Any, p: float) -> Any:
    return _norm(x[..., :, None, :] - y[..., None, :, :], p, (-1,), False)


def _distances_backward(grad: Any, x: Any, y: Any, out: Any, p: float) -> Any:
    difference = x[..., :, None, :] - y[..., None, :, :]
    if p == math.inf:
        tied = np.abs(difference) == out[..., None]
        slope = np.where(tied, np.sign(difference), 0) / np.maximum(tied.sum(-1, keepdims=True), 1)
    else:
        slope = np.sign(difference) if p == 1 else difference / np.where(out == 0, 1, out)[..., None]
    return (grad[..., None] * slope).sum(-2)


_ROWS = [
    (x(3, 2), x(4, 2, low=2.5, high=4.0)),
    (x(2, 3, 2), x(2, 4, 2, low=2.5, high=4.0)),
    (x(0, 2), x(4, 2)),
    (x(3, 0), x(4, 0)),
    (Large((30, 6)), Large((20, 6))),
    (Large((2, 9, 20)), Large((2, 70, 20))),
    (Values((0.0, math.inf, math.nan, -0.0), (2, 2)), Values((0.0, 0.0, math.inf, 3.0), (2, 2))),
]
row("cdist", _distances, [(*rows, p) for rows in _ROWS for p in (1.0, 2.0, math.inf)], loose=8)
row(
    "cdist_backward",
    _distances_backward,
    [
        *((x(3, 4), x(3, 2), x(4, 2, low=2.5, high=4.0), x(3, 4, low=1.0, high=2.0), p) for p in (1.0, 2.0)),
        *((x(0, 4), x(0, 2), x(4, 2), x(0, 4, low=1.0), p) for p in (1.0, 2.0)),
        *((Large((30, 20)), Large((30, 6)), Large((20, 6)), Large((30, 20), 0.5, 3.0), p) for p in (1.0, 2.0)),
    ],
    loose=32,
)


def wide(dtype: DType) -> Any:
    """Return the dtype in which values are made."""
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


@dataclass(frozen=True)
class Regular(Array):
    """Matrices that are far from singular, with random elements and a diagonal of at least their sum."""

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """Return random values, and ``n`` more on the diagonal, whose signs alternate."""
        values, (m, n) = super().array(wide(dtype), seed), self.shape[-2:]
        return np.asarray(values + np.eye(m, n) * (n + 2.0) * (-1.0) ** np.arange(n)).astype(dtype)


@dataclass(frozen=True)
class Spread(Array):
    """Symmetric positive definite matrices, whose eigenvalues lie apart."""

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """Return random symmetric values with different large numbers on the diagonal."""
        values, n = super().array(wide(dtype), seed), self.shape[-1]
        both = (values + values.swapaxes(-1, -2).conj()) / 4
        return np.asarray(both + np.diag(3.0 + 4.0 * np.arange(n))).astype(dtype)

    def varied(self, device: Any, primitive: Any) -> Any:
        """Return the symmetric part, as operations read one triangle of matrices that they take to be symmetric."""
        other = device.mT(primitive)
        return device.mul(device.add(primitive, device.conj(other) if other.dtype.kind == "c" else other), 0.5)


def regular(*shape: int) -> Regular:
    """Describe matrices far from singular."""
    return Regular(shape)


def positive(*shape: int) -> Spread:
    """Describe symmetric positive definite matrices."""
    return Spread(shape)


_SQUARE: list[Example] = [(regular(1, 3, 3),), (regular(2, 2, 2, 2),), (x(1, 1, low=0.5),), (x(0, 0),), (x(0, 2, 2),)]


def _adjugate(x: Any) -> Any:
    n = x.shape[-1]
    out = np.ones_like(x)
    for i, j in np.ndindex(n, n):
        minor = np.delete(np.delete(x, j, -2), i, -1)
        out[..., i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return out


def _solve_triangular(a: Any, b: Any, upper: bool, unitriangular: bool) -> Any:
    triangle = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        triangle = np.where(np.eye(a.shape[-1]) == 1, 1.0, triangle)
    return np.linalg.solve(triangle, b)


def _matrix_exp(x: Any) -> Any:
    out = term = np.broadcast_to(np.eye(x.shape[-1]), x.shape).copy()
    small = x / 64
    for k in range(1, 24):
        term = term @ small / k
        out = out + term
    return np.linalg.matrix_power(out, 64)


def _pinv(x: Any, atol: float, rtol: float) -> Any:
    return np.linalg.pinv(x, rcond=rtol) if x.size else x.swapaxes(-1, -2).conj()


row(
    "solve_triangular",
    _solve_triangular,
    [
        (regular(2, 3, 3), x(2, 3, 2), False, False),
        (regular(2, 3, 3), x(2, 3, 1), True, False),
        (x(1, 3, 3, low=-0.5, high=0.5), x(1, 3, 2), False, True),
        (x(2, 2, 2, low=-0.5, high=0.5), x(2, 2, 2), True, True),
        (x(1, 1, low=0.5), x(1, 3), False, False),
        (x(0, 0), x(0, 2), True, False),
        (x(0, 2, 2), x(0, 2, 3), False, False),
    ],
    loose=16,
)
row(
    "solve",
    np.linalg.solve,
    [
        (regular(1, 3, 3), x(1, 3, 2)),
        (regular(2, 2, 2, 2), x(2, 2, 2, 1)),
        (x(1, 1, low=0.5), x(1, 3)),
        (x(0, 0), x(0, 2)),
        (x(0, 2, 2), x(0, 2, 3)),
    ],
    loose=16,
)
row("inv", np.linalg.inv, _SQUARE, loose=16)
row("det", np.linalg.det, [*_SQUARE, (Array((2, 3, 3)),)], loose=32)
row("adjugate", _adjugate, [*_SQUARE, (Array((2, 3, 3)),)], loose=64)
row("slogdet", lambda x: tuple(np.linalg.slogdet(x)), _SQUARE, loose=16)
row("pinv", _pinv, [(a, 0.0, 1e-4) for a in (x(1, 3, 2), x(2, 2, 3), regular(1, 2, 2), x(1, 0, 3))], loose=64)
row("matrix_exp", _matrix_exp, [(x(1, 3, 3),), (x(2, 1, 2, 2),), (x(1, 1),), (x(0, 0),), (x(0, 2, 2),)], loose=256)

_POSITIVE: list[Example] = [(positive(1, 3, 3),), (positive(2, 2, 2),), (x(1, 1, low=0.5),), (x(0, 0),), (x(0, 2, 2),)]
_ANY: list[Any] = [x(1, 3, 3), x(2, 4, 2), x(2, 1, 2, 3), x(1, 1, low=0.5), x(1, 0, 3), x(1, 2, 0), x(0, 2, 2)]
_FULL_RANK = [regular(*a.shape) if min(a.shape) > 1 else a for a in _ANY]


def _qr(x: Any, complete: bool) -> Any:
    if 0 not in x.shape[-2:]:
        return tuple(np.linalg.qr(x, "complete" if complete else "reduced"))
    rows, columns = x.shape[-2:]
    k = rows if complete else 0
    return np.broadcast_to(np.eye(rows, k), (*x.shape[:-2], rows, k)), np.zeros((*x.shape[:-2], k, columns))


def _lu_factor(x: Any) -> Any:
    """Return the decomposition of each matrix by Gaussian elimination."""
    *batch, rows, columns = x.shape
    count = min(rows, columns)
    factors, order = x.copy(), np.broadcast_to(np.arange(rows), (*batch, rows)).copy()
    pivots = np.zeros((*batch, count), np.int64)
    for index in np.ndindex(*batch):
        for k in range(count):
            a, p = factors[index], order[index]
            largest = k + int((np.abs(a[k:, k].real) + np.abs(a[k:, k].imag)).argmax())  # as LAPACK's
            pivots[(*index, k)] = largest + 1
            a[[k, largest]], p[[k, largest]] = a[[largest, k]], p[[largest, k]]
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return factors, pivots, order


def _pivot_order(pivots: Any) -> Any:
    order = np.broadcast_to(np.arange(pivots.shape[-1]), pivots.shape).copy()
    for index in np.ndindex(*pivots.shape[:-1]):
        for k, other in enumerate(pivots[index] - 1):
            order[index][[k, other]] = order[index][[other, k]]
    return order


row("cholesky", np.linalg.cholesky, _POSITIVE, loose=8)
row("cholesky_info", lambda x: np.zeros(x.shape[:-2], np.int64), _POSITIVE)
row("eigh", lambda x: tuple(np.linalg.eigh(x)), _POSITIVE, loose=64, up_to_sign=True)
row("eigvalsh", np.linalg.eigvalsh, _POSITIVE, loose=16)
row("eig", lambda x: tuple(np.linalg.eig(x)), _POSITIVE, loose=64, up_to_sign=True)
row("eigvals", np.linalg.eigvals, _POSITIVE, loose=16)
row(
    "svd",
    lambda x, full_matrices: tuple(np.linalg.svd(x, full_matrices)),
    [*((a, False) for a in _ANY), (x(1, 2, 2), True), (x(1, 0, 0), True)],
    loose=64,
    up_to_sign=True,
)
row("svdvals", lambda x: np.linalg.svd(x, compute_uv=False), [(a,) for a in _ANY], loose=16)
row("qr", _qr, [*((a, False) for a in _FULL_RANK), (regular(1, 2, 3), True), (x(1, 0, 2), True)], loose=64)
row("lu_factor", _lu_factor, [(a,) for a in _FULL_RANK], loose=64)
row("pivot_order", _pivot_order, [(np.array([[2, 2, 3], [3, 3, 3]]),), (np.zeros((2, 0), np.int64),)])
