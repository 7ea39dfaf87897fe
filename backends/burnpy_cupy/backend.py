"""`CuPy`: the GPU."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from burnpy.backend.backend import Backend, out_of_bounds
from burnpy.backend.dtypes import float16, float32, int8, int16, int32, int64, kind_of, uint8, uint16, uint32, uint64
from burnpy.backend.errors import BackendUnavailableError
from burnpy.backend.primitives import DType, Scalar
from burnpy_array.base import NUMBERS, is_half
from burnpy_array.creation import canonical
from burnpy_array.pointwise import division_by_zero, negative_power
from burnpy_cupy import library
from burnpy_cupy.kernels import Kernels
from burnpy_cupy.late import LateErrors
from burnpy_cupy.random import Random
from burnpy_cupy.reduce_at import reduce_at

_ADDABLE = {int8: int32, int16: int32, uint8: uint32, uint16: uint32, float16: float32}
"""For dtypes that CuPy's `add.at` does not take, or rounds at each addition: one in which it adds up."""
_BITS = {1: uint8, 2: uint16, 4: uint32, 8: uint64}
"""By size in bytes: the dtype of what is moved as it is, or counted with wrapping around."""


class CuPy(Random):
    """Tensors on one NVIDIA GPU, as CuPy arrays.

    What only values show, such as an index out of range, is told when the GPU is next waited for: by ``item()``,
    ``tolist()``, ``to_numpy()``, ``repr(x)`` or ``device.synchronize()``. On ``Checked[CuPy]`` every operation is.

    Args:
        index: which of the GPUs that CUDA shows, from 0.

    Raises:
        BackendUnavailableError: CuPy, the CUDA driver or the GPU is missing.
        ArgumentError: there are GPUs, but none of that index.
    """

    eager_checks = False

    _columns_bytes = 1 << 28  # a GPU is quickest with much at once
    _scores_bytes = 1 << 28
    _update_block = _update_spare = 1 << 62

    def __init__(self, index: int = 0) -> None:
        library.check_index(index)
        super().__init__()
        self.index = index
        self.xp = library.load()
        self._current = self.xp.cuda.runtime.getDevice
        self._kernels = Kernels(self.xp)
        self._late = LateErrors(self.name, self._call, self.xp)

    @classmethod
    def is_available(cls) -> bool:
        """Whether CuPy, CUDA's libraries and a GPU are there."""
        try:
            return library.count() > 0
        except BackendUnavailableError:
            return False

    @property
    def name(self) -> str:
        return f"CuPy({self.index})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.index,)

    def _call(self, f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        if self._current() == self.index:
            return f(*args, **keywords)
        with self.xp.cuda.Device(self.index):
            return f(*args, **keywords)

    def synchronize(self) -> None:
        self.xp.cuda.Device(self.index).synchronize()
        if self._late:
            self._late.answer()

    def later(self, values: tuple[Any, ...], error: Callable[..., Exception | None]) -> None:
        slots = [self._late.slot() for _ in values]
        for value, slot in zip(values, slots, strict=True):
            self._call(self._kernels["burnpy_note"], value, slot, self._late.memory)
        self._late.add(slots, lambda found: error(*[note for note, _, _ in found]))

    def bounded(self, index: Any, low: int, high: int, error: Callable[[int], Exception]) -> Any:
        slot, inside = self._late.slot(), self._call(self.xp.empty, index.shape, int64)
        self._call(self._kernels["burnpy_bounded"], index, low, high, slot, inside, self._late.memory)
        self._late.add([slot], lambda found: out_of_bounds(found[0][1], found[0][2], low, high, error))
        return inside

    def moment(self) -> Any:
        return self._call(_event, self.xp)

    def duration(self, start: Any, stop: Any) -> float:
        stop.synchronize()
        return float(self.xp.cuda.get_elapsed_time(start, stop)) * 1e6

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        return self._call(self.xp.array, canonical(array, None, "C"))

    def to_numpy(self, x: Any) -> np.ndarray[Any, Any]:
        copied: np.ndarray[Any, Any] = self._call(x.get)
        if self._late:
            self._late.answer()
        return copied

    def adopt(self, x: Any, source: Backend) -> Any:
        if source is not self and isinstance(source, CuPy):
            return self._call(self.xp.asarray, x)  # from GPU to GPU
        return super().adopt(x, source)

    def matmul(self, x: Any, y: Any) -> Any:
        if x.dtype is y.dtype is float16:  # cuBLAS accumulates it in float32 by itself
            return self._call(self.xp.matmul, x, y)
        return super().matmul(x, y)

    def arange(self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Any:
        if kind_of(dtype) != "int":
            return super().arange(start, stop, step, dtype)
        bits, count = _BITS[dtype.itemsize], len(range(int(start), int(stop), int(step)))
        first, by = (bits.type(int(n) % (1 << 8 * dtype.itemsize)) for n in (start, step))
        out = self._call(self.xp.empty, (count,), bits)
        return self._call(self._kernels["burnpy_arange"], first, by, out).view(dtype)

    def floor_divide(self, x: Any, y: Any) -> Any:
        return self._divided("floor_divide", x, y) if kind_of(x.dtype) == "float" else super().floor_divide(x, y)

    def remainder(self, x: Any, y: Any) -> Any:
        return self._divided("remainder", x, y) if kind_of(x.dtype) == "float" else super().remainder(x, y)

    def _divided(self, operation: str, x: Any, y: Any) -> Any:
        name = f"burnpy_{operation}"
        if type(y) in NUMBERS:
            name, y = f"{name}_by", float(x.dtype.type(y))
        elif x.dtype is not y.dtype:
            x, y = self.promote(x, y)
        return self._call(self._kernels[name], x, y)

    def argmax(self, x: Any, dim: int, keepdim: bool) -> Any:
        return self._position("argmax", x, dim, keepdim)

    def argmin(self, x: Any, dim: int, keepdim: bool) -> Any:
        return self._position("argmin", x, dim, keepdim)

    def _position(self, operation: str, x: Any, dim: int, keepdim: bool) -> Any:
        wide = self.cast(x, float32) if is_half(x.dtype) else x
        return self._call(self._kernels[f"burnpy_{operation}"], wide, axis=dim, keepdims=keepdim)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if x.dtype.kind != "V":
            return super().where(condition, x, y)
        y = self._number(y, x.dtype) if type(y) in NUMBERS else y
        return self._call(self.xp.where, condition, x.view(uint16), y.view(uint16)).view(x.dtype)

    def tril(self, x: Any, diagonal: int) -> Any:
        return (
            super().tril(x.view(uint16), diagonal).view(x.dtype) if x.dtype.kind == "V" else super().tril(x, diagonal)
        )

    def triu(self, x: Any, diagonal: int) -> Any:
        return (
            super().triu(x.view(uint16), diagonal).view(x.dtype) if x.dtype.kind == "V" else super().triu(x, diagonal)
        )

    def _check_exponent(self, x: Any, y: Any) -> None:
        if kind_of(x.dtype) == "int":
            error = negative_power(x)
            self.later((self.any(self.lt(y, 0), tuple(range(y.ndim)), False),), lambda wrong: error if wrong else None)

    def _check_divisor(self, x: Any, y: Any, operation: str) -> None:
        if type(y) in NUMBERS:
            super()._check_divisor(x, y, operation)
        elif kind_of(x.dtype) == "int":
            error = division_by_zero(operation, x)
            self.later((self.all(self.ne(y, 0), tuple(range(y.ndim)), False),), lambda fine: None if fine else error)

    def _erf(self, x: Any) -> Any:
        return import_module("cupyx.scipy.special").erf(x)

    def _last_writer(self, src: Any, dim: int, index: Any, size: int) -> Any:
        """As CuPy writes duplicates in no order, each of them is given the last one's slice."""
        return self._call(_last_slices, self.xp, src, dim, index, size)

    def _add_at(self, out: Any, dim: int, index: Any, src: Any) -> None:
        self._call(_add_at, self.xp, out, (*(slice(None),) * dim, index), src)

    def _reduce_at(self, out: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
        self._call(reduce_at, self.xp, out, dim, index, src, reduce)


def _event(xp: Any) -> Any:
    """An event, which the GPU notes when it comes to it."""
    event = xp.cuda.Event()
    event.record()
    return event


def _last_slices(xp: Any, src: Any, dim: int, index: Any, size: int) -> Any:
    last = xp.zeros((size,), uint64)
    xp.maximum.at(last, index, xp.arange(0, index.shape[0], 1, uint64))
    return src.take(last.take(index, 0).astype(int64), dim)


def _add_at(xp: Any, out: Any, key: tuple[Any, ...], src: Any) -> None:
    if out.dtype is int64:
        xp.add.at(out.view(uint64), key, src.view(uint64))
    elif out.dtype in _ADDABLE or out.dtype.kind == "V":  # narrow ints and 16-bit floats
        wide = out.astype(_ADDABLE.get(out.dtype, float32))
        xp.add.at(wide, key, src.astype(wide.dtype))
        out[...] = wide
    else:
        xp.add.at(out, key, src)
