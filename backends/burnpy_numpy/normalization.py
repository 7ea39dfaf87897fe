"""Normalization: rows by kernels of its default, all dimensions but the channels block by block.

A block stays in the cache from its first sum to its last product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import Dims
from burnpy_array import ArrayBackend
from burnpy_array.array_base import in_order
from burnpy_numpy.cpu_threads import BLOCK, shared
from burnpy_numpy.kernels.kernel import LEAST, contiguous, family_kernels, operation_kernel
from burnpy_numpy.programs import row_plan
from burnpy_numpy.reduction import row

if TYPE_CHECKING:
    from burnpy_numpy.kernels.launch import Kernel

_MIN_UNCACHED = 1 << 18
"""The number of elements from which matrices, with their transposes, do not fit in the cache."""
_MAX_GROUP = 8192
"""The longest group: longer sums would be less accurate than NumPy's pairwise summation."""

_einsum: Any = np.einsum
_INFINITY = math.inf
_FORWARD, _BACKWARD = ("full", "row", "row"), ("full", "full", "row", "column", "column")
"""The extents of the arrays of layer norm and of its gradient; root mean square norms lack the last ones."""


class NumPyNormalization(ArrayBackend):
    """Rows by kernels of programs, channels by those of templates or block by block; others as in `burnpy_array`."""

    def normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        shape, options = x.shape, ((1,), eps)
        plan = row_plan(  # unpacking a tuple of dtypes would take longer
            ("normalize", _FORWARD, options, dims, shape, weight.shape, bias.shape, x.dtype, weight.dtype, bias.dtype)
        )
        if plan is not None:
            kernel, rows, columns, small = plan
            out, mean, var = kernel.outputs((x, weight, bias), (shape, small, small), rows, columns)
            if _finite(var):
                return out, mean, var
        elif dims == (0,) and (of_columns := _kernel_of_columns("normalize", eps, x, weight, bias)):
            (rows, columns), small = shape, (1, shape[1])
            out, mean, var = of_columns.outputs((x.T, weight, bias), (shape[::-1], small, small), columns, rows)
            if _finite(var):
                return contiguous(out.T), mean, var
        return super().normalize(x, weight, bias, dims, eps)

    def normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
    ) -> tuple[Any, Any, Any]:
        xs = (grad, x, weight, mean, var)
        shapes = (grad.shape, x.shape, weight.shape, mean.shape, var.shape)
        dtypes = (grad.dtype, x.dtype, weight.dtype, mean.dtype, var.dtype)
        plan = row_plan(("normalize_backward", _BACKWARD, ((1,), eps), dims, *shapes, *dtypes))
        if plan is not None and _finite(var):
            grad_x, grad_weight, grad_bias = plan[0](xs, (), plan[1], plan[2])
            return grad_x.reshape(shapes[1]), grad_weight.reshape(shapes[2]), grad_bias.reshape(shapes[2])
        if dims == (0,) and (kernel := _kernel_of_columns("normalize_backward", eps, *xs)) and _finite(var):
            turned = grad.T, x.T, weight, mean, var
            grad_x, grad_weight, grad_bias = kernel(turned, (), x.shape[1], x.shape[0])
            return contiguous(grad_x.T), grad_weight.reshape(shapes[2]), grad_bias.reshape(shapes[2])
        return super().normalize_backward(grad, x, weight, mean, var, dims, eps)

    def rms_norm(self, x: Any, weight: Any, dims: Dims, eps: float) -> Any:
        plan = row_plan(("rms_norm", _FORWARD[:2], ((1,), eps), dims, x.shape, weight.shape, x.dtype, weight.dtype))
        if plan is not None:
            kernel, rows, columns, _ = plan
            (out,) = kernel.outputs((x, weight), (x.shape,), rows, columns)
            if _finite(out.reshape((rows, columns))[:, 0]):
                return out
        return super().rms_norm(x, weight, dims, eps)

    def rms_norm_backward(self, grad: Any, x: Any, weight: Any, dims: Dims, eps: float) -> tuple[Any, Any]:
        shapes, dtypes = (grad.shape, x.shape, weight.shape), (grad.dtype, x.dtype, weight.dtype)
        plan = row_plan(("rms_norm_backward", _BACKWARD[:3], ((1,), eps), dims, *shapes, *dtypes))
        if plan is not None:
            grad_x, grad_weight = plan[0]((grad, x, weight), (), plan[1], plan[2])
            if _finite(grad_weight):
                return grad_x.reshape(x.shape), grad_weight.reshape(weight.shape)
        return super().rms_norm_backward(grad, x, weight, dims, eps)

    def _overflowed(self, squares: Any) -> bool:
        return squares.size > 0 and not _finite(squares)

    def _normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        if x.size >= LEAST and x.ndim > 2 and (kernels := family_kernels("normalization")):
            results: tuple[Any, Any, Any] | None = kernels.group_normalize(x, weight, bias, dims, eps)
            if results is not None:
                return results
        if are_channels(x, weight, dims) and bias.shape == weight.shape:
            return _channels(x, weight, bias, dims, eps)
        return super()._normalize(x, weight, bias, dims, eps)

    def _normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
    ) -> tuple[Any, Any, Any]:
        if x.size >= LEAST and x.ndim > 2 and (kernels := family_kernels("normalization")):
            results: tuple[Any, Any, Any] | None = kernels.group_normalize_backward(
                grad, x, weight, mean, var, dims, eps
            )
            if results is not None:
                return results
        if are_channels(x, weight, dims):
            return _channels_backward(grad, x, weight, mean, var, eps)
        return super()._normalize_backward(grad, x, weight, mean, var, dims, eps)


def _kernel_of_columns(name: str, eps: float, *xs: Any) -> Kernel | None:
    """Return the kernel for columns of matrices, which are rows of their transposes; None for large or other arrays."""
    x, dtype = xs[0], xs[0].dtype
    columns = x.shape[-1]
    if x.ndim != 2 or not LEAST <= x.size < _MIN_UNCACHED or not (dtype is float32 or dtype is float64):
        return None
    if any(other.dtype is not dtype or other.shape not in (x.shape, (columns,), (1, columns)) for other in xs):
        return None
    extents = tuple(["full" if other.size == x.size else "column" for other in xs])
    return operation_kernel(name, extents, dtype, ((1,), eps))


def _finite(x: Any) -> bool:
    """Return whether an array has neither NaN nor +∞: kernels make NaN or ∞ of rows whose squares overflow."""
    largest: float = x.item(x.argmax())
    return largest < _INFINITY


def are_channels(x: Any, weight: Any, dims: Dims) -> bool:
    """Return whether ``dims`` are all but the second, x has spatial dims, and the weight has a value per channel."""
    if not x.size or x.ndim < 3 or not (x.dtype is float32 or x.dtype is float64):
        return False
    return (
        dims == (0, *range(2, x.ndim))
        and weight.shape == (x.shape[1], *(1,) * (x.ndim - 2))
        and 8 <= math.prod(x.shape[2:]) <= _MAX_GROUP
    )


def _blocks(begin: int, end: int, each: int) -> Iterator[slice]:
    """Yield slices of range(begin, end) of about `BLOCK` elements, for members of ``each`` elements."""
    step = max(1, BLOCK // each)
    for start in range(begin, end, step):
        yield slice(start, min(start + step, end))


def _channels(x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
    n, c = x.shape[:2]
    planes = x.reshape((n, c, -1))
    size = planes.shape[2]
    out = np.empty(planes.shape, x.dtype)
    mean = planes.dot(row(1, size, x.dtype)).sum(0).reshape((c, 1)) / (n * size)
    totals: dict[int, Any] = {}

    def centre(begin: int, end: int) -> None:
        total, squares = totals[begin] = np.zeros((2, c), x.dtype)
        for block in _blocks(begin, end, c * size):
            out_part = out[block]
            np.subtract(planes[block], mean, out_part)
            np.add(total, out_part.dot(row(1, size, x.dtype)).sum(0), total)
            np.add(squares, _einsum("ncs,ncs->nc", out_part, out_part).sum(0), squares)

    shared(centre, n, c * size / 2)
    error, square = in_order(totals).reshape((2, c, 1)) / (n * size)
    mean, var = mean + error, np.maximum(square - error * error, 0)
    scale = _scale(var, eps) * weight.reshape((c, 1))
    biases = bias.reshape((c, 1)) - error * scale

    def stretch(begin: int, end: int) -> None:
        for block in _blocks(begin, end, c * size):
            out_part = out[block]
            np.multiply(out_part, scale, out_part)
            np.add(out_part, biases, out_part)

    shared(stretch, n, c * size / 2)
    small = tuple(1 if d in dims else k for d, k in enumerate(x.shape))
    return out.reshape(x.shape), mean.reshape(small), var.reshape(small)


def _channels_backward(grad: Any, x: Any, weight: Any, mean: Any, var: Any, eps: float) -> tuple[Any, Any, Any]:
    n, c = x.shape[:2]
    planes, grads = x.reshape((n, c, -1)), grad.reshape((n, c, -1))
    size = planes.shape[2]
    means, scale = mean.reshape((c, 1)), _scale(var.reshape((c, 1)), eps)
    out = np.empty(planes.shape, x.dtype)
    grad_bias = grads.dot(row(1, size, x.dtype)).sum(0).reshape((c, 1))
    totals: dict[int, Any] = {}

    def centre(begin: int, end: int) -> None:
        total, products = totals[begin] = np.zeros((2, c), x.dtype)
        for block in _blocks(begin, end, c * size):
            out_part = out[block]
            np.subtract(planes[block], means, out_part)
            np.add(total, out_part.dot(row(1, size, x.dtype)).sum(0), total)
            np.add(products, _einsum("ncs,ncs->nc", out_part, grads[block]).sum(0), products)

    shared(centre, n, c * size / 2)
    total, products = in_order(totals).reshape((2, c, 1))
    level, error = grad_bias / (n * size), total / (n * size)
    grad_weight = (products - error * grad_bias) * scale
    along = grad_weight * scale / (n * size)
    level = level - error * along
    factor = scale * weight.reshape((c, 1))

    def combine(begin: int, end: int) -> None:
        for block in _blocks(begin, end, c * size):
            out_part = out[block]
            np.multiply(out_part, along, out_part)
            np.subtract(grads[block], out_part, out_part)
            np.subtract(out_part, level, out_part)
            np.multiply(out_part, factor, out_part)

    shared(combine, n, c * size / 2)
    return out.reshape(x.shape), grad_weight.reshape(weight.shape), grad_bias.reshape(weight.shape)


def _scale(var: Any, eps: float) -> Any:
    return np.reciprocal(np.sqrt(var + eps))
