"""Pooling of sequences, images and volumes to a given size: maxima or means of windows of a suitable size.

A sequence is pooled as an image of height 1, and a volume in two passes: over height and width, then over the depth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, overload

from burnpy.backend.errors import ShapeError
from burnpy.nn.argument_checks import OutputSize, as_batch, as_given, output_sizes, sizes_of, window_dims
from burnpy.nn.layers.max_pooling import MaxPooling, Pooling
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.primitives import Shape
    from burnpy.tensor.tensor import IntTensor, Tensor


@explained
def adaptive_avg_pool1d(x: Tensor[B], output_size: OutputSize) -> Tensor[B]:
    """Compute the means of windows of sequences for an output of a given length: see `adaptive_avg_pool2d`.

    x has shape (N, channels, length), or (channels, length) for a single sequence. The result has shape (N, channels,
    output_size), or without N for a single sequence.

    >>> adaptive_avg_pool1d(Tensor[NumPy].from_data([[1.0, 3.0, 5.0, 9.0]]), 2).tolist()
    [[2.0, 7.0]]
    """
    return _adaptive_avg_pool("adaptive_avg_pool1d", x, output_size)


@explained
def adaptive_avg_pool2d(x: Tensor[B], output_size: OutputSize) -> Tensor[B]:
    """Compute the means of windows of images, chosen so that the output has ``output_size``.

    The windows have equal size, or nearly.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        output_size: height and width of the output; 1 for the mean of each image, None for the size of the input.

    Returns:
        Shape (N, channels, *output_size), or without N for a single image.

    Raises:
        ShapeError: x has another number of dimensions, or images without elements.
        ArgumentError: a size is not positive.

    >>> x = Tensor[NumPy].arange(0.0, 16.0).reshape(1, 1, 4, 4)
    >>> adaptive_avg_pool2d(x, 2).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """
    return _adaptive_avg_pool("adaptive_avg_pool2d", x, output_size)


@explained
def adaptive_avg_pool3d(x: Tensor[B], output_size: OutputSize) -> Tensor[B]:
    """Compute the means of windows of volumes for an output of a given size: see `adaptive_avg_pool2d`.

    x has shape (N, channels, depth, height, width), or without N for a single volume. The result has shape (N,
    channels, *output_size), or without N for a single volume.

    >>> adaptive_avg_pool3d(Tensor[NumPy].arange(8).reshape(1, 2, 2, 2), (1, 1, None)).tolist()
    [[[[3.0, 4.0]]]]
    """
    return _adaptive_avg_pool("adaptive_avg_pool3d", x, output_size)


@overload
def adaptive_max_pool1d(
    x: Tensor[B], output_size: OutputSize, *, return_indices: Literal[False] = False
) -> Tensor[B]: ...
@overload
def adaptive_max_pool1d(
    x: Tensor[B], output_size: OutputSize, *, return_indices: Literal[True]
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def adaptive_max_pool1d(
    x: Tensor[B], output_size: OutputSize, *, return_indices: bool
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]: ...
@explained
def adaptive_max_pool1d(
    x: Tensor[B], output_size: OutputSize, *, return_indices: bool = False
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Compute the maxima of windows of sequences for an output of a given length: see `adaptive_max_pool2d`.

    x has shape (N, channels, length), or (channels, length) for a single sequence. The result has shape (N, channels,
    output_size), or without N for a single sequence, as do the indices, which count within a sequence.

    >>> adaptive_max_pool1d(Tensor[NumPy].from_data([[1.0, 3.0, 5.0, 9.0]]), 2).tolist()
    [[3.0, 9.0]]
    """
    return _adaptive_max_pool("adaptive_max_pool1d", x, output_size, return_indices)


@overload
def adaptive_max_pool2d(
    x: Tensor[B], output_size: OutputSize, *, return_indices: Literal[False] = False
) -> Tensor[B]: ...
@overload
def adaptive_max_pool2d(
    x: Tensor[B], output_size: OutputSize, *, return_indices: Literal[True]
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def adaptive_max_pool2d(
    x: Tensor[B], output_size: OutputSize, *, return_indices: bool
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]: ...
@explained
def adaptive_max_pool2d(
    x: Tensor[B], output_size: OutputSize, *, return_indices: bool = False
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Compute the maxima of windows of images, chosen so that the output has ``output_size``.

    The windows are the same as for `adaptive_avg_pool2d`. Among equal maxima the first has the gradient; a window with
    NaN gives NaN.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        output_size: height and width of the output; 1 for the maximum of each image, None for the size of the input.
        return_indices: whether to return the flat, row-major index of each maximum in its plane as well.

    Returns:
        Shape (N, channels, *output_size), or without N for a single image; with indices of the same shape.

    Raises:
        ShapeError: x has another number of dimensions, or no elements to choose from.
        ArgumentError: a size is not positive.

    >>> adaptive_max_pool2d(Tensor[NumPy].arange(9).reshape(1, 3, 3), 2).tolist()
    [[[4.0, 5.0], [7.0, 8.0]]]
    """
    return _adaptive_max_pool("adaptive_max_pool2d", x, output_size, return_indices)


@overload
def adaptive_max_pool3d(
    x: Tensor[B], output_size: OutputSize, *, return_indices: Literal[False] = False
) -> Tensor[B]: ...
@overload
def adaptive_max_pool3d(
    x: Tensor[B], output_size: OutputSize, *, return_indices: Literal[True]
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def adaptive_max_pool3d(
    x: Tensor[B], output_size: OutputSize, *, return_indices: bool
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]: ...
@explained
def adaptive_max_pool3d(
    x: Tensor[B], output_size: OutputSize, *, return_indices: bool = False
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Compute the maxima of windows of volumes for an output of a given size: see `adaptive_max_pool2d`.

    x has shape (N, channels, depth, height, width), or without N for a single volume. The result has shape (N,
    channels, *output_size), or without N for a single volume, as do the indices, which are flat and row-major in a
    volume.

    >>> adaptive_max_pool3d(Tensor[NumPy].arange(8).reshape(1, 2, 2, 2), (1, 1, None)).tolist()
    [[[[6.0, 7.0]]]]
    """
    return _adaptive_max_pool("adaptive_max_pool3d", x, output_size, return_indices)


def _adaptive_avg_pool(operation: str, x: Tensor[B], output_size: OutputSize) -> Tensor[B]:
    """Return the means of windows that fit the size of the output."""
    batch = as_batch(operation, x)
    device: Any = batch._device
    size, values = _output_size(operation, batch, output_size), batch._primitive
    if 0 in batch.shape[2:]:
        raise ShapeError(f"{operation}() got x of shape {x.shape}, which has no elements to average")
    if len(size) == 3:
        n, c, deep, high, wide = values.shape
        planes = device.adaptive_avg_pool2d(device.reshape(values, (n, c * deep, high, wide)), size[1:])
        area = size[1] * size[2]
        columns = device.adaptive_avg_pool2d(device.reshape(planes, (n, c, deep, area)), (size[0], area))
        values = device.reshape(columns, (n, c, *size))
    else:
        values = device.adaptive_avg_pool2d(values, size)
    return as_given(operation, x, batch._like(values))


def _adaptive_max_pool(
    operation: str, x: Tensor[B], output_size: OutputSize, return_indices: bool
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Return the maxima of windows that fit the size of the output, and their indices if ``return_indices``."""
    batch = as_batch(operation, x)
    size, (n, channels, *sizes) = _output_size(operation, batch, output_size), batch.shape
    if 0 in sizes:
        raise ShapeError(f"{operation}() got x of shape {x.shape}, which has no elements to choose from")
    device: Any = batch._device
    flat = _flat_indices(device, batch._primitive, size)
    elements = device.reshape(batch._primitive, (n, channels, math.prod(sizes)))
    shape = (n, channels, *size)
    out = as_given(operation, x, batch._like(device.reshape(device.gather(elements, 2, flat), shape)))
    if not return_indices:
        return out
    return out, as_given(operation, x, batch._int(device.discrete.reshape(flat, shape)))


def _flat_indices(device: Any, x: Any, size: Shape) -> Any:
    """Return the row-major index of the maximum of each window in its image or volume, of shape (N, channels, windows).
    The first of equal maxima in each plane, and then in the depth, is the first in row-major order."""
    d, (n, c, *sizes) = device.discrete, x.shape
    if len(sizes) == 2:
        return d.reshape(device.adaptive_max_pool2d_indices(x, size), (n, c, size[0] * size[1]))
    deep, high, wide = sizes
    area = size[1] * size[2]
    planes = device.reshape(x, (n, c * deep, high, wide))
    within = _flat_indices(device, planes, size[1:])
    maxima = device.gather(device.reshape(planes, (n, c * deep, high * wide)), 2, within)
    chosen = _flat_indices(device, device.reshape(maxima, (n, c, deep, area)), (size[0], area))
    within = d.gather(d.reshape(within, (n, c, deep * area)), 2, chosen)
    return d.add(d.mul(d.floor_divide(chosen, area), high * wide), within)


def _output_size(operation: str, batch: Tensor[Any], output_size: OutputSize) -> tuple[int, ...]:
    """Return the sizes of the output of adaptive pooling; None keeps the size of the input."""
    dims = window_dims(operation)
    sizes: tuple[Any, ...] = output_sizes(operation, output_size, dims)
    if None not in sizes:
        return (1, *sizes) if dims == 1 else sizes
    given = tuple(size or n for size, n in zip(sizes, batch.shape[-dims:], strict=True))
    return sizes_of(operation, "output_size", given)  # the size of the input may be 0


class AdaptivePooling(Pooling):
    """The base class of pooling to a fixed output size."""

    _settings = ("output_size",)

    def __init__(self, output_size: OutputSize) -> None:
        dims = window_dims(self._function.__name__)
        sizes = output_sizes(type(self).__name__, output_size, dims)
        self.output_size: Any = sizes[0] if dims == 1 else sizes


class AdaptiveAvgPool1d(AdaptivePooling):
    """Average pooling of sequences to a fixed length: see `burnpy.nn.functional.adaptive_avg_pool1d`.

    >>> AdaptiveAvgPool1d(4)(Tensor[NumPy].ones((2, 3, 7))).shape
    (2, 3, 4)
    """

    output_size: int | None
    _function = staticmethod(adaptive_avg_pool1d)


class AdaptiveAvgPool2d(AdaptivePooling):
    """Average pooling of images to a fixed size: see `burnpy.nn.functional.adaptive_avg_pool2d`.

    >>> AdaptiveAvgPool2d((None, 1))(Tensor[NumPy].ones((2, 3, 7, 5))).shape
    (2, 3, 7, 1)
    """

    output_size: tuple[int | None, ...]
    _function = staticmethod(adaptive_avg_pool2d)


class AdaptiveAvgPool3d(AdaptivePooling):
    """Average pooling of volumes to a fixed size: see `burnpy.nn.functional.adaptive_avg_pool3d`.

    >>> AdaptiveAvgPool3d((None, 2, 1))(Tensor[NumPy].ones((2, 3, 7, 5, 4))).shape
    (2, 3, 7, 2, 1)
    """

    output_size: tuple[int | None, ...]
    _function = staticmethod(adaptive_avg_pool3d)


class AdaptiveMaxPool1d(AdaptivePooling, MaxPooling):
    """Max pooling of sequences to a fixed length: see `burnpy.nn.functional.adaptive_max_pool1d`.

    >>> AdaptiveMaxPool1d(4)(Tensor[NumPy].ones((2, 3, 7))).shape
    (2, 3, 4)
    """

    output_size: int | None
    _function = staticmethod(adaptive_max_pool1d)


class AdaptiveMaxPool2d(AdaptivePooling, MaxPooling):
    """Max pooling of images to a fixed size: see `burnpy.nn.functional.adaptive_max_pool2d`.

    >>> AdaptiveMaxPool2d(4)(Tensor[NumPy].ones((2, 3, 7, 5))).shape
    (2, 3, 4, 4)
    """

    output_size: tuple[int | None, ...]
    _function = staticmethod(adaptive_max_pool2d)


class AdaptiveMaxPool3d(AdaptivePooling, MaxPooling):
    """Max pooling of volumes to a fixed size: see `burnpy.nn.functional.adaptive_max_pool3d`.

    >>> AdaptiveMaxPool3d((None, 2, 1))(Tensor[NumPy].ones((2, 3, 7, 5, 4))).shape
    (2, 3, 7, 2, 1)
    """

    output_size: tuple[int | None, ...]
    _function = staticmethod(adaptive_max_pool3d)
