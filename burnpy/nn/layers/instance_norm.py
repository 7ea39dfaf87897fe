"""Instance normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from burnpy.backend.backend import Backend
from burnpy.nn.functional.group_normalization import instance_norm
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import positive
from burnpy.nn.variable import Param
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class InstanceNorm(Module[B]):
    """Instance normalization: ``(x - mean) / √(var + eps) · weight + bias`` for each channel of each member of a batch.

    One class serves sequences and images.

    Args:
        channels: the number of channels.
        eps: added to the variance to avoid division by zero.
        affine: whether the layer has a weight, initially one, and a bias, initially zero.
        device: the device of the layer.

    Raises:
        ArgumentError: the number of channels is not positive.

    Source: Ulyanov et al., Instance Normalization, 2016.

    >>> from burnpy.backend import NumPy
    >>> InstanceNorm(4, device=NumPy)(Tensor[NumPy].ones((3, 4, 5))).shape
    (3, 4, 5)
    """

    def __init__(self, channels: int, *, eps: float = 1e-5, affine: bool = False, device: B | type[B]) -> None:
        positive("InstanceNorm", channels=channels)
        self.channels = channels
        self.eps = eps
        self.weight = Param(Tensor.ones((channels,), device=device)) if affine else None
        self.bias = Param(Tensor.zeros((channels,), device=device)) if affine else None

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Normalize x of shape (N, channels, length, …); the output has the same shape."""
        weight = None if self.weight is None else self.weight.value
        bias = None if self.bias is None else self.bias.value
        return instance_norm(x, weight=weight, bias=bias, eps=self.eps)

    @property
    def affine(self) -> bool:
        """True if the layer has a weight and a bias."""
        return self.weight is not None or self.bias is not None

    def valid(self: InstanceNorm[Autodiff[I]]) -> InstanceNorm[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
