"""Compiled functions on the real CuPy: plans of single operations, with the results of eager mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, compiled, cross_entropy, errors, func, manual_seed
from burnpy.backend import CuPy
from burnpy.nn import BatchNorm, Dropout, Linear, Relu, Sequential
from burnpy.optim import Adam, GradientsParams, clip_by_global_norm
from tests.hostcuda import simulator

simulator.require()

Train = Autodiff[CuPy]


def drawn(*shape: int) -> Any:
    return Tensor.from_data(np.random.default_rng(0).standard_normal(shape).astype("f"), device=CuPy)


def test_a_training_step() -> None:
    """Batch norm, dropout, an index that is checked, clipping, Adam's counts, a rate that changes, and donation."""
    optim = Adam()
    manual_seed(0)
    # no bias before the norm: its gradient is a rounding error, and Adam makes whole steps of that
    layers = Linear(4, 8, bias=False, device=Train), BatchNorm(8, device=Train), Relu(), Dropout(0.1)
    model = Sequential(*layers, Linear(8, 3, device=Train))
    x, y = Tensor.from_inner(drawn(6, 4), device=Train), IntTensor.from_data([0, 1, 2, 0, 1, 2], device=Train)

    def step(model: Any, state: Any, lr: Any, x: Any, y: Any) -> Any:
        loss = cross_entropy(model(x), y)
        grads = clip_by_global_norm(GradientsParams.from_grads(loss.backward(), model), 0.5)
        return (*optim.pure_step(lr, model, grads, state), loss.detach())

    runs = []
    functions: list[Any] = [step, compiled(step, donate=("model", "state"))]
    for f in functions:
        manual_seed(5)
        carried: list[Any] = [model, optim.init(model)]
        losses = []
        for k in range(3):
            *carried, loss = f(*carried, 0.1 / (k + 1), x, y)
            losses.append(loss.item())
        runs.append([np.array(losses), *[v._value.to_numpy() for v in carried[0]._variables().values()]])
    for eager, planned in zip(*runs, strict=True):  # kernels of plans add in another order
        np.testing.assert_allclose(planned, eager, rtol=1e-5, atol=1e-6)


def test_loops_branches_and_checks() -> None:
    xs = drawn(5, 3)
    last, sums = compiled(lambda x: func.scan(lambda h, x: ((h + x).tanh(), h.sum()), x[0], x))(xs)
    expected, others = func.scan(lambda h, x: ((h + x).tanh(), h.sum()), xs[0], xs)
    assert (last.tolist(), sums.tolist()) == (expected.tolist(), others.tolist())
    root = compiled(lambda x: func.cond(x.sum() > 0.0, lambda x: x.abs().sqrt(), lambda x: x * 2.0, x))
    for x in (xs[0], -xs[0]):
        assert root(x).tolist() == (x.abs().sqrt() if x.sum() > 0.0 else x * 2.0).tolist()
    picked = compiled(lambda x, i: x.index_select(0, i))
    assert picked(xs, IntTensor[CuPy].from_data([1])).tolist() == [xs[1].tolist()]
    with pytest.raises(errors.IndexRangeError, match="index 9"):
        picked(xs, IntTensor[CuPy].from_data([9])).tolist()
