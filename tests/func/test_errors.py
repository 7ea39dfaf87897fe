"""What is said of misuse: it names the function that was called, what it was given, and the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from burnpy import Autodiff, Tensor, func
from burnpy.autodiff import Forward, make_dual, unpack_dual
from burnpy.backend import NumPy, errors

x = Tensor[NumPy].from_data([1.0, 2.0], dtype="float64")
f: Any = lambda x: (x * x).sum()  # noqa: E731  # short
dual = make_dual(x, x)
tracked = Tensor[Autodiff[NumPy]].ones((2,)).require_grad()
nan: Any = None

CASES: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("no function", lambda: func.grad(nan), errors.KindError, "grad() takes a function"),
    ("a tensor in place of it", lambda: func.vjp(tracked, x), errors.KindError, "burnpy.autodiff.grad(outputs, inputs)"),
    ("several elements", lambda: func.grad(lambda x: x)(x), errors.ShapeError, "(2,); reduce it, as with .sum()"),
    ("no element", lambda: func.grad(lambda x: x[:0])(x), errors.ShapeError, "of shape (0,)"),
    ("a number", lambda: func.grad(lambda x: 3.0)(x), errors.KindError, "returned float"),
    ("nothing", lambda: func.value_and_grad(lambda x: None)(x), errors.KindError, "value_and_grad() takes a function"),
    ("a pair", lambda: func.grad(lambda x: (f(x), x))(x), errors.KindError, "say has_aux=True"),
    ("no pair", lambda: func.grad(f, has_aux=True)(x), errors.ArgumentError, "a pair (output, aux), and it returned Tensor()"),
    ("no such argument", lambda: func.grad(f, 1)(x), errors.ArgumentError, "argument 1 (argnums=1)"),
    ("by keyword", lambda: func.grad(f)(x=x), errors.ArgumentError, "called with 0 positional ones"),
    ("twice", lambda: func.grad(f, (0, -1))(x), errors.ArgumentError, "each argument once"),
    ("no arguments", lambda: func.grad(f, ())(x), errors.ArgumentError, "at least one"),
    ("argnums of text", lambda: func.jacrev(f, "x")(x), errors.ArgumentError, "int or a tuple of ints"),  # type: ignore[arg-type]  # which is the point
    ("ints", lambda: func.grad(lambda i: f(i.float()))(x.int()), errors.KindError, "IntTensor(2,) of dtype int64; only float"),
    ("numbers", lambda: func.jvp(f, (2.0,), (1.0,)), errors.KindError, "holds 2.0"),
    ("an int output", lambda: func.vjp(lambda x: x.int(), x), errors.KindError, "returned IntTensor(2,)"),
    ("no tensors", lambda: func.grad(lambda t: x.sum())([]), errors.KindError, "no tensor to work with"),
    (
        "tangents of another structure",
        lambda: func.jvp(lambda t: t["a"], ({"a": x},), ({"b": x},)),
        errors.ArgumentError,
        "tangents of structure ({'b': Tensor(2,)},) for primals of structure ({'a': Tensor(2,)},)",
    ),
    ("lists for tuples", lambda: func.jvp(f, [x], [x]), errors.ArgumentError, "jvp() takes primals as the tuple"),  # type: ignore[call-overload]  # which is the point
    ("too few tangents", lambda: func.linearize(lambda x, y: x, x, x)[1](x), errors.ArgumentError, "(Tensor(2,), Tensor(2,))"),  # type: ignore[arg-type, call-arg]  # which is the point
    ("a tangent's shape", lambda: func.jvp(f, x, x[:1]), errors.ShapeError, "it must have shape (2,)"),
    ("a tangent's dtype", lambda: func.jvp(f, x, x.float()), errors.ShapeError, "dtype float32; it must"),
    ("a tangent's kind", lambda: func.jvp(f, x, x.int()), errors.KindError, "number 0 is no float tensor"),  # type: ignore[call-overload]  # which is the point
    ("a cotangent's shape", lambda: func.vjp(lambda x: x, x)[1](x[0]), errors.ShapeError, "the pullback of vjp() was given"),
    ("a cotangent's structure", lambda: func.vjp(lambda x: [x], x)[1](x), errors.ArgumentError, "for the output of structure [Tensor(2,)]"),  # type: ignore[arg-type]  # which is the point
    ("hvp of a vector", lambda: func.hvp(lambda x: x, x, x), errors.ShapeError, "hvp() takes a function that returns one element"),
    ("vhp's vector", lambda: func.vhp(f, x, x[:1]), errors.ShapeError, "vhp() was given a vector"),
    ("the mode", lambda: func.jacobian(f, mode="sideways"), errors.ArgumentError, '"reverse" or "forward"'),  # type: ignore[call-overload]  # which is the point
    ("the chunk size", lambda: func.jacfwd(f, chunk_size=0), errors.ArgumentError, "jacfwd() was given chunk_size=0"),
    ("registered twice", lambda: func.register_tree(dict, nan, nan), errors.ArgumentError, "dict, which is registered"),
    ("two devices", lambda: func.jvp(lambda x, y: x, (x, tracked), (x, tracked)), errors.DeviceError, "jvp() was asked of tensors"),
    ("a dual of two shapes", lambda: make_dual(x, x[:1]), errors.ShapeError, "the tangent must be of the same"),
    ("a dual of numbers", lambda: make_dual(x, 1.0), errors.KindError, "make_dual() takes two float tensors"),  # type: ignore[arg-type]  # which is the point
    ("no dual", lambda: unpack_dual(x), errors.NotTrackedError, "unpack_dual() takes a Tensor on Forward"),  # type: ignore[arg-type]  # which is the point
    ("backward of a dual", lambda: f(dual).backward(), errors.NotTrackedError, "unpack_dual(x)"),
    ("a dual and a plain tensor", lambda: dual * x, errors.DeviceError, "Forward[NumPy] and NumPy"),  # type: ignore[operator]  # which is the point
    ("a dual out of its device", lambda: dual.to_device(NumPy), errors.NotTrackedError, "tracked"),
    ("Forward of nothing", lambda: Forward(), errors.DeviceError, "Forward"),  # type: ignore[call-arg]  # which is the point
]  # fmt: skip


@pytest.mark.parametrize(("use", "error", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_misuse(use: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        use()
