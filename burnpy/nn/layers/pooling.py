"""Pooling layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from burnpy.backend.backend import Backend
from burnpy.nn.functional.pooling import adaptive_avg_pool2d, avg_pool2d, divisor_of, max_pool2d
from burnpy.nn.module import Stateless
from burnpy.nn.sizes import Pair, pair
from burnpy.tensor.call_errors import explained

if TYPE_CHECKING:
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


class MaxPool2d(Stateless):
    """Max pooling over windows of images: see `burnpy.nn.functional.max_pool2d`.

    Args:
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        padding: implicit padding with -inf on each side of the images.
        dilation: the step between elements of a window.
        ceil_mode: whether the last window may extend beyond the image.

    Raises:
        ArgumentError: a setting is invalid.

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
        """Pool (N, channels, height, width) to (N, channels, height', width'); N may be omitted."""
        return max_pool2d(
            x,
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            ceil_mode=self.ceil_mode,
        )

    @explained
    def with_indices(self, x: Tensor[B]) -> tuple[Tensor[B], IntTensor[B]]:
        """Return the result of `forward` and the flat, row-major index of each maximum in its plane."""
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
    """Average pooling over windows of images: see `burnpy.nn.functional.avg_pool2d`.

    Args:
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        padding: zeros added on each side of the images.
        ceil_mode: whether the last window may extend beyond the image.
        count_include_pad: whether padding counts as elements of a window.
        divisor_override: the divisor of each window's sum; by default the number of its elements.

    Raises:
        ArgumentError: a setting is invalid.
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
        """Pool (N, channels, height, width) to (N, channels, height', width'); N may be omitted."""
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
    """Average pooling to a fixed output size: see `burnpy.nn.functional.adaptive_avg_pool2d`.

    Args:
        output_size: height and width of the output.

    Raises:
        ArgumentError: a size is not positive.
    """

    def __init__(self, output_size: Pair) -> None:
        self.output_size = pair("AdaptiveAvgPool2d", "output_size", output_size)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Pool (N, channels, height, width) to (N, channels, *output_size); N may be omitted."""
        return adaptive_avg_pool2d(x, self.output_size)
