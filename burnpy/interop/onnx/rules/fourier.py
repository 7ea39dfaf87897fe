"""Rules of Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.interop.onnx.rules.rule import GraphWriter, Operand, only


@only(since=20)
def fft(g: GraphWriter, real: Operand, imag: Operand, dims: Any, inverse: bool, norm: str) -> Any:
    """Write a DFT along each dimension of a complex array."""
    pair = [g.node("Unsqueeze", part, g.sizes((len(real.shape),))) for part in (real, imag)]
    factor = _factor(math.prod(real.shape[d] for d in dims), inverse, norm)
    return _parts(g, _dft(g, g.node("Concat", *pair, axis=len(real.shape)), dims, inverse), real, factor)


@only(since=20)
def fft_real(g: GraphWriter, x: Operand, dims: Any, inverse: bool, norm: str) -> Any:
    """Write a DFT along each dimension of a real array."""
    whole = g.node("Unsqueeze", x, g.sizes((len(x.shape),)))
    factor = _factor(math.prod(x.shape[d] for d in dims), inverse, norm)
    return _parts(g, _dft(g, whole, dims, inverse), x, factor)


@only(since=20)
def rfft(g: GraphWriter, x: Operand, dims: Any, norm: str) -> Any:
    """Write a DFT to half the spectrum along the last of ``dims``, and others along the rest."""
    half = g.node("Unsqueeze", x, g.sizes((len(x.shape),)))
    half = g.node("DFT", half, None, g.constant(dims[-1], int64), onesided=1)
    factor = _factor(math.prod(x.shape[d] for d in dims), False, norm)
    return _parts(g, _dft(g, half, dims[:-1], False), x, factor)


@only(since=20)
def irfft(g: GraphWriter, real: Operand, imag: Operand, dims: Any, size: int, norm: str) -> Any:
    """Write an inverse DFT of the whole spectrum along the last of ``dims``, after those along the others."""
    last, half = dims[-1], real.shape[dims[-1]]
    pair = [g.node("Unsqueeze", part, g.sizes((len(real.shape),))) for part in (real, imag)]
    spectrum = _dft(g, g.node("Concat", *pair, axis=len(real.shape)), dims[:-1], True)
    sign = g.node("Concat", *[g.node("Unsqueeze", g.constant(k, real.dtype), g.sizes((0,))) for k in (1, -1)], axis=0)
    ends = g.sizes((size - half,)), g.sizes((0,)), g.sizes((last,)), g.sizes((-1,))
    mirrored = g.node("Mul", g.node("Slice", spectrum, *ends), sign)
    kept = g.node("Slice", spectrum, g.sizes((0,)), g.sizes((min(half, size // 2 + 1),)), g.sizes((last,)))
    whole = g.node("Concat", kept, mirrored, axis=last)
    count = math.prod(real.shape[d] for d in dims[:-1]) * size
    return _parts(g, _dft(g, whole, (last,), True), real, _factor(count, True, norm))[0]


def _dft(g: GraphWriter, x: str, dims: Any, inverse: bool) -> str:
    for dim in dims:
        x = g.node("DFT", x, None, g.constant(dim, int64), inverse=int(inverse))
    return x


def _factor(count: int, inverse: bool, norm: str) -> float:
    """Return what the operator's result is multiplied by: it divides inverse transforms by the number of elements."""
    power = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm]
    return float(count**power if inverse else count**-power)


def _parts(g: GraphWriter, pair: str, like: Operand, factor: float) -> tuple[str, str]:
    """Return the real and the imaginary part, times a factor."""
    scaled = pair if factor == 1.0 else g.node("Mul", pair, g.constant(factor, like.dtype))
    real, imag = [g.node("Gather", scaled, g.constant(k, int64), axis=-1) for k in (0, 1)]
    return real, imag
