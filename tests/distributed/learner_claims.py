"""Claims about a learner on several ranks, which `ranks.py` checks with its own, in the same launches."""

from __future__ import annotations

import hashlib
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import burnpy
from burnpy import default_generator
from burnpy.distributed import DataParallel, Group, ZeroRedundancy
from burnpy.errors import ArgumentError
from burnpy.nn import Dropout, Linear, Relu, Sequential
from burnpy.optim import AdamW
from burnpy.train import BatchEnd, Checkpoints, Steps
from tests.train.ranks import Train, difference, learner, loaders, net

TOLERANCE = 1e-12
EPOCHS = 3


def start() -> Any:
    burnpy.manual_seed(3)
    return net()


def digest(result: Any) -> str:
    weights = b"".join(x.value.tobytes() for _, x in sorted(result.model.into_record().items()))
    return hashlib.sha256(weights + repr(result.history).encode()).hexdigest()


def folder_of(group: Group) -> Path:
    return group.broadcast(Path(tempfile.mkdtemp()))


def a_learner_trains_as_on_one_rank(group: Group) -> None:
    model = group.broadcast(start())
    settings: dict[str, Any] = {"accumulate": 2, "grad_norm": True}
    result = learner(DataParallel(group), **settings).fit(start(), *loaders(), epochs=EPOCHS)
    assert difference(result, learner(**settings).fit(model, *loaders(), epochs=EPOCHS)) < TOLERANCE
    assert len(set(group.gather(digest(result)))) == 1


def a_run_with_dropout_resumes_to_the_same_bits(group: Group) -> None:
    files, strategy = Checkpoints(folder_of(group), every=Steps(3), keep=None), DataParallel(group)

    def run(resume: Path | None) -> tuple[list[bytes], Any]:
        layers = Linear(4, 8, device=Train), Relu(), Dropout(0.3), Linear(8, 2, device=Train)
        model = Sequential(*layers).astype("float64")
        result = learner(strategy, callbacks=[files]).fit(model, *loaders(), epochs=EPOCHS, resume=resume)
        return [value.value.tobytes() for value in result.model.into_record().values()], result.history

    burnpy.manual_seed(3)
    weights, history = run(None)
    assert len(set(group.gather(default_generator(Train).get_state()["bits"]["state"]["state"]))) == group.size
    burnpy.manual_seed(4)
    resumed, again = run(Path(files.folder) / "step-00000006.safetensors")
    assert resumed == weights
    for epoch, other in zip(history, again, strict=True):  # of the epoch amid which it resumed, sums were added already
        assert other == pytest.approx(dict(epoch), rel=1e-12)


def a_signal_to_one_rank_stops_all_after_the_same_step(group: Group) -> None:
    def interrupt(event: Any) -> None:
        if group.rank == group.size - 1 and isinstance(event, BatchEnd) and event.step == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    files, strategy = Checkpoints(folder_of(group), every=Steps(100)), DataParallel(group)
    model = group.broadcast(start())
    half = learner(strategy, callbacks=[files, interrupt]).fit(model, *loaders(), epochs=EPOCHS)
    assert set(group.gather((half.stopped, half.step))) == {("interrupted", 5)}
    assert [path.name for path in Path(files.folder).iterdir()] == ["step-00000005.safetensors"]
    whole = learner(strategy, callbacks=[files]).fit(net(), *loaders(), epochs=EPOCHS, resume="auto")
    assert difference(whole, learner().fit(model, *loaders(), epochs=EPOCHS)) < TOLERANCE


def states_divided_among_ranks_give_the_same_bits_and_resume_without_ranks(group: Group) -> None:
    files, strategy = Checkpoints(folder_of(group), every=Steps(5), keep=None), DataParallel(group)
    model = group.broadcast(start())
    whole = learner(strategy).fit(model, *loaders(), epochs=EPOCHS)
    divided = ZeroRedundancy(AdamW(), group)
    result = learner(strategy, optim=divided, callbacks=[files]).fit(model, *loaders(), epochs=EPOCHS)
    assert digest(result) == digest(whole)
    for other in (DataParallel(Group(group._calls)), None):
        with pytest.raises(ArgumentError, match=r"expected DataParallel\(group\) with the same group"):
            learner(other, optim=divided)
    again = learner(callbacks=[files]).fit(net(), *loaders(), epochs=EPOCHS, resume=files.latest())
    assert difference(again, whole) < TOLERANCE


CLAIMS: tuple[Callable[[Group], None], ...] = (
    a_learner_trains_as_on_one_rank,
    a_run_with_dropout_resumes_to_the_same_bits,
    a_signal_to_one_rank_stops_all_after_the_same_step,
    states_divided_among_ranks_give_the_same_bits_and_resume_without_ranks,
)
