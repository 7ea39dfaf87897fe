"""Fourier transforms of arrays by the ``fft`` of an array module: ``numpy.fft``, ``scipy.fft`` or ``cupy.fft``.

Each function takes the array module, a pair of float arrays for a complex one, and returns such pairs. float16 and
bfloat16 are computed in float32. The parts of a result are views of one complex array, whose memory they share.
`burnpy.backend.operations.fourier` explains the arguments.
"""

from __future__ import annotations

from math import prod
from typing import Any

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import DType, Shape

Array = Any


def joined(xp: Any, real: Array, imag: Array) -> Array:
    """Return the complex array of two parts, in new memory."""
    out = xp.empty(real.shape, "complex128" if real.dtype == float64 else "complex64")
    out.real[...] = real
    out.imag[...] = imag
    return out


def fft(xp: Any, real: Array, imag: Array, dims: Shape, inverse: bool, norm: str) -> tuple[Array, Array]:
    """Return the parts of the transform, or of the inverse one, of a complex array."""
    return complex_fft(xp, joined(xp, real, imag), real.dtype, dims, inverse, norm)


def complex_fft(xp: Any, z: Array, dtype: DType, dims: Shape, inverse: bool, norm: str) -> tuple[Array, Array]:
    """Return the parts, of a float dtype, of the transform of a complex array."""
    if not z.size:
        return parted(z, dtype)
    if len(dims) == 1:
        return parted((xp.fft.ifft if inverse else xp.fft.fft)(z, None, dims[0], norm), dtype)
    return parted((xp.fft.ifftn if inverse else xp.fft.fftn)(z, None, dims, norm), dtype)


def fft_real(xp: Any, x: Array, dims: Shape, inverse: bool, norm: str) -> tuple[Array, Array]:
    """Return the parts of the transform, or of the inverse one, of a real array."""
    wide = widened(x)
    return complex_fft(xp, wide if wide.size else joined(xp, wide, wide), x.dtype, dims, inverse, norm)


def rfft(xp: Any, x: Array, dims: Shape, norm: str) -> tuple[Array, Array]:
    """Return the parts of half the spectrum of a real array."""
    wide = widened(x)
    if not x.size:
        half = wide[(*(slice(None),) * dims[-1], slice(0, x.shape[dims[-1]] // 2 + 1))]
        return parted(joined(xp, half, half), x.dtype)
    if len(dims) == 1:
        return parted(xp.fft.rfft(wide, None, dims[0], norm), x.dtype)
    return parted(xp.fft.rfftn(wide, None, dims, norm), x.dtype)


def irfft(xp: Any, real: Array, imag: Array, dims: Shape, size: int, norm: str) -> Array:
    """Return the real array of half a spectrum."""
    return real_ifft(xp, joined(xp, real, imag), real.dtype, dims, size, norm)


def real_ifft(xp: Any, z: Array, dtype: DType, dims: Shape, size: int, norm: str) -> Array:
    """Return the real array, of a float dtype, of half a spectrum that is a complex array."""
    shape = list(z.shape)
    shape[dims[-1]] = size
    if not prod(shape):
        return xp.zeros(shape, dtype)
    if len(dims) == 1:
        out = xp.fft.irfft(z, size, dims[0], norm)
    else:
        out = xp.fft.irfftn(z, [shape[d] for d in dims], dims, norm)
    return out if out.dtype == dtype else out.astype(dtype)


def widened(x: Array) -> Array:
    """Return floats in a dtype that transforms compute in."""
    return x.astype(float32) if x.dtype.itemsize == 2 else x


def parted(z: Array, dtype: DType) -> tuple[Array, Array]:
    """Return the parts of a complex array in a float dtype."""
    if dtype.itemsize == 2:
        return z.real.astype(dtype), z.imag.astype(dtype)
    return z.real, z.imag
