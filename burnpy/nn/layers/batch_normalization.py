"""Batch and instance normalization layers, which may have running statistics of channels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.nn.buffer_updates import record_moments, record_updates
from burnpy.nn.functional.batch_normalization import batch_moments, batch_norm, batch_normed, instance_norm
from burnpy.nn.layers.normalization import ChannelNorm
from burnpy.nn.module import rebound
from burnpy.nn.variable import Buffer, IntBuffer
from burnpy.tensor.operands import refuse_wider
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.nn.buffer_updates import BufferUpdate
    from burnpy.tensor.tensor_base import TensorBase


class RunningNorm(ChannelNorm[B]):
    """The base class of normalizations that may have running statistics."""

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
        super().__init__(channels, eps=eps, affine=affine, device=device)
        argument: Any = momentum
        if argument is not None and not (isinstance(argument, (int, float)) and 0.0 <= argument <= 1.0):
            raise ArgumentError(
                f"{type(self).__name__}() got momentum={momentum!r:.80}; expected a number from 0 to 1, or None"
            )
        self.momentum = momentum
        shape = (channels,)
        self.running_mean = Buffer(Tensor.zeros(shape, device=device)) if track_running_stats else None
        self.running_var = Buffer(Tensor.ones(shape, device=device)) if track_running_stats else None
        self.num_batches_tracked = IntBuffer(IntTensor.zeros((), device=device)) if track_running_stats else None

    def updated(self, updates: Mapping[str, BufferUpdate[B]]) -> Mapping[str, TensorBase[B]]:
        """Compute the new running statistics from the updates of training passes."""
        count = self.num_batches_tracked
        assert count is not None  # as there are statistics to update
        old: dict[str, Tensor[B]] = {name: getattr(self, name).value for name in updates}
        b, old_count = next(iter(old.values()))._backend, count.value
        totals = [update.total._primitive for update in updates.values()]
        new: dict[str, TensorBase[B]] = {}
        if self.momentum is None:
            counted = b.count_update(old_count._primitive, totals[0])
            for name, update in updates.items():
                share = update.weight / (old_count.float(old[name].dtype) + update.weight)
                new[name] = old[name] + (update.mean - old[name]) * share
        else:
            averages = [x._primitive for x in old.values()]
            counted, averages = b.statistics_update(old_count._primitive, averages, totals, self.momentum)
            new |= {name: x._like(average) for (name, x), average in zip(old.items(), averages, strict=True)}
        if not count.frozen:
            new["num_batches_tracked"] = old_count._like(counted)
        return new

    @property
    def track_running_stats(self) -> bool:
        """True if the layer has running statistics."""
        return self.running_mean is not None


class BatchNorm(RunningNorm[B]):
    """Batch normalization: ``(x - mean) / √(var + eps) · weight + bias`` for each channel of (N, channels, …).

    In training mode the batch's mean and variance are used, and the running statistics are updated to ``(1 -
    momentum) · old + momentum · batch``; in eval mode the running statistics are used. The forward pass modifies
    nothing: the update is returned with the gradients and applied by the optimizer's step, once for the mean over all
    micro-batches. Frozen statistics (``model.no_grad("norm")``) are not updated.

    Args:
        channels: the number of channels.
        eps: added to the variance to avoid division by zero.
        momentum: the weight of the new statistics in the running ones; None for the mean of all batches so far.
        affine: whether there are a weight, initially ones, and a bias, initially zeros.
        track_running_stats: if False, always use the statistics of the batch.
        device: the device of the layer.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Ioffe and Szegedy, Batch Normalization, 2015.

    >>> norm = BatchNorm(1, device=Autodiff[NumPy])
    >>> grads = norm(Tensor[Autodiff[NumPy]].from_data([[1.0], [3.0]])).sum().backward()
    >>> from burnpy.nn import stepped
    >>> stepped(norm, {}, grads.buffer_updates).running_mean.value.tolist()
    [0.2...]
    """

    def __init__(
        self,
        channels: int,
        *,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: B | type[B],
    ) -> None:
        super().__init__(
            channels, eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats, device=device
        )

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Normalize x of shape (N, channels, …); the output has the same shape."""
        weight, bias = self._affine_tensors()
        mean, var = self.running_mean, self.running_var
        if mean is None or var is None:
            return batch_normed(x, weight, bias, eps=self.eps).output
        if not self.trains_on(x):
            return batch_norm(x, mean.value, var.value, weight, bias, eps=self.eps)
        if weight is None:
            refuse_wider("BatchNorm", "running statistics", mean.dtype, x=x)
        output, batch_mean, batch_var, factor = batch_moments(x, weight, bias, self.eps)
        return record_moments(output, mean, var, batch_mean, batch_var, factor)

    def valid(self: BatchNorm[Autodiff[I]]) -> BatchNorm[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class InstanceNorm(RunningNorm[B]):
    """Instance normalization: ``(x - mean) / √(var + eps) · weight + bias`` for each channel of each member of a batch.

    One class serves sequences and images. With ``track_running_stats`` the layer has running means, over the members of
    batches, of these means and (unbiased) variances, which eval mode uses; see `burnpy.nn.BatchNorm`.

    Args:
        channels: the number of channels.
        eps: added to the variance to avoid division by zero.
        momentum: the weight of the new statistics in the running ones; None for the mean of all batches so far.
        affine: whether the layer has a weight, initially one, and a bias, initially zero.
        track_running_stats: whether the layer has running statistics.
        device: the device of the layer.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Ulyanov et al., Instance Normalization, 2016.

    >>> InstanceNorm(4, device=NumPy)(Tensor[NumPy].ones((3, 4, 5))).shape
    (3, 4, 5)
    """

    def __init__(
        self,
        channels: int,
        *,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: B | type[B],
    ) -> None:
        super().__init__(
            channels, eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats, device=device
        )

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Normalize x of shape (N, channels, length, …); the output has the same shape."""
        weight, bias = self._affine_tensors()
        mean, var = self.running_mean, self.running_var
        if mean is None or var is None:
            return instance_norm(x, weight=weight, bias=bias, eps=self.eps)
        if not self.trains_on(x):
            return instance_norm(x, mean.value, var.value, weight, bias, use_input_stats=False, eps=self.eps)
        out, each = instance_norm(x, weight=weight, bias=bias, eps=self.eps), x.detach().float(mean.dtype).flatten(2)
        return record_updates(out, (mean, each.mean(dim=(0, 2))), (var, each.var(dim=2).mean(dim=0)))

    def valid(self: InstanceNorm[Autodiff[I]]) -> InstanceNorm[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
