"""Decompositions of matrices (…, n, m) in batches. Defaults run on the host, as those of equations do."""

from __future__ import annotations

from math import prod
from typing import Any

from burnpy.backend.dtypes import epsilon
from burnpy.backend.errors import ArgumentError
from burnpy.backend.operations import OperationsBase, by_host
from burnpy.backend.operations.complex_numbers import (
    adjoint_joint,
    adjoint_joint_jvp,
    adjoint_jvp,
    adjoint_vjp,
    conjugated,
    imaginary_diagonal,
    real_part,
)
from burnpy.backend.operations.linalg import (
    column,
    gaps,
    half_lower,
    largest_of,
    lengths,
    quotient,
    row,
    skew,
    symmetric_part,
    symmetric_sum,
    without_last_pivot,
)
from burnpy.backend.primitives import Complex, Float, Inexact, Int, Shape
from burnpy.backend.rules import SHIFTED, precise
from burnpy.backend.schema import GENERAL, NONDIFFERENTIABLE, derived


def cholesky_vjp(i: Any, g: Float, out: Float) -> Float:
    """Return the symmetric part of L⁻ᵀ Φ(Lᵀ g) L⁻¹, where Φ takes the lower triangle and half of the diagonal."""
    upper = i.mT(out)
    middle = symmetric_part(i, half_lower(i, i.matmul(upper, g)))
    left = i.solve_triangular(upper, middle, True, False)
    return i.solve_triangular(upper, i.mT(left), True, False)


def cholesky_jvp(i: Any, t: Float, out: Float) -> Float:
    """L Φ(L⁻¹ t L⁻ᵀ)."""
    left = i.solve_triangular(out, symmetric_part(i, t), False, False)
    return i.matmul(out, half_lower(i, i.solve_triangular(out, i.mT(left), False, False)))


def parts_of_lu(i: Any, factors: Float) -> tuple[Float, Float, Float | None, Float | None]:
    """Return the square lower and upper factor of LU decomposition, and the parts below or right of them, or None."""
    *sizes, rows, columns = factors.shape
    k = min(rows, columns)
    batch = tuple([slice(0, size, 1) for size in sizes])
    square = factors if rows == columns else i.slice(factors, (*batch, slice(0, k, 1), slice(0, k, 1)))
    below = i.slice(factors, (*batch, slice(k, rows, 1))) if rows > k else None
    beside = i.slice(factors, (*batch, slice(0, k, 1), slice(k, columns, 1))) if columns > k else None
    return i.add(i.tril(square, -1), i.eye(k, k, factors.dtype)), i.triu(square, 0), below, beside


def permuted(i: Any, x: Float, order: Int) -> Float:
    """Return the rows of each matrix in an order of its own."""
    index = i.discrete.expand(i.discrete.reshape(order, (*order.shape, 1)), x.shape)
    return i.gather(x, len(x.shape) - 2, index)


def lu_factor_vjp(i: Any, grads: Any, needs: Any, out: Float, out2: Int) -> tuple[Float]:
    """L⁻ᵀ (the lower triangle of Lᵀ g_L + the upper of g_U Uᵀ) U⁻ᵀ, its rows put back. Rows below, L₂ = x₂ U⁻¹, and
    columns beside, U₂ = L⁻¹ x₂, add their parts."""
    lower, upper, below, beside = parts_of_lu(i, out)
    g, grad_upper, grad_below, grad_beside = parts_of_lu(i, grads[0])
    grad_lower = i.sub(g, i.eye(g.shape[-1], g.shape[-1], g.dtype))
    upper = upper if below is not None else without_last_pivot(i, upper)
    parts = []
    if below is not None:  # g_L₂ U⁻ᵀ
        down = i.mT(i.solve_triangular(upper, i.mT(grad_below), True, False))
        grad_upper = i.sub(grad_upper, i.triu(i.matmul_tn(below, down), 0))
        parts.append((down, len(out.shape) - 2))
    if beside is not None:  # L⁻ᵀ g_U₂
        right = i.solve_triangular(i.mT(lower), grad_beside, True, True)
        grad_lower = i.sub(grad_lower, i.tril(i.matmul_nt(right, beside), -1))
        parts.append((right, len(out.shape) - 1))
    middle = i.add(i.tril(i.matmul_tn(lower, grad_lower), -1), i.triu(i.matmul_nt(grad_upper, upper), 0))
    left = i.solve_triangular(i.mT(lower), middle, True, True)
    total = i.mT(i.solve_triangular(upper, i.mT(left), True, False))
    for part, dim in parts:
        total = i.cat([total, part], dim)
    order = i.discrete.expand(i.discrete.reshape(out2, (*out2.shape, 1)), total.shape)
    return (i.scatter(i.full(total.shape, 0.0, total.dtype), len(total.shape) - 2, order, total),)


def lu_factor_jvp(i: Any, tangents: Any, out: Float, out2: Int) -> tuple[Float]:
    """With m = L⁻¹ t U⁻¹, rows permuted: L times its lower and its upper triangle times U."""
    lower, upper, below, beside = parts_of_lu(i, out)
    t = permuted(i, tangents[0], out2)
    *sizes, rows, columns = t.shape
    k = min(rows, columns)
    upper = upper if below is not None else without_last_pivot(i, upper)
    batch = tuple([slice(0, size, 1) for size in sizes])
    square = i.slice(t, (*batch, slice(0, k, 1), slice(0, k, 1)))
    left = i.solve_triangular(lower, square, False, True)
    middle = i.mT(i.solve_triangular(i.mT(upper), i.mT(left), False, False))
    tangent_lower, tangent_upper = i.matmul(lower, i.tril(middle, -1)), i.matmul(i.triu(middle, 0), upper)
    total = i.add(i.tril(tangent_lower, -1), i.triu(tangent_upper, 0))
    if below is not None:
        down = i.sub(i.slice(t, (*batch, slice(k, rows, 1))), i.matmul(below, tangent_upper))
        down = i.mT(i.solve_triangular(i.mT(upper), i.mT(down), False, False))
        total = i.cat([total, down], len(t.shape) - 2)
    if beside is not None:
        right = i.sub(i.slice(t, (*batch, slice(0, k, 1), slice(k, columns, 1))), i.matmul(tangent_lower, beside))
        total = i.cat([total, i.solve_triangular(lower, right, False, True)], len(t.shape) - 1)
    return (total,)


def turned(i: Any, x: Float, values: Float) -> Float:
    """x[j, k] / (values[k] - values[j]) for tangents x, and 0 where the gap is within the rounding of either value.
    Tangents of vectors are combined after the division, so that x does not show where the quotient is 0 / 0."""
    gap, size = gaps(i, values), i.abs(i.detach(values))
    keep = i.gt(i.abs(i.detach(gap)), i.mul(i.maximum(row(i, size), column(i, size)), epsilon(values.dtype)))
    return i.where(keep, i.div(x, i.where(keep, gap, 1.0)), 0.0)


def eigh_vjp(i: Any, grads: Any, needs: Any, out: Float, out1: Float) -> tuple[Float]:
    """v (diag(g_w) + (vᵀ g_v) ∘ 1 / gaps) vᵀ, its symmetric part."""
    grad_values, grad_vectors = grads
    inside = None
    if grad_vectors is not None:  # half of vᵀ g_v - g_vᵀ v, which cancels for symmetric functions of the eigenvalues
        noise = lengths(i, grad_vectors, -2)
        along = i.mul(skew(i, i.matmul_tn(out1, grad_vectors)), 0.5)
        noise = i.mul(symmetric_sum(i, noise), 0.5)
        inside = i.matmul(out1, quotient(i, along, gaps(i, out), noise, largest_of(i, out)))
    if grad_values is not None:
        scaled = i.mul(out1, row(i, grad_values))
        inside = scaled if inside is None else i.add(inside, scaled)
    return (symmetric_part(i, i.matmul_nt(inside, out1)),)


def eigh_jvp(i: Any, tangents: Any, out: Float, out1: Float) -> tuple[Float, Float]:
    """Return the diagonal of vᵀ t v, and v ((vᵀ t v) ∘ 1 / gaps)."""
    moved = i.matmul(symmetric_part(i, tangents[0]), out1)
    tangent_values = real_part(i, i.sum(i.mul(conjugated(i, out1), moved), (len(out1.shape) - 2,), False))
    return tangent_values, i.matmul(out1, turned(i, i.matmul_tn(out1, moved), out))


def eig_vjp(i: Any, grads: Any, needs: Any, out: Complex, out1: Complex) -> tuple[Complex]:
    """v⁻ᴴ (diag(g_w) + (vᴴ g_v - vᴴ v diag(Re(vᴴ g_v))) ∘ 1 / conjugate gaps) vᴴ."""
    grad_values, grad_vectors = grads
    adjoint, inside = i.mT(out1), None
    if grad_vectors is not None:
        stretch = real_part(i, i.sum(i.mul(conjugated(i, out1), grad_vectors), (len(out1.shape) - 2,), False))
        along = i.matmul(adjoint, i.sub(grad_vectors, i.mul(out1, row(i, stretch))))  # of vectors of length 1
        noise = lengths(i, grad_vectors, -2)
        inside = i.matmul(quotient(i, along, conjugated(i, gaps(i, out)), noise, largest_of(i, out)), adjoint)
    if grad_values is not None:
        scaled = i.mul(column(i, grad_values), adjoint)
        inside = scaled if inside is None else i.add(inside, scaled)
    return (i.solve(adjoint, inside),)


def eig_jvp(i: Any, tangents: Any, out: Complex, out1: Complex) -> tuple[Complex, Complex]:
    """With p = v⁻¹ t v: its diagonal, and v (p ∘ 1 / gaps), without what changes the lengths of vectors."""
    moved = i.solve(out1, i.matmul(tangents[0], out1))
    n = out1.shape[-1]
    tangent_values = i.sum(i.mul(moved, i.eye(n, n, out1.dtype)), (len(out1.shape) - 1,), False)
    tangent_vectors = i.matmul(out1, turned(i, moved, out))
    stretch = real_part(i, i.sum(i.mul(conjugated(i, out1), tangent_vectors), (len(out1.shape) - 2,), False))
    return tangent_values, i.sub(tangent_vectors, i.mul(out1, row(i, stretch)))


def thin(i: Any, x: Float, dim: int, count: int) -> Float:
    """Return the first ``count`` slices along ``dim``, one of the last two."""
    if x.shape[dim] == count:
        return x
    key = [slice(0, size, 1) for size in x.shape]
    key[dim] = slice(0, count, 1)
    return i.slice(x, tuple(key))


def refuse_full(full: bool, factor: Float | None, count: int, dim: int, operation: str, option: str) -> None:
    """Refuse to differentiate vectors of a complement, which are arbitrary."""
    if full and factor is not None and factor.shape[dim] > count:
        raise ArgumentError(
            f"{operation}() was differentiated by vectors that complete a basis, of shape {factor.shape}, which are "
            f"arbitrary; write {operation}(x, {option})"
        )


def svd_vjp(i: Any, grads: Any, needs: Any, out: Float, out1: Float, out2: Float, full_matrices: bool) -> tuple[Float]:
    """u ((a + b) / (s[k] - s[j]) / 2 + (a - b) / (s[k] + s[j]) / 2 + diag(g_s)) vᵀ. a is uᵀ g_u - g_uᵀ u and b is vᵀ
    g_v - g_vᵀ v. Their sum cancels for functions such as the polar factor u vᵀ, so that small gaps do not enlarge
    errors. Vectors outside of the range add (1 - u uᵀ) g_u s⁻¹ vᵀ and u s⁻¹ g_vᵀ (1 - v vᵀ)."""
    grad_u, grad_s, grad_vh = grads
    rows, k, columns = out.shape[-2], out1.shape[-1], out2.shape[-1]
    refuse_full(full_matrices, grad_u, k, -1, "svd", "full_matrices=False")
    refuse_full(full_matrices, grad_vh, k, -2, "svd", "full_matrices=False")
    u, s, vh = thin(i, out, len(out.shape) - 1, k), out1, thin(i, out2, len(out2.shape) - 2, k)
    a = b = noise = None
    parts = []
    largest = None if grad_u is grad_vh is None else largest_of(i, s)
    if grad_u is not None:
        along, noise = i.matmul_tn(u, grad_u), lengths(i, grad_u, -2)
        a = skew(i, along)
        if rows > k:
            outside = quotient(i, i.sub(grad_u, i.matmul(u, along)), row(i, s), noise, largest)
            parts.append(i.matmul(outside, vh))
    if grad_vh is not None:
        along, length = i.matmul_nt(vh, grad_vh), lengths(i, grad_vh, -1)
        b = skew(i, along)
        if columns > k:
            outside = quotient(i, i.sub(grad_vh, i.matmul(i.mT(along), vh)), column(i, s), i.mT(length), largest)
            parts.append(i.matmul(u, outside))
        noise = length if noise is None else i.add(noise, length)
    middle = None
    if noise is not None:
        noise = symmetric_sum(i, noise)
        total, rest = (a, a) if b is None else (b, i.neg(b)) if a is None else (i.add(a, b), i.sub(a, b))
        middle = quotient(i, total, gaps(i, s), noise, largest)
        middle = i.add(middle, quotient(i, rest, i.add(row(i, s), column(i, s)), noise, largest))
        middle = i.mul(i.matmul(u, middle), 0.5)
    if grad_s is not None:
        scaled = i.mul(u, row(i, grad_s))
        middle = scaled if middle is None else i.add(middle, scaled)
    total = i.matmul(middle, vh)
    for part in parts:
        total = i.add(total, part)
    return (total,)


def svd_jvp(
    i: Any, tangents: Any, out: Float, out1: Float, out2: Float, full_matrices: bool
) -> tuple[Float, Float, Float]:
    """With p = uᵀ t v: the diagonal of p, u (d + c) and (c - d) vᵀ, with d[j, k] half of p + pᵀ over s[k] - s[j], and
    c[j, k] half of p - pᵀ over s[k] + s[j]."""
    (t,) = tangents
    rows, k, columns = out.shape[-2], out1.shape[-1], out2.shape[-1]
    refuse_full(full_matrices, out, k, -1, "svd", "full_matrices=False")
    refuse_full(full_matrices, out2, k, -2, "svd", "full_matrices=False")
    u, s, vh = out, out1, out2
    right = i.matmul_nt(t, vh)
    p = i.matmul_tn(u, right)
    noise, largest = i.full((), 0.0, s.dtype), largest_of(i, s)
    tangent_s = real_part(i, i.sum(i.mul(conjugated(i, u), right), (len(u.shape) - 2,), False))
    d = turned(i, symmetric_part(i, p), s)
    c = quotient(i, i.mul(skew(i, p), 0.5), i.add(row(i, s), column(i, s)), noise, largest)
    tangent_u, tangent_vh = i.matmul(u, i.add(d, c)), i.matmul(i.sub(c, d), vh)
    if rows > k:
        tangent_u = i.add(tangent_u, quotient(i, i.sub(right, i.matmul(u, p)), row(i, s), noise, largest))
    if columns > k:
        left = i.matmul_tn(u, t)
        tangent_vh = i.add(tangent_vh, quotient(i, i.sub(left, i.matmul(p, vh)), column(i, s), noise, largest))
    return tangent_u, tangent_s, tangent_vh


def right_solved(i: Any, x: Float, r: Float) -> Float:
    """x r⁻¹, for an upper triangular r."""
    return i.mT(i.solve_triangular(i.mT(r), i.mT(x), False, False))


def qr_vjp(i: Any, grads: Any, needs: Any, x: Float, out: Float, out1: Float, complete: bool) -> tuple[Float]:
    """(g_q + q c) r⁻ᵀ, where c is the lower triangle of r g_rᵀ - g_qᵀ q, mirrored. If x has more columns than rows,
    this is the gradient of its first square matrix; r's other columns are qᵀ x."""
    grad_q, grad_r = grads
    rows, columns = x.shape[-2:]
    refuse_full(complete, out, min(rows, columns), -1, "qr", 'mode="reduced"')
    grad_rest = None
    q, r, last = out, out1, len(x.shape) - 1
    if columns > rows:
        r = thin(i, out1, last, rows)
        if grad_r is not None:
            grad_rest = i.slice(grad_r, rest(grad_r.shape, rows))
            grad_r = thin(i, grad_r, last, rows)
            part = i.matmul_nt(i.slice(x, rest(x.shape, rows)), grad_rest)
            grad_q = part if grad_q is None else i.add(grad_q, part)
    middle = None
    if grad_r is not None:
        middle = i.matmul_nt(r, i.triu(grad_r, 0))
    if grad_q is not None:
        part = i.matmul_tn(grad_q, q)
        middle = i.neg(part) if middle is None else i.sub(middle, part)
    mirrored = i.add(i.tril(middle, 0), i.mT(i.tril(middle, -1)))
    turn = imaginary_diagonal(i, middle)
    total = i.matmul(q, mirrored if turn is None else i.sub(mirrored, turn))
    total = total if grad_q is None else i.add(total, grad_q)
    total = i.mT(i.solve_triangular(r, i.mT(total), True, False))
    if columns > rows:
        beside = i.full((*x.shape[:-1], columns - rows), 0.0, x.dtype) if grad_rest is None else i.matmul(q, grad_rest)
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
    upper, turn = i.sub(m, skew(i, i.tril(m, -1))), imaginary_diagonal(i, m)
    upper = upper if turn is None else i.sub(upper, turn)
    tangent_q, tangent_r = i.sub(solved, i.matmul(q, upper)), i.matmul(upper, r)
    if columns > rows:
        beside = i.add(
            i.matmul_tn(tangent_q, i.slice(x, rest(x.shape, rows))), i.matmul_tn(q, i.slice(t, rest(t.shape, rows)))
        )
        tangent_r = i.cat([tangent_r, beside], last)
    return tangent_q, tangent_r


def rest(shape: Shape, start: int) -> tuple[slice, ...]:
    """Return the key of the last columns, from ``start``."""
    return (*[slice(0, size, 1) for size in shape[:-1]], slice(start, shape[-1], 1))


class Decompositions(OperationsBase):
    """Decompositions of matrices."""

    @derived(
        GENERAL,
        like="x",
        flops=lambda x: prod(x) * x[-1] // 3,
        vjp=precise(adjoint_vjp(cholesky_vjp)),
        jvp=precise(adjoint_jvp(cholesky_jvp)),
        batch=SHIFTED,
        onnx="refused",
    )
    def cholesky(self, x: Inexact) -> Inexact:
        """Lower triangular L with L Lᵀ = x, for symmetric positive definite x; only its lower triangle is read."""
        from burnpy.backend.numerics.lapack import cholesky

        return by_host(self, cholesky, x)

    @derived(NONDIFFERENTIABLE, flops=lambda x: prod(x) * x[-1] // 3, batch=SHIFTED, onnx="refused")
    def cholesky_info(self, x: Inexact) -> Int:
        """Size of the first leading block that is not positive definite, of each matrix, int64; 0 if there is none."""
        from burnpy.backend.numerics.lapack import cholesky_info

        return by_host(self, cholesky_info, x)

    @derived(
        GENERAL,
        flops=lambda x: 9 * prod(x) * x[-1],
        joint=precise(adjoint_joint(eigh_vjp)),
        joint_jvp=precise(adjoint_joint_jvp(eigh_jvp)),
        batch=SHIFTED,
        onnx="refused",
    )
    def eigh(self, x: Inexact) -> tuple[Float, Inexact]:
        """Eigenvalues, ascending, (…, n), and eigenvectors, the columns of (…, n, n), of symmetric matrices.

        The lower triangle of x is read.
        """
        from burnpy.backend.numerics.lapack import eigh

        return by_host(self, eigh, x)  # type: ignore[no-any-return]  # a pair

    @derived(GENERAL, flops=lambda x: 4 * prod(x) * x[-1] // 3, batch=SHIFTED, onnx="refused")
    def eigvalsh(self, x: Inexact) -> Float:
        """Eigenvalues of symmetric matrices, ascending."""
        return self.eigh(x)[0]

    @derived(
        GENERAL,
        flops=lambda x: 25 * prod(x) * x[-1],
        joint=precise(adjoint_joint(eig_vjp)),
        joint_jvp=precise(adjoint_joint_jvp(eig_jvp)),
        batch=SHIFTED,
        onnx="refused",
    )
    def eig(self, x: Complex) -> tuple[Complex, Complex]:
        """Eigenvalues (…, n), in no order, and eigenvectors of length 1, the columns of (…, n, n)."""
        from burnpy.backend.numerics.lapack import eig

        return by_host(self, eig, x)  # type: ignore[no-any-return]  # a pair

    @derived(GENERAL, flops=lambda x: 10 * prod(x) * x[-1], batch=SHIFTED, onnx="refused")
    def eigvals(self, x: Complex) -> Complex:
        """Eigenvalues, in no order."""
        return self.eig(x)[0]

    @derived(
        GENERAL,
        flops=lambda x: 6 * prod(x) * min(x[-1], x[-2]),
        joint=precise(adjoint_joint(svd_vjp)),
        joint_jvp=precise(adjoint_joint_jvp(svd_jvp)),
        batch=SHIFTED,
        onnx="refused",
    )
    def svd(self, x: Inexact, full_matrices: bool) -> tuple[Inexact, Float, Inexact]:
        """Singular value decomposition x = u @ diag(s) @ vh, with s descending.

        For x of shape (…, m, n) and k = min(m, n), the shapes are (…, m, k), (…, k), (…, k, n), or, with
        ``full_matrices``, (…, m, m), (…, k), (…, n, n).
        """
        from burnpy.backend.numerics.lapack import svd

        return by_host(self, svd, x, full_matrices)  # type: ignore[no-any-return]  # a triple

    @derived(GENERAL, flops=lambda x: 3 * prod(x) * min(x[-1], x[-2]), batch=SHIFTED, onnx="refused")
    def svdvals(self, x: Inexact) -> Float:
        """Singular values, descending."""
        return self.svd(x, False)[1]

    @derived(
        GENERAL,
        flops=lambda x: 4 * prod(x) * min(x[-1], x[-2]),
        joint=precise(adjoint_joint(qr_vjp)),
        joint_jvp=precise(adjoint_joint_jvp(qr_jvp)),
        batch=SHIFTED,
        onnx="refused",
    )
    def qr(self, x: Inexact, complete: bool) -> tuple[Inexact, Inexact]:
        """QR decomposition: orthonormal columns q, (…, m, k), and upper triangular r, (…, k, n); x = q @ r.

        k is min(m, n), or m if ``complete``.
        """
        from burnpy.backend.numerics.lapack import qr

        return by_host(self, qr, x, complete)  # type: ignore[no-any-return]  # a pair

    @derived(
        GENERAL,
        flops=lambda x: prod(x) * min(x[-1], x[-2]),
        joint=precise(lu_factor_vjp),
        joint_jvp=precise(lu_factor_jvp),
        batch=SHIFTED,
        onnx="refused",
    )
    def lu_factor(self, x: Inexact) -> tuple[Inexact, Int, Int]:
        """LU decomposition with partial pivoting, of x (…, m, n): the factors, the pivots and the permutation.

        The factors are in one matrix of x's shape, without the ones on the diagonal of L. ``pivots`` are LAPACK's:
        row i was interchanged with row pivots[i] - 1. ``x[permutation] = L U``. Both are int64.
        """
        from burnpy.backend.numerics.lapack import lu_factor

        return by_host(self, lu_factor, x)  # type: ignore[no-any-return]  # a triple
