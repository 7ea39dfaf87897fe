"""A training run that `test_killed.py` kills and resumes: ``python -m tests.train.killed FOLDER``.

It has everything that a checkpoint stores: batches in random order with random shifts, made by two threads, dropout and
running statistics, accumulation, metrics, early stopping, the best so far, and files that are deleted.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import burnpy
from burnpy.backend import NumPy
from burnpy.data import ArrayDataset, Batch, Loader, collate
from burnpy.data.transforms import Shift
from burnpy.metrics import Accuracy
from burnpy.nn import BatchNorm, Dropout, Flatten, Linear, Relu, Sequential
from burnpy.optim import AdamW, CosineLr
from burnpy.train import ByGlobalNorm, Checkpoints, EarlyStopping, Jsonl, Learner, Step, Steps
from tests.interrupting import LONG

from .training import Train, weights

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(90, 1, 6, 6)).astype(np.float32)
DATA = ArrayDataset(x=IMAGES, y=(IMAGES.mean((1, 2, 3)) > 0).astype(np.int64))
EPOCHS = 12 if LONG else 6


def step(model: Any, batch: Batch[Any]) -> Step[Any]:
    logits = model(batch.x)
    return Step(burnpy.cross_entropy(logits, batch.y), accuracy=Accuracy.of(logits, batch.y))


def network() -> Sequential[Any]:
    burnpy.manual_seed(0)
    body = (Flatten(), Linear(36, 16, device=Train), BatchNorm(16, device=Train), Relu(), Dropout(0.2))
    return Sequential(*body, Linear(16, 2, device=Train))


def run(folder: Path) -> dict[str, Any]:
    """Train, or go on from the latest file; return what the run comes to, for JSON, which keeps floats to the bit."""
    learner: Any = Learner(
        step,
        step,
        optim=AdamW(),
        lr=CosineLr(1e-2, 200),
        accumulate=2,
        clip=ByGlobalNorm(1.0),
        callbacks=[
            Checkpoints(folder, every=Steps(1), keep=2, best="valid/accuracy"),
            EarlyStopping("valid/loss", patience=50),
        ],
        loggers=[Jsonl(folder / "log.jsonl", every=1)],
    )
    shifted = collate(device=Train, transform=[Shift(1)])
    train = Loader(DATA, shifted, batch_size=16, shuffle=True, seed=3, workers=2)
    valid = Loader(DATA, collate(device=NumPy), batch_size=40)
    result = learner.fit(network(), train, valid, epochs=EPOCHS, resume="auto")
    states = sorted(result.optim.into_record().states.values(), key=lambda state: state.path)
    slots = [(state.path, state.step, {name: x.tobytes() for name, x in state.values.items()}) for state in states]
    return {
        "weights": _digest(weights(result.model)),
        "optimizer": _digest(repr(slots).encode()),
        "history": [dict(values) for values in result.history],
        "step": result.step,
        "stopped": result.stopped,
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def main() -> None:
    print("ready", flush=True)
    sys.stdin.readline()  # the moments count from here, not from the start of Python
    result = run(Path(sys.argv[1]))
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
