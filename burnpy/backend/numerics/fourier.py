"""Fourier transforms of arrays by the ``fft`` of an array module: ``numpy.fft``, ``scipy.fft`` or ``cupy.fft``.

Each function takes the array module. `burnpy.backend.operations.fourier` explains the arguments.
"""

from __future__ import annotations

from math import prod
from typing import Any

from burnpy.backend.dtypes import complex_dtype, part_dtype
from burnpy.backend.primitives import Shape

Array = Any


def fft(xp: Any, x: Array, dims: Shape, inverse: bool, norm: str) -> Array:
    """Return the transform, or the inverse one, of a real or complex array."""
    dtype = x.dtype if x.dtype.kind == "c" else complex_dtype(x.dtype)
    if not x.size:
        return xp.zeros(x.shape, dtype)
    if len(dims) == 1:
        return (xp.fft.ifft if inverse else xp.fft.fft)(x, None, dims[0], norm)
    return (xp.fft.ifftn if inverse else xp.fft.fftn)(x, None, dims, norm)


def rfft(xp: Any, x: Array, dims: Shape, norm: str) -> Array:
    """Return half the spectrum of a real array."""
    if not x.size:
        shape = [n // 2 + 1 if d == dims[-1] else n for d, n in enumerate(x.shape)]
        return xp.zeros(shape, complex_dtype(x.dtype))
    if len(dims) == 1:
        return xp.fft.rfft(x, None, dims[0], norm)
    return xp.fft.rfftn(x, None, dims, norm)


def irfft(xp: Any, z: Array, dims: Shape, size: int, norm: str) -> Array:
    """Return the real array of half a spectrum."""
    shape = list(z.shape)
    shape[dims[-1]] = size
    if not prod(shape):
        return xp.zeros(shape, part_dtype(z.dtype))
    if len(dims) == 1:
        return xp.fft.irfft(z, size, dims[0], norm)
    return xp.fft.irfftn(z, [shape[d] for d in dims], dims, norm)
