"""Rules of decompositions into singular vectors, eigenvectors and orthonormal columns.

Singular values or eigenvalues that differ by no more than rounding count as equal, and so have no derivative of their
vectors within their subspace: it is taken as 0, where PyTorch gives NaN or numbers of the size of 1 / rounding. The
first derivative of a symmetric function of the values is right.
Source: M. B. Giles, Collected Matrix Derivative Results for Forward and Reverse Mode Algorithmic Differentiation, 2008;
S. Walter and L. Lehmann, Algorithmic Differentiation of Linear Algebra Functions, 2010.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.autodiff.rules.algebra import joint, precise
from burnpy.autodiff.rules.linear_equations import column, row, symmetric_part
from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError
from burnpy.backend.primitives import Float, Shape


def close(i: Any, values: Float, power: int = 1) -> Float:
    """The rounding error of eigenvalues or singular values, or of their squares, with the last dimension of size 1."""
    if 0 in values.shape:
        return i.full((*values.shape[:-1], 1), 0.0, values.dtype)
    dtype = float32 if values.dtype.itemsize == 2 else values.dtype
    largest = i.amax(i.abs(i.detach(values)), (len(values.shape) - 1,), True)
    relative = 4 * power * values.shape[-1] * float(np.finfo(dtype).eps)
    return i.mul(largest if power == 1 else i.square(largest), relative)


def inverse_gaps(i: Any, values: Float, tolerance: Float) -> Float:
    """The matrix 1 / (values[k] - values[j]), 0 where the difference is within ``tolerance``."""
    gaps = i.sub(row(i, values), column(i, values))
    differ = i.gt(i.abs(i.detach(gaps)), column(i, tolerance))
    return i.where(differ, i.pow(i.where(differ, gaps, 1.0), -1), 0.0)


def eigh_vjp(i: Any, grads: Any, needs: Any, out: Float, out1: Float) -> tuple[Float]:
    """v (diag(g_w) + (vᵀ g_v) ∘ 1 / gaps) vᵀ, its symmetric part."""
    by_values, by_vectors = grads
    inside = None
    if by_vectors is not None:
        inside = i.matmul(out1, i.mul(i.matmul_tn(out1, by_vectors), inverse_gaps(i, out, close(i, out))))
    if by_values is not None:
        scaled = i.mul(out1, row(i, by_values))
        inside = scaled if inside is None else i.add(inside, scaled)
    return (symmetric_part(i, i.matmul_nt(inside, out1)),)


def eigh_jvp(i: Any, tangents: Any, out: Float, out1: Float) -> tuple[Float, Float]:
    """The diagonal of vᵀ t v, and v ((vᵀ t v) ∘ 1 / gaps)."""
    moved = i.matmul(symmetric_part(i, tangents[0]), out1)
    by_values = i.sum(i.mul(out1, moved), (len(out1.shape) - 2,), False)
    turned = i.mul(i.matmul_tn(out1, moved), inverse_gaps(i, out, close(i, out)))
    return by_values, i.matmul(out1, turned)


def thin(i: Any, x: Float, dim: int, count: int) -> Float:
    """The first ``count`` slices along ``dim``, one of the last two."""
    if x.shape[dim] == count:
        return x
    key = [slice(0, size, 1) for size in x.shape]
    key[dim] = slice(0, count, 1)
    return i.slice(x, tuple(key))


def refuse_full(full: bool, factor: Float | None, count: int, dim: int, operation: str, option: str) -> None:
    """Refuse to differentiate vectors of a complement, which are arbitrary.

    Raises:
        ArgumentError: the factor has more than ``count`` of them along ``dim``.
    """
    if full and factor is not None and factor.shape[dim] > count:
        raise ArgumentError(
            f"{operation}() was differentiated by vectors that complete a basis, of shape {factor.shape}, which are "
            f"arbitrary; write {operation}(x, {option})"
        )


def symmetric_sum(i: Any, x: Float) -> Float:
    """x + xᵀ."""
    return i.add(x, i.mT(x))


def skew(i: Any, x: Float) -> Float:
    """x - xᵀ."""
    return i.sub(x, i.mT(x))


def inverse(i: Any, s: Float) -> Float:
    """1 / s, and 0 where s is within rounding of 0."""
    nonzero = i.gt(i.detach(s), close(i, s))
    return i.where(nonzero, i.pow(i.where(nonzero, s, 1.0), -1), 0.0)


def svd_vjp(i: Any, grads: Any, needs: Any, out: Float, out1: Float, out2: Float, full_matrices: bool) -> tuple[Float]:
    """u (((uᵀ g_u - g_uᵀ u) ∘ e) s + s ((vᵀ g_v - g_vᵀ v) ∘ e) + diag(g_s)) vᵀ, with e = 1 / (s[k]² - s[j]²).

    Vectors outside of the range add (1 - u uᵀ) g_u s⁻¹ vᵀ and u s⁻¹ g_vᵀ (1 - v vᵀ).
    """
    by_u, by_s, by_vh = grads
    rows, k, columns = out.shape[-2], out1.shape[-1], out2.shape[-1]
    refuse_full(full_matrices, by_u, k, -1, "svd", "full_matrices=False")
    refuse_full(full_matrices, by_vh, k, -2, "svd", "full_matrices=False")
    u, s, vh = thin(i, out, len(out.shape) - 1, k), out1, thin(i, out2, len(out2.shape) - 2, k)
    gaps = None if by_u is by_vh is None else inverse_gaps(i, i.square(s), close(i, s, 2))
    middle, parts = None, []
    if by_u is not None:
        along = i.matmul_tn(u, by_u)
        middle = i.mul(i.mul(skew(i, along), gaps), row(i, s))
        if rows > k:
            outside = i.mul(i.sub(by_u, i.matmul(u, along)), row(i, inverse(i, s)))
            parts.append(i.matmul(outside, vh))
    if by_vh is not None:
        along = i.matmul_nt(vh, by_vh)
        part = i.mul(i.mul(skew(i, along), gaps), column(i, s))
        middle = part if middle is None else i.add(middle, part)
        if columns > k:
            outside = i.mul(i.sub(by_vh, i.matmul(i.mT(along), vh)), column(i, inverse(i, s)))
            parts.append(i.matmul(u, outside))
    total = None if middle is None else i.matmul(u, middle)
    if by_s is not None:
        scaled = i.mul(u, row(i, by_s))
        total = scaled if total is None else i.add(total, scaled)
    total = i.matmul(total, vh)
    for part in parts:
        total = i.add(total, part)
    return (total,)


def svd_jvp(
    i: Any, tangents: Any, out: Float, out1: Float, out2: Float, full_matrices: bool
) -> tuple[Float, Float, Float]:
    """With p = uᵀ t v: the diagonal of p, u ((p s + s pᵀ) ∘ e), and -((s p + pᵀ s) ∘ e) vᵀ."""
    (t,) = tangents
    rows, k, columns = out.shape[-2], out1.shape[-1], out2.shape[-1]
    refuse_full(full_matrices, out, k, -1, "svd", "full_matrices=False")
    refuse_full(full_matrices, out2, k, -2, "svd", "full_matrices=False")
    u, s, vh = out, out1, out2
    right = i.matmul_nt(t, vh)
    p = i.matmul_tn(u, right)
    gaps = inverse_gaps(i, i.square(s), close(i, s, 2))
    by_s = i.sum(i.mul(u, right), (len(u.shape) - 2,), False)
    by_u = i.matmul(u, i.mul(symmetric_sum(i, i.mul(p, row(i, s))), gaps))
    by_vh = i.neg(i.matmul(i.mul(symmetric_sum(i, i.mul(p, column(i, s))), gaps), vh))
    if rows > k:
        by_u = i.add(by_u, i.mul(i.sub(right, i.matmul(u, p)), row(i, inverse(i, s))))
    if columns > k:
        left = i.matmul_tn(u, t)
        by_vh = i.add(by_vh, i.mul(i.sub(left, i.matmul(p, vh)), column(i, inverse(i, s))))
    return by_u, by_s, by_vh


def right_solved(i: Any, x: Float, r: Float) -> Float:
    """x r⁻¹, for an upper triangular r."""
    return i.mT(i.solve_triangular(i.mT(r), i.mT(x), False, False))


def qr_vjp(i: Any, grads: Any, needs: Any, x: Float, out: Float, out1: Float, complete: bool) -> tuple[Float]:
    """(g_q + q c) r⁻ᵀ, where c is the lower triangle of r g_rᵀ - g_qᵀ q, mirrored.

    If x has more columns than rows, it is that of its first square matrix, and r's other columns are qᵀ x.
    """
    by_q, by_r = grads
    rows, columns = x.shape[-2:]
    refuse_full(complete, out, min(rows, columns), -1, "qr", 'mode="reduced"')
    by_rest = None
    q, r, last = out, out1, len(x.shape) - 1
    if columns > rows:
        r = thin(i, out1, last, rows)
        if by_r is not None:
            by_rest = i.slice(by_r, rest(by_r.shape, rows))
            by_r = thin(i, by_r, last, rows)
            part = i.matmul_nt(i.slice(x, rest(x.shape, rows)), by_rest)
            by_q = part if by_q is None else i.add(by_q, part)
    middle = None
    if by_r is not None:
        middle = i.matmul_nt(r, i.triu(by_r, 0))
    if by_q is not None:
        part = i.matmul_tn(by_q, q)
        middle = i.neg(part) if middle is None else i.sub(middle, part)
    total = i.matmul(q, i.add(i.tril(middle, 0), i.mT(i.tril(middle, -1))))
    total = total if by_q is None else i.add(total, by_q)
    total = i.mT(i.solve_triangular(r, i.mT(total), True, False))
    if columns > rows:
        beside = i.full((*x.shape[:-1], columns - rows), 0.0, x.dtype) if by_rest is None else i.matmul(q, by_rest)
        total = i.cat([total, beside], last)
    return (total,)


def qr_jvp(i: Any, tangents: Any, x: Float, out: Float, out1: Float, complete: bool) -> tuple[Float, Float]:
    """With m = qᵀ t r⁻¹ and its lower triangle w, w - wᵀ turns q, and (m - w + wᵀ) r is r's tangent."""
    (t,) = tangents
    rows, columns = x.shape[-2:]
    refuse_full(complete, out, min(rows, columns), -1, "qr", 'mode="reduced"')
    q, last = out, len(x.shape) - 1
    r, first = (out1, t) if columns <= rows else (thin(i, out1, last, rows), thin(i, t, last, rows))
    solved = right_solved(i, first, r)
    m = i.matmul_tn(q, solved)
    upper = i.sub(m, skew(i, i.tril(m, -1)))
    by_q, by_r = i.sub(solved, i.matmul(q, upper)), i.matmul(upper, r)
    if columns > rows:
        beside = i.add(
            i.matmul_tn(by_q, i.slice(x, rest(x.shape, rows))), i.matmul_tn(q, i.slice(t, rest(t.shape, rows)))
        )
        by_r = i.cat([by_r, beside], last)
    return by_q, by_r


def rest(shape: Shape, start: int) -> tuple[slice, ...]:
    """The key of the last columns, from ``start``."""
    return (*[slice(0, size, 1) for size in shape[:-1]], slice(start, shape[-1], 1))


joint(Backend.eigh, precise(eigh_vjp), precise(eigh_jvp))
joint(Backend.svd, precise(svd_vjp), precise(svd_jvp))
joint(Backend.qr, precise(qr_vjp), precise(qr_jvp))
