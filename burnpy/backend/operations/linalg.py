"""Linear equations, inverses, determinants and functions of matrices (…, n, m) in batches.

The defaults copy to the host, compute there by `burnpy.backend.numerics.lapack`, and copy back: made of other
operations, they would take a launch, or a call, for each column. A backend with a library of its own overrides them.
float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from burnpy.backend.dtypes import epsilon, float32
from burnpy.backend.operations import OperationsBase, by_host
from burnpy.backend.operations.complex_numbers import adjoint_jvp, adjoint_vjp, conjugated, zeros_like
from burnpy.backend.primitives import Float, Inexact, Int
from burnpy.backend.rules import SHIFTED, precise
from burnpy.backend.schema import GENERAL, NONDIFFERENTIABLE, derived


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


def half_lower(i: Any, x: Float) -> Float:
    """Return the lower triangle, with half of the diagonal."""
    return i.mul(i.add(i.tril(x, 0), i.tril(x, -1)), 0.5)


def without_last_pivot(i: Any, upper: Float) -> Float:
    """Return an upper factor with a last pivot of 1: derivatives do not depend on it, and it may be 0."""
    kept = np.tri(upper.shape[-1], dtype=upper.dtype).T
    kept[-1:, -1:] = 0.0
    return i.add(i.mul(upper, i.from_numpy(kept)), i.from_numpy(np.eye(len(kept), dtype=upper.dtype) * (1 - kept)))


def quotient(i: Any, x: Float, y: Float, noise: Float, largest: Float) -> Float:
    """x / y, and 0 where it is 0 / 0: where y is 0, or both are within rounding of 0.

    Args:
        i: the backend.
        x: sums of products.
        y: gaps between values, or values; it broadcasts with x.
        noise: the lengths of the vectors that x was summed of.
        largest: the largest magnitude of the values.
    """
    eps, size, gap = epsilon(x.dtype), i.abs(i.detach(x)), i.abs(i.detach(y))
    d = i.discrete
    lost = d.bitwise_and(i.le(size, i.mul(i.detach(noise), eps)), i.le(gap, i.mul(i.detach(largest), eps)))
    keep = d.bitwise_not(d.bitwise_or(lost, i.eq(gap, 0.0)))
    return i.where(keep, i.div(x, i.where(keep, y, 1.0)), 0.0)


def lengths(i: Any, x: Float, dim: int) -> Float:
    """Return the lengths of the columns of matrices (``dim`` -2) or of their rows (-1), as a matrix of one row."""
    return row(i, i.vector_norm(i.detach(x), 2.0, (len(x.shape) + dim,), False))


def largest_of(i: Any, values: Float) -> Float:
    """Return the largest magnitude of the values of each matrix, as a matrix of one element."""
    size = i.abs(i.detach(values))
    if 0 in values.shape:
        return i.full((*values.shape[:-1], 1, 1), 0.0, size.dtype)
    return column(i, i.amax(size, (len(values.shape) - 1,), True))


def gaps(i: Any, values: Float) -> Float:
    """Return the matrix values[k] - values[j]."""
    return i.sub(row(i, values), column(i, values))


def symmetric_sum(i: Any, x: Float) -> Float:
    """x + xᵀ, for matrices or for a matrix of one row."""
    return i.add(x, i.mT(x))


def skew(i: Any, x: Float) -> Float:
    """x - xᵀ."""
    return i.sub(x, i.mT(x))


def trace_of_product(i: Any, x: Float, y: Float) -> Float:
    """Return the trace of x y."""
    return i.sum(i.mul(i.mT(x), y), (len(x.shape) - 2, len(x.shape) - 1), False)


def triangle(i: Any, x: Float, upper: bool, unitriangular: bool) -> Float:
    """Return the elements of x that `solve_triangular` reads, and zeros."""
    inward = int(unitriangular)
    return i.triu(x, inward) if upper else i.tril(x, -inward)


def solve_triangular_vjp(
    i: Any, grads: Any, needs: Any, a: Float, out: Float, upper: bool, unitriangular: bool
) -> tuple[Float | None, Float]:
    """Return the gradients: a⁻ᵀ g with respect to b; the triangle of -(a⁻ᵀ g) xᵀ with respect to a."""
    grad_b = i.solve_triangular(i.mT(a), grads[0], not upper, unitriangular)
    grad_a = triangle(i, i.neg(i.matmul_nt(grad_b, out)), upper, unitriangular) if needs[0] else None
    return grad_a, grad_b


def solve_triangular_jvp(i: Any, tangents: Any, a: Float, out: Float, upper: bool, unitriangular: bool) -> tuple[Float]:
    """a⁻¹ (t_b - t_a x)."""
    tangent_a, right = tangents
    if tangent_a is not None:
        part = i.matmul(triangle(i, tangent_a, upper, unitriangular), out)
        right = i.neg(part) if right is None else i.sub(right, part)
    return (i.solve_triangular(a, right, upper, unitriangular),)


def solve_vjp(i: Any, grads: Any, needs: Any, a: Float, out: Float) -> tuple[Float | None, Float]:
    """Return the gradients: a⁻ᵀ g with respect to b; -(a⁻ᵀ g) xᵀ with respect to a."""
    grad_b = i.solve(i.mT(a), grads[0])
    return (i.neg(i.matmul_nt(grad_b, out)) if needs[0] else None), grad_b


def solve_jvp(i: Any, tangents: Any, a: Float, out: Float) -> tuple[Float]:
    """a⁻¹ (t_b - t_a x)."""
    tangent_a, right = tangents
    if tangent_a is not None:
        part = i.matmul(tangent_a, out)
        right = i.neg(part) if right is None else i.sub(right, part)
    return (i.solve(a, right),)


def adjugate_derivative(i: Any, e: Float, x: Float) -> Float:
    """Return the derivative of the adjugate in direction e, which exists for every x. In the basis of singular vectors,
    x = u diag(s) vᵀ, with e' = uᵀ e v and P[j, k] the product of all singular values but two, it is c v (diag(P
    diag(e')) - P ∘ e') uᵀ, where c is the determinant of u vᵀ."""
    if x.dtype.itemsize == 2:  # in which products of singular values overflow
        return i.cast(adjugate_derivative(i, i.cast(e, float32), i.cast(x, float32)), x.dtype)
    n = x.shape[-1]
    u, s, vh = i.svd(x, False)
    left, right = conjugated(i, u), conjugated(i, vh)
    inside = i.matmul_nt(i.matmul_tn(left, e), right)
    eye = i.eye(n, n, x.dtype)
    others = but_two(i, s)
    if x.dtype.kind == "c":
        others = i.complex(others, zeros_like(i, others))
    along = i.sum(i.mul(inside, eye), (len(x.shape) - 1,), False)
    diagonal = i.mul(i.matmul(others, column(i, along)), eye)
    out = i.matmul_nt(i.matmul(i.mT(right), i.sub(diagonal, i.mul(others, inside))), left)
    if x.dtype.kind == "c":  # whose determinant turns with x
        return i.mul(out, number(i, i.det(i.matmul(u, vh))))
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
    """Return the derivative is symmetric up to transposes: that in direction gᵀ, transposed."""
    return i.mT(adjugate_derivative(i, i.mT(g), x))


def slogdet_vjp(i: Any, grads: Any, needs: Any, x: Inexact, out: Inexact) -> tuple[Inexact]:
    """g x⁻ᵀ; the sign of floats has no derivative, of complex numbers by its angle."""
    grad_sign, grad_log = grads
    if x.dtype.kind == "c":
        grad_angle = None if grad_sign is None else i.imag(i.mul(grad_sign, out))
        if grad_log is None:
            grad_log = zeros_like(i, grad_angle)
        factor = i.complex(grad_log, zeros_like(i, grad_log) if grad_angle is None else grad_angle)
    elif grad_log is None:
        return (i.full(x.shape, 0.0, x.dtype),)
    else:
        factor = grad_log
    return (i.mul(i.mT(i.inv(x)), number(i, factor)),)


def slogdet_jvp(i: Any, tangents: Any, x: Inexact, out: Inexact) -> tuple[Inexact, Float]:
    """Return the trace of x⁻¹ t: its real part moves the logarithm, its imaginary part the sign's angle."""
    moved = trace_of_product(i, i.inv(x), tangents[0])
    if x.dtype.kind != "c":
        return i.full(out.shape, 0.0, x.dtype), moved
    turn = i.imag(moved)
    return i.mul(out, i.complex(zeros_like(i, turn), turn)), i.real(moved)


def pinv_vjp(i: Any, g: Float, x: Float, out: Float) -> Float:
    """Return the transpose of `pinv_jvp`."""
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
    """Return the upper right block of exp([[x, t], [0, x]]).

    Source: R. Mathias, A Chain Rule for Matrix Functions and Applications, 1996.
    """
    n, zeros = x.shape[-1], i.full(x.shape, 0.0, x.dtype)
    last, below = len(x.shape) - 1, len(x.shape) - 2
    block = i.cat([i.cat([x, t], last), i.cat([zeros, x], last)], below)
    batch = tuple([slice(0, size, 1) for size in x.shape[:-2]])
    return i.slice(i.matrix_exp(block), (*batch, slice(0, n, 1), slice(n, 2 * n, 1)))


class LinearAlgebra(OperationsBase):
    """Linear equations, inverses, determinants and functions of matrices. Batch dimensions are equal."""

    @derived(
        GENERAL,
        like="b",
        flops=lambda a, b: prod(b) * a[-1],
        joint=precise(solve_triangular_vjp),
        joint_jvp=precise(solve_triangular_jvp),
        batch=SHIFTED,
        onnx="refused",
    )
    def solve_triangular(self, a: Inexact, b: Inexact, upper: bool, unitriangular: bool) -> Inexact:
        """Solve a x = b, where of a, (…, n, n), one triangle is read, with ones as its diagonal if unitriangular.

        b has shape (…, n, k). Division by a 0 on the diagonal gives inf or NaN.
        """
        from burnpy.backend.numerics.lapack import solve_triangular

        return by_host(self, solve_triangular, a, b, upper, unitriangular)

    @derived(
        GENERAL,
        like="b",
        flops=lambda a, b: 2 * prod(a) * a[-1] // 3 + 2 * prod(b) * a[-1],
        joint=precise(solve_vjp),
        joint_jvp=precise(solve_jvp),
        batch=SHIFTED,
        onnx="refused",
    )
    def solve(self, a: Inexact, b: Inexact) -> Inexact:
        """Solve a x = b for invertible a of shape (…, n, n) and b of shape (…, n, k)."""
        from burnpy.backend.numerics.lapack import solve

        return by_host(self, solve, a, b)

    @derived(
        GENERAL,
        like="x",
        flops=lambda x: 2 * prod(x) * x[-1],
        vjp=precise(lambda i, g, out: i.neg(i.matmul_nt(i.matmul_tn(out, g), out))),
        jvp=precise(lambda i, t, out: i.neg(i.matmul(i.matmul(out, t), out))),
        batch=SHIFTED,
        onnx="refused",
    )
    def inv(self, x: Inexact) -> Inexact:
        """Inverse of invertible matrices."""
        from burnpy.backend.numerics.lapack import inv

        return by_host(self, inv, x)

    @derived(NONDIFFERENTIABLE, batch=SHIFTED, onnx="refused")
    def pivot_order(self, pivots: Int) -> Int:
        """Permutation of rows, int64, that the interchanges of LAPACK's pivots (…, n) make: see `lu_factor`."""
        from burnpy.backend.numerics.lapack import pivot_order

        return by_host(self, pivot_order, pivots)

    @derived(
        GENERAL,
        flops=lambda x: 2 * prod(x) * x[-1] // 3,
        vjp=precise(lambda i, g, x: i.mul(i.mT(i.adjugate(x)), number(i, g))),
        jvp=lambda i, t, x: trace_of_product(i, i.adjugate(x), t),
        batch=SHIFTED,
        onnx="products.det",
    )
    def det(self, x: Inexact) -> Inexact:
        """Return the determinant of square matrices, of the shape of the batch."""
        from burnpy.backend.numerics.lapack import det

        return by_host(self, det, x)

    @derived(
        GENERAL,
        like="x",
        flops=lambda x: 3 * prod(x) * x[-1],
        vjp=precise(adjugate_vjp),
        jvp=precise(adjugate_derivative),
        batch=SHIFTED,
        onnx="refused",
    )
    def adjugate(self, x: Inexact) -> Inexact:
        """Adjugate of square matrices: det(x) x⁻¹, which exists at singular x too; its transpose is det's gradient."""
        from burnpy.backend.numerics.lapack import adjugate

        return by_host(self, adjugate, x)

    @derived(
        GENERAL,
        flops=lambda x: 2 * prod(x) * x[-1] // 3,
        joint=precise(slogdet_vjp),
        joint_jvp=precise(slogdet_jvp),
        batch=SHIFTED,
        onnx="refused",
    )
    def slogdet(self, x: Inexact) -> tuple[Inexact, Float]:
        """Sign (-1, 0 or 1; a complex one has magnitude 1) and logarithm of the magnitude of the determinant."""
        from burnpy.backend.numerics.lapack import slogdet

        return by_host(self, slogdet, x)  # type: ignore[no-any-return]  # a pair

    @derived(
        GENERAL,
        flops=lambda x: 12 * prod(x) * min(x[-1], x[-2]),
        vjp=precise(adjoint_vjp(pinv_vjp)),
        jvp=precise(adjoint_jvp(pinv_jvp)),
        batch=SHIFTED,
        onnx="refused",
    )
    def pinv(self, x: Inexact, atol: float, rtol: float) -> Inexact:
        """Pseudoinverse of Moore and Penrose, (…, n, m) for x of (…, m, n).

        Singular values up to max(atol, rtol · the largest) count as 0.
        """
        from burnpy.backend.numerics.lapack import pinv

        return by_host(self, pinv, x, atol, rtol)

    @derived(
        GENERAL,
        like="x",
        flops=lambda x: 20 * prod(x) * x[-1],
        vjp=precise(lambda i, g, x: matrix_exp_jvp(i, g, i.mT(x))),
        jvp=precise(matrix_exp_jvp),
        batch=SHIFTED,
        onnx="refused",
    )
    def matrix_exp(self, x: Inexact) -> Inexact:
        """Matrix exponential of square matrices, Σ xᵏ / k!."""
        from burnpy.backend.numerics.lapack import matrix_exp

        return by_host(self, matrix_exp, x)
