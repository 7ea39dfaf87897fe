"""A run that was cut off anywhere continues to the same bits."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy.errors import ArgumentError, BurnpyError, RecordError
from burnpy.record import load
from burnpy.train import BatchEnd, Checkpoints, EarlyStopping, EpochEnd, Saved, Steps, Stop
from burnpy.train.loop import Interrupts

from .training import Batches, learner, net, valid_batches, weights

WHOLE = 3 * 4


def run(folder: Path, resume: Any = None, cut: int | None = None, **settings: Any) -> Any:
    def stop(event: Any) -> Any:
        return Stop("cut") if isinstance(event, BatchEnd) and event.step == cut else None

    callbacks = [Checkpoints(folder, every=Steps(1), keep=None), EarlyStopping("train/loss", patience=50), stop]
    trained = learner(callbacks=callbacks, **settings)
    return trained.fit(net(), Batches(), valid_batches(), epochs=3, resume=resume)


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [1, 2])
def test_resumed_anywhere_equals_undisturbed_to_the_bit(tmp_path: Path, accumulate: int) -> None:
    whole = run(tmp_path / "whole", accumulate=accumulate)
    for cut in range(1, whole.step):
        folder = tmp_path / str(cut)
        assert run(folder, cut=cut, accumulate=accumulate).step == cut
        again = run(folder, resume="auto", accumulate=accumulate)
        assert weights(again.model) == weights(whole.model), cut
        assert again.history == whole.history, cut
        assert (again.step, again.epoch) == (whole.step, 3)


def test_auto_without_a_file_begins_anew(tmp_path: Path) -> None:
    assert weights(run(tmp_path, resume="auto").model) == weights(run(tmp_path / "b").model)


def test_a_complete_run_is_resumed_to_itself_and_can_be_extended(tmp_path: Path) -> None:
    whole = run(tmp_path)
    again = run(tmp_path, resume="auto")
    assert (again.step, weights(again.model)) == (whole.step, weights(whole.model))
    longer = learner(callbacks=[Checkpoints(tmp_path)]).fit(net(), Batches(), valid_batches(), epochs=4, resume="auto")
    fresh = learner().fit(net(), Batches(), valid_batches(), epochs=4)
    assert weights(longer.model) == weights(fresh.model)


def test_what_differs_is_named(tmp_path: Path) -> None:
    run(tmp_path, cut=2)
    with pytest.raises(ArgumentError, match="accumulate was 1 and is 2"):
        run(tmp_path, resume="auto", accumulate=2)
    trained = learner(callbacks=[Checkpoints(tmp_path)])
    with pytest.raises(ArgumentError, match="batches was 4 and is 2, batch_size was 16 and is 25"):
        trained.fit(net(), Batches(25), valid_batches(), epochs=3, resume="auto")
    with pytest.raises(ArgumentError, match="needs Checkpoints among the callbacks"):
        learner().fit(net(), Batches(), valid_batches(), epochs=3, resume="auto")
    with pytest.raises(BurnpyError, match="there is no file"):
        run(tmp_path, resume=tmp_path / "nothing.safetensors")
    from burnpy.record import save

    save(tmp_path / "other.safetensors", model=net())
    with pytest.raises(RecordError, match="not a checkpoint of a training run"):
        run(tmp_path, resume=tmp_path / "other.safetensors")


def test_files_are_kept_and_deleted(tmp_path: Path) -> None:
    saved = Checkpoints(tmp_path, every=Steps(2), keep=2, best="valid/accuracy")
    events = list(learner(callbacks=[saved]).events(net(), Batches(), valid_batches(), epochs=3))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "best.safetensors",
        "step-00000010.safetensors",
        "step-00000012.safetensors",
    ]
    values = [event.values["valid/accuracy"] for event in events if isinstance(event, EpochEnd)]
    best = load(tmp_path / "best.safetensors")
    assert best.part("run", dict)["epoch"] == int(np.argmax(values)) + 1
    assert next(event.path.name for event in events if isinstance(event, Saved)) == "step-00000002.safetensors"
    assert saved.latest() == tmp_path / "step-00000012.safetensors"


def test_a_file_that_was_to_be_deleted_when_the_run_was_killed_is_deleted_later(tmp_path: Path) -> None:
    def stop(event: Any) -> Any:
        return Stop("cut") if isinstance(event, BatchEnd) and event.step == 5 else None

    saved = Checkpoints(tmp_path, every=Steps(1), keep=2)
    learner(callbacks=[saved, stop]).fit(net(), Batches(), valid_batches(), epochs=3)
    left = tmp_path / "step-00000003.safetensors"
    assert not left.exists()
    left.write_bytes(
        b""
    )  # as if the process had been killed before this file was deleted, but after the fifth was saved
    learner(callbacks=[saved]).fit(net(), Batches(), valid_batches(), epochs=3, resume="auto")
    assert sorted(tmp_path.iterdir()) == [tmp_path / f"step-000000{step}.safetensors" for step in (11, 12)]


def test_the_best_is_saved_before_a_file_that_says_so(tmp_path: Path) -> None:
    saved = Checkpoints(tmp_path, every=Steps(1), best="valid/accuracy")
    events = learner(callbacks=[saved]).events(net(), Batches(), valid_batches(), epochs=1)
    names = [event.path.name for event in events if isinstance(event, Saved)]
    assert names[-2:] == ["best.safetensors", "step-00000004.safetensors"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BurnpyError, match=r"the folder .* for checkpoints cannot be made"):
        learner(callbacks=[Checkpoints(tmp_path / "file" / "runs")]).fit(net(), Batches(), valid_batches(), epochs=1)


@pytest.mark.slow
def test_a_run_that_has_stopped_early_does_not_go_on_when_it_is_resumed(tmp_path: Path) -> None:
    def run(patience: int) -> Any:
        stopping = EarlyStopping("valid/loss", patience=patience, min_delta=1e9)
        run = learner(valid_every=Steps(1), callbacks=[stopping, Checkpoints(tmp_path, every=Steps(1))])
        return run.fit(net(), Batches(), valid_batches(), epochs=2, resume="auto")

    first, again, longer = run(2), run(2), run(4)
    assert (first.step, again.step, longer.step) == (3, 3, 5)
    assert first.stopped == again.stopped
    assert weights(first.model) == weights(again.model)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_completes_the_step_and_saves(tmp_path: Path, number: int) -> None:
    whole = run(tmp_path / "whole")
    for at in (1, 4, 6):  # within an epoch, and at its end

        def kill(event: Any, at: int = at) -> None:
            if isinstance(event, BatchEnd) and event.step == at:
                os.kill(os.getpid(), number)

        folder = tmp_path / str(at)
        before = signal.getsignal(number)
        stopped = learner(callbacks=[Checkpoints(folder, every=Steps(100)), EarlyStopping("train/loss", 50), kill])
        result = stopped.fit(net(), Batches(), valid_batches(), epochs=3)
        assert (result.stopped, result.step) == ("interrupted", at)
        assert signal.getsignal(number) is before
        again = run(folder, resume="auto")
        assert weights(again.model) == weights(whole.model)
        assert again.history == whole.history


def test_the_second_signal_ends_the_run_at_once() -> None:
    def kill_twice(event: Any) -> None:
        if isinstance(event, BatchEnd):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        learner(callbacks=[kill_twice]).fit(net(), Batches(), valid_batches(), epochs=1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_leave_signals_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[Any] = []

    def work() -> None:
        with Interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
