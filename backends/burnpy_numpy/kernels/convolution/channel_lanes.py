"""Convolutions whose vectors are of neighbouring channels: when they are used (measured), and their groups.

The alternative is vectors of neighbours in a row: see `images`. They are not used well if rows are short, and read
the planes of many channels far apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.primitives import Shape
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.convolution.blocked import convolve_blocks
from burnpy_numpy.kernels.convolution.blocked_depthwise import convolve_depthwise, depthwise_weight_gradient
from burnpy_numpy.kernels.convolution.blocked_weight_gradient import weight_gradient_of_blocks
from burnpy_numpy.kernels.convolution.epilogues import Epilogue
from burnpy_numpy.kernels.convolution.tiles import Where
from burnpy_numpy.kernels.convolution.windows import row_efficiency

if TYPE_CHECKING:
    from burnpy_array import ArrayBackend

_LANES, _ALWAYS, _FEW = 32, 256, 8
"""The numbers of channels from which vectors of channels may take less time; from which they always do; and from which
they do for the gradient by the input of a strided convolution."""
_FORWARD, _WEIGHT = 1.05, 0.9
"""The time with vectors of channels relative to vectors of neighbours in a row, if all lanes of both are used."""


def convolve_lanes(
    b: ArrayBackend,
    x: Any,
    weight: Any,
    bias: Any,
    shape: Shape,
    where: Where,
    groups: int,
    backward: bool,
    out: Any = None,
    epilogue: Epilogue | None = None,
) -> Any:
    """Return a convolution, or its gradient by the input; None if another way takes less time.

    Args:
        b: the device.
        x: the input, or the gradient by the result.
        weight: the weight.
        bias: the bias, or None.
        shape: the shape of the result.
        where: stride, padding and dilation.
        groups: the number of groups.
        backward: whether to compute the gradient by the input.
        out: C-contiguous memory for the result; new memory if None.
        epilogue: what follows.
    """
    if not uses_lanes(x, shape, where, groups, backward):
        return None
    if out is None:
        out = np.empty(shape, x.dtype)
    convolve = convolve_depthwise if _is_depthwise(x, shape, groups) else convolve_blocks
    return b._call(_convolve, convolve, x, weight, bias, out, where, groups, backward, epilogue)


def uses_lanes(x: Any, shape: Shape, where: Where, groups: int, backward: bool) -> bool:
    """Return whether vectors of channels take less time; for the arguments see `convolve_lanes`."""
    channels, depth, strided = shape[1] // groups, x.shape[1] // groups, where[0] != (1, 1)
    if _is_depthwise(x, shape, groups):
        return groups >= _FEW and ((backward and strided) or _is_short(shape[3], x))
    least = min(depth, channels)
    return (backward and strided and least >= _FEW) or better_by_channels(least, channels, shape[3], x)


def _is_depthwise(x: Any, shape: Shape, groups: int) -> bool:
    """Return whether each channel is convolved by itself."""
    return bool(shape[1] == x.shape[1] == groups)


def weight_gradient_lanes(b: ArrayBackend, grad: Any, x: Any, shape: Shape, where: Where, groups: int) -> Any:
    """Return the gradient by the weight, of a shape; None if another way takes less time; see `convolve_lanes`."""
    row = grad.shape[3]
    if shape[0] == groups == x.shape[1]:
        many = groups >= _FEW and _is_short(row if where[0] != (1, 1) else 2 * row - 1, x)
        gradient = depthwise_weight_gradient
    else:
        many = better_by_channels(shape[1], shape[1], row, x, _WEIGHT)
        gradient = weight_gradient_of_blocks
    return b._call(_weight_gradient, gradient, grad, x, shape, where, groups) if many else None


def better_by_channels(least: int, lanes: int, row: int, x: Any, cost: float = _FORWARD) -> bool:
    """Return whether vectors of channels take less time than vectors of neighbours in a row.

    Args:
        least: the least number of channels that are multiplied with each other.
        lanes: the number of channels that are lanes.
        row: the length of a row of the result.
        x: an array, for its dtype.
        cost: the time of vectors of channels, if all lanes are used.
    """
    used = lanes / (-(-lanes // _LANES) * _LANES)
    return least >= _LANES and (least >= _ALWAYS or row_efficiency(row, x.itemsize) * cost < used)


def _is_short(row: int, x: Any) -> bool:
    """Return whether a row of the result does not fill a vector."""
    return row * int(x.itemsize) < target().vector


def _convolve(
    convolve: Callable[..., bool],
    x: Any,
    weight: Any,
    bias: Any,
    out: Any,
    where: Where,
    groups: int,
    backward: bool,
    epilogue: Epilogue | None,
) -> Any:
    """Return the result of a function such as `convolve_blocks` for all groups, ``out``; None if one has none."""
    x, weight = np.ascontiguousarray(x), np.ascontiguousarray(weight)
    if groups == 1 or convolve is convolve_depthwise:
        return out if convolve(x, weight, bias, out, where, backward, epilogue) else None
    biases = [None] * groups if bias is None else np.split(bias, groups)
    each = out.shape[1] // groups
    for k, parts in enumerate(
        zip(np.split(x, groups, 1), np.split(weight, groups), biases, np.split(out, groups, 1), strict=True)
    ):
        if not convolve(*parts, where, backward, None if epilogue is None else epilogue.part(0, k * each)):
            return None
    return out


def _weight_gradient(gradient: Callable[..., bool], grad: Any, x: Any, shape: Shape, where: Where, groups: int) -> Any:
    """Return the result of a function such as `weight_gradient_of_blocks` for all groups; None if one has none."""
    grad, x, out = np.ascontiguousarray(grad), np.ascontiguousarray(x), np.empty(shape, x.dtype)
    if groups == 1 or gradient is depthwise_weight_gradient:
        return out if gradient(grad, x, out, where) else None
    for parts in zip(np.split(grad, groups, 1), np.split(x, groups, 1), np.split(out, groups), strict=True):
        if not gradient(*parts, where):
            return None
    return out
