"""Pooling layers with an output of a fixed size."""

from __future__ import annotations

from typing import Any, ClassVar

from burnpy.nn.argument_checks import OutputSize, output_sizes
from burnpy.nn.functional.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from burnpy.nn.layers.pooling import MaxPooling, Pooling


class AdaptivePooling(Pooling):
    """The base class of pooling to a fixed output size, which has one number or `_dims` of them."""

    _settings = ("output_size",)
    _dims: ClassVar[int]

    def __init__(self, output_size: OutputSize) -> None:
        sizes = output_sizes(type(self).__name__, output_size, self._dims)
        self.output_size: Any = sizes[0] if self._dims == 1 else sizes


class AdaptiveAvgPool1d(AdaptivePooling):
    """Average pooling of sequences to a fixed length: see `burnpy.nn.functional.adaptive_avg_pool1d`.

    >>> AdaptiveAvgPool1d(4)(Tensor[NumPy].ones((2, 3, 7))).shape
    (2, 3, 4)
    """

    output_size: int | None
    _function, _dims = staticmethod(adaptive_avg_pool1d), 1


class AdaptiveAvgPool2d(AdaptivePooling):
    """Average pooling of images to a fixed size: see `burnpy.nn.functional.adaptive_avg_pool2d`.

    >>> AdaptiveAvgPool2d((None, 1))(Tensor[NumPy].ones((2, 3, 7, 5))).shape
    (2, 3, 7, 1)
    """

    output_size: tuple[int | None, ...]
    _function, _dims = staticmethod(adaptive_avg_pool2d), 2


class AdaptiveAvgPool3d(AdaptivePooling):
    """Average pooling of volumes to a fixed size: see `burnpy.nn.functional.adaptive_avg_pool3d`.

    >>> AdaptiveAvgPool3d((None, 2, 1))(Tensor[NumPy].ones((2, 3, 7, 5, 4))).shape
    (2, 3, 7, 2, 1)
    """

    output_size: tuple[int | None, ...]
    _function, _dims = staticmethod(adaptive_avg_pool3d), 3


class AdaptiveMaxPool1d(AdaptivePooling, MaxPooling):
    """Max pooling of sequences to a fixed length: see `burnpy.nn.functional.adaptive_max_pool1d`.

    >>> AdaptiveMaxPool1d(4)(Tensor[NumPy].ones((2, 3, 7))).shape
    (2, 3, 4)
    """

    output_size: int | None
    _function, _dims = staticmethod(adaptive_max_pool1d), 1


class AdaptiveMaxPool2d(AdaptivePooling, MaxPooling):
    """Max pooling of images to a fixed size: see `burnpy.nn.functional.adaptive_max_pool2d`.

    >>> AdaptiveMaxPool2d(4)(Tensor[NumPy].ones((2, 3, 7, 5))).shape
    (2, 3, 4, 4)
    """

    output_size: tuple[int | None, ...]
    _function, _dims = staticmethod(adaptive_max_pool2d), 2


class AdaptiveMaxPool3d(AdaptivePooling, MaxPooling):
    """Max pooling of volumes to a fixed size: see `burnpy.nn.functional.adaptive_max_pool3d`.

    >>> AdaptiveMaxPool3d((None, 2, 1))(Tensor[NumPy].ones((2, 3, 7, 5, 4))).shape
    (2, 3, 7, 2, 1)
    """

    output_size: tuple[int | None, ...]
    _function, _dims = staticmethod(adaptive_max_pool3d), 3
