"""Root mean square normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burnpy.nn.functional.group_normalization import rms_norm
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import last_dims
from burnpy.nn.variable import Param
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape


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
