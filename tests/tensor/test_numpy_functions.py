"""NumPy's functions and numbers beside tensors: operators work as with Python's numbers, and functions are refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import KindError

OPERATORS: list[Callable[[Any, Any], Any]] = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
]
INTS: Any = IntTensor[NumPy].ones((2,))
X: Any = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0, 4.0])


@pytest.mark.parametrize("f", OPERATORS, ids=lambda f: f.__name__)
def test_numbers_on_the_left(f: Callable[[Any, Any], Any]) -> None:
    i: Any = IntTensor[NumPy].from_data([1, 2, 4])
    for number in (np.float32(2.0), np.float64(2.0), np.int64(2)):
        found, wanted = f(number, X), f(number.item(), X)
        assert (type(found), found.dtype, found.tolist()) == (type(wanted), wanted.dtype, wanted.tolist())
    if f is not operator.truediv:
        assert f(np.int64(2), i).tolist() == f(2, i).tolist()


def test_truth_values_on_the_left() -> None:
    b: Any = BoolTensor[NumPy].from_data([True, False])
    found = [f(np.bool_(True), b).tolist() for f in (operator.and_, operator.or_, operator.xor)]
    assert found == [[True, False], [True, True], [False, True]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: np.exp(X),
            r"np\.exp\(\) got a Tensor of shape \(3,\), but computes with arrays; write x\.exp\(\)$",
        ),
        (lambda: np.absolute(X), r"np\.absolute\(\) .* write x\.abs\(\)$"),
        (lambda: np.maximum(X, 0.0), r"np\.maximum\(\) .* write x\.maximum\(y\)$"),
        (lambda: np.add(X, 1.0), r"np\.add\(\) .* write x\.add\(y\)$"),
        (lambda: np.add.reduce(X), r"np\.add\.reduce\(\) .* compute with tensors, or pass x\.to_numpy\(\)$"),
        (lambda: np.spacing(X), r"np\.spacing\(\) .* compute with tensors, or pass x\.to_numpy\(\)$"),
        (lambda: np.equal(X, X), r"np\.equal\(\) .* write x == y$"),
        (lambda: np.exp(X, out=np.ones(3)), r"np\.exp\(\) got a Tensor"),
        (lambda: np.ones(3) + X, r"add\(\) got a Tensor and an ndarray; make a tensor of it first"),
        (lambda: np.ones(3) @ X, r"matmul\(\) got a Tensor and an ndarray"),
        (lambda: np.float32(2.0) * INTS, r"mul\(\) got an IntTensor .* the float 2\.0"),
    ],
)
def test_functions_and_arrays_are_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(KindError, match=words):
        call()
