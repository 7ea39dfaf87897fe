"""Fourier transforms, windows and Mel weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64, part_dtype
from burnpy.fft import transforms
from burnpy.interop.onnx.operators.table import (
    HOST,
    GraphWriter,
    Ints,
    Operand,
    Scalar,
    Value,
    cast,
    only,
    onnx_dtype,
    operator,
    tensor,
)
from burnpy.tensor.complex_functions import complex as join
from burnpy.tensor.joining import stack
from burnpy.tensor.tensor import Tensor


@operator("DFT")
def dft(
    x: Value,
    length: Ints | None = None,
    axis_: Ints | None = None,
    *,
    axis: int | None = None,
    inverse: int = 0,
    onesided: int = 0,
    opset: int,
) -> Value:
    """Transform along an axis; the last dimension has the real and the imaginary part."""
    if axis_ is not None:
        axis = axis_[0]
    dim = (axis if axis is not None else 1 if opset < 20 else -2) % x.ndim
    real = x[..., 0]
    imag = x[..., 1] if x.shape[-1] == 2 else None
    size = length[0] if length else 2 * (x.shape[dim] - 1) if inverse and onesided else x.shape[dim]
    if inverse and onesided:
        signal = transforms.irfft(join(real, imag), n=size, dim=dim)
        return signal.unsqueeze(-1)
    f: Any = transforms.ifft if inverse else transforms.fft
    spectrum = f(join(real, imag), n=size, dim=dim)
    out = stack([spectrum.real, spectrum.imag], dim=-1)
    return out.narrow(dim, 0, size // 2 + 1) if onesided else out


@operator("STFT")
def stft(
    x: Value, step: Ints, window: Value = None, length: Ints | None = None, *, onesided: int = 1, opset: int
) -> Value:
    """Transform overlapping frames, (N, count, frequencies, 2)."""
    size = length[0] if length else window.shape[0]
    signal = x if x.ndim == 3 else x.unsqueeze(-1)
    count = 1 + (signal.shape[1] - size) // step[0]
    places = np.arange(count)[:, None] * step[0] + np.arange(size)
    frames = signal.index_select(1, tensor(places.reshape(-1), x.device))
    frames = frames.reshape(signal.shape[0], count, size, signal.shape[2])
    if window is not None:
        frames = frames * window.reshape(1, 1, -1, 1)
    return dft(frames, axis=2, onesided=onesided, opset=opset)


WINDOWS = {"HannWindow": (0.5, 0.5, 0.0), "HammingWindow": (25 / 46, 21 / 46, 0.0), "BlackmanWindow": (0.42, 0.5, 0.08)}
"""The coefficients of the cosines of windows."""


@operator("HannWindow", "HammingWindow", "BlackmanWindow")
def window(size: Scalar, *, kind: str, output_datatype: int = 1, periodic: int = 1) -> Value:
    """Return a window, on the host."""
    angle = np.arange(size) * (2 * math.pi / (size if periodic else size - 1))
    coefficients = {
        "HannWindow": (0.5, 0.5, 0.0),
        "HammingWindow": (25 / 46, 21 / 46, 0.0),
        "BlackmanWindow": (0.42, 0.5, 0.08),
    }
    a, b, c = coefficients[kind]
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


@operator("RandomNormal", "RandomUniform")
def random(
    *,
    kind: str,
    shape: tuple[int, ...],
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    low: float = 0.0,
    high: float = 1.0,
    seed: float = 0.0,
) -> Value:
    """Return random numbers, on the host."""
    return cast(_drawn(kind == "RandomNormal", shape, (mean, scale), (low, high), HOST), onnx_dtype(dtype))


def _drawn(normal: bool, shape: tuple[int, ...], moments: Any, ends: Any, device: Any) -> Value:
    if normal:
        return Tensor.normal(shape, *moments, device=device)
    return Tensor.uniform(shape, *ends, device=device)


@operator("RandomNormalLike", "RandomUniformLike")
def random_like(
    x: Value,
    *,
    kind: str,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    low: float = 0.0,
    high: float = 1.0,
    seed: float = 0.0,
) -> Value:
    """Return random numbers of x's shape."""
    drawn = _drawn(kind == "RandomNormalLike", x.shape, (mean, scale), (low, high), x.device)
    return cast(drawn, x.dtype if dtype is None else onnx_dtype(dtype))


@operator("Bernoulli")
def bernoulli(x: Value, *, dtype: int | None = None, seed: float = 0.0) -> Value:
    """Return ones with the probabilities x, and zeros."""
    drawn = Tensor.uniform(x.shape, dtype=x.dtype, device=x.device) < x
    return cast(drawn, x.dtype if dtype is None else onnx_dtype(dtype))


@operator("Multinomial")
def multinomial(x: Value, *, dtype: int = 6, sample_size: int = 1, seed: float = 0.0) -> Value:
    """Draw classes from unnormalized log probabilities."""
    return cast(x.softmax(dim=-1).multinomial(sample_size, replacement=True), onnx_dtype(dtype))


def write_complex(g: GraphWriter, real: Operand | str, imag: Operand | str) -> str:
    """Join the parts of complex numbers along a last dimension: in ONNX, complex numbers are pairs."""
    return g.node("Concat", *[g.node("Unsqueeze", x, g.sizes((-1,))) for x in (real, imag)], axis=-1)  # type: ignore[no-any-return]  # a name


def write_real(g: GraphWriter, z: Operand) -> str:
    """Take the real part of pairs."""
    return g.node("Gather", z, g.constant(0, int64), axis=-1)  # type: ignore[no-any-return]  # a name


def write_imag(g: GraphWriter, z: Operand) -> str:
    """Take the imaginary part of pairs."""
    return g.node("Gather", z, g.constant(1, int64), axis=-1)  # type: ignore[no-any-return]  # a name


def write_complex_abs(g: GraphWriter, z: Operand) -> str:
    """Compute the length of pairs."""
    return g.node("ReduceL2", z, g.sizes((-1,)), keepdims=0)  # type: ignore[no-any-return]  # a name


@only(since=20)
def write_fft(g: GraphWriter, z: Operand, dims: Any, inverse: bool, norm: str) -> Any:
    """Write a DFT along each dimension of a complex array."""
    return _scaled(g, _dft(g, z, dims, inverse), z, _factor(math.prod(z.shape[d] for d in dims), inverse, norm))


@only(since=20)
def write_fft_real(g: GraphWriter, x: Operand, dims: Any, inverse: bool, norm: str) -> Any:
    """Write a DFT along each dimension of a real array."""
    whole = g.node("Unsqueeze", x, g.sizes((len(x.shape),)))
    return _scaled(g, _dft(g, whole, dims, inverse), x, _factor(math.prod(x.shape[d] for d in dims), inverse, norm))


@only(since=20)
def write_rfft(g: GraphWriter, x: Operand, dims: Any, norm: str) -> Any:
    """Write a DFT to half the spectrum along the last of ``dims``, and others along the rest."""
    half = g.node("Unsqueeze", x, g.sizes((len(x.shape),)))
    half = g.node("DFT", half, None, g.constant(dims[-1], int64), onesided=1)
    return _scaled(g, _dft(g, half, dims[:-1], False), x, _factor(math.prod(x.shape[d] for d in dims), False, norm))


@only(since=20)
def write_irfft(g: GraphWriter, z: Operand, dims: Any, size: int, norm: str) -> Any:
    """Write an inverse DFT of the whole spectrum along the last of ``dims``, after those along the others."""
    last, half, dtype = dims[-1], z.shape[dims[-1]], part_dtype(z.dtype)
    spectrum = _dft(g, z, dims[:-1], True)
    sign = g.node("Concat", *[g.node("Unsqueeze", g.constant(k, dtype), g.sizes((0,))) for k in (1, -1)], axis=0)
    ends = g.sizes((size - half,)), g.sizes((0,)), g.sizes((last,)), g.sizes((-1,))
    mirrored = g.node("Mul", g.node("Slice", spectrum, *ends), sign)
    kept = g.node("Slice", spectrum, g.sizes((0,)), g.sizes((min(half, size // 2 + 1),)), g.sizes((last,)))
    whole = g.node("Concat", kept, mirrored, axis=last)
    count = math.prod(z.shape[d] for d in dims[:-1]) * size
    return write_real(g, _scaled(g, _dft(g, whole, (last,), True), z, _factor(count, True, norm)))


def _dft(g: GraphWriter, x: Operand | str, dims: Any, inverse: bool) -> Operand | str:
    for dim in dims:
        x = g.node("DFT", x, None, g.constant(dim, int64), inverse=int(inverse))
    return x


def _factor(count: int, inverse: bool, norm: str) -> float:
    """Return what the operator's result is multiplied by: it divides inverse transforms by the number of elements."""
    power = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm]
    return float(count**power if inverse else count**-power)


def _scaled(g: GraphWriter, pair: Any, like: Operand, factor: float) -> Any:
    """Return pairs times a factor."""
    return pair if factor == 1.0 else g.node("Mul", pair, g.constant(factor, part_dtype(like.dtype)))
