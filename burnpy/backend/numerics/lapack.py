"""Linear algebra of arrays by the ``linalg`` of an array module, ``numpy.linalg`` or ``cupy.linalg``.

Each function takes the module and arrays of it, float16 and bfloat16 too, which are computed in float32. The defaults
of operations call them on the host, and NumPy and CuPy with their own arrays. An error names the matrix of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.errors import LinAlgError

Array = Any

_REASONS = {
    "cholesky": "is not positive definite; add a small multiple of the identity to it, or use eigh()",
    "solve": "is singular; lstsq() takes singular matrices",
    "inv": "is singular; pinv() takes singular matrices",
    "eigh": "has no eigenvalues that LAPACK finds: it contains NaN or infinity, or its numbers are too large",
    "svd": "has no singular values that LAPACK finds: it contains NaN or infinity, or its numbers are too large",
}

_MOST_DIMS = 32
"""The most dimensions of arrays for LAPACK: NumPy's functions count the dimensions of results to their 64, too."""

BLOCK = 64
"""The rows that are solved at once by `solve_triangular`; all others are products."""


def cholesky(xp: Any, x: Array) -> Array:
    """Return the lower factor of positive definite matrices."""
    return _run(xp, "cholesky", xp.linalg.cholesky, x)


def cholesky_info(xp: Any, x: Array) -> Array:
    """Return for each matrix the size of its first leading block that is not positive definite; 0 if there is none."""
    batch = x.shape[:-2]
    matrices = x.astype(np.result_type(x.dtype, float64)).reshape((math.prod(batch), *x.shape[-2:]))
    info = xp.zeros(len(matrices), int64)
    try:
        xp.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        for k, matrix in enumerate(matrices):
            info[k] = _first_indefinite(xp, matrix)
    return info.reshape(batch)


def _first_indefinite(xp: Any, matrix: Array) -> int:
    definite, size = 0, len(matrix) + 1  # blocks up to the first are, from the second on they are not
    while size - definite > 1:
        middle = (definite + size) // 2
        try:
            xp.linalg.cholesky(matrix[:middle, :middle])
            definite = middle
        except np.linalg.LinAlgError:
            size = middle
    return 0 if size > len(matrix) else size


def solve(xp: Any, a: Array, b: Array) -> Array:
    """Return the solutions of a x = b."""
    return _run(xp, "solve", xp.linalg.solve, a, b)


def inv(xp: Any, x: Array) -> Array:
    """Return the inverses."""
    return _run(xp, "inv", xp.linalg.inv, x)


def det(xp: Any, x: Array) -> Array:
    """Return the determinants."""
    return _run(xp, "det", xp.linalg.det, x)


def slogdet(xp: Any, x: Array) -> tuple[Array, Array]:
    """Signs and logarithms of determinants."""
    return _run(xp, "slogdet", lambda x: tuple(xp.linalg.slogdet(x)), x)  # type: ignore[no-any-return]  # a pair


def eigh(xp: Any, x: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    return _run(xp, "eigh", lambda x: tuple(xp.linalg.eigh(x)), x)  # type: ignore[no-any-return]  # a pair


def eigvalsh(xp: Any, x: Array) -> Array:
    """Eigenvalues of symmetric matrices."""
    return _run(xp, "eigh", xp.linalg.eigvalsh, x)


def eig(xp: Any, x: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of complex matrices; see `eigvals`."""

    def call(x: Array) -> tuple[Array, Array]:
        values, vectors = xp.linalg.eig(_real_if_possible(x))
        return values.astype(x.dtype), vectors.astype(x.dtype)

    return _run(xp, "eigh", call, x)  # type: ignore[no-any-return]  # a pair


def eigvals(xp: Any, x: Array) -> Array:
    """Eigenvalues of complex matrices; of real numbers in a fraction of the time, and then exactly real or in pairs."""
    return _run(xp, "eigh", lambda x: xp.linalg.eigvals(_real_if_possible(x)).astype(x.dtype), x)


def _real_if_possible(x: Array) -> Array:
    return x if x.imag.any() else x.real


def svd(xp: Any, x: Array, full_matrices: bool) -> tuple[Array, Array, Array]:
    """Singular value decompositions."""
    out: tuple[Array, Array, Array] = _run(xp, "svd", lambda x: tuple(xp.linalg.svd(x, full_matrices)), x)
    return out


def svdvals(xp: Any, x: Array) -> Array:
    """Singular values."""
    return _run(xp, "svd", lambda x: xp.linalg.svd(x, compute_uv=False), x)


def qr(xp: Any, x: Array, complete: bool) -> tuple[Array, Array]:
    """QR decompositions."""
    mode = "complete" if complete else "reduced"
    if 0 in x.shape[-2:]:  # NumPy refuses empty matrices, which CuPy and PyTorch decompose
        rows, columns = x.shape[-2:]
        k = rows if complete else 0
        q = xp.broadcast_to(xp.eye(rows, k, dtype=x.dtype), (*x.shape[:-2], rows, k)).copy()
        return q, xp.zeros((*x.shape[:-2], k, columns), x.dtype)
    return _run(xp, "qr", lambda x: tuple(xp.linalg.qr(x, mode)), x)  # type: ignore[no-any-return]  # a pair


def adjugate(xp: Any, x: Array) -> Array:
    """Adjugates: det(x) x⁻¹ where x is far from singular, else by the singular values."""
    return _run(xp, "svd", lambda x: _adjugate(xp, x), x)


def _adjoint(x: Array) -> Array:
    """Return the conjugate transposes."""
    return x.swapaxes(-1, -2).conj()


def _adjugate(xp: Any, x: Array) -> Array:
    if not x.size:
        return x.copy()
    try:
        inverse = xp.linalg.inv(x)
        condition = float((xp.abs(x).sum(-1).max(-1) * xp.abs(inverse).sum(-1).max(-1)).max())
        if condition < xp.finfo(x.dtype).eps ** -0.5:
            return inverse * xp.linalg.det(x)[..., None, None]
    except np.linalg.LinAlgError:
        pass
    u, s, vh = xp.linalg.svd(x, False)
    others = xp.ones_like(s)
    for k in range(x.shape[-1]):  # products without division, which a singular value of 0 does not permit
        factor = s[..., k : k + 1].repeat(x.shape[-1], -1)
        factor[..., k] = 1
        others *= factor
    turn = xp.linalg.det(u) * xp.linalg.det(vh)
    others = others * (turn if x.dtype.kind == "c" else xp.rint(turn))[..., None]
    return xp.matmul(_adjoint(vh) * others[..., None, :], _adjoint(u))


def solve_triangular(xp: Any, a: Array, b: Array, upper: bool, unitriangular: bool) -> Array:
    """Return the solutions of triangular equations, by blocks of rows: known rows are multiplied, and the rest
    solved."""
    if a.dtype.itemsize == 2:
        return solve_triangular(xp, a.astype(float32), b.astype(float32), upper, unitriangular).astype(a.dtype)
    n = a.shape[-1]
    out = xp.empty(b.shape, b.dtype)
    starts = range(0, n, BLOCK)
    for start in reversed(starts) if upper else starts:
        rows, known = slice(start, start + BLOCK), slice(start + BLOCK, n) if upper else slice(0, start)
        right = b[..., rows, :]
        if known.start < known.stop:
            right = right - xp.matmul(a[..., rows, known], out[..., known, :])
        out[..., rows, :] = _block(xp, a[..., rows, rows], right, upper, unitriangular)
    return out


def _block(xp: Any, a: Array, b: Array, upper: bool, unitriangular: bool) -> Array:
    """Return the solution of one block of rows; with a diagonal of 1 or not 0 by LAPACK's solver for square
    matrices."""
    triangle = xp.triu if upper else xp.tril
    if unitriangular:
        a = triangle(a, 1 if upper else -1) + xp.eye(a.shape[-1], dtype=a.dtype)
    else:
        a = triangle(a)
    try:
        return xp.linalg.solve(a, b)
    except np.linalg.LinAlgError:  # a 0 on the diagonal, by which substitution divides
        out, n = b.copy(), a.shape[-1]
        for row in reversed(range(n)) if upper else range(n):
            known = slice(row + 1, n) if upper else slice(0, row)
            total = xp.matmul(a[..., row : row + 1, known], out[..., known, :])[..., 0, :]
            with np.errstate(all="ignore"):
                out[..., row, :] = (out[..., row, :] - total) / a[..., row, row, None]
        return out


def lu_factor(xp: Any, x: Array) -> tuple[Array, Array, Array]:
    """LU decompositions: the factors, LAPACK's pivots, and the permutations, by columns, for all matrices at once."""
    if x.dtype.itemsize == 2:
        factors, pivots, order = lu_factor(xp, x.astype(float32))
        return factors.astype(x.dtype), pivots, order
    *batch, rows, columns = x.shape
    count = min(rows, columns)
    out = xp.array(x, order="C").reshape((math.prod(batch), rows, columns))
    each = xp.arange(out.shape[0])
    order = xp.broadcast_to(xp.arange(rows, dtype=int64), (out.shape[0], rows)).copy()
    pivots = xp.empty((out.shape[0], count), int64)
    for k in range(count):
        largest = _sizes(xp, out[:, k:, k]).argmax(1) + k
        pivots[:, k] = largest + 1
        for array in (out, order):
            top, other = array[:, k].copy(), array[each, largest]
            array[:, k], array[each, largest] = other, top
        pivot = out[:, k : k + 1, k]
        out[:, k + 1 :, k] /= xp.where(pivot == 0, 1, pivot)  # a column of zeros stays so
        out[:, k + 1 :, k + 1 :] -= out[:, k + 1 :, k : k + 1] * out[:, k : k + 1, k + 1 :]
    return out.reshape(x.shape), pivots.reshape((*batch, count)), order.reshape((*batch, rows))


def pivot_order(xp: Any, pivots: Array) -> Array:
    """Return the permutations of rows that interchanges make, one after another."""
    size = pivots.shape[-1]
    swaps = pivots.reshape((math.prod(pivots.shape[:-1]), size)).astype(int64) - 1
    swaps = xp.minimum(xp.maximum(swaps, 0), size - 1)  # a plan reports others after it has run
    order, each = xp.broadcast_to(xp.arange(size, dtype=int64), swaps.shape).copy(), xp.arange(swaps.shape[0])
    for k in range(size):
        other = swaps[:, k]
        order[:, k], order[each, other] = order[each, other], order[:, k].copy()
    return order.reshape(pivots.shape)


def _sizes(xp: Any, x: Array) -> Array:
    """Return the magnitudes by which LAPACK chooses pivots: |x|, and |real| + |imag| of complex numbers."""
    return xp.abs(x.real) + xp.abs(x.imag) if x.dtype.kind == "c" else xp.abs(x)


def pinv(xp: Any, x: Array, atol: float, rtol: float) -> Array:
    """Pseudoinverses."""
    return _run(xp, "svd", lambda x: _pinv(xp, x, atol, rtol), x)


def _pinv(xp: Any, x: Array, atol: float, rtol: float) -> Array:
    if 0 in x.shape[-2:]:
        return _adjoint(x).copy()
    u, s, vh = xp.linalg.svd(x, False)
    counts = s > xp.maximum(s[..., :1] * rtol, atol)
    inverse = xp.where(counts, 1 / xp.where(counts, s, 1), 0)
    return xp.matmul(_adjoint(vh) * inverse[..., None, :], _adjoint(u))


_PADE = (
    *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0),
    *(10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0),
)
_LARGEST_NORM = 5.371920351148152
"""The norm up to which the approximant of order 13 is accurate to the rounding of float64."""


def matrix_exp(xp: Any, x: Array) -> Array:
    """Matrix exponentials by scaling, a Padé approximant of order 13, and squaring.

    Source: N. J. Higham, The Scaling and Squaring Method for the Matrix Exponential Revisited, 2005.
    """
    return _run(xp, "matrix_exp", lambda x: _matrix_exp(xp, x), x)


def _matrix_exp(xp: Any, x: Array) -> Array:
    if not x.size:
        return x.copy()
    norm = xp.abs(x).sum(-2).max(-1)[..., None, None]
    norm = xp.where(xp.isfinite(norm), norm, 0)  # other values give NaN by themselves
    squarings = xp.ceil(xp.log2(xp.maximum(norm / _LARGEST_NORM, 1)))  # of each matrix as many as it needs
    a = (x * 2.0**-squarings).astype(x.dtype)
    one = xp.eye(x.shape[-1], dtype=x.dtype)
    a2 = xp.matmul(a, a)
    a4 = xp.matmul(a2, a2)
    a6 = xp.matmul(a2, a4)
    b = [float(c) / _PADE[0] for c in _PADE]
    odd = xp.matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one
    even = xp.matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    odd = xp.matmul(a, odd)
    out = xp.linalg.solve(even - odd, even + odd)
    for k in range(int(squarings.max())):
        out = xp.where(squarings > k, xp.matmul(out, out), out)
    return out


def _run(xp: Any, name: str, f: Callable[..., Any], *arrays: Array) -> Any:
    """Return f(*arrays), computed in float32 for 16-bit floats."""
    dtype = arrays[0].dtype
    if dtype.itemsize == 2:
        out = _run(xp, name, f, *[a.astype(float32) for a in arrays])
        return tuple([each.astype(dtype) for each in out]) if isinstance(out, tuple) else out.astype(dtype)
    if name in ("eigh", "svd"):
        f = partial(_of_finite, xp, name, f)
    if arrays[0].ndim > _MOST_DIMS:
        f = partial(_with_flat_batch, f)
    try:
        return f(*arrays)
    except np.linalg.LinAlgError as error:
        raise _failure(name, f, arrays) from error


def _of_finite(xp: Any, name: str, f: Callable[..., Any], x: Array) -> Any:
    """Return f(x). LAPACK does not return from a singular value decomposition of a matrix with an infinity."""
    if not xp.isfinite(x.sum()) and not xp.isfinite(xp.tril(x) if name == "eigh" else x).all():
        raise np.linalg.LinAlgError
    return f(x)


def _with_flat_batch(f: Callable[..., Any], *arrays: Array) -> Any:
    """Return f(*arrays), computed for one dimension of all matrices in place of those before the last two."""
    batch = arrays[0].shape[:-2]
    out = f(*[a.reshape((math.prod(batch), *a.shape[-2:])) for a in arrays])
    if isinstance(out, tuple):
        return tuple([each.reshape((*batch, *each.shape[1:])) for each in out])
    return out.reshape((*batch, *out.shape[1:]))


def _failure(name: str, f: Callable[..., Any], arrays: tuple[Array, ...]) -> LinAlgError:
    """Return the error that says which matrix of the batch failed, the first of several."""
    shape = tuple(arrays[0].shape)
    asked, why = f"{name}() got shape {shape}", _REASONS.get(name, "cannot be decomposed")
    if len(shape) == 2:
        return LinAlgError(f"{asked}, and the matrix {why}")
    for index in np.ndindex(*shape[:-2]):
        try:
            f(*[a[index] for a in arrays])
        except np.linalg.LinAlgError:
            return LinAlgError(f"{asked}, and matrix {index[0] if len(index) == 1 else index} {why}")
    return LinAlgError(f"{asked}, and a matrix {why}")
