"""Unpooling: the inverse of max pooling, which puts each maximum back at its index, among zeros."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import (
    Pair,
    Single,
    Size,
    Triple,
    check_form,
    floats,
    layer_size,
    single,
    sizes_of,
    times,
    wholes,
    window_dims,
)
from burnpy.nn.module import FunctionLayer
from burnpy.tensor.call_errors import explained, inherit_methods
from burnpy.tensor.operand_checks import in_range, index_of
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from collections.abc import Sequence

    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


@explained
def max_unpool1d(
    x: Tensor[B],
    indices: Ints[B],
    kernel_size: Single,
    *,
    stride: Single | None = None,
    padding: Single = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor[B]:
    """Put the maxima of sequences back at the indices of `max_pool1d`, as `max_unpool2d` those of images.

    x and ``indices`` have shape (N, channels, length), or (channels, length) for a single sequence. The result has
    shape (N, channels, length'), or without N for a single sequence. ``output_size`` is the length, or the whole shape;
    other arguments and the errors are those of `max_unpool2d`, with one number in place of two.

    >>> from burnpy.nn.functional import max_pool1d
    >>> x = Tensor[NumPy].from_data([[1.0, 3.0, 2.0, 0.0]])
    >>> max_unpool1d(*max_pool1d(x, 2, return_indices=True), 2).tolist()
    [[0.0, 3.0, 2.0, 0.0]]
    """
    return _max_unpool("max_unpool1d", x, indices, kernel_size, stride, padding, output_size)


@explained
def max_unpool2d(
    x: Tensor[B],
    indices: Ints[B],
    kernel_size: Pair,
    *,
    stride: Pair | None = None,
    padding: Pair = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor[B]:
    """Put the maxima of images back at their indices; all other elements are 0.

    If an index repeats in a plane, as windows that overlap may share their maximum, one of its values is written.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        indices: the indices of `max_pool2d`, of the same shape.
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        padding: the padding of `max_pool2d`.
        output_size: height and width of the output, or its whole shape: pooling gives the same size for several.

    Returns:
        Shape (N, channels, height', width'), or without N for a single image; height' is
        (height - 1) · stride - 2 · padding + kernel_size unless ``output_size`` is given.

    Raises:
        ShapeError: the shapes do not match.
        IndexRangeError: an index is not within the output.
        ArgumentError: a setting is invalid.

    Source: Zeiler, Taylor and Fergus, Adaptive Deconvolutional Networks for Mid and High Level Feature Learning, 2011.

    >>> from burnpy.nn.functional import max_pool2d
    >>> x = Tensor[NumPy].from_data([[[[1.0, 2.0], [4.0, 3.0]]]])
    >>> max_unpool2d(*max_pool2d(x, 2, return_indices=True), 2).tolist()
    [[[[0.0, 0.0], [4.0, 0.0]]]]
    """
    return _max_unpool("max_unpool2d", x, indices, kernel_size, stride, padding, output_size)


@explained
def max_unpool3d(
    x: Tensor[B],
    indices: Ints[B],
    kernel_size: Triple,
    *,
    stride: Triple | None = None,
    padding: Triple = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor[B]:
    """Put the maxima of volumes back at the indices of `max_pool3d`, as `max_unpool2d` those of images.

    x and ``indices`` have shape (N, channels, depth, height, width), or without N for a single volume. The result has
    shape (N, channels, depth', height', width'), or without N for a single volume. Other arguments and the errors are
    those of `max_unpool2d`, with one number for all three dimensions or three.

    >>> from burnpy.nn.functional import max_pool3d
    >>> x = Tensor[NumPy].arange(0.0, 8.0).reshape(1, 1, 2, 2, 2)
    >>> max_unpool3d(*max_pool3d(x, 2, return_indices=True), 2).tolist()
    [[[[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 7.0]]]]]
    """
    return _max_unpool("max_unpool3d", x, indices, kernel_size, stride, padding, output_size)


def _max_unpool(
    operation: str,
    x: Tensor[B],
    indices: Ints[B],
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    output_size: Sequence[int] | None,
) -> Tensor[B]:
    """Return zeros with the elements of x at the indices of their planes."""
    (x,) = floats(operation, 1, x=x)
    dims, shape = window_dims(operation), x.shape
    check_form(operation, shape, dims)
    index = index_of(x, indices, operation)
    if index.shape != shape:
        raise ShapeError(f"{operation}() got x of shape {shape} and indices of shape {index.shape}; they must be equal")
    kernel = sizes_of(operation, "kernel_size", kernel_size)[-dims:]
    strides = kernel if stride is None else sizes_of(operation, "stride", stride)[-dims:]
    pads = sizes_of(operation, "padding", padding, 0)[-dims:]
    lead, places = shape[:-dims], shape[-dims:]
    sizes = tuple([(n - 1) * step - 2 * pad + k for n, step, pad, k in zip(places, strides, pads, kernel, strict=True)])
    if output_size is not None:
        sizes = _output_sizes(operation, output_size, lead, sizes, strides)
    if min(sizes) < 1:
        raise ShapeError(f"{operation}() got x of shape {shape}; its output would be empty, of size {times(sizes)}")
    device: Any = x._device
    flat = device.discrete.reshape(index, (*lead, prod(places)))
    area = prod(sizes)
    flat = in_range(device, flat, area, False, f"{operation}()", len(lead), (*lead, area))
    values = device.reshape(x._primitive, (*lead, prod(places)))
    zeros = device.expand(device.full((), 0.0, x.dtype), (*lead, area))
    out = device.scatter(zeros, len(lead), flat, values)
    return x._like(device.reshape(out, (*lead, *sizes)))


def _output_sizes(
    operation: str, output_size: Sequence[int], lead: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the sizes of a given output, which differ from ``sizes`` by less than the strides."""
    given = wholes(operation, "output_size", output_size)
    if len(given) == len(lead) + len(sizes) and given[: len(lead)] == lead:
        given = given[len(lead) :]
    within = [(n - step + 1, n + step - 1) for n, step in zip(sizes, strides, strict=True)]
    if len(given) != len(sizes) or not all(low <= n <= high for n, (low, high) in zip(given, within, strict=True)):
        least, most = zip(*within, strict=True)
        raise ArgumentError(
            f"{operation}() got output_size={describe(tuple(output_size))}; expected sizes from {times(least)} to "
            f"{times(most)}, which windows of this stride can have come from"
        )
    return tuple([single(operation, "output_size", n) for n in given])


@inherit_methods
class MaxUnpool(FunctionLayer):
    """The base class of the unpooling layers."""

    _settings = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Size, *, stride: Size | None = None, padding: Size = 0) -> None:
        self.kernel_size: Any = layer_size(self, "kernel_size", kernel_size)
        self.stride: Any = None if stride is None else layer_size(self, "stride", stride)
        self.padding: Any = layer_size(self, "padding", padding, 0)

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
    _function = staticmethod(max_unpool3d)
