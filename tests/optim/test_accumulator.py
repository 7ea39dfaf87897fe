"""`GradientsAccumulator`: micro-batches add up to one batch, and none is lost."""

from __future__ import annotations

import pickle

import pytest

from burnpy.backend import Checked, NumPy, errors
from burnpy.optim import GradientsAccumulator, GradientsParams, Sgd
from tests.optim.models import Mlp, Train, batch, of_two, two, values


def test_micro_batches_of_different_sizes_are_one_batch() -> None:
    model = Mlp(Train).astype("float64")
    x = batch(10).to_dtype("float64")
    whole = GradientsParams.from_grads((model(x) ** 2).mean().backward(), model)
    accumulator = GradientsAccumulator[NumPy]()
    for part in (x[:4], x[4:8], x[8:]):
        grads = GradientsParams.from_grads((model(part) ** 2).mean().backward(), model)
        accumulator = accumulator.add(grads, weight=len(part))
    assert (len(accumulator), accumulator.weight) == (3, 10.0)
    for path, grad in accumulator.mean().named().items():
        assert (grad - whole[path]).abs().max().item() < 1e-15
    assert accumulator.sum()["head.bias"].tolist() == pytest.approx([10 * g for g in whole["head.bias"].tolist()])
    update = accumulator.mean().buffer_updates[model.seen.id].tolist()
    assert update[-1] == 3.0
    assert update[:3] == pytest.approx([sum(p.mean(dim=0)[k].item() for p in (x[:4], x[4:8], x[8:])) for k in range(3)])
    trained = Sgd().step(0.0, model, accumulator.mean())
    assert values(trained)["seen"] == pytest.approx([u / 3.0 for u in update[:3]])


def test_a_leftover_is_seen_and_used() -> None:
    model, accumulator, steps = two(), GradientsAccumulator[NumPy](), []
    assert not accumulator
    for _ in range(5):
        accumulator = accumulator.add(of_two(model))
        if len(accumulator) == 2:
            steps.append(accumulator.weight)
            accumulator = GradientsAccumulator[NumPy]()
    assert accumulator
    assert (steps, len(accumulator)) == ([2.0, 2.0], 1)
    assert accumulator.mean()["a"].tolist() == of_two(model)["a"].tolist()


def test_it_never_changes() -> None:
    first = GradientsAccumulator[NumPy]().add(of_two(two()))
    second = first.add(first.sum())
    assert (len(first), len(second)) == (1, 2)
    assert first.sum()["a"].tolist() == [3.0, 4.0]
    assert second.sum()["a"].tolist() == [6.0, 8.0]
    assert pickle.loads(pickle.dumps(second)).mean()["a"].tolist() == [3.0, 4.0]
    assert repr(second) == "GradientsAccumulator(2 micro-batches, weight 2)"
    with pytest.raises(errors.ImmutableError, match="add"):
        first._count = 3
    with pytest.raises(errors.ImmutableError, match="_total cannot be set or deleted"):
        del first._total


def test_mistakes() -> None:
    empty = GradientsAccumulator[NumPy]()
    grads = of_two(two())
    with pytest.raises(errors.ArgumentError, match="nothing was added"):
        empty.mean()
    for weight in (0, -1.0, float("nan"), float("inf"), True, "2"):
        with pytest.raises(errors.ArgumentError, match="weight of a micro-batch"):
            empty.add(grads, weight=weight)  # type: ignore[arg-type]
    with pytest.raises(errors.KindError, match="from_grads"):
        empty.add(two()().backward())  # type: ignore[arg-type]
    with pytest.raises(errors.DeviceError, match="do not add"):
        empty.add(grads).add(grads.to_device(Checked[NumPy]))  # type: ignore[arg-type]
    with pytest.raises(errors.KindError, match="begins empty"):
        GradientsAccumulator(grads)
