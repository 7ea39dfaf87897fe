"""Errors for misuse: they name the function that was called, its argument, and the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import burnpy.func
from burnpy import Autodiff, Tensor, autodiff
from burnpy.backend import NumPy, errors
from burnpy.nn import Param
from tests.rows import every_row

func: Any = burnpy.func  # types would refuse most of this before it runs
make_dual: Any = autodiff.make_dual
unpack_dual: Any = autodiff.unpack_dual
Forward: Any = autodiff.Forward
x: Any = Tensor[NumPy].from_data([1.0, 2.0], dtype="float64")
f: Any = lambda x: (x * x).sum()  # noqa: E731  # short
dual = make_dual(x, x)
tracked: Any = Tensor[Autodiff[NumPy]].ones((2,)).require_grad()
nan: Any = None
WEIGHT: Any = Param(Tensor[Autodiff[NumPy]].ones((2,)))
E, S, K = errors.ArgumentError, errors.ShapeError, errors.KindError

CASES: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("no function", lambda: func.grad(nan), K, "grad() takes a function"),
    ("a tensor in place of it", lambda: func.vjp(tracked, x), K, "burnpy.autodiff.grad(outputs, inputs)"),
    ("several elements", lambda: func.grad(lambda x: x)(x), S, "(2,); reduce it, as with .sum()"),
    ("no element", lambda: func.grad(lambda x: x[:0])(x), S, "of shape (0,)"),
    ("a number", lambda: func.grad(lambda x: 3.0)(x), K, "returned float"),
    ("nothing", lambda: func.value_and_grad(lambda x: None)(x), K, "value_and_grad() takes a function"),
    ("a pair", lambda: func.grad(lambda x: (f(x), x))(x), K, "say has_aux=True"),
    ("no pair", lambda: func.grad(f, has_aux=True)(x), E, "a pair (output, aux), and it returned Tensor()"),
    *(
        (f"tensors as argnums of {name}", lambda name=name: getattr(func, name)(f, x), K, f"{name}(f)(x)")
        for name in ("grad", "value_and_grad", "jacobian", "jacrev", "jacfwd", "hessian")
    ),
    ("a parameter", lambda: autodiff.grad(tracked.sum(), WEIGHT), K, "a parameter holds a tensor: give its .value"),
    ("no such argument", lambda: func.grad(f, 1)(x), E, "cannot differentiate argument 1 (argnums=1)"),
    ("by keyword", lambda: func.grad(f)(x=x), E, "called with 0 by position"),
    ("twice", lambda: func.grad(f, (0, -1))(x), E, "each argument once"),
    ("no primals", lambda: func.vjp(lambda: x), E, "vjp() got no argument to differentiate; give"),
    ("tracked elsewhere", lambda: func.grad(lambda y: f(y * tracked))(x), errors.DeviceError, "give it x.inner(), or"),
    ("no arguments", lambda: func.grad(f, ())(x), E, "at least one"),
    ("argnums of text", lambda: func.jacrev(f, "x")(x), E, "int or a tuple of ints"),
    ("ints", lambda: func.grad(lambda i: f(i.float()))(x.int()), K, "IntTensor(2,) of dtype int64; only float"),
    ("numbers", lambda: func.jvp(f, (2.0,), (1.0,)), K, "holds 2.0"),
    ("an int output", lambda: func.vjp(lambda x: x.int(), x), K, "returned IntTensor(2,)"),
    ("no tensors", lambda: func.grad(lambda t: x.sum())([]), K, "no tensor to work with"),
    (
        "tangents of another structure",
        lambda: func.jvp(lambda t: t["a"], ({"a": x},), ({"b": x},)),
        E,
        "tangents of structure ({'b': Tensor(2,)},) for primals of structure ({'a': Tensor(2,)},)",
    ),
    ("lists for tuples", lambda: func.jvp(f, [x], [x]), E, "jvp() takes primals as the tuple"),
    ("too few tangents", lambda: func.linearize(lambda x, y: x, x, x)[1](x), E, "(Tensor(2,), Tensor(2,))"),
    ("a tangent's shape", lambda: func.jvp(f, x, x[:1]), S, "expected shape (2,)"),
    ("a tangent's dtype", lambda: func.jvp(f, x, x.float()), S, "dtype float32, expected"),
    ("a tangent's kind", lambda: func.jvp(f, x, x.int()), K, "leaf 0 is not a float tensor"),
    ("a cotangent's shape", lambda: func.vjp(lambda x: x, x)[1](x[0]), S, "the pullback of vjp() got"),
    ("a cotangent's structure", lambda: func.vjp(lambda x: [x], x)[1](x), E, "the output of structure [Tensor(2,)]"),
    ("hvp of a vector", lambda: func.hvp(lambda x: x, x, x), S, "hvp() takes a function"),
    ("vhp's vector", lambda: func.vhp(f, x, x[:1]), S, "vhp() got a vector"),
    ("the Hessian's mode", lambda: func.hessian(f, mode="reverse"), E, 'expected one of "forward-over-reverse", "'),
    ("the mode", lambda: func.jacobian(f, mode="sideways"), E, '"reverse" or "forward"'),
    ("an array as the mode", lambda: func.jacobian(f, mode=x.to_numpy()), E, '"reverse" or "forward"'),
    ("the chunk size", lambda: func.jacfwd(f, chunk_size=0), E, "jacfwd() got chunk_size=0"),
    ("registered twice", lambda: func.register_tree(dict, nan, nan), E, "dict, which is registered"),
    ("registered by no function", lambda: func.register_tree(float, abs, nan), K, "a class and two functions, got"),
    ("two devices", lambda: func.vjp(lambda x, y: x, x, tracked), errors.DeviceError, "vjp() got"),
    ("a dual of two shapes", lambda: make_dual(x, x[:1]), S, "the tangent must have the values' shape"),
    ("a dual of numbers", lambda: make_dual(x, 1.0), K, "make_dual() takes two float tensors"),
    ("no dual", lambda: unpack_dual(x), errors.NotTrackedError, "unpack_dual() takes a Tensor on Forward"),
    ("backward of a dual", lambda: f(dual).backward(), errors.NotTrackedError, "unpack_dual(x)"),
    ("a dual and a plain tensor", lambda: dual * x, errors.DeviceError, "Forward[NumPy] (the first) and NumPy (the"),
    ("a dual out of its device", lambda: dual.to_device(NumPy), errors.NotTrackedError, "tracked"),
    ("Forward of nothing", lambda: Forward(), errors.DeviceError, "Forward"),
]  # fmt: skip


def test_names_of_pytorchs_and_others() -> None:
    with pytest.raises(AttributeError, match="value_and_grad"):
        func.grad_and_value
    with pytest.raises(AttributeError, match=r"burnpy\.func has no other$"):
        func.other


@every_row(("use", "error", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_misuse(use: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        use()
