"""A run of the learner equals a loop by hand, and says what is wrong with its arguments."""

from __future__ import annotations

import json
import math
import re
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.data import Batch
from burnpy.errors import (
    ArgumentError,
    CallError,
    DeviceError,
    KindError,
    ModuleError,
    NonFiniteError,
    NotTrackedError,
    ShapeError,
)
from burnpy.metrics import Accuracy, Mean
from burnpy.nn import Linear
from burnpy.optim import AdamW, CosineLr, GradientsAccumulator, GradientsParams, Sgd, clip_by_global_norm, optimizer
from burnpy.optim.step import stepped_model
from burnpy.train import (
    BatchEnd,
    ByGlobalNorm,
    ByNorm,
    ByValue,
    Callback,
    Checkpoints,
    EarlyStopping,
    EpochEnd,
    Epochs,
    EpochStart,
    FitEnd,
    FitStart,
    Jsonl,
    Learner,
    Replace,
    Step,
    Steps,
    Stop,
    ValidEnd,
    find_lr,
)
from burnpy.train.train_step import batch_size
from tests.rows import every_row

from .training import Batches, Net, Train, X, Y, learner, net, train_step, valid_batches, valid_step, weights


def by_hand(epochs: int, accumulate: int = 1, max_norm: float | None = None) -> Any:
    model, optim, schedule, step = net(), AdamW(), CosineLr(1e-2, 100), 0
    for epoch in range(epochs):
        gathered = GradientsAccumulator[NumPy]()
        batches = list(Batches().epoch(epoch))
        for n, (x, y) in enumerate(batches):
            loss = burnpy.cross_entropy(model(x), y)
            grads = GradientsParams.from_grads(loss.backward(), model)
            if accumulate > 1:
                gathered = gathered.add(grads, weight=len(x))
                if len(gathered) < accumulate and n + 1 < len(batches):
                    continue
                grads, gathered = gathered.mean(), GradientsAccumulator[NumPy]()
            if max_norm is not None:
                grads = clip_by_global_norm(grads, max_norm)
            model, step = optim.step(schedule(step), model, grads), step + 1
    return model, step


@pytest.mark.parametrize("clip", [None, ByGlobalNorm(1.0)])
def test_new_parameters_may_take_the_memory_of_gradients(clip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def spied(*arguments: Any) -> Any:
        seen.append(arguments[-1])
        return stepped_model(*arguments)

    monkeypatch.setattr(optimizer, "stepped_model", spied)
    learner(clip=clip).fit(net(), Batches(), valid_batches(), epochs=1)
    assert seen == [optimizer._PASSED > 0] * len(Batches())  # 0 on an interpreter that counts no variables


def test_a_run_equals_a_loop_by_hand_to_the_bit() -> None:
    model, step = by_hand(3)
    result = learner().fit(net(), Batches(), valid_batches(), epochs=3)
    assert weights(result.model) == weights(model)
    assert (result.step, result.epoch, result.stopped, len(result.history)) == (step, 3, None, 3)
    hits = [(net.argmax(1) == y).sum().item() for net, y in ((model.valid()(x), y) for x, y in valid_batches())]
    assert result.history[-1]["valid/accuracy"] == sum(hits) / 50  # of batches of 30 and 20


@pytest.mark.parametrize("accumulate", [2, 3, 100])
def test_accumulation_weights_batches_by_size_and_keeps_the_last(accumulate: int) -> None:
    model, step = by_hand(2, accumulate, 0.5)
    result = learner(accumulate=accumulate, clip=ByGlobalNorm(0.5)).fit(net(), Batches(), valid_batches(), epochs=2)
    assert weights(result.model) == weights(model)
    assert result.step == step


def test_accumulated_batches_equal_one_large_batch_without_norms() -> None:
    def squares(model: Any, batch: Any) -> Step[Any]:
        return Step(model(batch).square().mean())

    x = Tensor[Train].from_data(X)
    model = Linear(4, 1, device=Train).astype("float64")
    x = x.double()
    small = Learner(squares, optim=Sgd(), lr=0.1, accumulate=3).fit(model, [x[:7], x[7:9], x[9:]], epochs=1)
    large = Learner(squares, optim=Sgd(), lr=0.1).fit(model, [x], epochs=1)
    for a, b in zip(small.model.params(), large.model.params(), strict=True):
        np.testing.assert_allclose(a.value.to_numpy(), b.value.to_numpy(), rtol=1e-12)


@pytest.mark.parametrize("clip", [ByNorm(0.1), ByValue(0.01)])
def test_other_clippings(clip: Any) -> None:
    result = learner(clip=clip).fit(net(), Batches(), valid_batches(), epochs=1)
    assert weights(result.model) != weights(by_hand(1)[0])


def test_a_learner_can_be_used_again() -> None:
    both = learner()
    first, second = (both.fit(net(), Batches(), valid_batches(), epochs=2) for _ in range(2))
    assert weights(first.model) == weights(second.model)


def test_a_run_goes_on_with_the_optimizer_of_its_result() -> None:
    first = learner().fit(net(), Batches(), valid_batches(), epochs=1)
    step = first.optim.state()[first.model.head.weight.id].step
    assert step == first.step


def test_events_come_in_order_and_drive_the_loop() -> None:
    seen: list[Any] = []
    for event in learner(valid_every=Steps(3), grad_norm=True).events(net(), Batches(), valid_batches(), epochs=2):
        seen.append(event)
    kinds = [type(event) for event in seen]
    epoch = [EpochStart, *[BatchEnd] * 3, ValidEnd, BatchEnd, EpochEnd]
    last = [EpochStart, BatchEnd, BatchEnd, ValidEnd, BatchEnd, BatchEnd, ValidEnd, EpochEnd]
    assert kinds == [FitStart, *epoch, *last, FitEnd]
    steps = [event.step for event in seen if isinstance(event, BatchEnd)]
    assert steps == list(range(1, 9))
    norms = [event.grad_norm for event in seen if isinstance(event, BatchEnd)]
    assert all(norm is not None and norm.item() > 0 for norm in norms)
    assert seen[-2].values.keys() == {
        "train/loss",
        "train/accuracy",
        "train/grad_norm",
        "valid/loss",
        "valid/accuracy",
        "lr",
    }
    assert "valid/loss" not in seen[7].values


def test_leaving_the_iterator_ends_the_run() -> None:
    closed = []

    class Log:
        def log(self, event: Any) -> None:
            pass

        def close(self) -> None:
            closed.append(1)

    events = learner(loggers=[Log()]).events(net(), Batches(), valid_batches(), epochs=9)
    for event in events:
        if isinstance(event, BatchEnd):
            break
    events.close()  # type: ignore[attr-defined]  # a generator
    assert closed == [1]


def test_early_stopping_ends_the_run_by_the_metrics_own_direction() -> None:
    values = iter([0.5, 0.6, 0.55, 0.6, 0.61, 0.62])

    def step(model: Any, batch: Any) -> Step[Any]:
        return Step(model(batch[0]).sum() * 0.0, score=Mean.of(Tensor[NumPy].from_data(next(values))))

    stopping = EarlyStopping("valid/score", patience=2, mode="max")
    settings: dict[str, Any] = {"optim": AdamW(), "lr": 0.0, "sanity": 0, "callbacks": [stopping]}
    result = Learner(train_step, step, **settings).fit(net(), Batches(), valid_batches()[:1], epochs=9)
    assert (result.epoch, result.stopped) == (4, "valid/score has not improved on 0.6 for 2 evaluations")
    loss = EarlyStopping("valid/loss", patience=1)
    result = learner(lr=0.0, callbacks=[loss]).fit(net(), Batches(), valid_batches(), epochs=9)
    assert (result.epoch, Accuracy.better, Mean.better) == (2, "max", "min") or result.epoch < 9


def test_functions_are_callbacks() -> None:
    def good(event: Any) -> Any:
        return Stop("enough") if isinstance(event, BatchEnd) and event.step == 2 else None

    result = learner(callbacks=[good]).fit(net(), Batches(), valid_batches(), epochs=9)
    assert (result.step, result.stopped, result.epoch) == (2, "enough", 0)
    others = []

    def swap(event: Any) -> Any:
        if isinstance(event, EpochEnd):
            others.append(event.model.map(lambda w: w * 0.5))
            return [Replace(others[-1])]
        return ()

    assert learner(callbacks=[swap]).fit(net(), Batches(), valid_batches(), epochs=1).model is others[0]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_model_is_replaced_after_the_optimizer_step(accumulate: int, compiled: bool) -> None:
    """Each weight is halved after an update of -1; a replacement in the midst of an accumulation waits for it."""

    def halve(event: Any) -> Any:
        return Replace(event.model.map(lambda w: w * 0.5)) if isinstance(event, BatchEnd) else None

    x = Tensor[Train].ones((1, 1))
    model = Linear(1, 1, bias=False, device=Train).map(lambda w: w * 0.0)
    options: dict[str, Any] = {"accumulate": accumulate, "callbacks": [halve], "compiled": compiled}
    run: Learner[Any, Any] = Learner(lambda model, x: Step(model(x).sum()), optim=Sgd(), lr=1.0, **options)
    assert run.fit(model, [x] * (2 * accumulate), epochs=1).model.weight.value.item() == -0.75


def test_a_replacement_is_a_model_that_the_optimizer_knows() -> None:
    x = Tensor[Train].ones((1, 1))
    cases: list[tuple[Any, type[Exception], str]] = [
        (Linear(1, 1, device=Train), ModuleError, "other ids.*event.model.map"),
        (Linear(1, 1, device=NumPy), DeviceError, "on NumPy; the run is on Auto"),
        (net(), KindError, "a Net; expected a Linear"),
    ]

    def step(model: Any, x: Any) -> Step[Any]:
        return Step(model(x).sum())

    for other, error, message in cases:
        run: Learner[Any, Any] = Learner(step, optim=Sgd(), lr=1.0, callbacks=[partial(returned, Replace(other))])
        with pytest.raises(error, match=message):
            run.fit(Linear(1, 1, device=Train), [x], epochs=1)


def returned(decision: Any, event: Any) -> Any:
    return decision


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_validation_every_so_many_steps_includes_the_last_step_of_an_epoch(n: int) -> None:
    """An epoch has four batches."""
    events = learner(valid_every=Steps(n), sanity=0).events(net(), Batches(), valid_batches(), epochs=4)
    assert [event.step for event in events if isinstance(event, ValidEnd)] == [*range(n, 17, n)]


def test_a_signal_during_validation_ends_the_run_with_the_epoch() -> None:
    def interrupted(model: Any, batch: Any) -> Step[Any]:
        signal.raise_signal(signal.SIGTERM)
        return valid_step(model, batch)

    run: Learner[Any, Any] = Learner(train_step, interrupted, optim=Sgd(), lr=0.1, sanity=0)
    for epochs, stopped in ((1, None), (3, "interrupted")):
        result = run.fit(net(), Batches(), valid_batches()[:1], epochs=epochs)
        assert (result.epoch, result.step, result.stopped) == (1, 4, stopped)


@pytest.mark.parametrize("result", [None, 3, (3, None), (3, Stop("enough")), (3, [], [])])
def test_a_callback_returns_its_state_and_decisions(result: Any) -> None:
    class Wrong(Callback):
        def on(self, event: Any, state: Any) -> Any:
            return result

    with pytest.raises(KindError, match=r"Wrong.on\(\) returned .*the next state and a list of decisions"):
        learner(callbacks=[Wrong()]).fit(net(), Batches(), valid_batches(), epochs=1)


def test_find_lr_takes_losses_below_zero_and_refuses_batches_that_end() -> None:
    x = Tensor[Train].ones((4, 1))

    def of(offset: float) -> Any:
        run: Learner[Any, Any] = Learner(lambda m, x: Step((m(x) - 3.0).square().mean() - offset), optim=Sgd(), lr=0.1)
        return find_lr(run, Linear(1, 1, device=Train).map(lambda w: w * 0.0), [x], steps=20)

    assert of(100.0).suggestion == of(0.0).suggestion
    run: Learner[Any, Any] = Learner(lambda m, x: Step(m(x).square().mean()), optim=Sgd(), lr=0.1)
    wrong: list[tuple[Any, str]] = [
        (iter([x]), "gave none in epoch 1; an iterator gives each batch once"),
        ([], r"find_lr\(\) got the training batches without batches"),
        (None, r"find_lr\(\) got the training batches as None; expected a Loader or an iterable of batches"),
    ]
    for batches, message in wrong:
        with pytest.raises((ArgumentError, KindError), match=message):
            find_lr(run, Linear(1, 1, device=Train), batches, steps=20)


def test_a_callback_gets_its_state_back() -> None:
    class Count(Callback):
        def initial(self) -> Any:
            return 0

        def on(self, event: Any, state: Any) -> Any:
            return state + 1, ([Stop("five")] if state == 5 else [])

    run = learner(callbacks=[Count(), Count()])
    assert run.fit(net(), Batches(), valid_batches(), epochs=3).stopped == "five"


def test_fast_dev_run_tries_everything_and_writes_nothing(tmp_path: Path) -> None:
    run = learner(loggers=[Jsonl(tmp_path / "log.jsonl")], callbacks=[EarlyStopping("typo")])
    result = run.fit(net(), Batches(), valid_batches(), epochs=5, fast_dev_run=True)
    assert (result.step, result.epoch, list(tmp_path.iterdir())) == (1, 1, [])


def test_the_log_has_a_line_for_each_epoch(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "log.jsonl"
    log = Jsonl(path, every=2)
    result = learner(loggers=[log]).fit(net(), Batches(), valid_batches(), epochs=2)
    learner(loggers=[log]).fit(net(), Batches(), valid_batches(), epochs=1)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kinds = [line["event"] for line in lines]
    epoch = ["batch", "batch", "valid", "epoch"]
    assert kinds == ["start", *epoch, *epoch, "end", "start", *epoch, "end"]
    assert lines[4]["valid/accuracy"] == result.history[0]["valid/accuracy"]


def test_a_loss_that_is_nan_names_its_place() -> None:
    def bad(model: Any, batch: Any) -> Step[Any]:
        step = train_step(model, batch)
        return Step(step.loss * (math.nan if len(batch[0]) == 2 else 1.0))

    with pytest.raises(NonFiniteError, match="the loss is nan in epoch 0, batch 3, step 3"):
        Learner(bad, optim=AdamW(), lr=0.1).fit(net(), Batches(), epochs=1)


LEARNER: Any = Learner  # untyped, for wrong calls


def test_wrong_arguments_are_explained() -> None:
    run: Any = learner()
    plain: Any = Learner(train_step, optim=AdamW(), lr=0.1)
    x, y = valid_batches()[0]
    with pytest.raises(ArgumentError, match="got validation batches and no valid_step"):
        plain.fit(net(), Batches(), valid_batches(), epochs=1)
    with pytest.raises(ArgumentError, match="got valid_step and no validation batches"):
        run.fit(net(), Batches(), epochs=1)
    with pytest.raises(ArgumentError, match="epochs=-1"):
        plain.fit(net(), Batches(), epochs=-1)
    with pytest.raises(ArgumentError, match="the training batches without batches"):
        plain.fit(net(), [], epochs=1)
    with pytest.raises(ArgumentError, match="no training batch in epoch 0"):
        plain.fit(net(), (batch for batch in list[Any]()), epochs=1)
    with pytest.raises(ArgumentError, match="an iterator, which is exhausted after one epoch of 2"):
        plain.fit(net(), iter([(x, y)]), epochs=2)
    with pytest.raises(KindError, match="as an int; expected a Loader"):
        plain.fit(net(), 3, epochs=2)
    with pytest.raises(
        ArgumentError, match="'valid/los', which this run does not have; it has valid/accuracy, valid/loss"
    ):
        learner(callbacks=[EarlyStopping("valid/los")]).fit(net(), Batches(), valid_batches(), epochs=1)
    with pytest.raises(ArgumentError, match="this run has no validation"):
        Learner(train_step, optim=AdamW(), lr=0.1, callbacks=[EarlyStopping("valid/loss")]).fit(
            net(), Batches(), epochs=1
        )
    with pytest.raises(KindError, match=r"train_step returned a Tensor; write return burnpy.train.Step\(loss, ...\)"):
        Learner(lambda m, b: m(b[0]).sum(), optim=AdamW(), lr=0.1).fit(net(), Batches(), epochs=1)  # type: ignore[arg-type]  # what is tried
    with pytest.raises(ShapeError, match=r"0-d loss, got one of shape \(30, 4\)"):
        Step(x)
    with pytest.raises(KindError, match=r"accuracy as a Tensor of shape .* give a metric"):
        Step(x.mean(), accuracy=x.mean())  # type: ignore[arg-type]  # what is tried
    with pytest.raises(ArgumentError, match="a metric called lr"):
        Step(x.mean(), lr=Mean.of(x))
    with pytest.raises(KindError, match="the class EarlyStopping; make an instance"):
        learner(callbacks=[EarlyStopping])
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: LEARNER(train_step, optim=AdamW()), "Learner() is missing the argument lr"),
        (
            lambda: LEARNER(train_step, optimizer=AdamW(), lr=0.1),
            "Learner() does not take optimizer; it is called optim",
        ),
        (lambda: plain.fit(net(), Batches()), "fit() is missing the argument epochs"),
        (lambda: plain.fit(net(), Batches(), max_epochs=3), "fit() does not take max_epochs; it is called epochs here"),
    ]
    for call, said in calls:
        with pytest.raises(CallError, match=re.escape(said)):
            call()
    with pytest.raises(KindError, match=r"Learner\(clip=\) .* a float; ByGlobalNorm\(1\.0\) is one"):
        learner(clip=1.0)
    with pytest.raises(ArgumentError, match="accumulate=0; expected an int of at least 1"):
        learner(accumulate=0)
    with pytest.raises(ArgumentError, match=r"Steps\(n=\) is 0; expected an int of 1 or more"):
        Steps(0)
    for patience in (0, 1.5):
        with pytest.raises(ArgumentError, match=rf"EarlyStopping\(patience=\) is {patience}; expected an int of 1"):
            EarlyStopping("valid/loss", patience=patience)  # type: ignore[arg-type]  # as a user might
    with pytest.raises(ArgumentError, match=r"EarlyStopping\(\) got monitor=3; expected a string"):
        EarlyStopping(3)  # type: ignore[arg-type]  # as a user might
    with pytest.raises(ArgumentError, match=r"Checkpoints\(keep=\) is 2.5; expected an int"):
        Checkpoints("runs", keep=2.5)  # type: ignore[arg-type]  # as a user might
    with pytest.raises(KindError, match="returned an int; it returns Stop, Save or Replace"):
        learner(callbacks=[lambda event: [3]]).fit(net(), Batches(), valid_batches(), epochs=1)


@every_row(
    "settings, said",
    [
        ({"callbacks": EarlyStopping("valid/loss")}, r"callbacks= takes a list, got an EarlyStopping"),
        ({"callbacks": [3]}, "an int; expected a Callback or a function"),
        ({"callbacks": [lambda event: 3]}, "<lambda> returned an int; it returns Stop, Save or Replace"),
        ({"loggers": Jsonl("log.jsonl")}, r"loggers= takes a list, got a Jsonl"),
        ({"loggers": [Jsonl]}, "the class Jsonl; make an instance"),
        ({"loggers": ["log.jsonl"]}, r"a str, which has no log\(\) and close\(\)"),
        ({"valid_every": 200}, r"say what to count: Steps\(200\) or Epochs\(200\)"),
        ({"optim": AdamW}, "takes an optimizer"),
    ],
)
def test_wrong_settings_are_explained(settings: Any, said: str) -> None:
    with pytest.raises(KindError, match=said):
        learner(**settings).fit(net(), Batches(), valid_batches(), epochs=1)
    with pytest.raises(KindError, match=r"Checkpoints\(every=\) got '1h'; say what to count, as Steps"):
        Checkpoints("runs", every="1h")  # type: ignore[arg-type]  # what is tried


def test_models_and_batches_elsewhere_are_explained() -> None:
    plain: Any = Learner(train_step, optim=AdamW(), lr=0.1)
    both: Any = learner()
    on_train, on_numpy = ([Batch.of({"x": X, "y": Y}, device=device)] for device in (Train, NumPy))
    with pytest.raises(KindError, match=r"takes a model, got <class .*Net'>; make one of the class"):
        plain.fit(Net, Batches(), epochs=1)
    with pytest.raises(NotTrackedError, match=r"a Net on NumPy, .*; make the model on Autodiff\[NumPy\]"):
        plain.fit(net().valid(), Batches(), epochs=1)
    with pytest.raises(DeviceError, match=r"training batches on NumPy, and the model is on Autodiff\[NumPy\]"):
        plain.fit(net(), on_numpy, epochs=1)
    with pytest.raises(DeviceError, match=r"validation batches on Autodiff\[NumPy\], .* collate\(device=NumPy\)"):
        both.fit(net(), Batches(), on_train, epochs=1)


def test_the_size_of_a_batch() -> None:
    x, y = valid_batches()[0]
    assert [batch_size(b) for b in (x, (x, y), [y], {"x": x}, ((x,), 3), np.zeros((4, 2)), Batches())] == [
        30,
        30,
        30,
        30,
        30,
        4,
        4,
    ]
    with pytest.raises(ArgumentError, match=r"Step\(loss, weight=...\)"):
        batch_size((3, "a"))
    assert Epochs(2) == Epochs(2)


def test_valid_steps_get_the_inner_model() -> None:
    seen: list[Any] = []

    def step(model: Net[NumPy], batch: Any) -> Step[NumPy]:
        seen.append(model.device)
        return valid_step(model, batch)

    Learner(train_step, step, optim=AdamW(), lr=0.1).fit(net(), Batches(), valid_batches(), epochs=1)
    assert set(seen) == {NumPy.device()}
    assert IntTensor[NumPy].from_data(Y).shape == (50,)
