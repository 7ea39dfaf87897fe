"""Batch normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.buffer_updates import record_updates
from burnpy.nn.functional.normalization import batch_norm, batch_normed
from burnpy.nn.layers.running_norm import RunningNorm
from burnpy.nn.module import rebound
from burnpy.tensor.operands import refuse_wider
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff


class BatchNorm(RunningNorm[B]):
    """Batch normalization: ``(x - mean) / √(var + eps) · weight + bias`` for each channel of (N, channels, …).

    In training mode mean and variance are those of the batch, and the running statistics are updated to ``(1 -
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

    >>> from burnpy import Autodiff
    >>> from burnpy.backend import NumPy
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
        weight = None if self.weight is None else self.weight.value
        bias = None if self.bias is None else self.bias.value
        mean, var = self.running_mean, self.running_var
        if mean is None or var is None:
            return batch_normed(x, weight, bias, eps=self.eps).output
        if not self.trains_on(x):
            return batch_norm(x, mean.value, var.value, weight, bias, eps=self.eps)
        if weight is None:
            refuse_wider("BatchNorm", "running statistics", mean.dtype, x=x)
        normed = batch_normed(x, weight, bias, eps=self.eps)
        return record_updates(normed.output, (mean, normed.mean), (var, normed.var))

    def valid(self: BatchNorm[Autodiff[I]]) -> BatchNorm[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
