"""Layer normalization and batch normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.functional.checks import dims_at_least, floats, last_sizes
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


@explained
def layer_norm(
    x: Tensor[B],
    normalized_shape: int | Sequence[int],
    weight: Tensor[B] | None = None,
    bias: Tensor[B] | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor[B]:
    """Layer normalization: ``(x - mean) / √(var + eps) · weight + bias``, with statistics over the last dimensions.

    Args:
        x: shape (…, *normalized_shape).
        normalized_shape: the sizes of the last dimensions, over which to normalize.
        weight: shape ``normalized_shape``; ones by default.
        bias: shape ``normalized_shape``; zeros by default.
        eps: added to the variance to avoid division by zero.

    Raises:
        ShapeError: the shapes do not match.
        DTypeError: x is wider than the weights.

    Source: Ba et al., Layer Normalization, 2016.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> layer_norm(Tensor[NumPy].from_data([[-1.0, 1.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    x, weight, bias = floats("layer_norm", 1, x=x, weight=weight, bias=bias)
    shape = x._primitive.shape
    sizes = last_sizes("layer_norm", normalized_shape, shape)
    for name, part in (("weight", weight), ("bias", bias)):
        if part is not None and part._primitive.shape != sizes:
            raise ShapeError(f"layer_norm() over {sizes} got {name} of shape {part.shape}; both must be equal")
    dims = tuple(range(len(shape) - len(sizes), len(shape)))
    return x._like(_normalized(x, weight, bias, sizes, dims, eps)[0])


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
    """Batch normalization: ``(x - mean) / √(var + eps) · weight + bias`` for each channel.

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
    """
    if training:
        return batch_normed(x, weight, bias, eps=eps).output
    if running_mean is None or running_var is None:
        raise ArgumentError("batch_norm() has no running statistics; pass training=True to use the batch's")
    x, mean, var, weight, bias = floats(
        "batch_norm", 3, x=x, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    shape = _channels(x, running_mean=mean, running_var=var, weight=weight, bias=bias)
    d: Any = x._device
    scale = d.rsqrt(d.add(var._primitive, float(eps)))
    if weight is not None:
        scale = d.mul(scale, weight._primitive)
    shift = d.neg(d.mul(mean._primitive, scale))
    if bias is not None:
        shift = d.add(shift, bias._primitive)
    if len(shape) > 1:
        scale, shift = d.reshape(scale, shape), d.reshape(shift, shape)
    return x._like(d.add(d.mul(x._primitive, scale), shift))


@explained
def batch_normed(
    x: Tensor[B], weight: Tensor[B] | None = None, bias: Tensor[B] | None = None, *, eps: float = 1e-5
) -> BatchNormed[B]:
    """Normalize a batch with its own statistics, and return those too: `batch_norm` with ``training=True``.

    Raises:
        ShapeError: the shapes do not match, or the batch has only one value per channel.
        DTypeError: x is wider than the weights.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> normed = batch_normed(Tensor[NumPy].from_data([[1.0], [3.0]]))
    >>> normed.mean.tolist(), normed.var.tolist()
    ([2.0], [2.0])
    """
    x, weight, bias = floats("batch_norm", 1, x=x, weight=weight, bias=bias)
    shape, sizes = _channels(x, weight=weight, bias=bias), x.shape
    count = math.prod(sizes) // max(sizes[1], 1)
    if count < 2:
        raise ShapeError(
            f"batch_norm() in training got x of shape {sizes}, with {count} number{'s' * (count != 1)} for "
            "each channel, but a variance needs two; use a larger batch, or model.eval()"
        )
    dims = (0, *range(2, len(sizes)))
    output, mean, var = map(x._like, _normalized(x, weight, bias, shape, dims, eps))
    return BatchNormed(output, mean.detach().reshape(-1), var.detach().reshape(-1) * (count / (count - 1)))


def _normalized(
    x: Tensor[B], weight: Tensor[B] | None, bias: Tensor[B] | None, shape: Any, dims: tuple[int, ...], eps: float
) -> tuple[Any, Any, Any]:
    """Normalize over ``dims`` with weight and bias of ``shape``; return the primitives of output, mean and variance."""
    device: Any = x._device
    scale = device.full(shape, 1.0, x.dtype) if weight is None else _shaped(weight, shape)
    shift = device.full(shape, 0.0, x.dtype) if bias is None else _shaped(bias, shape)
    return device.normalize(x._primitive, scale, shift, dims, float(eps))  # type: ignore[no-any-return]  # three primitives


def _shaped(x: Tensor[Any], shape: tuple[int, ...]) -> Any:
    primitive: Any = x._primitive
    return primitive if primitive.shape == shape else x.reshape(shape)._primitive


def _channels(x: Tensor[Any], **parts: Tensor[Any] | None) -> tuple[int, ...]:
    """The shape that broadcasts one value per channel to x.

    Raises:
        ShapeError: x has fewer than two dimensions, or a part has not one value per channel.
    """
    shape = x.shape
    dims_at_least("batch_norm", "x", shape, 2, "(N, channels, …)")
    for name, part in parts.items():
        if part is not None and part.shape != shape[1:2]:
            raise ShapeError(
                f"batch_norm() got x of shape {shape}, with {shape[1]} channels, and {name} of shape {part.shape}"
            )
    return (shape[1], *(1,) * (len(shape) - 2))
