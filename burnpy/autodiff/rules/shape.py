"""Rules of operations that move elements, of dtype conversion and of the matrix product."""

from __future__ import annotations

import math
from typing import Any

from burnpy.autodiff.graph import PartialGrad
from burnpy.autodiff.rules.algebra import Matrices, bilinear, linear, structural
from burnpy.backend.backend import Backend
from burnpy.backend.primitives import DType, Float, Key, Shape


def member(i: Any, g: Float, x_shape: Shape, dim: int, start: int) -> Float:
    """The part of the gradient of ``cat`` that belongs to the member which begins at ``start``."""
    key = tuple(slice(start, start + n, 1) if d == dim else slice(0, n, 1) for d, n in enumerate(x_shape))
    return i.slice(g, key)


def matmul_left(i: Any, g: Float, y: Float, x_shape: Shape, x_dtype: DType) -> Float:
    """g yᵀ."""
    if len(x_shape) > 1 and len(y.shape) > 1:
        return fitted(i, i.matmul_nt(g, y), x_shape, x_dtype)
    row, column = matrices(x_shape, y.shape)
    part = i.matmul(i.reshape(g, product_shape(g.shape, x_shape, y.shape)), i.mT(i.reshape(y, column)))
    return i.reshape(fitted(i, part, row, x_dtype), x_shape)


def matmul_right(i: Any, g: Float, x: Float, y_shape: Shape, y_dtype: DType) -> Float:
    """xᵀ g."""
    if len(y_shape) == 2 < len(x.shape):  # one product over all rows, not one for each matrix and their sum
        x, g = (i.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1])) for a in (x, g))
    if len(y_shape) > 1 and len(x.shape) > 1:
        return fitted(i, i.matmul_tn(x, g), y_shape, y_dtype)
    row, column = matrices(x.shape, y_shape)
    part = i.matmul(i.mT(i.reshape(x, row)), i.reshape(g, product_shape(g.shape, x.shape, y_shape)))
    return i.reshape(fitted(i, part, column, y_dtype), y_shape)


def matrices(x_shape: Shape, y_shape: Shape) -> tuple[Shape, Shape]:
    """The shapes of the factors of a product, with a vector on the left as a row, on the right as a column."""
    return (x_shape if len(x_shape) > 1 else (1, *x_shape)), (y_shape if len(y_shape) > 1 else (*y_shape, 1))


def product_shape(shape: Shape, x_shape: Shape, y_shape: Shape) -> Shape:
    """The shape of a product with the dimensions of size 1 that are missing if a factor is a vector."""
    if len(y_shape) == 1:
        shape = (*shape, 1)
    return shape if len(x_shape) > 1 else (*shape[:-1], 1, shape[-1])


def fitted(i: Any, part: Float, shape: Shape, dtype: DType) -> Float:
    """The adjoint of the product's broadcasting and promotion."""
    if part.dtype != dtype:
        part = i.cast(part, dtype)
    return part if part.shape == shape else i.sum_to(part, shape)


def permute_vjp(i: Any, g: Float, dims: Shape) -> Float:
    """The inverse permutation."""
    return i.permute(g, tuple(dims.index(d) for d in range(len(dims))))


def add_slice(i: Any, total: Float | None, shape: Shape, key: Key, g: Float) -> Float:
    """``total``, or zeros, with g added at ``key``."""
    return i.accumulate_slice(i.full(shape, 0.0, g.dtype) if total is None else total, key, g)


def overwritten(i: Any, g: Float, key: Key) -> Float:
    """The gradient by x: g where nothing was overwritten, else 0."""
    return i.slice_scatter(g, key, 0.0)


def written(i: Any, g: Float, key: Key, src_shape: Shape) -> Float:
    """The gradient by the written values."""
    return i.sum_to(i.slice(g, key), src_shape)


structural(Backend.reshape, lambda i, g, x_shape: i.reshape(g, x_shape))
structural(Backend.permute, permute_vjp)
structural(Backend.expand, lambda i, g, x_shape: i.sum_to(g, x_shape))
structural(Backend.slice, lambda i, g, x_shape, key: PartialGrad(add_slice, x_shape, key, g))
structural(Backend.slice_scatter, overwritten, written)
structural(Backend.cat, member)
structural(Backend.flip, lambda i, g, dims: i.flip(g, dims))
structural(Backend.mT, lambda i, g: i.mT(g))
linear(Backend.tril, lambda i, g, diagonal: i.tril(g, diagonal))
linear(Backend.triu, lambda i, g, diagonal: i.triu(g, diagonal))
linear(Backend.cast, lambda i, g, x_dtype: i.cast(g, x_dtype))
bilinear(
    Backend.matmul,
    matmul_left,
    matmul_right,
    matrices=Matrices((lambda i, g, y: i.matmul_nt(g, y), lambda i, g, x: i.matmul_tn(x, g)), (0, 1)),
)
bilinear(
    Backend.matmul_nt,
    lambda i, g, y, x_shape, x_dtype: fitted(i, i.matmul(g, y), x_shape, x_dtype),
    lambda i, g, x, y_shape, y_dtype: fitted(i, i.matmul_tn(g, x), y_shape, y_dtype),
    matrices=Matrices((lambda i, g, y: i.matmul(g, y), lambda i, g, x: i.matmul_tn(g, x)), (0, 0)),
)
bilinear(
    Backend.matmul_tn,
    lambda i, g, y, x_shape, x_dtype: fitted(i, i.matmul_nt(y, g), x_shape, x_dtype),
    lambda i, g, x, y_shape, y_dtype: fitted(i, i.matmul(x, g), y_shape, y_dtype),
    matrices=Matrices((lambda i, g, y: i.matmul_nt(y, g), lambda i, g, x: i.matmul(x, g)), (1, 1)),
)
structural(Backend.pad_ends, lambda i, g, x_shape, pairs, how: i.pad_ends_backward(g, x_shape, pairs, how))
linear(Backend.pad_ends_backward, lambda i, g, pairs, how: i.pad_ends(g, pairs, how))
