"""No warning about floating point reaches the user: from arrays or scalars, nested, or from many threads at once."""

from __future__ import annotations

import contextvars
import math
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.dtypes import dtype_of, float16, float32, float64, int32
from burnpy_numpy.numpy_calls import run
from tests.rows import every_row

D = NumPy()


@pytest.fixture(autouse=True)
def _loud() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        yield


def everything(x: Any, y: Any) -> list[Any]:
    """Operations that divide by zero, overflow, or are invalid somewhere in x = [0, -1, inf, nan, 3e38], y likewise."""
    done = [
        getattr(D, n)(x) for n in ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "square", "sigmoid")
    ]
    done += [
        getattr(D, n)(x) for n in ("reciprocal", "rsqrt", "erf", "silu", "relu", "sign", "round", "floor", "isnan")
    ]
    done += [
        getattr(D, n)(x, y) for n in ("add", "sub", "mul", "div", "pow", "maximum", "floor_divide", "remainder", "lt")
    ]
    done += [
        getattr(D, n)(x, s) for n in ("add", "sub", "mul", "div", "floor_divide", "remainder") for s in (0.0, 1e300, 0)
    ]
    done += [D.pow(x, p) for p in (-1, -2, 0.5, -0.5, 3, 2.5)]
    done += [D.gelu(x, True), D.gelu(x, False), D.gelu_backward(x, y, False), D.cast(x, float16), D.cast(x, int32)]
    dims = tuple(range(len(x.shape)))
    done += [getattr(D, n)(x, dims, False) for n in ("sum", "prod", "amax", "mean", "logsumexp")]
    done += [D.var(x, dims, True, 1), D.std(x, dims, True, 10), D.accumulate(D.add(x, 0.0), y)]
    if dims:
        done += [D.softmax(x, 0), D.log_softmax(x, 0), D.cumsum(x, 0), D.softmax_backward(x, y, 0)]
        square = D.mul(x.reshape((-1, 1)), y.reshape((1, -1)))
        done += [D.matmul(square, square), D.index_add(x, 0, np.zeros(2, np.int64), y[:2])]
    return done


@every_row("dtype", [float16, dtype_of("bfloat16"), float32, float64], ids=str)
@every_row("n", [5, 100])
def test_arrays(dtype: Any, n: int) -> None:
    with np.errstate(all="ignore"):
        x = np.resize(np.array([0.0, -1.0, math.inf, math.nan, 3e38]), n).astype(dtype)
    everything(x, np.array(x[::-1]))


@every_row("value", [0.0, -1.0, math.inf, math.nan, 3e38])
@every_row("make", [np.array, lambda v, t: t.type(v)], ids=["0-d", "scalar"])
def test_scalars(value: float, make: Any) -> None:
    everything(make(value, float32), make(0.0, float32))


def test_ints() -> None:
    x = np.array([np.iinfo(np.int32).min, 5], np.int32)
    D.floor_divide(x, np.array([-1, 2], np.int32))
    D.mul(x, x)
    D.neg(x)


def test_inside_of_the_quiet_context() -> None:
    """A finalizer, say, may call an operation while another is in the context, which cannot be entered twice."""
    x = np.array([0.0, math.inf], np.float32)
    assert run(D.div, x, 0.0).tolist()[1] == math.inf
    assert run(lambda: [everything(x, x), len(D.cat([x, x], 0))])[1] == 4


def test_eight_threads() -> None:
    """The interpreter's lock is free while NumPy works on a large array, so threads do meet in the context."""
    x = np.full(200_000, 3e38, np.float32)

    def work(_: int) -> bool:
        with np.errstate(all="raise"):
            return all(bool(np.isinf(D.mul(x, x)).all() and np.isnan(D.log(D.neg(x))).all()) for _ in range(10))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_settings_and_variables_of_the_caller_are_left_alone() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=1)
    variable.set(2)
    D.div(np.ones(2, np.float32), 0.0)
    assert variable.get() == 2
    with pytest.raises(FloatingPointError):
        np.ones(2) / 0


class Raising:
    """An operand with which NumPy calls Python, as it does the handler of a signal, and that raises."""

    dtype = float32

    def __init__(self, error: type[Exception]) -> None:
        self.error, self.times = error, 0

    def __array_ufunc__(self, *given: object, **how: object) -> None:
        self.times += 1
        raise self.error("by the user")


@every_row("operation", ["accumulate", "add"])
@every_row("error", [RuntimeError, ValueError, KeyError])
def test_errors_of_others_are_raised_and_nothing_is_computed_twice(operation: str, error: type[Exception]) -> None:
    other = Raising(error)
    with pytest.raises(error, match="by the user"):
        getattr(D, operation)(np.ones(2, np.float32), other)
    assert other.times == 1


def test_a_function_is_called_once_though_it_raises_what_the_context_does() -> None:
    total = np.zeros(2, np.float32)

    def work() -> None:
        total[...] += 1
        raise RuntimeError("by the user")

    with pytest.raises(RuntimeError, match="by the user"):
        D._call(work)
    with pytest.raises(RuntimeError, match="by the user"):
        run(D._call, work)  # where the context is in use
    assert total.tolist() == [2, 2]
