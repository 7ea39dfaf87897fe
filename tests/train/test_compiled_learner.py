"""`Learner(compiled=True)`: the run of a learner without it, in plans, and what cannot be compiled is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, cross_entropy, errors, manual_seed
from burnpy.backend import Mixed, NumPy
from burnpy.data import ArrayDataset, Loader, collate
from burnpy.metrics import Accuracy, Mean
from burnpy.nn import BatchNorm, Dropout, Linear, Relu, Sequential
from burnpy.optim import AdamW, CosineLr, GradScaler, Group, LBfgs, Sgd
from burnpy.train import ByGlobalNorm, ByNorm, Checkpoints, Epochs, Learner, Replace, Step, Steps

Train = Autodiff[NumPy]
rng = np.random.default_rng(0)
X = rng.standard_normal((36, 8)).astype("f")
Y = (X.sum(1) > 0).astype(np.int64)


def batches(device: Any) -> list[Any]:
    """Batches of 8, and a last one of 4."""
    return [
        (Tensor.from_data(X[k : k + 8], device=device), IntTensor.from_data(Y[k : k + 8], device=device))
        for k in range(0, 36, 8)
    ]


def model_on(device: Any) -> Any:
    manual_seed(0)
    layers = Linear(8, 16, device=device), BatchNorm(16, device=device), Relu(), Dropout(0.2)
    return Sequential(*layers, Linear(16, 2, device=device))


def step(model: Any, batch: Any) -> Step[Any]:
    x, y = batch
    logits = model(x)
    return Step(cross_entropy(logits, y), accuracy=Accuracy.of(logits, y), size=Mean.of(logits.detach()))


def run(device: Any = Train, epochs: int = 2, optim: Any = None, **settings: Any) -> tuple[Learner[Any, Any], Any]:
    """Train a new model with such settings; return the learner and the result."""
    learner: Learner[Any, Any] = Learner(step, step, optim=optim or AdamW(weight_decay=0.1), **{"lr": 1e-2, **settings})
    model = model_on(device)
    manual_seed(1)
    return learner, learner.fit(model, batches(device), batches(device.device().inner), epochs=epochs)


def values(model: Any) -> list[Any]:
    return [x._value.to_numpy() for x in model._variables().values()]


def assert_same(one: Any, two: Any, exact: bool = False) -> None:
    """Check that two runs have the same history, models and states of optimizers."""
    tolerance: dict[str, Any] = {"rtol": 0.0, "atol": 0.0} if exact else {"rtol": 2e-4, "atol": 2e-6}
    for first, second in zip(one.history, two.history, strict=True):
        assert first.keys() == second.keys()
        for name in first:
            np.testing.assert_allclose(first[name], second[name], **tolerance, err_msg=name)
    for x, y in zip(values(one.model), values(two.model), strict=True):
        np.testing.assert_allclose(x, y, **tolerance)
    states, others = (list(run.optim.into_record().states.values()) for run in (one, two))
    for state, other in zip(states, others, strict=True):
        assert (state.path, state.step) == (other.path, other.step)
        for name, x in state.values.items():
            np.testing.assert_allclose(x, other.values[name], **tolerance, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"accumulate": 2},
        {"clip": ByGlobalNorm(0.1), "grad_norm": True},
        {"scaler": GradScaler(NumPy, init_scale=2.0**127), "lr": CosineLr(1e-2, steps=8)},
        {"accumulate": 3, "clip": ByNorm(0.1), "grad_norm": True, "scaler": GradScaler(NumPy), "valid_every": Steps(2)},
        {"optim": Sgd(momentum=0.9, groups=[Group("0", lr=0.5, weight_decay=0.0)])},
    ],
)
def test_as_without_compiling(settings: dict[str, Any]) -> None:
    _, expected = run(**settings)
    learner, result = run(compiled=True, **settings)
    assert_same(result, expected)
    assert len(learner.plans) <= 8
    assert learner.plans[0].recorded > 0


def test_mixed_precision() -> None:
    device = Autodiff[Mixed[NumPy]]
    assert_same(run(device, compiled=True)[1], run(device)[1])


def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"compiled": True, "accumulate": 2}
    full = run(epochs=3, **settings)[1]
    saves = Checkpoints(tmp_path, every=Epochs(1))
    run(epochs=1, callbacks=[saves], **settings)
    learner: Learner[Any, Any] = Learner(
        step, step, optim=AdamW(weight_decay=0.1), lr=1e-2, callbacks=[saves], **settings
    )
    resumed = learner.fit(model_on(Train), batches(Train), batches(NumPy), epochs=3, resume="auto")
    assert_same(resumed, full, exact=True)


def test_the_optimizer_continues() -> None:
    """The optimizer of a result has the state, for steps of its own and for a further run."""
    result = run(epochs=1, compiled=True)[1]
    assert {state.step for state in result.optim.into_record().states.values()} == {5}
    further: Learner[Any, Any] = Learner(step, optim=result.optim, lr=1e-2, compiled=True)
    again = further.fit(result.model, batches(Train), epochs=1)
    assert {state.step for state in again.optim.into_record().states.values()} == {10}
    x = Tensor[Train].ones((2, 8))
    after = again.optim.step(0.1, again.model, again.model(x).square().mean().backward())
    assert not np.array_equal(values(after)[0], values(again.model)[0])


def test_batches_of_a_loader() -> None:
    """A `Batch` is a tree; a last batch of another size makes further plans."""
    data = ArrayDataset(x=X, y=Y)
    loader: Any = Loader(data, collate(device=Train), batch_size=8, shuffle=True)

    def of_batch(model: Any, batch: Any) -> Step[Any]:
        zeros = Tensor.zeros((len(batch), 2), device=batch.device)
        return Step(cross_entropy(model(batch.x) + zeros, batch.y))

    results = []
    for compiled in (False, True):
        learner: Learner[Any, Any] = Learner(of_batch, optim=AdamW(), lr=1e-2, compiled=compiled)
        model = model_on(Train)
        manual_seed(1)
        results.append(learner.fit(model, loader, epochs=2))
    assert_same(results[1], results[0])
    assert len(learner.plans) == 3


def test_plans_are_kept_from_run_to_run() -> None:
    learner: Learner[Any, Any] = Learner(step, optim=Sgd(), lr=0.1, compiled=True)
    model = model_on(Train)
    learner.fit(model, batches(Train), epochs=1)
    plans = len(learner.plans)
    learner.fit(model, batches(Train), epochs=1)
    assert len(learner.plans) == plans
    assert Learner(step, optim=Sgd(), lr=0.1).plans == ()


def test_callbacks_see_models_that_stay() -> None:
    """A model of an event is not overwritten by later steps, and a callback may replace it."""
    seen: list[tuple[Any, list[Any]]] = []

    def look(event: Any) -> Any:
        if hasattr(event, "updated"):
            seen.append((event.model, [x.copy() for x in values(event.model)]))
            if event.step == 2:
                return Replace(event.model.map(lambda w: w * 0.5))
        return None

    run(compiled=True, callbacks=[look])
    for model, before in seen:
        for x, y in zip(values(model), before, strict=True):
            np.testing.assert_array_equal(x, y)


class Batch:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)


def test_refused() -> None:
    seen: list[int] = []
    data = batches(Train)

    def reading(model: Any, batch: Any) -> Step[Any]:
        return Step(model(batch[0]).mean() * model(batch[0]).sum().item())  # the line

    def noting(model: Any, batch: Any) -> Step[Any]:
        seen.append(1)
        return Step(model(batch[0]).mean())

    for function, given, error, message in (
        (reading, data, errors.RecordingError, r"cannot read a tensor's value(.|\n)*the line"),
        (noting, data, errors.RecordingError, "noting.*changes seen"),
        (lambda m, b: m(b[0]).mean(), data, errors.KindError, "train_step returned a Tensor"),
        (lambda m, b: Step(m(b.x).mean()), [Batch(data[0][0])], errors.KindError, "a Batch in a batch.*register_tree"),
        (lambda m, b: Step(m(b[0]).mean()), [(X,)], errors.KindError, "an ndarray in a batch.*make tensors"),
    ):
        learner: Learner[Any, Any] = Learner(function, optim=Sgd(), lr=0.1, compiled=True)
        with pytest.raises(error, match=message):
            learner.fit(model_on(Train), given, epochs=1)
    with pytest.raises(errors.ArgumentError, match=r"compiled=True\) got an? LBfgs, which has no pure step"):
        Learner(step, optim=LBfgs(), lr=0.1, compiled=True)
    with pytest.raises(errors.ArgumentError, match=r"Learner\(\) got compiled=1; expected True or False"):
        Learner(step, optim=Sgd(), lr=0.1, compiled=1)  # type: ignore[arg-type]  # the mistake


def test_a_loss_that_is_not_finite_is_named() -> None:
    learner: Learner[Any, Any] = Learner(
        lambda m, b: Step(m(b[0]).mean() * float("inf")), optim=Sgd(), lr=0.1, compiled=True
    )
    with pytest.raises(errors.NonFiniteError, match="epoch 0, batch 0"):
        learner.fit(model_on(Train), batches(Train), epochs=1)
