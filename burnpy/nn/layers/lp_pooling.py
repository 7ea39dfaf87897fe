"""Pooling layers by norms of windows."""

from __future__ import annotations

from typing import Any

from burnpy.nn.argument_checks import Size, above_zero, pair, single, triple
from burnpy.nn.functional.lp_pooling import lp_pool1d, lp_pool2d, lp_pool3d
from burnpy.nn.layers.pooling import WindowPooling


class LpPool(WindowPooling):
    """The base class of pooling by norms."""

    _settings = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Size, *, stride: Size | None = None, ceil_mode: bool = False
    ) -> None:
        layer = type(self).__name__
        above_zero(layer, norm_type=norm_type)
        self.norm_type = norm_type
        self.kernel_size: Any = self._size(layer, "kernel_size", kernel_size)
        self.stride: Any = None if stride is None else self._size(layer, "stride", stride)
        self.ceil_mode = ceil_mode


class LpPool1d(LpPool):
    """Norms over windows of sequences: see `burnpy.nn.functional.lp_pool1d`."""

    kernel_size: int
    stride: int | None
    _size = staticmethod(single)
    _function = staticmethod(lp_pool1d)


class LpPool2d(LpPool):
    """Norms over windows of images: see `burnpy.nn.functional.lp_pool2d`.

    >>> LpPool2d(2.0, 2)(Tensor[NumPy].ones((3, 4, 4))).shape
    (3, 2, 2)
    """

    kernel_size: tuple[int, int]
    stride: tuple[int, int] | None
    _size = staticmethod(pair)
    _function = staticmethod(lp_pool2d)


class LpPool3d(LpPool):
    """Norms over windows of volumes: see `burnpy.nn.functional.lp_pool3d`."""

    kernel_size: tuple[int, int, int]
    stride: tuple[int, int, int] | None
    _size = staticmethod(triple)
    _function = staticmethod(lp_pool3d)
