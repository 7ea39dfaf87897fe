"""`affine_grid` and `grid_sample`: interpolation of images at computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.functional.checks import floats
from burnpy.nn.sizes import whole
from burnpy.tensor.base import describe
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import stack, where
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.int_tensor import IntTensor


_CUBIC = -0.75
_FAR = -(1 << 40)
"""The place of an element outside of the image, in elements: whatever is added to it, it stays negative."""


@explained
def grid_sample(
    x: Tensor[B],
    grid: Tensor[B],
    *,
    mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> Tensor[B]:
    """Images sampled at the positions of a grid, as `torch.nn.functional.grid_sample`.

    Args:
        x: shape (N, channels, height, width).
        grid: shape (N, height', width', 2): for each element of the output its position, x before y, from -1 (the left
            or upper edge) to 1.
        mode: the interpolation between elements.
        padding_mode: what lies beyond the edges: zeros, the nearest edge's element, or the image reflected.
        align_corners: whether -1 and 1 are the centres of the outermost elements; otherwise their outer edges.

    Returns:
        Shape (N, channels, height', width').

    Raises:
        ShapeError: the shapes do not match, or x has no elements.
        ArgumentError: a setting is invalid.

    Source: Jaderberg et al., Spatial Transformer Networks, 2015.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x, grid = Tensor[NumPy].arange(4).reshape(1, 1, 2, 2), Tensor[NumPy].zeros((1, 1, 1, 2))
    >>> grid_sample(x, grid).tolist()
    [[[[1.5]]]]
    """
    x, grid = floats("grid_sample", 2, x=x, grid=grid)
    shape, places = x.shape, grid.shape
    if len(shape) != 4 or len(places) != 4 or places[3] != 2 or shape[0] != places[0]:
        raise ShapeError(
            f"grid_sample() got x of shape {shape} and a grid of shape {places}; they are (N, channels, height, "
            "width) and (N, height', width', 2)"
        )
    if 0 in shape[2:]:
        raise ShapeError(f"grid_sample() got x of shape {shape}, which has no elements to sample")
    for name, value, words in (
        ("mode", mode, ("bilinear", "nearest", "bicubic")),
        ("padding_mode", padding_mode, ("zeros", "border", "reflection")),
    ):
        if value not in words:
            raise ArgumentError(f"grid_sample() got {name}={value!r:.80}; expected one of {', '.join(words)}")
    axes = [(grid[..., 0], shape[3]), (grid[..., 1], shape[2])]
    across, down = (_unnormalized(position, size, align_corners) for position, size in axes)
    if mode != "bicubic":
        across = _inside(across, shape[3], padding_mode, align_corners)
        down = _inside(down, shape[2], padding_mode, align_corners)
    rows, columns = _taps(down, mode), _taps(across, mode)
    if mode == "bicubic" and padding_mode != "zeros":
        rows = [(_inside(at, shape[2], padding_mode, align_corners), weight) for at, weight in rows]
        columns = [(_inside(at, shape[3], padding_mode, align_corners), weight) for at, weight in columns]
    n, taps, area = shape[0], len(rows), places[1] * places[2]
    rows_of = _offsets([at for at, _ in rows], shape[2])
    columns_of = _offsets([at for at, _ in columns], shape[3])
    at = (rows_of * shape[3]).reshape((n, taps, 1, area)) + columns_of.reshape((n, 1, taps, area))
    down_by, across_by = (stack([weight for _, weight in axis], 1) for axis in (rows, columns))
    weights = down_by.reshape((n, taps, 1, area)) * across_by.reshape((n, 1, taps, area))
    sizes = (n, taps * taps, area)
    out = x._backend.weighted_gather(
        x.flatten(2)._primitive, at.reshape(sizes)._primitive, weights.reshape(sizes)._primitive
    )
    return x._like(out).reshape((n, shape[1], *places[1:3]))


@explained
def affine_grid(theta: Tensor[B], size: Sequence[int], *, align_corners: bool = False) -> Tensor[B]:
    """The grid of an affine map of images, for `grid_sample`.

    Args:
        theta: shape (N, 2, 3), the matrices of the maps from positions in the output to those in the input.
        size: the shape of the output images, (N, channels, height, width).
        align_corners: as for `grid_sample`.

    Returns:
        Shape (N, height, width, 2).

    Raises:
        ShapeError: theta has another shape.
        ArgumentError: the size is not four positive numbers.
    """
    (theta,) = floats("affine_grid", 1, theta=theta)
    sizes = tuple([whole("affine_grid", "size", n) for n in size])
    if len(sizes) != 4 or min(sizes[1:]) < 1:
        raise ArgumentError(f"affine_grid() got size={describe(tuple(size))}; it is (N, channels, height, width)")
    if theta.shape != (sizes[0], 2, 3):
        raise ShapeError(
            f"affine_grid() got theta of shape {theta.shape}; for size={describe(sizes)} it is {(sizes[0], 2, 3)}"
        )
    high, wide = sizes[2:]
    across, down = (_axis(n, align_corners, theta) for n in (wide, high))
    across, down = across.expand((high, wide)), down.unsqueeze(1).expand((high, wide))
    base = stack([across, down, across.ones_like()], -1).reshape((1, high * wide, 3))
    return (base.expand((sizes[0], high * wide, 3)) @ theta.mT).reshape((sizes[0], high, wide, 2))


def _axis(count: int, align_corners: bool, like: Tensor[B]) -> Tensor[B]:
    """Return the positions of elements along a dimension, from -1 to 1; one element is in the middle."""
    reach = 0.0 if count == 1 else 1.0 if align_corners else 1.0 - 1.0 / count
    return Tensor.linspace(-reach, reach, count, dtype=like.dtype, device=like.device)


def _unnormalized(position: Tensor[B], size: int, align_corners: bool) -> Tensor[B]:
    """Return positions from -1 to 1 as positions from 0 to size - 1."""
    return (position + 1.0) * ((size - 1) / 2) if align_corners else (position + 1.0) * (size / 2) - 0.5


def _inside(position: Tensor[B], size: int, padding_mode: str, align_corners: bool) -> Tensor[B]:
    """Return positions moved into the image, unless zeros lie around it."""
    if padding_mode == "zeros":
        return position
    if padding_mode == "reflection":
        low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
        if span == 0.0:
            return position * 0.0
        distance = (position - low).abs()
        turns = (distance.detach() / span).floor()
        rest = distance - turns * span
        even = (turns % 2.0) == 0.0
        position = where(even, rest + low, span - rest + low)
    return position.clamp(0.0, float(size - 1))


def _taps(position: Tensor[B], mode: str) -> list[tuple[Tensor[B], Tensor[B]]]:
    """Return the places of the elements that a position depends on, whole numbers, and their weights."""
    if mode == "nearest":
        place = position.detach().round()
        return [(place, place.ones_like())]
    low = position.detach().floor()
    share = position - low
    if mode == "bilinear":
        return [(low, 1.0 - share), (low + 1.0, share)]
    distances = [share + 1.0, share, 1.0 - share, 2.0 - share]
    return [(low + float(k - 1), _cubic(d, near=k in (1, 2))) for k, d in enumerate(distances)]


def _cubic(distance: Tensor[B], *, near: bool) -> Tensor[B]:
    """Return the cubic kernel at distances from 0 to 1, or from 1 to 2. Source: Keys, 1981."""
    a, d = _CUBIC, distance
    if near:
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    return ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a


def _offsets(positions: list[Tensor[B]], size: int) -> IntTensor[B]:
    """Return whole numbers as ints, stacked along dim 1; far below 0 where they are not from 0 to size - 1."""
    at = stack(positions, 1).detach()
    outside = ~((at >= 0.0) & (at <= float(size - 1)))
    return at.masked_fill(outside, 0.0).int().masked_fill(outside, _FAR)
