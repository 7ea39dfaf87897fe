"""Claims about groups, which `claims.py` checks on several ranks, and the models and batches that they share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, GroupError, WaitError
from burnpy.distributed import Group, transport
from burnpy.metrics import Mean
from burnpy.nn import BatchNorm, Conv2d, Flatten, Linear, Module, Relu, Sequential
from burnpy.optim import AdamW, GradientsAccumulator, GradientsParams, GradScaler
from tests.distributed import learner_claims

Train = Autodiff[NumPy]
CLAIMS: dict[str, Callable[[Group], None]] = {}
ROWS = 23


def claim(check: Callable[[Group], None]) -> Callable[[Group], None]:
    CLAIMS[check.__name__] = check
    return check


def network(*, norm: bool) -> Any:
    body: list[Any] = [Conv2d(1, 4, 3, bias=not norm, device=Train)]
    if norm:
        body.append(BatchNorm(4, device=Train))
    return Sequential(*body, Relu(), Flatten(), Linear(4 * 36, 10, device=Train)).astype("float64")


def gradients(model: Any, x: Any, y: Any) -> GradientsParams[Any]:
    logits = model(Tensor.from_data(x, device=Train))
    loss = burnpy.cross_entropy(logits, IntTensor.from_data(y, device=Train))
    return GradientsParams.from_grads(loss.backward(), model)


def batches(count: int) -> Any:
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.normal(size=(ROWS, 1, 8, 8)), rng.integers(0, 10, ROWS)


def shares(size: int) -> list[Any]:
    """The rows of each rank: uneven."""
    return np.array_split(np.arange(ROWS), size)


def same(group: Group, model: Any) -> bool:
    """Return whether all ranks have the same bits."""
    data = b"".join(variable.value.to_numpy().tobytes() for variable in model._variables().values())
    return len(set(group.gather(hashlib.sha256(data).hexdigest()))) == 1


@claim
def ranks_train_as_one_on_one_big_batch(group: Group) -> None:
    model = whole = group.broadcast(network(norm=False))
    mine, alone, rows = AdamW(), AdamW(), shares(group.size)[group.rank]
    for x, y in batches(10):
        model = mine.step(1e-2, model, group.mean(gradients(model, x[rows], y[rows]), weight=len(rows)))
        whole = alone.step(1e-2, whole, gradients(whole, x, y))
    furthest = max(
        (p.value.inner() - q.value.inner()).abs().max().item()
        for p, q in zip(model.params(), whole.params(), strict=True)
    )
    assert furthest < 1e-12, furthest  # sums of other parts are rounded otherwise, and AdamW divides by small numbers
    assert same(group, model)


@claim
def running_statistics_are_those_of_all_ranks(group: Group) -> None:
    model = whole = group.broadcast(network(norm=True))
    mine, alone, every = AdamW(), AdamW(), shares(group.size)
    for x, y in batches(5):
        rows = every[group.rank]
        model = mine.step(1e-2, model, group.mean(gradients(model, x[rows], y[rows]), weight=len(rows)))
        micro = GradientsAccumulator[NumPy]()
        for rows in every:
            micro = micro.add(gradients(whole, x[rows], y[rows]), weight=len(rows))
        whole = alone.step(1e-2, whole, micro.mean())
    for path, value in model._variables().items():
        other = whole._variables()[path]
        np.testing.assert_allclose(value.value.to_numpy(), other.value.to_numpy(), rtol=0, atol=3e-15, err_msg=path)
    assert same(group, model)


@claim
def values_are_gathered_and_added_in_the_order_of_ranks(group: Group) -> None:
    assert group.gather({"rank": group.rank}) == [{"rank": rank} for rank in range(group.size)]
    assert group.gather("a" * group.rank) == ["a" * rank for rank in range(group.size)]
    assert group.sum(group.rank + 0.5) == sum(rank + 0.5 for rank in range(group.size))
    mean = group.sum(Mean.of(Tensor[NumPy].from_data(float(group.rank)), weight=group.rank + 1))
    assert mean.value() == sum(r * (r + 1) for r in range(group.size)) / sum(r + 1 for r in range(group.size))
    assert group.broadcast([group.rank], root=group.size - 1) == [group.size - 1]
    group.barrier()


def refusal(group: Group, call: Callable[[], object]) -> str:
    """The message of the error that all ranks raise, the same one."""
    with pytest.raises(GroupError) as caught:
        call()
    assert caught.value.everywhere
    messages = set(group.gather(str(caught.value)))
    assert len(messages) == 1, messages
    return messages.pop()


class Parts(Module[Any]):
    """A model that uses one part, as told."""

    def __init__(self, *sizes: int) -> None:
        self.layers = [Linear(size, 1, device=Train) for size in sizes]


def one_part(model: Any, index: int, value: float) -> GradientsParams[Any]:
    layer = model.layers[index]
    size = layer.weight.shape[0]
    return GradientsParams.from_grads(layer(Tensor[Train].full((1, size), value)).sum().backward(), model)


@claim
def a_parameter_without_gradient_on_a_rank_counts_as_zeros(group: Group) -> None:
    model = group.broadcast(Parts(2, 3, 4))
    last = group.size - 1
    for value in (1.0, 2.0):  # what was agreed on the first time is known the second time
        mine = one_part(model, 1 if group.rank == last else 0, value)
        mean = group.mean(mine, weight=2)
        assert list(mean.named()) == ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]
        assert mean.missing == ("layers.2.weight", "layers.2.bias")
        np.testing.assert_allclose(mean["layers.0.weight"].tolist(), [[value * last / group.size]] * 2, rtol=1e-6)
        np.testing.assert_allclose(mean["layers.1.weight"].tolist(), [[value / group.size]] * 3, rtol=1e-6)


@claim
def a_rank_without_examples_has_weight_zero(group: Group) -> None:
    model = group.broadcast(Parts(2))
    if group.rank == 0:
        mine, weight = None, 0
    else:
        mine, weight = one_part(model, 0, float(group.rank)), group.rank
    weights = range(1, group.size)
    wanted = sum(rank * rank for rank in weights) / sum(weights)
    for _ in range(2):
        mean = group.mean(mine, weight=weight)
        np.testing.assert_allclose(mean["layers.0.weight"].tolist(), [[wanted]] * 2, rtol=1e-6)
    spoilt = one_part(model, 0, float("nan" if group.rank == 0 else 3.0))
    mean = group.mean(spoilt, weight=group.rank)  # of weight 0, NaN is not looked at
    np.testing.assert_allclose(mean["layers.0.bias"].tolist(), [1.0], rtol=1e-6)
    with pytest.raises(ArgumentError, match="one is positive"):
        group.mean(mine, weight=0)


@claim
def overflow_on_one_rank_is_found_on_all(group: Group) -> None:
    model = group.broadcast(Parts(2))
    scaler = GradScaler(NumPy)
    for bad in (True, False):
        value = float("inf") if bad and group.rank == 0 else 1.0
        checked, _ = scaler.unscale(one_part(model, 0, value))
        mean = group.mean(checked)
        assert mean.found_inf is not None
        assert mean.found_inf.item() is bad
    assert group.mean(one_part(model, 0, 1.0)).found_inf is None


@claim
def sixteen_bits_are_added_in_float32(group: Group) -> None:
    model = group.broadcast(Parts(2))
    for dtype in ("float16", "bfloat16"):
        grads = one_part(model, 0, 1.0 + group.rank * 2.0**-7)
        narrow = GradientsParams(
            NumPy, {ident: grad.to_dtype(dtype) for ident, grad in grads.items()}, paths=grads._paths
        )
        mean = group.mean(narrow)
        assert mean["layers.0.weight"].dtype.name == dtype
        wanted = Tensor[NumPy].full((2, 1), 1.0 + (group.size - 1) / 2 * 2.0**-7).to_dtype(dtype)
        assert mean["layers.0.weight"].tolist() == wanted.tolist()


@claim
def gradients_that_are_kept_stay_as_they_are(group: Group) -> None:
    model = group.broadcast(Parts(2000))
    kept, addresses = [], set()
    for step in range(8):
        mean = group.mean(one_part(model, 0, float(step)))
        addresses.add(mean["layers.0.weight"].to_numpy().ctypes.data)
        if step % 3 == 0:
            kept.append((step, mean["layers.0.weight"]))
    assert len(addresses) < 8, "memory is used again"
    for step, grad in kept:
        np.testing.assert_allclose(grad.to_numpy(), np.full((2000, 1), step, np.float32), rtol=1e-6)


@claim
def large_gradients_are_summed_one_by_one(group: Group) -> None:
    """As if 8 bytes were large."""
    rng = np.random.default_rng(group.rank)
    shapes = {"a": (7, 3), "b": (), "c": (5,), "d": (1,), "e": (1000,), "f": (6,), "g": (0, 3)}
    dtypes = {"f": "float16", "c": "float64"}
    values = {
        name: Tensor[NumPy].from_data(rng.normal(size=shape), dtype=dtypes.get(name, "float32"))
        for name, shape in shapes.items()
        if not (name == "e" and group.rank == 0)  # which has no gradient of it
    }
    mine = GradientsParams(NumPy, values, paths={name: name for name in shapes})
    weight = float(group.rank + 1) if group.rank else 0.5
    every = group.gather((weight, {name: value.to_numpy().astype(np.float64) for name, value in values.items()}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "LARGE", 8)
        patch.setattr(transport, "_SEGMENT", 1)
        transport.runs_of.cache_clear()
        mean = group.mean(mine, weight=weight)
        again = group.mean(None if group.rank == 1 else mine, weight=0 if group.rank == 1 else weight)
    transport.runs_of.cache_clear()
    for grads, used in ((mean, every), (again, [one for rank, one in enumerate(every) if rank != 1])):
        total = sum(weight for weight, _ in used)
        for name, shape in shapes.items():
            if name == "e" and group.size == 2 and grads is again:
                continue  # no rank has it
            wanted = sum(weight / total * held.get(name, np.zeros(shape)) for weight, held in used)
            rounding = {"f": 1e-3, "c": 1e-15}.get(name, 1e-6)
            assert grads[name].shape == shape
            np.testing.assert_allclose(grads[name].to_numpy().astype(np.float64), wanted, rounding, rounding)
        assert len(set(group.gather(repr([value.to_numpy().tobytes() for value in grads.values()])))) == 1


@claim
def models_that_differ_are_refused_everywhere(group: Group) -> None:
    odd = group.size - 1
    other = group.rank == odd
    told = refusal(group, lambda: group.broadcast(Parts(2, 4 if other else 3)))
    assert "layers.1.weight has shape (3, 1) and dtype float32 on rank 0 on " in told
    assert f"but shape (4, 1) and dtype float32 on rank {odd} on " in told
    told = refusal(group, lambda: group.broadcast(Parts(2, 3, 1) if other else Parts(2, 3)))
    assert "layers.2.weight" in told
    own = Parts(2)
    assert "other ids" in refusal(group, lambda: group.mean(one_part(own, 0, 1.0)))
    assert "parameters of its own" in refusal(group, lambda: group.check(own))
    model = group.broadcast(Parts(2, 3))
    group.check(model)
    bias: Any = model.layers[1].bias
    values = {bias.id: (bias.value + 1e-6).detach()} if other else {}
    told = refusal(group, lambda: group.check(model.with_values(values)))
    assert f"layers.1.bias on rank {odd}" in told
    assert "other values" in told
    grads = one_part(model, 0, 1.0)
    if other:
        grads = GradientsParams(
            NumPy, {ident: grad.to_dtype("float64") for ident, grad in grads.items()}, paths=grads._paths
        )
    told = refusal(group, lambda: group.mean(grads))
    assert "layers.0" in told
    assert "float64" in told
    assert group.sum(1) == group.size, "the group is as good as before"


@claim
def ranks_that_call_different_things_are_told(group: Group) -> None:
    told = refusal(group, group.barrier if group.rank == 0 else lambda: group.sum(1))
    assert "barrier() on rank 0" in told
    assert "gather() on rank 1" in told


@claim
def a_rank_that_does_not_come_is_named(group: Group) -> None:
    impatient = Group.world(timeout=1.0)
    absent = group.size - 1
    if group.rank != absent:
        with pytest.raises(WaitError, match=f"awaited: rank {absent} on ") as caught:
            impatient.barrier()
        assert caught.value.ranks == (absent,)
    group.barrier()


for check in learner_claims.CLAIMS:
    claim(check)
