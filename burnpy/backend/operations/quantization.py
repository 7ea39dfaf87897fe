"""Products and convolutions of 8-bit ints, and products with quantized weights: 8-bit or 4-bit ints and their scales.

A row of such a matrix is divided into groups of equal size, each with a scale; element k of a group is ``scale · int``.
With one group, a row has one scale. An int8 matrix has one int in an element. A uint8 matrix has two, each plus 8:
byte j of a group has element j in its lower 4 bits and element j + size / 2 in its upper 4, as llama.cpp's Q4_0, so
that a vector of bytes becomes two vectors of neighbours.
"""

from __future__ import annotations

from math import prod
from typing import Any

from burnpy.backend.dtypes import float32, int8, int32, uint8
from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.convolution import window_keys
from burnpy.backend.operations.matmul import batch_of_matrices
from burnpy.backend.primitives import DType, Float, Int, Shape
from burnpy.backend.rules import rows
from burnpy.backend.schema import BILINEAR, NONDIFFERENTIABLE, derived


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
        """Product of x (…, in) and the transpose of a quantized matrix, (…, out), of the dtype of x and scale.

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

    @derived(
        NONDIFFERENTIABLE,
        flops=lambda weight, out: 2 * prod(out) * prod(weight[1:]),
        batch=integer_conv_batch,
    )
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
