"""`CuPy`: the GPU."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import float16, float32, int8, int16, int32, int64, kind_of, uint8, uint16, uint32, uint64
from burnpy.backend.errors import BackendUnavailableError
from burnpy_array.base import NUMBERS
from burnpy_array.creation import canonical
from burnpy_array.pointwise import division_by_zero, negative_power
from burnpy_cupy import library
from burnpy_cupy.late import LateErrors
from burnpy_cupy.random import Random
from burnpy_cupy.reduce_at import reduce_at

_ADDABLE = {int64: uint64, int8: int32, int16: int32, uint8: uint32, uint16: uint32}
"""For dtypes that CuPy's scatter_add does not take: one that it takes, and in which sums wrap around alike."""


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
        self._extra = import_module("cupyx")
        self._current = self.xp.cuda.runtime.getDevice
        self._late = LateErrors(self.name)

    @classmethod
    def is_available(cls) -> bool:
        """Whether CuPy is installed and finds a GPU."""
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
            self._late.answer(self._read)

    def later(self, values: tuple[Any, ...], error: Callable[..., Exception | None]) -> None:
        if self._late.add(values, error):
            self._late.answer(self._read)

    def _read(self, values: list[Any]) -> list[int]:
        found: list[int] = self._call(_stacked, self.xp, values).tolist()
        return found

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
            self._late.answer(self._read)
        return copied

    def adopt(self, x: Any, source: Backend) -> Any:
        if source is not self and isinstance(source, CuPy):
            return self._call(self.xp.asarray, x)  # from GPU to GPU
        return super().adopt(x, source)

    def matmul(self, x: Any, y: Any) -> Any:
        if x.dtype is y.dtype is float16:  # cuBLAS accumulates it in float32 by itself
            return self._call(self.xp.matmul, x, y)
        return super().matmul(x, y)

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
        return self._call(_last_slices, self.xp, self._extra, src, dim, index, size)

    def _add_at(self, out: Any, dim: int, index: Any, src: Any) -> None:
        self._call(_add_at, self._extra, out, (*(slice(None),) * dim, index), src)

    def _reduce_at(self, out: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
        self._call(reduce_at, self.xp, out, dim, index, src, reduce)


def _stacked(xp: Any, values: list[Any]) -> Any:
    return xp.stack([value.astype(int64) for value in values]).get()


def _event(xp: Any) -> Any:
    """An event, which the GPU notes when it comes to it."""
    event = xp.cuda.Event()
    event.record()
    return event


def _last_slices(xp: Any, extra: Any, src: Any, dim: int, index: Any, size: int) -> Any:
    last = xp.zeros((size,), uint64)
    extra.scatter_max(last, index, xp.arange(0, index.shape[0], 1, uint64))
    return src.take(last.take(index, 0).astype(int64), dim)


def _add_at(extra: Any, out: Any, key: tuple[Any, ...], src: Any) -> None:
    if out.dtype is int64:
        extra.scatter_add(out.view(uint64), key, src.view(uint64))
    elif out.dtype in _ADDABLE or out.dtype.kind == "V":  # narrow ints and bfloat16
        wide = out.astype(_ADDABLE.get(out.dtype, float32))
        extra.scatter_add(wide, key, src.astype(wide.dtype))
        out[...] = wide
    else:
        extra.scatter_add(out, key, src)
