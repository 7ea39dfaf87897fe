"""The differential machine: a fixed set of samples agrees; what disagrees is found, shrunk and printed as code."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from burnpy.autodiff import Function
from burnpy.backend import NumPy
from burnpy.testing.cases.samples import x
from burnpy.testing.differential import TRANSFORMATIONS, Block, call, check, differential, within
from burnpy.testing.differential.making import Maker
from tests.interrupting import LONG


@pytest.mark.slow
@pytest.mark.parametrize("count", [25, pytest.param(300, marks=pytest.mark.slowest)])
def test_a_fixed_set_of_samples_agrees(count: int) -> None:
    differential(NumPy, seed=0, count=count, plans=0.0, each=2)


@pytest.mark.slowest
def test_compiled_samples_agree() -> None:
    differential(NumPy, seed=1, count=30, only="compiled", each=2)


@pytest.mark.long
def test_new_samples_agree() -> None:
    differential(NumPy, seed=LONG or None, count=None, seconds=600, plans=0.25)


def test_samples_depend_on_their_seed_and_number_alone() -> None:
    first = [Maker(3).sample(k).source() for k in range(4)]
    assert [Maker(3).sample(k).source() for k in (3, 2, 1, 0)] == first[::-1]


def test_names_of_transformations_are_unique() -> None:
    assert len({t.name for t in TRANSFORMATIONS}) == len(TRANSFORMATIONS)


class _Wrong(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return tangent * ctx.saved_tensors[0] * 2.0


def wrong_square(x: Any) -> Any:
    return _Wrong.apply(x)


@pytest.mark.slow
@pytest.mark.parametrize("only", ["grad(f) = differences", "jvp(f) = grad(f)"])
def test_a_wrong_derivative_is_found_and_shrunk_to_code_that_fails(only: str) -> None:
    block = Block("wrong square", wrong_square, ((x(3),),), any_shape=True)
    with pytest.raises(AssertionError) as caught:
        differential(NumPy, count=12, only=only, blocks=[block], entries=["sin", "exp", "sum"])
    codes = re.findall(r"\(sample .*?\)\n(.*?check\([^\n]*\))", str(caught.value), re.S)
    assert codes
    for code in codes:
        assert code.count(" = flat(") == 1, code
        with pytest.raises(AssertionError, match=re.escape(only)):
            exec(dedent(code), {"wrong_square": wrong_square})


def test_infinities_have_no_rounding_errors() -> None:
    def f(x: Any) -> Any:
        return call("argmin", within(x, -2.0, 2.0), 0, False)

    check(f, [[np.inf, 14.0]], only="float16 f")  # both are 1.96, which errors of the second one change


def test_check_compares_one_function() -> None:
    check(lambda x: x.sin() * x.sum(), [[0.5, 2.0]], only="vmap(f),jvp(f) = grad(f)")
    with pytest.raises(AssertionError, match=r"grad\(f\) = differences: result 0"):
        check(_Wrong.apply, [np.array([1.0, 2.0])], only="grad(f) = differences")


def test_kinks_and_ill_conditioned_functions_are_no_failures() -> None:
    check(lambda x: x.relu() + x.abs(), [[0.0, 1.0]], only="grad(f) = differences")
    check(lambda x: call("sub", call("add", x, 1e8), 1e8), [[0.3]], only="float32 f")
    check(lambda x: call("sin", call("mul", x, 1e9)), [[0.3]], only="float32")
