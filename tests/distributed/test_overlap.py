"""`Group.backward`: sums begin amid the backward pass, in one order on all ranks, and give the bits of `Group.mean`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy, errors
from burnpy.distributed import Group
from burnpy.nn import BatchNorm, Linear, Module, Relu, Sequential
from burnpy.optim import AdamW, GradientsParams
from burnpy.optim.gradients import flat_buckets

from .threads import on_threads

Train = Autodiff[NumPy]


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of 256 bytes, so that small models have several."""
    monkeypatch.setattr(flat_buckets.Layout.of, "__defaults__", (256,))


def network(*, norm: bool = False) -> Any:
    parts: list[Any] = []
    for inputs, outputs in ((4, 8), (8, 8), (8, 3)):
        parts += [Linear(inputs, outputs, device=Train), Relu()]
    if norm:
        parts.insert(1, BatchNorm(8, device=Train))
    return Sequential(*parts[:-1])


def rows(rank: int, step: int) -> Any:
    """An uneven share of a batch."""
    rng = np.random.default_rng((rank, step))
    return Tensor.from_data(rng.normal(size=(3 + rank, 4)).astype("float32"), device=Train)


def plain(group: Group, loss: Any, model: Any, weight: float) -> GradientsParams[Any]:
    grads = None if loss is None else GradientsParams.from_grads(loss.backward(), model)
    return group.mean(grads, weight=weight)


def overlapped(group: Group, loss: Any, model: Any, weight: float) -> GradientsParams[Any]:
    return group.backward(loss, model, weight=weight)


def same(one: GradientsParams[Any], other: GradientsParams[Any]) -> None:
    assert list(one) == list(other)
    assert one.missing == other.missing
    assert all(np.array_equal(one[key].to_numpy(), other[key].to_numpy()) for key in one)
    assert one.buffer_updates.keys() == other.buffer_updates.keys()
    for key, update in one.buffer_updates.items():
        assert np.array_equal(update.to_numpy(), other.buffer_updates[key].to_numpy())


Loss = Callable[[Any, int, int], Any]


def compare(size: int, model_of: Callable[[], Any], loss_of: Loss, steps: int = 4) -> list[list[list[str]]]:
    """Train with both; all gradients must have the same bits. Returns the log of each rank's passes."""
    first = model_of()

    def train(group: Group, how: Any) -> tuple[list[Any], list[list[str]]]:
        model, optim, every, logs = first.fork(Train), AdamW(), [], []
        for step in range(steps):
            log = group._calls.log  # type: ignore[attr-defined]  # of ThreadCalls
            log.clear()
            loss = loss_of(model, group.rank, step)
            grads = how(group, loss, model, 0.0 if loss is None else 3.0 + group.rank)
            logs.append(list(log))
            every.append(grads)
            model = optim.step(0.1, model, grads)
        return every, logs

    one = on_threads(size, lambda group: train(group, plain)[0])
    two = on_threads(size, lambda group: train(group, overlapped))
    for mine, (theirs, _) in zip(one, two, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            same(a, b)
    return [logs for _, logs in two]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("norm", [False, True])
def test_the_bits_are_those_without_overlap(size: int, norm: bool) -> None:
    logs = compare(size, lambda: network(norm=norm), lambda model, rank, step: model(rows(rank, step)).square().mean())
    for rank in logs:
        assert "progress" not in rank[0], "nothing is expected of the first pass"
        for log in rank[1:]:
            assert "progress" in log
            waits = sum(line.startswith("wait") for line in log)
            assert log[0] == log[-1 - waits] == "open backward", "two exchanges besides the sums"


def test_sums_start_before_the_pass_has_ended() -> None:
    def pass_of(group: Group) -> list[str]:
        model = group.broadcast(network())
        log = group._calls.log  # type: ignore[attr-defined]  # of ThreadCalls
        for step in range(2):
            log.clear()
            x = rows(group.rank, step).require_grad()
            hooked, _ = x.register_hook(lambda grad: log.append("the first layer is done"))
            group.backward(model(hooked * 1.0).square().mean(), model)
        return list(log)

    for log in on_threads(2, pass_of):
        starts = [k for k, line in enumerate(log) if line.startswith("start")]
        assert len(starts) == 2
        assert starts[0] < log.index("the first layer is done"), log


class Branches(Module[Any]):
    """Layers; a loss may use some of them."""

    def __init__(self, device: Any) -> None:
        self.layers = [Linear(4, 4, device=device) for _ in range(5)]

    def forward(self, x: Any, used: Any) -> Any:
        for k in used:
            x = self.layers[k](x)
        return x


@pytest.mark.parametrize(
    "used",
    [
        lambda rank, step: [0, 1, 3] if rank else [0, 2, 3],  # each rank lacks another parameter
        lambda rank, step: [0, 4, 2] if rank else [2, 0, 4],  # the ranks' graphs have another order
        lambda rank, step: [step % 2, 4],  # parameters take turns
        lambda rank, step: [0, 1] if step < 2 else [0, 1, 2] if rank else [0, 1],  # one more on one rank, later on
        lambda rank, step: [0, 1, 2, 3] if step < 2 else [3],  # fewer, later on
    ],
    ids=["different", "reordered", "turns", "more", "fewer"],
)
def test_ranks_that_use_different_parameters(used: Any) -> None:
    compare(
        2,
        lambda: Branches(Train),
        lambda model, rank, step: model(rows(rank, step), used(rank, step)).square().mean(),
        steps=5,
    )


def test_a_rank_without_examples() -> None:
    compare(
        3,
        network,
        lambda model, rank, step: None if step and rank == step % 3 else model(rows(rank, step)).square().mean(),
        steps=5,
    )


def test_frozen_parameters_and_other_dtypes_are_other_layouts() -> None:
    def passes(group: Group) -> list[Any]:
        model = group.broadcast(network())
        changed = [model, model, model.no_grad("0"), model.astype("float64"), model]
        results = []
        for step, each in enumerate(changed):
            x = rows(group.rank, step)
            x = x.to_dtype(each.params()[0].dtype)
            grads = group.backward(each(x).square().mean(), each)
            same(grads, plain(group, each(x).square().mean(), each, 1.0))
            results.append([value.dtype.name for value in grads.values()])
        return results

    (first, second) = on_threads(2, passes)
    assert first == second
    assert [len(each) for each in first] == [6, 6, 4, 6, 6]
    assert set(first[3]) == {"float64"}


def test_an_error_amid_a_pass_keeps_the_memory_of_started_sums() -> None:
    def passes(group: Group) -> Any:
        model = group.broadcast(network())
        group.backward(model(rows(group.rank, 0)).square().mean(), model)

        def fail(grad: Any) -> None:
            raise ZeroDivisionError

        hooked, _ = rows(group.rank, 1).require_grad().register_hook(fail)
        with pytest.raises(ZeroDivisionError):
            group.backward(model(hooked).square().mean(), model)
        return group._calls.abandoned  # type: ignore[attr-defined]  # of ThreadCalls

    assert on_threads(2, passes) == [2, 2]


def test_alone_it_is_a_plain_backward_pass() -> None:
    model, group = network(), Group.world()
    loss = model(rows(0, 0)).square().mean()
    expected = GradientsParams.from_grads(model(rows(0, 0)).square().mean().backward(), model)
    same(group.backward(loss, model, weight=2.5), expected)


def test_mistakes() -> None:
    model, group = network(), Group.world()
    loss = model(rows(0, 0)).square().mean()
    wrong: Any = GradientsParams.from_grads(loss.backward(retain_graph=True), model)
    with pytest.raises(errors.KindError, match=r"backward\(\) takes a loss and its model.*group\.mean\(grads\)"):
        group.backward(wrong, model)
    with pytest.raises(errors.KindError, match="takes a loss and its model"):
        group.backward(model, loss)
    with pytest.raises(errors.ArgumentError, match=r"backward\(\) got weight=-1"):
        group.backward(loss, model, weight=-1)
    with pytest.raises(errors.ArgumentError, match=r"weight=1.0 without a loss; expected 0"):
        group.backward(None, model)
    with pytest.raises(errors.ArgumentError, match=r"backward\(\) got the weights \[0.0, 0.0\]; one is positive"):
        on_threads(2, lambda group: group.backward(None, model, weight=0))
