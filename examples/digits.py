"""A convolutional network learns to read handwritten digits: ``python examples/digits.py [--backend cupy]``.

The 1,797 images of 8 × 8 pixels come with scikit-learn; a fifth of them is held out. Training computes on a backend
``Autodiff[B]`` and validation on ``B`` itself, which cannot record a graph. What is printed and drawn, and the command
line, are in digits_report.py.
"""

from __future__ import annotations

import math
import sys
from typing import TypeVar

import numpy as np

import burnpy
import digits_report
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import Backend, CuPy, NumPy
from burnpy.backend.errors import BackendUnavailableError
from burnpy.nn import BatchNorm, Conv2d, Dropout, Flatten, Linear, MaxPool2d, Module, Relu, Sequential, rebound
from burnpy.optim import AdamW, OneCycleLr

B = TypeVar("B", bound=Backend)  # any backend: NumPy, Autodiff[NumPy], …
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I]: NumPy or CuPy

BATCH = 64


class Cnn(Module[B]):
    """Three convolutions and a linear layer, on the backend B."""

    def __init__(self, device: B | type[B]) -> None:
        self.features = Sequential(
            Conv2d(1, 16, 3, padding=1, bias=False, device=device),  # no bias, as the norm that follows adds one
            BatchNorm(16, device=device),
            Relu(),
            Conv2d(16, 32, 3, padding=1, bias=False, device=device),
            BatchNorm(32, device=device),
            Relu(),
            MaxPool2d(2),
            Conv2d(32, 32, 3, padding=1, bias=False, device=device),
            BatchNorm(32, device=device),
            Relu(),
            Flatten(),
        )
        self.dropout = Dropout(0.25)  # active on Autodiff only: there is no train() or eval() to call
        self.logits = Linear(32 * 4 * 4, 10, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """From images (batch, 1, 8, 8) to logits (batch, 10)."""
        return self.logits(self.dropout(self.features(x)))

    def valid(self: Cnn[Autodiff[I]]) -> Cnn[I]:
        """Return the same weights on the inner backend: this line tells type checkers the class of the result."""
        return rebound(self)


def accuracy(logits: Tensor[B], labels: IntTensor[B]) -> Tensor[B]:
    """Return the fraction of a batch that is classified correctly."""
    return (logits.argmax(dim=1) == labels).float().mean()


def train(device: type[Autodiff[I]], epochs: int, seed: int, report: digits_report.Report) -> None:
    """Train on one backend, validate after every epoch, and report how well the model reads the images held out."""
    burnpy.manual_seed(seed)
    images, labels = digits_report.load_digits()
    held_out, learned = np.split(np.random.default_rng(seed).permutation(len(images)), [len(images) // 5])
    x, y = Tensor.from_data(images[learned], device=device), IntTensor.from_data(labels[learned], device=device)
    x_test = Tensor.from_data(images[held_out], device=device).inner()  # the same memory, on the inner backend
    y_test = IntTensor.from_data(labels[held_out], device=device).inner()

    batches = math.ceil(len(x) / BATCH)
    model = Cnn(device)
    optim = AdamW(weight_decay=0.05)
    schedule = OneCycleLr(1e-2, steps=epochs * batches)
    step = 0
    report.start(f"{x.device}, {model.num_params:,} parameters, {len(x)} images, {len(x_test)} held out", batches)
    for _ in range(epochs):
        for rows in IntTensor.permutation(len(x), device=device).split(BATCH):
            logits = model(x[rows])
            loss = burnpy.cross_entropy(logits, y[rows], label_smoothing=0.1)
            grads = loss.backward()
            model = optim.step(schedule(step), model, grads)  # returns the next model: tensors never change
            step += 1
            report.batch(loss, accuracy(logits, y[rows]))
        logits_test = model.valid()(x_test)  # the inner backend cannot record, so no_grad() is not needed
        report.epoch(burnpy.cross_entropy(logits_test, y_test), accuracy(logits_test, y_test))

    logits_test = model.valid()(x_test)
    report.finish(accuracy(logits_test, y_test), x_test, y_test, logits_test.argmax(dim=1))


def main() -> None:
    """Train on the backend that the command line names."""
    options = digits_report.command_line()
    try:
        with digits_report.Report(options.epochs, options.out) as report:
            if options.backend == "cupy":
                CuPy.device()  # raises here, before the images are loaded
                train(Autodiff[CuPy], options.epochs, options.seed, report)
            else:
                train(Autodiff[NumPy], options.epochs, options.seed, report)
    except BackendUnavailableError as error:  # it says in one sentence what is missing: CuPy, the driver or the GPU
        sys.exit(str(error))


if __name__ == "__main__":
    main()
