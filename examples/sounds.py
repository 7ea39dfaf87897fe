"""A network tells made sounds apart by their spectrograms: ``python examples/sounds.py``.

Six kinds of sounds of one second, of random pitch, loudness and start, in noise: a steady tone, a rising and a falling
one, a trembling one, a warbling one, and clicks. The network begins with the short-time Fourier transform, so that it
takes waves, and convolves the logarithm of the power. A linear classifier of the spectra of whole sounds, without time,
is the comparison: a rising and a falling tone have the same spectrum. It takes some ten seconds on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

import burnpy
from burnpy import Autodiff, IntTensor, Tensor, fft
from burnpy.backend import Backend, NumPy
from burnpy.data import ArrayDataset, Batch, Loader, collate
from burnpy.metrics import Accuracy, ConfusionMatrix
from burnpy.nn import Conv2d, Linear, MaxPool2d, Module, rebound
from burnpy.optim import AdamW, OneCycleLr
from burnpy.train import Learner, Step
from pictures import draw_sounds

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I]
Infer: TypeAlias = NumPy
Train: TypeAlias = Autodiff[Infer]
Waves: TypeAlias = npt.NDArray[np.float32]

RATE = 4000  # samples a second, and so in a sound
FRAME, HOP = 128, 64  # samples of a spectrum, and from one to the next
NOISE = 0.8  # the standard deviation, beside amplitudes of about 1
KINDS = ("steady", "rising", "falling", "trembling", "warbling", "clicks")


class Sounds(Batch[B]):
    """Waves, (n, samples), and their kinds, (n,)."""

    x: Tensor[B]
    y: IntTensor[B]


def made_sounds(count: int, noise: float, seed: int) -> tuple[Waves, npt.NDArray[np.int64]]:
    """Make sounds, each of a random kind, and noise of a standard deviation; return the waves and the kinds."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, len(KINDS), count)
    t = np.arange(RATE) / RATE
    pitch, slope, beat = (rng.uniform(low, high, (count, 1)) for low, high in ((500, 1100), (150, 500), (5, 12)))
    name = np.array(KINDS)[kinds][:, None]
    turn = np.select([name == "rising", name == "falling"], [slope, -slope], 0.0) * (t - 0.5)
    turn = turn + np.where(name == "warbling", 120 * np.sin(2 * np.pi * beat * t), 0.0)
    phase = 2 * np.pi * (rng.uniform(size=(count, 1)) + np.cumsum(pitch + turn, 1) / RATE)
    swell = np.where(name == "trembling", 1 + np.cos(2 * np.pi * beat * t), 1.0)
    age = (t + rng.uniform(size=(count, 1))) * beat % 1 / beat  # seconds since the last click
    swell = np.where(name == "clicks", 3 * np.exp(-60 * age), swell)
    begin, end = rng.uniform(0.0, 0.25, (count, 1)), rng.uniform(0.75, 1.0, (count, 1))
    heard = ((t > begin) & (t < end)) * rng.uniform(0.5, 1.5, (count, 1))
    waves = heard * swell * np.sin(phase) + noise * rng.normal(size=(count, RATE))
    return waves.astype(np.float32), kinds


def spectrogram(x: Tensor[B]) -> Tensor[B]:
    """Compute the logarithm of the power of waves (n, samples) by frequency and time: (n, frequencies, frames)."""
    window = fft.hann_window(FRAME, device=x.device)
    z = fft.stft(x, FRAME, HOP, window=window)
    return (z.real.square() + z.imag.square() + 1e-3).log()


class Listener(Module[B]):
    """A convolutional network over the spectrograms of waves."""

    def __init__(self, device: B | type[B]) -> None:
        self.first = Conv2d(1, 8, 3, padding=1, device=device)
        self.second = Conv2d(8, 16, 3, padding=1, device=device)
        self.third = Conv2d(16, 32, 3, padding=1, device=device)
        self.pool = MaxPool2d(2)
        self.out = Linear(32 * 8 * 7, len(KINDS), device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """From waves (n, samples) to the logits of kinds, (n, kinds)."""
        power = spectrogram(x)
        x = ((power - power.mean((1, 2), keepdim=True)) * 0.3)[:, None]
        for layer in (self.first, self.second, self.third):
            x = self.pool(layer(x).relu())
        return self.out(x.flatten(1))

    def valid(self: Listener[Autodiff[I]]) -> Listener[I]:
        """Return the same weights on the inner backend."""
        return rebound(self)


class Spectra(Module[B]):
    """A linear function of the power of whole sounds in 128 bands, from the strongest, whatever the pitch."""

    def __init__(self, device: B | type[B]) -> None:
        self.out = Linear(128, len(KINDS), device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """From waves (n, samples) to the logits of kinds, (n, kinds)."""
        z = fft.rfft(x)[:, : 128 * 15]
        power = (z.real.square() + z.imag.square()).reshape(-1, 128, 15).mean(-1)
        bands, _ = power.log().sort(dim=-1, descending=True)
        return self.out(bands - bands.mean(-1, keepdim=True))

    def valid(self: Spectra[Autodiff[I]]) -> Spectra[I]:
        """Return the same weights on the inner backend."""
        return rebound(self)


def train_step(model: Any, batch: Sounds[Train]) -> Step[Train]:
    """Return the loss of a batch."""
    return Step(burnpy.cross_entropy(model(batch.x), batch.y))


def valid_step(model: Any, batch: Sounds[Infer]) -> Step[Infer]:
    """Return the accuracy on the inner backend, which records no graph."""
    logits = model(batch.x)
    return Step(
        burnpy.cross_entropy(logits, batch.y),
        accuracy=Accuracy.of(logits, batch.y),
        confusion=ConfusionMatrix.of(logits, batch.y),
    )


def learned(model: Any, data: ArrayDataset, held_out: Any, epochs: int, rate: float, seed: int) -> Any:
    """Train a model, and return the learner's result."""
    loader = Loader(data, collate(Sounds[Train]), batch_size=32, shuffle=True, seed=seed)
    valid = Loader(held_out, collate(Sounds[Infer]), batch_size=64)
    steps = OneCycleLr(rate, steps=epochs * len(loader))
    learner: Learner[Any, Sounds[Train], Any, Any] = Learner(
        train_step, valid_step, optim=AdamW(weight_decay=0.02), lr=steps
    )
    return learner.fit(model, loader, valid, epochs=epochs)


def train(count: int, epochs: int, seed: int, out: Path) -> None:
    """Train both on ``count`` sounds, print the accuracies of others, and draw spectrograms of some of those."""
    burnpy.manual_seed(seed)
    parts = (made_sounds(size, NOISE, seed + k) for k, size in enumerate((count, count // 3)))
    data, held_out = (ArrayDataset(x=x, y=y) for x, y in parts)
    spectra = learned(Spectra(Train), data, held_out, epochs, 0.03, seed)
    print(f"spectra of whole sounds: {spectra.history[-1]['valid/accuracy']:.1%} of {len(held_out)} others are right")
    result = learned(Listener(Train), data, held_out, epochs, 8e-3, seed)
    print(f"their spectrograms: {result.history[-1]['valid/accuracy']:.1%} are right")

    x, y = made_sounds(200, NOISE, seed + 2)
    shown = [int(np.flatnonzero(y == kind)[0]) for kind in range(len(KINDS))]
    waves = Tensor[Infer].from_data(x[shown])
    chances = result.model.valid()(waves).softmax(-1).to_numpy()
    path = draw_sounds(spectrogram(waves).to_numpy(), KINDS, chances, RATE / 2, out / "sounds.png")
    print(f"see {path}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Tell made sounds apart by their spectrograms.")
    parser.add_argument("--sounds", type=int, default=1200, help="to learn from")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0, help="of the sounds, the weights and the order")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="folder for the picture")
    options = parser.parse_args(arguments)
    train(options.sounds, options.epochs, options.seed, options.out)


if __name__ == "__main__":
    main()
