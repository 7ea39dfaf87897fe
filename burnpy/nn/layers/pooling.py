"""Pools: one number for each window of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from burnpy.backend.backend import Backend
from burnpy.nn.functional.pooling import adaptive_avg_pool2d, avg_pool2d, divisor_of, max_pool2d
from burnpy.nn.module import Stateless
from burnpy.nn.sizes import Pair, pair

if TYPE_CHECKING:
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


class MaxPool2d(Stateless):
    """The largest of each window: see `burnpy.nn.functional.max_pool2d`.

    Args:
        kernel_size: of the window.
        stride: from one window to the next; the size of the window, unless given.
        padding: around the images.
        dilation: from one element of a window to the next.
        ceil_mode: whether a last window may reach beyond the image.

    Raises:
        ArgumentError: a setting makes no sense.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> MaxPool2d(2)(Tensor[NumPy].ones((2, 3, 4, 4))).shape
    (2, 3, 2, 2)
    """

    def __init__(
        self,
        kernel_size: Pair,
        *,
        stride: Pair | None = None,
        padding: Pair = 0,
        dilation: Pair = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size = pair("MaxPool2d", "kernel_size", kernel_size)
        self.stride = None if stride is None else pair("MaxPool2d", "stride", stride)
        self.padding = pair("MaxPool2d", "padding", padding, 0)
        self.dilation = pair("MaxPool2d", "dilation", dilation)
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """From (N, channels, height, width) to (N, channels, height', width'); N may be left out."""
        return max_pool2d(
            x,
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            ceil_mode=self.ceil_mode,
        )

    def with_indices(self, x: Tensor[B]) -> tuple[Tensor[B], IntTensor[B]]:
        """What `forward` computes, and where each of its elements was in its plane, numbered row by row."""
        return max_pool2d(
            x,
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=True,
        )


class AvgPool2d(Stateless):
    """The mean of each window: see `burnpy.nn.functional.avg_pool2d`.

    Args:
        kernel_size: of the window.
        stride: from one window to the next; the size of the window, unless given.
        padding: zeros around the images.
        ceil_mode: whether a last window may reach beyond the image.
        count_include_pad: whether these zeros count.
        divisor_override: what to divide each window's sum by; the number of elements that count, unless given.

    Raises:
        ArgumentError: a setting makes no sense.
    """

    def __init__(
        self,
        kernel_size: Pair,
        *,
        stride: Pair | None = None,
        padding: Pair = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self.kernel_size = pair("AvgPool2d", "kernel_size", kernel_size)
        self.stride = None if stride is None else pair("AvgPool2d", "stride", stride)
        self.padding = pair("AvgPool2d", "padding", padding, 0)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_of("AvgPool2d", divisor_override)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """From (N, channels, height, width) to (N, channels, height', width'); N may be left out."""
        return avg_pool2d(
            x,
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
            divisor_override=self.divisor_override,
        )


class AdaptiveAvgPool2d(Stateless):
    """The means of as many windows as make images of one size: see `burnpy.nn.functional.adaptive_avg_pool2d`.

    Args:
        output_size: height and width to make.

    Raises:
        ArgumentError: a size is not positive.
    """

    def __init__(self, output_size: Pair) -> None:
        self.output_size = pair("AdaptiveAvgPool2d", "output_size", output_size)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """From (N, channels, height, width) to (N, channels, *output_size); N may be left out."""
        return adaptive_avg_pool2d(x, self.output_size)
