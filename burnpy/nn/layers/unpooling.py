"""Layers that put the maxima of windows back at their indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.nn.argument_checks import Size, pair, single, triple
from burnpy.nn.functional.unpooling import max_unpool1d, max_unpool2d, max_unpool3d
from burnpy.nn.module import FunctionLayer
from burnpy.tensor.call_errors import inherit_methods
from burnpy.typevars import B

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


@inherit_methods
class MaxUnpool(FunctionLayer):
    """The base class of the unpooling layers."""

    _settings = ("kernel_size", "stride", "padding")
    _size: ClassVar[Callable[..., Any]]

    def __init__(self, kernel_size: Size, *, stride: Size | None = None, padding: Size = 0) -> None:
        layer = type(self).__name__
        self.kernel_size: Any = self._size(layer, "kernel_size", kernel_size)
        self.stride: Any = None if stride is None else self._size(layer, "stride", stride)
        self.padding: Any = self._size(layer, "padding", padding, 0)

    def forward(self, x: Tensor[B], indices: Ints[B], *, output_size: Sequence[int] | None = None) -> Tensor[B]:
        """Put each element of x at its index, among zeros; ``output_size`` tells the size that was pooled."""
        return self._result(x, indices, output_size=output_size)

    if TYPE_CHECKING:

        def __call__(self, x: Tensor[B], indices: Ints[B], *, output_size: Sequence[int] | None = None) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


class MaxUnpool1d(MaxUnpool):
    """Unpooling of sequences after `MaxPool1d`: see `burnpy.nn.functional.max_unpool1d`.

    >>> from burnpy.nn import MaxPool1d
    >>> values, indices = MaxPool1d(2).with_indices(Tensor[NumPy].ones((3, 4)))
    >>> MaxUnpool1d(2)(values, indices).shape
    (3, 4)
    """

    kernel_size: int
    stride: int | None
    padding: int
    _size = staticmethod(single)
    _function = staticmethod(max_unpool1d)


class MaxUnpool2d(MaxUnpool):
    """Unpooling of images after `MaxPool2d`: see `burnpy.nn.functional.max_unpool2d`.

    >>> from burnpy.nn import MaxPool2d
    >>> values, indices = MaxPool2d(2).with_indices(Tensor[NumPy].ones((3, 4, 4)))
    >>> MaxUnpool2d(2)(values, indices).shape
    (3, 4, 4)
    """

    kernel_size: tuple[int, int]
    stride: tuple[int, int] | None
    padding: tuple[int, int]
    _size = staticmethod(pair)
    _function = staticmethod(max_unpool2d)


class MaxUnpool3d(MaxUnpool):
    """Unpooling of volumes after `MaxPool3d`: see `burnpy.nn.functional.max_unpool3d`.

    >>> from burnpy.nn import MaxPool3d
    >>> values, indices = MaxPool3d(2).with_indices(Tensor[NumPy].ones((3, 4, 4, 4)))
    >>> MaxUnpool3d(2)(values, indices).shape
    (3, 4, 4, 4)
    """

    kernel_size: tuple[int, int, int]
    stride: tuple[int, int, int] | None
    padding: tuple[int, int, int]
    _size = staticmethod(triple)
    _function = staticmethod(max_unpool3d)
