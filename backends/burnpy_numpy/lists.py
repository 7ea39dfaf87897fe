"""Adam without compiled kernels, in blocks that stay in the cache. Other formulas run operation by operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import add, divide, multiply, negative, sqrt, subtract

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.lists import Formula, no_results, one_position
from burnpy.backend.operations.optimizer import adam_step
from burnpy_array import ArrayBackend
from burnpy_array.array_base import NUMBERS
from burnpy_numpy.cpu_threads import shared
from burnpy_numpy.numpy_calls import constant

_BLOCK = 1 << 15
"""The number of elements of a block: its seven arrays of float32 take 0.9 MB of the cache."""


class Lists(ArrayBackend):
    """Formulas of lists. Blocks give the bits of whole arrays."""

    def foreach(
        self,
        formula: Formula,
        lists: Sequence[Sequence[Any]],
        numbers: tuple[Any, ...] = (),
        flags: tuple[bool, ...] = (),
        owned: bool = False,
        skipped: Any = None,
    ) -> tuple[list[Any], ...]:
        if formula is not adam_step or skipped is not None or not NUMBERS.issuperset(map(type, numbers)):
            return super().foreach(formula, lists, numbers, flags, owned, skipped)
        constants = {dtype: [constant(x, dtype) for x in numbers] for dtype in (float32, float64)}
        rows = [
            self._call(_adam, row, constants[row[0].dtype], flags, owned)
            if row[0].dtype in constants and all(x.dtype is row[0].dtype and x.flags.c_contiguous for x in row)
            else one_position(self, formula, position, row, numbers, flags)
            for position, row in enumerate(zip(*lists, strict=True))
        ]
        return tuple(map(list, zip(*rows, strict=True))) if rows else no_results(lists)


def _adam(row: Sequence[Any], numbers: Sequence[Any], flags: tuple[bool, ...], owned: bool) -> Sequence[Any]:
    """Update one parameter as `adam_step` does; return the new parameter and the moments, in their memory if owned."""
    new = np.empty(row[0].shape, row[0].dtype)
    rate, root, share1, beta2, share2, eps, decay = numbers
    decays, maximize, decoupled = flags
    moments = [x if owned and type(x) is np.ndarray and x.flags.writeable else np.array(x) for x in row[2:]]
    flat = [x.reshape(-1) for x in (*row[:2], *moments, new)]

    def work(begin: int, end: int) -> None:
        memory = np.empty((2, min(new.size, _BLOCK)), new.dtype)
        for k in range(begin, end):
            param, grad, mean, square, out = [x[k * _BLOCK : (k + 1) * _BLOCK] for x in flat]
            part, other = memory[:, : out.size]
            if maximize:
                grad = negative(grad, other)
            if decays and decoupled:
                param = multiply(param, decay, out)
            elif decays:
                grad = add(grad, multiply(param, decay, part), other)
            multiply(square, beta2, square)
            add(square, multiply(multiply(grad, grad, part), share2, part), square)
            add(mean, multiply(subtract(grad, mean, part), share1, part), mean)
            add(divide(sqrt(square, part), root, part), eps, part)
            subtract(param, divide(multiply(mean, rate, other), part, part), out)

    blocks = -(-new.size // _BLOCK)
    if blocks > 1:
        shared(work, blocks, _BLOCK)
    else:
        work(0, blocks)
    return new, *moments
