"""Sliding windows over the last dimensions: their number, and the positions of their elements.

Results are cached: they depend on sizes alone, which rarely change from call to call, and take longer to compute than
a small product.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias

from burnpy.backend.primitives import Float, Key, Scalar, Shape

Pair: TypeAlias = tuple[int, int]
"""A pair of numbers: for the height and for the width."""

_ALL = slice(None, None, 1)


def window_count(
    size: int, kernel: int, stride: int, padding: int = 0, dilation: int = 1, ceil_mode: bool = False
) -> int:
    """Return the number of windows along a dimension; 0 or less if none fits.

    Args:
        size: the size of the dimension.
        kernel: the number of elements of a window.
        stride: the distance from one window to the next.
        padding: elements added at both ends.
        dilation: the distance from one element of a window to the next.
        ceil_mode: whether a last window may reach beyond the padding, as long as it does not begin there.

    >>> window_count(7, 3, 2), window_count(8, 3, 2, ceil_mode=True), window_count(5, 3, 1, padding=1)
    (3, 4, 5)
    """
    reach = size + 2 * padding - dilation * (kernel - 1) - 1
    count = -(-reach // stride) + 1 if ceil_mode else reach // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    return count


@lru_cache(maxsize=1024)
@lru_cache(maxsize=1024)
def window_counts(
    shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool = False
) -> Shape:
    """Return the number of windows along each of the last dimensions of ``shape``, as many as ``kernel`` has."""
    return tuple(
        [
            window_count(*sizes, ceil_mode)
            for sizes in zip(shape[-len(kernel) :], kernel, stride, padding, dilation, strict=True)
        ]
    )


@lru_cache(maxsize=1024)
def window_keys(kernel: Shape, stride: Shape, dilation: Shape, counts: Shape) -> tuple[Key, ...]:
    """Return, for each element of a window in row-major order, the key of that element of all windows of a padded array
    with two leading dimensions."""
    places = [
        [slice(k * gap, k * gap + (count - 1) * step + 1, step) for k in range(size)]
        for size, step, gap, count in zip(kernel, stride, dilation, counts, strict=True)
    ]
    return tuple((_ALL, _ALL, *key) for key in product(*places))


@lru_cache(maxsize=1024)
def padded_shape(shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, counts: Shape) -> Shape:
    """Return the shape that holds all windows: the padded shape, or larger if a window extends beyond the padding."""
    dims = len(kernel)
    sizes = zip(shape[-dims:], padding, counts, stride, kernel, dilation, strict=True)
    return (
        *shape[:-dims],
        *(max(size + 2 * pad, (n - 1) * step + (k - 1) * gap + 1) for size, pad, n, step, k, gap in sizes),
    )


@lru_cache(maxsize=1024)
def inside(shape: Shape, padding: Shape) -> Key:
    """Return the key of an array of ``shape`` within the padded array."""
    sizes = zip(padding, shape[-len(padding) :], strict=True)
    return (_ALL, _ALL, *(slice(pad, pad + size, 1) for pad, size in sizes))


def padded(b: Any, x: Float, shape: Shape, padding: Shape, value: Scalar) -> Float:
    """Return x at the offset ``padding`` within an array of ``shape`` that is filled with ``value``."""
    if x.shape == shape:
        return x
    return b.slice_scatter(b.full(shape, value, x.dtype), inside(x.shape, padding), x)
