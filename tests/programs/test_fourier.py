"""The kernel of the spectra of frames, against NumPy's transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from tests.rows import every_row

pytest.importorskip("llvmlite")

from burnpy_numpy import fourier

D: Any = NumPy()
SIZES = (32, 126, 210, 256, 400, 480, 2048)
"""With factors of 2, 4 and 8, 3, 5 and 7 in various numbers."""
LEFT = (31, 62, 5000)
"""An odd one, one with another prime factor, and one that is too large."""


def expected(x: Any, window: Any, step: int, norm: Any) -> Any:
    frames = np.lib.stride_tricks.sliding_window_view(x.astype("f8"), len(window), -1)[..., ::step, :]
    return np.fft.rfft(frames * window, norm=norm)


def compared(x: Any, window: Any, step: int, norm: str = "backward") -> None:
    found = D.frame_spectra(x, window, step, norm)
    wanted = expected(x, window, step, norm)
    assert found.dtype == np.result_type(x.dtype, np.complex64)
    bound = (1e-6 if x.dtype == np.float32 else 1e-14) * np.abs(wanted).max()
    np.testing.assert_allclose(found.real, wanted.real, rtol=0, atol=bound)
    np.testing.assert_allclose(found.imag, wanted.imag, rtol=0, atol=bound)


@pytest.mark.slowest
@every_row("dtype", ["float32", "float64"])
@every_row("size", [*SIZES, *LEFT])
def test_spectra_are_those_of_numpy(size: int, dtype: str, noted: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The last vector has frames of the one before; of too few frames there is no kernel."""
    monkeypatch.setattr(fourier, "MANY_FRAMED", 1)
    rng = np.random.default_rng(size)
    step = max(size // 7, 1)
    x, window = rng.standard_normal((2, size + 36 * step)).astype(dtype), rng.uniform(size=size).astype(dtype)
    noted.clear()
    for norm in ("backward", "ortho", "forward"):
        compared(x, window, step, norm)
    assert {kernel.program.name for kernel in noted} == (set() if size in LEFT else {"frame_spectra"})
    compared(x[0, : size + step], window, step)


def test_a_frame_with_nan_spoils_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fourier, "MANY_FRAMED", 1)
    x, window = np.ones(64 * 40, np.float32), np.ones(64, np.float32)
    x[70] = np.nan
    found = D.frame_spectra(x, window, 64, "backward")
    spoiled = np.isnan(found.real) & np.isnan(found.imag)
    assert spoiled[1].any()
    assert not np.isnan(np.delete(found, 1, 0)).any()
    assert np.array_equal(found[0], found[5])
