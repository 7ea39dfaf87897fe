"""Transforms beside NumPy's: sizes, dims, norms, dtypes; derivatives; frequencies, windows, convolution; mistakes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import burnpy
from burnpy import Autodiff, IntTensor, Tensor, fft
from burnpy.backend import Checked, NumPy, Profiled
from burnpy.backend.errors import ArgumentError, DimError, KindError, MissingNameError, ShapeError
from burnpy.fft import ComplexTensor
from burnpy.fft.signal import quick_size
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

rng = np.random.default_rng(9)
REAL_TO_COMPLEX = ("rfft", "ihfft")
COMPLEX_TO_REAL = ("irfft", "hfft")
ONE = ("fft", "ifft", *REAL_TO_COMPLEX, *COMPLEX_TO_REAL)
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")
NORMS = (None, "backward", "ortho", "forward")


def signal(*shape: int, real: bool = False, device: Any = NumPy) -> Any:
    a = rng.normal(size=shape)
    return (
        Tensor.from_data(a, device=device)
        if real
        else ComplexTensor.from_data(a + 1j * rng.normal(size=shape), device=device)
    )


def is_real(name: str) -> bool:
    return name in REAL_TO_COMPLEX or name.startswith("rfft")


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found.to_numpy(), wanted, 1e-11, 1e-11)
    assert found.to_numpy().dtype == wanted.dtype


@every_row("name", ONE)
def test_one_dimension(name: str) -> None:
    for shape, dim, n in (
        ((6,), -1, None),
        ((2, 5), 1, 8),
        ((4, 3), 0, 3),
        ((2, 3, 4), -2, None),
        ((2, 2), 0, 1),
        ((5,), 0, 7),
    ):
        for norm in NORMS:
            x = signal(*shape, real=is_real(name))
            close(getattr(fft, name)(x, n, dim, norm), getattr(np.fft, name)(x.to_numpy(), n, dim, norm))
    x = signal(4, real=True)
    close(getattr(fft, name)(x), getattr(np.fft, name)(x.to_numpy()))


@every_row("name", SEVERAL)
def test_several_dimensions(name: str) -> None:
    two = name.endswith("2")
    for s, dim in ((None, None), ((3, 4), None), ((4, 5), (1, 0)), (None, (2, 0)), (None, (0, 1))):
        for norm in NORMS:
            x = signal(3, 2, 4, real=is_real(name))
            dims = (-2, -1) if dim is None and (two or s) else dim
            found = (
                getattr(fft, name)(x, s, dim, norm)
                if dim is not None or not two
                else getattr(fft, name)(x, s, norm=norm)
            )
            close(found, getattr(np.fft, name)(x.to_numpy(), s, dims or (0, 1, 2), norm))
    x = signal(2, 3)
    close(fft.fftn(x, (-1, 2)), np.fft.fftn(x.to_numpy(), (2, 2), (0, 1)))


@given(st.integers(1, 12), st.integers(0, 3), st.sampled_from(["backward", "ortho", "forward"]), st.booleans())
def test_inverses(n: int, batch: int, norm: Any, complex_numbers: bool) -> None:
    x = signal(batch, n, real=not complex_numbers)
    back = fft.ifft(fft.fft(x, norm=norm), norm=norm)
    np.testing.assert_allclose(back.to_numpy(), x.to_numpy(), atol=1e-12)
    if not complex_numbers:
        np.testing.assert_allclose(fft.irfft(fft.rfft(x, norm=norm), n, norm=norm).to_numpy(), x.to_numpy(), atol=1e-12)
        np.testing.assert_allclose(fft.hfft(fft.ihfft(x, norm=norm), n, norm=norm).to_numpy(), x.to_numpy(), atol=1e-12)


DERIVED: dict[str, Callable[[Any], Any]] = {
    **{f"{name} of {n}": partial(getattr(fft, name), n=n) for name in ONE for n in (None, 2, 5)},
    "fftn": lambda z: fft.fftn(z.reshape(2, 2), norm="ortho"),
    "rfftn": lambda z: fft.rfftn(z.reshape(2, 2), (3, 3)),
    "irfftn": lambda z: fft.irfftn(z.reshape(2, 2), (3, 3), norm="forward"),
    "shift": fft.fftshift,
    "convolve": lambda z: fft.fftconvolve(z, z[1:]),
    "stft": lambda z: fft.stft(z, 3, 1, onesided=False),
}


@pytest.mark.slow
@every_row("name", DERIVED)
def test_derivatives(name: str) -> None:
    f, real = DERIVED[name], is_real(name.partition(" ")[0])
    a, b = signal(4, real=True), signal(4, real=True)

    def both(*values: Any) -> Any:
        out = f(values[0] if len(values) == 1 else burnpy.complex(*values))
        return (out.real * 2.0 + out.imag) if isinstance(out, ComplexTensor) else out

    for arguments in ((a,),) if real else ((a,), (a, b)):
        gradcheck(both, arguments)
        gradgradcheck(both, arguments)


@every_row("dtype", ("float16", "bfloat16", "float32", "float64"))
def test_dtypes_are_those_of_spectra(dtype: str) -> None:
    """16-bit floats are computed in float32."""
    x = signal(2, 8, real=True)
    bits = 64 if dtype == "float64" else 32
    for f in (fft.fft, fft.rfft, fft.ihfft, fft.irfft, lambda x: fft.stft(x, 4), lambda x: fft.irfft(fft.rfft(x))):
        found, wanted = f(x.to_dtype(dtype)), f(x)
        assert found.dtype == (f"float{bits}" if found.kind == "float" else f"complex{2 * bits}")
        bound = {"float16": 0.01, "bfloat16": 0.1, "float32": 1e-5, "float64": 1e-12}[dtype]
        np.testing.assert_allclose(found.to_numpy().astype(wanted.to_numpy().dtype), wanted.to_numpy(), atol=4 * bound)


def test_other_backends() -> None:
    x = signal(2, 6, real=True)
    for device in (Checked[NumPy], Profiled[NumPy], Autodiff[NumPy], Autodiff[Autodiff[NumPy]]):
        moved = Tensor.from_data(x.to_numpy(), device=device)
        close(fft.fft(moved), np.fft.fft(x.to_numpy()))
    moved = Tensor.from_data(x.to_numpy(), device=Profiled[NumPy])
    with Profiled.record(lines=False) as profile:
        fft.rfft(moved)
    assert {row.operation for row in profile.rows()} == {"rfft"}


def test_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    import burnpy_numpy.fourier as fourier

    x = signal(2, 6, real=True).float()
    with_scipy = fft.irfft(fft.rfft(x) * fft.rfft(x))
    monkeypatch.setattr(fourier, "_scipy", lambda: None)
    without = fft.irfft(fft.rfft(x) * fft.rfft(x))
    assert without.dtype == "float32"
    np.testing.assert_allclose(without.to_numpy(), with_scipy.to_numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.slowest
def test_any_number_of_threads_gives_the_same_bits() -> None:
    code = (
        "import hashlib, numpy as np; from burnpy import Tensor, fft; from burnpy.backend import NumPy;"
        "x = Tensor[NumPy].from_data(np.random.default_rng(0).normal(size=(301, 400)).astype('f4'));"
        "z = fft.rfft(x); parts = [z.to_numpy(), fft.irfftn(z).to_numpy()];"
        "print(hashlib.sha256(b''.join(part.tobytes() for part in parts)).hexdigest())"
    )
    found = set()
    for count in ("1", "3"):
        environment = {**os.environ, "BURNPY_NUM_THREADS": count}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1


def test_no_elements() -> None:
    x = Tensor[NumPy].zeros((0, 3))
    assert fft.fft(x).shape == (0, 3)
    assert fft.rfft(x).shape == (0, 2)
    assert fft.irfft(x).shape == (0, 4)
    assert fft.fft(x, 2, 0).to_numpy().tolist() == [[0, 0, 0], [0, 0, 0]]
    assert fft.stft(x, 2).shape == (0, 2, 4)


def test_frequencies() -> None:
    for n in (1, 2, 5, 8):
        close(fft.fftfreq(n, 0.5, dtype="float64", device=NumPy), np.fft.fftfreq(n, 0.5))
        close(fft.rfftfreq(n, 2, dtype="float64", device=NumPy), np.fft.rfftfreq(n, 2))
    x = signal(3, 4)
    for dim in (None, 0, (0, 1), -1):
        close(fft.fftshift(x, dim), np.fft.fftshift(x.to_numpy(), dim))
        close(fft.ifftshift(x, dim), np.fft.ifftshift(x.to_numpy(), dim))
    i = signal(5, real=True)
    close(fft.ifftshift(fft.fftshift(i)), i.to_numpy())
    assert fft.fftshift(Tensor[NumPy].from_data(2.0)).item() == 2.0


WINDOWS: dict[str, tuple[Any, dict[str, Any]]] = {
    "hann_window": ("hann", {}),
    "hamming_window": ("hamming", {}),
    "blackman_window": ("blackman", {}),
    "nuttall_window": ("nuttall", {}),
    "bartlett_window": ("bartlett", {}),
    "cosine_window": ("cosine", {}),
    "kaiser_window": (("kaiser", 4.0), {"beta": 4.0}),
    "gaussian_window": (("gaussian", 2.0), {"std": 2.0}),
}


@every_row("name", WINDOWS)
def test_windows_are_scipys(name: str) -> None:
    signal_ = pytest.importorskip("scipy.signal")
    theirs, options = WINDOWS[name]
    for n in (1, 2, 7, 16):
        for periodic in (True, False):
            found = getattr(fft, name)(n, periodic, dtype="float64", device=NumPy, **options)
            np.testing.assert_allclose(found.to_numpy(), signal_.get_window(theirs, n, periodic), 1e-9, 1e-9)
    assert getattr(fft, name)(0, device=NumPy).shape == (0,)
    assert getattr(fft, name)(3, device=NumPy).dtype == "float32"


@every_row("mode", ("full", "same", "valid"))
def test_convolution(mode: Any) -> None:
    for n, m in ((5, 3), (3, 5), (1, 1), (40, 17)):
        x, y = signal(2, n, real=True), signal(1, m, real=True)
        wanted = np.stack([np.convolve(row, y.to_numpy()[0], "full") for row in x.to_numpy()])
        count = {"full": n + m - 1, "same": n, "valid": abs(n - m) + 1}[mode]
        start = (n + m - 1 - count) // 2
        close(fft.fftconvolve(x, y, mode, 1), wanted[:, start : start + count])
    a, b = signal(3, 4), signal(2, 2)
    whole = np.zeros((4, 5), complex)
    for (j, k), value in np.ndenumerate(b.to_numpy()):
        whole[j : j + 3, k : k + 4] += value * a.to_numpy()
    close(fft.fftconvolve(a, b), whole)


def test_quick_sizes() -> None:
    smooth = sorted(2**a * 3**b * 5**c for a in range(14) for b in range(9) for c in range(6))
    for size in range(1, 2000):
        assert quick_size(size) == next(s for s in smooth if s >= size)


X: Any = Tensor[NumPy].ones((2, 4))
Z: Any = burnpy.complex(X)
INTS: Any = IntTensor[NumPy].ones((4,))
MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "0-d": (lambda: fft.fft(X[0, 0]), ShapeError, r"fft\(\) got a 0-d tensor"),
    "n of 0": (lambda: fft.fft(X, 0), ShapeError, r"fft\(\) got shape \(2, 4\) with size 0"),
    "n below 0": (lambda: fft.rfft(X, -1), ShapeError, "size -1"),
    "no elements": (lambda: fft.fft(X[:, :0]), ShapeError, "0 elements to transform along dim 1"),
    "one frequency": (lambda: fft.irfft(X[:, :1]), ShapeError, "0 elements to transform"),
    "no frequency": (lambda: fft.irfft(X[:, :0], 4), ShapeError, "0 elements to transform"),
    "n no int": (lambda: fft.fft(X, 2.5), ArgumentError, "2.5, which is not an int"),  # type: ignore[arg-type]  # wrong
    "dim": (lambda: fft.fft(X, dim=2), DimError, "got dim 2"),
    "norm": (lambda: fft.fft(X, norm="orto"), ArgumentError, "norm='orto'; expected"),  # type: ignore[arg-type]  # wrong
    "twice": (lambda: fft.fftn(X, dim=(0, -2)), ArgumentError, "repeat"),
    "lengths": (lambda: fft.fftn(X, (2, 2), (0,)), ArgumentError, r"2 sizes \(2, 2\) for 1 dims"),
    "too many": (lambda: fft.fftn(X, (2, 2, 2)), ArgumentError, "3 sizes .* of 2 dimensions"),
    "no dims": (lambda: fft.fftn(X, dim=()), ArgumentError, "no dims"),
    "ints": (lambda: fft.fft(INTS), KindError, r"IntTensor; convert it with x.float\(\)"),
    "an array": (lambda: fft.rfft(np.ones(3)), KindError, "float Tensor, got"),  # type: ignore[arg-type]  # wrong
    "complex": (lambda: fft.rfft(Z), KindError, r"a ComplexTensor .*write fft\(\)"),
    "frequencies": (lambda: fft.fftfreq(0, device=NumPy), ArgumentError, "n=0"),
    "spacing": (lambda: fft.rfftfreq(2, 0.0, device=NumPy), ArgumentError, "d=0.0"),
    "window": (lambda: fft.hann_window(-1, device=NumPy), ArgumentError, "window_length=-1"),
    "beta": (lambda: fft.kaiser_window(3, beta=np.inf, device=NumPy), ArgumentError, "beta inf"),
    "std": (lambda: fft.gaussian_window(3, std=0.0, device=NumPy), ArgumentError, "std=0.0"),
    "mode": (lambda: fft.fftconvolve(X, X, "whole"), ArgumentError, "mode='whole'"),  # type: ignore[call-overload]  # wrong
    "ndim": (lambda: fft.fftconvolve(X, X[0]), ShapeError, "as many dimensions"),
    "empty": (lambda: fft.fftconvolve(X, X[:, :0]), ShapeError, "empty along"),
    "batch": (lambda: fft.fftconvolve(X, X[:1].expand(3, 4), dim=1), ShapeError, "do not broadcast"),
    "valid": (lambda: fft.fftconvolve(X, X.mT, "valid"), ShapeError, "one to be the larger"),
    "a missing name": (lambda: fft.dct, MissingNameError, "dct"),  # type: ignore[attr-defined]  # missing
}


@every_row("name", MISTAKES)
def test_mistakes_get_a_sentence(name: str) -> None:
    f, error, message = MISTAKES[name]
    with pytest.raises(error, match=message):
        f()
