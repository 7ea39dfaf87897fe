"""Normalization with statistics of the last dimensions or of groups of channels, and by a norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import epsilon
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import alike, channels_first, dims_at_least, floats, last_dims, positive, positive_int
from burnpy.nn.module import FunctionLayer, Module, Stateless, rebound
from burnpy.nn.param import Param
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import ALL
from burnpy.tensor.linalg import at_least_float32
from burnpy.tensor.operand_checks import number
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B, I, X

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape


@explained
def layer_norm(
    x: Tensor[B],
    normalized_shape: int | Sequence[int],
    weight: Tensor[B] | None = None,
    bias: Tensor[B] | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor[B]:
    """Normalize the last dimensions: ``(x - mean) / √(var + eps) · weight + bias``, with statistics over them.

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

    >>> layer_norm(Tensor[NumPy].from_data([[-1.0, 1.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    if not alike(x, weight, bias):
        x, weight, bias = floats("layer_norm", 1, x=x, weight=weight, bias=bias)
    sizes, dims = _last_dims("layer_norm", x._primitive.shape, normalized_shape, weight, bias)
    device: Any = x._device
    scale = device.full(sizes, 1.0, x.dtype) if weight is None else weight._primitive
    shift = device.full(sizes, 0.0, x.dtype) if bias is None else bias._primitive
    least = eps if eps.__class__ is float else float(number(x, eps, "layer_norm"))  # a call less for most
    return x._like(device.first_result("normalize", x._primitive, scale, shift, dims, least))


@explained
def rms_norm(
    x: Tensor[B], normalized_shape: int | Sequence[int], weight: Tensor[B] | None = None, *, eps: float | None = None
) -> Tensor[B]:
    """Normalize by the root mean square: ``x / √(mean(x²) + eps) · weight``, with the mean over the last dimensions.

    Args:
        x: shape (…, *normalized_shape).
        normalized_shape: the sizes of the last dimensions, over which to normalize.
        weight: shape ``normalized_shape``; ones by default.
        eps: added to the mean of squares to avoid division by zero; by default the distance from 1 to the next number
            of x's dtype.

    Raises:
        ShapeError: the shapes do not match.
        DTypeError: x is wider than the weights.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.

    >>> rms_norm(Tensor[NumPy].from_data([[-2.0, 2.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    x, weight = floats("rms_norm", 1, x=x, weight=weight)
    sizes, dims = _last_dims("rms_norm", x.shape, normalized_shape, weight, None)
    device: Any = x.device
    scale = device.full(sizes, 1.0, x.dtype) if weight is None else weight._primitive
    least = epsilon(x.dtype) if eps is None else float(number(x, eps, "rms_norm"))
    return x._like(device.rms_norm(x._primitive, scale, dims, least))


@explained
def group_norm(
    x: Tensor[B], num_groups: int, weight: Tensor[B] | None = None, bias: Tensor[B] | None = None, *, eps: float = 1e-5
) -> Tensor[B]:
    """Normalize each group of channels: ``(x - mean) / √(var + eps) · weight + bias``, with statistics of the group.

    Args:
        x: shape (N, channels, …).
        num_groups: the number of groups, which divides the channels.
        weight: shape (channels,); ones by default.
        bias: shape (channels,); zeros by default.
        eps: added to the variance to avoid division by zero.

    Raises:
        ShapeError: the shapes do not match, or the groups do not divide the channels.
        DTypeError: x is wider than the weights.
        ArgumentError: the number of groups is not positive.

    Source: Wu and He, Group Normalization, 2018.

    >>> group_norm(Tensor[NumPy].from_data([[-1.0, 1.0, 3.0, 5.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    x, weight, bias = floats("group_norm", 1, x=x, weight=weight, bias=bias)
    shape = x.shape
    groups = positive_int("group_norm", "num_groups", num_groups)
    check_channels("group_norm", shape, 2, weight=weight, bias=bias)
    if shape[1] % groups:
        raise ShapeError(
            f"group_norm() got x of shape {shape}, with {shape[1]} channels, and num_groups={groups}, which must "
            "divide them"
        )
    return normalized_groups("group_norm", x, groups, weight, bias, eps)


@explained
def local_response_norm(
    x: Tensor[B], size: int, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor[B]:
    """Divide each element by a power of the squares of neighbouring channels: ``x / (k + alpha · mean(x²))^beta``.

    Args:
        x: shape (N, channels, …), of three dimensions or more.
        size: the number of channels of a mean; of an even number, one more lies before the element than after it.
            Channels beyond the first and the last count as 0.
        alpha: the factor of the means.
        beta: the power.
        k: is added to the means.

    Raises:
        ShapeError: x has fewer than three dimensions.
        ArgumentError: the size is not positive.

    16-bit floats are computed in float32.

    Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep Convolutional Neural Networks, 2012.

    >>> local_response_norm(Tensor[NumPy].ones((1, 3, 1)), 3, alpha=3.0, beta=1.0).tolist()
    [[[0.333...], [0.25], [0.333...]]]
    """
    (x,) = floats("local_response_norm", 1, x=x)
    count, shape = positive_int("local_response_norm", "size", size), x.shape
    dims_at_least("local_response_norm", "x", shape, 3, "(N, channels, …)")
    flat = at_least_float32(x).reshape((shape[0], 1, shape[1], math.prod(shape[2:])))
    if flat.shape[3] == 0:
        return x
    device: Any = x.device
    squares = (flat * flat)._primitive
    means = device.avg_pool2d(squares, (count, 1), (1, 1), (count // 2, 0), False, True, count)
    means = x._like(device.slice(means, (slice(None, None, 1),) * 2 + (slice(0, shape[1], 1),)))  # one less if even
    return (flat * (means * alpha + k).pow(-beta)).reshape(shape).to_dtype(x.dtype)  # type: ignore[no-any-return]


@explained
def normalize(x: X, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12) -> X:
    """Divide x by its p-norm along ``dim``, or by ``eps`` where the norm is smaller.

    A vector of zeros stays one, and the gradient there is finite. 16-bit floats are computed in float32.

    Args:
        x: of any shape.
        p: the exponent of the norm, as in `burnpy.linalg.vector_norm`; ``math.inf`` is the largest magnitude, 0 the
            number of elements that are not 0.
        dim: the dimension, or dimensions, of the vectors.
        eps: the smallest divisor.

    Raises:
        ArgumentError: ``eps`` is negative, or ``p`` is NaN.
        ShapeError: ``p`` is negative, and there are no elements.

    >>> normalize(Tensor[NumPy].from_data([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    from burnpy.tensor.distances import vector_norm  # which no layer needs

    (x,) = floats("normalize", 1, x=x)
    if not number(x, eps, "normalize") >= 0:
        raise ArgumentError(f"normalize(): eps must be a number that is not negative, got {eps!r}")
    wide: Any = at_least_float32(x)
    is_complex = wide.kind == "complex"
    size: Any = vector_norm("normalize", wide.abs() if is_complex else wide, p, dim, True).clamp_min(eps)
    out: X = (wide / (size.complex() if is_complex else size)).to_dtype(x.dtype)
    return out


def _last_dims(
    operation: str,
    shape: Shape,
    normalized_shape: int | Sequence[int],
    weight: Tensor[Any] | None,
    bias: Tensor[Any] | None,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes and the numbers of the last dimensions of x, over which to normalize."""
    argument: object = normalized_shape
    sizes: Any = normalized_shape
    if sizes.__class__ is not tuple and not isinstance(argument, TensorBase):
        if isinstance(sizes, (np.integer, np.ndarray)):
            sizes = sizes.reshape(-1).tolist()
        sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if sizes.__class__ is not tuple or not sizes or shape[-len(sizes) :] != sizes:
        raise ShapeError(
            f"{operation}() got x of shape {shape} and normalized_shape={describe(sizes)}, which must be its last "
            "dimensions"
        )
    if weight is not None and weight._primitive.shape != sizes:
        raise ShapeError(f"{operation}() over {sizes} got weight of shape {weight.shape}; both must be equal")
    if bias is not None and bias._primitive.shape != sizes:
        raise ShapeError(f"{operation}() over {sizes} got bias of shape {bias.shape}; both must be equal")
    return sizes, ALL[len(shape)][-len(sizes) :]


def check_channels(operation: str, shape: Any, least: int, **parts: Tensor[Any] | None) -> None:
    """Check the dimensions of x, and that weight and bias have one value for each channel."""
    dims_at_least(operation, "x", shape, least, "(N, channels, …)" if least == 2 else "(N, channels, length, …)")
    for name, part in parts.items():
        if part is not None and part._primitive.shape != shape[1:2]:
            hint = channels_first(shape, part.shape[0], True) if part.ndim == 1 else ""
            raise ShapeError(
                f"{operation}() got x of shape {shape}, with {shape[1]} channels, and {name} of shape "
                f"{part.shape}{hint}"
            )


def across(shape: Shape) -> Shape:
    """Return the shape that broadcasts one value for each channel to a shape (N, channels, …)."""
    return (shape[1], *(1,) * (len(shape) - 2))


def normalize_operands(
    name: str,
    x: Tensor[B],
    weight: Tensor[B] | None,
    bias: Tensor[B] | None,
    shape: Any,
    dims: tuple[int, ...],
    eps: float,
) -> tuple[Any, ...]:
    """Return the arguments of the operation ``normalize`` over ``dims``, with weight and bias of ``shape``."""
    device: Any = x._device
    scale = device.full(shape, 1.0, x.dtype) if weight is None else weight._primitive
    shift = device.full(shape, 0.0, x.dtype) if bias is None else bias._primitive
    if scale.shape != shape:
        scale = device.reshape(scale, shape)
    if shift.shape != shape:
        shift = device.reshape(shift, shape)
    least = eps if eps.__class__ is float else float(number(x, eps, name))  # a call less for most
    return x._primitive, scale, shift, dims, least


def normalized_groups(
    name: str, x: Tensor[B], groups: int, weight: Tensor[B] | None, bias: Tensor[B] | None, eps: float
) -> Tensor[B]:
    """Normalize each group of channels of each member."""
    shape = x.shape
    each = shape[1] // max(groups, 1)
    planes = x.reshape((shape[0], groups, each, math.prod(shape[2:])))
    normal = normalize_operands(name, planes, weight, bias, (groups, each, 1), (2, 3), eps)
    return x._like(x._device.first_result("normalize", *normal)).reshape(shape)


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
