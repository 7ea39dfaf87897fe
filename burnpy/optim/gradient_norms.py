"""Norms of several tensors."""

from __future__ import annotations

from typing import Any

from burnpy.backend.errors import ArgumentError
from burnpy.optim.matching import number
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor


def norm_of(grads: Any, p: float = 2.0) -> Tensor[Any]:
    """Return (Σ |x|ᵖ)^(1/p) over all elements of all gradients, 0-d; for ``p = inf`` the largest magnitude.

    It is 0 without gradients. The dtype is at least float32; powers neither overflow nor underflow.

    Raises:
        ArgumentError: ``p`` is not positive.
    """
    device = grads.device
    return new_tensor(Tensor, device, device.total_norm(grads.primitives(), _order(p)))  # type: ignore[no-any-return]  # of that class


def norms_of(grads: Any, p: float = 2.0) -> Tensor[Any]:
    """Return the norm of each gradient, as a vector; see `norm_of`."""
    device = grads.device
    return new_tensor(Tensor, device, device.foreach_norm(grads.primitives(), _order(p)))  # type: ignore[no-any-return]  # of that class


def _order(p: float) -> float:
    """Return the p of a norm, checked.

    Raises:
        ArgumentError: ``p`` is not positive.
    """
    if number(p, "the p of a norm") <= 0:
        raise ArgumentError(f"norm() got p = {p!r}; p is positive: 2, 1 or math.inf, for example")
    return float(p)
