"""A custom training loop with checkpoints: ``python examples/custom_training_loop.py``.

Gradients of micro-batches are accumulated and clipped, the learning rate follows a schedule, validation runs on the
inner backend, and after every epoch the whole state is saved to one file. It can be killed at any time: ``--resume``
continues after the last complete epoch, and the final model is bitwise the same as without the interruption.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.backend.errors import RecordError, RecordNotFoundError
from burnpy.nn import BatchNorm, Dropout, Flatten, Gelu, Linear, Module, Sequential, rebound
from burnpy.optim import (
    AdamW,
    CosineLr,
    GradientsAccumulator,
    Group,
    LrSchedule,
    OptimizerRecord,
    WarmUpLr,
    clip_by_global_norm,
)
from burnpy.record import load, save
from digits_report import load_digits

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I], as in burnpy itself

MICRO_BATCH, ACCUMULATED = 32, 4  # one optimizer step per 4 micro-batches, 128 images
LEARNING_RATE, WEIGHT_DECAY, MAX_NORM = 5e-3, 0.05, 1.0
HELD_OUT = 360  # images


class Classifier(Module[B]):
    """An MLP with batch norm and dropout, so that checkpoints contain running statistics and a generator's state."""

    def __init__(self, device: B | type[B]) -> None:
        self.body = Sequential(Flatten(), Linear(64, 128, device=device), BatchNorm(128, device=device), Gelu())
        self.dropout = Dropout(0.3)
        self.head = Linear(128, 10, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Map images (batch, 1, 8, 8) to logits (batch, 10)."""
        return self.head(self.dropout(self.body(x)))

    def valid(self: Classifier[Autodiff[I]]) -> Classifier[I]:
        """Return the same model on the inner backend; overridden to give type checkers the class."""
        return rebound(self)


@dataclass(frozen=True)
class Examples(Generic[B]):
    """Images and their labels."""

    x: Tensor[B]
    y: IntTensor[B]


def train_epoch(
    model: Classifier[Autodiff[I]], optim: AdamW, schedule: LrSchedule, step: int, data: Examples[Autodiff[I]]
) -> tuple[Classifier[Autodiff[I]], int, float]:
    """Train for one epoch; return the new model, the new step count and the mean loss."""
    total = 0.0
    accumulator = GradientsAccumulator[I]()
    order = IntTensor.permutation(len(data.x), device=model.device)
    for rows in order.split(MICRO_BATCH):
        loss = burnpy.cross_entropy(model(data.x[rows]), data.y[rows])
        total += loss.item() * len(rows)
        accumulator = accumulator.backward(loss, model, weight=len(rows))
        if len(accumulator) == ACCUMULATED:
            model, step = update(model, optim, schedule, step, accumulator), step + 1
            accumulator = GradientsAccumulator[I]()
    if accumulator:  # the last, incomplete group of micro-batches
        model, step = update(model, optim, schedule, step, accumulator), step + 1
    return model, step, total / len(data.x)


def update(
    model: Classifier[Autodiff[I]], optim: AdamW, schedule: LrSchedule, step: int, gathered: GradientsAccumulator[I]
) -> Classifier[Autodiff[I]]:
    """Return the model after one optimizer step with clipped gradients."""
    return optim.step(schedule(step), model, clip_by_global_norm(gathered.mean(), MAX_NORM))


def validate(model: Classifier[I], data: Examples[I]) -> tuple[float, float]:
    """Return loss and accuracy on the inner backend: without a graph, with running statistics, without dropout."""
    logits = model(data.x)
    right = (logits.argmax(dim=1) == data.y).float().mean()
    return burnpy.cross_entropy(logits, data.y).item(), right.item()


def fingerprint(model: Module[I]) -> str:
    """Return a hash that is equal for two models with bitwise equal parameters and buffers."""
    digest = hashlib.sha256()
    for path, entry in sorted(model.into_record().items()):
        digest.update(path.encode() + entry.value.tobytes())
    return digest.hexdigest()[:16]


def train(device: Autodiff[I] | type[Autodiff[I]], epochs: int, seed: int, path: Path, resume: bool) -> None:
    """Train from the beginning, or resume from the checkpoint at ``path``."""
    burnpy.manual_seed(seed)
    model, optim = Classifier(device), AdamW(weight_decay=WEIGHT_DECAY, groups=[Group("*.bias", weight_decay=0.0)])
    generator = burnpy.default_generator(device)  # used by permutation() and Dropout
    epoch = step = 0
    if resume:
        record = load(path)
        model = record.apply_to(model)
        optim.load_record(record.part("optim", OptimizerRecord), model)
        generator.set_state(record.generator)
        epoch, step, epochs, seed = (record.part(name, int) for name in ("epoch", "step", "epochs", "seed"))
        print(f"resumed after epoch {epoch} of {epochs}")

    images, labels = load_digits()
    shuffled = np.random.default_rng(seed).permutation(len(images))
    x = Tensor.from_data(images[shuffled], device=device)
    y = IntTensor.from_data(labels[shuffled], device=device)
    learned = Examples(x[:-HELD_OUT], y[:-HELD_OUT])
    held_out = Examples(x[-HELD_OUT:].inner(), y[-HELD_OUT:].inner())

    steps = epochs * -(-len(learned.x) // (MICRO_BATCH * ACCUMULATED))
    schedule = WarmUpLr(steps // 10, CosineLr(LEARNING_RATE, steps - steps // 10))
    path.parent.mkdir(parents=True, exist_ok=True)
    while epoch < epochs:
        model, step, loss = train_epoch(model, optim, schedule, step, learned)
        loss_held_out, accuracy = validate(model.valid(), held_out)
        epoch += 1
        counts = {"epoch": epoch, "step": step, "epochs": epochs, "seed": seed}
        save(path, model=model, optim=optim, generator=generator, **counts)
        print(
            f"epoch {epoch}/{epochs}, step {step}, rate {schedule(step):.6f}: loss {loss:.4f}, "
            f"held out {loss_held_out:.4f}, accuracy {accuracy:.2%}",
            flush=True,
        )
    print(f"the model is {fingerprint(model)}, saved in {path}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train with accumulation, clipping, a schedule and checkpoints.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights, the order and the dropout")
    parser.add_argument(
        "--resume", action="store_true", help="resume from the file, for the number of epochs saved in it"
    )
    parser.add_argument("--file", type=Path, default=Path("out") / "classifier.safetensors", help="the checkpoint file")
    options = parser.parse_args(arguments)
    try:
        train(Autodiff[NumPy], options.epochs, options.seed, options.file, options.resume)
    except (RecordError, RecordNotFoundError) as error:
        sys.exit(f"there is nothing to resume: {error}")


if __name__ == "__main__":
    main()
