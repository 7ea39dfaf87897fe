"""Discrete Fourier transforms, and the frames of signals.

A complex array is a pair of float arrays of one shape and dtype, its real and its imaginary part; there is no complex
dtype. Transforms are linear, so each one's gradient is another one. The transposes of a transform of norm "backward",
which does not scale, have norm "forward", which does not scale the inverse, and conversely.

The defaults copy to the host, compute there by `burnpy.backend.numerics.fourier`, and copy back. float16 and bfloat16
are computed in float32.
"""

from __future__ import annotations

from functools import lru_cache
from math import log2, prod
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.backend.operations import OperationsBase, by_host
from burnpy.backend.primitives import Dims, DType, Float, Shape, Value
from burnpy.backend.rules import SHIFTED
from burnpy.backend.schema import GENERAL, LINEAR, STRUCTURAL, derived

TRANSPOSED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""For each norm of a transform the norm of its transpose, which goes in the other direction with the same factor."""

_WHOLE = slice(None, None, 1)


def flops_of(shape: Shape) -> int:
    """Five for each element and binary digit of the number of elements, as of one transform of them all."""
    return int(5 * prod(shape) * log2(max(prod(shape), 2)))


@lru_cache(maxsize=256)
def _inner_factor(size: int, factor: float, dtype: DType) -> Any:
    """Return ``factor`` for the frequencies of half a spectrum of ``size`` that stand for two, and 1 for the others."""
    values = np.full(size // 2 + 1, factor)
    values[0] = 1.0
    if size % 2 == 0:
        values[-1] = 1.0
    return values.astype(dtype)


def inner_scaled(i: Any, x: Float, dim: int, size: int, factor: float) -> Float:
    """Half a spectrum of ``size`` along ``dim``, times ``factor`` at the frequencies that stand for two."""
    values = _inner_factor(size, factor, x.dtype).reshape((-1, *(1,) * (len(x.shape) - 1 - dim)))
    return i.mul(x, i.from_numpy(values))


def both_parts(i: Any, parts: Any) -> tuple[Float, Float]:
    """Return the parts of a complex gradient or tangent, zeros for a missing one."""
    real, imag = parts
    if real is None:
        real = i.full(imag.shape, 0.0, imag.dtype)
    return real, i.full(real.shape, 0.0, real.dtype) if imag is None else imag


def transformed(i: Any, parts: Any, dims: Dims, inverse: bool, norm: str) -> tuple[Float, Float]:
    """Return the transform of a complex array, whose one part may be missing: i F(y) is the transform of i y."""
    real, imag = parts
    if imag is None:
        return i.fft_real(real, dims, inverse, norm)  # type: ignore[no-any-return]  # a pair
    if real is None:
        by_imag, by_real = i.fft_real(imag, dims, inverse, norm)
        return i.neg(by_real), by_imag
    return i.fft(real, imag, dims, inverse, norm)  # type: ignore[no-any-return]  # a pair


def fft_vjp(i: Any, grads: Any, needs: Any, dims: Dims, inverse: bool, norm: str) -> tuple[Float, Float]:
    """Return the transform in the other direction."""
    return transformed(i, grads, dims, not inverse, TRANSPOSED[norm])


def fft_real_vjp(i: Any, grads: Any, needs: Any, dims: Dims, inverse: bool, norm: str) -> tuple[Float]:
    """Return the real part of the transform in the other direction."""
    return (transformed(i, grads, dims, not inverse, TRANSPOSED[norm])[0],)


def rfft_vjp(i: Any, grads: Any, needs: Any, x_shape: Shape, dims: Dims, norm: str) -> tuple[Float]:
    """Return the inverse transform of the gradient, with half of the frequencies that it would count twice."""
    size = x_shape[dims[-1]]
    real, imag = [inner_scaled(i, g, dims[-1], size, 0.5) for g in both_parts(i, grads)]
    return (i.irfft(real, imag, dims, size, TRANSPOSED[norm]),)


def irfft_vjp(i: Any, grads: Any, needs: Any, dims: Dims, size: int, norm: str) -> tuple[Float, Float]:
    """Return the transform of the gradient, twice at the frequencies that stand for two."""
    real, imag = i.rfft(grads[0], dims, TRANSPOSED[norm])
    return inner_scaled(i, real, dims[-1], size, 2.0), inner_scaled(i, imag, dims[-1], size, 2.0)


class Fourier(OperationsBase):
    """Discrete Fourier transforms along ``dims``, each at least 1 long, and frames along the last dimension.

    ``norm`` names the direction that divides by the number of elements: "backward" the inverse one, "forward" the other
    one, "ortho" each by its root. Half spectra have the frequencies 0 to n // 2 along the last of ``dims``; real arrays
    determine the others.
    Source: Cooley and Tukey, An Algorithm for the Machine Calculation of Complex Fourier Series, 1965.
    """

    @derived(
        LINEAR,
        like="real",
        flops=lambda real: flops_of(real),
        joint=fft_vjp,
        joint_jvp=lambda i, tangents, dims, inverse, norm: transformed(i, tangents, dims, inverse, norm),
        batch=SHIFTED,
        onnx="signals.fft",
    )
    def fft(self, real: Float, imag: Float, dims: Dims, inverse: bool, norm: str) -> tuple[Float, Float]:
        """Real and imaginary part of the transform of a complex array, or of its ``inverse``."""
        from burnpy.backend.numerics.fourier import fft

        return by_host(self, fft, real, imag, dims, inverse, norm)  # type: ignore[no-any-return]  # a pair

    @derived(
        LINEAR,
        like="x",
        flops=lambda x: flops_of(x),
        joint=fft_real_vjp,
        joint_jvp=lambda i, tangents, dims, inverse, norm: i.fft_real(tangents[0], dims, inverse, norm),
        batch=SHIFTED,
        onnx="signals.fft_real",
    )
    def fft_real(self, x: Float, dims: Dims, inverse: bool, norm: str) -> tuple[Float, Float]:
        """Real and imaginary part of the transform of a real array, with all frequencies, or of its ``inverse``."""
        from burnpy.backend.numerics.fourier import fft_real

        return by_host(self, fft_real, x, dims, inverse, norm)  # type: ignore[no-any-return]  # a pair

    @derived(
        LINEAR,
        flops=lambda x: flops_of(x) // 2,
        joint=rfft_vjp,
        joint_jvp=lambda i, tangents, dims, norm: i.rfft(tangents[0], dims, norm),
        batch=SHIFTED,
        onnx="signals.rfft",
    )
    def rfft(self, x: Float, dims: Dims, norm: str) -> tuple[Float, Float]:
        """Real and imaginary part of half the spectrum of a real array."""
        from burnpy.backend.numerics.fourier import rfft

        return by_host(self, rfft, x, dims, norm)  # type: ignore[no-any-return]  # a pair

    @derived(
        LINEAR,
        flops=lambda out: flops_of(out) // 2,
        joint=irfft_vjp,
        joint_jvp=lambda i, tangents, dims, size, norm: (i.irfft(*both_parts(i, tangents), dims, size, norm),),
        batch=SHIFTED,
        onnx="signals.irfft",
    )
    def irfft(self, real: Float, imag: Float, dims: Dims, size: int, norm: str) -> Float:
        """Compute the real array of ``size`` along the last of ``dims`` from half its spectrum, the inverse of `rfft`.

        Imaginary parts that a real array does not have, as at frequency 0, are ignored.
        """
        from burnpy.backend.numerics.fourier import irfft

        return by_host(self, irfft, real, imag, dims, size, norm)

    @derived(STRUCTURAL, view="x", vjp=lambda i, g, x_shape, size, step: i.overlap_add(g, x_shape[-1], step))
    def frames(self, x: Value, size: int, step: int) -> Value:
        """All windows of ``size`` elements of the last dimension, ``step`` apart: (…, n) to (…, count, size).

        At least one fits.
        """
        d, shape = self.discrete, x.shape
        count = (shape[-1] - size) // step + 1
        first = d.reshape(d.arange(0, count * step, step, int64), (count, 1))
        index = d.reshape(d.add(first, d.arange(0, size, 1, int64)), (count * size,))
        return self.reshape(self.index_select(x, len(shape) - 1, index), (*shape[:-1], count, size))

    @derived(LINEAR, flops=lambda x: prod(x), vjp=lambda i, g, x_shape, step: i.frames(g, x_shape[-1], step))
    def overlap_add(self, x: Float, length: int, step: int) -> Float:
        """Sum of frames, each at its place in ``length`` elements: (…, count, size) to (…, length).

        No more than ``count`` frames fit in ``length``.
        """
        *batch, count, size = x.shape
        pieces = -(-size // step)  # of a frame, each in another row of ``step`` elements
        rows = max(count + pieces - 1, -(-length // step))
        lead = (_WHOLE,) * len(batch)
        total = self.full((*batch, rows, step), 0.0, x.dtype)
        for k in range(pieces):
            width = min(step, size - k * step)
            piece = self.slice(x, (*lead, _WHOLE, slice(k * step, k * step + width, 1)))
            total = self.accumulate_slice(total, (*lead, slice(k, k + count, 1), slice(0, width, 1)), piece)
        return self.slice(self.reshape(total, (*batch, rows * step)), (*lead, slice(0, length, 1)))

    @derived(GENERAL, flops=lambda out: flops_of(out))
    def frame_spectra(self, x: Float, window: Float, step: int, norm: str) -> tuple[Float, Float]:
        """Half the spectra of all `frames` of x as long as the window, times the window: (…, count, size // 2 + 1)."""
        weighted = self.mul(self.frames(x, window.shape[0], step), window)
        return self.rfft(weighted, (len(weighted.shape) - 1,), norm)
