"""Learners with an average of the model: the bits of one by hand, in validation, callbacks and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, KindError
from burnpy.optim import AdamW, Ema, GradScaler
from burnpy.record import load
from burnpy.train import Averaging, BatchEnd, Checkpoints, EarlyStopping, Learner, Step, Steps, Stop, ValidEnd

from . import ranks
from .training import Batches, learner, net, train_step, valid_batches, valid_step, weights

AVERAGING = Averaging(0.8, warm_up=True)
SETTINGS: list[dict[str, Any]] = [{}, {"accumulate": 3}, {"compiled": True}, {"compiled": True, "accumulate": 3}]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_average_is_updated_once_for_each_optimizer_step(settings: dict[str, Any]) -> None:
    begun, models = net(), list[Any]()

    def note(event: Any) -> None:
        if isinstance(event, BatchEnd) and event.updated:
            models.append(event.model)

    result = learner(ema=AVERAGING, callbacks=[note], **settings).fit(begun, Batches(), valid_batches(), epochs=2)
    average = Ema(begun, 0.8, warm_up=True)
    for model in models:
        average = average.update(model)
    assert result.ema is not None
    assert int(result.ema.updates) == len(models) == result.step
    for mine, by_hand in zip(result.ema.model.params(), average.model.params(), strict=True):
        np.testing.assert_allclose(mine.value.to_numpy(), by_hand.value.to_numpy(), rtol=1e-6, atol=1e-7)
    if not settings.get("compiled"):
        assert weights(result.ema.model) == weights(average.model)
    plain = learner(**settings).fit(net(), Batches(), valid_batches(), epochs=2)
    assert plain.ema is None
    assert weights(result.model) == weights(plain.model)
    assert weights(result.model) != weights(result.ema.model)


@pytest.mark.parametrize("validates", [True, False])
def test_validation_is_that_of_the_average_unless_it_is_not_wanted(validates: bool) -> None:
    trained = learner(ema=Averaging(0.9, validates=validates))
    events: list[Any] = [*trained.events(net(), Batches(), valid_batches(), epochs=1)]
    *_, last, _, end = events
    assert isinstance(last, ValidEnd)
    model = end.result.ema.model if validates else end.result.model
    assert weights(last.model) == weights(model)
    losses = [valid_step(model.valid(), batch).loss.item() for batch in valid_batches()]
    assert last.values["valid/loss"] == pytest.approx((30 * losses[0] + 20 * losses[1]) / 50, rel=1e-6)


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_resumed_run_has_the_same_bits(tmp_path: Path, settings: dict[str, Any]) -> None:
    def run(folder: Path, cut: int | None = None, resume: Any = None) -> Any:
        def stop(event: Any) -> Any:
            return Stop("cut") if isinstance(event, BatchEnd) and event.step == cut else None

        files = Checkpoints(folder, every=Steps(1), keep=None, best="valid/loss")
        callbacks = [files, EarlyStopping("valid/loss", patience=50), stop]
        trained = learner(ema=AVERAGING, callbacks=callbacks, **settings)
        return trained.fit(net(), Batches(), valid_batches(), epochs=3, resume=resume)

    whole = run(tmp_path / "whole")
    for cut in (1, whole.step // 2, whole.step - 1):
        assert run(tmp_path / str(cut), cut=cut).step == cut
        again = run(tmp_path / str(cut), resume="auto")
        assert weights(again.ema.model) == weights(whole.ema.model)
        assert int(again.ema.updates) == int(whole.ema.updates)
        assert weights(again.model) == weights(whole.model)
        assert again.history == whole.history
    record = load(Checkpoints(tmp_path / "whole").latest() or "")
    assert weights(record.apply_to(net(), part="ema")) == weights(whole.ema.model)
    assert weights(record.apply_to(net())) == weights(whole.model)


def test_a_run_is_resumed_with_the_average_that_it_had(tmp_path: Path) -> None:
    files = Checkpoints(tmp_path)
    learner(callbacks=[files]).fit(net(), Batches(), valid_batches(), epochs=1)
    trained = learner(callbacks=[files], ema=AVERAGING)
    with pytest.raises(ArgumentError, match=r"ema was None and is \[0\.8, True\]"):
        trained.fit(net(), Batches(), valid_batches(), epochs=2, resume="auto")


@pytest.mark.parametrize("compiled", [False, True])
def test_steps_that_the_scaler_skips_do_not_count(compiled: bool) -> None:
    """The first of four steps overflows at this scale."""

    def large(model: Any, batch: Any) -> Step[Any]:
        return Step(100.0 * train_step(model, batch).loss)

    scaler = GradScaler(NumPy, init_scale=2.0**127, backoff_factor=2.0**-100)
    trained: Learner[Any, Any] = Learner(
        large, optim=AdamW(), lr=0.01, scaler=scaler, ema=Averaging(0.8), compiled=compiled
    )
    begun = net()
    result = trained.fit(begun, Batches(), epochs=1)
    assert result.ema is not None
    assert (result.step, int(result.ema.updates)) == (4, 3)
    skipped = trained.fit(begun, [next(Batches().epoch(0))], epochs=1)
    assert skipped.ema is not None
    assert int(skipped.ema.updates) == 0
    for mine, first in zip(skipped.ema.model.params(), begun.params(), strict=True):
        assert mine.value.tolist() == first.value.tolist()


def test_all_ranks_have_the_same_average() -> None:
    averages: list[bytes] = []

    def run(strategy: Any) -> None:
        result = ranks.learner(strategy, ema=AVERAGING).fit(ranks.net(), *ranks.loaders(), epochs=2)
        assert result.ema is not None
        averages.append(weights(result.ema.model))

    ranks.on_ranks(3, run)
    assert len(averages) == 3
    assert len(set(averages)) == 1


def test_settings_are_checked() -> None:
    wrong: Any = 0.999
    with pytest.raises(KindError, match=r"Learner\(ema=\) takes Averaging\(decay=0\.999\), got 0\.999"):
        learner(ema=wrong)
    with pytest.raises(ArgumentError, match=r"Averaging\(\) got decay=1\.5; expected a number from 0 to 1"):
        Averaging(1.5)
