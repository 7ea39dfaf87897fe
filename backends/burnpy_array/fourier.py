"""Fourier transforms by the ``fft`` of the array module, NumPy's pocketfft or CuPy's cuFFT, and frames as views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.backend import Backend
from burnpy_array.array_base import ArrayBase

_NAMES = ("fft", "fft_real", "rfft", "irfft")


class ArrayFourier(ArrayBase):
    """Transforms, on the device of the arrays, by the functions of `burnpy.backend.numerics.fourier`."""

    def _transformed(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return function(xp, *args)."""
        return self._call(function, self.xp, *args)

    def frames(self, x: Any, size: int, step: int) -> Any:
        count = (x.shape[-1] - size) // step + 1
        *lead, last = x.strides
        shape, strides = (*x.shape[:-1], count, size), (*lead, step * last, last)
        return self._call(self.xp.lib.stride_tricks.as_strided, x, shape, strides)


def _method(name: str) -> Any:
    """Return the method of an operation that a function of `burnpy.backend.numerics.fourier` computes."""

    def method(self: ArrayFourier, *args: Any) -> Any:
        import burnpy.backend.numerics.fourier as fourier

        return self._transformed(getattr(fourier, "fft" if name == "fft_real" else name), *args)

    method.__name__, method.__qualname__ = name, f"ArrayFourier.{name}"
    method.__doc__ = getattr(Backend, name).__doc__
    method.__wrapped__ = getattr(Backend, name)  # type: ignore[attr-defined]  # by which `inspect` shows the signature
    return method


for _name in _NAMES:
    setattr(ArrayFourier, _name, _method(_name))
