"""Interpolation to another size as a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burnpy.nn.functional.resampling import Corners, Mode, interpolate
from burnpy.nn.module import FunctionLayer, Stateless
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


class Upsample(FunctionLayer, Stateless):
    """Interpolates sequences, images or volumes to another size: see `burnpy.nn.functional.interpolate`.

    The settings are checked when the layer is called, as they depend on one another and on the input.

    >>> Upsample(scale_factor=2)(Tensor[NumPy].ones((2, 3, 4, 5))).shape
    (2, 3, 8, 10)
    """

    _function = staticmethod(interpolate)
    _settings = ("size", "scale_factor", "mode", "align_corners", "recompute_scale_factor")

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        *,
        scale_factor: float | Sequence[float] | None = None,
        mode: Mode = "nearest",
        align_corners: Corners = None,
        recompute_scale_factor: bool = False,
    ) -> None:
        self.size = tuple(size) if isinstance(size, Sequence) else size
        self.scale_factor = tuple(scale_factor) if isinstance(scale_factor, Sequence) else scale_factor
        self.mode: Mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Interpolate (N, channels, length), (N, channels, height, width) or (N, channels, depth, height, width)."""
        return self._result(x)
