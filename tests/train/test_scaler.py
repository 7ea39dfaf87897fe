"""Training with a scaled loss, as float16 needs it: the same numbers, skipped steps, and a scale in the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, KindError
from burnpy.optim import AdamW, GradScaler
from burnpy.train import BatchEnd, Checkpoints, Learner, Step, Steps, Stop, find_lr

from .training import Batches, learner, net, train_step, weights


def large(model: Any, batch: Any) -> Step[Any]:
    """A step whose gradients overflow float32 at a scale of 2**127."""
    return Step(100.0 * train_step(model, batch).loss)


def run(scaler: GradScaler[Any] | None, **settings: Any) -> Any:
    resume = settings.pop("resume", None)
    trained: Learner[Any, Any] = Learner(large, optim=AdamW(), lr=0.01, scaler=scaler, **settings)
    return trained.fit(net(), Batches(), epochs=3, resume=resume)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_scale_that_is_a_power_of_two_changes_no_bit(accumulate: int) -> None:
    scaled = run(GradScaler(NumPy, growth_interval=2), accumulate=accumulate)
    plain = run(None, accumulate=accumulate)
    assert weights(scaled.model) == weights(plain.model)
    assert scaled.scaler.loss_scale == 2.0 ** (16 + scaled.step // 2)
    assert plain.scaler is None


def test_steps_that_overflow_change_nothing_and_lower_the_scale() -> None:
    trained: list[Any] = []

    def note(event: Any) -> None:
        if isinstance(event, BatchEnd):
            trained.append([x.tolist() for x in (p.value for p in event.model.params())])

    result = run(GradScaler(NumPy, init_scale=2.0**127, backoff_factor=2.0**-100), callbacks=[note])
    assert trained[0] == [p.value.tolist() for p in net().params()]
    assert trained[1] != trained[0]
    assert result.scaler.loss_scale == 2.0**27


def test_a_resumed_run_continues_with_the_scale(tmp_path: Path) -> None:
    def stop(event: Any) -> Any:
        return Stop("cut") if isinstance(event, BatchEnd) and event.step == 5 else None

    def scaler() -> GradScaler[Any]:
        return GradScaler(NumPy, init_scale=2.0**127, growth_interval=3)

    whole = run(scaler())
    files = Checkpoints(tmp_path, every=Steps(1))
    assert run(scaler(), callbacks=[files, stop]).step == 5
    again = run(scaler(), callbacks=[files], resume="auto")
    assert weights(again.model) == weights(whole.model)
    assert again.scaler.into_record() == whole.scaler.into_record()
    with pytest.raises(ArgumentError, match="scaler was 'GradScaler' and is None"):
        run(None, callbacks=[files], resume="auto")


def test_the_range_of_rates_is_found_with_a_scale() -> None:
    plain, scaled = (find_lr(learner(scaler=s), net(), Batches(), steps=8) for s in (None, GradScaler(NumPy)))
    assert plain == scaled


def test_anything_else_is_refused() -> None:
    with pytest.raises(KindError, match=r"Learner\(scaler=\) takes GradScaler\(device\), got 1024"):
        learner(scaler=1024.0)
