"""Pooling layers of sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from burnpy.backend.backend import Backend
from burnpy.nn.functional.pooling1d import avg_pool1d, max_pool1d
from burnpy.nn.module import Stateless
from burnpy.nn.sizes import Single, single
from burnpy.tensor.call_errors import explained

if TYPE_CHECKING:
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


class MaxPool1d(Stateless):
    """Max pooling over windows of sequences: see `burnpy.nn.functional.max_pool1d`.

    Args:
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        padding: implicit padding with -inf at each end of the sequences.
        dilation: the step between elements of a window.
        ceil_mode: whether the last window may extend beyond the sequence.

    Raises:
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> MaxPool1d(2)(Tensor[NumPy].ones((2, 3, 4))).shape
    (2, 3, 2)
    """

    def __init__(
        self,
        kernel_size: Single,
        *,
        stride: Single | None = None,
        padding: Single = 0,
        dilation: Single = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size = single("MaxPool1d", "kernel_size", kernel_size)
        self.stride = None if stride is None else single("MaxPool1d", "stride", stride)
        self.padding = single("MaxPool1d", "padding", padding, 0)
        self.dilation = single("MaxPool1d", "dilation", dilation)
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Pool (N, channels, length) to (N, channels, length'); N may be omitted."""
        return max_pool1d(
            x,
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            ceil_mode=self.ceil_mode,
        )

    @explained
    def with_indices(self, x: Tensor[B]) -> tuple[Tensor[B], IntTensor[B]]:
        """Return the result of `forward` and the index of each maximum in its sequence."""
        return max_pool1d(
            x,
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=True,
        )


class AvgPool1d(Stateless):
    """Average pooling over windows of sequences: see `burnpy.nn.functional.avg_pool1d`.

    Args:
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        padding: zeros added at each end of the sequences.
        ceil_mode: whether the last window may extend beyond the sequence.
        count_include_pad: whether padding counts as elements of a window.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(
        self,
        kernel_size: Single,
        *,
        stride: Single | None = None,
        padding: Single = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size = single("AvgPool1d", "kernel_size", kernel_size)
        self.stride = None if stride is None else single("AvgPool1d", "stride", stride)
        self.padding = single("AvgPool1d", "padding", padding, 0)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Pool (N, channels, length) to (N, channels, length'); N may be omitted."""
        return avg_pool1d(
            x,
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
        )
