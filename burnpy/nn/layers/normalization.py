"""Normalization layers, with parameters and running statistics of channels or parameters of the last dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.nn.argument_checks import last_dims, positive
from burnpy.nn.buffer_updates import record_moments, record_updates
from burnpy.nn.functional.batch_normalization import batch_moments, batch_norm, batch_normed, instance_norm
from burnpy.nn.functional.normalization import group_norm, layer_norm, local_response_norm, rms_norm
from burnpy.nn.module import FunctionLayer, Module, Stateless, rebound
from burnpy.nn.variable import Buffer, IntBuffer, Param
from burnpy.tensor.operands import refuse_wider
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape
    from burnpy.nn.buffer_updates import BufferUpdate
    from burnpy.tensor.tensor_base import TensorBase


class ChannelNorm(Module[B]):
    """The base class of normalizations with a weight, initially one, and a bias, initially zero, for each channel."""

    def __init__(self, channels: int, *, eps: float, affine: bool, device: B | type[B]) -> None:
        positive(type(self).__name__, channels=channels)
        self.channels = channels
        self.eps = eps
        self.weight = Param(Tensor.ones((channels,), device=device)) if affine else None
        self.bias = Param(Tensor.zeros((channels,), device=device)) if affine else None

    @property
    def affine(self) -> bool:
        """True if the layer has a weight and a bias."""
        return self.weight is not None or self.bias is not None

    def _affine_tensors(self) -> tuple[Tensor[B] | None, Tensor[B] | None]:
        """Return the tensors of weight and bias, or None."""
        weight, bias = self.weight, self.bias
        return None if weight is None else weight.value, None if bias is None else bias.value


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


class GroupNorm(ChannelNorm[B]):
    """Group normalization: ``(x - mean) / √(var + eps) · weight + bias``, with statistics of each group of channels.

    Args:
        groups: the number of groups, which divides the channels.
        channels: the number of channels.
        eps: added to the variance to avoid division by zero.
        affine: whether the layer has a weight, initially one, and a bias, initially zero.
        device: the device of the layer.

    Raises:
        ArgumentError: a size is not positive, or the groups do not divide the channels.

    Source: Wu and He, Group Normalization, 2018.

    >>> from burnpy.backend import NumPy
    >>> GroupNorm(2, 4, device=NumPy)(Tensor[NumPy].ones((3, 4, 5))).shape
    (3, 4, 5)
    """

    def __init__(
        self, groups: int, channels: int, *, eps: float = 1e-5, affine: bool = True, device: B | type[B]
    ) -> None:
        super().__init__(channels, eps=eps, affine=affine, device=device)
        positive("GroupNorm", groups=groups)
        if channels % groups:
            raise ArgumentError(f"GroupNorm() got groups={groups} for {channels} channels, which they must divide")
        self.groups = groups

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Normalize x of shape (N, channels, …); the output has the same shape."""
        weight, bias = self._affine_tensors()
        return group_norm(x, self.groups, weight, bias, eps=self.eps)

    def valid(self: GroupNorm[Autodiff[I]]) -> GroupNorm[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class LayerNorm(Module[B]):
    """Layer normalization: ``(x - mean) / √(var + eps) · weight + bias``, with statistics over the last dimensions.

    Args:
        normalized_shape: the sizes of the last dimensions.
        eps: added to the variance to avoid division by zero.
        bias: whether the layer has a bias, initially zero.
        device: the device of the layer.

    Raises:
        ArgumentError: a size is not positive, or ``normalized_shape`` is empty.

    Source: Ba et al., Layer Normalization, 2016.

    >>> from burnpy.backend import NumPy
    >>> LayerNorm(4, device=NumPy)(Tensor[NumPy].ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], *, eps: float = 1e-5, bias: bool = True, device: B | type[B]
    ) -> None:
        shape = last_dims("LayerNorm", normalized_shape)
        self.eps = eps
        self.weight = Param(Tensor.ones(shape, device=device))
        self.bias = Param(Tensor.zeros(shape, device=device)) if bias else None

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Normalize x of shape (…, *normalized_shape); the output has the same shape."""
        bias = None if self.bias is None else self.bias.value
        return layer_norm(x, self.weight.shape, self.weight.value, bias, eps=self.eps)

    @property
    def normalized_shape(self) -> Shape:
        """The sizes of the last dimensions."""
        return self.weight.shape

    def valid(self: LayerNorm[Autodiff[I]]) -> LayerNorm[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class RmsNorm(Module[B]):
    """Root mean square normalization: ``x / √(mean(x²) + eps) · weight``, with the mean over the last dimensions.

    Args:
        normalized_shape: the sizes of the last dimensions.
        eps: added to the mean of squares to avoid division by zero; by default as for `burnpy.nn.functional.rms_norm`.
        device: the device of the layer.

    Raises:
        ArgumentError: a size is not positive, or ``normalized_shape`` is empty.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.

    >>> from burnpy.backend import NumPy
    >>> RmsNorm(4, device=NumPy)(Tensor[NumPy].ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(self, normalized_shape: int | Sequence[int], *, eps: float | None = None, device: B | type[B]) -> None:
        shape = last_dims("RmsNorm", normalized_shape)
        self.eps = eps
        self.weight = Param(Tensor.ones(shape, device=device))

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Normalize x of shape (…, *normalized_shape); the output has the same shape."""
        return rms_norm(x, self.weight.shape, self.weight.value, eps=self.eps)

    @property
    def normalized_shape(self) -> Shape:
        """The sizes of the last dimensions."""
        return self.weight.shape

    def valid(self: RmsNorm[Autodiff[I]]) -> RmsNorm[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class LocalResponseNorm(FunctionLayer, Stateless):
    """Division by squares of neighbouring channels: see `burnpy.nn.functional.local_response_norm`."""

    _function = staticmethod(local_response_norm)
    _settings = ("size", "alpha", "beta", "k")

    def __init__(self, size: int, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        positive("LocalResponseNorm", size=size)
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Normalize (N, channels, …); the output has the shape of x."""
        return self._result(x)
