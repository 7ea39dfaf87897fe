"""A convolutional network learns to read handwritten digits: ``python examples/digits.py [--backend cupy]``.

The 1,797 images of 8 × 8 pixels come with scikit-learn; a fifth of them is held out. Training computes on a backend
``Autodiff[B]`` and validation on ``B`` itself, where no graph can be recorded. Nothing changes in place: a step of
training takes a model and its gradients, and returns the next model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.backend.errors import BackendUnavailableError
from burnpy.nn import BatchNorm, Conv2d, Dropout, Flatten, Linear, MaxPool2d, Module, Relu, Sequential, rebound
from burnpy.optim import AdamW, OneCycleLr
from digits_report import Curves, Progress, Score, load_digits, plot

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I], as in burnpy itself

BATCH, LEARNING_RATE, WEIGHT_DECAY = 64, 5e-3, 0.05
NOISE = 0.1  # the standard deviation of what is added to the pixels, 0 … 1: no image is seen twice alike
SECONDS = 0.3  # that an epoch takes on one core of a CPU; what comes before and after takes two
SMOOTHING = 0.05  # how much of what is wanted is spread over all ten digits


def convolution(inputs: int, outputs: int, device: B | type[B]) -> Sequential[B]:
    """3 × 3 pixels at a time, normalized over the batch; the norm adds a bias."""
    conv = Conv2d(inputs, outputs, 3, padding=1, bias=False, device=device)
    return Sequential(conv, BatchNorm(outputs, device=device), Relu())


class Cnn(Module[B]):
    """Three convolutions and a linear layer, on the backend B."""

    def __init__(self, device: B | type[B]) -> None:
        self.features = Sequential(
            convolution(1, 16, device),
            convolution(16, 32, device),
            MaxPool2d(2),
            convolution(32, 32, device),
            Flatten(),
        )
        self.dropout = Dropout(0.25)  # zeros on Autodiff only, where one trains
        self.logits = Linear(32 * 4 * 4, 10, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """From images (batch, 1, 8, 8) to logits (batch, 10)."""
        return self.logits(self.dropout(self.features(x)))

    def valid(self: Cnn[Autodiff[I]]) -> Cnn[I]:
        """The same weights, in the same memory, on the inner backend: this line is for type checkers."""
        return rebound(self)


def accuracy(logits: Tensor[B], labels: IntTensor[B]) -> Tensor[B]:
    """The share of a batch that is read right."""
    return (logits.argmax(dim=1) == labels).float().mean()


def mean_score(batches: Sequence[tuple[Tensor[I], Tensor[I]]]) -> Score:
    """The mean of losses and accuracies over batches, as numbers."""
    losses, accuracies = (burnpy.stack(values).mean().item() for values in zip(*batches, strict=True))
    return Score(losses, accuracies)


def train(device: Autodiff[I] | type[Autodiff[I]], epochs: int, seed: int, out: Path) -> None:
    """Train on one backend, show how it goes, and write the curves and the misread digits to ``out``."""
    burnpy.manual_seed(seed)
    images, labels = load_digits()
    order = np.random.default_rng(seed).permutation(len(images))
    held_out, kept = np.split(order, [len(order) // 5])
    x, y = Tensor.from_data(images[kept], device=device), IntTensor.from_data(labels[kept], device=device)
    x_test = Tensor.from_data(images[held_out], device=device).inner()
    y_test = IntTensor.from_data(labels[held_out], device=device).inner()

    model = Cnn(device)
    batches = len(kept) // BATCH
    optim = AdamW(weight_decay=WEIGHT_DECAY)
    schedule = OneCycleLr(LEARNING_RATE, epochs * batches, rising=0.1)
    curves = Curves()
    title = f"{x.device}, {model.num_params:,} parameters, {len(kept)} images to learn from, {len(held_out)} held out"
    with Progress(epochs, batches, title) as progress:
        for epoch in range(epochs):
            shuffled = IntTensor.permutation(len(kept), device=device)
            seen: list[tuple[Tensor[I], Tensor[I]]] = []
            for batch in range(batches):
                rows = shuffled[batch * BATCH : (batch + 1) * BATCH]
                noise = Tensor.normal((BATCH, 1, 8, 8), 0.0, NOISE, device=device)
                logits, wanted = model(x.index_select(0, rows) + noise), y.index_select(0, rows)
                loss = burnpy.cross_entropy(logits, wanted, label_smoothing=SMOOTHING)
                model = optim.step(schedule(epoch * batches + batch), model, loss.backward())
                seen.append((loss.inner(), accuracy(logits, wanted).inner()))
                progress.batch()
            logits_test = model.valid()(x_test)
            learned = mean_score(seen)
            tested = mean_score([(burnpy.cross_entropy(logits_test, y_test), accuracy(logits_test, y_test))])
            curves.append(learned, tested)
            progress.epoch(epoch + 1, learned, tested)

    read: npt.NDArray[np.int64] = model.valid()(x_test).argmax(dim=1).to_numpy()
    picture = plot(curves, images[held_out], labels[held_out], read, out / "digits.png")
    right = int((read == labels[held_out]).sum())
    print(f"test accuracy {right / len(read):.2%} ({right} of {len(read)}); curves and misread digits are in {picture}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train on the backend that it names."""
    parser = argparse.ArgumentParser(description="Train a convolutional network on scikit-learn's handwritten digits.")
    parser.add_argument("--backend", choices=["numpy", "cupy"], default="numpy", help="where to compute")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights, the order and the noise")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="where the picture goes")
    options = parser.parse_args(arguments)
    how_long = f", in about {round(2 + SECONDS * options.epochs)} seconds" if options.backend == "numpy" else ""
    print(f"A convolutional network learns to read handwritten digits{how_long} …", flush=True)
    try:
        if options.backend == "numpy":
            train(Autodiff[NumPy], options.epochs, options.seed, options.out)
        else:
            from burnpy.backend import CuPy

            train(Autodiff[CuPy], options.epochs, options.seed, options.out)
    except BackendUnavailableError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
