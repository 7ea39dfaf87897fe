"""Pooling of sequences: that of images of height 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar, overload

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError
from burnpy.nn.functional.checks import floats
from burnpy.nn.functional.pooling import avg_pool2d, max_pool2d
from burnpy.nn.functional.windows import refuse_no_sequences, refuse_too_small
from burnpy.nn.sizes import Single, single
from burnpy.tensor.call_errors import explained

if TYPE_CHECKING:
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


@overload
def max_pool1d(
    x: Tensor[B],
    kernel_size: Single,
    *,
    stride: Single | None = None,
    padding: Single = 0,
    dilation: Single = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor[B]: ...
@overload
def max_pool1d(
    x: Tensor[B],
    kernel_size: Single,
    *,
    stride: Single | None = None,
    padding: Single = 0,
    dilation: Single = 1,
    ceil_mode: bool = False,
    return_indices: Literal[True],
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def max_pool1d(
    x: Tensor[B],
    kernel_size: Single,
    *,
    stride: Single | None = None,
    padding: Single = 0,
    dilation: Single = 1,
    ceil_mode: bool = False,
    return_indices: bool,
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]: ...
@explained
def max_pool1d(
    x: Tensor[B],
    kernel_size: Single,
    *,
    stride: Single | None = None,
    padding: Single = 0,
    dilation: Single = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Max pooling of sequences: the maximum of each window, as `max_pool2d` of images.

    Args:
        x: shape (N, channels, length), or (channels, length) for a single sequence.
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        padding: implicit padding with -inf at each end; at most half of the window.
        dilation: the step between elements of a window.
        ceil_mode: whether the last window may extend beyond the sequence.
        return_indices: whether to return the index of each maximum in its sequence as well.

    Returns:
        Shape (N, channels, length'), or without N for a single sequence; with indices of the same shape.

    Raises:
        ShapeError: x has another number of dimensions, or is smaller than a window.
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> max_pool1d(Tensor[NumPy].from_data([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[3.0, 2.0]]
    """
    size, step, pad = _window("max_pool1d", kernel_size, stride, padding)
    gap = single("max_pool1d", "dilation", dilation)
    images = _images("max_pool1d", x, size, step, pad, gap, ceil_mode)
    out = max_pool2d(
        images,
        (1, size),
        stride=(1, step),
        padding=(0, pad),
        dilation=(1, gap),
        ceil_mode=ceil_mode,
        return_indices=return_indices,
    )
    return (out[0].squeeze(-2), out[1].squeeze(-2)) if isinstance(out, tuple) else out.squeeze(-2)


@explained
def avg_pool1d(
    x: Tensor[B],
    kernel_size: Single,
    *,
    stride: Single | None = None,
    padding: Single = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor[B]:
    """Average pooling of sequences: the mean of each window.

    Args:
        x: shape (N, channels, length), or (channels, length) for a single sequence.
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        padding: zeros added at each end; at most half of the window.
        ceil_mode: whether the last window may extend beyond the sequence.
        count_include_pad: whether padding counts as elements of a window.

    Returns:
        Shape (N, channels, length'), or without N for a single sequence.

    Raises:
        ShapeError: x has another number of dimensions, or is smaller than a window.
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> avg_pool1d(Tensor[NumPy].from_data([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[2.0, 1.0]]
    """
    size, step, pad = _window("avg_pool1d", kernel_size, stride, padding)
    images = _images("avg_pool1d", x, size, step, pad, 1, ceil_mode)
    return avg_pool2d(
        images,
        (1, size),
        stride=(1, step),
        padding=(0, pad),
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    ).squeeze(-2)


def _window(operation: str, kernel_size: Single, stride: Single | None, padding: Single) -> tuple[int, int, int]:
    """Return kernel size, stride and padding of a pool as ints, validated."""
    size = single(operation, "kernel_size", kernel_size)
    step = size if stride is None else single(operation, "stride", stride)
    pad = single(operation, "padding", padding, 0)
    if 2 * pad > size:
        raise ArgumentError(
            f"{operation}() was given padding={pad} for a window of {size}; it is at most half of the window"
        )
    return size, step, pad


def _images(operation: str, x: Tensor[B], size: int, step: int, pad: int, gap: int, ceil_mode: bool) -> Tensor[B]:
    """Return sequences, checked against a window, as images of height 1."""
    (x,) = floats(operation, 1, x=x)
    refuse_no_sequences(operation, x.shape)
    images = x.unsqueeze(-2)
    refuse_too_small(operation, images.shape, (1, size), (1, step), (0, pad), (1, gap), bool(ceil_mode))
    return images
