"""Branches and loops under `vmap`: each example has its own branch, and its own number of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from burnpy import BoolTensor, IntTensor, Tensor, compiled, func, manual_seed, nn, stack
from burnpy.autodiff import no_grad
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, DTypeError, RecordingError, ShapeError
from burnpy.func.pytree import flatten
from tests.rows import every_row

rng = np.random.default_rng(0)
anything: Any = func  # checkers cannot infer lambdas in lambdas
cond, grad, hessian, jvp = anything.cond, anything.grad, anything.hessian, anything.jvp
scan, vmap, while_loop, jacfwd = anything.scan, anything.vmap, anything.while_loop, anything.jacfwd


def x64(*shape: int) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(rng.normal(size=shape), dtype="float64")


X, Y = x64(6, 3), x64(6, 3)
PLACES = IntTensor[NumPy].from_data([0, 2, 1, 0, 2, 2])
ZERO = IntTensor[NumPy].from_data(0)


def close(found: Any, want: Any) -> None:
    a, b = np.asarray(found), np.asarray(want)
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def branches(x: Any) -> Any:
    return cond(x.sum() > 0.0, lambda a: a.sin() * x, lambda a: a.exp() + x[0], x)


def step(c: Any, x: Any) -> tuple[Any, Any]:
    c = (c * x + 0.5).tanh()
    return c, c.square()


def folded(x: Any) -> Any:
    return scan(step, x[0], x)[1].sum()


def loop(x: Any) -> Any:
    """Grow for a number of steps that depends on x."""
    return while_loop(lambda s: s[0] < 10.0, lambda s: (s[0] * 1.5 + s[1], s[1]), (x[0].abs(), x[1].abs() + 0.1))[0]


def counted(x: Any) -> Any:
    return while_loop(lambda s: s[0].sum() < 20.0, lambda s: (s[0] * 2.0, s[1] + 1), (x.abs(), ZERO))[1]


ONE_BY_ONE: dict[str, Callable[[Any], Any]] = {
    "cond": branches,
    "cond with one predicate for all": lambda x: cond(X[0, 0] > 0.0, lambda a: a.sin(), lambda a: -a, x),
    "cond, a branch that no example changes": lambda x: cond(
        x[0] > 0.0, lambda a: a, lambda a: Tensor[NumPy].zeros((3,), dtype="float64"), x
    ),
    "cond of ints and bools": lambda x: cond(x[0] > 0.0, lambda a: (a > 0.0, 1 + ZERO), lambda a: (a < 1.0, ZERO), x)[
        0
    ],
    "gradient of cond": grad(lambda x: branches(x).sum()),
    "Hessian of cond": hessian(lambda x: branches(x).sum()),
    "cond in cond": lambda x: cond(x[0] > 0.0, branches, lambda a: -branches(a), x),
    "cond of a numeric operand": lambda x: cond(x[0] > 0.0, lambda a, k: a * k, lambda a, k: a + k, x, 3.0),
    "while_loop": loop,
    "while_loop that counts": counted,
    "while_loop with one condition for all": lambda x: while_loop(
        lambda s: s[1] < 3, lambda s: (s[0] * 2.0, s[1] + 1), (x, ZERO)
    )[0],
    "gradient of while_loop": grad(loop),
    "tangent of while_loop": lambda x: jvp(loop, x, x)[1],
    "Hessian of while_loop": hessian(lambda x: loop(x).sin()),
    "while_loop in while_loop": lambda x: while_loop(
        lambda s: s.sum() < 10.0, lambda s: while_loop(lambda t: t[0].abs() < 1.0, lambda t: t * 2.0, s) + 1.0, x
    ),
    "scan": folded,
    "gradient of scan": grad(folded),
    "scan of cond": lambda x: scan(
        lambda c, z: (cond(z > 0.0, lambda c: (c * z).sin(), lambda c: c + z, c), c), x[0], x
    )[1],
}


@every_row("name", ONE_BY_ONE)
def test_it_equals_one_call_for_each_example(name: str) -> None:
    f = ONE_BY_ONE[name]
    close(vmap(f)(X), np.stack([np.asarray(f(X[k])) for k in range(6)]))


def folds(a: Any) -> Any:
    return cond(a > 0.0, lambda b: b.sin(), lambda b: -b, a)


def grows(a: Any) -> Any:
    return while_loop(lambda s: s < 10.0, lambda s: s * 1.5 + 1.0, a.abs())


def test_nested() -> None:
    values = np.asarray(X)
    close(vmap(vmap(folds))(X), np.where(values > 0.0, np.sin(values), -values))
    want = [[float(grows(X[k, j]).item()) for j in range(3)] for k in range(6)]
    close(vmap(vmap(grows))(X), want)
    close(compiled(vmap(vmap(grows)))(X), want)


def test_the_branch_that_is_not_chosen_does_not_spoil_gradients() -> None:
    def root(x: Any) -> Any:
        return cond(x > 0.0, lambda a: a.sqrt(), lambda a: a * 0.5, x)

    def last(x: Any) -> Any:
        return while_loop(lambda s: s > 0.0, lambda s: s.sqrt() - 5.0, x)

    x = Tensor[NumPy].from_data([4.0, -1.0, 0.0, 9.0])
    want = [0.25, 0.5, 0.5, 1 / 6]
    for found in (vmap(grad(root))(x), grad(lambda x: vmap(root)(x).sum())(x), jvp(vmap(root), x, x * 0.0 + 1.0)[1]):
        np.testing.assert_allclose(found.to_numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(grad(lambda x: vmap(last)(x).sum())(x).to_numpy(), [0.25, 1.0, 1.0, 1 / 6], rtol=1e-6)
    flags = BoolTensor[NumPy].from_data([True, False, False, True])  # of no level that differentiates
    by_flag = vmap(lambda flag, x: grad(lambda x: cond(flag, lambda: x.sqrt(), lambda: x * 0.5))(x))
    np.testing.assert_allclose(by_flag(flags, x).to_numpy(), want, rtol=1e-6)


def recursive(x: Any) -> Any:
    def root(n: int) -> Any:
        return root(n - 1) if n else x.sqrt()

    return cond(x > 0.0, lambda: root(2), lambda: x * 0.5)


CLOSED_OVER: dict[str, Callable[[Any], Any]] = {
    "variable": lambda x: cond(x > 0.0, lambda: x.sqrt(), lambda: x * 0.5),
    "default argument": lambda x: cond(x > 0.0, lambda y=x: y.sqrt(), lambda: x * 0.5),
    "tree, in a partial": lambda x: cond(
        x > 0.0, partial(lambda tree: tree["x"][0].sqrt(), {"x": [x]}), lambda: x * 0.5
    ),
    "recursive function": recursive,
    "loop": lambda x: while_loop(
        lambda s: s[1] < x, lambda s: (s[0] + (x - s[1]).sqrt(), s[1] + 9.0), (x * 0.5, x * 0)
    )[0],
}


@every_row("name", CLOSED_OVER)
def test_nor_by_tensors_that_the_branches_close_over(name: str) -> None:
    f = CLOSED_OVER[name]
    x = Tensor[NumPy].from_data([4.0, -1.0, 0.0, 9.0])
    want = [0.75, 0.5, 0.5, 2 / 3] if name == "loop" else [0.25, 0.5, 0.5, 1 / 6]
    total = grad(lambda x: vmap(f)(x).sum())
    for g in (vmap(grad(f)), total, compiled(total), lambda x: jvp(vmap(f), x, x * 0.0 + 1.0)[1]):
        np.testing.assert_allclose(g(x).to_numpy(), want, rtol=1e-6)


def test_nor_by_parameters_and_values_that_all_examples_share() -> None:
    class Scaled(nn.Module[Any]):
        def __init__(self) -> None:
            self.w = nn.Param(Tensor[NumPy].zeros(()))

        def root(self) -> Any:
            return self.w.value.sqrt()

        def triple(self) -> Any:
            return self.w.value * 3.0

    model, x = Scaled(), Tensor[NumPy].from_data([-1.0, -2.0])
    slopes = grad(lambda m: vmap(lambda x: cond(x > 0.0, m.root, m.triple))(x).sum())(model)
    assert slopes.w.value.item() == 6.0


def test_a_branch_assigns_variables_outside() -> None:
    calls = 0

    def root(x: Any) -> Any:
        def of_x() -> Any:
            nonlocal calls
            calls += 1
            return x.sqrt()

        return cond(x > 0.0, of_x, lambda: x * 0.5)

    vmap(grad(root))(Tensor[NumPy].from_data([4.0, -1.0]))
    assert calls == 1


COMPILED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "cond": (vmap(branches), (X,), 20),
    "gradient of cond": (vmap(grad(lambda x: branches(x).sum())), (X,), 60),
    "Hessian of cond": (hessian(lambda x: branches(x).sum()), (X[0],), 100),
    "while_loop": (vmap(loop), (X,), 10),
    "tangent of while_loop": (lambda x: jvp(vmap(loop), x, x)[1], (X,), 20),
    "while_loop over tensors that differ": (
        vmap(lambda x, y: while_loop(lambda s: s < 10.0 + y[0], lambda s: s * 1.5 + y[1].abs(), x[0].abs() + 0.1)),
        (X, Y),
        20,
    ),
    "while_loop over ints that differ": (
        vmap(lambda x, i: while_loop(lambda s: s[1] < i + 4, lambda s: (s[0] * 1.5 + x[i], s[1] + 1), (x[0], ZERO))[0]),
        (X, PLACES),
        30,
    ),
    "scan": (vmap(lambda x: scan(step, x[0], x)[1]), (X,), 10),
    "scan of shared slices": (vmap(lambda x: scan(step, x[0], X[0])[1]), (X,), 10),
    "scan from a shared carry": (vmap(lambda x: scan(step, X[0, 0], x, reverse=True)[0]), (X,), 10),
    "scan over tensors that differ": (
        vmap(lambda x, y, i: scan(lambda c, z: ((c * z * y[i]).tanh(), i + 1), x[0], x)[0]),
        (X, Y, PLACES),
        20,
    ),
    "gradient through scan": (grad(lambda x: vmap(lambda x: scan(step, x[0], x)[1])(x).sum()), (X,), 30),
    "gradient through sections": (grad(lambda x: vmap(lambda x: scan(step, x[0], x, every=2)[1])(x).sum()), (X,), 60),
    "gradients of scan": (vmap(grad(folded)), (X,), 100),
    "nested": (vmap(lambda m: vmap(lambda x: scan(step, x[0], x)[1])(m)), (x64(2, 6, 3),), 10),
    "vmap in scan": (
        vmap(lambda m: scan(lambda c, x: (vmap(lambda a, b: (a * b).sin())(c, x), c.sum()), m[0], m)[1]),
        (x64(2, 4, 3),),
        10,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_function_keeps_the_loop(name: str) -> None:
    f, args, nodes = COMPILED[name]
    fast = compiled(f)
    others = tuple([x * 1.7 if x.kind == "float" else x for x in args])
    for given in (args, others, args):
        close(fast(*given), f(*given))
    assert len(fast.plans) == 1
    assert fast.plans[0].recorded <= nodes
    close(vmap(compiled(lambda x: branches(x).sum()))(X), vmap(lambda x: branches(x).sum())(X))


def test_random_numbers_of_each_step_and_example() -> None:
    def f(x: Any) -> Any:
        return scan(lambda c, _: (c * Tensor[NumPy].uniform((), dtype="float64"), c), x[0], x)[1]

    for g in (vmap(f, randomness="different"), vmap(f, randomness="same")):
        manual_seed(0)
        want = [g(X).tolist() for _ in range(2)]
        manual_seed(0)
        fast = compiled(g)
        assert [fast(X).tolist() for _ in range(2)] == want
    factors = np.asarray(vmap(f, randomness="different")(X * 0.0 + 1.0))
    assert len(np.unique(factors[:, 1:])) == 12


def test_a_while_loop_over_a_batch_has_a_gradient() -> None:
    g = compiled(grad(lambda x: vmap(loop)(x).sum()))
    for x in (X, X * 3.0):
        np.testing.assert_allclose(g(x).to_numpy(), vmap(grad(loop))(x).to_numpy(), rtol=1e-12)


@pytest.mark.slow
def test_loops_are_differentiated_inside_of_a_batch() -> None:
    """In forward mode, over values and tangents; in reverse where nothing is recorded, as under no_grad."""

    def scanned(x: Any) -> Any:
        return scan(lambda c, y: ((c[0] * y + x.sum(), c[1] + 1), c[0].sin()), (x[0], ZERO), x)[1]

    def found(x: Any) -> Any:
        with no_grad():
            return loop(x)

    for f in (loop, scanned):
        for g in (vmap(lambda x, f=f: jvp(f, x, x * 2.0)), vmap(jacfwd(f)), lambda x, f=f: jacfwd(f)(x[0])):
            for one, two in zip(flatten(compiled(g)(X))[0], flatten(g(X))[0], strict=True):
                np.testing.assert_allclose(one.to_numpy(), two.to_numpy(), rtol=1e-12)
    g = vmap(grad(lambda x: found(x) * x.sum()))
    np.testing.assert_allclose(compiled(g)(X).to_numpy(), g(X).to_numpy(), rtol=1e-12)


@pytest.mark.slow
def test_second_derivatives_of_loops_are_in_forward_mode_first() -> None:
    def scanned(x: Any) -> Any:
        return scan(lambda c, y: (c * y + x.sum(), c.sin()), x[0], x)[1].sum()

    for f in (loop, scanned):
        for g in (hessian(f, mode="forward-over-forward"), grad(lambda x, f=f: jvp(f, x, x * 2.0)[1])):
            np.testing.assert_allclose(compiled(g)(X[0]).to_numpy(), g(X[0]).to_numpy(), rtol=1e-12)


REFUSED: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (vmap(lambda x: cond(x[0] > 0.0, abs, Tensor.sum, x)), ShapeError, "as the result of the first"),
    (vmap(lambda x: cond(x[0] > 0.0, abs, lambda x: x.float(), x)), DTypeError, "dtype float64 as the result"),
    (vmap(lambda x: cond(x[0] > 0.0, lambda x: x, lambda x: (x, x), x)), ArgumentError, "the same structure"),
    (compiled(vmap(grad(loop))), RecordingError, "differentiate the sum of vmap"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_mistakes_are_explained(case: int) -> None:
    f, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        f(X)


class Rates:
    """An object whose method steps, and which other functions close over."""

    def __init__(self, rate: Any) -> None:
        self.rate = rate

    def step(self, s: tuple[Any, Any]) -> tuple[Any, Any]:
        return s[0] + 0.6 + 0.5 / (1.0 / (s[1] - s[0]) * self.rate), s[1]


class Counting(Rates):
    """One whose method assigns an attribute."""

    steps = 0

    def step(self, s: tuple[Any, Any]) -> tuple[Any, Any]:
        self.steps += 1
        return super().step(s)


@dataclass(frozen=True)
class Frozen:
    rate: Any
    step: ClassVar[Any] = Rates.step


STEPS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "a method": lambda rate: Rates(rate).step,
    "an object": lambda rate: partial(lambda held, s: held["rates"].step(s), {"rates": Rates(rate)}),
    "a frozen dataclass": lambda rate: Frozen(rate).step,
    "a closure": lambda rate: (lambda held: lambda s: held.step(s))(Frozen(rate)),
}


@every_row("name", STEPS)
def test_attributes_of_objects_are_constants_for_examples_that_ended(name: str) -> None:
    """An example at s[0] = s[1] would divide by 0 in further steps, for which its gradient is NaN."""

    def last(rate: Any) -> Any:
        return while_loop(lambda s: s[0] < s[1], STEPS[name](rate), (rate * 0.0, rate.detach()))[0]

    rates = Tensor[NumPy].from_data([1.0, 1.1, 2.0], dtype="float64")
    slopes = stack([grad(last)(rate) for rate in rates.unbind()])
    assert vmap(grad(last))(rates).allclose(slopes)


def test_an_object_that_changes_is_not_copied() -> None:
    made: list[Counting] = []

    def last(rate: Any) -> Any:
        made.append(Counting(rate))
        return while_loop(lambda s: s[0] < s[1], made[-1].step, (rate * 0.0, rate.detach() * 1.0))[0]

    vmap(grad(last))(Tensor[NumPy].from_data([1.0, 1.2]))
    assert made[0].steps == 2
