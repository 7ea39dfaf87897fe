"""The frequencies of spectra, and the order in which frequency 0 is in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from burnpy.backend.errors import ArgumentError
from burnpy.fft.complex_tensor import ComplexTensor
from burnpy.fft.sizes import float_or_complex
from burnpy.tensor.call_errors import explained
from burnpy.tensor.creation import from_data
from burnpy.tensor.dims import ALL, dims_of, integer
from burnpy.tensor.host_data import DTypeLike
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

Signal = TypeVar("Signal", bound=Tensor[Any] | ComplexTensor[Any])


@explained
def fftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: B | type[B]) -> Tensor[B]:
    """Return the frequencies of `fft`, in cycles per unit of time: 0, 1, …, then the negative ones, over n d.

    Args:
        n: the size of the transform.
        d: the time between two samples.
        dtype: a float dtype, by default float32.
        device: where to make them.

    Raises:
        ArgumentError: n is no positive int, or d is no number other than 0.

    >>> fftfreq(4, 0.5, device=NumPy).tolist()
    [0.0, 0.5, -1.0, -0.5]
    """
    n = _checked("fftfreq", n, d)
    values = (np.arange(n) + n // 2) % n - n // 2
    return from_data(Tensor, values / (n * d), dtype or "float32", device, True)  # type: ignore[no-any-return]  # a Tensor


@explained
def rfftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: B | type[B]) -> Tensor[B]:
    """Return the frequencies of `rfft`, of a signal of n samples: 0, 1, …, n // 2 over n d.

    >>> rfftfreq(5, device=NumPy, dtype="float64").tolist()
    [0.0, 0.2, 0.4]
    """
    n = _checked("rfftfreq", n, d)
    values = np.arange(n // 2 + 1)
    return from_data(Tensor, values / (n * d), dtype or "float32", device, True)  # type: ignore[no-any-return]  # a Tensor


@explained
def fftshift(x: Signal, dim: int | Sequence[int] | None = None) -> Signal:
    """Move frequency 0 to the middle of some dimensions, by default of all.

    >>> fftshift(fftfreq(4, device=NumPy)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    out: Signal = _shifted("fftshift", x, dim, 0)
    return out


@explained
def ifftshift(x: Signal, dim: int | Sequence[int] | None = None) -> Signal:
    """Move frequency 0 back from the middle to the beginning: the inverse of `fftshift`.

    >>> from burnpy.fft import fftshift
    >>> ifftshift(fftshift(Tensor[NumPy].arange(0.0, 5.0))).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    out: Signal = _shifted("ifftshift", x, dim, 1)
    return out


def _shifted(operation: str, x: Any, dim: Any, up: int) -> Any:
    x = float_or_complex(operation, x)
    dims = ALL[x.ndim] if dim is None else dims_of(dim, x.ndim, operation)
    shifts = [(x.shape[d] + up) // 2 for d in dims]
    return x.roll(shifts, dims) if dims else x


def _checked(operation: str, n: Any, d: Any) -> int:
    """Return the size of a transform.

    Raises:
        ArgumentError: it is no positive int, or d is no number other than 0.
    """
    size = integer(n, "n", operation)
    if size < 1:
        raise ArgumentError(f"{operation}() got n={size}; the size of a transform is 1 or more")
    if not isinstance(d, (int, float)) or not d or d != d:
        raise ArgumentError(f"{operation}() got d={describe(d)}; the time between two samples is a number other than 0")
    return size
