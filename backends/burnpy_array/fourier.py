"""Fourier transforms by the array module's ``fft``, pocketfft or cuFFT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.operations.fourier import fft_of_array, irfft_of_array, rfft_of_array
from burnpy.backend.primitives import Shape
from burnpy_array.array_base import ArrayBase


class ArrayFourier(ArrayBase):
    """Fourier transforms on the device of the arrays, and frames as views."""

    def _transformed(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return function(xp, *args)."""
        return self._call(function, self.xp, *args)

    def fft(self, z: Any, dims: Shape, inverse: bool, norm: str) -> Any:
        return self._transformed(fft_of_array, z, dims, inverse, norm)

    def fft_real(self, x: Any, dims: Shape, inverse: bool, norm: str) -> Any:
        return self._transformed(fft_of_array, x, dims, inverse, norm)

    def rfft(self, x: Any, dims: Shape, norm: str) -> Any:
        return self._transformed(rfft_of_array, x, dims, norm)

    def irfft(self, z: Any, dims: Shape, size: int, norm: str) -> Any:
        return self._transformed(irfft_of_array, z, dims, size, norm)

    def frames(self, x: Any, size: int, step: int) -> Any:
        count = (x.shape[-1] - size) // step + 1
        *lead, last = x.strides
        shape, strides = (*x.shape[:-1], count, size), (*lead, step * last, last)
        return self._call(self.xp.lib.stride_tricks.as_strided, x, shape, strides)
