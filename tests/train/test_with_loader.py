"""A learner trains on batches of `burnpy.data`, and continues amid an epoch without making those before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy.backend import NumPy
from burnpy.data import ArrayDataset, Batch, Loader, Stream, StreamLoader, collate
from burnpy.data.transforms import Shift
from burnpy.errors import ArgumentError
from burnpy.metrics import Accuracy
from burnpy.nn import Flatten, Linear, Sequential
from burnpy.optim import AdamW
from burnpy.train import BatchEnd, Checkpoints, Learner, Step, Steps, Stop

from .training import Train, weights

IMAGES = np.random.default_rng(0).normal(size=(60, 1, 6, 6)).astype(np.float32)
DATA = ArrayDataset(x=IMAGES, y=(IMAGES.mean((1, 2, 3)) > 0).astype(np.int64))


def loader(device: Any, workers: int = 0, batch_size: int = 16, data: Any = DATA) -> Loader[Any]:
    make = collate(device=device, transform=[Shift(1)])
    return Loader(data, make, batch_size=batch_size, shuffle=True, seed=3, workers=workers)


def step(model: Any, batch: Batch[Any]) -> Step[Any]:
    logits = model(batch.x)
    return Step(burnpy.cross_entropy(logits, batch.y), accuracy=Accuracy.of(logits, batch.y))


def fit(
    workers: int, folder: Path, cut: int | None = None, resume: Any = None, batch_size: int = 16, data: Any = DATA
) -> Any:
    def stop(event: Any) -> Any:
        return Stop("cut") if isinstance(event, BatchEnd) and event.step == cut else None

    burnpy.manual_seed(0)
    model = Sequential(Flatten(), Linear(36, 2, device=Train))
    saved = Checkpoints(folder, every=Steps(1), keep=None)
    learner: Any = Learner(step, step, optim=AdamW(), lr=1e-2, callbacks=[saved, stop])
    valid = Loader(DATA, collate(device=NumPy), batch_size=40)
    return learner.fit(model, loader(Train, workers, batch_size, data), valid, epochs=2, resume=resume)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_cut_off_and_resumed_with_any_number_of_workers(tmp_path: Path, workers: int) -> None:
    whole = fit(0, tmp_path / "whole")
    assert whole.step == 8
    for cut in (1, 4, 6):
        folder = tmp_path / str(cut)
        fit(workers, folder, cut=cut)
        again = fit(2 - workers, folder, resume="auto")
        assert weights(again.model) == weights(whole.model)
        assert again.history == whole.history


class Rows(Stream[Any]):
    def samples(self, epoch: int, state: Any) -> Any:
        yield from ((DATA[k], k + 1) for k in range(state or 0, len(DATA)))


def test_a_stream_is_continued(tmp_path: Path) -> None:
    def run(folder: Path, cut: int | None = None, resume: Any = None, batch_size: int = 16) -> Any:
        def stop(event: Any) -> Any:
            return Stop("cut") if isinstance(event, BatchEnd) and event.step == cut else None

        burnpy.manual_seed(0)
        model = Sequential(Flatten(), Linear(36, 2, device=Train))
        made = collate(device=Train, transform=[Shift(1)])
        stream = StreamLoader(Rows().shuffle(20, seed=1), made, batch_size=batch_size, workers=1)
        saved = Checkpoints(folder, every=Steps(1), keep=None)
        learner: Any = Learner(step, optim=AdamW(), lr=1e-2, callbacks=[saved, stop])
        return learner.fit(model, stream, epochs=2, resume=resume)

    whole = run(tmp_path / "whole")
    for cut in (3, 4, 6):
        run(tmp_path / str(cut), cut=cut)
        again = run(tmp_path / str(cut), resume="auto")
        assert (weights(again.model), again.history) == (weights(whole.model), whole.history)
    with pytest.raises(ArgumentError, match="batch_size was 16 and is 20"):
        run(tmp_path / "whole", resume="auto", batch_size=20)


def test_other_data_are_named(tmp_path: Path) -> None:
    fit(0, tmp_path, cut=2)
    with pytest.raises(ArgumentError, match="batches was 4 and is 3, batch_size was 16 and is 20"):
        fit(0, tmp_path, resume="auto", batch_size=20)
    other = ArrayDataset(x=IMAGES[::-1], y=np.zeros(60, np.int64))
    with pytest.raises(ArgumentError, match=r"differs: checksum of samples was '[0-9a-f]{8}' and is '[0-9a-f]{8}'$"):
        fit(0, tmp_path, resume="auto", data=other)
