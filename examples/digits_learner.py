"""The network of digits.py, trained by a learner: ``python examples/digits_learner.py``.

A loader makes batches of shifted images in two threads; the learner trains, validates, shows what happens, stops when
the accuracy no longer improves, and saves the run to a folder: started again after Ctrl-C, it goes on where it was.
``python -m burnpy.train.board out/learner`` shows the curves in a browser.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.data import ArrayDataset, Batch, Loader, collate
from burnpy.data.transforms import Shift
from burnpy.metrics import Accuracy, ConfusionMatrix
from burnpy.optim import AdamW, OneCycleLr
from burnpy.train import ByGlobalNorm, Checkpoints, Dashboard, EarlyStopping, Epochs, Jsonl, Learner, Result, Step
from digits import Cnn
from digits_report import load_digits

B = TypeVar("B", bound=Backend)
Infer: TypeAlias = NumPy
Train: TypeAlias = Autodiff[Infer]

BATCH = 64


class Digits(Batch[B]):
    """Images, (n, 1, 8, 8), and their labels, (n,)."""

    x: Tensor[B]
    y: IntTensor[B]


def train_step(model: Cnn[Train], batch: Digits[Train]) -> Step[Train]:
    """Return the loss of a batch with smoothed labels."""
    logits = model(batch.x)
    loss = burnpy.cross_entropy(logits, batch.y, label_smoothing=0.1)
    return Step(loss, accuracy=Accuracy.of(logits, batch.y))


def valid_step(model: Cnn[Infer], batch: Digits[Infer]) -> Step[Infer]:
    """Return the loss of a batch on the inner backend, which records no graph."""
    logits = model(batch.x)
    loss = burnpy.cross_entropy(logits, batch.y)
    return Step(loss, accuracy=Accuracy.of(logits, batch.y), confusion=ConfusionMatrix.of(logits, batch.y))


def train(epochs: int, folder: Path) -> Result[Cnn[Train]]:
    """Train, or go on with the run in the folder."""
    burnpy.manual_seed(0)
    images, labels = load_digits()
    learned, held_out = ArrayDataset(x=images, y=labels).split(0.8, seed=0, stratify="y")
    shifted = collate(Digits[Train], transform=[Shift(1)])
    loader = Loader(learned, shifted, batch_size=BATCH, shuffle=True, seed=0, workers=2)
    learner = Learner(
        train_step,
        valid_step,
        optim=AdamW(weight_decay=0.05),
        lr=OneCycleLr(1e-2, steps=epochs * len(loader)),
        clip=ByGlobalNorm(1.0),
        callbacks=[
            EarlyStopping("valid/accuracy", patience=10),
            Checkpoints(folder, every=Epochs(1), keep=2, best="valid/accuracy"),
        ],
        loggers=[Dashboard(), Jsonl(folder / "log.jsonl", settings={"batch": BATCH, "epochs": epochs})],
    )
    valid = Loader(held_out, collate(Digits[Infer]), batch_size=BATCH)
    return learner.fit(Cnn(Train), loader, valid, epochs=epochs, resume="auto")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train a CNN on handwritten digits with a learner.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("out") / "learner", metavar="FOLDER", help="of the run")
    options = parser.parse_args(arguments)
    result = train(options.epochs, options.out)
    print(
        f"accuracy {result.history[-1]['valid/accuracy']:.2%} after {result.epoch} epochs ({result.stopped or 'done'})"
    )


if __name__ == "__main__":
    main()
