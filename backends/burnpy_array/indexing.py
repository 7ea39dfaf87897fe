"""Selecting and writing elements by index, and accumulating into arrays in place."""

from __future__ import annotations

import operator
from typing import Any

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.primitives import Key
from burnpy_array.array_base import ArrayBase, is_half


class ArrayIndexing(ArrayBase):
    """Operations by index; indices are int64, in range and not negative."""

    def index_select(self, x: Any, dim: int, index: Any) -> Any:
        return self._call(x.take, index, dim)

    def index_put(self, x: Any, dim: int, index: Any, src: Any) -> Any:
        out = self._call(self.xp.array, x, order="C")
        src = self._last_writer(src, dim, index, x.shape[dim])
        self._call(operator.setitem, out, (*(slice(None),) * dim, index), src)
        return out

    def _last_writer(self, src: Any, dim: int, index: Any, size: int) -> Any:
        """Return src changed so that, where an index repeats, writing in any order leaves its last slice there."""
        return src

    def index_add(self, x: Any, dim: int, index: Any, src: Any) -> Any:
        out = self._call(self.xp.array, x, order="C")
        self._add_at(out, dim, index, src)
        return out

    def _add_at(self, out: Any, dim: int, index: Any, src: Any) -> None:
        raise NotImplementedError

    def index_reduce(self, x: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
        if reduce == "prod" and is_half(x.dtype):
            wide = self.index_reduce(self.cast(x, float32), dim, index, self.cast(src, float32), reduce)
            return self.cast(wide, x.dtype)
        out = self._call(self.xp.array, x, order="C")
        self._reduce_at(out, dim, index, src, reduce)
        return out

    def _reduce_at(self, out: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
        """Reduce the slices of src into those of ``out`` at ``index``, in place, by "prod", "amin" or "amax"."""
        raise NotImplementedError

    def nonzero(self, x: Any) -> Any:
        return self._call(_nonzero, self.xp, x)

    def gather(self, x: Any, dim: int, index: Any) -> Any:
        return self._call(_gather, self.xp, x, dim, index)

    def accumulate(self, total: Any, grad: Any) -> Any:
        if writable(total, grad.shape):
            return self._call(self.xp.add, total, grad, total)
        return self.add(total, grad)

    def accumulate_slice(self, total: Any, key: Key, grad: Any) -> Any:
        if not writable(total, total.shape):
            return super().accumulate_slice(total, key, grad)
        self._call(operator.setitem, total, key, self.add(total[key], grad))
        return total

    def accumulate_index(self, total: Any, dim: int, index: Any, grad: Any) -> Any:
        if not writable(total, total.shape):
            return self.index_add(total, dim, index, grad)
        self._add_at(total, dim, index, grad)
        return total


def writable(total: Any, shape: Any) -> bool:
    """Return whether a result of ``shape`` can be written to ``total``: not to a NumPy scalar or a view by `expand`."""
    if total.shape != shape or shape == ():
        return False
    writeable = getattr(total.flags, "writeable", None)
    if writeable is None:  # CuPy has no such flag; an expanded view has strides of 0
        return not any(stride == 0 and size > 1 for stride, size in zip(total.strides, shape, strict=True))
    return bool(writeable)


def _nonzero(xp: Any, x: Any) -> Any:
    if x.shape == ():
        return xp.zeros((int(x), 0), int64)
    return xp.stack(x.nonzero(), 1)


def _gather(xp: Any, x: Any, dim: int, index: Any) -> Any:
    return x[grid(xp, dim, index)]


def grid(xp: Any, dim: int, index: Any) -> tuple[Any, ...]:
    """Return the key that selects the elements at ``index`` along ``dim``."""
    key: list[Any] = []
    for other, size in enumerate(index.shape):
        if other == dim:
            key.append(index)
        else:
            key.append(xp.arange(size).reshape((size, *(1,) * (len(index.shape) - other - 1))))
    return tuple(key)
