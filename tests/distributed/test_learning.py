"""A learner on real ranks goes on from a checkpoint of more ranks, and without rank 0 once that is killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy.distributed import DataParallel, Group
from burnpy.errors import KindError
from burnpy.train import Checkpoints, Steps
from tests.distributed.learner_claims import EPOCHS, TOLERANCE, start
from tests.train.ranks import difference, learner, loaders, on_ranks
from tests.train.test_strategy import stop_after

from .conftest import launch

pytestmark = pytest.mark.slow


def launched(ranks: int, folder: Path, *kill: str) -> Any:
    options = ("--with-ft", "ulfm") if kill else ()
    done = launch(ranks, "learning", str(folder), *kill, options=options)
    assert done.stdout.strip(), done.stderr
    result = json.loads(done.stdout)
    assert result["same"], "the ranks have different bits"
    return result


def checkpoint_of(ranks: int, folder: Path, model: Any) -> None:
    """Write the checkpoints of a run of some ranks, which stops after six steps."""
    callbacks = [Checkpoints(folder, every=Steps(3), keep=None), stop_after(6)]
    on_ranks(ranks, lambda s: learner(s, callbacks=callbacks).fit(model, *loaders(), epochs=EPOCHS))


def apart(result: Any, alone: Any) -> float:
    weights = alone.model.into_record()
    return float(max(np.abs(np.array(x) - weights[path].value).max() for path, x in result["weights"].items()))


@pytest.mark.slowest
@pytest.mark.heavy("mpi4py")
def test_a_run_of_four_ranks_goes_on_with_two(tmp_path: Path) -> None:
    model = start()
    checkpoint_of(4, tmp_path, model)
    alone = learner().fit(model, *loaders(), epochs=EPOCHS)
    result = launched(2, tmp_path)
    assert (result["size"], result["step"]) == (2, alone.step)
    assert apart(result, alone) < TOLERANCE
    for row, wanted in zip(result["history"], alone.history, strict=True):
        assert row == pytest.approx(wanted, rel=TOLERANCE)


@pytest.mark.heavy("mpi4py")
def test_a_run_goes_on_when_rank_0_is_killed(tmp_path: Path) -> None:
    model = start()
    checkpoint_of(3, tmp_path, model)
    alone = learner().fit(model, *loaders(), epochs=EPOCHS)
    result = launched(3, tmp_path, "8")
    assert (result["size"], result["step"], result["stopped"]) == (2, alone.step, None)
    assert apart(result, alone) < TOLERANCE
    for row, wanted in zip(result["history"], alone.history, strict=True):
        assert row["valid/loss"] == pytest.approx(wanted["valid/loss"], rel=TOLERANCE)
    assert len(list(tmp_path.iterdir())) == alone.step // 3  # the next rank saves


def test_alone() -> None:
    strategy = DataParallel(Group.world())
    assert strategy.run(lambda group: group.gather(group.rank)) == [0]
    assert repr(strategy) == "DataParallel(Group(rank 0 of 1: alone))"
    model = start()
    result = learner(strategy).fit(model, *loaders(), epochs=1)
    assert difference(result, learner().fit(model, *loaders(), epochs=1)) == 0.0
    with pytest.raises(KindError, match=r"write DataParallel\(Group.world\(\)\)"):
        DataParallel(3)  # type: ignore[arg-type]  # as a user might
