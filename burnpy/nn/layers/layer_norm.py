"""Layer normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burnpy.nn.functional.normalization import layer_norm
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import last_dims
from burnpy.nn.variable import Param
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape


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
