"""Discrete Fourier transforms, the frequencies of spectra, and the order in which frequency 0 is in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from burnpy.backend.errors import ArgumentError, KindError, no_complex_arrays
from burnpy.fft.sizes import float_or_complex, resized, single_or_double, transform_dims
from burnpy.tensor.call_errors import explained
from burnpy.tensor.creation import from_data
from burnpy.tensor.dim_checks import ALL, dims_of, integer
from burnpy.tensor.host_data import DTypeLike
from burnpy.tensor.linalg import floating
from burnpy.tensor.tensor import ComplexTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, X

Norm: TypeAlias = Literal["backward", "ortho", "forward"]
"""The direction that divides by the number n of elements: the inverse one, each by √n, or the forward one."""
Sizes: TypeAlias = Sequence[int] | None
Signal: TypeAlias = Tensor[B] | ComplexTensor[B]

_LAST_TWO = (-2, -1)


@explained
def fft(x: Signal[B], n: int | None = None, dim: int = -1, norm: Norm | None = None) -> ComplexTensor[B]:
    """Compute the discrete Fourier transform Σ x[j] exp(-2πi jk / n) along a dimension.

    Args:
        x: a float or complex tensor of one dimension or more.
        n: the size of the transform: elements beyond it are cut off, missing ones are 0. By default all elements.
        dim: the dimension.
        norm: "backward", the default, leaves the sum as it is, "forward" divides it by n, and "ortho" by √n.

    Returns:
        The spectrum, with the n frequencies of `fftfreq` along ``dim``; of float64 in complex128, of other floats in
        complex64.

    Raises:
        ShapeError: x is 0-d, or n or the dimension is 0.
        DimError: x has no such dimension.
        ArgumentError: ``norm`` is something else, or n is not an int.

    >>> z = fft(Tensor[NumPy].from_data([1.0, 0.0, 3.0, 1.0]))
    >>> z.shape, z.real.tolist(), z[1].item()
    ((4,), [5.0, -2.0, 3.0, -2.0], (-2+1j))
    """
    return _complex("fft", x, n, (dim,), norm, False)


@explained
def ifft(x: Signal[B], n: int | None = None, dim: int = -1, norm: Norm | None = None) -> ComplexTensor[B]:
    """Compute the inverse of `fft`, which has the same arguments.

    >>> ifft(fft(Tensor[NumPy].from_data([1.0, 2.0]))).real.tolist()
    [1.0, 2.0]
    """
    return _complex("ifft", x, n, (dim,), norm, True)


@explained
def rfft(x: Tensor[B], n: int | None = None, dim: int = -1, norm: Norm | None = None) -> ComplexTensor[B]:
    """Compute the frequencies 0 to n // 2 of the `fft` of a float tensor; the others are their conjugates.

    >>> rfft(Tensor[NumPy].from_data([1.0, 2.0, 3.0, 4.0])).real.tolist()
    [10.0, -2.0, -2.0]
    """
    return _half("rfft", x, n, (dim,), norm)


@explained
def irfft(x: Signal[B], n: int | None = None, dim: int = -1, norm: Norm | None = None) -> Tensor[B]:
    """Compute the inverse of `rfft`: a float tensor from half its spectrum.

    Args:
        x: the spectrum; the frequencies 0 to n // 2 are read, and missing ones are 0. Imaginary parts that a
            real signal does not have, of frequency 0 and of n / 2, are ignored.
        n: the size of the result, by default 2 (x.shape[dim] - 1). Pass it for an odd size.
        dim: the dimension.
        norm: see `fft`.

    >>> irfft(rfft(Tensor[NumPy].from_data([1.0, 2.0, 3.0])), 3).tolist()
    [1.0, 2.0, 3.0]
    """
    return _real("irfft", x, n, (dim,), norm)


@explained
def hfft(x: Signal[B], n: int | None = None, dim: int = -1, norm: Norm | None = None) -> Tensor[B]:
    """Compute the `fft`, which is real, of a signal whose negative times are the conjugates of the others.

    Args:
        x: the signal at the times 0 to n // 2.
        n: the size of the result, by default 2 (x.shape[dim] - 1).
        dim: the dimension.
        norm: see `fft`.

    >>> hfft(Tensor[NumPy].from_data([1.0, 2.0, 3.0])).tolist()
    [8.0, -2.0, 0.0, -2.0]
    """
    return _real("hfft", _conjugate("hfft", x), n, (dim,), norm, False)


@explained
def ihfft(x: Tensor[B], n: int | None = None, dim: int = -1, norm: Norm | None = None) -> ComplexTensor[B]:
    """Compute the inverse of `hfft`: the first half of the `ifft` of a float tensor.

    >>> ihfft(Tensor[NumPy].from_data([1.0, 3.0])).real.tolist()
    [2.0, -1.0]
    """
    return _half("ihfft", x, n, (dim,), norm, True)


@explained
def fftn(x: Signal[B], s: Sizes = None, dim: Sequence[int] | None = None, norm: Norm | None = None) -> ComplexTensor[B]:
    """Compute the `fft` along several dimensions.

    Args:
        x: a float or complex tensor.
        s: the size along each dimension, -1 for all elements; by default all.
        dim: the dimensions, by default all, or the last ones if ``s`` is given.
        norm: see `fft`, with n the number of elements of all these dimensions.

    Raises:
        ArgumentError: ``s`` and ``dim`` are of different lengths, or a dimension is named twice.

    >>> fftn(Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 5.0]])).real.tolist()
    [[11.0, -3.0], [-5.0, 1.0]]
    """
    return _complex("fftn", x, s, dim, norm, False)


@explained
def ifftn(
    x: Signal[B], s: Sizes = None, dim: Sequence[int] | None = None, norm: Norm | None = None
) -> ComplexTensor[B]:
    """Compute the inverse of `fftn`, which has the same arguments.

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> ifftn(fftn(x)).real.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _complex("ifftn", x, s, dim, norm, True)


@explained
def rfftn(
    x: Tensor[B], s: Sizes = None, dim: Sequence[int] | None = None, norm: Norm | None = None
) -> ComplexTensor[B]:
    """Compute the `fftn` of a float tensor, with the frequencies 0 to n // 2 of the last of ``dim``.

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> rfftn(x).real.tolist()
    [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _half("rfftn", x, s, dim, norm)


@explained
def irfftn(x: Signal[B], s: Sizes = None, dim: Sequence[int] | None = None, norm: Norm | None = None) -> Tensor[B]:
    """Compute the inverse of `rfftn`: the size along the last of ``dim`` is by default 2 (x.shape[dim] - 1).

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> irfftn(rfftn(x)).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _real("irfftn", x, s, dim, norm)


@explained
def fft2(x: Signal[B], s: Sizes = None, dim: Sequence[int] = _LAST_TWO, norm: Norm | None = None) -> ComplexTensor[B]:
    """Compute the `fftn` along the last two dimensions, or others.

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> fft2(x).real.tolist()
    [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _complex("fft2", x, s, dim, norm, False)


@explained
def ifft2(x: Signal[B], s: Sizes = None, dim: Sequence[int] = _LAST_TWO, norm: Norm | None = None) -> ComplexTensor[B]:
    """Compute the inverse of `fft2`.

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> ifft2(fft2(x)).real.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _complex("ifft2", x, s, dim, norm, True)


@explained
def rfft2(x: Tensor[B], s: Sizes = None, dim: Sequence[int] = _LAST_TWO, norm: Norm | None = None) -> ComplexTensor[B]:
    """Compute the `rfftn` along the last two dimensions, or others.

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> rfft2(x).real.tolist()
    [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _half("rfft2", x, s, dim, norm)


@explained
def irfft2(x: Signal[B], s: Sizes = None, dim: Sequence[int] = _LAST_TWO, norm: Norm | None = None) -> Tensor[B]:
    """Compute the inverse of `rfft2`.

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> irfft2(rfft2(x)).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _real("irfft2", x, s, dim, norm)


@explained
def hfftn(x: Signal[B], s: Sizes = None, dim: Sequence[int] | None = None, norm: Norm | None = None) -> Tensor[B]:
    """Compute the real `fftn` of a signal that is given at half of its times along the last of ``dim``; see `hfft`.

    >>> hfftn(Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _real("hfftn", _conjugate("hfftn", x), s, dim, norm, False)


@explained
def ihfftn(
    x: Tensor[B], s: Sizes = None, dim: Sequence[int] | None = None, norm: Norm | None = None
) -> ComplexTensor[B]:
    """Compute the inverse of `hfftn`: the first half of the `ifftn` of a float tensor.

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> ihfftn(x).real.tolist()
    [[2.5, -0.5], [-1.0, 0.0]]
    """
    return _half("ihfftn", x, s, dim, norm, True)


@explained
def hfft2(x: Signal[B], s: Sizes = None, dim: Sequence[int] = _LAST_TWO, norm: Norm | None = None) -> Tensor[B]:
    """Compute the `hfftn` along the last two dimensions, or others.

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> hfft2(ihfft2(x)).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _real("hfft2", _conjugate("hfft2", x), s, dim, norm, False)


@explained
def ihfft2(x: Tensor[B], s: Sizes = None, dim: Sequence[int] = _LAST_TWO, norm: Norm | None = None) -> ComplexTensor[B]:
    """Compute the inverse of `hfft2`.

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> ihfft2(x).real.tolist()
    [[2.5, -0.5], [-1.0, 0.0]]
    """
    return _half("ihfft2", x, s, dim, norm, True)


def _conjugate(operation: str, x: Any) -> Any:
    z = float_or_complex(operation, x)
    return z.conj() if isinstance(z, ComplexTensor) else z


_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _norm(operation: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in ("backward", "ortho", "forward"):
        raise ArgumentError(f'{operation}() got norm={describe(norm)}; expected "backward", "ortho" or "forward"')
    return norm


def _complex(operation: str, x: Any, n: Any, dim: Any, norm: str | None, inverse: bool) -> ComplexTensor[Any]:
    """Return the transform of a float or complex tensor, or the inverse one."""
    x, how = float_or_complex(operation, x), _norm(operation, norm)
    dims, sizes = transform_dims(operation, x.shape, n, dim)
    x = resized(x, dims, sizes)
    b = transforming(x)
    transform = b.fft if isinstance(x, ComplexTensor) else b.fft_real
    return x._complex(transform(x._primitive, dims, inverse, how))  # type: ignore[no-any-return]  # a ComplexTensor


def _half(operation: str, x: Any, n: Any, dim: Any, norm: str | None, conjugate: bool = False) -> ComplexTensor[Any]:
    """Return half the spectrum of a float tensor, or, conjugated, half of its inverse transform."""
    if isinstance(x, ComplexTensor):
        theirs = operation.replace("rfft", "fft").replace("ihfft", "ifft")
        raise KindError(f"{operation}() takes a float Tensor, got a ComplexTensor of shape {x.shape}; write {theirs}()")
    x, how = single_or_double(floating(operation, x, "its argument")), _norm(operation, norm)
    dims, sizes = transform_dims(operation, x.shape, n, dim)
    x = resized(x, dims, sizes)
    b = transforming(x)
    spectrum = b.rfft(x._primitive, dims, _SWAPPED[how] if conjugate else how)
    return x._complex(b.conj(spectrum) if conjugate else spectrum)  # type: ignore[no-any-return]  # a ComplexTensor


def _real(operation: str, x: Any, n: Any, dim: Any, norm: str | None, inverse: bool = True) -> Tensor[Any]:
    """Return the float tensor of half a spectrum, by the inverse transform or the other one."""
    x, how = float_or_complex(operation, x), _norm(operation, norm)
    dims, sizes = transform_dims(operation, x.shape, n, dim, halved=True)
    last = sizes[-1]
    x = resized(x, dims, (*sizes[:-1], last // 2 + 1))
    z = x.complex()
    out = z._backend.irfft(z._primitive, dims, last, how if inverse else _SWAPPED[how])
    return z._float(out)  # type: ignore[no-any-return]  # a Tensor


def transforming(x: Any) -> Any:
    """Return the backend of a tensor, which has complex arrays."""
    if not x._device.complex_arrays:
        raise no_complex_arrays(x._device)
    return x._backend


@explained
def fftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: B | type[B]) -> Tensor[B]:
    """Return the frequencies of `fft`, in cycles per unit of time: 0, 1, …, then the negative ones, over n d.

    Args:
        n: the size of the transform.
        d: the time between two samples.
        dtype: a float dtype, by default float32.
        device: where to make them.

    Raises:
        ArgumentError: n is no positive int, or d is not a number other than 0.

    >>> fftfreq(4, 0.5, device=NumPy).tolist()
    [0.0, 0.5, -1.0, -0.5]
    """
    n = _checked("fftfreq", n, d)
    values = (np.arange(n) + n // 2) % n - n // 2
    return from_data(Tensor, values / (n * d), "float32" if dtype is None else dtype, device, True)  # type: ignore[no-any-return]  # a Tensor


@explained
def rfftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: B | type[B]) -> Tensor[B]:
    """Return the frequencies of `rfft`, of a signal of n samples: 0, 1, …, n // 2 over n d.

    >>> rfftfreq(5, device=NumPy, dtype="float64").tolist()
    [0.0, 0.2, 0.4]
    """
    n = _checked("rfftfreq", n, d)
    values = np.arange(n // 2 + 1)
    return from_data(Tensor, values / (n * d), "float32" if dtype is None else dtype, device, True)  # type: ignore[no-any-return]  # a Tensor


@explained
def fftshift(x: X, dim: int | Sequence[int] | None = None) -> X:
    """Move frequency 0 to the middle of some dimensions, by default of all.

    >>> fftshift(fftfreq(4, device=NumPy)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    out: X = _shifted("fftshift", x, dim, 0)
    return out


@explained
def ifftshift(x: X, dim: int | Sequence[int] | None = None) -> X:
    """Move frequency 0 back from the middle to the beginning: the inverse of `fftshift`.

    >>> ifftshift(fftshift(Tensor[NumPy].arange(0.0, 5.0))).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    out: X = _shifted("ifftshift", x, dim, 1)
    return out


def _shifted(operation: str, x: Any, dim: Any, up: int) -> Any:
    x = float_or_complex(operation, x)
    dims = ALL[x.ndim] if dim is None else dims_of(dim, x.ndim, operation)
    shifts = [(x.shape[d] + up) // 2 for d in dims]
    return x.roll(shifts, dims) if dims else x


def _checked(operation: str, n: Any, d: Any) -> int:
    size = integer(n, "n", operation)
    if size < 1:
        raise ArgumentError(f"{operation}() got n={size}; the size of a transform is 1 or more")
    if not isinstance(d, (int, float)) or not d or d != d:
        raise ArgumentError(f"{operation}() got d={describe(d)}; the time between two samples is a number other than 0")
    return size
