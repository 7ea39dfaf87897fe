"""Examples of Fourier transforms and frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Large, x
from burnpy.testing.cases.table import Example, row


def _along(f: Any, z: Any, dims: Any, **options: Any) -> Any:
    """Return the transform along one dimension after another, of an array that may be empty."""
    return f(z, axes=dims, **options) if z.size else np.zeros(z.shape, complex)


def _fft(z: Any, dims: Any, inverse: bool, norm: str) -> Any:
    return _along(np.fft.ifftn if inverse else np.fft.fftn, z, dims, norm=norm)


def _rfft(x: Any, dims: Any, norm: Any) -> Any:
    if x.size:
        return np.fft.rfftn(x, axes=dims, norm=norm)
    shape = list(x.shape)
    shape[dims[-1]] = shape[dims[-1]] // 2 + 1
    return np.zeros(shape, complex)


def _irfft(z: Any, dims: Any, size: int, norm: Any) -> Any:
    shape = list(z.shape)
    shape[dims[-1]] = size
    return np.fft.irfftn(z, [shape[d] for d in dims], dims, norm) if z.size else np.zeros(shape)


def _frames(x: Any, size: int, step: int) -> Any:
    starts = range(0, x.shape[-1] - size + 1, step)
    return np.stack([x[..., start : start + size] for start in starts], -2)


def _overlap_add(x: Any, length: int, step: int) -> Any:
    out = np.zeros((*x.shape[:-2], length), x.dtype)
    for k in range(x.shape[-2]):
        out[..., k * step : k * step + x.shape[-1]] += x[..., k, :]
    return out


_REAL: list[tuple[Any, tuple[int, ...]]] = [
    (x(5), (0,)),
    (x(2, 6), (1,)),
    (x(4, 3), (0,)),
    (x(1), (0,)),
    (x(3, 2, 4), (0, 2)),
    (x(2, 3, 5), (0, 1, 2)),
    (x(0, 3), (1,)),
    (Large((64, 400)), (1,)),
]
_NORMS = ("backward", "ortho", "forward")
_HALF: list[Example] = [
    (x(3), (0,), 5, "backward"),
    (x(2, 4), (1,), 6, "ortho"),
    (x(3, 2), (0,), 4, "forward"),
    (x(1), (0,), 1, "backward"),
    (x(3, 3), (0, 1), 4, "backward"),
    (x(2, 3, 2), (2, 0, 1), 5, "forward"),
    (x(0, 3), (1,), 4, "backward"),
    (Large((64, 201)), (1,), 400, "backward"),
]
_WHOLE: list[Example] = [(a, dims, bool(k % 2), _NORMS[k % 3]) for k, (a, dims) in enumerate(_REAL)]

row("fft", _fft, [*_WHOLE, *[(a, dims, not k % 2, _NORMS[k % 3]) for k, (a, dims) in enumerate(_REAL[:3])]], loose=8)
row("fft_real", _fft, _WHOLE, loose=8)
row("rfft", _rfft, [(a, dims, _NORMS[k % 3]) for k, (a, dims) in enumerate(_REAL)], loose=8)
row("irfft", _irfft, _HALF, loose=8)
row("frames", _frames, [(x(7), 3, 2), (x(2, 6), 2, 2), (x(2, 5), 2, 3), (x(1), 1, 1), (x(0, 3), 2, 1)])
row(
    "overlap_add",
    _overlap_add,
    [(x(3, 3), 7, 2), (x(2, 3, 2), 7, 2), (x(2, 2, 2), 6, 3), (x(1, 1), 1, 1), (x(0, 2, 2), 3, 1), (x(2, 5), 8, 2)],
    loose=4,
)
row(
    "frame_spectra",
    lambda x, window, step, norm: _rfft(_frames(x, len(window), step) * window, (x.ndim,), norm),
    [
        (x(7), x(4, low=-1.0), 2, "backward"),
        (x(2, 6), x(3), 3, "ortho"),
        (x(1), x(1), 1, "forward"),
        (x(0, 3), x(2), 1, "backward"),
        (Large((2, 3000)), Large((64,)), 1, "backward"),
    ],
    loose=16,  # transforms differ in the order of sums
)
