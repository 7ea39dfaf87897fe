"""The norm of many tensors together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from burnpy.backend.dtypes import float32, promote_types
from burnpy.backend.errors import ArgumentError
from burnpy.optim.checks import number
from burnpy.tensor.base import made
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float


def norm_of(tensors: Iterable[Tensor[Any]], device: Any, p: float = 2.0) -> Tensor[Any]:
    """(Σ |x|ᵖ)^(1/p) over all elements of all tensors, 0-d; for ``p = inf`` the largest magnitude. 0 of nothing.

    At least float32, so that squares of float16 fit.

    Raises:
        ArgumentError: ``p`` is not positive.
    """
    if number(p, "the p of a norm") <= 0:
        raise ArgumentError(f"norm() was asked for p = {p!r}; p is positive: 2, 1 or math.inf, for example")
    values = [x._primitive for x in tensors]
    dtype = float32
    for value in values:
        dtype = promote_types(dtype, value.dtype)
    total = device.full((), 0.0, dtype)
    for value in values:
        if 0 not in value.shape:
            wide = value if value.dtype == dtype else device.cast(value, dtype)
            part = _part(device, wide, tuple(range(len(value.shape))), p)
            total = device.maximum(total, part) if p == math.inf else device.add(total, part)
    if p == 2:
        total = device.sqrt(total)
    elif p not in (1, math.inf):
        total = device.pow(total, 1 / p)
    return made(Tensor, device, total)  # type: ignore[no-any-return]  # of that class


def _part(device: Any, x: Float, dims: tuple[int, ...], p: float) -> Float:
    if p == 2:
        return device.sum(device.square(x), dims, False)
    size = device.abs(x)
    if p == math.inf:
        return device.amax(size, dims, False)
    return device.sum(size if p == 1 else device.pow(size, float(p)), dims, False)
