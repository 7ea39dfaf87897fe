"""Interpolation of sequences, images and volumes, and sampling of images at computed positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np

from burnpy.backend.devices import innermost
from burnpy.backend.dtypes import float32, int64, promote_types
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.operations.programs import Formula
from burnpy.backend.operations.resampling import Sampling
from burnpy.nn.argument_checks import check_choice, floats, whole, wholes
from burnpy.nn.layers.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from burnpy.nn.module import FunctionLayer, Stateless
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import stack
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

Mode: TypeAlias = Literal["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"]
"""The name of an interpolation."""
Corners: TypeAlias = bool | None
"""The setting ``align_corners``: true if corners are aligned; None for a mode without the setting."""
_EVERY = (1, 2, 3)
_DIMS = {
    "nearest": _EVERY,
    "nearest-exact": _EVERY,
    "linear": (1,),
    "bilinear": (2,),
    "bicubic": (2,),
    "trilinear": (3,),
    "area": _EVERY,
}
_SAMPLING = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


@explained
def interpolate(
    x: Tensor[B],
    size: int | Sequence[int] | None = None,
    *,
    scale_factor: float | Sequence[float] | None = None,
    mode: Mode = "nearest",
    align_corners: Corners = None,
    recompute_scale_factor: bool = False,
    antialias: bool = False,
) -> Tensor[B]:
    """Interpolate sequences, images or volumes to another size, as `torch.nn.functional.interpolate`.

    Args:
        x: shape (N, channels, length), (N, channels, height, width) or (N, channels, depth, height, width).
        size: the size of the output: one number for all of its dimensions, or one for each.
        scale_factor: in place of ``size``, the factor by which sizes grow; the products are rounded down.
        mode: "nearest" (the element at or before), "nearest-exact" (the nearest element), "area" (means, as
            `adaptive_avg_pool2d`), "linear" for sequences, "bilinear" or "bicubic" for images, "trilinear" for volumes.
        align_corners: for modes with linear and cubic kernels, whether the first and last elements of the output equal
            x's; otherwise elements are areas, and the outer edges of x and the output coincide.
        recompute_scale_factor: whether to compute distances from the rounded sizes instead of ``scale_factor``.
        antialias: for "bilinear" and "bicubic", whether each element of a smaller output is a mean over all elements of
            x that it represents, so that fine patterns do not turn into coarse ones. The kernels are then Pillow's.

    Returns:
        Shape (N, channels, *size).

    Raises:
        ShapeError: x has another number of dimensions than the mode takes, or no elements.
        ArgumentError: a setting is invalid, or both or neither of ``size`` and ``scale_factor`` are given.

    Source of the cubic kernel: Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981.

    >>> x = Tensor[NumPy].from_data([[[0.0, 4.0]]])
    >>> interpolate(x, 4).tolist(), interpolate(x, scale_factor=2.0, mode="linear").tolist()
    ([[[0.0, 0.0, 4.0, 4.0]]], [[[0.0, 1.0, 3.0, 4.0]]])
    """
    (x,) = floats("interpolate", 1, x=x)
    shape = x.shape
    _check_mode(mode, align_corners, antialias)
    dims = len(shape) - 2
    if dims not in _DIMS[mode]:
        takes = " or ".join(_FORMS[n] for n in _DIMS[mode])
        raise ShapeError(f'interpolate() with mode="{mode}" takes x of shape {takes}, got shape {shape}')
    if 0 in shape[2:]:
        raise ShapeError(f"interpolate() got x of shape {shape}, which has no elements to interpolate")
    sizes, factors = _sizes(shape[2:], size, scale_factor)
    if recompute_scale_factor:
        if factors is None:
            raise ArgumentError("interpolate() got recompute_scale_factor=True with size; it is for scale_factor")
        factors = None
    if mode == "area":
        return _averaged(x, sizes)
    device: Any = x.device
    out, corners = x._primitive, bool(align_corners)
    for dim in reversed(range(2, len(shape))):  # the last first, as long as there is less of it
        source, target = shape[dim], sizes[dim - 2]
        factor = None if factors is None else factors[dim - 2]
        step = _step(source, target, factor, corners)
        if source != target or step != 1.0 or innermost(device).sizes_vary:
            out = device.resample(out, dim, target, Sampling(_SAMPLING.get(mode, mode), corners, step, antialias))
    return x if out is x._primitive else x._like(out)


def _averaged(x: Tensor[B], sizes: tuple[int, ...]) -> Tensor[B]:
    """Return the means of windows."""
    return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[len(sizes) - 1](x, sizes)


def _check_mode(mode: str, align_corners: Corners, antialias: bool) -> None:
    """Check the mode of an interpolation, and the settings that not all modes have."""
    check_choice("interpolate", "mode", mode, _DIMS)
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ArgumentError(
            f'interpolate() got align_corners={align_corners} with mode="{mode}"; it is for "linear", '
            '"bilinear", "bicubic" and "trilinear"'
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f'interpolate() got antialias=True with mode="{mode}"; it is for "bilinear" and "bicubic"')


def _sizes(shape: Any, size: Any, scale_factor: Any) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """Return the sizes of the output, and the scale factors, or None for a given ``size``."""
    if (size is None) == (scale_factor is None):
        both = "neither size nor scale_factor" if size is None else "both size and scale_factor"
        raise ArgumentError(f"interpolate() got {both}; give one of them")
    name = "size" if scale_factor is None else "scale_factor"
    given: Any = size if scale_factor is None else scale_factor
    each: tuple[Any, ...] = tuple(given) if isinstance(given, Sequence) else (given,) * len(shape)
    if len(each) != len(shape):
        raise ArgumentError(f"interpolate() got {name}={given!r:.80} for x with {len(shape)} dims to interpolate")
    if scale_factor is None:
        sizes = tuple([whole("interpolate", "size", n) for n in each])
        factors = None
    else:
        if not all(_is_finite(f) for f in each):
            raise ArgumentError(
                f"interpolate() got scale_factor={describe(given)}; expected a finite number, or one for each dim"
            )
        factors = tuple([float(f) for f in each])
        sizes = tuple([math.floor(n * f) for n, f in zip(shape, factors, strict=True)])
    if min(sizes) < 1:
        raise ArgumentError(f"interpolate() got {name}={given!r:.80}, for an output of {sizes}; sizes are positive")
    return sizes, factors


def _is_finite(factor: Any) -> bool:
    """Return whether an argument is a number that a float can hold."""
    try:
        return isinstance(factor, (int, float, np.number)) and math.isfinite(factor)
    except OverflowError:
        return False


def _step(source: int, target: int, factor: float | None, align_corners: bool) -> float:
    """Return the distance of two elements of the output, in elements of x."""
    if align_corners:
        return (source - 1) / (target - 1) if target > 1 else 0.0
    return source / target if factor is None else 1.0 / factor


class Upsample(FunctionLayer, Stateless):
    """Interpolates sequences, images or volumes to another size: see `burnpy.nn.functional.interpolate`.

    The settings are checked when the layer is called, as they depend on one another and on the input.

    >>> Upsample(scale_factor=2)(Tensor[NumPy].ones((2, 3, 4, 5))).shape
    (2, 3, 8, 10)
    """

    _function = staticmethod(interpolate)
    _settings = ("size", "scale_factor", "mode", "align_corners", "recompute_scale_factor")

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        *,
        scale_factor: float | Sequence[float] | None = None,
        mode: Mode = "nearest",
        align_corners: Corners = None,
        recompute_scale_factor: bool = False,
    ) -> None:
        self.size = tuple(size) if isinstance(size, Sequence) else size
        self.scale_factor = tuple(scale_factor) if isinstance(scale_factor, Sequence) else scale_factor
        self.mode: Mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Interpolate (N, channels, length), (N, channels, height, width) or (N, channels, depth, height, width)."""
        return self._result(x)


_FORMS = {1: "(N, channels, length)", 2: "(N, channels, height, width)", 3: "(N, channels, depth, height, width)"}


@explained
def grid_sample(
    x: Tensor[B],
    grid: Tensor[B],
    *,
    mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> Tensor[B]:
    """Sample images or volumes at the positions of a grid, as `torch.nn.functional.grid_sample`.

    Args:
        x: shape (N, channels, height, width), or (N, channels, depth, height, width).
        grid: shape (N, height', width', 2), or (N, depth', height', width', 3): for each element of the output its
            position, x, y and z in this order, from -1 (the left, upper or front edge) to 1.
        mode: the interpolation between elements; "bicubic" is for images alone.
        padding_mode: the values beyond the edges: zeros, the nearest edge's element, or the image reflected.
        align_corners: whether -1 and 1 are the centres of the outermost elements; otherwise their outer edges.

    Returns:
        Shape (N, channels, height', width'), or (N, channels, depth', height', width').

    Raises:
        ShapeError: the shapes do not match, or x has no elements.
        ArgumentError: a setting is invalid.

    Source: Jaderberg et al., Spatial Transformer Networks, 2015.

    >>> x, grid = Tensor[NumPy].arange(4).reshape(1, 1, 2, 2), Tensor[NumPy].zeros((1, 1, 1, 2))
    >>> grid_sample(x, grid).tolist()
    [[[[1.5]]]]
    """
    x, grid = floats("grid_sample", 2, x=x, grid=grid)
    shape, places = x.shape, grid.shape
    dims = len(shape) - 2
    if dims not in (2, 3) or len(places) != dims + 2 or places[-1] != dims or shape[0] != places[0]:
        raise ShapeError(
            f"grid_sample() got x of shape {shape} and a grid of shape {places}; they are {_FORMS[2]} and "
            f"(N, height', width', 2), or {_FORMS[3]} and (N, depth', height', width', 3)"
        )
    if 0 in shape[2:]:
        raise ShapeError(f"grid_sample() got x of shape {shape}, which has no elements to sample")
    check_choice("grid_sample", "mode", mode, ("bilinear", "nearest", "bicubic"))
    check_choice("grid_sample", "padding_mode", padding_mode, ("zeros", "border", "reflection"))
    if dims == 3 and mode == "bicubic":
        raise ArgumentError(f'grid_sample() got mode="bicubic" for volumes, of shape {shape}; it is for images')
    n, channels, *sizes = shape
    area, elements = math.prod(places[1:-1]), math.prod(sizes)
    dtype, device = x.dtype, x._backend
    if grid.dtype.itemsize == 2:  # in which places in large images are far apart
        grid = grid.to_dtype("float32")
    if elements > _MOST_FLOAT32:
        grid = grid.to_dtype("float64")
    flat = device.reshape(grid._primitive, (n, area, dims))
    positions = [device.slice(flat, (_ALL, _ALL, k)) for k in reversed(range(dims))]
    numbers = [number for size in sizes for number in _numbers(size, padding_mode, align_corners)]
    found = device.fused(_taps(mode, padding_mode, dims), positions, tuple(numbers))
    count = _COUNTS[mode] ** dims
    at = device.to_int(device.stack(found[:count], 1), int64)
    if mode == "nearest":
        weights = device.full((n, 1, area), 1.0, dtype)
    else:
        weights = device.stack(found[count:], 1)
        weights = weights if weights.dtype == dtype else device.cast(weights, dtype)
    out = device.weighted_gather(device.reshape(x._primitive, (n, channels, elements)), at, weights)
    return x._like(device.reshape(out, (n, channels, *places[1:-1])))


@explained
def affine_grid(theta: Tensor[B], size: Sequence[int], *, align_corners: bool = False) -> Tensor[B]:
    """Compute the grid of an affine map of images or volumes, for `grid_sample`.

    Args:
        theta: shape (N, 2, 3), or (N, 3, 4): matrices that map positions in the output to those in the input.
        size: the shape of the output, (N, channels, height, width) or (N, channels, depth, height, width).
        align_corners: as for `grid_sample`.

    Returns:
        Shape (N, height, width, 2), or (N, depth, height, width, 3).

    Raises:
        ShapeError: theta has another shape.
        ArgumentError: the size is not four or five positive numbers.

    >>> identity = Tensor[NumPy].from_data([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> affine_grid(identity, (1, 1, 2, 2)).tolist()
    [[[[-0.5, -0.5], [0.5, -0.5]], [[-0.5, 0.5], [0.5, 0.5]]]]
    """
    (theta,) = floats("affine_grid", 1, theta=theta)
    sizes = wholes("affine_grid", "size", size)
    if len(sizes) not in (4, 5) or min(sizes[1:]) < 1:
        raise ArgumentError(f"affine_grid() got size={describe(tuple(size))}; it is {_FORMS[2]} or {_FORMS[3]}")
    members, places, dims = sizes[0], sizes[2:], len(sizes) - 2
    expected = members, dims, dims + 1
    if theta.shape != expected:
        raise ShapeError(f"affine_grid() got theta of shape {theta.shape}; for size={describe(sizes)} it is {expected}")
    lines = [_axis(n, align_corners, theta).reshape((-1, *(1,) * (dims - k))) for k, n in enumerate(places, 1)]
    axes = [line.expand(places) for line in reversed(lines)]  # x comes first
    base = stack([*axes, axes[0].ones_like()], -1).reshape((1, math.prod(places), dims + 1))
    return (base.expand((members, *base.shape[1:])) @ theta.mT).reshape((members, *places, dims))


_CUBIC = -0.75
_ALL = slice(None, None, 1)
_COUNTS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
"""The number of elements along a dimension that a position depends on."""
_MOST_FLOAT32 = 1 << 24
"""The number of elements up to which all their places are numbers of float32."""
_OUTSIDE = -float(1 << 36)
"""The place of an element outside of the image, in elements: whatever is added to it, it stays negative, and no product
with the sizes of other dimensions overflows."""


def _axis(count: int, align_corners: bool, like: Tensor[B]) -> Tensor[B]:
    """Return the positions of elements along a dimension, from -1 to 1; one element is in the middle."""
    dtype = promote_types(like.dtype, float32)
    whole: Tensor[B] = Tensor.arange(1 - count, count, 2, dtype=dtype, device=like.device)
    return (whole / max(count - 1 if align_corners else count, 1)).to_dtype(like.dtype)


def _numbers(size: int, padding_mode: str, align_corners: bool) -> tuple[float, ...]:
    """Return the numbers of a dimension for `_taps`: scale and shift of positions, its size, its last place, and for
    reflection the lowest position and the span between reflections."""
    scale, shift = ((size - 1) / 2, 0.0) if align_corners else (size / 2, 0.5)
    numbers = scale, shift, float(size), float(size - 1)
    if padding_mode != "reflection":
        return numbers
    return (*numbers, 0.0, float(size - 1) or 1.0) if align_corners else (*numbers, -0.5, float(size))


@cache
def _taps(mode: str, padding_mode: str, dims: int) -> Formula:
    """Return the formula of the places of the elements that positions from -1 to 1 depend on, and of their weights.

    Its arguments are the positions along each dimension, the outermost first, and the `_numbers` of each. Places are
    row-major; one outside of the image is below 0. For the cubic kernel the places are moved into the image, otherwise
    the positions are. Without weights, each is 1.
    """

    def taps(b: Any, *given: Any) -> tuple[Any, ...]:
        each = (len(given) - dims) // dims
        places: list[Any] = []
        weights: list[Any] = []
        for k, position in enumerate(given[:dims]):
            scale, shift, size, *edges = given[dims + k * each : dims + (k + 1) * each]
            at = b.sub(b.mul(b.add(position, 1.0), scale), shift)
            if mode != "bicubic":
                at = _inside(b, at, padding_mode, *edges)
            if mode == "nearest":
                steps, factors = [b.round(at)], []
            else:
                low, *factors = (_linear_weights if mode == "bilinear" else _cubic_weights)(b, at)
                start = 0 if mode == "bilinear" else -1
                steps = [b.add(low, float(start + step)) for step in range(len(factors))]
            if mode == "bicubic":
                steps = [_inside(b, step, padding_mode, *edges) for step in steps]
            steps = [_far_outside(b, step, edges[0]) for step in steps]
            places = [b.add(b.mul(p, size), step) for p in places for step in steps] if k else steps
            weights = [b.mul(w, factor) for w in weights for factor in factors] if k else factors
        return (*places, *weights)

    return taps


def _inside(b: Any, position: Any, padding_mode: str, last: Any, low: Any = 0.0, span: Any = 1.0) -> Any:
    """Return positions moved into the image, unless zeros lie around it; at the edge their gradient is 0."""
    if padding_mode == "zeros":
        return position
    if padding_mode == "reflection":
        distance = b.abs(b.sub(position, low))
        turns = b.floor(b.div(distance, span))
        rest = b.sub(distance, b.mul(turns, span))
        even = b.eq(turns, b.mul(b.floor(b.mul(turns, 0.5)), 2.0))
        position = b.add(b.where(even, rest, b.add(b.neg(rest), span)), low)
    moved = b.where(b.gt(position, 0.0), b.where(b.lt(position, last), position, last), 0.0)
    return b.where(b.ne(position, position), position, moved)


def _linear_weights(b: Any, at: Any) -> tuple[Any, Any, Any]:
    low = b.floor(at)
    share = b.sub(at, low)
    return low, b.add(b.neg(share), 1.0), share


def _cubic_weights(b: Any, at: Any) -> tuple[Any, Any, Any, Any, Any]:
    low = b.floor(at)
    share = b.sub(at, low)
    rest = b.add(b.neg(share), 1.0)
    return low, _beyond(b, b.add(share, 1.0)), _near(b, share), _near(b, rest), _beyond(b, b.add(rest, 1.0))


def _near(b: Any, distance: Any) -> Any:
    """Return the cubic kernel at distances from 0 to 1. Source: Keys, 1981."""
    factor = b.sub(b.mul(distance, _CUBIC + 2.0), _CUBIC + 3.0)
    return b.add(b.mul(b.mul(factor, distance), distance), 1.0)


def _beyond(b: Any, distance: Any) -> Any:
    """Return the cubic kernel at distances from 1 to 2."""
    factor = b.add(b.mul(b.sub(b.mul(distance, _CUBIC), 5.0 * _CUBIC), distance), 8.0 * _CUBIC)
    return b.sub(b.mul(factor, distance), 4.0 * _CUBIC)


def _far_outside(b: Any, place: Any, last: Any) -> Any:
    return b.where(b.ge(place, 0.0), b.where(b.le(place, last), place, _OUTSIDE), _OUTSIDE)
