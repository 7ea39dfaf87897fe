"""`unfold` and `fold` (im2col and col2im), and the checks of windows that convolution and pooling share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.operations.windows import inside, padded, padded_shape, window_counts, window_keys
from burnpy.nn.argument_checks import Pair, floats, pair, row, triple
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.backend.primitives import Shape
    from burnpy.nn.argument_checks import Size
    from burnpy.tensor.tensor_base import TensorBase


Pooled = TypeVar("Pooled", bound="TensorBase[Any]")

_FORMS = {1: ("length", "sequence"), 2: ("height, width", "image"), 3: ("depth, height, width", "volume")}
"""The sizes of sequences, of one dimension, of images, of two, and of volumes, of three."""
_SIZES: dict[str, Callable[..., tuple[int, ...]]] = {"1d": row, "2d": pair, "3d": triple}
"""The functions that validate sizes for sequences, images and volumes, by the end of an operation's name."""


@explained
def unfold(x: Tensor[B], kernel_size: Pair, *, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1) -> Tensor[B]:
    """Make each window of images a column of a matrix ("im2col"), as `torch.nn.functional.unfold`.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        kernel_size: the size of a window.
        dilation: the step between elements of a window.
        padding: zeros added on each side of the images.
        stride: the step between windows.

    Returns:
        Shape (N, channels · kernel height · kernel width, windows), or without N for a single image: the windows in
        row-major order of their positions, the elements of a window by channel, row and column.

    Raises:
        ShapeError: x has another number of dimensions, or is smaller than a window.
        ArgumentError: a setting is invalid.

    >>> unfold(Tensor[NumPy].arange(6).reshape(1, 2, 3), 2).tolist()
    [[0.0, 1.0], [1.0, 2.0], [3.0, 4.0], [4.0, 5.0]]
    """
    (x,) = floats("unfold", 1, x=x)
    check_form("unfold", x.shape, 2)
    kernel, strides = pair("unfold", "kernel_size", kernel_size), pair("unfold", "stride", stride)
    pads, gaps = pair("unfold", "padding", padding, 0), pair("unfold", "dilation", dilation)
    check_kernel("unfold", x.shape, kernel, strides, pads, gaps)
    device: Any = x.device
    images = batch_of(x, 2)
    n, c = images.shape[:2]
    counts = window_counts(images.shape, kernel, strides, pads, gaps)
    shape = padded_shape(images.shape, kernel, strides, pads, gaps, counts)
    whole = padded(device, images._primitive, shape, pads, 0.0)
    length = counts[0] * counts[1]
    parts = [
        device.reshape(device.slice(whole, key), (n, c, 1, length))
        for key in window_keys(kernel, strides, gaps, counts)
    ]
    out = x._like(device.reshape(device.cat(parts, 2), (n, c * kernel[0] * kernel[1], length)))
    return out if x.ndim == 4 else out.squeeze(0)


@explained
def fold(
    x: Tensor[B],
    output_size: Pair,
    kernel_size: Pair,
    *,
    dilation: Pair = 1,
    padding: Pair = 0,
    stride: Pair = 1,
) -> Tensor[B]:
    """Add the columns of a matrix as windows of images ("col2im"), as `torch.nn.functional.fold`.

    It is the transpose of `unfold`: elements of the image that several windows share are the sums of theirs.

    Args:
        x: shape (N, channels · kernel height · kernel width, windows), or without N for a single image.
        output_size: height and width of the images.
        kernel_size: the size of a window.
        dilation: the step between elements of a window.
        padding: zeros that were added on each side of the images.
        stride: the step between windows.

    Returns:
        Shape (N, channels, *output_size), or without N for a single image.

    Raises:
        ShapeError: the shape of x does not fit the sizes.
        ArgumentError: a setting is invalid.

    >>> fold(Tensor[NumPy].ones((4, 2)), (2, 3), 2).tolist()
    [[[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]]
    """
    (x,) = floats("fold", 1, x=x)
    if x.ndim not in (2, 3):
        raise ShapeError(
            f"fold() takes x of shape (N, channels · kernel, windows), or of one image without N, got {x.shape}"
        )
    size = pair("fold", "output_size", output_size)
    kernel, strides = pair("fold", "kernel_size", kernel_size), pair("fold", "stride", stride)
    pads, gaps = pair("fold", "padding", padding, 0), pair("fold", "dilation", dilation)
    check_kernel("fold", size, kernel, strides, pads, gaps)
    counts, area = window_counts(size, kernel, strides, pads, gaps), kernel[0] * kernel[1]
    length = counts[0] * counts[1]
    if x.shape[-1] != length or x.shape[-2] % area:
        raise ShapeError(
            f"fold() got x of shape {x.shape} for images of {size[0]} × {size[1]}; with {counts[0]} × {counts[1]} "
            f"windows of {kernel[0]} × {kernel[1]}, expected a last dim of {length}, and a dim before it divisible by "
            f"{area}"
        )
    device: Any = x.device
    n, c = x.shape[0] if x.ndim == 3 else 1, x.shape[-2] // area
    columns = device.reshape(x._primitive, (n, c, area, *counts))
    shape = (n, c, *size)
    whole = padded_shape(shape, kernel, strides, pads, gaps, counts)
    total = device.full(whole, 0.0, x.dtype)
    everything = slice(None, None, 1)
    for k, key in enumerate(window_keys(kernel, strides, gaps, counts)):
        total = device.accumulate_slice(total, key, device.slice(columns, (everything, everything, k)))
    out = x._like(total if whole == shape else device.slice(total, inside(shape, pads)))
    return out if x.ndim == 3 else out.squeeze(0)


def dims_of(operation: str) -> int:
    """Return the number of dimensions that windows have, which the end of the operation's name says: 1, 2 or 3."""
    return int(operation[-2])


def form_of(dims: int) -> str:
    """Return the names of the sizes of sequences (``dims`` 1), images (2) or volumes (3)."""
    return _FORMS[dims][0]


def sizes_of(operation: str, name: str, value: Any, least: int = 1) -> tuple[int, ...]:
    """Convert a size to ints for images, sequences being images of height 1, or for volumes.

    Raises:
        ArgumentError: the numbers are too many, too few or too small.

    >>> sizes_of("max_pool1d", "stride", 2), sizes_of("max_pool2d", "stride", 2), sizes_of("max_pool3d", "stride", 2)
    ((1, 2), (2, 2), (2, 2, 2))
    """
    return _SIZES[operation[-2:]](operation, name, value, least)


def check_form(operation: str, shape: Shape, dims: int, channels: str = "channels") -> None:
    """Check that a shape describes a batch of sequences (``dims`` 1), images (2) or volumes (3), or one without N.

    Raises:
        ShapeError: it has another number of dimensions.
    """
    if len(shape) not in (dims + 1, dims + 2):
        sizes, word = _FORMS[dims]
        raise ShapeError(
            f"{operation}() got x of shape {shape}, expected (N, {channels}, {sizes}), or ({channels}, {sizes}) for "
            f"one {word}"
        )


def batch_of(x: Tensor[B], dims: int) -> Tensor[B]:
    """Return images (``dims`` 2) or volumes (3) as a batch, adding N = 1 to a single one."""
    return x.unsqueeze(0) if x.ndim == dims + 1 else x


def check_kernel(
    operation: str,
    shape: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    ceil_mode: bool = False,
) -> None:
    """Check that the kernel fits into padded images or volumes of a shape.

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
        sizes = shape[-len(kernel) :]
        wide = tuple(size + 2 * pad for size, pad in zip(sizes, padding, strict=True))
        reach = tuple(gap * (size - 1) + 1 for gap, size in zip(dilation, kernel, strict=True))
        raise ShapeError(
            f"{operation}() got {_FORMS[len(kernel)][1]}s of {by(sizes)}, padded {by(wide)}, and its kernel covers "
            f"{by(reach)}; take a smaller kernel or more padding"
        )


def by(sizes: Shape) -> str:
    """Return sizes as they are written: 2 × 3."""
    return " × ".join(map(str, sizes))


def as_batch(operation: str, x: Tensor[B]) -> Tensor[B]:
    """Return sequences or images as a batch of images, and volumes as a batch; the operation's name says which it is.

    Raises:
        KindError: x is not a float tensor.
        ShapeError: x has another number of dimensions.
    """
    (x,) = floats(operation, 1, x=x)
    dims = dims_of(operation)
    check_form(operation, x._primitive.shape, dims)
    return batch_of(x, 3) if dims == 3 else batch_of(x.unsqueeze(-2) if dims == 1 else x, 2)


def as_given(operation: str, x: Tensor[Any], pooled: Pooled) -> Pooled:
    """Return a batch of pooled images or volumes in the form of x: as sequences, or without N, if x has that form."""
    dims = dims_of(operation)
    out: Any = pooled.squeeze(-2) if dims == 1 else pooled  # type: ignore[attr-defined]  # every tensor has it
    return out if x.ndim == dims + 2 else out.squeeze(0)  # type: ignore[no-any-return]  # of its class


def checked_windows(
    operation: str,
    batch: Tensor[Any],
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
    ceil_mode: bool,
) -> tuple[Shape, Shape, Shape, Shape]:
    """Return kernel size, stride, padding and dilation for each dimension, after a check that the windows fit.

    Raises:
        ShapeError: the images are smaller than a window.
        ArgumentError: a setting is invalid.
    """
    kernel = sizes_of(operation, "kernel_size", kernel_size)
    strides = kernel if stride is None else sizes_of(operation, "stride", stride)
    pads, gaps = sizes_of(operation, "padding", padding, 0), sizes_of(operation, "dilation", dilation)
    if any(2 * pad > size for pad, size in zip(pads, kernel, strict=True)):
        pad, window = (pads[1], kernel[1]) if dims_of(operation) == 1 else (pads, kernel)
        raise ArgumentError(
            f"{operation}() got padding={pad} for a window of {window}; expected at most half of the window"
        )
    check_kernel(operation, batch.shape, kernel, strides, pads, gaps, bool(ceil_mode))
    return kernel, strides, pads, gaps
