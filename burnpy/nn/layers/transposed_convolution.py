"""Transposed convolution layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.nn.argument_checks import Size, pair, single, triple
from burnpy.nn.functional.transposed_convolution import conv_transpose1d, conv_transpose2d, conv_transpose3d
from burnpy.nn.init import Initializer
from burnpy.nn.layers.convolution import Convolution
from burnpy.nn.module import rebound
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor


class TransposedConvolution(Convolution[B]):
    """The base class of the transposed convolution layers."""

    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        *,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
            device=device,
            initializer=initializer,
            generator=generator,
        )
        self.output_padding: Any = self._size(type(self).__name__, "output_padding", output_padding, 0)

    def _padding_setting(self, padding: Any) -> Any:
        """Return the validated padding: one number for both sides of a dimension."""
        return self._size(type(self).__name__, "padding", padding, 0)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Convolve sequences (N, in, length), images or volumes in the transposed sense; N may be omitted."""
        return self._function(  # type: ignore[no-any-return]  # a function of burnpy.nn.functional
            x,
            self.weight.value,
            None if self.bias is None else self.bias.value,
            stride=self.stride,
            padding=self.padding,
            output_padding=self.output_padding,
            dilation=self.dilation,
            groups=self.groups,
        )


class ConvTranspose1d(TransposedConvolution[B]):
    """1-D transposed convolution of sequences, from (N, in, length) to (N, out, length').

    The weight is (in, out / groups, kernel length), as PyTorch's: see `burnpy.nn.functional.conv_transpose1d`. The
    arguments and errors are those of `ConvTranspose2d`; a size is one number.

    >>> ConvTranspose1d(3, 8, 2, stride=2, device=NumPy)(Tensor[NumPy].ones((2, 3, 5))).shape
    (2, 8, 10)
    """

    stride: int
    padding: int
    output_padding: int
    dilation: int
    _function = staticmethod(conv_transpose1d)
    _size = staticmethod(single)

    @property
    def kernel_size(self) -> int:
        """The length of the kernel."""
        return self.weight.shape[2]

    def valid(self: ConvTranspose1d[Autodiff[I]]) -> ConvTranspose1d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class ConvTranspose2d(TransposedConvolution[B]):
    """2-D transposed convolution of images, from (N, in, height, width) to (N, out, height', width').

    The weight is (in, out / groups, kernel height, kernel width), as PyTorch's:
    see `burnpy.nn.functional.conv_transpose2d`.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: height and width of the kernel; one number for both.
        stride: the step between the positions of the kernel in the output.
        padding: rows and columns removed from each side of the output.
        output_padding: rows and columns added to one side of the output; less than the stride or the dilation.
        dilation: the step between elements of the kernel.
        groups: the number of groups of channels; must divide both channel counts.
        bias: whether the layer has a bias.
        device: the device of the layer.
        initializer: the initializer of the weight; by default, as for the bias, uniform in ±1/√(out · kernel / groups).
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> ConvTranspose2d(3, 8, 2, stride=2, device=NumPy)(Tensor[NumPy].ones((2, 3, 5, 5))).shape
    (2, 8, 10, 10)
    """

    stride: tuple[int, int]
    padding: tuple[int, int]
    output_padding: tuple[int, int]
    dilation: tuple[int, int]
    _function = staticmethod(conv_transpose2d)
    _size = staticmethod(pair)

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """The height and width of the kernel."""
        return self.weight.shape[2:]

    def valid(self: ConvTranspose2d[Autodiff[I]]) -> ConvTranspose2d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class ConvTranspose3d(TransposedConvolution[B]):
    """3-D transposed convolution of volumes, from (N, in, depth, height, width) to (N, out, depth', height', width').

    The weight is (in, out / groups, kernel depth, kernel height, kernel width), as PyTorch's: see
    `burnpy.nn.functional.conv_transpose3d`. The arguments and errors are those of `ConvTranspose2d`; a size is one
    number or three.

    >>> ConvTranspose3d(3, 8, 2, stride=2, device=NumPy)(Tensor[NumPy].ones((2, 3, 2, 5, 5))).shape
    (2, 8, 4, 10, 10)
    """

    stride: tuple[int, int, int]
    padding: tuple[int, int, int]
    output_padding: tuple[int, int, int]
    dilation: tuple[int, int, int]
    _function = staticmethod(conv_transpose3d)
    _size = staticmethod(triple)

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """The depth, height and width of the kernel."""
        return self.weight.shape[2:]

    def valid(self: ConvTranspose3d[Autodiff[I]]) -> ConvTranspose3d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
