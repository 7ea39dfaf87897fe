"""Checks shared by convolution and pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ShapeError
from burnpy.backend.operations.windows import window_counts

if TYPE_CHECKING:
    from burnpy.backend.primitives import Shape
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


def refuse_no_images(operation: str, shape: Shape, channels: str = "channels") -> None:
    """Check that a shape is that of a batch of images, (N, channels, height, width), or of one image without N.

    Raises:
        ShapeError: it has another number of dimensions.
    """
    if len(shape) not in (3, 4):
        raise ShapeError(
            f"{operation}() takes x of shape (N, {channels}, height, width), or of one image ({channels}, height, "
            f"width), and was given shape {shape}"
        )


def refuse_no_sequences(operation: str, shape: Shape, channels: str = "channels") -> None:
    """Check that a shape is that of a batch of sequences, (N, channels, length), or of one sequence without N.

    Raises:
        ShapeError: it has another number of dimensions.
    """
    if len(shape) not in (2, 3):
        raise ShapeError(
            f"{operation}() takes x of shape (N, {channels}, length), or of one sequence ({channels}, length), and was "
            f"given shape {shape}"
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
                f"{operation}() was given sequences of length {shape[-1]}, padded {long}, and its kernel covers "
                f"{dilation[1] * (kernel[1] - 1) + 1}; take a smaller kernel or more padding"
            )
        high, wide = (size + 2 * pad for size, pad in zip(shape[-2:], padding, strict=True))
        reach = tuple(gap * (size - 1) + 1 for gap, size in zip(dilation, kernel, strict=True))
        raise ShapeError(
            f"{operation}() was given images of {shape[-2]} × {shape[-1]}, padded {high} × {wide}, and its kernel "
            f"covers {reach[0]} × {reach[1]}; take a smaller kernel or more padding"
        )
