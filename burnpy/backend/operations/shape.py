"""Operations that move elements without computing on them, and matrix multiplication.

Backends may return views: primitives are never written to, so that a view cannot be distinguished from a copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Bool, Dim, Dims, DType, Float, Key, Number, Scalar, Shape, Value
from burnpy.backend.rules import BATCH_SLICE, SHIFTED, Matrices, PartialGrad, selected_ndim
from burnpy.backend.schema import BILINEAR, LINEAR, STRUCTURAL, derived, required


def cat_vjp(i: Any, g: Float, x_shape: Shape, dim: int, start: int) -> Float:
    """Return the part of the gradient of ``cat`` that belongs to the member which begins at ``start``."""
    key = tuple(slice(start, start + n, 1) if d == dim else slice(0, n, 1) for d, n in enumerate(x_shape))
    return i.slice(g, key)


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


def permute_vjp(i: Any, g: Float, dims: Shape) -> Float:
    """Return the inverse permutation."""
    return i.permute(g, tuple(dims.index(d) for d in range(len(dims))))


def add_at_slice(i: Any, total: Float | None, shape: Shape, key: Key, g: Float) -> Float:
    """``total``, or zeros, with g added at ``key``."""
    return i.accumulate_slice(i.full(shape, 0.0, g.dtype) if total is None else total, key, g)


def permute_batch(b: Any, x: Any, dims: Shape) -> Any:
    """Permute the dimensions after the batch."""
    return b.batched(b.inner_of(x).permute(x.value, (0, *[dim + 1 for dim in dims])))


def expand_batch(b: Any, x: Any, shape: Shape) -> Any:
    """Expand the dimensions after the batch."""
    return b.batched(b.inner_of(x).expand(b.aligned(x, len(shape)), (b.size, *shape)))


def slice_scatter_batch(b: Any, x: Any, key: Key, src: Any) -> Any:
    """Write the slices of all examples; src broadcasts to the slice."""
    if hasattr(src, "dtype"):
        src = b.ranked(src, selected_ndim(x.shape, key))
    return b.batched(b.inner_of(x).slice_scatter(b.spread(x), (BATCH_SLICE, *key), src))


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


def matmul_nt_batch(b: Any, x: Any, y: Any) -> Any:
    """One product of all examples, of two matrices if possible."""
    i = b.inner_of(x)
    if not y.batched and len(y.shape) == 2:
        return b.batched(i.matmul_nt(x.value, y.value))
    ndim = max(len(x.shape), len(y.shape))
    return b.batched(i.matmul_nt(b.aligned(x, ndim), b.aligned(y, ndim)))


def matmul_tn_batch(b: Any, x: Any, y: Any) -> Any:
    """One product of all examples."""
    ndim = max(len(x.shape), len(y.shape))
    return b.batched(b.inner_of(x).matmul_tn(b.aligned(x, ndim), b.aligned(y, ndim)))


class Shaping(OperationsBase):
    """Operations that reshape, slice and join primitives."""

    @required(
        STRUCTURAL, view="x", vjp=lambda i, g, x_shape: i.reshape(g, x_shape), batch=SHIFTED, onnx="shapes.reshape"
    )
    def reshape(self, x: Value, shape: Shape) -> Value:
        """Give x another shape with the same number of elements, in row-major order."""
        ...

    @required(STRUCTURAL, view="x", vjp=permute_vjp, batch=permute_batch, onnx="shapes.permute")
    def permute(self, x: Value, dims: Shape) -> Value:
        """Permute the dimensions: dimension i of the result is dimension dims[i] of x."""
        ...

    @required(
        STRUCTURAL, view="x", vjp=lambda i, g, x_shape: i.sum_to(g, x_shape), batch=expand_batch, onnx="shapes.expand"
    )
    def expand(self, x: Value, shape: Shape) -> Value:
        """Broadcast x to ``shape``."""
        ...

    @required(
        STRUCTURAL,
        view="x",
        vjp=lambda i, g, x_shape, key: PartialGrad(add_at_slice, x_shape, key, g),
        batch=SHIFTED,
        onnx="shapes.slice_",
    )
    def slice(self, x: Value, key: Key) -> Value:
        """Index with ints, slices and None (basic indexing): ``x[key]``."""
        ...

    @required(
        STRUCTURAL,
        like="x",
        vjp=(
            lambda i, g, key: i.slice_scatter(g, key, 0.0),
            lambda i, g, key, src_shape: i.sum_to(i.slice(g, key), src_shape),
        ),
        batch=slice_scatter_batch,
        onnx="shapes.slice_scatter",
    )
    def slice_scatter(self, x: Value, key: Key, src: Value | Scalar) -> Value:
        """Return a copy of x with ``x[key] = src``; src broadcasts."""
        ...

    @required(STRUCTURAL, vjp=cat_vjp, batch=SHIFTED, onnx="shapes.cat")
    def cat(self, xs: Sequence[Value], dim: Dim) -> Value:
        """Concatenate primitives, at least one and all of the same dtype, along an existing dimension."""
        ...

    @derived(STRUCTURAL, view="x", like="x", vjp=lambda i, g, dims: i.flip(g, dims), batch=SHIFTED)
    def flip(self, x: Value, dims: Dims) -> Value:
        """Reverse the order of the elements along ``dims``."""
        whole, reverse = slice(None, None, 1), slice(None, None, -1)
        return self.slice(x, tuple(reverse if d in dims else whole for d in range(len(x.shape))))

    @derived(STRUCTURAL, view="x", vjp=lambda i, g: i.mT(g), batch=SHIFTED, onnx="shapes.transposed")
    def mT(self, x: Value) -> Value:  # noqa: N802  # PyTorch's and NumPy's name
        """Matrix transpose: swap the last two dimensions."""
        n = len(x.shape)
        return self.permute(x, (*range(n - 2), n - 1, n - 2))

    @derived(
        LINEAR, like="x", flops=0, vjp=lambda i, g, diagonal: i.tril(g, diagonal), batch=SHIFTED, onnx="shapes.tril"
    )
    def tril(self, x: Value, diagonal: int) -> Value:
        """Lower triangle of the last two dimensions: the elements on and below ``diagonal``, zeros elsewhere."""
        return self.where(_band(self, x, diagonal), x, 0)

    @derived(
        LINEAR, like="x", flops=0, vjp=lambda i, g, diagonal: i.triu(g, diagonal), batch=SHIFTED, onnx="shapes.triu"
    )
    def triu(self, x: Value, diagonal: int) -> Value:
        """Upper triangle of the last two dimensions: the elements on and above ``diagonal``, zeros elsewhere."""
        discrete = self.discrete
        return self.where(discrete.bitwise_not(_band(self, x, diagonal - 1)), x, 0)

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
        batch=matmul_nt_batch,
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


def _band(b: Shaping, x: Value, diagonal: int) -> Bool:
    """Return the mask of the last two dimensions of x that is true where column - row <= diagonal."""
    d = b.discrete
    rows, columns = x.shape[-2:]
    row = d.reshape(d.arange(diagonal, diagonal + rows, 1, int64), (rows, 1))
    return d.le(d.arange(0, columns, 1, int64), row)
