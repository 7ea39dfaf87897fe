"""`fused`: several elementwise operations in one pass over the memory, as a program, where nothing is recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from burnpy.backend.dtypes import float32, float64

if TYPE_CHECKING:
    from burnpy.backend.program import Program

_LEAST = 2048
"""The number of elements from which one pass takes less time than several short ones."""


def fused(device: Any, f: Callable[..., Any], xs: Sequence[Any], *numbers: float) -> Any:
    """Return ``f(device, *xs, *numbers)`` for an elementwise function of float primitives.

    Where the device records the operations, where the primitives differ in shape or dtype, or have few elements, the
    function is called as it is; elsewhere its program runs, which a backend may compile (`burnpy.backend.program`).

    Args:
        device: the device of the primitives.
        f: a function of a backend, of primitives and of numbers, of which it makes nothing but operations.
        xs: the primitives.
        numbers: the numbers. The program is the same for all numbers.
    """
    x = xs[0]
    shape, dtype = x.shape, x.dtype
    if (
        device.discrete is not device
        or (dtype is not float32 and dtype is not float64)
        or math.prod(shape) < _LEAST
        or any(y.shape != shape or y.dtype is not dtype for y in xs[1:])
    ):
        return f(device, *xs, *numbers)
    row = (1, math.prod(shape))
    program = _program(f, dtype is float32, len(xs), len(numbers))
    (out,) = device.run(program, [device.reshape(y, row) for y in xs], tuple([float(number) for number in numbers]))
    return device.reshape(out, shape)


@lru_cache(256)
def _program(f: Callable[..., Any], single: bool, arrays: int, numbers: int) -> Program:
    from burnpy.backend.program import Extent, Input, trace  # not imported before the first large array

    dtype = "float32" if single else "float64"
    return trace(f, (Input(Extent.FULL, dtype),) * arrays + (Input(Extent.SCALAR, dtype),) * numbers)
