"""Normalization of channels with statistics of a batch or of each of its members, or with running statistics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import floats
from burnpy.nn.functional.normalization import across, check_channels, normalized, normalized_groups
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operands import number
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


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
        return batch_normed(x, weight, bias, eps=eps).output
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
    scale = d.rsqrt(d.add(var._primitive, float(number(x, eps, "batch_norm"))))
    if weight is not None:
        scale = d.mul(scale, weight._primitive)
    shift = d.neg(d.mul(mean._primitive, scale))
    if bias is not None:
        shift = d.add(shift, bias._primitive)
    if len(shape) > 2:
        wide = across(shape)
        scale, shift = d.reshape(scale, wide), d.reshape(shift, wide)
    return x._like(d.add(d.mul(x._primitive, scale), shift))


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
    output, mean, var = map(x._like, normalized("batch_norm", x, weight, bias, across(shape), dims, eps))
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
