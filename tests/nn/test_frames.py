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

from benchmarks.peers.our_models import Mlp
from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
from burnpy.nn import Conv2d, LayerNorm, Linear, Relu, Sequential

Train = Autodiff[NumPy]


def frames(function: Callable[[], Any]) -> int:
    """The number of Python functions that a call runs, after a first call that imports and caches."""
    count = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    function()
    gc.collect()
    gc.disable()  # else finalizers of what other tests left behind would be counted
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
    ("device", "linear", "conv2d", "layer_norm"), [(NumPy, 16, 50, 53), (Train, 25, 60, 77)], ids=["plain", "tracked"]
)
def test_a_layer_is_called_with_few_calls(device: Any, linear: int, conv2d: int, layer_norm: int) -> None:
    images, x = Tensor.ones((1, 1, 5, 5), device=device), Tensor.ones((2, 4), device=device)
    conv, dense, norm = Conv2d(1, 2, 3, device=device), Linear(4, 3, device=device), LayerNorm(4, device=device)
    limits = 0 if os.environ.get("OPENBLAS_NUM_THREADS") == "1" else 4  # calls that keep OpenBLAS to one thread
    assert frames(lambda: conv(images)) <= conv2d + limits
    assert frames(lambda: dense(x)) <= linear
    assert frames(lambda: norm(x)) <= layer_norm


def test_a_layer_is_made_with_few_calls() -> None:
    assert frames(lambda: Linear(4, 3, device=NumPy)) <= 115
