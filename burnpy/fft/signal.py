"""Signals: short-time Fourier transforms and their inverse, and convolution by the product of spectra.

Source: Griffin and Lim, Signal Estimation from Modified Short-Time Fourier Transform, 1984.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any, Literal, NamedTuple, overload

from burnpy.backend.devices import innermost
from burnpy.backend.dtypes import part_dtype
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.fft.sizes import float_or_complex
from burnpy.fft.transforms import fftn, ifftn, irfftn, rfftn, transforming
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import distinct, integer, integers
from burnpy.tensor.operand_checks import broadcast_shape, refuse_unless, together
from burnpy.tensor.tensor import ComplexTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

PadMode = Literal["constant", "reflect", "replicate", "circular"]
_LEAST_WINDOW_SUM = 1e-11
"""The least sum of the squares of windows at a sample, by which a signal is divided."""


class Frames(NamedTuple):
    """The checked sizes of a short-time transform."""

    size: int  #: of each transform
    hop: int  #: samples between the beginnings of two frames
    window: Any  #: the window, of ``size`` elements with zeros at its ends, or None for ones


@explained
def stft(
    x: Tensor[B] | ComplexTensor[B],
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor[B] | ComplexTensor[B] | None = None,
    center: bool = True,
    pad_mode: PadMode = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
) -> ComplexTensor[B]:
    """Compute the spectra of overlapping frames of a signal.

    Args:
        x: a float or complex signal, of shape (…, samples).
        n_fft: the samples of a frame.
        hop_length: the samples from one frame to the next, by default ``n_fft // 4``.
        win_length: the samples of a frame that the window weights, in its middle; the others count 0. By default all.
        window: a window of ``win_length`` elements, such as `hann_window` makes; by default ones. With a complex one
            the signal is complex, too.
        center: whether ``n_fft // 2`` elements are added at both ends, so that frame t has its middle at sample
            ``t * hop_length``. Else the first frame begins at sample 0.
        pad_mode: the elements that are added: see ``nn.functional.pad``.
        normalized: whether spectra are divided by √n_fft.
        onesided: whether only the frequencies 0 to n_fft // 2 are computed, as is the default for float signals, whose
            other frequencies are conjugates.

    Returns:
        The spectra, of shape (…, frequencies, frames), where there are 1 + samples // hop_length frames if ``center``.

    Raises:
        ArgumentError: ``n_fft``, ``hop_length`` or ``win_length`` is below 1, or ``win_length`` above ``n_fft``;
            ``onesided`` for a complex signal.
        ShapeError: the signal is shorter than a frame, or than half a frame that is to be added; or the window is not
            of ``win_length`` elements.

    >>> from burnpy.fft import hann_window
    >>> x = Tensor[NumPy].ones((64,))
    >>> stft(x, 16, window=hann_window(16, device=NumPy)).shape
    (9, 17)
    """
    signal = _beside(float_or_complex("stft", x), window, "stft")
    if isinstance(window, ComplexTensor):
        signal = signal.complex()
    frames = _checked("stft", signal, n_fft, hop_length, win_length, window)
    complex_signal = isinstance(signal, ComplexTensor)
    half = not complex_signal if onesided is None else bool(onesided)
    if half and complex_signal:
        raise ArgumentError("stft() got onesided=True and a complex signal or window, whose spectrum has two sides")
    _need_samples(signal.shape, frames.size, center, pad_mode)
    b, norm = transforming(signal), "ortho" if normalized else "backward"
    values = _extended(b, signal._primitive, frames.size, center, pad_mode)
    if half and frames.window is not None:
        spectra = b.frame_spectra(values, frames.window, frames.hop, norm)
    else:
        values = _weighted(b, values, frames)
        dims = (len(values.shape) - 1,)
        if complex_signal:
            spectra = b.fft(values, dims, False, norm)
        else:
            spectra = b.rfft(values, dims, norm) if half else b.fft_real(values, dims, False, norm)
    return signal._complex(b.mT(spectra))  # type: ignore[no-any-return]  # a ComplexTensor


@overload
def istft(
    z: ComplexTensor[B],
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor[B] | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: Literal[False] = False,
) -> Tensor[B]: ...


@overload
def istft(
    z: ComplexTensor[B],
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor[B] | ComplexTensor[B] | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    *,
    return_complex: Literal[True],
) -> ComplexTensor[B]: ...


@explained
def istft(
    z: ComplexTensor[B],
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor[B] | ComplexTensor[B] | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor[B] | ComplexTensor[B]:
    """Compute the signal whose `stft` is closest to given spectra, in the sum of squares.

    Args:
        z: spectra, of shape (…, frequencies, frames); with ``onesided``, n_fft // 2 + 1 frequencies, else n_fft.
        n_fft: see `stft`, as for all others up to ``onesided``.
        hop_length: see `stft`.
        win_length: see `stft`.
        window: see `stft`.
        center: see `stft`; the elements that it added are cut off.
        normalized: see `stft`.
        onesided: see `stft`; by default unless there are n_fft frequencies. Of two sides, the second one, of the
            conjugates, is not read if the signal is real.
        length: the samples of the result; missing ones are 0.
        return_complex: whether the signal is complex, and all of two sides is read. A complex window needs it.

    Raises:
        ArgumentError: see `stft`; or ``return_complex`` with one side, or a complex window without it; or the sum of
            the squares of the windows is 0 at a sample, which could then be anything: overlap frames more, or leave out
            ``center=False``.
        ShapeError: the spectra do not have the frequencies of ``n_fft``, or no frame.

    >>> from burnpy.fft import hann_window
    >>> x, window = Tensor[NumPy].from_data([1.0, 2.0, 3.0, 4.0] * 4), hann_window(8, device=NumPy)
    >>> istft(stft(x, 8, window=window), 8, window=window).round(decimals=3).tolist()[:4]
    [1.0, 2.0, 3.0, 4.0]
    """
    if not isinstance(z, ComplexTensor):
        raise KindError(f"istft() takes a ComplexTensor, got {describe(z)}; burnpy.complex(real, imag) makes one")
    z = _beside(z, window, "istft")
    frames = _checked("istft", z, n_fft, hop_length, win_length, window)
    one_side = _has_one_side(z, frames, window, onesided, return_complex)
    samples = None if length is None else _positive("istft", "length", length)
    b, count = z._backend, z.shape[-1]
    values = _frames_of(b, z._primitive, frames, one_side, return_complex, "ortho" if normalized else "backward")
    whole = (count - 1) * frames.hop + frames.size
    start = frames.size // 2 if center else 0
    kept = slice(start, whole - start if samples is None else min(start + samples, whole), 1)
    envelope = _envelope(b, frames, count, whole, values.dtype, kept)
    total = b.overlap_add(values, whole, frames.hop)
    out = b.div(b.slice(total, (*(slice(None),) * (z.ndim - 2), kept)), envelope)
    if samples is not None and samples > out.shape[-1]:
        out = _among_zeros(b, out, 0, samples)
    return z._complex(out) if return_complex else z._float(out)


def _has_one_side(z: Any, frames: Frames, window: Any, onesided: bool | None, return_complex: bool) -> bool:
    """Return whether spectra have the frequencies 0 to n_fft // 2 alone; check that they have those or all."""
    one = (z.ndim < 2 or z.shape[-2] != frames.size) and not return_complex if onesided is None else bool(onesided)
    if return_complex and one:
        raise ArgumentError("istft() got return_complex=True and onesided=True; a complex signal has two sides")
    if isinstance(window, ComplexTensor) and not return_complex:
        raise ArgumentError("istft() got a complex window, whose signals are complex; set return_complex=True")
    frequencies = frames.size // 2 + 1 if one else frames.size
    if z.ndim < 2 or z.shape[-2] != frequencies or not z.shape[-1]:
        raise ShapeError(
            f"istft() got spectra of shape {z.shape}; for n_fft={frames.size} and onesided={one} it takes "
            f"(…, {frequencies}, frames), with 1 frame or more"
        )
    return one


def _frames_of(b: Any, z: Any, frames: Frames, one_side: bool, return_complex: bool, norm: str) -> Any:
    """Return the frames of the signal of spectra z, (…, count, n_fft), times the window."""
    spectra, last = b.mT(z), len(z.shape) - 1
    if return_complex:
        values = b.fft(spectra, (last,), True, norm)
    else:
        if not one_side:
            spectra = b.slice(spectra, (*(slice(None),) * last, slice(0, frames.size // 2 + 1, 1)))
        values = b.irfft(spectra, (last,), frames.size, norm)
    return values if frames.window is None else b.mul(values, _in_dtype(b, frames.window, values.dtype))


def _beside(x: Any, window: Any, operation: str) -> Any:
    """Return a signal or spectrum on the level of the window."""
    return together(operation, x, window)[0] if isinstance(window, TensorBase) else x


def _checked(operation: str, x: Any, n_fft: Any, hop_length: Any, win_length: Any, window: Any) -> Frames:
    """Return the sizes of a transform, and its window on the device of x, with zeros up to n_fft."""
    size = _positive(operation, "n_fft", n_fft)
    hop = _positive(operation, "hop_length", max(size // 4, 1) if hop_length is None else hop_length)
    width = _positive(operation, "win_length", size if win_length is None else win_length)
    if width > size:
        raise ArgumentError(f"{operation}() got win_length={width} above n_fft={size}; a window fits into its frame")
    if not x.ndim:
        raise ShapeError(f"{operation}() got a 0-d tensor; a signal has one dimension or more")
    if window is None and width == size:
        return Frames(size, hop, None)
    b, dtype = x._backend, x.dtype if isinstance(window, ComplexTensor) else part_dtype(x.dtype)
    if window is None:
        weights = b.full((width,), 1.0, dtype)
    else:
        if not isinstance(window, (Tensor, ComplexTensor)):
            raise KindError(
                f"{operation}() got window={describe(window)}; expected a float Tensor, such as hann_window() makes"
            )
        if window.shape != (width,):
            raise ShapeError(f"{operation}() got a window of shape {window.shape}; expected ({width},), win_length")
        _, placed = together(operation, x, window)
        weights = placed._primitive if placed.dtype == dtype else b.cast(placed._primitive, dtype)
    if width < size:
        weights = _among_zeros(b, weights, (size - width) // 2, size)
    return Frames(size, hop, weights)


def _positive(operation: str, name: str, value: Any) -> int:
    number = integer(value, name, operation)
    if number < 1:
        raise ArgumentError(f"{operation}() got {name}={number}; give 1 or more samples")
    return number


def _need_samples(shape: Any, size: int, center: bool, pad_mode: str) -> None:
    """Check that a signal has a frame, and enough elements to pad it."""
    if pad_mode not in ("constant", "reflect", "replicate", "circular"):
        raise ArgumentError(
            f'stft() got pad_mode={describe(pad_mode)}; expected "constant", "reflect", "replicate" or "circular"'
        )
    samples = shape[-1]
    least = size
    if center:
        least = {"reflect": size // 2 + 1, "circular": max(size // 2, 1)}.get(pad_mode, 1)
    if samples < least:
        why = f"center=True, pad_mode={pad_mode!r}" if center else "center=False"
        raise ShapeError(f"stft() got shape {shape} with n_fft={size}, {why}; the signal needs {least} samples or more")


def _extended(b: Any, x: Any, size: int, center: bool, pad_mode: str) -> Any:
    """Return a signal with half a frame of ``size`` added at both ends, if ``center``."""
    ends, lead = size // 2, len(x.shape) - 1
    if not center or not ends:
        return x
    if pad_mode != "constant":
        return b.pad_ends(x, (*((0, 0),) * lead, (ends, ends)), pad_mode)
    return _among_zeros(b, x, ends, x.shape[-1] + 2 * ends)


def _among_zeros(b: Any, x: Any, start: int, count: int) -> Any:
    """Return ``count`` zeros in the last dimension, with the elements of x from ``start`` on."""
    *lead, size = x.shape
    zeros = b.expand(b.full((), 0.0, x.dtype), (*lead, count))
    return b.slice_scatter(zeros, (*(slice(None),) * len(lead), slice(start, start + size, 1)), x)


def _weighted(b: Any, x: Any, frames: Frames) -> Any:
    """Return the frames of a signal, (…, count, n_fft), times the window."""
    out, window = b.frames(x, frames.size, frames.hop), frames.window
    return out if window is None else b.mul(out, _in_dtype(b, window, x.dtype))


def _in_dtype(b: Any, window: Any, dtype: Any) -> Any:
    """Return a window for numbers of a dtype, which may be complex."""
    if window.dtype.kind == dtype.kind:
        return window
    return b.complex(window, b.full(window.shape, 0.0, window.dtype))


def _envelope(b: Any, frames: Frames, count: int, whole: int, dtype: Any, kept: slice) -> Any:
    """Return the sum of the squares of the windows at the samples that are kept."""
    window = b.full((frames.size,), 1.0, dtype) if frames.window is None else _in_dtype(b, frames.window, dtype)
    squares = b.expand(b.reshape(b.mul(window, window), (1, frames.size)), (count, frames.size))
    total = b.slice(b.overlap_add(squares, whole, frames.hop), (kept,))
    sizes = b.complex_abs(total) if dtype.kind == "c" else total
    error = ArgumentError(
        f"istft() got windows whose squares add up to less than {_LEAST_WINDOW_SUM} at a sample, with "
        f"n_fft={frames.size} and hop_length={frames.hop}; overlap the frames more, or transform with center=True"
    )
    refuse_unless(b, b.discrete.bitwise_not(b.lt(b.detach(sizes), _LEAST_WINDOW_SUM)), error)
    return total


Mode = Literal["full", "same", "valid"]


@overload
def fftconvolve(
    x: Tensor[B], y: Tensor[B], mode: Mode = "full", dim: int | Sequence[int] | None = None
) -> Tensor[B]: ...


@overload
def fftconvolve(
    x: Tensor[B] | ComplexTensor[B], y: ComplexTensor[B], mode: Mode = "full", dim: int | Sequence[int] | None = None
) -> ComplexTensor[B]: ...


@overload
def fftconvolve(
    x: ComplexTensor[B], y: Tensor[B] | ComplexTensor[B], mode: Mode = "full", dim: int | Sequence[int] | None = None
) -> ComplexTensor[B]: ...


@explained
def fftconvolve(x: Any, y: Any, mode: Any = "full", dim: Any = None) -> Any:
    """Convolve two tensors, Σ x[j] y[k - j], in n log n steps; it is not the correlation that layers compute.

    Args:
        x: a float or complex tensor.
        y: another one, of as many dimensions; the other dimensions broadcast.
        mode: "full", all n + m - 1 elements; "same", the n of the middle, as many as x has; "valid", those that no
            missing element is part of, max(n, m) - min(n, m) + 1.
        dim: the dimension or dimensions, by default all.

    Raises:
        ShapeError: the tensors differ in their number of dimensions, or the others do not broadcast; one is empty; or,
            for "valid", neither is the larger one along all of ``dim``.
        ArgumentError: ``mode`` is something else.

    >>> x, y = Tensor[NumPy].from_data([1.0, 2.0, 3.0]), Tensor[NumPy].from_data([0.0, 1.0, 0.5])
    >>> fftconvolve(x, y).round(decimals=3).tolist()
    [0.0, 1.0, 2.5, 4.0, 1.5]
    """
    x, y = float_or_complex("fftconvolve", x), float_or_complex("fftconvolve", y)
    x, y = together("fftconvolve", x, y)
    if not isinstance(mode, str) or mode not in ("full", "same", "valid"):
        raise ArgumentError(f'fftconvolve() got mode={describe(mode)}; expected "full", "same" or "valid"')
    if x.ndim != y.ndim or not x.ndim:
        raise ShapeError(
            f"fftconvolve() got shapes {x.shape} and {y.shape}; give two tensors of as many dimensions, 1 or more"
        )
    named = tuple(range(x.ndim)) if dim is None else integers((dim,), "dim", "fftconvolve")
    dims = distinct(named, x.ndim, "fftconvolve")
    if not dims or any(not z.shape[d] for z in (x, y) for d in dims):
        raise ShapeError(f"fftconvolve() got shapes {x.shape} and {y.shape}, which are empty along dims {dims}")
    others = [tuple([size for d, size in enumerate(z.shape) if d not in dims]) for z in (x, y)]
    if broadcast_shape(*others) is None:
        raise ShapeError(
            f"fftconvolve() got shapes {x.shape} and {y.shape}, whose dimensions other than {dims} do not broadcast"
        )
    full = [x.shape[d] + y.shape[d] - 1 for d in dims]
    sizes = full if innermost(x.device).sizes_vary else [quick_size(size) for size in full]
    out: Any
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        out = irfftn(rfftn(x, sizes, dims) * rfftn(y, sizes, dims), sizes, dims)
    else:
        out = ifftn(fftn(x, sizes, dims) * fftn(y, sizes, dims), None, dims)
    return out[_kept(mode, x.shape, y.shape, dims, full)]


def _kept(mode: str, x: Any, y: Any, dims: Any, full: Any) -> tuple[slice, ...]:
    """Return the key of the elements of a full convolution that a mode has."""
    if mode == "valid" and not (all(x[d] >= y[d] for d in dims) or all(x[d] <= y[d] for d in dims)):
        raise ShapeError(
            f"fftconvolve() got shapes {x} and {y}, and mode 'valid' needs one to be the larger along all dims"
        )
    key = [slice(None)] * len(x)
    for d, size in zip(dims, full, strict=True):
        count = {"full": size, "same": x[d], "valid": abs(x[d] - y[d]) + 1}[mode]
        start = (size - count) // 2
        key[d] = slice(start, start + count)
    return tuple(key)


def quick_size(size: int) -> int:
    """Return the least size from ``size`` on that is a product of 2, 3 and 5, whose transforms take little time.

    >>> quick_size(1021), quick_size(17)
    (1024, 18)
    """
    best = 1 << max(size - 1, 0).bit_length()
    for fives in range(int(log2(size) / log2(5)) + 2):
        for threes in range(int(log2(size) / log2(3)) + 2):
            odd: int = 5**fives * 3**threes
            best = min(best, odd << max(-(-size // odd) - 1, 0).bit_length())
    return best
