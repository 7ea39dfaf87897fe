"""`Unfold` and `Fold` (im2col and col2im) as layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.argument_checks import Pair, pair
from burnpy.nn.functional.windows import fold, unfold
from burnpy.nn.module import FunctionLayer, Stateless
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


class Unfold(FunctionLayer, Stateless):
    """The windows of images as the columns of a matrix: see `burnpy.nn.functional.unfold`.

    >>> Unfold(2)(Tensor[NumPy].ones((5, 3, 4, 4))).shape
    (5, 12, 9)
    """

    _function = staticmethod(unfold)
    _settings = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size: Pair, *, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1) -> None:
        self.kernel_size = pair("Unfold", "kernel_size", kernel_size)
        self.dilation = pair("Unfold", "dilation", dilation)
        self.padding = pair("Unfold", "padding", padding, 0)
        self.stride = pair("Unfold", "stride", stride)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return the windows of (N, channels, height, width), shape (N, channels · kernel, windows)."""
        return self._result(x)


class Fold(FunctionLayer, Stateless):
    """Images as the sums of windows that are the columns of a matrix: see `burnpy.nn.functional.fold`.

    >>> Fold(4, 2)(Tensor[NumPy].ones((5, 12, 9))).shape
    (5, 3, 4, 4)
    """

    _function = staticmethod(fold)
    _settings = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, output_size: Pair, kernel_size: Pair, *, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
    ) -> None:
        self.output_size = pair("Fold", "output_size", output_size)
        self.kernel_size = pair("Fold", "kernel_size", kernel_size)
        self.dilation = pair("Fold", "dilation", dilation)
        self.padding = pair("Fold", "padding", padding, 0)
        self.stride = pair("Fold", "stride", stride)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return the images of windows of shape (N, channels · kernel, windows)."""
        return self._result(x)
