"""`scan` in eager mode: against Python loops bit for bit, its derivatives in both modes, trees, and mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import burnpy.func as func
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, manual_seed, stack
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.func import scan
from burnpy.nn import Linear
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

rng = np.random.default_rng(0)
Train = Autodiff[NumPy]


def x64(*shape: int) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(rng.normal(size=shape), dtype="float64")


def rnn(w: Any, h: Any, xs: Any, **options: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = (h @ w + x).tanh()
        return h, h.square()

    return scan(step, h, xs, **options)


def unrolled(w: Any, h: Any, xs: Any, reverse: bool = False) -> Any:
    ys: list[Any] = []
    slices = xs.unbind(0)
    for x in slices[::-1] if reverse else slices:
        h = (h @ w + x).tanh()
        ys.append(h.square())
    return h, stack(ys[::-1] if reverse else ys)


def same(found: Any, want: Any) -> None:
    assert found.shape == want.shape
    assert found.to_numpy().tobytes() == want.to_numpy().tobytes()


@every_row("reverse", [False, True])
@every_row("every", [None, 1, 3, 4, 100])
def test_scan_has_the_bits_of_a_loop(reverse: bool, every: int | None) -> None:
    w, h, xs = x64(3, 3), x64(2, 3), x64(10, 2, 3)
    for found, want in zip(rnn(w, h, xs, reverse=reverse, every=every), unrolled(w, h, xs, reverse), strict=True):
        same(found, want)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("every", [None, 3])
def test_gradients_have_the_bits_of_a_loop(reverse: bool, every: int | None) -> None:
    w, h, xs = x64(3, 3), x64(2, 3), x64(10, 2, 3)

    def loss(f: Callable[..., Any], **options: Any) -> Any:
        def of(w: Any, h: Any, xs: Any) -> Any:
            last, ys = f(w, h, xs, reverse=reverse, **options)
            return last.sum() + (ys * ys).sum()

        return func.grad(of, (0, 1, 2))

    for found, want in zip(loss(rnn, every=every)(w, h, xs), loss(unrolled)(w, h, xs), strict=True):
        same(found, want)


@pytest.mark.parametrize("every", [None, 2])
def test_derivatives_to_second_order(every: int | None) -> None:
    inputs = [x.require_grad() for x in (Tensor[Train].from_inner(x64(2, 2)), Tensor[Train].from_inner(x64(1, 2)))]
    xs = Tensor[Train].from_inner(x64(5, 1, 2)).require_grad()
    assert gradcheck(lambda *args: rnn(*args, every=every), [*inputs, xs])
    if every is None:
        double = [Tensor[Autodiff[Train]].from_inner(x.detach()).require_grad() for x in (*inputs, xs)]
        assert gradgradcheck(rnn, double)


def test_forward_mode_and_hessians() -> None:
    w, h, xs, t = x64(2, 2), x64(1, 2), x64(4, 1, 2), x64(2, 2)
    found = func.jvp(lambda w: rnn(w, h, xs), w, t)[1]
    want = func.jvp(lambda w: unrolled(w, h, xs), w, t)[1]
    for a, b in zip(found, want, strict=True):
        same(a, b)
    hessians = [func.hessian(lambda w, f=f: f(w, h, xs)[1].sum())(w) for f in (rnn, unrolled)]
    np.testing.assert_allclose(hessians[0].to_numpy(), hessians[1].to_numpy(), rtol=1e-12)


def test_trees_of_all_kinds() -> None:
    class State(NamedTuple):
        total: Any
        count: Any

    def step(carry: Any, x: Any) -> Any:
        state, seen = carry["state"], carry["seen"]
        new = {"seen": seen | (x["b"] > 0), "state": State(state.total + x["a"], state.count + 1)}
        return new, {"total": new["state"].total, "pair": (new["state"].count, new["seen"])}

    a, b = x64(3, 2), IntTensor[NumPy].from_data([0, 0, 1])
    carry = {"state": State(x64(2), IntTensor[NumPy].from_data(0)), "seen": BoolTensor[NumPy].from_data(False)}
    last, ys = scan(step, carry, {"a": a, "b": b})
    assert isinstance(last["state"], State)
    assert last["state"].count.item() == 3
    assert ys["pair"][0].tolist() == [1, 2, 3]
    assert ys["pair"][1].tolist() == [False, False, True]
    assert ys["total"].shape == (3, 2)


def test_length_without_slices_and_results_of_none() -> None:
    last, ys = scan(lambda c, x: (c * 2.0, None), Tensor[NumPy].from_data(1.0), None, length=5)
    assert last.item() == 32.0
    assert ys is None


def test_no_steps() -> None:
    xs, c = Tensor[NumPy].zeros((0, 3)), Tensor[NumPy].from_data([1.0, 2.0, 3.0])
    last, (y, k) = scan(lambda c, x: (c + x, (c.sum(), IntTensor[NumPy].from_data([1, 2]))), c, xs)
    same(last, c)
    assert (y.shape, k.shape, k.dtype.name) == ((0,), (0, 2), "int64")


def test_slices_that_are_empty_or_views() -> None:
    xs = x64(3, 4).transpose(0, 1)
    same(scan(lambda c, x: (c, x), x64(), xs)[1], xs)
    assert scan(lambda c, x: (c, x), x64(), x64(4, 0, 2))[1].shape == (4, 0, 2)


def test_modules_are_carried() -> None:
    manual_seed(0)
    model = Linear(2, 2, device=NumPy)
    xs = x64(3, 2).to_dtype("float32")
    last, ys = scan(lambda m, x: (m, m(x)), model, xs)
    assert isinstance(last, Linear)
    np.testing.assert_allclose(ys.to_numpy(), model(xs).to_numpy(), rtol=1e-6)


def test_random_numbers_of_sections_are_drawn_again() -> None:
    x = Tensor[Train].from_data([1.0, 2.0]).require_grad()

    def loss(every: int | None) -> Any:
        manual_seed(3)
        return scan(lambda c, _: (c * Tensor[Train].uniform((2,)), None), x, None, length=6, every=every)[0].sum()

    same(loss(None).backward()[x], loss(2).backward()[x])


def test_mistakes_are_explained() -> None:
    c, xs = Tensor[NumPy].zeros((2,)), Tensor[NumPy].zeros((3, 2))
    anything: Any = scan
    f: Any = lambda c, x: (c, x)  # noqa: E731
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (KindError, "scan() takes a function of the carry and a slice", lambda: anything(c, c, xs)),
        (KindError, "carry['a'] is 0.0", lambda: scan(f, {"a": 0.0}, xs)),
        (ArgumentError, "no xs and no length=", lambda: scan(f, c, None)),
        (ArgumentError, "length=-1", lambda: scan(f, c, None, length=-1)),
        (KindError, "int as length", lambda: anything(f, c, None, length=2.5)),
        (ArgumentError, "every=0", lambda: scan(f, c, xs, every=0)),
        (ShapeError, "3 slices of xs (shape (3, 2)) and length=4", lambda: scan(f, c, xs, length=4)),
        (ShapeError, "2 slices of xs[1] (shape (2,)) and 3 of xs[0]", lambda: scan(f, c, (xs, c))),
        (ShapeError, "xs without dims", lambda: scan(f, c, c.sum())),
        (ArgumentError, "a pair (carry, result)", lambda: anything(lambda c, x: c, c, xs)),
        (
            ShapeError,
            "got shape () as the new carry[0], which",
            lambda: scan(lambda c, x: ((c[0].sum(),), x), (c,), xs),
        ),
        (DTypeError, "got dtype float64 as the new carry", lambda: scan(lambda c, x: (c.double(), x), c, xs)),
        (KindError, "got IntTensor as the new carry", lambda: anything(lambda c, x: (c.int(), x), c, xs)),
        (ArgumentError, "as the new carry, which must have", lambda: anything(lambda c, x: ((c, c), x), c, xs)),
    ]
    for error, message, call in cases:
        with pytest.raises(error, match=re.escape(message)):
            call()


def test_results_of_two_shapes_are_refused() -> None:
    sizes = iter([1, 2])
    with pytest.raises(ShapeError, match="results of shapes"):
        scan(lambda c, x: (c, Tensor[NumPy].zeros((next(sizes),))), x64(2), x64(2, 2))
