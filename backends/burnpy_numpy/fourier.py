"""Fourier transforms: SciPy's pocketfft where SciPy is installed and faster, else NumPy's; of frames, a kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np

from burnpy.backend.dtypes import complex_dtype
from burnpy_array import ArrayBackend
from burnpy_numpy.cpu_threads import COUNT
from burnpy_numpy.kernels.kernel import family_kernels

MANY_FRAMED = 1 << 15
"""The least number of elements of all frames for which a kernel computes their spectra; each size of frames has one."""
_BLOCK_ELEMENTS = COUNT << 17
"""The number of elements of frames that are multiplied and transformed at a time."""
_NAMES = ("fft", "ifft", "fftn", "ifftn", "rfft", "rfftn", "irfft", "irfftn")


@cache
def _scipy() -> Any:
    """Return a namespace with the functions of ``scipy.fft`` in place of ``numpy.fft``; None without SciPy. SciPy
    divides a batch among threads of its own; the results have the same bits for any number of them."""
    try:
        package = import_module("scipy.fft")
    except ImportError:
        return None
    functions = {name: getattr(package, name) for name in _NAMES}
    if COUNT > 1:
        functions = {name: partial(function, workers=COUNT) for name, function in functions.items()}
    return SimpleNamespace(fft=SimpleNamespace(**functions), empty=np.empty, zeros=np.zeros)


class NumPyFourier(ArrayBackend):
    """Transforms, and the spectra of frames."""

    def _transformed(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._call(function, _scipy() or np, *args)

    def frame_spectra(self, x: Any, window: Any, step: int, norm: str) -> Any:
        """Run a kernel, or multiply and transform blocks of frames, which stay in the cache."""
        size, elements = window.shape[0], x.size * window.shape[0] // step
        if x.dtype is not window.dtype or x.dtype.itemsize == 2:
            return super().frame_spectra(x, window, step, norm)
        if elements >= MANY_FRAMED and (kernels := family_kernels("fourier")):
            factor = {"backward": 1.0, "ortho": size**-0.5, "forward": 1.0 / size}[norm]
            spectra = self._call(kernels.spectra_of_frames, x, window, step, factor)
            if spectra is not None:
                return spectra
        if elements < _BLOCK_ELEMENTS:
            return super().frame_spectra(x, window, step, norm)
        frames = self.frames(x, size, step)
        out: Any = np.empty((*frames.shape[:-1], size // 2 + 1), complex_dtype(x.dtype))
        self._call(_transform_blocks, frames, window, norm, out)
        return out


def _transform_blocks(frames: Any, window: Any, norm: str, out: Any) -> None:
    """Write half the spectra of frames (…, count, size), times the window, to ``out``."""
    *batch, count, size = frames.shape
    library: Any = _scipy() or np
    rows = max(_BLOCK_ELEMENTS // size, 1)
    weighted = np.empty((min(rows, count), size), window.dtype)
    for index in np.ndindex(*batch):
        for start in range(0, count, rows):
            block = frames[index][start : start + rows]
            part = np.multiply(block, window, weighted[: len(block)])
            out[index][start : start + rows] = library.fft.rfft(part, None, 1, norm)
