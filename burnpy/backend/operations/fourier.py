"""Discrete Fourier transforms, and the frames of signals.

Transforms are linear, so each one's gradient is another one; the gradient of half a spectrum goes in the other
direction. Then norm "backward", which does not scale, becomes "forward", which does not scale the inverse, and
conversely.

The defaults copy to the host, compute there by ``numpy.fft``, and copy back. Floats are float32 or float64.
"""

from __future__ import annotations

from functools import lru_cache
from math import log2, prod
from typing import Any

import numpy as np

from burnpy.backend.dtypes import complex_dtype, int64, part_dtype
from burnpy.backend.operations import OperationsBase, by_host
from burnpy.backend.primitives import Complex, Dims, DType, Float, Inexact, Shape, Value
from burnpy.backend.rules import SHIFTED
from burnpy.backend.schema import GENERAL, LINEAR, STRUCTURAL, derived

TRANSPOSED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""For each norm of a transform the norm with which the other direction has the same factor."""

_WHOLE = slice(None, None, 1)


def flops_of(shape: Shape) -> int:
    """Count five for each element and binary digit of the number of elements, as for one transform of them all."""
    return int(5 * prod(shape) * log2(max(prod(shape), 2)))


@lru_cache(maxsize=256)
def _inner_factor(size: int, factor: float, dtype: DType) -> Any:
    """Return ``factor`` for the frequencies of half a spectrum of ``size`` that stand for two, and 1 for the others."""
    values = np.full(size // 2 + 1, factor)
    values[0] = 1.0
    if size % 2 == 0:
        values[-1] = 1.0
    return values.astype(dtype)


def inner_scaled(i: Any, x: Complex, dim: int, size: int, factor: float) -> Complex:
    """Half a spectrum of ``size`` along ``dim``, times ``factor`` at the frequencies that stand for two."""
    values = _inner_factor(size, factor, x.dtype).reshape((-1, *(1,) * (len(x.shape) - 1 - dim)))
    return i.mul(x, i.from_numpy(values))


def rfft_vjp(i: Any, g: Complex, x_shape: Shape, dims: Dims, norm: str) -> Float:
    """Return the inverse transform of the conjugate, with half of the frequencies that it would count twice."""
    size = x_shape[dims[-1]]
    return i.irfft(inner_scaled(i, i.conj(g), dims[-1], size, 0.5), dims, size, TRANSPOSED[norm])


def irfft_vjp(i: Any, g: Float, dims: Dims, size: int, norm: str) -> Complex:
    """Return the conjugate of the transform of the gradient, twice at the frequencies that stand for two."""
    return inner_scaled(i, i.conj(i.rfft(g, dims, TRANSPOSED[norm])), dims[-1], size, 2.0)


class Fourier(OperationsBase):
    """Discrete Fourier transforms along ``dims``, each at least 1 long, and frames along the last dimension.

    ``norm`` names the direction that divides by the number of elements: "backward" the inverse one, "forward" the other
    one, "ortho" each by its root. Half spectra have the frequencies 0 to n // 2 along the last of ``dims``; real arrays
    determine the others.
    Source: Cooley and Tukey, An Algorithm for the Machine Calculation of Complex Fourier Series, 1965.
    """

    @derived(
        LINEAR,
        like="z",
        flops=lambda z: flops_of(z),
        vjp=lambda i, g, dims, inverse, norm: i.fft(g, dims, inverse, norm),
        batch=SHIFTED,
        onnx="images_and_signals.fft",
    )
    def fft(self, z: Complex, dims: Dims, inverse: bool, norm: str) -> Complex:
        """Return the transform, or its ``inverse``; as matrices, both are symmetric."""
        return by_host(self, fft_of_array, z, dims, inverse, norm)

    @derived(
        LINEAR,
        like="x",
        flops=lambda x: flops_of(x),
        vjp=lambda i, g, dims, inverse, norm: i.real(i.fft(g, dims, inverse, norm)),
        batch=SHIFTED,
        onnx="images_and_signals.fft_real",
    )
    def fft_real(self, x: Float, dims: Dims, inverse: bool, norm: str) -> Complex:
        """Return the transform of a real array, with all frequencies, or its ``inverse``."""
        return by_host(self, fft_of_array, x, dims, inverse, norm)

    @derived(LINEAR, flops=lambda x: flops_of(x) // 2, vjp=rfft_vjp, batch=SHIFTED, onnx="images_and_signals.rfft")
    def rfft(self, x: Float, dims: Dims, norm: str) -> Complex:
        """Return half the spectrum of a real array."""
        return by_host(self, rfft_of_array, x, dims, norm)

    @derived(
        LINEAR, flops=lambda out: flops_of(out) // 2, vjp=irfft_vjp, batch=SHIFTED, onnx="images_and_signals.irfft"
    )
    def irfft(self, z: Complex, dims: Dims, size: int, norm: str) -> Float:
        """Compute the real array of ``size`` along the last of ``dims`` from half its spectrum, the inverse of `rfft`.

        Imaginary parts that a real array does not have, as at frequency 0, are ignored.
        """
        return by_host(self, irfft_of_array, z, dims, size, norm)

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
    def overlap_add(self, x: Inexact, length: int, step: int) -> Inexact:
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
    def frame_spectra(self, x: Float, window: Float, step: int, norm: str) -> Complex:
        """Half the spectra of all `frames` of x as long as the window, times the window: (…, count, size // 2 + 1)."""
        weighted = self.mul(self.frames(x, window.shape[0], step), window)
        return self.rfft(weighted, (len(weighted.shape) - 1,), norm)


def fft_of_array(xp: Any, x: Any, dims: Shape, inverse: bool, norm: str) -> Any:
    """Return the transform of a real or complex array, or its ``inverse``, by the ``fft`` of an array module."""
    dtype = x.dtype if x.dtype.kind == "c" else complex_dtype(x.dtype)
    if not x.size:
        return xp.zeros(x.shape, dtype)
    if len(dims) == 1:
        return (xp.fft.ifft if inverse else xp.fft.fft)(x, None, dims[0], norm)
    return (xp.fft.ifftn if inverse else xp.fft.fftn)(x, None, dims, norm)


def rfft_of_array(xp: Any, x: Any, dims: Shape, norm: str) -> Any:
    """Return half the spectrum of a real array."""
    if not x.size:
        shape = [n // 2 + 1 if d == dims[-1] else n for d, n in enumerate(x.shape)]
        return xp.zeros(shape, complex_dtype(x.dtype))
    if len(dims) == 1:
        return xp.fft.rfft(x, None, dims[0], norm)
    return xp.fft.rfftn(x, None, dims, norm)


def irfft_of_array(xp: Any, z: Any, dims: Shape, size: int, norm: str) -> Any:
    """Return the real array of half a spectrum."""
    shape = list(z.shape)
    shape[dims[-1]] = size
    if not prod(shape):
        return xp.zeros(shape, part_dtype(z.dtype))
    if len(dims) == 1:
        return xp.fft.irfft(z, size, dims[0], norm)
    return xp.fft.irfftn(z, [shape[d] for d in dims], dims, norm)
