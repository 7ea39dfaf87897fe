"""Normalization layers, with parameters of channels or of the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burnpy.backend.errors import ArgumentError
from burnpy.nn.argument_checks import last_dims, positive
from burnpy.nn.functional.normalization import group_norm, layer_norm, local_response_norm, rms_norm
from burnpy.nn.module import FunctionLayer, Module, Stateless, rebound
from burnpy.nn.variable import Param
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape


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
