"""An MLP learns to read handwritten digits: ``python examples/digits.py``, and with ``--backend cupy`` on a GPU.

The 1,797 images of 8 × 8 pixels come with scikit-learn; a fifth of them is held out. Training computes on a backend
``Autodiff[B]`` and validation on ``B`` itself, where no graph can be recorded. Nothing changes in place: a step of
training takes a model and its gradients, and returns the next model.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

import burnpy
from burnpy import Autodiff, Gradients, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.backend.errors import BackendUnavailableError
from digits_report import Curves, Progress, Score, load_digits, plot

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I], as in burnpy itself

BATCH, LEARNING_RATE, MOMENTUM = 32, 0.1, 0.9
NOISE = 0.2  # the standard deviation of what is added to the pixels, 0 … 1: no image is seen twice alike


@dataclass(frozen=True)
class Mlp(Generic[B]):
    """Three linear layers with GELU between them, on the backend B."""

    parameters: tuple[Tensor[B], ...]  # weight and bias of each layer in turn

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """From images (batch, 64) to logits (batch, 10)."""
        w1, b1, w2, b2, w3, b3 = self.parameters
        x = (x @ w1 + b1).gelu()
        x = (x @ w2 + b2).gelu()
        return x @ w3 + b3

    def valid(self: Mlp[Autodiff[I]]) -> Mlp[I]:
        """The same weights, in the same memory, on the inner backend: it computes the same and records nothing."""
        return Mlp(tuple(p.inner() for p in self.parameters))


def random_mlp(device: B | type[B]) -> Mlp[B]:
    """A model to be trained, with weights scaled as He et al. (2015) found right for rectifiers."""
    parameters: list[Tensor[B]] = []
    for inputs, outputs in ((64, 256), (256, 128), (128, 10)):
        parameters.append(Tensor.normal((inputs, outputs), 0.0, math.sqrt(2 / inputs), device=device))
        parameters.append(Tensor.zeros((outputs,), device=device))
    return Mlp(tuple(p.require_grad() for p in parameters))


def step(
    model: Mlp[Autodiff[I]], velocity: tuple[Tensor[I], ...], grads: Gradients[I], rate: float
) -> tuple[Mlp[Autodiff[I]], tuple[Tensor[I], ...]]:
    """Gradient descent with momentum: the next model and the next velocity.

    Gradients and velocity are tensors of the inner backend, and so is this arithmetic: there is nothing to detach.
    """
    velocity = tuple(MOMENTUM * v + grads[p] for p, v in zip(model.parameters, velocity, strict=True))
    moved = (p.inner() - rate * v for p, v in zip(model.parameters, velocity, strict=True))
    return Mlp(tuple(Tensor.from_inner(p).require_grad() for p in moved)), velocity


def score(logits: Tensor[B], labels: IntTensor[B]) -> tuple[Tensor[B], Tensor[B]]:
    """The loss and the accuracy of a batch, two 0-d tensors."""
    return burnpy.cross_entropy(logits, labels), (logits.argmax(dim=1) == labels).float().mean()


def mean_score(batches: Sequence[tuple[Tensor[I], Tensor[I]]]) -> Score:
    """The mean over batches, as numbers."""
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

    model = random_mlp(device)
    velocity = tuple(p.zeros_like() for p in model.valid().parameters)
    batches = len(kept) // BATCH
    curves = Curves()
    with Progress(epochs, f"{x.device}, {len(kept)} images to learn from, {len(held_out)} held out") as progress:
        for epoch in range(epochs):
            shuffled = IntTensor.permutation(len(kept), device=device)
            seen: list[tuple[Tensor[I], Tensor[I]]] = []
            for batch in range(batches):
                rows = shuffled[batch * BATCH : (batch + 1) * BATCH]
                noise = Tensor.normal((BATCH, 64), 0.0, NOISE, device=device)
                loss, accuracy = score(model.forward(x.index_select(0, rows) + noise), y.index_select(0, rows))
                grads = loss.backward()
                done = (epoch * batches + batch) / (epochs * batches)
                rate = LEARNING_RATE * (1 + math.cos(math.pi * done)) / 2
                model, velocity = step(model, velocity, grads, rate)
                seen.append((loss.inner(), accuracy.inner()))
            learned = mean_score(seen)
            tested = mean_score([score(model.valid().forward(x_test), y_test)])
            curves.append(learned, tested)
            progress.epoch(epoch + 1, learned, tested)

    read: npt.NDArray[np.int64] = model.valid().forward(x_test).argmax(dim=1).to_numpy()
    picture = plot(curves, images[held_out], labels[held_out], read, out / "digits.png")
    right = int((read == labels[held_out]).sum())
    print(f"test accuracy {right / len(read):.2%} ({right} of {len(read)}); curves and misread digits are in {picture}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train on the backend that it names."""
    parser = argparse.ArgumentParser(description="Train an MLP on scikit-learn's handwritten digits.")
    parser.add_argument("--backend", choices=["numpy", "cupy"], default="numpy", help="where to compute")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights, the order and the noise")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="where the picture goes")
    options = parser.parse_args(arguments)
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
