"""Errors for functions that return something else than float tensors: every transform, every such thing."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

import burnpy.func
from burnpy import Autodiff, Tensor
from burnpy.autodiff import Context, Function, backward, custom_vjp
from burnpy.autodiff import grad as grad_of_tensors
from burnpy.backend import NumPy, errors
from burnpy.testing import gradcheck
from tests.rows import every_row

func: Any = burnpy.func  # types would refuse most of this before it runs
F = Callable[[Any], Any]
x: Any = Tensor[NumPy].from_data([1.0, 2.0], dtype="float64")
tracked: Any = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()

WITH_AUX: dict[str, Callable[..., Any]] = {
    "grad": lambda f, **aux: func.grad(f, **aux)(x),
    "value_and_grad": lambda f, **aux: func.value_and_grad(f, **aux)(x),
    "vjp": lambda f, **aux: func.vjp(f, x, **aux),
    "jvp": lambda f, **aux: func.jvp(f, x, x, **aux),
    "jacobian": lambda f, **aux: func.jacobian(f, **aux)(x),
    "jacrev": lambda f, **aux: func.jacrev(f, **aux)(x),
    "jacfwd": lambda f, **aux: func.jacfwd(f, **aux)(x),
}
TRANSFORMS: dict[str, Callable[..., Any]] = {
    **WITH_AUX,
    "hessian": lambda f: func.hessian(f)(x),
    "hvp": lambda f: func.hvp(f, x, x),
    "vhp": lambda f: func.vhp(f, x, x),
    "linearize": lambda f: func.linearize(f, x),
}


def nothing(x: Any) -> Any:
    """Computes, and forgets to return."""
    (x * x).sum()


def generated(x: Any) -> Generator[Any, None, None]:
    yield x


async def awaited(x: Any) -> Any:
    return x


NONE = "; a function without a return statement returns None"
NUMBER = "; return the tensor itself, without .item() or float()"
ARRAY = "; compute with tensors, without to_numpy()"
KIND = "; only float tensors have derivatives"
RETURNED: list[tuple[str, F, str, str]] = [
    ("nothing", nothing, "None", NONE),
    ("an int", lambda x: 3, "int", NUMBER),
    ("a float", lambda x: x.sum().item(), "float", NUMBER),
    ("a NumPy number", lambda x: x.to_numpy().sum(), "float64", NUMBER),
    ("an array", lambda x: x.to_numpy() ** 2, "ndarray", ARRAY),
    ("text", str, "str", ""),
    ("a generator", generated, "generator", "; a function with yield in it returns a generator: write return, or coll"),
    ("a function", lambda x: np.sin, "ufunc", "; return the function's result, as in f(x)"),
    ("ints", lambda x: x.argmax(), "IntTensor()", KIND),
    ("truth values", lambda x: (x > 0).all(), "BoolTensor()", KIND),
    ("a list with None in it", lambda x: [x.sum(), nothing(x)], "[Tensor(), None]", NONE),
    ("None alone in a tree", lambda x: {"loss": nothing(x)}, "{'loss': None}", NONE),
    ("an array in a tuple", lambda x: (x.sum(), x.to_numpy()), "(Tensor(), ndarray)", ARRAY),
    ("ints in a dict", lambda x: {"i": x.int()}, "{'i': IntTensor(2,)}", KIND),
    ("an empty tuple", lambda x: (), "()", ""),
    ("an empty dict", lambda x: {}, "{}", ""),
    ("a set", lambda x: {x}, "set", ""),
]


@every_row(("what", "f", "shown", "cause"), RETURNED, ids=[row[0] for row in RETURNED])
@every_row("api", TRANSFORMS)
def test_what_is_no_float_tensor_is_refused_by_every_transform(
    api: str, what: str, f: F, shown: str, cause: str
) -> None:
    with pytest.raises(errors.KindError) as caught:
        TRANSFORMS[api](f)
    message = str(caught.value)
    assert message.startswith(f"{api}() takes a function that returns "), message
    assert f"and it returned {shown}" in message
    assert cause in message
    assert "\n" not in message
    assert ("has_aux=True" in message) == (api in WITH_AUX and shown[0] in "([{" and len(shown) > 2)


@every_row(("what", "f", "shown", "cause"), RETURNED, ids=[row[0] for row in RETURNED])
@every_row("api", WITH_AUX)
def test_beside_something_else(api: str, what: str, f: F, shown: str, cause: str) -> None:
    with pytest.raises(errors.KindError, match=re.escape(f"{api}() takes a function that returns")):
        WITH_AUX[api](lambda x: (f(x), "aux"), has_aux=True)
    if what != "an array in a tuple":
        with pytest.raises(errors.ArgumentError, match=re.escape(f"it returned {shown}")):
            WITH_AUX[api](f, has_aux=True)


def test_every_transform_is_here() -> None:
    others = {"compiled", "cond", "register_tree", "scan", "stack_models", "vmap", "while_loop"}
    solvers = {"Minimum", "OdeSolution", "Solution", "cg", "fixed_point", "least_squares", "minimize", "odeint", "root"}
    assert set(TRANSFORMS) == set(burnpy.func.__all__) - others - solvers


def test_a_coroutine() -> None:
    coroutine = awaited(x)
    with pytest.raises(errors.KindError, match="an async function returns a coroutine: leave out async"):
        func.jacrev(lambda x: coroutine)(x)
    coroutine.close()


def loss(params: Any) -> Any:
    return (params["w"] ** 3).sum() if params["b"] is None else params["w"].sum()


def test_none_in_the_arguments_comes_back_in_their_gradients() -> None:
    """A parameter that is not there has no gradient, at any order, and no transform takes that for a mistake."""
    params = {"w": x, "b": None}
    assert func.grad(loss)(params)["b"] is None
    assert func.hvp(loss, (params,), (params,))[1][0]["w"].tolist() == [6.0, 24.0]
    assert func.vhp(loss, (params,), (params,))[1][0]["w"].tolist() == [6.0, 24.0]
    assert func.jvp(func.grad(loss), (params,), (params,))[1]["w"].tolist() == [6.0, 24.0]
    assert func.vjp(func.grad(loss), params)[1](params)[0]["w"].tolist() == [6.0, 24.0]
    assert func.hessian(loss)(params)["w"]["w"].tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_functions_of_tensors_say_the_same() -> None:
    of_one: F = lambda y: grad_of_tensors(y, tracked)  # noqa: E731  # short
    of_several: F = lambda y: grad_of_tensors([tracked.sum(), y], tracked)  # noqa: E731  # short
    for use in (of_one, of_several, backward):
        with pytest.raises(errors.KindError, match=r"takes a float tensor or a sequence of them, got .*" + NONE):
            use(nothing(tracked))
    with pytest.raises(errors.KindError, match=r"grad\(inputs=…\) .*" + re.escape(NUMBER)):
        grad_of_tensors(tracked.sum(), 3.0)  # type: ignore[call-overload]  # which is the point


def test_operations_of_ones_own_and_gradcheck_say_the_same() -> None:
    class Nothing(Function):
        @staticmethod
        def forward(ctx: Context, x: Any) -> Any:
            return nothing(x)

    with pytest.raises(errors.KindError, match=r"Nothing\.forward\(\) returned NoneType None as result 0" + NONE):
        Nothing.apply(tracked)
    rule = custom_vjp(nothing)
    rule.defvjp(lambda x: (None, x), lambda x, grad: (grad,))
    with pytest.raises(errors.KindError, match="the fwd of nothing.* as result 0" + NONE):
        rule(tracked)
    with pytest.raises(errors.KindError, match="gradcheck.*result 0 is None" + NONE):
        gradcheck(nothing, x)
