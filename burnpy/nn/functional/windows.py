"""The windows of convolution and pooling: checks of shapes and settings, and sequences as images of height 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.operations.windows import window_counts
from burnpy.nn.functional.checks import floats
from burnpy.nn.sizes import pair, row
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.primitives import Shape
    from burnpy.nn.sizes import Size
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_base import TensorBase

T = TypeVar("T", bound="TensorBase[Any]")


def refuse_no_images(operation: str, shape: Shape, channels: str = "channels") -> None:
    """Check that a shape describes a batch of images, (N, channels, height, width), or one image without N.

    Raises:
        ShapeError: it has another number of dimensions.
    """
    if len(shape) not in (3, 4):
        raise ShapeError(
            f"{operation}() got x of shape {shape}, expected (N, {channels}, height, width), or ({channels}, height, "
            "width) for one image"
        )


def refuse_no_sequences(operation: str, shape: Shape, channels: str = "channels") -> None:
    """Check that a shape describes a batch of sequences, (N, channels, length), or one sequence without N.

    Raises:
        ShapeError: it has another number of dimensions.
    """
    if len(shape) not in (2, 3):
        raise ShapeError(
            f"{operation}() got x of shape {shape}, expected (N, {channels}, length), or ({channels}, length) for one "
            "sequence"
        )


def batch_of(x: Tensor[B]) -> Tensor[B]:
    """Return images as a batch, adding N = 1 to a single image."""
    return x.unsqueeze(0) if x.ndim == 3 else x


def refuse_too_small(
    operation: str,
    shape: Shape,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    ceil_mode: bool = False,
) -> None:
    """Check that the kernel fits into padded images of a shape.

    Raises:
        ShapeError: it does not.
    """
    if min(window_counts(shape, kernel, stride, padding, dilation, ceil_mode)) < 1:
        if operation.endswith("1d"):
            long = shape[-1] + 2 * padding[1]
            raise ShapeError(
                f"{operation}() got sequences of length {shape[-1]}, padded {long}, and its kernel covers "
                f"{dilation[1] * (kernel[1] - 1) + 1}; take a smaller kernel or more padding"
            )
        high, wide = (size + 2 * pad for size, pad in zip(shape[-2:], padding, strict=True))
        reach = tuple(gap * (size - 1) + 1 for gap, size in zip(dilation, kernel, strict=True))
        raise ShapeError(
            f"{operation}() got images of {shape[-2]} × {shape[-1]}, padded {high} × {wide}, and its kernel "
            f"covers {reach[0]} × {reach[1]}; take a smaller kernel or more padding"
        )


def pooling_windows(
    operation: str,
    x: Tensor[B],
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
    ceil_mode: bool,
) -> tuple[Tensor[B], tuple[tuple[int, int], ...]]:
    """Return x as a batch of images, and kernel size, stride, padding and dilation as pairs, all validated.

    Sequences become images of height 1.

    Raises:
        KindError: x is not a float tensor.
        ShapeError: x has another number of dimensions, or is smaller than a window.
        ArgumentError: a setting is invalid.
    """
    (x,) = floats(operation, 1, x=x)
    sequences = operation.endswith("1d")
    if sequences:
        refuse_no_sequences(operation, x.shape)
        x = x.unsqueeze(-2)
    else:
        refuse_no_images(operation, x.shape)
    size = row if sequences else pair
    kernel = size(operation, "kernel_size", kernel_size)
    strides = kernel if stride is None else size(operation, "stride", stride)
    pads, gaps = size(operation, "padding", padding, 0), size(operation, "dilation", dilation)
    if 2 * pads[0] > kernel[0] or 2 * pads[1] > kernel[1]:
        pad, window = (pads[1], kernel[1]) if sequences else (pads, kernel)
        raise ArgumentError(
            f"{operation}() got padding={pad} for a window of {window}; expected at most half of the window"
        )
    refuse_too_small(operation, x.shape, kernel, strides, pads, gaps, bool(ceil_mode))
    return batch_of(x), (kernel, strides, pads, gaps)


def as_given(operation: str, pooled: T, x: Tensor[Any]) -> T:
    """Return a batch of pooled images in the form of x: as sequences, or without N, if x has that form."""
    sequences = operation.endswith("1d")
    out: Any = pooled
    out = out.squeeze(-2) if sequences else out
    return out if x.ndim == (3 if sequences else 4) else out.squeeze(0)  # type: ignore[no-any-return]  # a T
