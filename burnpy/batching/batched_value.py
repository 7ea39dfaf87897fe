"""`BatchedValue`: the primitive of `Batched`, which shows the shape of one example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.autodiff.graph import mapped
from burnpy.backend.primitives import DType, Shape, Value


class BatchedValue:
    """An inner primitive and whether its first dimension is the batch; if not, all examples share it."""

    __slots__ = ("batched", "device", "dtype", "shape", "value")

    value: Value
    batched: bool
    device: Any  #: the `Batched` device that it belongs to
    shape: Shape  #: the shape for one example
    dtype: DType

    def __init__(self, device: Any, value: Value, batched: bool) -> None:
        self.device = device
        self.value = value
        self.batched = batched
        self.shape = value.shape[1:] if batched else value.shape
        self.dtype = value.dtype

    def mapped(self, f: Callable[[Any], Any]) -> BatchedValue:
        """Apply ``f`` to each innermost array of the value; shape and dtype stay, even if ``f`` returns no array."""
        out: BatchedValue = object.__new__(BatchedValue)
        out.device, out.batched, out.shape, out.dtype = self.device, self.batched, self.shape, self.dtype
        out.value = mapped(f, self.value)
        return out
