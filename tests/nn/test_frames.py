"""The number of Python calls that modules and functions make, an upper bound each: a measure of overhead without noise.

Python 3.12 and later make fewer, as they inline comprehensions.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.peers.ours import Mlp
from burnpy import Autodiff, IntTensor, Tensor, cat, cross_entropy, mse_loss, stack, where
from burnpy.backend import NumPy
from burnpy.linalg import lu_solve
from burnpy.nn import Conv2d, LayerNorm, Linear, Relu, Sequential, functional
from burnpy.optim import Sgd
from burnpy.train import Learner, Step
from burnpy_numpy.kernels.kernel import kernels_enabled

Train = Autodiff[NumPy]


def frames(function: Callable[[], Any]) -> int:
    """The number of Python functions that a call runs, after a first call that imports and caches."""
    count = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    function()
    gc.disable()  # else finalizers from other tests would be counted
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


MLP: Any = Mlp(Train, (8, 6, 10))
DEEPER: Any = Mlp(Train, (8, 6, 6, 10))
VALUES = {param.id: param.value.inner() for param in MLP.params()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "most"),
    [
        (lambda: MLP.valid(), 45),
        (lambda: DEEPER.valid(), 60),
        (lambda: MLP.with_values(VALUES), 80),
        (lambda: MLP.with_values(VALUES).named_params(), 85),
        (lambda: Sequential(Relu(), Relu(), Relu()), 45),
    ],
    ids=["valid", "valid deeper", "with_values", "params of a new model", "Sequential"],
)
def test_a_model_is_rebuilt_with_few_calls(function: Callable[[], Any], most: int) -> None:
    assert frames(function) <= most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "linear", "conv2d", "layer_norm"), [(NumPy, 13, 37, 17), (Train, 16, 39, 20)], ids=["plain", "tracked"]
)
def test_a_layer_is_called_with_few_calls(device: Any, linear: int, conv2d: int, layer_norm: int) -> None:
    images, x = Tensor.ones((1, 1, 5, 5), device=device), Tensor.ones((2, 4), device=device)
    conv, dense, norm = Conv2d(1, 2, 3, device=device), Linear(4, 3, device=device), LayerNorm(4, device=device)
    limits = 0 if os.environ.get("OPENBLAS_NUM_THREADS") == "1" else 5  # calls that keep OpenBLAS to one thread
    assert frames(lambda: conv(images)) <= conv2d + limits
    assert frames(lambda: dense(x)) <= linear
    assert frames(lambda: norm(x)) <= layer_norm + (0 if kernels_enabled() else 26)  # one operation after the other


OPERATIONS: dict[str, tuple[Callable[[Any, Any, Any], Any], int, int]] = {
    "sigmoid": (lambda x, index, mask: x.sigmoid(), 8, 9),
    "softmax": (lambda x, index, mask: x.softmax(1), 10, 11),
    "layer_norm": (lambda x, index, mask: functional.layer_norm(x, 4, x[0], x[1]), 17, 22),
    "cross_entropy": (lambda x, index, mask: cross_entropy(x, index), 19, 21),
    "cross_entropy, weight": (lambda x, index, mask: cross_entropy(x, index, weight=x[0]), 67, 91),
    "lu_solve": (lambda x, index, mask: lu_solve(x.T @ x, IntTensor.arange(1, 5, device=x.device), x.T), 133, 147),
    "mean": (lambda x, index, mask: x.mean(), 6, 7),
    "max": (lambda x, index, mask: x.max(), 8, 9),
    "where": (lambda x, index, mask: where(mask, x, x), 8, 9),
    "cat": (lambda x, index, mask: cat([x, x]), 8, 10),
    "stack": (lambda x, index, mask: stack([x, x]), 8, 10),
    "x[index]": (lambda x, index, mask: x[index], 11, 12),
}
"""Functions of a tensor, of an index and of a mask, and the most calls untracked and tracked, with kernels."""


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_few_calls(name: str) -> None:
    if not kernels_enabled():
        pytest.skip("without llvmlite, or with BURNPY_COMPILE=0, there are no kernels")
    f, plain, tracked = OPERATIONS[name]
    x, index = Tensor[NumPy].ones((2, 4)), IntTensor[NumPy].from_data([0, 1])
    assert frames(lambda: f(x, index, x > 0.0)) <= plain + 2  # the comparison's
    leaf, positions = Tensor[Train].ones((2, 4)).require_grad(), IntTensor[Train].from_data([0, 1])
    assert frames(lambda: f(leaf, positions, leaf > 0.0)) <= tracked + 3


def test_a_layer_is_made_with_few_calls() -> None:
    assert frames(lambda: Linear(4, 3, device=NumPy)) <= 122


@pytest.mark.slow
def test_a_learner_adds_few_calls_to_a_loop_by_hand() -> None:
    batch = (Tensor[Train].ones((4, 3)), Tensor[Train].ones((4, 2)))
    model = Linear(3, 2, device=Train)

    def train_step(model: Any, batch: Any) -> Step[Train]:
        x, y = batch
        return Step(mse_loss(model(x), y))

    def by_learner(count: int) -> None:
        learner = Learner(train_step, optim=Sgd(), lr=0.1)
        assert len([*learner.events(model, [batch] * count, epochs=1)]) > count

    def by_hand(count: int) -> None:
        trained, optim = model, Sgd()
        for each in [batch] * count:
            trained = optim.step(0.1, trained, train_step(trained, each).loss.backward())

    def of_a_batch(run: Callable[[int], None]) -> float:
        return (frames(lambda: run(40)) - frames(lambda: run(20))) / 20

    assert of_a_batch(by_learner) - of_a_batch(by_hand) <= 31
