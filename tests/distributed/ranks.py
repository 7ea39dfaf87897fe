"""Claims that `test_ranks.py` checks on several ranks: ``mpiexec -n 2 python -m tests.distributed.ranks``.

Every rank runs all of them, in order. Rank 0 prints, as JSON, what failed on which rank.
"""

from __future__ import annotations

import hashlib
import json
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.distributed import Group
from burnpy.metrics import Mean
from burnpy.nn import BatchNorm, Conv2d, Flatten, Linear, Relu, Sequential
from burnpy.optim import AdamW, GradientsAccumulator, GradientsParams

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
    """Whether all ranks have the same bits."""
    data = b"".join(variable.value.to_numpy().tobytes() for variable in model._variables().values())
    return len(set(group.gather(hashlib.sha256(data).hexdigest()))) == 1


@claim
def ranks_train_as_one_on_one_big_batch(group: Group) -> None:
    model = whole = group.broadcast(network(norm=False))
    mine, alone, rows = AdamW(), AdamW(), shares(group.size)[group.rank]
    for x, y in batches(10):
        model = mine.step(1e-2, model, group.mean(gradients(model, x[rows], y[rows]), weight=len(rows)))
        whole = alone.step(1e-2, whole, gradients(whole, x, y))
    for p, q in zip(model.params(), whole.params(), strict=True):
        assert (p.value.inner() - q.value.inner()).abs().max().item() < 1e-15
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


def outcome(check: Callable[[Group], None], group: Group) -> str:
    try:
        check(group)
    except Exception:  # whatever it is, it is told
        return traceback.format_exc()
    return ""


def main() -> None:
    group = Group.world(timeout=30)
    results = {name: group.gather(outcome(check, group)) for name, check in CLAIMS.items()}
    if group.leads:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
