"""`RunningNorm`: what normalizations with running statistics have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.nn.module import Module
from burnpy.nn.sizes import positive
from burnpy.nn.variable import Buffer, IntBuffer, Param
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.nn.buffer_updates import BufferUpdate
    from burnpy.tensor.tensor_base import TensorBase


class RunningNorm(Module[B]):
    """The base class of `BatchNorm` and `InstanceNorm`: weight, bias, and running statistics, all of them optional."""

    def __init__(
        self,
        channels: int,
        *,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: B | type[B],
    ) -> None:
        layer = type(self).__name__
        positive(layer, channels=channels)
        argument: Any = momentum
        if argument is not None and not (isinstance(argument, (int, float)) and 0.0 <= argument <= 1.0):
            raise ArgumentError(f"{layer}() got momentum={momentum!r:.80}; expected a number from 0 to 1, or None")
        shape = (channels,)
        self.channels = channels
        self.eps = eps
        self.momentum = momentum
        self.weight = Param(Tensor.ones(shape, device=device)) if affine else None
        self.bias = Param(Tensor.zeros(shape, device=device)) if affine else None
        self.running_mean = Buffer(Tensor.zeros(shape, device=device)) if track_running_stats else None
        self.running_var = Buffer(Tensor.ones(shape, device=device)) if track_running_stats else None
        self.num_batches_tracked = IntBuffer(IntTensor.zeros((), device=device)) if track_running_stats else None

    def updated(self, updates: Mapping[str, BufferUpdate[B]]) -> Mapping[str, TensorBase[B]]:
        """Compute the new running statistics from the updates of training passes."""
        count = self.num_batches_tracked
        first_update = next(iter(updates.values()))
        new: dict[str, TensorBase[B]] = {}
        if count is not None and not count.frozen:
            old_count, total = count.value, first_update.total
            counted = total._backend.count_update(old_count._primitive, total._primitive)
            new["num_batches_tracked"] = old_count._like(counted)
        for name, update in updates.items():
            old: Tensor[B] = getattr(self, name).value
            if self.momentum is not None:
                given = [old._primitive], [update.total._primitive]
                new[name] = old._like(old._backend.average_update(*given, self.momentum)[0])
            elif count is not None:
                share = update.weight / (count.value.float(old.dtype) + update.weight)
                new[name] = old + (update.mean - old) * share
        return new

    @property
    def affine(self) -> bool:
        """True if the layer has a weight and a bias."""
        return self.weight is not None or self.bias is not None

    @property
    def track_running_stats(self) -> bool:
        """True if the layer has running statistics."""
        return self.running_mean is not None
