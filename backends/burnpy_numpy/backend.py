"""`NumPy`: the backend for the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, kind_of
from burnpy.backend.primitives import Dims, DType, Scalar, Shape
from burnpy_array.base import NUMBERS
from burnpy_array.creation import canonical
from burnpy_array.pointwise import division_by_zero, negative_power
from burnpy_numpy.accumulation import Accumulation
from burnpy_numpy.activation import Activation
from burnpy_numpy.allocator import keep_freed_memory
from burnpy_numpy.kernels.adaptive_pooling import CompiledAdaptive
from burnpy_numpy.kernels.attention import CompiledAttention
from burnpy_numpy.kernels.channels import CompiledChannels
from burnpy_numpy.kernels.convolution import CompiledConvolution
from burnpy_numpy.kernels.distances import CompiledDistances
from burnpy_numpy.kernels.indexing import CompiledIndexing
from burnpy_numpy.kernels.lists import CompiledLists
from burnpy_numpy.kernels.matrices import CompiledMatrices
from burnpy_numpy.kernels.operations import Compiled
from burnpy_numpy.kernels.pointwise import CompiledPointwise
from burnpy_numpy.kernels.pooling import CompiledPooling
from burnpy_numpy.kernels.products import CompiledProducts
from burnpy_numpy.kernels.recurrence import CompiledRecurrence
from burnpy_numpy.kernels.sampling import CompiledSampling
from burnpy_numpy.kernels.scans import CompiledScans
from burnpy_numpy.constants import constant
from burnpy_numpy.convolution import Convolution
from burnpy_numpy.errstate import quietly, run
from burnpy_numpy.gathering import Gathering
from burnpy_numpy.linalg import LinearAlgebra
from burnpy_numpy.lists import Lists
from burnpy_numpy.matmul import MIN_BIAS_FIRST_COMPILED, affine, product
from burnpy_numpy.normalization import Normalization
from burnpy_numpy.ordering import Ordering
from burnpy_numpy.padding import Padding
from burnpy_numpy.pooling import Pooling
from burnpy_numpy.resampling import Resampling
from burnpy_numpy.row_sums import few, total
from burnpy_numpy.softmax import Softmax
from burnpy_numpy.special import erf
from burnpy_numpy.threads import shared
from burnpy_numpy.ufuncs import fast_methods
from burnpy_numpy.where import BLENDED, blendable, blended, kept

if TYPE_CHECKING:
    from burnpy.backend.memory import DeviceMemory

_dot: Any = np.ndarray.dot
_where: Any = np.where
_concatenate: Any = np.concatenate


class NumPy(
    Compiled,
    CompiledAdaptive,
    CompiledAttention,
    CompiledChannels,
    CompiledConvolution,
    CompiledDistances,
    CompiledIndexing,
    CompiledMatrices,
    CompiledPointwise,
    CompiledPooling,
    CompiledProducts,
    CompiledRecurrence,
    CompiledSampling,
    CompiledScans,
    CompiledLists,
    Lists,
    Softmax,
    Activation,
    Convolution,
    Padding,
    Pooling,
    Resampling,
    Normalization,
    Ordering,
    Gathering,
    Accumulation,
    LinearAlgebra,
):
    """A backend that computes with NumPy arrays on the CPU.

    Creating the first device sets glibc's malloc to keep freed memory (`burnpy_numpy.allocator`); ``BURNPY_MALLOPT=0``
    prevents it. Operations on large arrays use as many threads as OpenBLAS would (`burnpy_numpy.threads`); with
    ``BURNPY_NUM_THREADS=1`` they run in the calling thread alone.
    """

    xp = np

    def __init__(self) -> None:
        super().__init__()
        keep_freed_memory()

    locals().update(fast_methods())

    def _call(self, f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        try:
            return run(f, *args, **keywords)
        except RuntimeError:
            return quietly(f, *args, **keywords)

    def _share(self, work: Callable[[int, int], None], size: int, each: int = 1, *, products: bool = False) -> None:
        shared(work, size, each, products=products)

    def _number(self, y: Scalar, dtype: DType) -> Any:
        return constant(y, dtype)

    def memory(self) -> DeviceMemory:
        from burnpy_numpy.memory import measured

        try:
            return measured()
        except OSError:
            return super().memory()

    def reset_peak_memory(self) -> None:
        from burnpy_numpy.memory import reset_peak

        try:
            reset_peak()
        except OSError:
            super().reset_peak_memory()

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        return canonical(array, True, "C")

    def adopt_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        return canonical(array, None, "K")

    def to_numpy(self, x: Any) -> np.ndarray[Any, Any]:
        return np.asarray(x)

    def reshape(self, x: Any, shape: Shape) -> Any:
        return x.reshape(shape)

    def random_mask(self, generator: np.random.Generator, shape: Shape, p: float) -> Any:
        if p >= 1.0:
            return np.ones(shape, np.bool_)
        drawn = generator.integers(0, 1 << 32, shape, np.uint32)  # takes half the time of drawing floats
        return np.asarray(drawn < np.uint32(p * (1 << 32)))

    def expand(self, x: Any, shape: Shape) -> Any:
        if math.prod(shape) > 4096:
            return np.broadcast_to(x, shape)
        out = np.empty(shape, x.dtype)  # for few elements a copy takes a tenth of the time of a view
        out[...] = x
        return out

    def matmul(self, x: Any, y: Any) -> Any:
        dtype = x.dtype
        if (dtype is float32 or dtype is float64) and y.ndim == 2:  # whatever y's dtype, NumPy promotes as we do
            if x.ndim == 2:
                try:
                    return run(_dot if x.size < 1024 > y.size else product, x, y)  # a third of ``@``'s time when small
                except RuntimeError:
                    return quietly(product, x, y)
            if x.size and x.ndim > 2 and x.flags.c_contiguous:  # one large product instead of many small ones
                return self.matmul(x.reshape((-1, x.shape[-1])), y).reshape((*x.shape[:-1], y.shape[-1]))
        return super().matmul(x, y)

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        dtype, columns = x.dtype, weight.shape[1]
        if (
            (dtype is float32 or dtype is float64)
            and weight.dtype is dtype is bias.dtype
            and x.size * columns >= MIN_BIAS_FIRST_COMPILED * x.shape[-1] > 0
            and x.flags.c_contiguous
        ):
            out = self._call(affine, x.reshape((-1, x.shape[-1])), weight, bias)
            if out is not None:
                return out.reshape((*x.shape[:-1], columns))
        return super().linear(x, weight, bias)

    def matmul_nt(self, x: Any, y: Any) -> Any:
        return self.matmul(x, y.T) if y.ndim == 2 else super().matmul_nt(x, y)

    def matmul_tn(self, x: Any, y: Any) -> Any:
        return self.matmul(x.T, y) if x.ndim == 2 else super().matmul_tn(x, y)

    def full(self, shape: Shape, value: Scalar, dtype: DType) -> Any:
        if dtype is float32 or dtype is float64:
            try:
                return run(_filled, shape, value, dtype)
            except RuntimeError:
                return quietly(_filled, shape, value, dtype)
        return super().full(shape, value, dtype)

    def sum(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        dtype = x.dtype
        if (dtype is float32 or dtype is float64) and x.size < 512:
            try:
                return run(few, x, dims, keepdim)
            except RuntimeError:
                return quietly(few, x, dims, keepdim)
        return super().sum(x, dims, keepdim)

    def tril(self, x: Any, diagonal: int) -> Any:
        return self.where(_triangle(x.shape[-2:], diagonal), x, 0.0) if _wide(x) else super().tril(x, diagonal)

    def triu(self, x: Any, diagonal: int) -> Any:
        if not _wide(x):
            return super().triu(x, diagonal)
        return self.where(np.logical_not(_triangle(x.shape[-2:], diagonal - 1)), x, 0.0)

    def sum_to(self, x: Any, shape: Shape) -> Any:
        if len(shape) == 1 and x.ndim == 2 and shape[0] == x.shape[1] != 1:  # the gradient of a bias
            return self.sum(x, (0,), False)
        return super().sum_to(x, shape)

    def mean(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        if x.size and (x.dtype is float32 or x.dtype is float64):
            out = self.sum(x, dims, keepdim)
            return self.div(out, x.size / out.size)
        return super().mean(x, dims, keepdim)

    def _total(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return total(x, dims, keepdim)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if condition.size >= BLENDED and blendable(x):
            if type(y) in NUMBERS and y == 0 and math.copysign(1.0, y) > 0:
                return kept(condition, x)
            if (
                type(y) is np.ndarray
                and y.shape == x.shape == condition.shape
                and y.dtype is x.dtype
                and y.flags.c_contiguous
            ):
                return blended(condition, x, y)
        if type(y) is np.ndarray:
            try:
                return run(_where, condition, x, y)
            except RuntimeError:
                return quietly(_where, condition, x, y)
        return super().where(condition, x, y)

    def cat(self, xs: Sequence[Any], dim: int) -> Any:
        try:
            return run(_concatenate, xs, dim)
        except RuntimeError:
            return quietly(_concatenate, xs, dim)

    def bitwise_left_shift(self, x: Any, y: Any) -> Any:  # NumPy defines shifts by any number of places, CUDA does not
        return self._binary(np.left_shift, x, y)

    def bitwise_right_shift(self, x: Any, y: Any) -> Any:
        return self._binary(np.right_shift, x, y)

    def _erf(self, x: Any) -> Any:
        return erf(x)

    def _check_exponent(self, x: Any, y: Any) -> None:
        if kind_of(x.dtype) == "int" and (y < 0).any():
            raise negative_power(x)

    def _check_divisor(self, x: Any, y: Any, operation: str) -> None:
        if type(y) in NUMBERS:
            super()._check_divisor(x, y, operation)
        elif kind_of(x.dtype) == "int" and not y.all():
            raise division_by_zero(operation, x)


def _wide(x: Any) -> bool:
    """Return whether x is of float32 or float64, and large enough that `_triangle` takes less time than its mask."""
    return bool(
        x.size >= _MIN_MASKED and x.shape[-2] * x.shape[-1] <= _MAX_MASK and (x.dtype is float32 or x.dtype is float64)
    )


_MIN_MASKED, _MAX_MASK = 1 << 13, 1 << 20
"""The sizes from which triangles are selected by a mask, and up to which masks are kept."""


@lru_cache(8)
def _triangle(shape: Shape, diagonal: int) -> Any:
    """Return a mask of the elements up to a diagonal, which is kept."""
    rows, columns = shape
    mask = np.tri(rows, columns, diagonal, np.bool_)
    mask.flags.writeable = False
    return mask


def _filled(shape: Shape, value: Scalar, dtype: DType) -> Any:
    """A version of ``numpy.full`` that takes half its time."""
    if not shape:
        return dtype.type(value)
    out = np.empty(shape, dtype)
    out.fill(value)
    return out
