"""Benchmark of Fourier transforms and of spectra of a minute of sound at 16 kHz, float32.

Each is a function of a signal and a window, forward, and forward with gradients of the sum of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook
from benchmarks.networks import best
from benchmarks.peers import Array, Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

PEERS = ("burnpy", "torch")
MINUTE = 60 * 16_000
SMALL = 64
"""The elements of each dimension where it is only found out whether everything runs."""

Function = Callable[[Any, Any, Any], Any]


def stft(size: int, hop: int, lib: Any, x: Any, window: Any) -> Any:
    """Return the complex spectra of frames."""
    if lib.__name__ == "torch":
        return lib.stft(x, size, hop, window=window, return_complex=True)
    return lib.fft.stft(x, size, hop, window=window)


def power(size: int, hop: int, lib: Any, x: Any, window: Any) -> Any:
    """Return a spectrogram."""
    z = stft(size, hop, lib, x, window)
    return z.real.square() + z.imag.square()


def there_and_back(size: int, hop: int, lib: Any, x: Any, window: Any) -> Any:
    """Return the signal of its own spectra."""
    z = stft(size, hop, lib, x, window)
    istft = lib.istft if lib.__name__ == "torch" else lib.fft.istft
    return istft(z, size, hop, window=window)


TRANSFORMS: dict[str, tuple[Function, tuple[int, ...]]] = {
    "rfft of 1,048,576": (lambda lib, x, window: lib.fft.rfft(x).real, (1 << 20,)),
    "rfft of 256 × 1,024": (lambda lib, x, window: lib.fft.rfft(x).real, (256, 1024)),
    "rfft and irfft of 256 × 1,024": (lambda lib, x, window: lib.fft.irfft(lib.fft.rfft(x)), (256, 1024)),
    "fft and ifft of 256 × 1,024": (lambda lib, x, window: lib.fft.ifft(lib.fft.fft(x)).real, (256, 1024)),
    "rfft2 of 16 × 224 × 224": (lambda lib, x, window: lib.fft.rfft2(x).imag, (16, 224, 224)),
}
FRAMES = ((400, 160), (512, 128), (1024, 256), (2048, 512))
STFT = "stft of a minute, 400 by 160, forward"


def cases(effort: Effort) -> dict[str, tuple[Function, Array, Array]]:
    """Return functions, signals and windows by name."""
    rng = np.random.default_rng(0)
    made: dict[str, tuple[Function, tuple[int, ...], int]] = {name: (f, s, 1) for name, (f, s) in TRANSFORMS.items()}
    for size, hop in FRAMES:
        made[f"stft of a minute, {size} by {hop}"] = (_real(partial(stft, size, hop)), (MINUTE,), size)
    size, hop = FRAMES[0]
    made[f"spectrogram of a minute, {size} by {hop}"] = (partial(power, size, hop), (MINUTE,), size)
    made[f"stft and istft of a minute, {size} by {hop}"] = (partial(there_and_back, size, hop), (MINUTE,), size)
    cases_by_name: dict[str, tuple[Function, Array, Array]] = {}
    for name, (f, shape, width) in made.items():
        least = 4 * width if shape == (MINUTE,) else SMALL
        sizes = shape if effort.seconds else tuple([min(n, least) for n in shape])
        cases_by_name[name] = (
            f,
            rng.normal(size=sizes).astype(np.float32),
            np.hanning(width + 1)[:-1].astype(np.float32),
        )
    return cases_by_name


def _real(f: Function) -> Function:
    return lambda lib, x, window: f(lib, x, window).real


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    lib = import_module(peer.package)
    for name, (f, x, window) in cases(effort).items():
        plain = peer.untracked({"x": x, "window": window})
        tracked = peer.tracked({"x": x, "window": window})
        frozen = tracked["window"].detach()

        def total(x: Any, frozen: Any = frozen, f: Function = f) -> Any:
            return f(lib, x, frozen).sum()

        forward = partial(f, lib, plain["x"], plain["window"])
        notebook.enter(f"{name}, forward", partial(best, forward, effort.seconds))
        both = partial(peer.gradients, total, [tracked["x"]])
        notebook.enter(f"{name}, gradients", partial(best, both, effort.seconds))


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers."""
    figures: Figures = collect({name: Job("spectra", name, ONE_THREAD, {}) for name in PEERS}, effort, said)
    lines = []
    for name in cases(effort):
        for what in ("forward", "gradients"):
            key = f"{name}, {what}"
            ratio = figures.ratio(("burnpy", key), ("torch", key))
            budget = 1.2 if name.startswith("stft of") and what == "forward" else None
            lines.append(Line.of(key, figures, dict.fromkeys(PEERS, key), 1e3, ratio, budget))
    how = (
        "float32, one thread, processor time. burnpy has a kernel for spectra of frames; else it calls SciPy's "
        "pocketfft where SciPy is installed, or NumPy's. PyTorch's wheel has MKL."
    )
    return [Section("Fourier transforms and spectra", how, "ms", PEERS, lines)]
