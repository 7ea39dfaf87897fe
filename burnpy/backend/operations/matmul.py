"""Products of matrices, the linear map x @ weight + bias of layers, and products of quantized matrices.

A row of a quantized matrix is divided into groups of equal size, each with a scale; element k of a group is
``scale · int``. With one group, a row has one scale. An int8 matrix has one int in an element. A uint8 matrix has two,
each plus 8: byte j of a group has element j in its lower 4 bits and element j + size / 2 in its upper 4, as llama.cpp's
Q4_0, so that a vector of bytes becomes two vectors of neighbours.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any

from burnpy.backend.dtypes import float32, int8, int32, uint8
from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.convolution import window_keys
from burnpy.backend.primitives import DType, Float, Inexact, Int, Number, Shape
from burnpy.backend.rules import BatchRule, Matrices, rows
from burnpy.backend.schema import BILINEAR, GENERAL, NONDIFFERENTIABLE, derived, required


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


def grouped_ints(b: Any, weight: Int, groups: int, dtype: DType) -> Float:
    """Return the ints of a quantized matrix as floats, of shape (out, groups, size)."""
    d, outputs = b.discrete, weight.shape[0]
    parts = d.reshape(weight, (outputs, groups, weight.shape[1] // groups))
    if weight.dtype != uint8:
        return b.to_float(parts, dtype)
    halves = d.bitwise_and(parts, 15), d.bitwise_right_shift(parts, 4)
    return b.sub(b.to_float(d.cat([*halves], 2), dtype), 8.0)


def dequantized(b: Any, weight: Int, scale: Float) -> Float:
    """Return a quantized matrix as floats, of shape (out, in)."""
    outputs, groups = scale.shape
    ints = grouped_ints(b, weight, groups, scale.dtype)
    return b.reshape(b.mul(ints, b.reshape(scale, (outputs, groups, 1))), (outputs, groups * ints.shape[2]))


def quantized_matmul_scale_vjp(i: Any, g: Float, x: Float, weight: Int, scale_shape: Shape) -> Float:
    """Return the gradient of the matrix, times the ints, summed over each group."""
    ints = grouped_ints(i, weight, scale_shape[1], g.dtype)
    grad_element = i.reshape(i.matmul_tn(rows(i, g), rows(i, x)), ints.shape)
    return i.sum(i.mul(grad_element, ints), (2,), False)


def quantized_matmul_batch(b: Any, x: Any, weight: Any, scale: Any) -> Any:
    """Rows of all examples, if these share the matrix."""
    if weight.batched or scale.batched:
        return Quantization.quantized_matmul(b, x, weight, scale)
    return b.batched(b.inner.quantized_matmul(x.value, weight.value, scale.value))


def integer_conv_batch(b: Any, x: Any, weight: Any, value: Any, *windows: Shape) -> Any:
    """Images of all examples, if these share the weight and the number around images."""
    if weight.batched or value.batched:
        return Quantization.integer_conv(b, x, weight, value, *windows)
    shape = x.value.shape
    images = b.inner.reshape(x.value, (shape[0] * shape[1], *shape[2:]))
    out = b.inner.integer_conv(images, weight.value, value.value, *windows)
    return b.batched(b.inner.reshape(out, (*shape[:2], *out.shape[1:])))


class Quantization(OperationsBase):
    """Products and convolutions of 8-bit ints, and products with quantized matrices."""

    @derived(
        BILINEAR,
        flops=lambda x, out: 2 * prod(out) * x[-1],
        vjp=(lambda i, g, weight, scale: i.matmul(g, dequantized(i, weight, scale)), quantized_matmul_scale_vjp),
        batch=quantized_matmul_batch,
        onnx="quantization.quantized_matmul",
    )
    def quantized_matmul(self, x: Float, weight: Int, scale: Float) -> Float:
        """Product of x (…, in) and the transpose of a quantized matrix: (…, out), in the dtype of x and scale.

        The matrix has 8-bit ints, int8 (out, in), or 4-bit ints, uint8 (out, in / 2), and scale (out, groups).
        """
        return self.matmul(x, self.mT(dequantized(self, weight, scale)))

    @derived(
        NONDIFFERENTIABLE,
        flops=lambda x, out: 2 * prod(out) * x[-1],
        batch=batch_of_matrices("integer_matmul"),
        onnx="quantization.integer_matmul",
    )
    def integer_matmul(self, x: Int, y: Int) -> Int:
        """Matrix product x @ y of int8 and uint8, in int32, beyond which sums wrap around; both have at least two
        dimensions.

        The default is a sum of products of float32, each of so few terms that it is exact.
        """
        d, total, whole = self.discrete, None, slice(None)
        terms = 2**24 // prod([128 if ints.dtype == int8 else 255 for ints in (x, y)])
        for k in range(0, max(1, x.shape[-1]), terms):
            some = slice(k, min(k + terms, x.shape[-1]))
            left = d.slice(x, (*(whole,) * (len(x.shape) - 1), some))
            right = d.slice(y, (*(whole,) * (len(y.shape) - 2), some, whole))
            part = self.to_int(self.matmul(self.to_float(left, float32), self.to_float(right, float32)), int32)
            total = part if total is None else d.add(total, part)
        return total

    @derived(NONDIFFERENTIABLE, flops=lambda weight, out: 2 * prod(out) * prod(weight[1:]), batch=integer_conv_batch)
    def integer_conv(
        self, x: Int, weight: Int, value: Int, stride: Shape, low: Shape, high: Shape, dilation: Shape
    ) -> Int:
        """Convolution of x (N, C, …) with a weight (O, C, …) of int8 and uint8, in int32, as `integer_matmul`.

        Around images is ``value``, one number of the dtype of x: ``low`` before each of the last dimensions, and
        ``high`` behind.
        """
        d, kernel, (n, c) = self.discrete, weight.shape[2:], x.shape[:2]
        sizes = tuple(a + size + b for a, size, b in zip(low, x.shape[2:], high, strict=True))
        if sizes != x.shape[2:]:
            around = d.expand(d.reshape(value, (1,) * len(x.shape)), (n, c, *sizes))
            places = [slice(a, a + size, 1) for a, size in zip(low, x.shape[2:], strict=True)]
            x = d.slice_scatter(around, (slice(None), slice(None), *places), x)
        each = zip(sizes, kernel, stride, dilation, strict=True)
        counts = tuple((size - (k - 1) * gap - 1) // step + 1 for size, k, step, gap in each)
        keys, terms, count = window_keys(kernel, stride, dilation, counts), prod(weight.shape[1:]), prod(counts)
        columns = d.cat([d.reshape(d.slice(x, key), (n, c, 1, count)) for key in keys], 2)
        matrix = d.reshape(weight, (weight.shape[0], terms))
        product = self.integer_matmul(matrix, d.reshape(columns, (n, terms, count)))
        return d.reshape(product, (n, weight.shape[0], *counts))
