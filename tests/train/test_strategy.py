"""A learner on several ranks: the same weights and metrics as on one, whoever has how many samples of a batch."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import burnpy
from burnpy.errors import ArgumentError, KindError, RecordFileError
from burnpy.train import BatchEnd, ByGlobalNorm, Checkpoints, EarlyStopping, EpochEnd, OneDevice, Steps, Stop
from tests.train import ranks
from tests.train.ranks import difference, learner, loaders, on_ranks

TOLERANCE = 1e-12


def start() -> Any:
    burnpy.manual_seed(3)
    return ranks.net()


SETTINGS: list[dict[str, Any]] = [
    {"clip": ByGlobalNorm(0.1), "grad_norm": True},
    {"accumulate": 2, "valid_every": Steps(2)},
    {"batch_size": 3},
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=["norm", "accumulate", "few samples"])
def test_ranks_train_as_one(settings: dict[str, Any]) -> None:
    settings = dict(settings)
    batches, model = loaders(settings.pop("batch_size", 16)), start()
    alone = learner(**settings).fit(model, *batches, epochs=3)
    for size in (2, 4):
        results = on_ranks(size, lambda strategy: learner(strategy, **settings).fit(model, *batches, epochs=3))
        assert max(difference(result, alone) for result in results) < TOLERANCE
        assert max(difference(result, results[0]) for result in results) == 0.0


def test_ranks_begin_with_the_model_of_rank_0() -> None:
    models = [start(), ranks.net(), ranks.net()]
    alone = learner().fit(models[0], *loaders(), epochs=1)
    for result in on_ranks(3, lambda s: learner(s).fit(models[s.group.rank], *loaders(), epochs=1)):
        assert difference(result, alone) < TOLERANCE
        assert [param.id for param in result.model.params()] == [param.id for param in models[0].params()]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 6])
def test_a_run_of_four_ranks_goes_on_with_others(size: int, tmp_path: Path) -> None:
    model, files = start(), Checkpoints(tmp_path, every=Steps(3), keep=None)
    alone = learner().fit(model, *loaders(), epochs=3)
    stop = stop_after(6)
    on_ranks(4, lambda s: learner(s, callbacks=[files, stop]).fit(model, *loaders(), epochs=3))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step-{n:08d}.safetensors" for n in (3, 6)]

    def resumed(strategy: Any) -> Any:
        return learner(strategy, callbacks=[files]).fit(ranks.net(), *loaders(), epochs=3, resume="auto")

    for result in on_ranks(size, resumed):
        assert difference(result, alone) < TOLERANCE


def stop_after(step: int) -> Any:
    def stop(event: Any) -> Stop | None:
        return Stop("enough") if isinstance(event, BatchEnd) and event.step == step else None

    return stop


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_run_goes_on_wherever_a_rank_is_lost(accumulate: int, tmp_path: Path) -> None:
    model = start()
    alone = learner(accumulate=accumulate).fit(model, *loaders(), epochs=1)
    calls, when = 99, 2  # the first call, on rank 0 alone, broadcasts the model
    while when <= calls:
        left: tuple[list[Any], threading.Barrier] = [None, None], threading.Barrier(2)

        def run(strategy: Any, left: Any = left, when: int = when) -> Any:
            shrinking = ranks.Shrinking(strategy.group, left, when)
            files = Checkpoints(tmp_path, every=Steps(2))
            with suppress(ranks.Lost):
                return shrinking, learner(shrinking, accumulate=accumulate, callbacks=[files]).fit(
                    model, *loaders(), epochs=1
                )

        _, *others = on_ranks(3, run)
        for shrinking, result in others:
            calls = shrinking.calls
            weights = zip(result.model.params(), alone.model.params(), strict=True)
            assert all((x.value - y.value).abs().max().item() < TOLERANCE for x, y in weights), when
            for row, wanted in zip(result.history, alone.history, strict=True):
                assert row["valid/loss"] == pytest.approx(wanted["valid/loss"], rel=TOLERANCE), when
        when += 1
    assert calls > 9


def test_a_callback_on_one_rank_stops_all() -> None:
    def run(strategy: Any) -> Any:
        callbacks = [stop_after(5)] if strategy.group.rank == 2 else []
        return learner(strategy, callbacks=callbacks).fit(start(), *loaders(), epochs=3)

    assert {(result.step, result.stopped) for result in on_ranks(3, run)} == {(5, "enough")}


def test_early_stopping_sees_the_metrics_of_all_ranks() -> None:
    patient: dict[str, Any] = {"callbacks": [EarlyStopping("valid/accuracy", patience=1)], "lr": 0.05}
    model = start()
    alone = learner(**patient).fit(model, *loaders(), epochs=20)
    results = on_ranks(3, lambda strategy: learner(strategy, **patient).fit(model, *loaders(), epochs=20))
    assert {(result.epoch, result.stopped) for result in results} == {(alone.epoch, alone.stopped)}
    assert alone.epoch < 20


def test_rank_0_writes_files_and_logs(tmp_path: Path) -> None:
    events: list[tuple[int, Any]] = []

    class Log:
        def __init__(self, rank: int) -> None:
            self.rank = rank

        def log(self, event: Any) -> None:
            events.append((self.rank, event))

        def close(self) -> None:
            pass

    def run(strategy: Any) -> None:
        rank = strategy.group.rank
        files = Checkpoints(tmp_path / f"{rank}", every=Steps(2))
        learner(strategy, callbacks=[files], loggers=[Log(rank)]).fit(start(), *loaders(), epochs=1)

    on_ranks(3, run)
    assert [path.name for path in tmp_path.iterdir()] == ["0"]
    assert {rank for rank, _ in events} == {0}
    assert any(isinstance(event, EpochEnd) for _, event in events)


def test_an_error_of_rank_0_in_reading_is_raised_on_all(tmp_path: Path) -> None:
    said: list[str] = []

    def run(strategy: Any) -> None:
        with pytest.raises(RecordFileError) as raised:
            learner(strategy).fit(start(), *loaders(), epochs=1, resume=tmp_path / "absent.safetensors")
        said.append(str(raised.value))

    on_ranks(3, run)
    assert len(said) == 3
    assert len(set(said)) == 1


def test_mistakes() -> None:
    batches = [next(loaders()[0].epoch(0))]
    with pytest.raises(ArgumentError, match=r"training batches as a list, which does not share them among 2 ranks"):
        on_ranks(2, lambda s: learner(s).fit(start(), batches, loaders()[1], epochs=1))
    with pytest.raises(ArgumentError, match=r"call it on the whole loader"):
        on_ranks(2, lambda s: learner(s).fit(start(), loaders()[0].shard(0, 2), loaders()[1], epochs=1))
    run: Any = OneDevice().run
    with pytest.raises(ArgumentError, match=r"run\(\) got step=None; expected a function"):
        run(None)
    with pytest.raises(KindError, match=r"write DataParallel\(group\)"):
        learner(ranks.ThreadGroup(0, [None], threading.Barrier(1)))
    with pytest.raises(KindError, match=r"write one, as DataParallel\(Group.world\(\)\)"):
        learner(OneDevice)
