"""Operations that create and convert primitives, or move elements without computing on them, and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from burnpy.backend.dtypes import converted, int64
from burnpy.backend.errors import ShapeError
from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import (
    Bool,
    Dim,
    Dims,
    Discrete,
    DType,
    Float,
    Inexact,
    Int,
    Key,
    Ordered,
    Scalar,
    Shape,
    Value,
)
from burnpy.backend.rules import BATCH_SLICE, SHIFTED, PartialGrad, add_at_slice, selected_ndim
from burnpy.backend.schema import LINEAR, NONDIFFERENTIABLE, STRUCTURAL, derived, required


def part(b: Any, x: Value, dim: int, start: int, stop: int) -> Value:
    """Return the slices of x along ``dim`` from ``start`` up to ``stop``, excluded."""
    return b.slice(x, (*(slice(None),) * dim, slice(start, stop, 1)))


class Creation(OperationsBase):
    """Operations that create a primitive, and conversions of dtype and kind."""

    @required(NONDIFFERENTIABLE, onnx="shapes.unchecked")
    def from_numpy(self, array: np.ndarray[Any, Any]) -> Value:
        """Copy a NumPy array to this device; later changes of the array do not affect the result."""
        ...

    @derived(NONDIFFERENTIABLE, view="array", onnx="shapes.unchecked")
    def adopt_numpy(self, array: np.ndarray[Any, Any]) -> Value:
        """Move a NumPy array to this device, sharing its memory if possible; the array must not be written to again."""
        return self.from_numpy(array)

    @required(NONDIFFERENTIABLE, onnx="refused")
    def to_numpy(self, x: Value) -> np.ndarray[Any, Any]:
        """Return ``x`` as a NumPy array that shares its memory if possible, and is a copy otherwise."""
        ...

    @required(NONDIFFERENTIABLE, onnx="shapes.full")
    def full(self, shape: Shape, value: Scalar, dtype: DType) -> Value:
        """Return a primitive of the given shape and dtype, filled with ``value``."""
        ...

    @required(NONDIFFERENTIABLE, onnx="shapes.arange")
    def arange(self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Value:
        """Return start, start + step, … up to stop, excluded, as 1-d; stop may exceed the range of the dtype."""
        ...

    @derived(NONDIFFERENTIABLE, onnx="shapes.linspace")
    def linspace(self, start: Scalar, stop: Scalar, num: int, dtype: DType) -> Value:
        """Return ``num`` evenly spaced numbers from start to stop, both included; 1-d."""
        return self.from_numpy(converted(np.linspace(start, stop, num), dtype))

    @derived(NONDIFFERENTIABLE, onnx="shapes.eye")
    def eye(self, rows: int, columns: int, dtype: DType) -> Value:
        """Return a (rows, columns) matrix with ones on the diagonal and zeros elsewhere."""
        return self.from_numpy(np.eye(rows, columns, dtype=dtype))

    @required(
        LINEAR, like="x", flops=0, vjp=lambda i, g, x_dtype: i.cast(g, x_dtype), batch=SHIFTED, onnx="elementwise.cast"
    )
    def cast(self, x: Value, dtype: DType) -> Value:
        """Convert ``x`` to another dtype of the same kind; a plain backend converts any dtype to any other."""
        ...

    @derived(NONDIFFERENTIABLE, elementwise=True, flops=0, onnx="elementwise.cast")
    def to_float(self, x: Discrete, dtype: DType) -> Float:
        """Convert ints or bools to a float dtype."""
        return self.discrete.cast(x, dtype)

    @derived(NONDIFFERENTIABLE, elementwise=True, flops=0, onnx="elementwise.cast")
    def to_int(self, x: Ordered, dtype: DType) -> Int:
        """Convert floats, truncated toward zero, or bools to an int dtype."""
        return self.cast(x, dtype)

    @derived(NONDIFFERENTIABLE, elementwise=True, flops=0, onnx="elementwise.to_bool")
    def to_bool(self, x: Value) -> Bool:
        """Convert to bool: True where ``x`` is not zero; NaN gives True."""
        return self.ne(x, 0)


def cat_vjp(i: Any, g: Float, x_shape: Shape, dim: int, start: int) -> Float:
    """Return the part of the gradient of ``cat`` for the member that begins at ``start``."""
    key = tuple(slice(start, start + n, 1) if d == dim else slice(0, n, 1) for d, n in enumerate(x_shape))
    return i.slice(g, key)


def stack_vjp(i: Any, g: Float, dim: int, place: int) -> Float:
    """Return the part of the gradient of ``stack`` that belongs to a member."""
    return i.slice(g, (*[BATCH_SLICE] * dim, place))


def permute_vjp(i: Any, g: Float, dims: Shape) -> Float:
    """Return the inverse permutation."""
    return i.permute(g, tuple(dims.index(d) for d in range(len(dims))))


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

    @derived(STRUCTURAL, vjp=stack_vjp, batch=SHIFTED)
    def stack(self, xs: Sequence[Value], dim: Dim) -> Value:
        """Concatenate primitives, at least one and all of the same shape and dtype, along a new dimension."""
        shape = xs[0].shape
        if any(x.shape != shape for x in xs):
            raise ShapeError(f"stack() cannot join the shapes {[x.shape for x in xs]}, which must be equal")
        if dim == len(shape):
            return self.cat([self.reshape(x, (*shape, 1)) for x in xs], dim)
        joined = self.cat(xs, dim)  # side by side, they are in order already
        return self.reshape(joined, (*shape[:dim], len(xs), *shape[dim:]))

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


def _band(b: Shaping, x: Value, diagonal: int) -> Bool:
    """Return the mask of the last two dimensions of x that is true where column - row <= diagonal."""
    d = b.discrete
    rows, columns = x.shape[-2:]
    row = d.reshape(d.arange(diagonal, diagonal + rows, 1, int64), (rows, 1))
    return d.le(d.arange(0, columns, 1, int64), row)


Pairs: TypeAlias = tuple[tuple[int, int], ...]
Range: TypeAlias = tuple[int, int]


class Padding(OperationsBase):
    """Padding at both ends of dimensions.

    ``pairs`` has the numbers of elements before and after each dimension. At least one is not 0; a negative number cuts
    elements off. ``how`` is "reflect", "replicate" or "circular".
    """

    @derived(
        STRUCTURAL,
        vjp=lambda i, g, x_shape, pairs, how: i.pad_ends_backward(g, x_shape, pairs, how),
        onnx="shapes.pad_ends",
    )
    def pad_ends(self, x: Value, pairs: Pairs, how: str) -> Value:
        """Pad x with its own elements: the reflected ones, the outermost one, or those of the other end."""
        for dim in reversed(range(len(pairs))):
            low, high = pairs[dim]
            if low or high:
                size = x.shape[dim]
                before, after = (_piece(self, x, how, dim, n, at) for n, at in _ends(how, size, low, high))
                x = self.cat([before, part(self, x, dim, max(-low, 0), size - max(-high, 0)), after], dim)
        return x

    @derived(LINEAR, flops=1, vjp=lambda i, g, pairs, how: i.pad_ends(g, pairs, how))
    def pad_ends_backward(self, grad: Inexact, shape: Shape, pairs: Pairs, how: str) -> Inexact:
        """Gradient of `pad_ends` with respect to x, of ``shape``."""
        for dim, (low, high) in enumerate(pairs):
            if low or high:
                size, kept = shape[dim], shape[dim] + min(low, 0) + min(high, 0)
                whole = (*grad.shape[:dim], size, *grad.shape[dim + 1 :])
                before, after = max(low, 0), grad.shape[dim] - max(high, 0)
                total = self.expand(self.full((), 0.0, grad.dtype), whole)
                total = self.slice_scatter(total, _key(dim, max(-low, 0), kept), part(self, grad, dim, before, after))
                pieces = (part(self, grad, dim, 0, before), part(self, grad, dim, after, grad.shape[dim]))
                for piece, (count, (start, stop)) in zip(pieces, _ends(how, size, low, high), strict=True):
                    if count:
                        total = self.accumulate_slice(
                            total, _key(dim, start, stop - start), _sum(self, piece, how, dim)
                        )
                grad = total
        return grad


def _ends(how: str, size: int, low: int, high: int) -> tuple[tuple[int, Range], tuple[int, Range]]:
    """Return how many elements are added before and after a dimension, each with the range that they are read from."""
    before, after = max(low, 0), max(high, 0)
    if how == "reflect":
        return (before, (1, 1 + before)), (after, (size - 1 - after, size - 1))
    if how == "replicate":
        return (before, (0, 1)), (after, (size - 1, size))
    first, last = max(-low, 0), size - max(-high, 0)
    return (before, (last - before, last)), (after, (first, first + after))


def _piece(b: Any, x: Value, how: str, dim: int, count: int, source: Range) -> Value:
    """Return ``count`` elements to put at an end."""
    if not count:
        return part(b, x, dim, 0, 0)
    piece = part(b, x, dim, *source)
    if how == "replicate":
        return b.expand(piece, (*x.shape[:dim], count, *x.shape[dim + 1 :]))
    return b.flip(piece, (dim,)) if how == "reflect" else piece


def _sum(b: Any, piece: Float, how: str, dim: int) -> Float:
    """Return the gradient of `_piece`'s source elements."""
    if how == "replicate":
        return b.sum(piece, (dim,), True)
    return b.flip(piece, (dim,)) if how == "reflect" else piece


def _key(dim: int, start: int, count: int) -> tuple[slice, ...]:
    return (*(slice(None, None, 1),) * dim, slice(start, start + count, 1))
