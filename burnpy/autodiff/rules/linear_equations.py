"""Rules of inverses, determinants, Cholesky and LU decompositions, and of the solution of linear equations.

Source: M. B. Giles, Collected Matrix Derivative Results for Forward and Reverse Mode Algorithmic Differentiation, 2008;
of the Cholesky decomposition I. Murray, Differentiation of the Cholesky Decomposition, 2016.
"""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.rules.algebra import general, joint, precise
from burnpy.backend.backend import Backend
from burnpy.backend.primitives import Float, Int


def symmetric_part(i: Any, x: Float) -> Float:
    """(x + xᵀ) / 2."""
    return i.mul(i.add(x, i.mT(x)), 0.5)


def column(i: Any, x: Float) -> Float:
    """Numbers of a batch, or rows of it, with a new last dimension of size 1."""
    return i.reshape(x, (*x.shape, 1))


def row(i: Any, x: Float) -> Float:
    """Vectors as matrices of one row."""
    return i.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


def number(i: Any, x: Float) -> Float:
    """Numbers of a batch as matrices of one element."""
    return i.reshape(x, (*x.shape, 1, 1))


def trace_of_product(i: Any, x: Float, y: Float) -> Float:
    """The trace of x y."""
    return i.sum(i.mul(i.mT(x), y), (len(x.shape) - 2, len(x.shape) - 1), False)


def half_lower(i: Any, x: Float) -> Float:
    """The lower triangle, with half of the diagonal."""
    return i.mul(i.add(i.tril(x, 0), i.tril(x, -1)), 0.5)


def cholesky_vjp(i: Any, g: Float, out: Float) -> Float:
    """The symmetric part of L⁻ᵀ Φ(Lᵀ g) L⁻¹, where Φ takes the lower triangle and half of the diagonal."""
    upper = i.mT(out)
    middle = symmetric_part(i, half_lower(i, i.matmul(upper, g)))
    left = i.solve_triangular(upper, middle, True, False)
    return i.solve_triangular(upper, i.mT(left), True, False)


def cholesky_jvp(i: Any, t: Float, out: Float) -> Float:
    """L Φ(L⁻¹ t L⁻ᵀ)."""
    left = i.solve_triangular(out, symmetric_part(i, t), False, False)
    return i.matmul(out, half_lower(i, i.solve_triangular(out, i.mT(left), False, False)))


def triangle(i: Any, x: Float, upper: bool, unitriangular: bool) -> Float:
    """The elements of x that `solve_triangular` reads, and zeros."""
    inward = int(unitriangular)
    return i.triu(x, inward) if upper else i.tril(x, -inward)


def solve_triangular_vjp(
    i: Any, grads: Any, needs: Any, a: Float, out: Float, upper: bool, unitriangular: bool
) -> tuple[Float | None, Float]:
    """By b, a⁻ᵀ g; by a, the triangle of -(a⁻ᵀ g) xᵀ."""
    by_b = i.solve_triangular(i.mT(a), grads[0], not upper, unitriangular)
    by_a = triangle(i, i.neg(i.matmul_nt(by_b, out)), upper, unitriangular) if needs[0] else None
    return by_a, by_b


def solve_triangular_jvp(i: Any, tangents: Any, a: Float, out: Float, upper: bool, unitriangular: bool) -> tuple[Float]:
    """a⁻¹ (t_b - t_a x)."""
    by_a, right = tangents
    if by_a is not None:
        part = i.matmul(triangle(i, by_a, upper, unitriangular), out)
        right = i.neg(part) if right is None else i.sub(right, part)
    return (i.solve_triangular(a, right, upper, unitriangular),)


def solve_vjp(i: Any, grads: Any, needs: Any, a: Float, out: Float) -> tuple[Float | None, Float]:
    """By b, a⁻ᵀ g; by a, -(a⁻ᵀ g) xᵀ."""
    by_b = i.solve(i.mT(a), grads[0])
    return (i.neg(i.matmul_nt(by_b, out)) if needs[0] else None), by_b


def solve_jvp(i: Any, tangents: Any, a: Float, out: Float) -> tuple[Float]:
    """a⁻¹ (t_b - t_a x)."""
    by_a, right = tangents
    if by_a is not None:
        part = i.matmul(by_a, out)
        right = i.neg(part) if right is None else i.sub(right, part)
    return (i.solve(a, right),)


def inv_vjp(i: Any, g: Float, out: Float) -> Float:
    """-x⁻ᵀ g x⁻ᵀ."""
    return i.neg(i.matmul_nt(i.matmul_tn(out, g), out))


def inv_jvp(i: Any, t: Float, out: Float) -> Float:
    """-x⁻¹ t x⁻¹."""
    return i.neg(i.matmul(i.matmul(out, t), out))


def adjugate_derivative(i: Any, e: Float, x: Float) -> Float:
    """The derivative of the adjugate in direction e, which exists for every x.

    In the basis of singular vectors, x = u diag(s) vᵀ, with e' = uᵀ e v and P[j, k] the product of all singular values
    but two, it is c v (diag(P diag(e')) - P ∘ e') uᵀ, where c is the determinant of u vᵀ.
    """
    n = x.shape[-1]
    u, s, vh = i.svd(x, False)
    inside = i.matmul_nt(i.matmul_tn(u, e), vh)
    eye = i.eye(n, n, x.dtype)
    others = but_two(i, s)
    along = i.sum(i.mul(inside, eye), (len(x.shape) - 1,), False)
    diagonal = i.mul(i.matmul(others, column(i, along)), eye)
    out = i.matmul_nt(i.matmul(i.mT(vh), i.sub(diagonal, i.mul(others, inside))), u)
    return i.mul(out, number(i, i.det(i.matmul(i.detach(u), i.detach(vh)))))


def but_two(i: Any, s: Float) -> Float:
    """P[…, j, k], the product of all elements of s but the j-th and the k-th, and 0 for j = k; with s of 0 too."""
    n, last = s.shape[-1], len(s.shape) - 1
    zero = i.eq(s, 0.0)
    safe = i.where(i.discrete.bitwise_not(zero), s, 1.0)
    zeros = i.to_float(zero, s.dtype)
    more = i.sub(i.sub(number(i, i.sum(zeros, (last,), False)), row(i, zeros)), column(i, zeros))
    products = i.div(number(i, i.prod(safe, (last,), False)), i.mul(row(i, safe), column(i, safe)))
    apart = i.sub(i.full((n, n), 1.0, s.dtype), i.eye(n, n, s.dtype))
    return i.mul(i.where(i.le(more, 0.0), products, 0.0), apart)


def adjugate_vjp(i: Any, g: Float, x: Float) -> Float:
    """The derivative is symmetric up to transposes: that in direction gᵀ, transposed."""
    return i.mT(adjugate_derivative(i, i.mT(g), x))


def det_vjp(i: Any, g: Float, x: Float) -> Float:
    """g times the matrix of cofactors."""
    return i.mul(i.mT(i.adjugate(x)), number(i, g))


def slogdet_vjp(i: Any, grads: Any, needs: Any, x: Float) -> tuple[Float]:
    """g x⁻ᵀ; the sign has no derivative."""
    by_log = grads[1]
    if by_log is None:
        return (i.full(x.shape, 0.0, x.dtype),)
    return (i.mul(i.mT(i.inv(x)), number(i, by_log)),)


def slogdet_jvp(i: Any, tangents: Any, x: Float, out: Float) -> tuple[Float, Float]:
    """The trace of x⁻¹ t."""
    by_log = trace_of_product(i, i.inv(x), tangents[0])
    return i.full(out.shape, 0.0, x.dtype), by_log


def pinv_vjp(i: Any, g: Float, x: Float, out: Float) -> Float:
    """The transpose of `pinv_jvp`."""
    h = i.mT(g)
    outside = i.sub(h, i.matmul(i.matmul(x, out), h))  # (1 - x x⁺) gᵀ
    across = i.sub(h, i.matmul(h, i.matmul(out, x)))  # gᵀ (1 - x⁺ x)
    total = i.neg(i.matmul_nt(i.matmul_tn(out, g), out))
    total = i.add(total, i.matmul(outside, i.matmul_nt(out, out)))
    return i.add(total, i.matmul(i.matmul_tn(out, out), across))


def pinv_jvp(i: Any, t: Float, x: Float, out: Float) -> Float:
    """-x⁺ t x⁺ + x⁺ x⁺ᵀ tᵀ (1 - x x⁺) + (1 - x⁺ x) tᵀ x⁺ᵀ x⁺, where the rank is constant.

    Source: G. H. Golub and V. Pereyra, The Differentiation of Pseudo-Inverses and Nonlinear Least Squares, 1973.
    """
    h = i.mT(t)
    outside = i.sub(h, i.matmul(i.matmul(h, x), out))
    across = i.sub(h, i.matmul(i.matmul(out, x), h))
    total = i.neg(i.matmul(i.matmul(out, t), out))
    total = i.add(total, i.matmul(i.matmul_nt(out, out), outside))
    return i.add(total, i.matmul(across, i.matmul_tn(out, out)))


def matrix_exp_jvp(i: Any, t: Float, x: Float) -> Float:
    """The upper right block of exp([[x, t], [0, x]]).

    Source: R. Mathias, A Chain Rule for Matrix Functions and Applications, 1996.
    """
    n, zeros = x.shape[-1], i.full(x.shape, 0.0, x.dtype)
    last, below = len(x.shape) - 1, len(x.shape) - 2
    block = i.cat([i.cat([x, t], last), i.cat([zeros, x], last)], below)
    batch = tuple([slice(0, size, 1) for size in x.shape[:-2]])
    return i.slice(i.matrix_exp(block), (*batch, slice(0, n, 1), slice(n, 2 * n, 1)))


def parts_of_lu(i: Any, factors: Float) -> tuple[Float, Float, Float | None, Float | None]:
    """The square lower and upper factor of LU decomposition, and what is below or right of them, or None."""
    *sizes, rows, columns = factors.shape
    k = min(rows, columns)
    batch = tuple([slice(0, size, 1) for size in sizes])
    square = factors if rows == columns else i.slice(factors, (*batch, slice(0, k, 1), slice(0, k, 1)))
    below = i.slice(factors, (*batch, slice(k, rows, 1))) if rows > k else None
    beside = i.slice(factors, (*batch, slice(0, k, 1), slice(k, columns, 1))) if columns > k else None
    return i.add(i.tril(square, -1), i.eye(k, k, factors.dtype)), i.triu(square, 0), below, beside


def permuted(i: Any, x: Float, order: Int) -> Float:
    """The rows of each matrix in an order of its own."""
    index = i.discrete.expand(i.discrete.reshape(order, (*order.shape, 1)), x.shape)
    return i.gather(x, len(x.shape) - 2, index)


def lu_factor_vjp(i: Any, grads: Any, needs: Any, out: Float, out2: Int) -> tuple[Float]:
    """L⁻ᵀ (the lower triangle of Lᵀ g_L + the upper of g_U Uᵀ) U⁻ᵀ, its rows put back.

    Rows below, L₂ = x₂ U⁻¹, and columns beside, U₂ = L⁻¹ x₂, add their parts.
    """
    lower, upper, below, beside = parts_of_lu(i, out)
    g, by_upper, by_below, by_beside = parts_of_lu(i, grads[0])
    by_lower = i.sub(g, i.eye(g.shape[-1], g.shape[-1], g.dtype))
    parts = []
    if below is not None:  # g_L₂ U⁻ᵀ
        down = i.mT(i.solve_triangular(upper, i.mT(by_below), True, False))
        by_upper = i.sub(by_upper, i.triu(i.matmul_tn(below, down), 0))
        parts.append((down, len(out.shape) - 2))
    if beside is not None:  # L⁻ᵀ g_U₂
        right = i.solve_triangular(i.mT(lower), by_beside, True, True)
        by_lower = i.sub(by_lower, i.tril(i.matmul_nt(right, beside), -1))
        parts.append((right, len(out.shape) - 1))
    middle = i.add(i.tril(i.matmul_tn(lower, by_lower), -1), i.triu(i.matmul_nt(by_upper, upper), 0))
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
    batch = tuple([slice(0, size, 1) for size in sizes])
    square = i.slice(t, (*batch, slice(0, k, 1), slice(0, k, 1)))
    left = i.solve_triangular(lower, square, False, True)
    middle = i.mT(i.solve_triangular(i.mT(upper), i.mT(left), False, False))
    by_lower, by_upper = i.matmul(lower, i.tril(middle, -1)), i.matmul(i.triu(middle, 0), upper)
    total = i.add(i.tril(by_lower, -1), i.triu(by_upper, 0))
    if below is not None:
        down = i.sub(i.slice(t, (*batch, slice(k, rows, 1))), i.matmul(below, by_upper))
        down = i.mT(i.solve_triangular(i.mT(upper), i.mT(down), False, False))
        total = i.cat([total, down], len(t.shape) - 2)
    if beside is not None:
        right = i.sub(i.slice(t, (*batch, slice(0, k, 1), slice(k, columns, 1))), i.matmul(by_lower, beside))
        total = i.cat([total, i.solve_triangular(lower, right, False, True)], len(t.shape) - 1)
    return (total,)


general(Backend.cholesky, vjps=(precise(cholesky_vjp),), jvps=(precise(cholesky_jvp),))
joint(Backend.solve_triangular, precise(solve_triangular_vjp), precise(solve_triangular_jvp))
joint(Backend.solve, precise(solve_vjp), precise(solve_jvp))
general(Backend.inv, vjps=(precise(inv_vjp),), jvps=(precise(inv_jvp),))
general(Backend.det, vjps=(precise(det_vjp),), jvps=(lambda i, t, x: trace_of_product(i, i.adjugate(x), t),))
general(Backend.adjugate, vjps=(precise(adjugate_vjp),), jvps=(precise(adjugate_derivative),))
joint(Backend.slogdet, precise(slogdet_vjp), precise(slogdet_jvp))
general(Backend.pinv, vjps=(precise(pinv_vjp),), jvps=(precise(pinv_jvp),))
general(
    Backend.matrix_exp,
    vjps=(precise(lambda i, g, x: matrix_exp_jvp(i, g, i.mT(x))),),
    jvps=(precise(matrix_exp_jvp),),
)
joint(Backend.lu_factor, precise(lu_factor_vjp), precise(lu_factor_jvp))
