"""Arithmetic, comparisons, logic and the matrix product against NumPy, over shapes, dtypes and operand orders."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from tests.rows import every_row

Train = Autodiff[NumPy]
BACKENDS: list[Any] = [NumPy, Train]
SHAPES = [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 3), (3,)), ((2, 3), (2, 3))]
rng = np.random.default_rng(0)


def floats(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return rng.uniform(0.5, 2.0, shape).astype(dtype)


def ints(shape: tuple[int, ...], dtype: Any = np.int64) -> np.ndarray[Any, Any]:
    return rng.integers(1, 9, shape).astype(dtype)


def same(found: Any, wanted: Any, dtype: Any = None) -> None:
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    assert found.dtype == (wanted.dtype if dtype is None else dtype)
    np.testing.assert_allclose(found.to_numpy(), wanted, 1e-6)


ARITHMETIC = ["add", "sub", "mul", "pow", "floordiv", "mod"]


@every_row("backend", BACKENDS)
@every_row("shapes", SHAPES)
@every_row("name", [*ARITHMETIC, "truediv", "lt", "le", "gt", "ge", "eq", "ne"])
def test_floats(name: str, shapes: Any, backend: Any) -> None:
    f, a, b = getattr(operator, name), floats(shapes[0]), floats(shapes[1])
    x, y = Tensor.from_data(a, device=backend), Tensor.from_data(b, device=backend)
    same(f(x, y), f(a, b))
    same(f(x, 1.5), f(a, np.float32(1.5)))
    same(f(1.5, x), f(np.float32(1.5), a))
    same(f(x, 2), f(a, np.float32(2)))


@every_row("shapes", SHAPES)
@every_row("name", [*ARITHMETIC, "and_", "or_", "xor", "lt", "le", "gt", "ge", "eq", "ne"])
def test_ints(name: str, shapes: Any) -> None:
    f, a, b = getattr(operator, name), ints(shapes[0]), ints(shapes[1])
    x, y = IntTensor[NumPy].from_data(a), IntTensor[NumPy].from_data(b)
    same(f(x, y), f(a, b))
    same(f(x, 3), f(a, 3))
    same(f(3, x), f(3, a))


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "eq", "ne"])
def test_bools(name: str) -> None:
    f, a, b = getattr(operator, name), np.array([[True, False]]), np.array([[True], [False]])
    x, y = BoolTensor[NumPy].from_data(a), BoolTensor[NumPy].from_data(b)
    same(f(x, y), f(a, b))
    same(f(x, True), f(a, True))
    same(~x, ~a)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic_of_ints_is_of_truth(name: str) -> None:
    a, b = np.array([0, 1, 2, 0]), np.array([0, 2, 4, 1])
    x, y = IntTensor[NumPy].from_data(a), IntTensor[NumPy].from_data(b)
    same(getattr(x, name)(y), getattr(np, name)(a, b))
    same(getattr(x, name)(2), getattr(np, name)(a, 2))
    same(x.logical_not(), np.logical_not(a))


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ("float16", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("int8", "int64", "int64"),
        ("uint8", "int8", "int16"),
    ],
)
def test_dtypes_promote_but_0d_and_numbers_do_not(left: str, right: str, wanted: str) -> None:
    cls: Any = Tensor if "float" in left else IntTensor
    x, y = (cls[NumPy].ones((2,), dtype=d) for d in (left, right))
    assert (x + y).dtype == (y * x).dtype == wanted
    assert burnpy.maximum(x, y).dtype == wanted
    assert burnpy.cat([x, y]).dtype == burnpy.stack([y, x]).dtype == wanted
    assert burnpy.where(x == 1, x, y).dtype == wanted
    assert (x.reshape(1, 2) @ y.reshape(2, 1)).dtype == wanted
    assert (x + y.sum(dtype=right)).dtype == left
    assert (x * 3).dtype == left


def test_an_int_over_an_int_is_float32() -> None:
    x = IntTensor[Train].from_data([1, 2, 0])
    for found, wanted in [
        (x / 4, [0.25, 0.5, 0.0]),
        (x / x, [1, 1, np.nan]),
        (2 / x, [2, 1, np.inf]),
        (x / 0.5, [2, 4, 0]),
    ]:
        assert type(found) is Tensor
        same(found, np.array(wanted, np.float32))
    assert (IntTensor[NumPy].ones((1,), dtype="int8") / IntTensor[NumPy].ones((1,))).dtype == np.float32


def test_a_quotient_of_floats_by_zero_is_infinite() -> None:
    x = Tensor[NumPy].from_data([1.0, -1.0])
    assert (x / 0).tolist() == [np.inf, -np.inf]


MATRICES = [
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((3,), (5, 3, 2)),
    ((5, 2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
]


@every_row("shapes", MATRICES)
@every_row("dtype", [np.float32, np.float64, np.int64])
def test_matmul(shapes: Any, dtype: Any) -> None:
    a, b = (rng.integers(-4, 5, s).astype(dtype) for s in shapes)
    cls: Any = IntTensor if dtype is np.int64 else Tensor
    same(cls[NumPy].from_data(a) @ cls[NumPy].from_data(b), a @ b)


@pytest.mark.parametrize("shapes", MATRICES)
def test_gradients_of_matmul(shapes: Any) -> None:
    a, b = (rng.standard_normal(s) for s in shapes)
    x, y = (Tensor[Train].from_data(v).require_grad() for v in (a, b))
    out = x @ y
    weights = rng.standard_normal(out.shape)
    grads = (out * Tensor[Train].from_data(weights)).sum().backward()
    products: list[tuple[Any, Any, Any]] = [(x, a, lambda v: v @ b), (y, b, lambda v: a @ v)]
    for leaf, value, product in products:
        wanted = np.zeros(value.shape)
        for at in np.ndindex(value.shape):  # linear: the derivative by an element is the product with its unit vector
            unit = np.zeros(value.shape)
            unit[at] = 1
            wanted[at] = (weights * product(unit)).sum()
        np.testing.assert_allclose(grads[leaf].to_numpy(), wanted, 1e-9, 1e-12)


def test_the_functions_are_the_methods() -> None:
    x, y = Tensor[NumPy].from_data([1.0, 5.0]), Tensor[NumPy].from_data([2.0, 3.0])
    assert burnpy.maximum(x, y).tolist() == [2.0, 5.0]
    assert burnpy.minimum(x, 2.0).tolist() == [1.0, 2.0]
    first, second = burnpy.broadcast_tensors(x, y.reshape(2, 1))
    assert first.tolist() == [[1.0, 5.0], [1.0, 5.0]]
    assert second.tolist() == [[2.0, 2.0], [3.0, 3.0]]
