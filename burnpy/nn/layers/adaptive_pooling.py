"""Adaptive pooling layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.functional.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
)
from burnpy.nn.module import Stateless
from burnpy.nn.sizes import OutputPair, Single, output_pair, single
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor, Tensor


class AdaptiveAvgPool1d(Stateless):
    """Average pooling to a fixed output size: see `burnpy.nn.functional.adaptive_avg_pool1d`.

    Args:
        output_size: the length of the output.

    Raises:
        ArgumentError: the size is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> AdaptiveAvgPool1d(4)(Tensor[NumPy].ones((2, 3, 7))).shape
    (2, 3, 4)
    """

    def __init__(self, output_size: Single) -> None:
        self.output_size = single("AdaptiveAvgPool1d", "output_size", output_size)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Pool (N, channels, length) to (N, channels, output_size); N may be omitted."""
        return adaptive_avg_pool1d(x, self.output_size)


class AdaptiveAvgPool2d(Stateless):
    """Average pooling to a fixed output size: see `burnpy.nn.functional.adaptive_avg_pool2d`.

    Args:
        output_size: height and width of the output; None for those of the input.

    Raises:
        ArgumentError: a size is not positive.
    """

    def __init__(self, output_size: OutputPair) -> None:
        self.output_size = output_pair("AdaptiveAvgPool2d", output_size)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Pool (N, channels, height, width) to (N, channels, *output_size); N may be omitted."""
        return adaptive_avg_pool2d(x, self.output_size)


class AdaptiveMaxPool1d(Stateless):
    """Max pooling to a fixed output size: see `burnpy.nn.functional.adaptive_max_pool1d`.

    Args:
        output_size: the length of the output.

    Raises:
        ArgumentError: the size is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> AdaptiveMaxPool1d(4)(Tensor[NumPy].ones((2, 3, 7))).shape
    (2, 3, 4)
    """

    def __init__(self, output_size: Single) -> None:
        self.output_size = single("AdaptiveMaxPool1d", "output_size", output_size)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Pool (N, channels, length) to (N, channels, output_size); N may be omitted."""
        return adaptive_max_pool1d(x, self.output_size)

    @explained
    def with_indices(self, x: Tensor[B]) -> tuple[Tensor[B], IntTensor[B]]:
        """Return the result of `forward` and the index of each maximum in its sequence."""
        return adaptive_max_pool1d(x, self.output_size, return_indices=True)


class AdaptiveMaxPool2d(Stateless):
    """Max pooling to a fixed output size: see `burnpy.nn.functional.adaptive_max_pool2d`.

    Args:
        output_size: height and width of the output; None for those of the input.

    Raises:
        ArgumentError: a size is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> AdaptiveMaxPool2d(4)(Tensor[NumPy].ones((2, 3, 7, 5))).shape
    (2, 3, 4, 4)
    """

    def __init__(self, output_size: OutputPair) -> None:
        self.output_size = output_pair("AdaptiveMaxPool2d", output_size)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Pool (N, channels, height, width) to (N, channels, *output_size); N may be omitted."""
        return adaptive_max_pool2d(x, self.output_size)

    @explained
    def with_indices(self, x: Tensor[B]) -> tuple[Tensor[B], IntTensor[B]]:
        """Return the result of `forward` and the flat, row-major index of each maximum in its plane."""
        return adaptive_max_pool2d(x, self.output_size, return_indices=True)
