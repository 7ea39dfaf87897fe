"""`NumPy`: the backend for the CPU, and its methods that are one NumPy function each.

`burnpy_array` calls ``self._call(self.xp.add, x, y)``: three attribute lookups and a frame, together half of NumPy's
own time for a small array. Here the functions themselves are globals of the method.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.errors import raised_by_other_code
from burnpy.backend.primitives import DType, Scalar
from burnpy_array.array_base import NUMBERS, is_half
from burnpy_array.pointwise import BINARY, UNARY, method_from_template
from burnpy_array.shape import canonical
from burnpy_numpy.activation import NumPyActivation, NumPySoftmax
from burnpy_numpy.allocator import keep_freed_memory
from burnpy_numpy.attention import NumPyAttention
from burnpy_numpy.convolution import NumPyConvolution, NumPyVolumes
from burnpy_numpy.cpu_threads import shared
from burnpy_numpy.distances import NumPyDistances
from burnpy_numpy.fourier import NumPyFourier
from burnpy_numpy.indexing import NumPyEmbedding, NumPyIndexing
from burnpy_numpy.kernels.kernel import MANY, elementwise_kernel, kernel_of_numbers
from burnpy_numpy.linalg import NumPyLinalg
from burnpy_numpy.losses import NumPyLosses
from burnpy_numpy.matmul import NumPyMatmul, NumPyQuantization
from burnpy_numpy.normalization import NumPyNormalization
from burnpy_numpy.numpy_calls import constant, known, quietly, run
from burnpy_numpy.ordering import NumPyOrdering, NumPyScans
from burnpy_numpy.pointwise import LARGE, OPERATIONS, OUTER, NumPyPointwise, broadcast
from burnpy_numpy.pooling import NumPyPooling
from burnpy_numpy.programs import NumPyForeach, NumPyPrograms
from burnpy_numpy.recurrence import NumPyRecurrence
from burnpy_numpy.reduction import NumPyReduction, extreme_of_rows
from burnpy_numpy.resampling import NumPyResampling
from burnpy_numpy.shape import NumPyPadding, NumPyShape
from burnpy_numpy.special import NumPyRandom, NumPySpecial

if TYPE_CHECKING:
    from burnpy.backend.device_memory import DeviceMemory


FUNCTION: Any = None
FUNCTION_of_scalars: Any = None
OPERATION: Any = None
"""Placeholders in the templates for the NumPy function, for a faster one for two NumPy scalars, and for the name of the
operation; `method_from_template` replaces them in each method."""

OPERATORS: dict[str, Any] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
"""Operators by NumPy's function names: on NumPy scalars they take an eighth of the time of NumPy's functions."""

COMPILED = frozenset(
    (
        *("expm1", "log1p", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "sign", "exp"),
        *("atan2", "hypot", "logaddexp", "logaddexp2"),
    )
)
"""Functions that run as kernels on large arrays, where NumPy takes 1.5 to twenty times as long. Of 16-bit floats, which
NumPy converts one by one, all do."""

EXTREMES = {"amax": "maximum", "amin": "minimum"}
"""Reductions that run as kernels over the last dimensions of large arrays, where NumPy takes twice as long."""
REDUCTION = {"any": "logical_or", "all": "logical_and"}
"""Reductions that are the ``reduce`` method of one NumPy function for all dtypes: burnpy's name to NumPy's."""


def _unary(self: Any, x: Any) -> Any:
    if x.itemsize == 2 and x.size >= MANY:
        kernel = elementwise_kernel(OPERATION, (), x)
        if kernel is not None:
            return kernel.alike((x,))
    try:
        return run(FUNCTION, x)
    except RuntimeError:
        return quietly(FUNCTION, x)


def _compiled(self: Any, x: Any) -> Any:
    if x.size >= MANY:
        kernel = elementwise_kernel(OPERATION, (), x)
        if kernel is not None:
            return kernel.alike((x,))
    try:
        return run(FUNCTION, x)
    except RuntimeError:
        return quietly(FUNCTION, x)


def _binary(self: Any, x: Any, y: Any) -> Any:
    kind = type(y)
    try:
        if kind is ndarray:
            if x.dtype is y.dtype:
                size = x.size
                if (
                    size * y.size >= LARGE
                    if size != y.size
                    else size >= OUTER and (x.itemsize == 2 or x.shape != y.shape)
                ):
                    out = run(broadcast, OPERATION, x, y)
                    if out is not None:
                        return out
                return run(FUNCTION, x, y)
        elif kind is float or kind is int:
            return run(FUNCTION, x, known[x.dtype][y or str(y)])
        elif kind is type(x):
            return run(FUNCTION_of_scalars, x, y)
    except (RuntimeError, KeyError) as error:  # the context of `run` is in use; the number is not cached yet
        if raised_by_other_code(error, ()):
            raise
    out = _half_with_number(OPERATION, x, y) if x.itemsize == 2 else None
    return self._binary(FUNCTION, x, y) if out is None else out


def _half_with_number(name: str, x: Any, y: Any) -> Any:
    """Return an operation of an array of 16 bits and a number, which is rounded to its dtype first; None without a
    kernel for it.
    """
    if x.size < MANY or type(y) not in NUMBERS or name not in OPERATIONS or not is_half(x.dtype):
        return None
    kernel = kernel_of_numbers(name, x, 1)
    return None if kernel is None else kernel.alike((x,), (float(constant(y, x.dtype)),))


def _compiled_binary(self: Any, x: Any, y: Any) -> Any:
    if x.size >= MANY and type(y) is ndarray:
        kernel = elementwise_kernel(OPERATION, (), x, y)
        if kernel is not None:
            return kernel.alike((x, y))
    return self._binary(FUNCTION, x, y)


def _reduction(self: Any, x: Any, dims: Any, keepdim: bool) -> Any:
    try:
        return run(FUNCTION, x, dims, None, None, keepdim)
    except RuntimeError:
        return quietly(FUNCTION, x, dims, None, None, keepdim)


def _extreme(self: Any, x: Any, dims: Any, keepdim: bool) -> Any:
    if x.size >= MANY:
        out = self._call(extreme_of_rows, OPERATION, x, dims, keepdim)
        if out is not None:
            return out
    elif len(dims) == x.ndim and not keepdim and (x.dtype is float32 or x.dtype is float64) and dims:
        flat = x if x.ndim == 1 else x.reshape(-1)  # the position takes a third of the time of the extreme
        return flat[flat.argmax() if OPERATION == "amax" else flat.argmin()]
    try:
        return run(FUNCTION, x, dims, None, None, keepdim)
    except RuntimeError:
        return quietly(FUNCTION, x, dims, None, None, keepdim)


def fast_methods() -> dict[str, Callable[..., Any]]:
    """Return the methods by name."""
    own = vars(NumPyPointwise)
    unary = {ours: _compiled if ours in COMPILED else _unary for ours in UNARY if ours not in own}
    binary = {ours: _compiled_binary if ours in COMPILED else _binary for ours in BINARY if ours not in own}
    methods = {ours: _method(template, ours, {**UNARY, **BINARY}[ours]) for ours, template in (unary | binary).items()}
    methods |= {ours: _method(_extreme, ours, f"{theirs}_reduce") for ours, theirs in EXTREMES.items()}
    return methods | {ours: _method(_reduction, ours, f"{theirs}_reduce") for ours, theirs in REDUCTION.items()}


def _method(template: Callable[..., Any], name: str, function: str) -> Callable[..., Any]:
    words = {"FUNCTION": function, "FUNCTION_of_scalars": f"{function}_of_scalars", "OPERATION": f"name_of_{name}"}
    return method_from_template(template, name, words, _NAMES)


_NAMES = {
    **{name: getattr(np, name) for name in (*UNARY.values(), *BINARY.values())},
    **{f"{name}_of_scalars": OPERATORS.get(name, getattr(np, name)) for name in BINARY.values()},
    **{f"{name}_reduce": getattr(np, name).reduce for name in (*EXTREMES.values(), *REDUCTION.values())},
    **{f"name_of_{name}": name for name in (*UNARY, *BINARY, *EXTREMES)},
    **globals(),
}


class NumPy(
    NumPyActivation,
    NumPyLosses,
    NumPyAttention,
    NumPyEmbedding,
    NumPyConvolution,
    NumPyMatmul,
    NumPyDistances,
    NumPyFourier,
    NumPyIndexing,
    NumPyLinalg,
    NumPyNormalization,
    NumPyOrdering,
    NumPyPadding,
    NumPyPointwise,
    NumPyPooling,
    NumPyPrograms,
    NumPyQuantization,
    NumPyRandom,
    NumPyRecurrence,
    NumPyReduction,
    NumPyResampling,
    NumPyScans,
    NumPyShape,
    NumPySoftmax,
    NumPySpecial,
    NumPyForeach,
    NumPyVolumes,
):
    """A backend that computes with NumPy arrays on the CPU.

    Creating the first device sets glibc's malloc to keep freed memory, and the first kernel has arrays start at cache
    lines (`burnpy_numpy.allocator`); ``BURNPY_MALLOPT=0`` prevents both.
    Operations on large arrays use as many threads as OpenBLAS would (`burnpy_numpy.cpu_threads`); with
    ``BURNPY_NUM_THREADS=1`` they run in the calling thread alone. Each family of operations has a file of its own, and
    kernels of the same name in `burnpy_numpy.kernels`.
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
        from burnpy_numpy.allocator import measured

        try:
            return measured()
        except OSError:
            return super().memory()

    def reset_peak_memory(self) -> None:
        from burnpy_numpy.allocator import reset_peak

        try:
            reset_peak()
        except OSError:
            super().reset_peak_memory()

    host_number: Any = staticmethod(np.asarray)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        return canonical(array, True, "C")

    def adopt_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        return canonical(array, None, "K")

    def to_numpy(self, x: Any) -> np.ndarray[Any, Any]:
        return np.asarray(x)
