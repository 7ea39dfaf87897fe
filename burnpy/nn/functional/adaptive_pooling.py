"""Adaptive pooling of sequences and images: windows chosen so that the output has a given size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from burnpy.backend.errors import ShapeError
from burnpy.nn.functional.checks import floats
from burnpy.nn.functional.windows import batch_of, refuse_no_images, refuse_no_sequences
from burnpy.nn.sizes import OutputPair, Single, output_pair, pair, single
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor, Tensor


@explained
def adaptive_avg_pool1d(x: Tensor[B], output_size: Single) -> Tensor[B]:
    """Adaptive average pooling of sequences: the means of windows chosen so that the output has ``output_size``.

    Args:
        x: shape (N, channels, length), or (channels, length) for a single sequence.
        output_size: the length of the output.

    Returns:
        Shape (N, channels, output_size), or without N for a single sequence.

    Raises:
        ShapeError: x has another number of dimensions.
        ArgumentError: the size is not positive.
    """
    (x,) = floats("adaptive_avg_pool1d", 1, x=x)
    refuse_no_sequences("adaptive_avg_pool1d", x.shape)
    size = single("adaptive_avg_pool1d", "output_size", output_size)
    return adaptive_avg_pool2d(x.unsqueeze(-2), (1, size)).squeeze(-2)


@explained
def adaptive_avg_pool2d(x: Tensor[B], output_size: OutputPair) -> Tensor[B]:
    """Adaptive average pooling: the means of windows chosen so that the output has ``output_size``.

    The windows have equal size, or nearly.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        output_size: height and width of the output; 1 for the mean of each image, None for the size of the input.

    Returns:
        Shape (N, channels, *output_size), or without N for a single image.

    Raises:
        ShapeError: x has another number of dimensions.
        ArgumentError: a size is not positive.
    """
    (x,) = floats("adaptive_avg_pool2d", 1, x=x)
    refuse_no_images("adaptive_avg_pool2d", x.shape)
    size = _size("adaptive_avg_pool2d", x, output_size)
    device: Any = x.device
    out = x._like(device.adaptive_avg_pool2d(batch_of(x)._primitive, size))
    return out if x.ndim == 4 else out.squeeze(0)


@overload
def adaptive_max_pool1d(x: Tensor[B], output_size: Single, *, return_indices: Literal[False] = False) -> Tensor[B]: ...
@overload
def adaptive_max_pool1d(
    x: Tensor[B], output_size: Single, *, return_indices: Literal[True]
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def adaptive_max_pool1d(
    x: Tensor[B], output_size: Single, *, return_indices: bool
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]: ...
@explained
def adaptive_max_pool1d(
    x: Tensor[B], output_size: Single, *, return_indices: bool = False
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Adaptive max pooling of sequences: the maxima of windows chosen so that the output has ``output_size``.

    Args:
        x: shape (N, channels, length), or (channels, length) for a single sequence.
        output_size: the length of the output.
        return_indices: whether to return the index of each maximum in its sequence as well.

    Returns:
        Shape (N, channels, output_size), or without N for a single sequence; with indices of the same shape.

    Raises:
        ShapeError: x has another number of dimensions, or no elements to choose from.
        ArgumentError: the size is not positive.
    """
    (x,) = floats("adaptive_max_pool1d", 1, x=x)
    refuse_no_sequences("adaptive_max_pool1d", x.shape)
    size = single("adaptive_max_pool1d", "output_size", output_size)
    values, indices = _maxima("adaptive_max_pool1d", x.unsqueeze(-2), (1, size))
    return (values.squeeze(-2), indices.squeeze(-2)) if return_indices else values.squeeze(-2)


@overload
def adaptive_max_pool2d(
    x: Tensor[B], output_size: OutputPair, *, return_indices: Literal[False] = False
) -> Tensor[B]: ...
@overload
def adaptive_max_pool2d(
    x: Tensor[B], output_size: OutputPair, *, return_indices: Literal[True]
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def adaptive_max_pool2d(
    x: Tensor[B], output_size: OutputPair, *, return_indices: bool
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]: ...
@explained
def adaptive_max_pool2d(
    x: Tensor[B], output_size: OutputPair, *, return_indices: bool = False
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Adaptive max pooling: the maxima of windows chosen so that the output has ``output_size``.

    The windows are those of `adaptive_avg_pool2d`. Of equal maxima the first has the gradient; a window with NaN gives
    NaN.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        output_size: height and width of the output; 1 for the maximum of each image, None for the size of the input.
        return_indices: whether to return the flat, row-major index of each maximum in its plane as well.

    Returns:
        Shape (N, channels, *output_size), or without N for a single image; with indices of the same shape.

    Raises:
        ShapeError: x has another number of dimensions, or no elements to choose from.
        ArgumentError: a size is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> adaptive_max_pool2d(Tensor[NumPy].arange(9).reshape(1, 3, 3), 2).tolist()
    [[[4.0, 5.0], [7.0, 8.0]]]
    """
    (x,) = floats("adaptive_max_pool2d", 1, x=x)
    refuse_no_images("adaptive_max_pool2d", x.shape)
    values, indices = _maxima("adaptive_max_pool2d", x, _size("adaptive_max_pool2d", x, output_size))
    return (values, indices) if return_indices else values


def _size(operation: str, x: Tensor[Any], output_size: OutputPair) -> tuple[int, int]:
    """Return the height and width of the output; None keeps the size of x."""
    high, wide = output_pair(operation, output_size)
    if high is None or wide is None:  # whose size may be 0
        return pair(operation, "output_size", (high or x.shape[-2], wide or x.shape[-1]))
    return high, wide


def _maxima(operation: str, x: Tensor[B], size: tuple[int, int]) -> tuple[Tensor[B], IntTensor[B]]:
    """Return the maxima of adaptive windows of the last two dims, and their flat indices in the plane."""
    lead, (high, wide) = x.shape[:-2], x.shape[-2:]
    if not high or not wide:
        raise ShapeError(f"{operation}() got x of shape {x.shape}, which has no elements to choose from")
    b: Any = x._backend
    planes = x if len(lead) == 2 else x.unsqueeze(0)
    index = b.adaptive_max_pool2d_indices(planes._primitive, size)
    flat = b.discrete.reshape(index, (*planes.shape[:2], size[0] * size[1]))
    values = x._like(b.gather(planes.flatten(2)._primitive, 2, flat)).reshape((*lead, *size))
    return values, x._int(b.discrete.reshape(index, (*lead, *size)))
