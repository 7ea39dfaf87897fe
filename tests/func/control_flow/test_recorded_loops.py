"""Loops and branches of compiled functions: against eager mode, with other values in each replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy.func as func
from burnpy import Autodiff, IntTensor, Tensor, cat, compiled, manual_seed, stack, where
from burnpy.autodiff import Function, custom_vjp
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, RecordingError, ShapeError
from burnpy.backend.plans.plan import OperationPart
from burnpy.func import cond, scan, while_loop
from burnpy.func.pytree import flatten
from burnpy.nn import Linear
from burnpy_numpy.kernels.kernel import kernels_enabled
from tests.rows import every_row

rng = np.random.default_rng(0)
Train = Autodiff[NumPy]


def x64(*shape: int) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(rng.normal(size=shape), dtype="float64")


def agree(f: Callable[..., Any], *calls: tuple[Any, ...], nodes: int | None = None) -> None:
    """Compare a compiled function with the function itself, for several arguments of one kind."""
    fast = compiled(f)
    for args in (*calls, *calls):
        found, want = fast(*args), f(*args)
        for a, b in zip(*(flatten(tree)[0] for tree in (found, want)), strict=True):
            np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=1e-10, atol=1e-12)
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            assert a.device is b.device
    assert len(fast.plans) == 1
    if nodes is not None:
        assert fast.plans[0].recorded <= nodes


def rnn(w: Any, h: Any, xs: Any, **options: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = (h @ w + x).tanh()
        return h, h.square()

    return scan(step, h, xs, **options)


def loss(w: Any, h: Any, xs: Any, **options: Any) -> Any:
    last, ys = rnn(w, h, xs, **options)
    return last.sum() + (ys * ys).sum()


def arguments(steps: int = 12) -> tuple[Any, ...]:
    return x64(3, 3), x64(2, 3), x64(steps, 2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("every", [None, 1, 5])
def test_scan_is_one_operation(reverse: bool, every: int | None) -> None:
    options: Any = {"reverse": reverse, "every": every}
    agree(lambda *args: rnn(*args, **options), arguments(), arguments(), nodes=100)
    agree(func.grad(lambda *args: loss(*args, **options), (0, 1, 2)), arguments(), arguments(), nodes=200)


def test_every_value_that_is_differentiated_alone() -> None:
    for argnums in (0, 1, 2, (1, 2)):
        agree(func.grad(loss, argnums), arguments(), arguments(), nodes=60)


def test_forward_mode_is_a_loop() -> None:
    for k in range(3):

        def pushed(w: Any, h: Any, xs: Any, k: int = k) -> Any:
            args = [w, h, xs]

            def of(x: Any) -> Any:
                given = [*args[:k], x, *args[k + 1 :]]
                return rnn(given[0], given[1], given[2])

            return func.jvp(of, args[k], args[k] * 0.5)

        agree(pushed, arguments(), arguments(), nodes=40)


@pytest.mark.slow
def test_second_derivatives_and_linearize() -> None:
    xs = x64(4, 2)
    f = lambda x: scan(lambda c, y: ((c * x + y).sin(),) * 2, x, xs)[1].sum()  # noqa: E731
    agree(lambda x: func.hessian(f)(x), (x64(2),), (x64(2),))
    agree(lambda x: func.hvp(f, x, x * 2.0), (x64(2),))


def test_backward_of_models() -> None:
    manual_seed(0)
    model = Linear(3, 3, device=Train)
    inputs = [Tensor[Train].from_data(rng.normal(size=(9, 2, 3)).astype("float32")) for _ in range(2)]

    def step(model: Any, xs: Any) -> Any:
        last, ys = scan(lambda h, x: ((model(h) + x).tanh(),) * 2, xs[0] * 0.0, xs)
        grads = ((ys * ys).sum() + last.sum()).backward()
        return [grads[p.value] for p in model.params()]

    fast = compiled(step)
    for xs in (*inputs, *inputs):
        for a, b in zip(fast(model, xs), step(model, xs), strict=True):
            np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=1e-4, atol=1e-4)
    assert len(fast.plans) == 1


def test_detached_values_and_custom_rules_keep_their_gradients() -> None:
    @custom_vjp
    def straight(x: Any) -> Any:
        return x.round()

    straight.defvjp(lambda x: (straight(x), None), lambda residuals, grad: (grad * 3.0,))

    def f(w: Any, xs: Any) -> Any:
        return scan(lambda c, x: (straight(c * w) + c.detach() * x * w, c), w, xs)[0]

    agree(func.grad(f, (0, 1)), (x64(), x64(4)), (x64(), x64(4)))


def test_ints_bools_and_checks_of_indices() -> None:
    table, index = x64(5, 2), IntTensor[NumPy].from_data([0, 4, 4, 2])

    def f(table: Any, index: Any) -> Any:
        def step(carry: Any, k: Any) -> Any:
            total, count = carry
            return (
                total + table.index_select(0, k.reshape(1))[0] * (total > 0).float().to_dtype("float64"),
                count + k,
            ), (count, total.sum() > 0)

        return scan(step, (table[0], index[0]), index)

    agree(f, (table, index), (x64(5, 2), index))
    agree(func.grad(lambda table, index: f(table, index)[0][0].sum()), (table, index), (x64(5, 2), index))
    with pytest.raises(IndexError):
        compiled(f)(table, IntTensor[NumPy].from_data([0, 4, 5, 2]))


@pytest.mark.slow
def test_tensors_from_outside_take_indices_from_inside() -> None:
    table, index = x64(5, 2), IntTensor[NumPy].from_data([[0, 4], [2, 2], [1, 0]])
    uses: list[Callable[[Any, Any], Any]] = [
        lambda table, k: table[k].sum(0),
        lambda table, k: table.index_select(0, k).sum(0),
        lambda table, k: table.gather(0, k.reshape(1, 2))[0],
        lambda table, k: where(k > 1, table[0], table[1] * 2.0),
        lambda table, k: table[0].masked_fill(k > 1, 3.0),
    ]
    for use in uses:
        agree(lambda index, use=use: use(table, index[0]), (index,))

        def f(table: Any, index: Any, use: Any = use) -> Any:
            return scan(lambda c, k: (c.sin() + use(table, k), None), table[0], index)[0]

        agree(func.grad(lambda *args, f=f: f(*args).sum()), (table, index), (x64(5, 2), index))


def test_loops_in_loops() -> None:
    def f(w: Any, xs: Any) -> Any:
        def outer(c: Any, x: Any) -> Any:
            inner, ys = scan(lambda d, y: ((d * w + y * c).sin(), d * x.sum()), c, x)
            return inner, ys.sum()

        return scan(outer, w, xs)

    agree(f, (x64(), x64(3, 4)), (x64(), x64(3, 4)), nodes=10)
    agree(func.grad(lambda w, xs: f(w, xs)[0] + f(w, xs)[1].sum(), (0, 1)), (x64(), x64(3, 4)), (x64(), x64(3, 4)))


def test_random_numbers_are_drawn_as_in_eager_mode() -> None:
    def f(x: Any) -> Any:
        noise = lambda c, _: (c * Tensor.uniform(c.shape, dtype=c.dtype, device=c.device), None)  # noqa: E731
        return scan(noise, x, None, length=5)[0]

    x = x64(3)
    for g in (f, func.grad(lambda x: f(x).sum())):
        manual_seed(1)
        want = [g(x).tolist() for _ in range(3)]
        manual_seed(1)
        fast = compiled(g)
        assert [fast(x).tolist() for _ in range(3)] == want
    hoisted = lambda x: scan(lambda c, _: (c * x.uniform((), device=x.device), None), x, None, length=5)[0]  # noqa: E731
    with pytest.raises(RecordingError, match="the same numbers in each step"):
        compiled(hoisted)(x)


def test_results_that_are_arguments_are_copies() -> None:
    def f(x: Any, xs: Any) -> Any:
        (a, b), ys = scan(lambda c, x: ((c[1], c[0]), x), (x, x * 2.0), xs)
        return a + 1.0, b * 3.0, ys, x

    agree(f, (x64(2), x64(3, 2)), (x64(2), x64(3, 2)))


def test_tensors_of_several_origins_are_closed_over() -> None:
    constant, w = x64(2), x64(2)

    def f(xs: Any, c: Any) -> Any:
        doubled = xs.sum(0) * 2.0
        return scan(lambda c, x: (c * constant + x * doubled, c * w), c, xs)

    agree(f, (x64(4, 2), x64(2)), (x64(4, 2), x64(2)))
    agree(func.grad(lambda xs, c: f(xs, c)[0].sum(), (0, 1)), (x64(4, 2), x64(2)), (x64(4, 2), x64(2)))


@pytest.mark.slow
def test_cond_chooses_in_each_replay() -> None:
    def f(x: Any, w: Any) -> Any:
        return cond(x.sum() > 0.0, lambda x: (x * w).sin(), lambda x: x.exp() + w.sum(), x)

    x, w = x64(2).abs(), x64(2)
    agree(f, (x, w), (-x, w))
    agree(func.grad(lambda x, w: f(x, w).square().sum(), (0, 1)), (x, w), (-x, w))
    agree(lambda x, w: func.jvp(lambda x: f(x, w), x, w), (x, w), (-x, w))
    agree(lambda x, w: func.jvp(lambda w: f(x, w), w, x), (x, w), (-x, w))


def test_cond_in_a_scan() -> None:
    def f(w: Any, xs: Any) -> Any:
        return scan(lambda c, x: (cond(x > 0.0, lambda c: (c * w).sin(), lambda c: c + w * x, c), c), w, xs)[1]

    agree(f, (x64(), x64(6)), (x64(), x64(6)))
    agree(func.grad(lambda w, xs: f(w, xs).square().sum(), (0, 1)), (x64(), x64(6)), (x64(), x64(6)))


def test_while_loop_runs_as_long_as_each_value_needs() -> None:
    def f(x: Any, w: Any) -> Any:
        count = IntTensor.zeros((), device=x.device)
        return while_loop(lambda s: (s[0] < 100.0).all(), lambda s: (s[0] * w, s[1] + 1), (x, count))

    x, w = x64(2).abs() + 0.5, x64(2).abs() + 1.5
    agree(f, (x, w), (x * 20.0, w), (x * 1000.0, w))
    agree(lambda x, w: func.jvp(lambda x: f(x, w)[0], x, w), (x, w), (x * 20.0, w))
    agree(lambda x, w: func.jvp(lambda w: f(x, w)[0], w, x), (x, w), (x * 20.0, w))
    agree(func.grad(lambda x, w: f(x, w)[0].sum(), (0, 1)), (x, w), (x * 20.0, w), (x * 1000.0, w))


def test_gradients_of_a_while_loop() -> None:
    """By the state, by closures, and where some leaves depend on them after some steps only."""

    def f(x: Any, w: Any, start: Any) -> Any:
        def step(s: Any) -> Any:
            return {"x": s["x"] * w + s["lag"], "lag": s["x"].sum() * 0.1, "count": s["count"] + 1.0}

        state = {"x": x, "lag": start, "count": start * 0.0}
        last = while_loop(lambda s: (s["x"].abs() < w * 50.0).all(), step, state)
        return last["x"].sum() * last["lag"] + last["count"]

    x, w, start = x64(2).abs() + 0.5, x64(2).abs() + 1.5, x64()
    agree(func.grad(f, (0, 1, 2)), (x, w, start), (x * 20.0, w, start), (x * 1000.0, w, start))
    agree(lambda x, w: func.scan(lambda h, y: (f(h + y, w, y) * x, None), x, x, length=2)[0].sum(), (x, w))
    large = x64(80).abs() + 0.5
    agree(
        func.grad(lambda x, w: while_loop(lambda x: x.sum() < 1e4, lambda x: x * w.sum(), x).sum(), (0, 1)), (large, w)
    )
    noisy = compiled(func.grad(lambda x: while_loop(lambda x: x < 9.0, lambda x: x + x.uniform_like(), x)))
    for wrong, words in ((noisy, "draw random numbers"), (compiled(func.hessian(lambda x: f(x, w, start))), "several")):
        with pytest.raises(RecordingError, match=words):
            wrong(x64() if wrong is noisy else x)


@pytest.mark.slow
def test_while_loops_of_any_length() -> None:
    """Steps on few elements run ahead of their condition, many at a time; one leaf stays, and one is a bool."""

    def f(x: Any, end: Any, still: Any) -> Any:
        def step(s: Any) -> Any:
            count, y, unchanged, odd = s
            return count + 1.0, (y * 0.99 + unchanged * x).sin(), unchanged, ~odd

        start = (end * 0.0, x, still, end < -1.0)
        count, y, _, odd = while_loop(lambda s: s[0] < end, step, start)
        return y.sum() + count * x.sum() + where(odd, x[0], 0.0)

    cases = [(x64(3), Tensor[NumPy].from_data(end), x64(3)) for end in (0.0, 1.0, 9.0, 10.0, 11.0, 17.0, 18.0, 700.0)]
    agree(f, *cases)
    agree(func.grad(f, (0, 2)), *cases)


def test_steps_on_few_elements_are_one_kernel() -> None:
    def step(state: Any, x: Any) -> Any:
        a, mask = state
        b = stack([a[0, 1] * x, a[1, 0].exp(), x / 3.0]).reshape(3, 1).expand(3, 2)
        c = (cat([b.T, a.flip(0) @ a + (a @ a.T)], 1) + (a[0] @ a[1])).tanh()
        low = c.amin(1, keepdim=True) + c.amax((0, 1)) + c.mean() + c.sum(0)[2]
        new = where(mask & (low > 0.0).any(), low.square().sqrt() * 0.3, low.tanh()).expand(2, 2) + a.detach()
        return (new * 0.5, ~mask | (a > 0.0).all()), c.sum()

    def f(a: Any, xs: Any) -> Any:
        return scan(step, (a, a.sum() > 0.0), xs)

    a, xs = x64(2, 2), x64(5)
    agree(f, (a, xs), (-a, xs))
    agree(func.grad(lambda a, xs: (f(a, xs)[1] * xs).sum(), (0, 1)), (a, xs), (a + 1.0, -xs))
    fast = compiled(f)
    fast(a, xs)
    (body,) = [part.inside[0] for part in fast.plans[0].parts if isinstance(part, OperationPart) and part.inside]
    assert [part.name for part in body.parts] == ["unrolled"] or not kernels_enabled()


def test_eager_branches() -> None:
    x = Tensor[Train].from_data([3.0]).require_grad()
    doubled = while_loop(lambda x: (x < 100.0).all(), lambda x: x * 2.0, x)
    assert doubled.sum().backward()[x].tolist() == [64.0]
    assert cond(x.sum() > 0.0, lambda x: x * 2.0, lambda x: x, x).sum().backward()[x].tolist() == [2.0]
    assert cond(False, lambda x: x * 2.0, lambda x: x + 1.0, x).tolist() == [4.0]


def test_compiling_takes_as_long_for_many_steps() -> None:
    counts = []
    for steps in (20, 2000):
        fast = compiled(func.grad(loss))
        fast(*arguments(steps))
        counts.append(fast.plans[0].recorded)
    assert counts[0] == counts[1]


def test_the_check_of_compiled_looks_into_loops() -> None:
    factors = iter(range(1, 10))

    def f(xs: Any) -> Any:
        factor = float(next(factors))
        return scan(lambda c, x: (c * factor + x, None), xs[0], xs)[0]

    with pytest.raises(RecordingError, match="check=True"):
        compiled(f, check=True, captured="constant")(x64(3))
    compiled(lambda xs: scan(lambda c, x: (c + x, None), xs[0], xs)[0], check=True, captured="constant")(x64(3))


class Rescaled(Function):
    """A function whose forward() has a loop, a scan and a choice."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        x = while_loop(lambda c: c.square().sum() > 1.0, lambda c: c * 0.5, x)
        x = scan(lambda c, _: (c * 2.0, None), x, None, length=3)[0]
        return cond(x.sum() > 0.0, lambda x: x * x, lambda x: -x * x, x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * scan(lambda c, y: (c + y, None), x, x)[0] * x


def test_second_derivatives_of_a_function_with_loops() -> None:
    """forward() then runs on a level of its own, which the recordings of its loops nest too."""
    slopes = func.grad(lambda x: Rescaled.apply(x).sum())
    agree(func.grad(lambda x: slopes(x).square().sum()), (x64(3),), (x64(3),))


def tangents_of_tangents(x: Any) -> Any:
    """A scan in a choice that two levels differentiate in forward mode."""

    def chosen(x: Any) -> Any:
        return cond(x.sum() > 0.0, lambda x: scan(lambda c, y: (c * y + x, None), x, x)[0], Tensor.abs, x)

    return func.jvp(lambda y: func.jvp(chosen, y, x)[1], x, x)[1]


def test_second_derivatives_of_a_choice() -> None:
    """Both branches are computed, and what the other one computes changes nothing, as the root of a negative number."""
    root, scale = x64(3).abs(), x64()

    def chosen(x: Any) -> Any:
        return cond(x.sum() > 0.0, lambda x: (x.sqrt() * root * scale).sum(), lambda x: (scale * x).sin().sum(), x)

    calls = [(x64(3).abs(),), (-x64(3).abs(),)]
    agree(lambda x: func.hvp(chosen, x, x)[1], *calls)
    agree(func.hessian(chosen, mode="forward-over-forward"), *calls)
    agree(lambda x: func.vmap(func.hessian(chosen))(x), *[(x * x64(2, 1).square(),) for (x,) in calls])
    agree(lambda x: func.jvp(func.grad(lambda x: chosen(chosen(x) * x)), x, x)[1], *calls)
    agree(tangents_of_tangents, *calls)


def test_mistakes_are_explained() -> None:
    x = x64(2)
    cases: list[tuple[type[Exception], str, Callable[..., Any]]] = [
        (ShapeError, "as the result of the first", lambda x: cond(x.sum() > 0, abs, Tensor.sum, x)),
        (DTypeError, "dtype float64 as the result", lambda x: cond(x.sum() > 0, abs, lambda x: x.float(), x)),
        (ArgumentError, "the same structure", lambda x: cond(x.sum() > 0, lambda x: x, lambda x: (x, x), x)),
        (KindError, "BoolTensor of shape \\(\\) as predicate", lambda x: cond(x.sum(), abs, abs, x)),
        (ShapeError, "got shape \\(2,\\)", lambda x: cond(x > 0, abs, abs, x)),
        (KindError, "BoolTensor of shape \\(\\) as condition", lambda x: while_loop(Tensor.sum, abs, x)),
        (ShapeError, "new state", lambda x: while_loop(lambda x: x.sum() > 0, Tensor.sum, x.abs())),
        (
            RecordingError,
            "draws random numbers",
            lambda x: func.hvp(
                lambda x: cond(x.sum() > 0, lambda x: (x * x.normal_like()).sum(), Tensor.norm, x), x, x
            ),
        ),
        (RecordingError, "cannot read a tensor's value", lambda x: scan(lambda c, y: (c, bool(y)), x, x)),
    ]
    for error, message, f in cases:
        with pytest.raises(error, match=message):
            compiled(f)(x)


CAPTURED: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda w, xs: scan(lambda c, x: (c - func.grad(lambda w: (c * w * x).sin().sum())(w), None), xs[0], xs)[0],
    "jvp": lambda w, xs: scan(lambda c, x: (c - func.jvp(lambda w: (c * w * x).sin(), w, w)[1], None), xs[0], xs)[0],
    "vmap": lambda w, xs: scan(lambda c, x: (c - func.vmap(lambda u: u * (c * x).sum())(w), None), xs[0], xs)[0],
    "hessian": lambda w, xs: cond(
        xs.sum() > 0.0, lambda x: func.hessian(lambda w: (w * x).sin().sum())(w), lambda x: x, xs[0].diag()
    ),
    "while_loop": lambda w, xs: while_loop(
        lambda c: c.sum() < 9.0, lambda c: c + 2.0 + func.grad(lambda w: (w * c).sin().sum())(w).sin(), xs[1]
    ),
    "cond": lambda w, xs: scan(lambda c, x: (cond(w.sum() > 0.0, lambda w: w * c, lambda w: c, w), None), xs[0], xs)[0],
    "scan": lambda w, xs: scan(lambda c, x: (c + scan(lambda d, q: (d + q * c, None), w, w)[0], None), xs[0], xs)[0],
}


@every_row("name", CAPTURED)
def test_functions_of_captured_values_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Derivatives, loops and branches of captured values combine with the values of the body that takes them."""
    monkeypatch.setenv("BURNPY_COMPILE", "0")  # what is compiled is the same, and takes longer
    f = CAPTURED[name]
    calls = [(x64(3), x64(4, 3)) for _ in range(2)]
    agree(f, *calls)
    if name in ("grad", "scan"):
        agree(func.grad(lambda w, xs: f(w, xs).sum(), (0, 1)), *calls[:1])
