"""Padding by a kernel, or in one array, whose ends are filled with its own elements, one slice after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from burnpy.backend.operations.padding import Pairs
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.kernel import MANY, family_kernels

Slices = Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]


class NumPyPadding(ArrayBackend):
    """Padding without intermediate arrays; what is cut off is left to the default."""

    def pad_ends(self, x: Any, pairs: Pairs, how: str) -> Any:
        if not x.size or min(map(min, pairs)) < 0:
            return super().pad_ends(x, pairs, how)
        if x.size >= MANY and (kernels := family_kernels("padding")):
            out = kernels.run_padded(x, pairs, how)
            if out is not None:
                return out
        out = np.empty([low + size + high for size, (low, high) in zip(x.shape, pairs, strict=True)], x.dtype)
        out[_inside(x.shape, pairs)] = x
        for dim in reversed(range(len(pairs))):
            for target, source in _ends(x.shape, pairs, how, dim):
                out[target] = out[source]
        return out

    def pad_ends_backward(self, grad: Any, shape: Shape, pairs: Pairs, how: str) -> Any:
        if not grad.size or min(map(min, pairs)) < 0:
            return super().pad_ends_backward(grad, shape, pairs, how)
        return self._call(_folded, grad, shape, pairs, how)


def _folded(grad: Any, shape: Shape, pairs: Pairs, how: str) -> Any:
    total = np.array(grad, order="C")
    for dim in range(len(pairs)):
        for target, source in _ends(shape, pairs, how, dim):
            total[source] += total[target]
    return np.ascontiguousarray(total[_inside(shape, pairs)])


def _inside(shape: Shape, pairs: Pairs) -> tuple[slice, ...]:
    return tuple([slice(low, low + size) for size, (low, _) in zip(shape, pairs, strict=True)])


def _ends(shape: Shape, pairs: Pairs, how: str, dim: int) -> Slices:
    """Yield the key of each slice that is added along a dimension, and the key of the slice that it equals.

    Slices include the padding of the dimensions after ``dim``, but not of those before it.
    """
    before, size, (low, high) = _inside(shape[:dim], pairs[:dim]), shape[dim], pairs[dim]
    last = low + size - 1
    for place in (*range(low), *range(last + 1, last + 1 + high)):
        front = place < low
        source = {
            "reflect": 2 * (low if front else last) - place,
            "replicate": low if front else last,
            "circular": place + (size if front else -size),
        }[how]
        yield (*before, place), (*before, source)
