"""Signals and images: resizing, sampling on grids, regions, Fourier transforms, windows and Mel weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from burnpy.backend.dtypes import float32, int64, part_dtype
from burnpy.backend.errors import LoadingError, ShapeError
from burnpy.backend.operations.resampling import Sampling, taps
from burnpy.fft import transforms
from burnpy.interop.onnx.operators.elementwise import write_real
from burnpy.interop.onnx.operators.table import (
    GraphWriter,
    Ints,
    Numbers,
    Operand,
    Scalar,
    Value,
    arange,
    cast,
    only,
    onnx_dtype,
    operator,
    tensor,
)
from burnpy.nn import functional
from burnpy.tensor.complex_numbers_lazy import complex as join
from burnpy.tensor.joining import cat, maximum, stack
from burnpy.tensor.tensor import Tensor

Array = NDArray[np.floating[Any]]

MOST_COPIES = 8
"""The factor up to which an enlarged tensor is a stack of copies."""

TIE = 1e-6
"""How far from the middle of two elements onnxruntime takes a place for the middle."""

NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - (0.5 + TIE)),
    "round_prefer_ceil": lambda x: np.floor(x + (0.5 + TIE)),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _cubic(a: float) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        x = np.abs(x)
        inner = ((a + 2) * x - (a + 3)) * x * x + 1
        outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, inner, np.where(x < 2, outer, 0.0))

    return kernel


def _linear(x: Array) -> Array:
    return np.clip(1.0 - np.abs(x), 0.0, 1.0)


def coordinates(mode: str, size: int, target: int, scale: float, roi: tuple[float, float]) -> Array:
    """Return where the elements of a resized dimension lie in the original one.

    Corners are aligned by the whole number of elements, as PyTorch does, whose files onnxruntime computes in this way.
    Both compute in float32, where three elements are five times .6, and not a little less.
    """
    k, scale = np.arange(target, dtype=np.float32), float(np.float32(scale))
    if mode == "align_corners":
        return k * (size - 1) / max(target - 1, 1)
    if mode == "asymmetric":
        return k / scale
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and target > 1):
        return (k + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return k * 0
    if mode == "tf_half_pixel_for_nn":
        return (k + 0.5) / scale
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - target / (scale * size)) + (k + 0.5) / scale - 0.5
    if mode == "tf_crop_and_resize":
        low, high = map(np.float32, roi)
        if target == 1:
            return k * 0 + low * (size - 1) + (high - low) * (size - 1) / 2
        return k * (high - low) * (size - 1) / (target - 1) + low * (size - 1)
    raise LoadingError(f"Resize has the coordinate_transformation_mode {mode!r}, which is unknown")


def weights(
    places: Array, size: int, kernel: Callable[[Array], Array], reach: int, scale: float, exclude: bool
) -> Array:
    """Return the matrix (target, size) of a resampling by a kernel, widened where ``scale`` is below 1."""
    reach = math.ceil(reach / scale)
    left = np.floor(places).astype(int)
    out = np.zeros((len(places), size))
    rows = np.arange(len(places))
    taps = [(left + k, kernel((left + k - places) * scale)) for k in range(-reach + 1 - (scale < 1), reach + 1)]
    total = sum(np.where((at >= 0) & (at < size), value, 0.0) if exclude else value for at, value in taps)
    for at, value in taps:
        share = np.where((at >= 0) & (at < size), value, 0.0) if exclude else value
        np.add.at(out, (rows, np.clip(at, 0, size - 1)), share / total if exclude or scale < 1 else share)
    return out


@operator("Upsample")
def upsample(x: Value, scales: Numbers = (), *, mode: Literal["nearest", "linear"] = "nearest") -> Value:
    """Resize by scales, as ONNX did before opset 10."""
    return resize(
        x, None, scales, coordinate_transformation_mode="asymmetric", mode=mode, nearest_mode="floor", opset=13
    )


@operator("Resize")
def resize(
    x: Value,
    roi: Numbers = None,
    scales: Numbers = None,
    sizes: Ints | None = None,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: Literal["stretch", "not_larger", "not_smaller"] = "stretch",
    mode: Literal["nearest", "linear", "cubic"] = "nearest",
    nearest_mode: Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"] = "round_prefer_floor",
    opset: int,
) -> Value:
    """Resize along axes, one after another; the last one first, whose elements lie together."""
    if opset < 11:
        return upsample(x, scales if roi is None else roi, mode=mode)
    dims = [axis % x.ndim for axis in (range(x.ndim) if axes is None else axes)]
    factors, targets = _scales(x, dims, scales, sizes, keep_aspect_ratio_policy)
    regions = [0.0] * len(dims) + [1.0] * len(dims) if roi is None or roi.size == 0 else roi.tolist()
    outside: Value = None
    for k, dim in reversed([*enumerate(dims)]):
        region = (regions[k], regions[len(dims) + k])
        size, target, scale = x.shape[dim], targets[k], factors[k]
        if size == target and scale == 1.0 and region == (0.0, 1.0):
            continue
        places = coordinates(coordinate_transformation_mode, size, target, scale, region)
        if coordinate_transformation_mode == "tf_crop_and_resize":
            gone = ((places < 0) | (places > size - 1)).reshape([-1 if d == dim else 1 for d in range(x.ndim)])
            mask = tensor(gone, x.device)
            outside = mask if outside is None else outside | mask
        if mode == "nearest":
            x = _taken(x, dim, np.clip(NEAREST[nearest_mode](places), 0, size - 1).astype(np.int64))
            continue
        how = _sampling(coordinate_transformation_mode, mode, size, target, scale)
        own = antialias or exclude_outside or (mode == "cubic" and cubic_coeff_a != -0.75)
        if how is not None and isinstance(x, Tensor) and not own:
            x = x._like(x._backend.resample(x._primitive, dim, target, how))
            continue
        kernel, reach = (_linear, 1) if mode == "linear" else (_cubic(cubic_coeff_a), 2)
        matrix = weights(places, size, kernel, reach, min(scale, 1.0) if antialias else 1.0, bool(exclude_outside))
        wide = x if isinstance(x, Tensor) else cast(x, "float64")
        moved = (wide.movedim(dim, -1) @ tensor(matrix.T.astype(wide.dtype), x.device)).movedim(-1, dim)
        x = moved if isinstance(x, Tensor) else cast(moved.round(), x.dtype)
    return x if outside is None else x.masked_fill(outside.expand(*x.shape), extrapolation_value)


def _sampling(places: str, mode: str, size: int, target: int, scale: float) -> Sampling | None:
    """Return how PyTorch interpolates at these places; None if it does not."""
    if places == "align_corners" and target > 1:
        return Sampling(mode, True, (size - 1) / (target - 1))
    usual = places == "half_pixel" or (places == "pytorch_half_pixel" and target > 1)
    return Sampling(mode, False, 1.0 / scale) if usual else None


def _taken(x: Value, dim: int, index: NDArray[np.int64]) -> Value:
    """Return the elements of x along a dim, which are copies of all of x in many cases."""
    factor = len(index) // max(1, x.shape[dim])
    if 1 < factor <= MOST_COPIES and np.array_equal(index, np.arange(x.shape[dim]).repeat(factor)):
        return stack([x] * factor, dim=dim + 1).flatten(dim, dim + 1)
    return x.index_select(dim, tensor(index, x.device))


def _scales(x: Value, dims: list[int], scales: Any, sizes: Ints | None, policy: str) -> tuple[list[float], list[int]]:
    """Return the factor and the new size of each dimension."""
    if sizes is None or not sizes:
        factors = [float(factor) for factor in scales]
        return factors, [math.floor(np.float32(x.shape[d]) * factor) for d, factor in zip(dims, scales, strict=True)]
    factors = [target / x.shape[d] for d, target in zip(dims, sizes, strict=True)]
    if policy == "stretch":
        return factors, list(sizes)
    common = min(factors) if policy == "not_larger" else max(factors)
    return [common] * len(dims), [math.floor(common * x.shape[d] + 0.5) for d in dims]


@operator("GridSample")
def grid_sample(
    x: Value, grid: Value, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Value:
    """Sample at the places of a grid."""
    modes: dict[str, Any] = {"linear": "bilinear", "cubic": "bicubic", "bilinear": "bilinear", "bicubic": "bicubic"}
    settings: Any = {"padding_mode": padding_mode, "align_corners": bool(align_corners)}
    return functional.grid_sample(x, grid, mode=modes.get(mode, mode), **settings)


@operator("AffineGrid")
def affine_grid(theta: Value, size: Ints, *, align_corners: int = 0) -> Value:
    """Return the grid of an affine transformation."""
    return functional.affine_grid(theta, size, align_corners=bool(align_corners))


@operator("RoiAlign")
def roi_align(
    x: Value,
    rois: Value,
    batch: Value,
    *,
    coordinate_transformation_mode: Literal["half_pixel", "output_half_pixel"] | None = None,
    mode: Literal["avg", "max"] = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    opset: int,
) -> Value:
    """Pool regions to one size, sampled by bilinear interpolation.

    Without a ratio, the numbers of samples follow from the regions, whose sizes Python reads.
    """
    default = "half_pixel" if opset >= 16 else "output_half_pixel"
    half = (coordinate_transformation_mode or default) == "half_pixel"
    corners = cast(rois, "float32" if rois.dtype.itemsize == 2 else rois.dtype) * spatial_scale - (0.5 if half else 0.0)
    begin, size = corners[:, :2], corners[:, 2:] - corners[:, :2]
    size, members = size if half else size.clamp(min=1.0), cast(batch, "int64")
    pooled = partial(_pooled, x, (output_width, output_height), mode == "max")
    if sampling_ratio > 0 or not rois.shape[0]:
        return pooled((max(sampling_ratio, 1),) * 2, begin, size, members)
    counts = np.ceil(size.to_numpy() / np.array([output_width, output_height], size.dtype)).clip(1).astype(int).tolist()
    begin = begin.masked_fill((size <= 0.0).any(dim=1, keepdim=True), -math.inf)  # regions without samples are zeros
    rows = zip(counts, *[part.split(1) for part in (begin, size, members)], strict=True)
    return cat([pooled(*row) for row in rows], dim=0)


def _pooled(
    x: Value, shape: tuple[int, int], largest: bool, counts: Sequence[int], begin: Value, size: Value, members: Value
) -> Value:
    """Return regions (N, channels, height, width): means, or maxima, of so many samples of each window.

    Pairs of numbers, also those of ``begin`` and ``size``, have the one along the width first.
    """
    channels, high, wide = x.shape[1:]
    taps = []
    for k, limit in enumerate((wide, high)):
        count = shape[k] * counts[k]
        steps = (cast(arange(count, x.device), size.dtype) + 0.5) / count
        at = begin[:, k : k + 1] + steps * size[:, k : k + 1]
        inside = cast((at >= -1.0) & (at <= limit), x.dtype)
        at = at.clamp(0.0, limit - 1)
        low = at.floor()
        share = cast(at - low, x.dtype)
        places = low.int("int64")
        taps.append([(places, (1.0 - share) * inside), ((places + 1).clamp(max=limit - 1), share * inside)])
    pixels, first = x.permute(0, 2, 3, 1).reshape(-1, channels), (members * high).reshape(-1, 1)
    windows = (-1, shape[1], counts[1], shape[0], counts[0], channels)
    out: Value = None
    for (column, across), (row, along) in product(*taps):
        places = ((first + row) * wide).unsqueeze(2) + column.unsqueeze(1)
        picked = pixels.index_select(0, places.reshape(-1)).reshape(*places.shape, channels)
        part = (picked * (along.unsqueeze(2) * across.unsqueeze(1)).unsqueeze(3)).reshape(*windows)
        out = part if out is None else maximum(out, part) if largest else out + part
    return (out.amax((2, 4), False) if largest else out.mean(dim=(2, 4))).permute(0, 3, 1, 2)


@operator("NonMaxSuppression")
def non_max_suppression(
    boxes: Value,
    scores: Value,
    most: Ints = (0,),
    overlap: Scalar = 0.0,
    least: Scalar | None = None,
    *,
    center_point_box: int = 0,
) -> Value:
    """Return the batch, class and box of the best boxes without much overlap, on the host."""
    b, s = boxes.to_numpy().astype(np.float64), scores.to_numpy()
    if center_point_box:
        centre, span = b[..., :2], b[..., 2:] / 2
        b = np.concatenate([centre - span, centre + span], axis=-1)
    low, high = np.minimum(b[..., :2], b[..., 2:]), np.maximum(b[..., :2], b[..., 2:])
    area = (high - low).prod(-1)
    count, chosen = most[0] if most else 0, list[tuple[int, int, int]]()
    for n in range(s.shape[0]):
        for c in range(s.shape[1]):
            kept: list[int] = []
            for k in np.argsort(-s[n, c], kind="stable"):
                if len(kept) == count or (least is not None and s[n, c, k] <= least):
                    break
                shared = [
                    np.clip(np.minimum(high[n, k], high[n, j]) - np.maximum(low[n, k], low[n, j]), 0, None).prod()
                    for j in kept
                ]
                unions = [area[n, k] + area[n, j] - part for j, part in zip(kept, shared, strict=True)]
                if all(part <= (overlap or 0.0) * union for part, union in zip(shared, unions, strict=True)):
                    kept.append(int(k))
            chosen += [(n, c, k) for k in kept]
    return tensor(np.array(chosen, np.int64).reshape(-1, 3), boxes.device)


@operator("DFT")
def dft(
    x: Value, length: Ints | None = None, axis: Scalar = None, *, inverse: int = 0, onesided: int = 0, opset: int
) -> Value:
    """Transform along an axis; the last dimension has the real and the imaginary part."""
    dim = (axis if axis is not None else 1 if opset < 20 else -2) % x.ndim
    whole = 2 * (x.shape[dim] - 1) if inverse and onesided else x.shape[dim]
    size, signal = length[0] if length else whole, join(x[..., 0], x[..., 1] if x.shape[-1] == 2 else None)
    if inverse and onesided:
        return transforms.irfft(signal, n=size, dim=dim).unsqueeze(-1)
    transform: Any = transforms.ifft if inverse else transforms.fft
    spectrum = transform(signal, n=size, dim=dim)
    out = stack([spectrum.real, spectrum.imag], dim=-1)
    return out.narrow(dim, 0, size // 2 + 1) if onesided else out


@operator("STFT")
def stft(
    x: Value, step: Ints, window: Value = None, length: Ints | None = None, *, onesided: int = 1, opset: int
) -> Value:
    """Transform overlapping frames, (N, count, frequencies, 2)."""
    size = length[0] if length else window.shape[0]
    signal = x if x.ndim == 3 else x.unsqueeze(-1)
    if signal.shape[1] < size:
        raise ShapeError(f"STFT takes a signal of at least {size} samples, as its frames have, got {signal.shape[1]}")
    count = 1 + (signal.shape[1] - size) // step[0]
    places = arange(count, x.device).unsqueeze(1) * step[0] + arange(size, x.device)
    frames = signal.index_select(1, places.reshape(-1)).unflatten(1, (count, size))
    if window is not None:
        frames = frames * window.reshape(1, 1, -1, 1)
    return dft(frames, axis=2, onesided=onesided, opset=opset)


WINDOWS = {"HannWindow": (0.5, 0.5, 0.0), "HammingWindow": (25 / 46, 21 / 46, 0.0), "BlackmanWindow": (0.42, 0.5, 0.08)}
"""The coefficients of the cosines of windows."""


@operator(*WINDOWS)
def window(size: Scalar, *, kind: str, output_datatype: int = 1, periodic: int = 1) -> Value:
    """Return a window, on the host."""
    angle = np.arange(size) * (2 * math.pi / (size if periodic else size - 1))
    a, b, c = WINDOWS[kind]
    return tensor((a - b * np.cos(angle) + c * np.cos(2 * angle)).astype(onnx_dtype(output_datatype)))


@operator("MelWeightMatrix")
def mel_weights(
    bins: Scalar, length: Scalar, rate: Scalar, low: Scalar, high: Scalar, *, output_datatype: int = 1
) -> Value:
    """Return the triangles of the Mel scale, (length // 2 + 1, bins), on the host."""

    def mel(hertz: float) -> float:
        return 2595 * math.log10(1 + hertz / 700)

    step = (mel(high) - mel(low)) / (bins + 2)
    hertz = 700 * (10 ** ((np.arange(bins + 2) * step + mel(low)) / 2595) - 1)
    edges = ((length + 1) * hertz // rate).astype(int)
    out = np.zeros((length // 2 + 1, bins))
    for k in range(bins):
        first, middle, last = edges[k : k + 3]
        if first == middle:
            out[middle, k] = 1.0
        else:
            out[first : middle + 1, k] = (np.arange(first, middle + 1) - first) / (middle - first)
        if last > middle:
            out[middle:last, k] = (last - np.arange(middle, last)) / (last - middle)
    return tensor(out.astype(onnx_dtype(output_datatype)))


def write_fft(g: GraphWriter, z: Operand, dims: Any, inverse: bool, norm: str) -> Any:
    """Write a DFT along each dimension of a complex array."""
    return _scaled(g, _dft(g, z, dims, inverse), z, [z.shape[d] for d in dims], inverse, norm)


def write_fft_real(g: GraphWriter, x: Operand, dims: Any, inverse: bool, norm: str) -> Any:
    """Write a DFT along each dimension of a real array."""
    whole = g.node("Unsqueeze", x, g.sizes((len(x.shape),)))
    return _scaled(g, _dft(g, whole, dims, inverse), x, [x.shape[d] for d in dims], inverse, norm)


def write_rfft(g: GraphWriter, x: Operand, dims: Any, norm: str) -> Any:
    """Write a DFT to half the spectrum along the last of ``dims``, and others along the rest."""
    half = g.node("Unsqueeze", x, g.sizes((len(x.shape),)))
    half = _transformed(g, half, dims[-1], onesided=1)
    return _scaled(g, _dft(g, half, dims[:-1], False), x, [x.shape[d] for d in dims], False, norm)


def write_irfft(g: GraphWriter, z: Operand, dims: Any, size: int, norm: str) -> Any:
    """Write an inverse DFT of the whole spectrum along the last of ``dims``, after those along the others."""
    last, half, dtype = dims[-1], z.shape[dims[-1]], part_dtype(z.dtype)
    spectrum = _dft(g, z, dims[:-1], True)
    sign = g.node("Concat", *[g.node("Unsqueeze", g.constant(k, dtype), g.sizes((0,))) for k in (1, -1)], axis=0)
    kept, others = [g.sizes((g.each(f, size, half),)) for f in (lambda n, m: min(m, n // 2 + 1), lambda n, m: n - m)]
    ends = others, g.sizes((0,)), g.sizes((last,)), g.sizes((-1,))
    mirrored = g.node("Mul", g.node("Slice", spectrum, *ends), sign)
    whole = g.node("Concat", g.node("Slice", spectrum, g.sizes((0,)), kept, ends[2]), mirrored, axis=last)
    sizes = [*[z.shape[d] for d in dims[:-1]], size]
    return write_real(g, _scaled(g, _dft(g, whole, (last,), True), z, sizes, True, norm))


def _dft(g: GraphWriter, x: Operand | str, dims: Any, inverse: bool) -> Operand | str:
    for dim in dims:
        x = _transformed(g, x, dim, inverse=int(inverse))
    return x


def _transformed(g: GraphWriter, x: Operand | str, dim: int, **settings: int) -> str:
    """Write a DFT, whose axis is an attribute before opset 20."""
    if g.opset < 20:
        return str(g.node("DFT", x, axis=dim, **settings))
    return str(g.node("DFT", x, None, g.constant(dim, int64), **settings))


def _scaled(g: GraphWriter, pairs: Any, like: Operand, sizes: Sequence[Any], inverse: bool, norm: str) -> Any:
    """Return pairs times the factor of a norm; the operator divides inverse transforms by the number of elements."""
    power = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm] * (1 if inverse else -1)
    factors = [g.constant(g.each(lambda n: float(n**power), size), part_dtype(like.dtype)) for size in sizes if power]
    return reduce(partial(g.node, "Mul"), factors, pairs)


@only(when=lambda x, dim, size, how: x.dtype == float32 and not how.antialias and 2 <= dim < len(x.shape) < 6)
def write_resample(g: GraphWriter, x: Operand, dim: int, size: Any, how: Any) -> Any:
    """Write a Resize of one dimension, or a Gather of the same elements where these are the nearest and no size
    varies."""
    source, nearest = x.shape[dim], how.mode.startswith("nearest")
    if nearest and isinstance(source, int) and isinstance(size, int):
        return g.node("Gather", x, g.sizes(taps(source, size, how).places[0].tolist()), axis=dim)
    places = "align_corners" if how.align_corners else "asymmetric" if how.mode == "nearest" else "half_pixel"
    settings: dict[str, Any] = {"coordinate_transformation_mode": places, "axes": [dim]}
    if nearest:
        settings["nearest_mode"] = "floor" if how.mode == "nearest" else "round_prefer_ceil"
    settings["mode"] = "nearest" if nearest else how.mode
    rounded = g.each(lambda source, size, step: int(abs(step * size - source) > 1e-9 * source), source, size, how.step)
    if how.align_corners or not rounded:  # the step follows from the sizes
        return g.node("Resize", x, None, None, g.sizes((size,)), **settings)
    return g.node("Resize", x, None, g.constant([1.0 / how.step], float32), **settings)
