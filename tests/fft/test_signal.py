"""`stft` and `istft`: frames one by one in NumPy, inverses, derivatives, mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import burnpy
from burnpy import IntTensor, Tensor, fft
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

rng = np.random.default_rng(2)


def tensor(*shape: int) -> Any:
    return Tensor[NumPy].from_data(rng.normal(size=shape))


def frame_by_frame(x: Any, n: int, hop: int, window: Any, center: bool, mode: str) -> Any:
    if center:
        ends = [(0, 0)] * (x.ndim - 1) + [(n // 2, n // 2)]
        x = np.pad(x, ends, {"replicate": "edge", "circular": "wrap"}.get(mode, mode))  # type: ignore[call-overload]  # a mode
    starts = range(0, x.shape[-1] - n + 1, hop)
    return np.stack([np.fft.fft(x[..., s : s + n] * window) for s in starts], -1)


@every_row("mode", ("constant", "reflect", "replicate", "circular"))
def test_frames_one_by_one(mode: Any) -> None:
    for shape, n, hop, width, center in (((20,), 8, 3, 8, True), ((2, 17), 5, 2, 3, True), ((2, 1, 9), 4, 5, 4, False)):
        x, w = tensor(*shape), tensor(width)
        window = np.zeros(n)
        window[(n - width) // 2 : (n - width) // 2 + width] = w.to_numpy()
        wanted = frame_by_frame(x.to_numpy(), n, hop, window, center, mode)
        found = fft.stft(x, n, hop, width, w, center, mode)
        np.testing.assert_allclose(found.to_numpy(), wanted[..., : n // 2 + 1, :], atol=1e-12)
        found = fft.stft(x, n, hop, width, w, center, mode, normalized=True, onesided=False)
        np.testing.assert_allclose(found.to_numpy(), wanted / np.sqrt(n), atol=1e-12)
        z = burnpy.complex(x, tensor(*shape))
        wanted = frame_by_frame(z.to_numpy(), n, hop, window, center, mode)
        np.testing.assert_allclose(fft.stft(z, n, hop, width, w, center, mode).to_numpy(), wanted, atol=1e-12)


@given(
    st.integers(2, 9), st.integers(1, 3), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([None, 21, 30])
)
def test_inverses(n: int, parts: int, two: bool, normalized: bool, rectangle: bool, length: Any) -> None:
    x = tensor(2, 25)
    window = None if rectangle else fft.hamming_window(n, dtype="float64", device=NumPy)
    options: Any = {"hop_length": max(n // (parts + 1), 1), "window": window, "normalized": normalized}
    z = fft.stft(x, n, onesided=not two, **options)
    back = fft.istft(z, n, onesided=not two, length=length, **options).to_numpy()
    covered = (z.shape[-1] - 1) * options["hop_length"] + n - n // 2
    assert back.shape[1] == length or length is None
    same = min(back.shape[1], 25, covered)
    np.testing.assert_allclose(back[:, :same], x.to_numpy()[:, :same], atol=1e-11)
    assert not back[:, max(25, covered) :].any()


def test_derivatives() -> None:
    window = fft.hann_window(4, dtype="float64", device=NumPy)

    def power(x: Any, w: Any) -> Any:
        z = fft.stft(x, 4, 2, window=w)
        return z.real.square() + z.imag

    def resynthesis(a: Any, b: Any, w: Any) -> Any:
        return fft.istft(burnpy.complex(a, b), 4, 2, window=w)

    for check in (gradcheck, gradgradcheck):
        check(power, (tensor(7), window))
        check(resynthesis, (tensor(3, 4), tensor(3, 4), window + 0.5))


def test_complex_windows() -> None:
    """A real signal becomes complex, and comes back from both sides of its spectra, whatever the number of frames."""
    x, w = tensor(17), burnpy.complex(tensor(6), tensor(6))
    z = fft.stft(x, 6, 2, window=w)
    np.testing.assert_allclose(
        z.to_numpy(), frame_by_frame(x.to_numpy(), 6, 2, w.to_numpy(), True, "reflect"), atol=1e-12
    )
    back = fft.istft(z, 6, 2, window=w, return_complex=True)
    np.testing.assert_allclose(back.to_numpy(), x.to_numpy()[: back.shape[0]], atol=1e-10)
    np.testing.assert_allclose(fft.istft(fft.stft(x, 6, onesided=False), 6).to_numpy(), x.to_numpy()[:17], atol=1e-12)
    for check in (gradcheck, gradgradcheck):
        check(lambda x, w: fft.stft(x, 4, window=w), (tensor(7), w[:4]))
        check(lambda z, w: fft.istft(z, 4, window=w, return_complex=True), (z[:4, :3], w[:4]))


X: Any = Tensor[NumPy].ones((2, 40))
W: Any = fft.hann_window(8, device=NumPy)
Z: Any = fft.stft(X, 8, window=W)
MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "n_fft": (lambda: fft.stft(X, 0), ArgumentError, "n_fft=0; give 1 or more samples"),
    "hop": (lambda: fft.stft(X, 8, 0), ArgumentError, "hop_length=0"),
    "hop of a float": (lambda: fft.stft(X, 8, 2.0), ArgumentError, "hop_length 2.0, which is not an int"),  # type: ignore[arg-type]  # wrong
    "width": (lambda: fft.stft(X, 8, 2, 9), ArgumentError, "win_length=9 above n_fft=8"),
    "window": (lambda: fft.stft(X, 8, 2, 4, W), ShapeError, r"window of shape \(8,\); expected \(4,\)"),
    "a name": (lambda: fft.stft(X, 8, window="hann"), KindError, "'hann'; expected a float Tensor"),  # type: ignore[arg-type]  # wrong
    "mode": (lambda: fft.stft(X, 8, pad_mode="edge"), ArgumentError, "pad_mode='edge'"),  # type: ignore[arg-type]  # wrong
    "short": (lambda: fft.stft(X[:, :4], 8), ShapeError, "needs 5 samples"),
    "shorter": (lambda: fft.stft(X[:, :4], 8, center=False), ShapeError, "needs 8 samples"),
    "0-d": (lambda: fft.stft(X[0, 0], 8), ShapeError, "0-d"),
    "ints": (lambda: fft.stft(IntTensor[NumPy].ones((9,)), 4), KindError, "convert it"),  # type: ignore[arg-type]  # wrong
    "onesided": (lambda: fft.stft(burnpy.complex(X), 8, onesided=True), ArgumentError, "onesided=True"),
    "complex of one side": (lambda: fft.istft(Z, 8, onesided=True, return_complex=True), ArgumentError, "two sides"),
    "complex window": (lambda: fft.istft(Z, 8, window=W.complex()), ArgumentError, "set return_complex=True"),
    "real": (lambda: fft.istft(X, 8), KindError, "takes a ComplexTensor"),
    "frequencies": (lambda: fft.istft(Z, 6), ShapeError, r"\(…, 4, frames\)"),
    "length": (lambda: fft.istft(Z, 8, window=W, length=0), ArgumentError, "length=0"),
    "gaps": (lambda: fft.istft(Z, 8, 2, window=W, center=False), ArgumentError, "squares add up to less than 1e-11"),
    "an array as mode": (lambda: fft.fftconvolve(X, X, X.to_numpy()), ArgumentError, "got mode=an ndarray"),  # type: ignore[call-overload]  # wrong
}


@every_row("name", MISTAKES)
def test_mistakes_get_a_sentence(name: str) -> None:
    f, error, message = MISTAKES[name]
    with pytest.raises(error, match=message):
        f()
