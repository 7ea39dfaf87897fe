"""Windows: weights of the samples of a frame, which fall off to its ends so that its spectrum leaks less.

Sources: Harris, On the Use of Windows for Harmonic Analysis with the Discrete Fourier Transform, 1978; Kaiser and
Schafer, On the Use of the I0-Sinh Window for Spectrum Analysis, 1980.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from burnpy.backend.errors import ArgumentError
from burnpy.tensor.call_errors import explained
from burnpy.tensor.creation import from_data
from burnpy.tensor.dim_checks import integer
from burnpy.tensor.host_data import DTypeLike
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

_BLACKMAN = (0.42, 0.5, 0.08)
_NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


@explained
def hann_window(
    window_length: int, periodic: bool = True, *, dtype: DTypeLike | None = None, device: B | type[B]
) -> Tensor[B]:
    """Return the Hann window, sin²(π j / n).

    Args:
        window_length: the number of samples.
        periodic: whether n is ``window_length``, as spectra want it: repeated and shifted by half, the windows add up
            to 1. If False, n is ``window_length - 1``, and the window symmetric.
        dtype: a float dtype, by default float32. The numbers are computed in float64 and rounded.
        device: where to make it.

    Raises:
        ArgumentError: ``window_length`` is negative, or a parameter of the window is no finite number.

    >>> hann_window(4, device=NumPy).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    return _cosines("hann_window", window_length, periodic, (0.5, 0.5), dtype, device)


@explained
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DTypeLike | None = None,
    device: B | type[B],
) -> Tensor[B]:
    """Return the Hamming window, alpha - beta cos(2π j / n); see `hann_window`.

    >>> print(hamming_window(4, device=NumPy).to_numpy().round(3))
    [0.08 0.54 1.   0.54]
    """
    return _cosines("hamming_window", window_length, periodic, (alpha, beta), dtype, device)


@explained
def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: DTypeLike | None = None, device: B | type[B]
) -> Tensor[B]:
    """Return the Blackman window, 0.42 - 0.5 cos(2π j / n) + 0.08 cos(4π j / n); see `hann_window`.

    >>> print(blackman_window(4, device=NumPy)[1:].to_numpy().round(3))
    [0.34 1.   0.34]
    """
    return _cosines("blackman_window", window_length, periodic, _BLACKMAN, dtype, device)


@explained
def nuttall_window(
    window_length: int, periodic: bool = True, *, dtype: DTypeLike | None = None, device: B | type[B]
) -> Tensor[B]:
    """Return the minimal four-term window of Nuttall, whose side lobes are below -98 dB; see `hann_window`.

    Source: Nuttall, Some Windows with Very Good Sidelobe Behavior, 1981.

    >>> print(nuttall_window(4, device=NumPy).to_numpy().round(3))
    [0.    0.227 1.    0.227]
    """
    return _cosines("nuttall_window", window_length, periodic, _NUTTALL, dtype, device)


@explained
def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: DTypeLike | None = None, device: B | type[B]
) -> Tensor[B]:
    """Return the triangle 1 - |2 j / n - 1|; see `hann_window`.

    >>> print(bartlett_window(4, device=NumPy).to_numpy().round(3))
    [0.  0.5 1.  0.5]
    """
    at = _phases("bartlett_window", window_length, periodic)
    return _made(1.0 - np.abs(2.0 * at - 1.0), dtype, device)


@explained
def cosine_window(
    window_length: int, periodic: bool = True, *, dtype: DTypeLike | None = None, device: B | type[B]
) -> Tensor[B]:
    """Return half a wave, sin(π (j + ½) / n), where n is ``window_length``, or one more if ``periodic``.

    >>> print(cosine_window(4, device=NumPy).to_numpy().round(3))
    [0.309 0.809 1.    0.809]
    """
    count = _count("cosine_window", window_length)
    steps = count + bool(periodic) if count > 1 else 1
    return _made(np.sin(math.pi * (np.arange(count) + 0.5) / steps), dtype, device)


@explained
def gaussian_window(
    window_length: int, periodic: bool = True, std: float = 1.0, *, dtype: DTypeLike | None = None, device: B | type[B]
) -> Tensor[B]:
    """Return the bell exp(-½ ((j - n / 2) / std)²), with ``std`` in samples; see `hann_window`.

    >>> print(gaussian_window(4, device=NumPy).to_numpy().round(3))
    [0.135 0.607 1.    0.607]
    """
    at = _phases("gaussian_window", window_length, periodic)
    if _number("gaussian_window", "std", std) <= 0.0:
        raise ArgumentError(f"gaussian_window() got std={describe(std)}; give a positive number")
    distance = (at - 0.5) * _steps(len(at), periodic)
    return _made(np.exp(-0.5 * np.square(distance / std)), dtype, device)


@explained
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DTypeLike | None = None,
    device: B | type[B],
) -> Tensor[B]:
    """Return the Kaiser window, I₀(beta √(1 - (2 j / n - 1)²)) / I₀(beta); see `hann_window`.

    Args:
        window_length: the number of samples.
        periodic: see `hann_window`.
        beta: the compromise between a narrow main lobe, near 0, and low side lobes.
        dtype: see `hann_window`.
        device: where to make it.

    >>> kaiser_window(4, beta=0.0, device=NumPy).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    at = _phases("kaiser_window", window_length, periodic)
    inside = _number("kaiser_window", "beta", beta) * np.sqrt(np.maximum(1.0 - np.square(2.0 * at - 1.0), 0.0))
    return _made(np.i0(inside) / np.i0(beta), dtype, device)


def _cosines(
    operation: str, window_length: Any, periodic: bool, terms: Sequence[float], dtype: Any, device: Any
) -> Tensor[Any]:
    """Return the alternating sum of cosines of multiples of the phase, weighted by ``terms``."""
    at = _phases(operation, window_length, periodic)
    for value in terms:
        _number(operation, "parameter", value)
    total = sum((-1) ** k * term * np.cos(2.0 * math.pi * k * at) for k, term in enumerate(terms))
    return _made(np.ones(1) if len(at) == 1 else np.asarray(total), dtype, device)


def _phases(operation: str, window_length: Any, periodic: bool) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return j / n for each sample j of a window; ½ for a window of one sample, its middle."""
    count = _count(operation, window_length)
    return np.full(1, 0.5) if count == 1 else np.arange(count) / _steps(count, periodic)


def _steps(count: int, periodic: bool) -> int:
    return max(count if periodic else count - 1, 1)


def _count(operation: str, window_length: Any) -> int:
    count = integer(window_length, "window_length", operation)
    if count < 0:
        raise ArgumentError(f"{operation}() got window_length={count}; give 0 or a positive int")
    return count


def _number(operation: str, name: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ArgumentError(f"{operation}() got {name} {describe(value)}; give a finite number")
    return value


def _made(values: Any, dtype: Any, device: Any) -> Tensor[Any]:
    return from_data(Tensor, values, "float32" if dtype is None else dtype, device, True)  # type: ignore[no-any-return]  # a Tensor
