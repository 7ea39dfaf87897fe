"""Products of matrices, and the linear map x @ weight + bias of layers."""

from __future__ import annotations

import math
from math import prod
from typing import Any

from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import DType, Float, Inexact, Number, Shape
from burnpy.backend.rules import BatchRule, Matrices, rows
from burnpy.backend.schema import BILINEAR, GENERAL, derived, required


def matmul_x_vjp(i: Any, g: Float, y: Float, x_shape: Shape, x_dtype: DType) -> Float:
    """g yᵀ."""
    if len(x_shape) > 1 and len(y.shape) > 1:
        return unbroadcast(i, i.matmul_nt(g, y), x_shape, x_dtype)
    row, column = matrices(x_shape, y.shape)
    part = i.matmul(i.reshape(g, product_shape(g.shape, x_shape, y.shape)), i.mT(i.reshape(y, column)))
    return i.reshape(unbroadcast(i, part, row, x_dtype), x_shape)


def matmul_y_vjp(i: Any, g: Float, x: Float, y_shape: Shape, y_dtype: DType) -> Float:
    """xᵀ g."""
    if len(y_shape) == 2 < len(x.shape):  # one product over all rows, not one for each matrix and their sum
        x, g = (i.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1])) for a in (x, g))
    if len(y_shape) > 1 and len(x.shape) > 1:
        return unbroadcast(i, i.matmul_tn(x, g), y_shape, y_dtype)
    row, column = matrices(x.shape, y_shape)
    part = i.matmul(i.mT(i.reshape(x, row)), i.reshape(g, product_shape(g.shape, x.shape, y_shape)))
    return i.reshape(unbroadcast(i, part, column, y_dtype), y_shape)


def matrices(x_shape: Shape, y_shape: Shape) -> tuple[Shape, Shape]:
    """Return the shapes of the factors of a product, with a vector on the left as a row, on the right as a column."""
    return (x_shape if len(x_shape) > 1 else (1, *x_shape)), (y_shape if len(y_shape) > 1 else (*y_shape, 1))


def product_shape(shape: Shape, x_shape: Shape, y_shape: Shape) -> Shape:
    """Return the shape of a product with the dimensions of size 1 that are missing if a factor is a vector."""
    if len(y_shape) == 1:
        shape = (*shape, 1)
    return shape if len(x_shape) > 1 else (*shape[:-1], 1, shape[-1])


def unbroadcast(i: Any, part: Float, shape: Shape, dtype: DType) -> Float:
    """Return the adjoint of the product's broadcasting and promotion."""
    if part.dtype != dtype:
        part = i.cast(part, dtype)
    return part if part.shape == shape else i.sum_to(part, shape)


def matmul_batch(b: Any, x: Any, y: Any) -> Any:
    """One product of all examples, of two matrices if possible."""
    i = b.inner_of(x)
    x_ndim, y_ndim = len(x.shape), len(y.shape)
    if not y.batched and y_ndim <= 2:
        return b.batched(i.matmul(x.value, y.value))
    if not x.batched and y_ndim == 1 and x_ndim <= 2:
        return b.batched(i.matmul(y.value, x.value) if x_ndim == 1 else i.matmul_nt(y.value, x.value))
    if not x.batched and x_ndim == 2 == y_ndim and y.shape[1] == 1:  # the columns of all examples are one matrix
        columns = i.matmul_nt(i.reshape(y.value, (b.size, y.shape[0])), x.value)
        return b.batched(i.reshape(columns, (*columns.shape, 1)))
    x_shape, y_shape = matrices(x.shape, y.shape)
    ndim = max(len(x_shape), len(y_shape))

    def matrix(operand: Any, shape: Shape) -> Any:
        wanted = (b.size, *(1,) * (ndim - len(shape)), *shape) if operand.batched else shape
        return operand.value if operand.value.shape == wanted else i.reshape(operand.value, wanted)

    out = i.matmul(matrix(x, x_shape), matrix(y, y_shape))
    if x_ndim > 1 < y_ndim:
        return b.batched(out)
    shape = out.shape[:-2] + out.shape[-2:-1] * (x_ndim > 1) + out.shape[-1:] * (y_ndim > 1)
    return b.batched(i.reshape(out, shape))


def batch_of_matrices(name: str) -> BatchRule:
    """Return the rule of a product with one matrix if possible, whose operands have at least two dimensions."""

    def rule(b: Any, x: Any, y: Any) -> Any:
        multiply, ndim = getattr(b.inner_of(x), name), max(len(x.shape), len(y.shape))
        if not y.batched and len(y.shape) == 2:
            return b.batched(multiply(x.value, y.value))
        return b.batched(multiply(b.aligned(x, ndim), b.aligned(y, ndim)))

    return rule


def matmul_tn_batch(b: Any, x: Any, y: Any) -> Any:
    """One product of all examples."""
    ndim = max(len(x.shape), len(y.shape))
    return b.batched(b.inner_of(x).matmul_tn(b.aligned(x, ndim), b.aligned(y, ndim)))


def linear_x_vjp(i: Any, g: Float, weight: Float, x_shape: Shape) -> Float:
    """g weightᵀ."""
    if len(g.shape) == 1:  # a vector times a matrix
        return i.matmul(g, i.mT(weight))
    part = i.matmul_nt(g, weight)
    return part if len(x_shape) == len(g.shape) else i.reshape(part, x_shape)


def linear_weight_vjp(i: Any, g: Float, x: Float) -> Float:
    """xᵀ g, where all but the last dimension of x are rows."""
    return i.matmul_tn(rows(i, x), rows(i, g))


def linear_bias_vjp(i: Any, g: Float) -> Float:
    """Return the gradient of the bias: the sum of the rows of g."""
    return i.sum(g, tuple(range(len(g.shape) - 1)), False)


def linear_batch(b: Any, x: Any, weight: Any, bias: Any) -> Any:
    """Rows of all examples, if these share the weights."""
    if weight.batched or bias.batched:
        return b.add(b.matmul(x, weight), bias)
    return b.batched(b.inner.linear(x.value, weight.value, bias.value))


class MatrixProducts(OperationsBase):
    """Products of matrices; dimensions before the last two broadcast."""

    @required(
        BILINEAR,
        product=True,
        flops=lambda x, out: 2 * prod(out) * x[-1],
        vjp=(matmul_x_vjp, matmul_y_vjp),
        matrices=Matrices((lambda i, g, y: i.matmul_nt(g, y), lambda i, g, x: i.matmul_tn(x, g)), (0, 1)),
        batch=matmul_batch,
        onnx="products.matmul",
    )
    def matmul(self, x: Number, y: Number) -> Number:
        """Matrix product x @ y; dimensions before the last two broadcast, and neither x nor y is 0-d.

        A 1-d x is treated as a row and a 1-d y as a column; the added dimension is removed from the result.
        """
        ...

    @derived(
        BILINEAR,
        product=True,
        flops=lambda x, out: 2 * prod(out) * x[-1],
        vjp=(
            lambda i, g, y, x_shape, x_dtype: unbroadcast(i, i.matmul(g, y), x_shape, x_dtype),
            lambda i, g, x, y_shape, y_dtype: unbroadcast(i, i.matmul_tn(g, x), y_shape, y_dtype),
        ),
        matrices=Matrices((lambda i, g, y: i.matmul(g, y), lambda i, g, x: i.matmul_tn(g, x)), (0, 0)),
        batch=batch_of_matrices("matmul_nt"),
    )
    def matmul_nt(self, x: Number, y: Number) -> Number:
        """Matrix product x @ yᵀ, with the last two dimensions of y swapped; both have at least two dimensions."""
        return self.matmul(x, self.mT(y))

    @derived(
        BILINEAR,
        product=True,
        flops=lambda x, out: 2 * prod(out) * x[-2],
        vjp=(
            lambda i, g, y, x_shape, x_dtype: unbroadcast(i, i.matmul_nt(y, g), x_shape, x_dtype),
            lambda i, g, x, y_shape, y_dtype: unbroadcast(i, i.matmul(x, g), y_shape, y_dtype),
        ),
        matrices=Matrices((lambda i, g, y: i.matmul_nt(y, g), lambda i, g, x: i.matmul(x, g)), (1, 1)),
        batch=matmul_tn_batch,
    )
    def matmul_tn(self, x: Number, y: Number) -> Number:
        """Matrix product xᵀ @ y, with the last two dimensions of x swapped; both have at least two dimensions."""
        return self.matmul(self.mT(x), y)

    @derived(
        GENERAL,
        elementwise=("bias",),
        product=("x", "weight"),
        flops=lambda x, out: prod(out) * (2 * x[-1] + 1),
        vjp=(linear_x_vjp, linear_weight_vjp, linear_bias_vjp),
        last_two=lambda i, g, x: i.linear_backward(g, x),
        jvp=(
            lambda i, t, weight: i.matmul(t, weight),
            lambda i, t, x: i.matmul(x, t),
            lambda i, t, out: i.expand(t, out.shape),
        ),
        batch=linear_batch,
    )
    def linear(self, x: Inexact, weight: Inexact, bias: Inexact) -> Inexact:
        """Linear map x @ weight + bias: x (…, in), weight (in, out), bias (out,), all of the same dtype."""
        return self.add(self.matmul(x, weight), bias)

    @derived(GENERAL, product=True, flops=lambda grad, x: prod(grad) * (2 * x[-1] + 1))
    def linear_backward(self, grad: Inexact, x: Inexact) -> tuple[Inexact, Inexact]:
        """Gradients of `linear` with respect to weight and bias: xᵀ grad and the sum of grad, over all rows."""
        return linear_weight_vjp(self, grad, x), linear_bias_vjp(self, grad)
