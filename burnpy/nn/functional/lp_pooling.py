"""Pooling of sequences, images and volumes by norms: the p-norm of each window, from the mean of powers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.nn.argument_checks import Pair, Single, Size, Triple, above_zero, floats
from burnpy.nn.functional.pooling import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from burnpy.nn.functional.windows import dims_of, sizes_of
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.tensor.tensor import Tensor


@explained
def lp_pool1d(
    x: Tensor[B], norm_type: float, kernel_size: Single, *, stride: Single | None = None, ceil_mode: bool = False
) -> Tensor[B]:
    """Compute the p-norm of each window of sequences, as `lp_pool2d` of images.

    x has shape (N, channels, length), or (channels, length) for a single sequence. The result has shape (N, channels,
    length'), or without N for a single sequence. Other arguments and the errors are those of `lp_pool2d`.

    >>> lp_pool1d(Tensor[NumPy].from_data([[3.0, 4.0, 0.0, 0.0]]), 2.0, 2).tolist()
    [[5.0, 0.0]]
    """
    return _lp_pool("lp_pool1d", x, norm_type, kernel_size, stride, ceil_mode)


@explained
def lp_pool2d(
    x: Tensor[B], norm_type: float, kernel_size: Pair, *, stride: Pair | None = None, ceil_mode: bool = False
) -> Tensor[B]:
    """Compute the p-norm of each window of images, ``(Σ xᵖ)^(1/p)``, as `torch.nn.functional.lp_pool2d`.

    Powers have the sign that the formula gives, so that an odd p may give the root of a negative sum, which is NaN. A
    window of zeros has gradient 0. A window that extends beyond the image counts as full: the mean of its powers takes
    the place of the others.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        norm_type: the power p, above 0; ``math.inf`` for the largest magnitude.
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        ceil_mode: whether the last window may extend beyond the image.

    Returns:
        Shape (N, channels, height', width'), or without N for a single image.

    Raises:
        ShapeError: x has another number of dimensions, or is smaller than a window.
        ArgumentError: a setting is invalid.

    Source: Gulcehre et al., Learned-Norm Pooling for Deep Feedforward and Recurrent Neural Networks, 2014.

    >>> lp_pool2d(Tensor[NumPy].from_data([[[3.0, 4.0], [0.0, 0.0]]]), 2.0, 2).tolist()
    [[[5.0]]]
    """
    return _lp_pool("lp_pool2d", x, norm_type, kernel_size, stride, ceil_mode)


@explained
def lp_pool3d(
    x: Tensor[B], norm_type: float, kernel_size: Triple, *, stride: Triple | None = None, ceil_mode: bool = False
) -> Tensor[B]:
    """Compute the p-norm of each window of volumes, as `lp_pool2d` of images.

    x has shape (N, channels, depth, height, width), or without N for a single volume. The result has shape (N,
    channels, depth', height', width'), or without N for a single volume. Other arguments and the errors are those of
    `lp_pool2d`.

    >>> lp_pool3d(Tensor[NumPy].ones((1, 2, 2, 4)), 1.0, 2).tolist()
    [[[[8.0, 8.0]]]]
    """
    return _lp_pool("lp_pool3d", x, norm_type, kernel_size, stride, ceil_mode)


_POOLS: dict[int, tuple[Callable[..., Any], Callable[..., Any]]] = {
    1: (max_pool1d, avg_pool1d),
    2: (max_pool2d, avg_pool2d),
    3: (max_pool3d, avg_pool3d),
}
"""The maximum and the mean of windows of sequences, images and volumes."""


def _lp_pool(
    operation: str, x: Tensor[B], norm_type: float, kernel_size: Size, stride: Size | None, ceil_mode: bool
) -> Tensor[B]:
    """Return the norms of windows."""
    (x,) = floats(operation, 1, x=x)
    above_zero(operation, norm_type=norm_type)
    maxima, averages = _POOLS[dims_of(operation)]
    if norm_type == math.inf:
        return maxima(x.abs(), kernel_size, stride=stride, ceil_mode=ceil_mode)  # type: ignore[no-any-return]  # a Tensor
    means: Tensor[B] = averages(x.pow(norm_type), kernel_size, stride=stride, ceil_mode=ceil_mode)
    total = means * float(math.prod(sizes_of(operation, "kernel_size", kernel_size)))
    zero = total == 0.0  # where a root would have an infinite derivative
    return total.where(~zero, 1.0).pow(1.0 / norm_type).where(~zero, 0.0)
