"""Interpolation of sequences, images and volumes to another size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.operations.resampling import Sampling
from burnpy.nn.argument_checks import check_choice, floats, whole
from burnpy.nn.layers.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from burnpy.nn.layers.grid_sample import _FORMS
from burnpy.nn.module import FunctionLayer, Stateless
from burnpy.tensor.call_errors import explained
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
        if source != target or step != 1.0:
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
