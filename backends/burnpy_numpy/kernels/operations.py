"""`Compiled`: the operations of the NumPy backend that run as kernels, where kernels are enabled and arrays are large.

Small arrays, other dtypes and other layouts use the methods of the classes that `NumPy` has besides this one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.lists import Formula
from burnpy.backend.primitives import Dims
from burnpy.backend.value_range import value_range
from burnpy_array import ArrayBackend
from burnpy_array.fused import alike
from burnpy_numpy.kernels.lookups import lookup

if TYPE_CHECKING:
    from burnpy.backend.program import Program
    from burnpy_numpy.kernels.kernel import Kernel, NamedKernel

LEAST = 2
"""The number of elements from which kernels of programs are used that are several calls of NumPy. A single element may
be one of NumPy's scalars, which kernels cannot read."""
MANY = 2048
"""The same for what is one call of NumPy, and for kernels of templates, whose call takes longer."""
_TWO_CALLS = 64
"""The same for sums of squares, which are two calls, and whose kernel needs rows."""
_PART = 1 << 12
"""The number of squares that a kernel adds up of an array that is longer than a row may be."""
_SHORT = 1 << 9
"""The same of numbers, whose errors can add up in one direction."""
LONGEST = 1 << 16
"""The longest row that is summed by a kernel: longer sums would be less exact than NumPy's."""


class Compiled(ArrayBackend):
    """Operations as kernels. Their programs are traced from the defaults of the operations."""

    def run(self, program: Program, xs: Sequence[Any], numbers: tuple[float, ...]) -> list[Any]:
        from burnpy_numpy.kernels.selection import run

        return list(self._call(run, super().run, program, xs, numbers))

    def fuses(self, xs: Sequence[Any]) -> bool:
        return xs[0].size >= LEAST and alike(xs) and kernels_enabled()

    def fused(self, formula: Formula, xs: Sequence[Any], numbers: tuple[float, ...] = ()) -> tuple[Any, ...]:
        kernel = _fused_kernel(formula, xs, len(numbers))
        if kernel is None:
            return super().fused(formula, xs, numbers)
        shapes = (xs[0].shape,) * len(kernel.program.outputs)
        return tuple(kernel.outputs(xs, shapes, 1, xs[0].size, numbers))

    def sigmoid(self, x: Any) -> Any:
        kernel = elementwise_kernel("sigmoid", (), x)
        return super().sigmoid(x) if kernel is None else kernel.alike((x,))

    def erf(self, x: Any) -> Any:
        kernel = elementwise_kernel("erf", (), x)
        return super().erf(x) if kernel is None else kernel.alike((x,))

    def gelu(self, x: Any, approximate: bool) -> Any:
        kernel = elementwise_kernel("gelu", (approximate,), x)
        return super().gelu(x, approximate) if kernel is None else kernel.alike((x,))

    def gelu_backward(self, grad: Any, x: Any, approximate: bool) -> Any:
        kernel = elementwise_kernel("gelu_backward", (approximate,), grad, x)
        return super().gelu_backward(grad, x, approximate) if kernel is None else kernel.alike((grad, x))

    def silu(self, x: Any) -> Any:
        kernel = elementwise_kernel("silu", (), x)
        return super().silu(x) if kernel is None else kernel.alike((x,))

    def silu_backward(self, grad: Any, x: Any) -> Any:
        kernel = elementwise_kernel("silu_backward", (), grad, x)
        return super().silu_backward(grad, x) if kernel is None else kernel.alike((grad, x))

    def softplus(self, x: Any, beta: float) -> Any:
        kernel = elementwise_kernel("softplus", (beta,), x)
        return super().softplus(x, beta) if kernel is None else kernel.alike((x,))

    def softmax(self, x: Any, dim: int) -> Any:
        kernel = _rowwise("softmax", (1,), dim, x)
        return super().softmax(x, dim) if kernel is None else kernel.alike((x,))

    def softmax_backward(self, grad: Any, out: Any, dim: int) -> Any:
        kernel = _rowwise("softmax_backward", (1,), dim, grad, out)
        return super().softmax_backward(grad, out, dim) if kernel is None else kernel.alike((grad, out))

    def log_softmax(self, x: Any, dim: int) -> Any:
        kernel = _rowwise("log_softmax", (1,), dim, x)
        return super().log_softmax(x, dim) if kernel is None else kernel.alike((x,))

    def log_softmax_backward(self, grad: Any, out: Any, dim: int) -> Any:
        kernel = _rowwise("log_softmax_backward", (1,), dim, grad, out)
        return super().log_softmax_backward(grad, out, dim) if kernel is None else kernel.alike((grad, out))

    def cross_entropy(self, x: Any, index: Any, dim: int) -> tuple[Any, Any]:
        if not _picks_in_rows(x, index, dim):
            return super().cross_entropy(x, index, dim)
        kernel = kernel_of("cross_entropy", (_FULL, "index"), x.dtype, (1,))
        columns = x.shape[-1]
        least, most = value_range(index)
        if kernel is None or least < 0 or most >= columns:  # which the kernel would read
            return super().cross_entropy(x, index, dim)
        losses, total = kernel.outputs((x, index), (index.shape, (*index.shape, 1)), index.size, columns)
        return losses, total

    def cross_entropy_backward(self, grad: Any, x: Any, logsumexp: Any, index: Any, dim: int) -> Any:
        kernel = None
        if _picks_in_rows(x, index, dim) and grad.dtype is x.dtype is logsumexp.dtype and grad.size == logsumexp.size:
            kernel = kernel_of("cross_entropy_weights", (_COLUMN, _FULL, _COLUMN), x.dtype, ())
        if kernel is None:
            return super().cross_entropy_backward(grad, x, logsumexp, index, dim)
        columns = x.shape[-1]
        (out,) = kernel.outputs((grad, x, logsumexp), ((index.size, columns),), index.size, columns)
        chosen = (np.arange(index.size), index.reshape(-1))
        out[chosen] = self._call(np.subtract, out[chosen], grad.reshape(-1))  # an infinite gradient gives NaN
        return out.reshape(x.shape)

    def masked_scale(self, x: Any, mask: Any, scale: float) -> Any:
        kernel = None
        if x.size >= LEAST and x.shape == mask.shape and (x.dtype is float32 or x.dtype is float64):
            kernel = kernel_of("masked_scale", (_FULL, "mask", "scalar"), x.dtype, ())
        if kernel is None:
            return super().masked_scale(x, mask, scale)
        return kernel.alike((x, mask), (scale,))

    def normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        kernel = _normalizing("normalize", eps, dims, (x,), (weight, bias))
        if kernel is None:
            return super().normalize(x, weight, bias, dims, eps)
        small = (*x.shape[: dims[0]], *(1,) * len(dims))
        out, mean, var = kernel.outputs((x, weight, bias), (x.shape, small, small), *_rows_and_columns(x, weight))
        return (out, mean, var) if _finite(var) else super().normalize(x, weight, bias, dims, eps)

    def normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
    ) -> tuple[Any, Any, Any]:
        kernel = _normalizing("normalize_backward", eps, dims, (grad, x), (weight,), (mean, var))
        if kernel is None or not _finite(var):
            return super().normalize_backward(grad, x, weight, mean, var, dims, eps)
        xs = (grad, x, weight, mean, var)
        by_x, by_weight, by_bias = kernel(xs, (), *_rows_and_columns(x, weight))
        return by_x.reshape(x.shape), by_weight.reshape(weight.shape), by_bias.reshape(weight.shape)

    def nansum(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        out = _sum_of("sum_of_numbers", x, dims, keepdim, (_SHORT,), _PART)
        return super().nansum(x, dims, keepdim) if out is None else out

    def _sum_of_squares(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        small = x.size < _TWO_CALLS
        out = None if small else _sum_of("sum_of_squares", x, dims, keepdim, (x.size, _PART), LONGEST)
        return super()._sum_of_squares(x, dims, keepdim) if out is None else out

    def rms_norm(self, x: Any, weight: Any, dims: Dims, eps: float) -> Any:
        kernel = _normalizing("rms_norm", eps, dims, (x,), (weight,))
        if kernel is None:
            return super().rms_norm(x, weight, dims, eps)
        rows, columns = _rows_and_columns(x, weight)
        (out,) = kernel.outputs((x, weight), (x.shape,), rows, columns)
        return out if _finite(out.reshape((rows, columns))[:, 0]) else super().rms_norm(x, weight, dims, eps)

    def rms_norm_backward(self, grad: Any, x: Any, weight: Any, dims: Dims, eps: float) -> tuple[Any, Any]:
        kernel = _normalizing("rms_norm_backward", eps, dims, (grad, x), (weight,))
        if kernel is None:
            return super().rms_norm_backward(grad, x, weight, dims, eps)
        by_x, by_weight = kernel([grad, x, weight], (), *_rows_and_columns(x, weight))
        if not _finite(by_weight):
            return super().rms_norm_backward(grad, x, weight, dims, eps)
        return by_x.reshape(x.shape), by_weight.reshape(weight.shape)


def _sum_of(name: str, x: Any, dims: Dims, keepdim: bool, parts: tuple[int, ...], longest: int) -> Any:
    """Return the sum of a function of the elements over the last dimensions; None if there is no kernel for it.

    Args:
        name: the program of the sums of rows.
        x: the array.
        dims: the dimensions.
        keepdim: whether these stay, with size 1.
        parts: the lengths of rows into which the whole array is divided, the first that fits.
        longest: the longest row.
    """
    if not dims or not x.size:
        return None
    columns = math.prod([x.shape[d] for d in dims])
    whole = columns == x.size
    if whole:
        columns = next((n for n in parts if n <= longest and x.size % n == 0), longest + 1)
    if dims[0] != x.ndim - len(dims) or columns > longest:
        return None
    kernel = elementwise_kernel(name, (), x)
    if kernel is None:
        return None
    (out,) = kernel([x], (), x.size // columns, columns)
    if whole:
        out = out.sum()
    return out.reshape([1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims])


_FULL, _ROW, _COLUMN = "full", "row", "column"
_ONE, _TWO = (_FULL,), (_FULL, _FULL)
_found: dict[tuple[Any, ...], Kernel | None] = lookup()
_templates: dict[tuple[Any, ...], NamedKernel | None] = lookup()


def kernel_of(name: str, extents: tuple[str, ...], dtype: Any, rest: tuple[Any, ...]) -> Kernel | None:
    """Return the kernel of an operation; None if it has none, or kernels are off.

    Args:
        name: the operation, or a function of `burnpy_array.programs`.
        extents: the extent of each of its arrays, see `burnpy.backend.program.Extent`; "index" is a column of int64,
            "mask" a full array of bools.
        dtype: the dtype of all of them.
        rest: its other arguments.
    """
    key = (name, extents, dtype, rest)
    try:
        return _found[key]
    except KeyError:
        from burnpy_numpy.kernels.selection import kernel_for  # what small arrays do without is not imported

        kernel = _found[key] = kernel_for(name, extents, dtype.name, rest)
        return kernel


def kernels_enabled() -> bool:
    """Return whether kernels are on."""
    from burnpy_numpy.kernels.kernel import enabled  # not imported before the first large array, or formula

    return enabled()


def _fused_kernel(formula: Formula, xs: Sequence[Any], numbers: int) -> Kernel | None:
    """Return the kernel of a formula; None if it has none for such arrays, or kernels are off."""
    if xs[0].size < LEAST or not alike(xs):
        return None
    key = (formula, len(xs), xs[0].dtype, numbers)
    try:
        return _found[key]
    except KeyError:
        from burnpy_numpy.kernels.selection import kernel_of_formula

        kernel = _found[key] = kernel_of_formula(formula, len(xs), xs[0].dtype.name, numbers)
        return kernel


def template_kernel(module: str, name: str, *parameters: Any) -> NamedKernel | None:
    """Return the kernel of a template; None if kernels are off.

    Args:
        module: the module of this package that has the template, which is imported at its first kernel.
        name: the template.
        parameters: its arguments.
    """
    key = (module, name, *parameters)
    try:
        return _templates[key]
    except KeyError:
        from burnpy_numpy.kernels.kernel import named_kernel

        template = getattr(import_module(f"burnpy_numpy.kernels.{module}"), name)
        kernel = _templates[key] = named_kernel(template, *parameters)
        return kernel


def block_width(count: int, most: int) -> int:
    """Return the largest power of 2 up to a count and up to ``most``; 1 for a count of 0."""
    return min(most, 1 << max(count.bit_length() - 1, 0))


def block_starts(count: int, width: int) -> Any:
    """Return the first of each block of ``width``; the last block may overlap with the one before."""
    return np.minimum(np.arange(0, count, width), count - width)


def elementwise_kernel(name: str, rest: tuple[Any, ...], x: Any, y: Any = None) -> Kernel | None:
    """Return the kernel of an elementwise operation, if the arrays are of one shape and a usual dtype."""
    dtype = x.dtype
    if x.size < LEAST or not (dtype is float32 or dtype is float64):
        return None
    if y is None:
        return kernel_of(name, _ONE, dtype, rest)
    if y.dtype is not dtype or y.shape != x.shape:
        return None
    return kernel_of(name, _TWO, dtype, rest)


def _rowwise(name: str, rest: tuple[Any, ...], dim: int, x: Any, y: Any = None) -> Kernel | None:
    """Return the kernel of an operation along the last dimension."""
    shape = x.shape
    return elementwise_kernel(name, rest, x, y) if dim == len(shape) - 1 and shape[dim] <= LONGEST else None


def _picks_in_rows(x: Any, index: Any, dim: int) -> bool:
    """Return whether a large array of a usual dtype has an int64 index for each of its rows."""
    return (
        x.size >= LEAST
        and (x.dtype is float32 or x.dtype is float64)
        and dim == x.ndim - 1
        and x.shape[dim] <= LONGEST
        and index.dtype == np.int64
        and index.shape == x.shape[:-1]
    )


def _normalizing(
    name: str,
    eps: float,
    dims: Dims,
    full: tuple[Any, ...],
    row: tuple[Any, ...],
    column: tuple[Any, ...] = (),
) -> Kernel | None:
    """Return the kernel of a normalization over the last dimensions, with a weight for each of their elements."""
    x = full[-1]
    dtype, shape = x.dtype, x.shape[dims[0] :]
    columns = math.prod(shape)
    if (
        x.size < LEAST
        or not (dtype is float32 or dtype is float64)
        or len(shape) != len(dims)
        or columns > LONGEST
        or full[0].shape != x.shape
    ):
        return None
    for a in (*full, *row, *column):
        if a.dtype is not dtype:
            return None
    for a in row:
        if a.shape != shape:
            return None
    for a in column:
        if a.size * columns != x.size:
            return None
    extents = (_FULL,) * len(full) + (_ROW,) * len(row) + (_COLUMN,) * len(column)
    return kernel_of(name, extents, dtype, ((1,), eps))


def _finite(x: Any) -> bool:
    """Return whether an array has neither NaN nor +∞: kernels make NaN or ∞ of rows whose squares overflow."""
    return bool(x.item(x.argmax()) < math.inf)


def _rows_and_columns(x: Any, weight: Any) -> tuple[int, int]:
    columns = math.prod(weight.shape)
    return x.size // columns, columns
