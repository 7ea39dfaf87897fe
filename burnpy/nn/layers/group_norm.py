"""Group normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.errors import ArgumentError
from burnpy.nn.functional.group_normalization import group_norm
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import positive
from burnpy.nn.variable import Param
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff


class GroupNorm(Module[B]):
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
        positive("GroupNorm", groups=groups, channels=channels)
        if channels % groups:
            raise ArgumentError(f"GroupNorm() got groups={groups} for {channels} channels, which they must divide")
        self.groups = groups
        self.channels = channels
        self.eps = eps
        self.weight = Param(Tensor.ones((channels,), device=device)) if affine else None
        self.bias = Param(Tensor.zeros((channels,), device=device)) if affine else None

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Normalize x of shape (N, channels, …); the output has the same shape."""
        weight = None if self.weight is None else self.weight.value
        bias = None if self.bias is None else self.bias.value
        return group_norm(x, self.groups, weight, bias, eps=self.eps)

    @property
    def affine(self) -> bool:
        """True if the layer has a weight and a bias."""
        return self.weight is not None or self.bias is not None

    def valid(self: GroupNorm[Autodiff[I]]) -> GroupNorm[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
