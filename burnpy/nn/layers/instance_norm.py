"""Instance normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.buffer_updates import record_updates
from burnpy.nn.functional.group_normalization import instance_norm
from burnpy.nn.layers.running_norm import RunningNorm
from burnpy.nn.module import rebound
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff


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

    >>> from burnpy.backend import NumPy
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
        weight = None if self.weight is None else self.weight.value
        bias = None if self.bias is None else self.bias.value
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
