"""Pooling layers with an output of a fixed size."""

from __future__ import annotations

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


class AdaptiveAvgPool1d(Pooling):
    """Average pooling to a fixed output size: see `burnpy.nn.functional.adaptive_avg_pool1d`.

    Args:
        output_size: the length of the output; None keeps the length of the input.

    Raises:
        ArgumentError: the size is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> AdaptiveAvgPool1d(4)(Tensor[NumPy].ones((2, 3, 7))).shape
    (2, 3, 4)
    """

    _function = staticmethod(adaptive_avg_pool1d)
    _settings = ("output_size",)

    def __init__(self, output_size: OutputSize) -> None:
        self.output_size = output_sizes("AdaptiveAvgPool1d", output_size, 1)[0]


class AdaptiveAvgPool2d(Pooling):
    """Average pooling to a fixed output size: see `burnpy.nn.functional.adaptive_avg_pool2d`.

    Args:
        output_size: height and width of the output; None keeps the size of the input.

    Raises:
        ArgumentError: a size is not positive.
    """

    _function = staticmethod(adaptive_avg_pool2d)
    _settings = ("output_size",)

    def __init__(self, output_size: OutputSize) -> None:
        self.output_size = output_sizes("AdaptiveAvgPool2d", output_size, 2)


class AdaptiveAvgPool3d(Pooling):
    """Average pooling to a fixed output size: see `burnpy.nn.functional.adaptive_avg_pool3d`.

    Args:
        output_size: depth, height and width of the output; None keeps the size of the input.

    Raises:
        ArgumentError: a size is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> AdaptiveAvgPool3d((None, 2, 1))(Tensor[NumPy].ones((2, 3, 7, 5, 4))).shape
    (2, 3, 7, 2, 1)
    """

    _function = staticmethod(adaptive_avg_pool3d)
    _settings = ("output_size",)

    def __init__(self, output_size: OutputSize) -> None:
        self.output_size = output_sizes("AdaptiveAvgPool3d", output_size, 3)


class AdaptiveMaxPool1d(MaxPooling):
    """Max pooling to a fixed output size: see `burnpy.nn.functional.adaptive_max_pool1d`.

    Args:
        output_size: the length of the output; None keeps the length of the input.

    Raises:
        ArgumentError: the size is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> AdaptiveMaxPool1d(4)(Tensor[NumPy].ones((2, 3, 7))).shape
    (2, 3, 4)
    """

    _function = staticmethod(adaptive_max_pool1d)
    _settings = ("output_size",)

    def __init__(self, output_size: OutputSize) -> None:
        self.output_size = output_sizes("AdaptiveMaxPool1d", output_size, 1)[0]


class AdaptiveMaxPool2d(MaxPooling):
    """Max pooling to a fixed output size: see `burnpy.nn.functional.adaptive_max_pool2d`.

    Args:
        output_size: height and width of the output; None keeps the size of the input.

    Raises:
        ArgumentError: a size is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> AdaptiveMaxPool2d(4)(Tensor[NumPy].ones((2, 3, 7, 5))).shape
    (2, 3, 4, 4)
    """

    _function = staticmethod(adaptive_max_pool2d)
    _settings = ("output_size",)

    def __init__(self, output_size: OutputSize) -> None:
        self.output_size = output_sizes("AdaptiveMaxPool2d", output_size, 2)


class AdaptiveMaxPool3d(MaxPooling):
    """Max pooling to a fixed output size: see `burnpy.nn.functional.adaptive_max_pool3d`.

    Args:
        output_size: depth, height and width of the output; None keeps the size of the input.

    Raises:
        ArgumentError: a size is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> AdaptiveMaxPool3d((None, 2, 1))(Tensor[NumPy].ones((2, 3, 7, 5, 4))).shape
    (2, 3, 7, 2, 1)
    """

    _function = staticmethod(adaptive_max_pool3d)
    _settings = ("output_size",)

    def __init__(self, output_size: OutputSize) -> None:
        self.output_size = output_sizes("AdaptiveMaxPool3d", output_size, 3)
