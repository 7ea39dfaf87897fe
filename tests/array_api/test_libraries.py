"""Libraries that are written to the standard compute with tensors: values as with NumPy, and gradients."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, compiled, func
from burnpy.array_api.data_types import LIBRARIES
from burnpy.backend import NumPy
from burnpy.errors import ImmutableError
from tests.rows import every_row


def release(package: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version(package).split(".")[:2])


@pytest.mark.slowest
@pytest.mark.skipif(
    release("scipy") < (1, 17) or release("scikit-learn") < (1, 9), reason="needs SciPy 1.17 and scikit-learn 1.9"
)
def test_scipy_and_scikit_learn() -> None:
    command = [sys.executable, "-m", "tests.array_api.library_calls"]
    done = subprocess.run(
        command, env=os.environ | {"SCIPY_ARRAY_API": "1"}, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stdout + done.stderr


def random(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(1).normal(size=shape)


def ratio(x: Any, y: Any) -> Any:
    return x / y


EXTRA: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("apply_where", lambda xpx, x: xpx.apply_where(x > 0.5, (x,), operator.pos, operator.neg)),
    (
        "apply_where",
        lambda xpx, x: xpx.apply_where(x > 0.5, (x, x + 1), ratio, fill_value=3.0),
    ),
    ("at set", lambda xpx, x: xpx.at(x * 1)[0, :].set(7.0)),
    ("at set", lambda xpx, x: xpx.at(x * 1, x > 0.5).set(2)),
    ("at add", lambda xpx, x: xpx.at(x * 1)[..., 1].add(x[..., 0])),
    ("at divide", lambda xpx, x: xpx.at(x * 1)[0].divide(2.0)),
    ("at max", lambda xpx, x: xpx.at(x * 1)[1, 0].max(0.9)),
    ("atleast_nd", lambda xpx, x: xpx.atleast_nd(x, ndim=3)),
    ("cov", lambda xpx, x: xpx.cov(x)),
    ("create_diagonal", lambda xpx, x: xpx.create_diagonal(x[0, :], offset=1)),
    ("kron", lambda xpx, x: xpx.kron(x, x)),
    ("pad", lambda xpx, x: xpx.pad(x, ((1, 0), (0, 2)), constant_values=2.0)),
    ("partition", lambda xpx, x: xpx.partition(x, 1, axis=1)),
    ("sinc", lambda xpx, x: xpx.sinc(x)),
]


@pytest.mark.heavy("array_api_extra")
@every_row(("name", "call"), EXTRA)
def test_array_api_extra(name: str, call: Any) -> None:
    xpx = import_module("array_api_extra")
    values: Any = np.array([[0.2, 0.7, 1.1], [0.4, 0.9, 0.3]])
    x = Tensor[Autodiff[NumPy]].from_data(values).require_grad()
    out: Any = call(xpx, x)
    expected: Any = call(xpx, values)
    np.testing.assert_allclose(out, expected, err_msg=name)
    weight: Any = random(expected.shape)
    gradient = np.asarray((out * Tensor[Autodiff[NumPy]].from_data(weight)).sum().backward()[x])
    steps = 1e-6 * np.eye(6).reshape(6, 2, 3)
    slopes: Any = [(weight * (call(xpx, values + step) - call(xpx, values - step))).sum() / 2e-6 for step in steps]
    np.testing.assert_allclose(gradient.ravel(), slopes, 1e-6, 1e-8, err_msg=name)
    np.testing.assert_array_equal(x, values, "x has changed")


def library_that_assigns(name: str) -> dict[str, Any]:
    code = """
def assign(x, key, value):
    x[key] = value
    return x
def is_writeable_array(x):
    return hasattr(x, "__array_namespace__")
"""
    library: dict[str, Any] = {"__name__": name}
    exec(code, library)
    return library


def test_code_of_libraries_assigns_to_arrays() -> None:
    library = library_that_assigns("scipy.stats._stats_py")
    x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0, 3.0]).require_grad()
    y = library["assign"](x * x, 0, x[2])
    assert y.tolist() == [3.0, 4.0, 9.0]
    assert y.sum().backward()[x].tolist() == [0.0, 4.0, 7.0]
    assert library["assign"](y + 0, y > 3.5, IntTensor[Autodiff[NumPy]].from_data(5)).tolist() == [3.0, 5.0, 5.0]
    assert library["assign"](IntTensor[NumPy].arange(2), 1, BoolTensor[NumPy].from_data(True)).tolist() == [0, 1]


def test_assignments_to_masks_have_no_shape_that_depends_on_values() -> None:
    assign = library_that_assigns("scipy.special")["assign"]
    x: Any = Tensor[NumPy].from_data([[1.0, 5.0], [7.0, 2.0]])

    def limited(x: Any) -> Any:
        return assign(x * 1, x > 4, x[0])

    def filled(x: Any) -> Any:
        return assign(x * 1, x > 4, 4)

    assert func.vmap(limited)(x).tolist() == [[1.0, 1.0], [7.0, 2.0]]
    assert compiled(filled)(x).tolist() == [[1.0, 4.0], [4.0, 2.0]]
    assert func.vmap(func.grad(lambda x: limited(x).sum()))(x).tolist() == [[2.0, 0.0], [1.0, 1.0]]


def test_users_and_other_code_do_not_assign() -> None:
    assert {"array_api_extra", "scipy", "sklearn"} == LIBRARIES
    x: Any = Tensor[NumPy].from_data([1.0, 2.0])
    copy = x.__array_namespace__().asarray(x, copy=True)
    for name in ("__main__", "scipyx", __name__):
        with pytest.raises(ImmutableError, match=r"write x = x.at\[...\].set\(v\)"):
            library_that_assigns(name)["assign"](copy, 0, 5.0)
    with pytest.raises(ImmutableError):
        copy[0] = 5.0


def test_results_are_never_the_argument_itself() -> None:
    x: Any = Tensor[NumPy].from_data([1.0, 2.0])
    xp = x.__array_namespace__()
    functions: list[Callable[[Any], Any]] = [
        *(xp.asarray, xp.positive, xp.real, xp.conj, xp.clip),
        *(lambda x: xp.astype(x, x.dtype), lambda x: xp.reshape(x, (2,)), lambda x: xp.sum(x, axis=())),
        *(lambda x: xp.broadcast_to(x, (2,)), lambda x: xp.squeeze(x, ()), lambda x: xp.asarray(x, copy=True)),
    ]
    for function in functions:
        library_that_assigns("sklearn.utils")["assign"](function(x), 0, 5.0)
        assert x.tolist() == [1.0, 2.0], function


def test_tensors_are_writeable_only_as_copies() -> None:
    library = library_that_assigns("array_api_extra._at")
    x: Any = Tensor[NumPy].from_data([1.0, 2.0])
    assert not library["is_writeable_array"](x)
    copy = x.__array_namespace__().asarray(x, copy=True)
    assert library["is_writeable_array"](copy)
    library["assign"](copy, 0, 5.0)
    assert not library["is_writeable_array"](copy)
    assert (x.tolist(), copy.tolist()) == ([1.0, 2.0], [5.0, 2.0])
    assert hasattr(x, "__array_namespace__")
