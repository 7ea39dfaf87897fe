"""Checks shared by convolution and pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ShapeError
from burnpy.backend.operations.windows import window_counts
from burnpy.tensor.base import TensorBase

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


def refuse_no_images(operation: str, x: TensorBase[Any], channels: str = "channels") -> None:
    """Check that x is a batch of images, (N, channels, height, width), or a single image without N.

    Raises:
        ShapeError: it has another number of dimensions.
    """
    if x.ndim not in (3, 4):
        raise ShapeError(
            f"{operation}() takes x of shape (N, {channels}, height, width), or of one image ({channels}, height, "
            f"width), and was given shape {x.shape}"
        )


def batch_of(x: Tensor[B]) -> Tensor[B]:
    """Return images as a batch, adding N = 1 to a single image."""
    return x.unsqueeze(0) if x.ndim == 3 else x


def refuse_too_small(
    operation: str,
    x: TensorBase[Any],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    ceil_mode: bool = False,
) -> None:
    """Check that the kernel fits into the padded images.

    Raises:
        ShapeError: it does not.
    """
    if min(window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)) < 1:
        high, wide = (size + 2 * pad for size, pad in zip(x.shape[-2:], padding, strict=True))
        reach = tuple(gap * (size - 1) + 1 for gap, size in zip(dilation, kernel, strict=True))
        raise ShapeError(
            f"{operation}() was given images of {x.shape[-2]} × {x.shape[-1]}, padded {high} × {wide}, and its kernel "
            f"covers {reach[0]} × {reach[1]}; take a smaller kernel or more padding"
        )
