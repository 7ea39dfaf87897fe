"""Functions of one element against NumPy and `math`, in all float dtypes and on shapes without elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy

Array = np.ndarray[Any, Any]
erf = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    **{n: getattr(np, n) for n in ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "floor", "ceil")},
    **{n: getattr(np, n) for n in ("abs", "sign", "square", "isnan", "isinf", "isfinite")},
    "neg": np.negative,
    "round": np.rint,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "erf": erf,
}
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(), (7,), (2, 3), (0, 3)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str, shape: tuple[int, ...], dtype: str) -> None:
    known = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    low = 0.1 if name in ("log", "sqrt", "rsqrt", "reciprocal") else -0.9
    a = np.random.default_rng(1).uniform(low, 3.0, shape).astype(known)
    wanted = FUNCTIONS[name](a.astype(np.float64))
    for x in (Tensor[NumPy].from_data(a), Tensor[Autodiff[NumPy]].from_data(a).require_grad()):
        found = getattr(x, name)()
        assert found.shape == shape
        assert found.dtype == (bool if name.startswith("is") else known)
        tolerance = TOLERANCE[dtype]
        np.testing.assert_allclose(found.to_numpy().astype(np.float64), wanted, tolerance, tolerance)


def test_the_ends_of_the_floats() -> None:
    x = Tensor[NumPy].from_data([-np.inf, -1000.0, 0.0, 1000.0, np.inf, np.nan])
    table = {
        "sigmoid": [0, 0, 0.5, 1, 1, np.nan],
        "softplus": [0, 0, math.log(2), 1000, np.inf, np.nan],
        "relu": [0, 0, 0, 1000, np.inf, np.nan],
        "tanh": [-1, -1, 0, 1, 1, np.nan],
        "log": [np.nan, np.nan, -np.inf, math.log(1000), np.inf, np.nan],
        "sqrt": [np.nan, np.nan, 0, math.sqrt(1000), np.inf, np.nan],
        "erf": [-1, -1, 0, 1, 1, np.nan],
        "sign": [-1, -1, 0, 1, 1, np.nan],
    }
    for name, wanted in table.items():
        np.testing.assert_allclose(getattr(x, name)().to_numpy(), np.array(wanted), 1e-6, err_msg=name)
    assert x.isnan().tolist() == [False] * 5 + [True]
    assert x.isinf().tolist() == [True, False, False, False, True, False]


def test_round_is_to_even() -> None:
    assert Tensor[NumPy].from_data([-1.5, -0.5, 0.5, 1.5, 2.5]).round().tolist() == [-2.0, -0.0, 0.0, 2.0, 2.0]


def test_arguments() -> None:
    x = Tensor[NumPy].from_data([-2.0, 0.5, 2.0], dtype="float64")
    cubic = math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))
    np.testing.assert_allclose(x.gelu("tanh").to_numpy(), (0.5 * x * (1 + cubic.tanh())).to_numpy(), 1e-12)
    np.testing.assert_allclose(x.softplus(beta=3.0).to_numpy(), np.log1p(np.exp(3 * x.to_numpy())) / 3, 1e-12)
    assert x.clamp(-1, 1).tolist() == [-1.0, 0.5, 1.0]
    assert x.clamp(min=0.0).tolist() == [0.0, 0.5, 2.0]
    assert x.clamp(max=0.0).tolist() == [-2.0, 0.0, 0.0]
    assert IntTensor[NumPy].from_data([-5, 5]).clamp(-1, 2).tolist() == [-1, 2]
