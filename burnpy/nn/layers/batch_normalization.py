"""Normalization of channels with statistics of a batch or of each of its members, or with running statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import floats
from burnpy.nn.buffer_updates import record_moments, record_updates
from burnpy.nn.layers.normalization import ChannelNorm, across, check_channels, normalize_operands, normalized_groups
from burnpy.nn.module import rebound
from burnpy.nn.param import Buffer, IntBuffer
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operand_checks import number, refuse_wider
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Float
    from burnpy.nn.buffer_updates import BufferUpdate
    from burnpy.tensor.tensor_base import TensorBase


class BatchNormed(NamedTuple, Generic[B]):
    """The result of `batch_normed`: the normalized batch and its statistics."""

    output: Tensor[B]  #: the normalized batch, of its shape
    mean: Tensor[B]  #: the mean of each channel, untracked; shape (channels,)
    var: Tensor[B]  #: the variance of each channel with Bessel's correction, untracked; shape (channels,)


@explained
def batch_norm(
    x: Tensor[B],
    running_mean: Tensor[B] | None,
    running_var: Tensor[B] | None,
    weight: Tensor[B] | None = None,
    bias: Tensor[B] | None = None,
    *,
    training: bool = False,
    eps: float = 1e-5,
) -> Tensor[B]:
    """Normalize each channel of a batch: ``(x - mean) / √(var + eps) · weight + bias``.

    The running statistics are not modified; `burnpy.nn.BatchNorm` records their updates.

    Args:
        x: shape (N, channels, …).
        running_mean: shape (channels,); the mean used unless ``training``.
        running_var: shape (channels,); the variance used unless ``training``.
        weight: shape (channels,); ones by default.
        bias: shape (channels,); zeros by default.
        training: whether to use mean and variance of the batch.
        eps: added to the variance to avoid division by zero.

    Raises:
        ShapeError: the shapes do not match, or the batch has only one value per channel.
        DTypeError: x is wider than the weights.
        ArgumentError: not ``training``, and there are no running statistics.

    >>> x = Tensor[NumPy].from_data([[1.0, 10.0], [3.0, 30.0]])
    >>> print(batch_norm(x, None, None, training=True).to_numpy().round(3))
    [[-1. -1.]
     [ 1.  1.]]
    """
    if training:
        return batch_moments(x, weight, bias, eps)[0]
    if running_mean is None or running_var is None:
        raise ArgumentError(
            "batch_norm() got no running statistics; pass training=True to use the statistics of the batch"
        )
    x, mean, var, weight, bias = floats(
        "batch_norm", 3, x=x, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    shape = x.shape
    check_channels("batch_norm", shape, 2, running_mean=mean, running_var=var, weight=weight, bias=bias)
    d: Any = x._device
    factor = d.full(mean.shape, 1.0, x.dtype) if weight is None else weight._primitive
    summand = d.full(mean.shape, 0.0, x.dtype) if bias is None else bias._primitive
    formula: Any = _normalized
    scales: tuple[Any, ...] = (var._primitive, factor)
    numbers: tuple[float, ...] = (eps if eps.__class__ is float else float(number(x, eps, "batch_norm")),)
    if math.prod(shape[2:]) < _LEAST_PLANE:
        formula, scales, numbers = _scaled, d.fused(_scale, scales, numbers), ()
    of_channels = [mean._primitive, *scales, summand]
    if len(shape) > 2:
        form = across(shape)
        of_channels = [d.reshape(value, form) for value in of_channels]
    (out,) = d.fused(formula, (x._primitive, *of_channels), numbers)
    return x._like(out)


_LEAST_PLANE = 64
"""The least number of elements of a channel of a member for which the scale is computed with them, in one kernel."""


def _scale(b: Any, var: Float, weight: Float, eps: float) -> tuple[Float]:
    return (b.mul(b.rsqrt(b.add(var, eps)), weight),)


def _scaled(b: Any, x: Float, mean: Float, scale: Float, bias: Float) -> tuple[Float]:
    """Subtract first: x · scale and mean · scale are rounded by more than the deviations if these are small."""
    return (b.add(b.mul(b.sub(x, mean), scale), bias),)


def _normalized(b: Any, x: Float, mean: Float, var: Float, weight: Float, bias: Float, eps: float) -> tuple[Float]:
    return _scaled(b, x, mean, *_scale(b, var, weight, eps), bias)


@explained
def batch_normed(
    x: Tensor[B], weight: Tensor[B] | None = None, bias: Tensor[B] | None = None, *, eps: float = 1e-5
) -> BatchNormed[B]:
    """Normalize a batch with its own statistics, and return those too: `batch_norm` with ``training=True``.

    Raises:
        ShapeError: the shapes do not match, or the batch has only one value per channel.
        DTypeError: x is wider than the weights.

    >>> normed = batch_normed(Tensor[NumPy].from_data([[1.0], [3.0]]))
    >>> normed.mean.tolist(), normed.var.tolist()
    ([2.0], [2.0])
    """
    output, mean, var, factor = batch_moments(x, weight, bias, eps)
    return BatchNormed(output, mean.detach().reshape(-1), var.detach().reshape(-1) * factor)


def batch_moments(
    x: Tensor[B], weight: Tensor[B] | None, bias: Tensor[B] | None, eps: float
) -> tuple[Tensor[B], Tensor[B], Tensor[B], float]:
    """Return a batch, normalized, its mean and variance with dimensions of size 1, and the factor of Bessel's
    correction. It raises the errors of `batch_normed`."""
    x, weight, bias = floats("batch_norm", 1, x=x, weight=weight, bias=bias)
    shape = x.shape
    check_channels("batch_norm", shape, 2, weight=weight, bias=bias)
    count = math.prod(shape) // max(shape[1], 1)
    if count < 2:
        raise ShapeError(
            f"batch_norm() in training got x of shape {shape}, with {count} number{'s' * (count != 1)} for "
            "each channel, but a variance needs two; use a larger batch, or model.eval()"
        )
    dims = (0, *range(2, len(shape)))
    operands = normalize_operands("batch_norm", x, weight, bias, across(shape), dims, eps)
    output, mean, var = map(x._like, x._device.normalize(*operands))
    return output, mean, var, count / (count - 1)


@explained
def instance_norm(
    x: Tensor[B],
    running_mean: Tensor[B] | None = None,
    running_var: Tensor[B] | None = None,
    weight: Tensor[B] | None = None,
    bias: Tensor[B] | None = None,
    *,
    use_input_stats: bool = True,
    eps: float = 1e-5,
) -> Tensor[B]:
    """Normalize each channel of each member of a batch: ``(x - mean) / √(var + eps) · weight + bias``.

    Args:
        x: shape (N, channels, …), with at least one dimension after the channels.
        running_mean: shape (channels,); the mean used without ``use_input_stats``. It is not modified.
        running_var: shape (channels,); the variance used without ``use_input_stats``. It is not modified.
        weight: shape (channels,); ones by default.
        bias: shape (channels,); zeros by default.
        use_input_stats: whether to use mean and variance of x.
        eps: added to the variance to avoid division by zero.

    Raises:
        ShapeError: the shapes do not match, or a channel has only one element.
        DTypeError: x is wider than the weights.
        ArgumentError: there are no running statistics to use.

    Source: Ulyanov et al., Instance Normalization, 2016.

    >>> instance_norm(Tensor[NumPy].from_data([[[-1.0, 1.0], [3.0, 5.0]]]), eps=0.0).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ArgumentError("instance_norm() with use_input_stats=False takes running_mean and running_var")
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    x, weight, bias = floats("instance_norm", 1, x=x, weight=weight, bias=bias)
    shape = x.shape
    check_channels("instance_norm", shape, 3, weight=weight, bias=bias)
    if math.prod(shape[2:]) == 1:
        raise ShapeError(
            f"instance_norm() got x of shape {shape}, with one element for each channel of each member, and a "
            "variance takes two"
        )
    return normalized_groups("instance_norm", x, shape[1], weight, bias, eps)


class RunningNorm(ChannelNorm[B]):
    """The base class of normalizations that may have running statistics."""

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
