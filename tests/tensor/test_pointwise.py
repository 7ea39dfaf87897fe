"""Elementwise methods against the references of their operations, and what they take beside operands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.dtypes import kind_of
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.table import calls
from burnpy.testing.checks import difference
from tests.rows import every_row

CLASSES: dict[str, Any] = {"float": Tensor, "int": IntTensor, "bool": BoolTensor}
METHODS = [
    name
    for name, row in ROWS.items()
    if row.operation.arguments
    and all(a.kind and not a.sequence for a in row.operation.arguments)
    and row.operation.arguments[0].kind != "Bool"
    and len(row.operation.results) == 1
    and callable(getattr(Tensor, name, None))
    and name != "complex"  # whose argument is a dtype
]
"""Methods that take the operands of the operation of their name."""


@pytest.mark.parametrize("name", METHODS)
def test_values(name: str) -> None:
    """With the examples of the operation, numbers for operands among them, in dtypes of all kinds."""
    for arguments in calls(name, ("float64", "float32", "float16", "bfloat16", "int64", "bool"), ("contiguous",)):
        cls = CLASSES[kind_of(arguments.dtype)]
        if not hasattr(cls, name) or arguments.example.startswith("large"):
            continue
        for device in (NumPy, Autodiff[NumPy]):
            operands = [cls.from_data(a, device=device) if isinstance(a, np.ndarray) else a for a in arguments.given]
            x, *others = (a.require_grad() if isinstance(a, Tensor) else a for a in operands)
            found = getattr(x, name)(*others)
            (expected,) = arguments.expected
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype), arguments.where
            wrong = difference(found.to_numpy(), expected, ROWS[name].loose)
            assert wrong is None, f"{arguments.where}: {wrong}"


def test_degrees_and_radians() -> None:
    x = np.array([-90.0, 0.0, 1.0, 720.0])
    np.testing.assert_allclose(Tensor[NumPy].from_data(x).deg2rad().to_numpy(), np.deg2rad(x), 1e-15)
    np.testing.assert_allclose(Tensor[NumPy].from_data(x).rad2deg().to_numpy(), np.rad2deg(x), 1e-15)


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


@every_row("size", [0, 1, 8, 3000])  # 0-d, computed by NumPy, and by a kernel where there are any
@every_row("dtype", ["float32", "float64"])
def test_sigmoids_of_far_negative_numbers(dtype: str, size: int) -> None:
    values = [-710.0, -100.0, -88.0, -17.0, -3.0, -0.5, 0.0, 2.0, 40.0]
    array = np.resize(values, size) if size else np.array(-100.0)
    wanted = np.vectorize(lambda v: math.exp(v) / (1 + math.exp(v)), otypes=[dtype])(array)
    x = Tensor[NumPy].from_data(array, dtype=dtype)
    tolerance: dict[str, Any] = {"rtol": 4 * np.finfo(dtype).eps, "atol": float(np.finfo(dtype).smallest_subnormal)}
    np.testing.assert_allclose(x.sigmoid().to_numpy(), wanted, **tolerance)
    np.testing.assert_allclose(x.silu().to_numpy(), wanted * array.astype(dtype), **tolerance | {"atol": 1e-42})


def test_round_is_to_even() -> None:
    assert Tensor[NumPy].from_data([-1.5, -0.5, 0.5, 1.5, 2.5]).round().tolist() == [-2.0, -0.0, 0.0, 2.0, 2.0]


def test_arguments() -> None:
    x = Tensor[NumPy].from_data([-2.0, 0.5, 2.0], dtype="float64")
    cubic = math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))
    np.testing.assert_allclose(x.gelu("tanh").to_numpy(), (0.5 * x * (1 + cubic.tanh())).to_numpy(), 1e-12)
    exact = np.array([v * math.erfc(-v / math.sqrt(2)) / 2 for v in x.tolist()])
    np.testing.assert_allclose(x.gelu().to_numpy(), exact, 1e-12)
    np.testing.assert_allclose(x.softplus().to_numpy(), np.log1p(np.exp(x.to_numpy())), 1e-12)
    np.testing.assert_allclose(x.softplus(beta=3.0).to_numpy(), np.log1p(np.exp(3 * x.to_numpy())) / 3, 1e-12)
    assert x.clamp(-1, 1).tolist() == [-1.0, 0.5, 1.0]
    assert x.clamp(min=0.0).tolist() == [0.0, 0.5, 2.0]
    assert x.clamp(max=0.0).tolist() == [-2.0, 0.0, 0.0]
    assert IntTensor[NumPy].from_data([-5, 5]).clamp(-1, 2).tolist() == [-1, 2]
