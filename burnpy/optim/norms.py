"""The global norm of several tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from burnpy.backend.errors import ArgumentError
from burnpy.optim.checks import number
from burnpy.tensor.base import new_tensor
from burnpy.tensor.norms import norm
from burnpy.tensor.tensor import Tensor


def norm_of(tensors: Iterable[Tensor[Any]], device: Any, p: float = 2.0) -> Tensor[Any]:
    """Return (Σ |x|ᵖ)^(1/p) over all elements of all tensors, 0-d; for ``p = inf`` the largest magnitude.

    It is 0 without tensors. The dtype is at least float32, so that squares of float16 do not overflow; see
    `burnpy.tensor.norms` for larger numbers.

    Raises:
        ArgumentError: ``p`` is not positive.
    """
    if number(p, "the p of a norm") <= 0:
        raise ArgumentError(f"norm() was asked for p = {p!r}; p is positive: 2, 1 or math.inf, for example")
    return new_tensor(Tensor, device, norm(device, [x._primitive for x in tensors], p))  # type: ignore[no-any-return]  # of that class
