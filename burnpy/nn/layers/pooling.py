"""Pooling layers: their base classes, and those over windows of one size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.nn.argument_checks import Single, Size, divisor_of, pair, single, triple
from burnpy.nn.functional.pooling import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from burnpy.nn.module import FunctionLayer, Stateless
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.tensor.tensor import IntTensor, Tensor


class Pooling(FunctionLayer, Stateless):
    """The base class of the pooling layers: a function of `burnpy.nn.functional` with its settings and errors."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Pool sequences (N, channels, length), images or volumes over their windows; N may be omitted."""
        return self._result(x)


class WindowPooling(Pooling):
    """The base class of pooling over windows of one size.

    A subclass names the function that validates its sizes: `single` for sequences, `pair` for images, `triple` for
    volumes.
    """

    ceil_mode: bool
    _size: ClassVar[Callable[..., Any]]

    def _set_window(self, kernel_size: Size, stride: Size | None, padding: Size, ceil_mode: bool) -> None:
        """Set the validated settings that max and average pooling have."""
        layer = type(self).__name__
        self.kernel_size: Any = self._size(layer, "kernel_size", kernel_size)
        self.stride: Any = None if stride is None else self._size(layer, "stride", stride)
        self.padding: Any = self._size(layer, "padding", padding, 0)
        self.ceil_mode = ceil_mode


class MaxPooling(Pooling):
    """The base class of max pooling, which can return indices."""

    @explained
    def with_indices(self, x: Tensor[B]) -> tuple[Tensor[B], IntTensor[B]]:
        """Return the result of `forward` and the flat, row-major index of each maximum in its plane or volume."""
        both: Any = self._result(x, return_indices=True)
        values, indices = both
        return values, indices


class MaxPool(WindowPooling, MaxPooling):
    """The base class of the max pooling layers over windows of one size."""

    _settings = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Size,
        *,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
    ) -> None:
        self._set_window(kernel_size, stride, padding, ceil_mode)
        self.dilation: Any = self._size(type(self).__name__, "dilation", dilation)


class MaxPool1d(MaxPool):
    """Max pooling over windows of sequences: see `burnpy.nn.functional.max_pool1d`.

    >>> MaxPool1d(2)(Tensor[NumPy].ones((2, 3, 4))).shape
    (2, 3, 2)
    """

    kernel_size: int
    stride: int | None
    padding: int
    dilation: int
    _function = staticmethod(max_pool1d)
    _size = staticmethod(single)


class MaxPool2d(MaxPool):
    """Max pooling over windows of images: see `burnpy.nn.functional.max_pool2d`.

    >>> MaxPool2d(2)(Tensor[NumPy].ones((2, 3, 4, 4))).shape
    (2, 3, 2, 2)
    """

    kernel_size: tuple[int, int]
    stride: tuple[int, int] | None
    padding: tuple[int, int]
    dilation: tuple[int, int]
    _function = staticmethod(max_pool2d)
    _size = staticmethod(pair)


class MaxPool3d(MaxPool):
    """Max pooling over windows of volumes: see `burnpy.nn.functional.max_pool3d`.

    >>> MaxPool3d(2)(Tensor[NumPy].ones((2, 3, 4, 4, 6))).shape
    (2, 3, 2, 2, 3)
    """

    kernel_size: tuple[int, int, int]
    stride: tuple[int, int, int] | None
    padding: tuple[int, int, int]
    dilation: tuple[int, int, int]
    _function = staticmethod(max_pool3d)
    _size = staticmethod(triple)


class AvgPool1d(WindowPooling):
    """Average pooling over windows of sequences: see `burnpy.nn.functional.avg_pool1d`."""

    kernel_size: int
    stride: int | None
    padding: int
    _size = staticmethod(single)
    _function = staticmethod(avg_pool1d)
    _settings = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")

    def __init__(
        self,
        kernel_size: Single,
        *,
        stride: Single | None = None,
        padding: Single = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self._set_window(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad


class AvgPool(WindowPooling):
    """The base class of average pooling with a divisor, of images and volumes."""

    _settings = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")

    def __init__(
        self,
        kernel_size: Size,
        *,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self._set_window(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_of(type(self).__name__, divisor_override)


class AvgPool2d(AvgPool):
    """Average pooling over windows of images: see `burnpy.nn.functional.avg_pool2d`.

    >>> AvgPool2d(2)(Tensor[NumPy].ones((2, 3, 4, 4))).shape
    (2, 3, 2, 2)
    """

    kernel_size: tuple[int, int]
    stride: tuple[int, int] | None
    padding: tuple[int, int]
    _size = staticmethod(pair)
    _function = staticmethod(avg_pool2d)


class AvgPool3d(AvgPool):
    """Average pooling over windows of volumes: see `burnpy.nn.functional.avg_pool3d`."""

    kernel_size: tuple[int, int, int]
    stride: tuple[int, int, int] | None
    padding: tuple[int, int, int]
    _size = staticmethod(triple)
    _function = staticmethod(avg_pool3d)
