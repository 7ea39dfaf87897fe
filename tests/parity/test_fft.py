"""`burnpy.fft` beside PyTorch: transforms, spectra of frames, windows; values, dtypes and gradients."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, Tensor, fft
from burnpy.backend import NumPy
from burnpy.fft import ComplexTensor
from tests.parity.closeness import assert_close
from tests.rows import every_row

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
Train = Autodiff[NumPy]
rng = np.random.default_rng(4)


def pair(*shape: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The parts of a complex array, as tracked tensors of both libraries."""
    arrays = rng.normal(size=(2, *shape))
    ours = tuple(Tensor[Train].from_data(a).require_grad() for a in arrays)
    theirs = tuple(torch.tensor(a, requires_grad=True) for a in arrays)
    return ours, theirs  # type: ignore[return-value]  # pairs


def flat(z: Any) -> Any:
    """A real tensor of all numbers of a real or complex result of either library."""
    if isinstance(z, ComplexTensor):
        return fft.view_as_real(z)
    return torch.view_as_real(z.resolve_conj()) if torch.is_tensor(z) and z.is_complex() else z


def compare(f: Any, shape: tuple[int, ...], real: bool) -> None:
    """Compare f(room, x) of both libraries, and its gradients of all parts."""
    (a, b), (a_, b_) = pair(*shape)
    found = flat(f(fft, a if real else burnpy.complex(a, b)))
    wanted = flat(f(torch.fft, a_ if real else torch.complex(a_, b_)))
    assert_close(found.detach(), wanted.detach())
    weights = rng.normal(size=tuple(wanted.shape))
    grads = (found * Tensor[Train].from_data(weights)).sum().backward()
    (wanted * torch.tensor(weights)).sum().backward()
    assert_close(grads[a], a_.grad)
    if not real:
        assert_close(grads[b], b_.grad)


ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = (
    *("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2"),
    *("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"),
)


@every_row("name", ONE)
def test_one_dimension(name: str) -> None:
    for n, dim, norm in itertools.product((None, 2, 5, 7), (-1, 0), (None, "ortho", "forward")):
        for real in (True, False):
            if real or name not in ("rfft", "ihfft"):
                compare(lambda room, x: getattr(room, name)(x, n, dim, norm), (5, 4), real)  # noqa: B023  # called at once


@every_row("name", SEVERAL)
def test_several_dimensions(name: str) -> None:
    for (s, dim), norm in itertools.product(((None, (-2, -1)), ((3, 5), (2, 0)), ((2, 2), (0, 1))), (None, "ortho")):
        for real in (True, False):
            if real or not name.startswith(("rfft", "ihfft")):
                compare(lambda room, x: getattr(room, name)(x, s, dim, norm), (3, 2, 4), real)  # noqa: B023  # called at once


@every_row("dtype", ("float32", "float16", "bfloat16"))
def test_narrow_dtypes(dtype: str) -> None:
    array = rng.normal(size=(3, 16)).astype(np.float32)
    x, x_ = Tensor[NumPy].from_data(array).to_dtype(dtype), torch.tensor(array).to(getattr(torch, dtype))
    bound = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 4e-2}[dtype]
    for name in ("fft", "rfft", "irfft"):
        found, wanted = getattr(fft, name)(x), getattr(torch.fft, name)(x_.float())  # which takes no 16-bit floats
        assert found.dtype == ("float32" if name == "irfft" else "complex64")
        difference = np.abs(found.to_numpy().astype(np.complex64) - wanted.numpy()).max()
        assert difference <= bound * np.abs(wanted.numpy()).max()


def test_frequencies_and_shifts() -> None:
    for n in (1, 4, 7):
        for name in ("fftfreq", "rfftfreq"):
            found = getattr(fft, name)(n, 0.25, dtype="float64", device=NumPy)
            assert_close(found, getattr(torch.fft, name)(n, 0.25, dtype=torch.float64))
    for dim in (None, 0, (1, 0)):
        compare(lambda room, x: room.fftshift(x, dim), (3, 4), False)  # noqa: B023  # called at once
        compare(lambda room, x: room.ifftshift(x, dim), (3, 5), True)  # noqa: B023  # called at once


@every_row("name", ("hann", "hamming", "blackman", "bartlett", "kaiser", "cosine", "gaussian", "nuttall"))
def test_windows(name: str) -> None:
    for n, periodic in itertools.product((1, 2, 9, 64), (True, False)):
        found = getattr(fft, f"{name}_window")(n, periodic, dtype="float64", device=NumPy)
        if hasattr(torch, f"{name}_window"):
            wanted = getattr(torch, f"{name}_window")(n, periodic, dtype=torch.float64)
        else:
            wanted = getattr(torch.signal.windows, name)(n, sym=not periodic, dtype=torch.float64)
        np.testing.assert_allclose(found.to_numpy(), wanted.numpy(), rtol=1e-9, atol=1e-9)


def spectra(room: Any, x: Any, *args: Any, **options: Any) -> Any:
    if room is fft:
        options["window"] = fft.hann_window(args[2], dtype="float64", device=NumPy).to_device(Train)
        return fft.stft(x, *args, **options)
    options["window"] = torch.hann_window(args[2], dtype=torch.float64)
    return torch.stft(x, *args, **options, return_complex=True)


@every_row("mode", ("reflect", "constant", "replicate", "circular"))
def test_stft(mode: str) -> None:
    for n, hop, width in ((8, 2, 8), (7, 3, 5), (4, 6, 4)):
        for center, normalized, onesided in itertools.product((True, False), (False, True), (True, False)):
            options = {"center": center, "normalized": normalized, "onesided": onesided, "pad_mode": mode}
            compare(lambda room, x: spectra(room, x, n, hop, width, **options), (2, 30), True)  # noqa: B023  # at once
        compare(lambda room, x: spectra(room, x, n, hop, width, pad_mode=mode, onesided=False), (24,), False)  # noqa: B023


@pytest.mark.filterwarnings("ignore:The length of signal is shorter")
@every_row("length", (None, 20, 33))
def test_istft(length: Any) -> None:
    for n, hop, onesided, normalized in ((8, 2, True, False), (7, 3, False, True), (8, 4, True, True)):
        window = rng.uniform(0.5, 1.0, n)

        def signal(room: Any, z: Any) -> Any:
            ours = room is fft
            w = Tensor[Train].from_data(window) if ours else torch.tensor(window)  # noqa: B023  # called at once
            istft = fft.istft if ours else torch.istft
            return istft(z, n, hop, window=w, onesided=onesided, normalized=normalized, length=length)  # noqa: B023

        compare(signal, (2, n // 2 + 1 if onesided else n, 12), False)


def test_complex_functions() -> None:
    def both(name: str) -> Any:
        return lambda room, z: getattr(z, name)()

    for name in ("abs", "angle", "conj", "exp", "log", "sqrt", "square", "reciprocal", "sgn"):
        compare(both(name), (3, 2), False)
    for f in (
        lambda room, z: z * z.conj() / (z + 2),
        lambda room, z: z**3 - z**0.5 + z**-1,
        lambda room, z: z @ z.mT + 1j,
        lambda room, z: (2 - 1j) / z,
        lambda room, z: z**z,
    ):
        compare(f, (3, 3), False)


def test_gradients_at_0_are_0() -> None:
    a, b = (Tensor[Train].zeros((2,), dtype="float64").require_grad() for _ in range(2))
    grads = burnpy.complex(a, b).abs().sum().backward()
    z = torch.zeros(2, dtype=torch.complex128, requires_grad=True)
    z.abs().sum().backward()
    assert grads[a].tolist() == z.grad.real.tolist() == [0.0, 0.0]
    assert grads[b].tolist() == z.grad.imag.tolist()
