"""Branches and steps of compiled functions that do not run: they raise no error for values that they are not given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Tensor, cross_entropy, func, linalg, manual_seed
from burnpy.autodiff import checkpoint
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, BurnpyError, IndexRangeError, LinAlgError
from burnpy.func import compiled, cond, scan, while_loop
from burnpy.nn.functional import layer_norm
from tests.rows import every_row

X = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 5.0]], dtype="float64")


def counted(x: Any) -> Any:
    """Return ints that are not below 100."""
    return (x.abs() * 0.0 + 100.0).int()


REFUSED: dict[str, tuple[type[BurnpyError], Callable[[Any], Any]]] = {
    "the inverse of a singular matrix": (LinAlgError, lambda x: linalg.inv(x - x)),
    "a batch of them": (LinAlgError, lambda x: linalg.inv((x - x).expand((3, 2, 2))).sum(0)),
    "a solution": (LinAlgError, lambda x: linalg.solve(x - x, x)),
    "a Cholesky factor": (LinAlgError, lambda x: linalg.cholesky(-x.square())),
    "singular values of infinity": (LinAlgError, lambda x: linalg.svdvals(x / (x - x)).sum() * x),
    "an index": (IndexRangeError, lambda x: x[counted(x)[0]]),
    "an index of a gather": (IndexRangeError, lambda x: x.gather(0, counted(x))),
    "an index to set": (IndexRangeError, lambda x: x.at[counted(x)[0, 0]].set(3.0)),
    "a class": (IndexRangeError, lambda x: cross_entropy(x, counted(x)[0]) * x),
    "a division of ints": (ArgumentError, lambda x: (counted(x) // (counted(x) - 100)).float() * x),
    "weights that are all zero": (ArgumentError, lambda x: (x - x)[0].multinomial(1).float() * x),
    "a branch of a branch": (LinAlgError, lambda x: cond(x.sum() > x.sum() + 1, lambda x: x, linalg.inv, x - x)),
    "a step of a while_loop": (LinAlgError, lambda x: while_loop(lambda x: x.sum() < 1.0, linalg.inv, x - x)),
    "a step of a scan": (LinAlgError, lambda x: scan(lambda c, y: (linalg.inv(c), y), x - x, x)[0]),
}


def returned(f: Callable[..., Any], *args: Any) -> Any:
    """Return the results of a function as arrays, or the class of its error."""
    try:
        return [x.to_numpy() for x in (f(*args),)]
    except BurnpyError as error:
        return type(error)


@pytest.mark.slowest
@every_row("name", REFUSED)
def test_errors_of_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call and later ones raise what eager mode raises: where the function is called, not where it is not."""
    monkeypatch.setenv("BURNPY_COMPILE", "0")  # what is compiled is the same, and takes longer
    error, refused = REFUSED[name]

    def choice(x: Any) -> Any:
        return cond(x.sum() > 0.0, lambda x: x.square(), refused, x)

    def captured(x: Any) -> Any:
        return cond(x.sum() > 0.0, lambda: x.square(), lambda: refused(x))

    def loop(x: Any) -> Any:
        return while_loop(lambda x: x.sum() < 0.0, refused, x)

    def captured_loop(x: Any) -> Any:
        return while_loop(lambda y: y.sum() < 0.0, lambda y: refused(x), x)

    pairs: list[tuple[Any, Any]] = [(choice, X.square()), (captured, X.square()), (loop, X), (captured_loop, X)]
    if name != "weights that are all zero":
        pairs += [
            (func.grad(lambda x: choice(x).sum()), 2.0 * X),
            (func.grad(lambda x: captured(x).sum()), 2.0 * X),
            (func.grad(lambda x: loop(x).square().sum()), 2.0 * X),
        ]
    for f, expected in pairs:
        for order in ((X, -X, X), (-X, X)):
            fast = compiled(f)
            for x in order:
                found = returned(fast, x)
                if x is X:
                    np.testing.assert_array_equal(found, [expected.to_numpy()])
                else:
                    assert found is error
                    assert returned(f, x) is error


def root(x: Any) -> Any:
    """Return the sum of the roots of x or -x: a branch that is not chosen has no real result."""
    return cond(x.sum() > 0.0, lambda: x.sqrt().sum(), lambda: (-x).sqrt().sum())


def before(x: Any) -> Any:
    """Choose between functions of values computed before, used after it as well."""
    h = (x * 2.0).sin()
    k = h.exp()
    return h.sum() + cond(x.sum() > 0.0, lambda: (h * k).sum() + k.log().sum(), lambda: (-h).abs().sqrt().sum())


def nested(x: Any) -> Any:
    def of_two(x: Any, sign: float) -> Any:
        y = (x * sign).sqrt()
        return cond(x.sum() * sign > 4.0, lambda: (y * (x * sign - 1.0).sqrt()).sum(), lambda: (y.log() * y).sum())

    return cond(x.sum() > 0.0, lambda: of_two(x, 1.0), lambda: of_two(x, -1.0))


def in_a_scan(x: Any) -> Any:
    def body(c: Any, y: Any) -> Any:
        v = (x.exp() * 2.0).log()
        return cond(x.sum() > 0.0, lambda: c + (x.sqrt() * v).sum(), lambda: c - root(x) * y), c

    return scan(body, x.sum(), x.square())[0]


def around_a_scan(x: Any) -> Any:
    def total(y: Any) -> Any:
        return scan(lambda c, e: (c * e + y.sqrt().sum(), None), y.sum(), y.log())[0]

    return cond(x.sum() > 0.0, lambda: total(x), lambda: total(-x))


def in_a_while_loop(x: Any) -> Any:
    return while_loop(lambda c: c < 9.0, lambda c: c + root(x) + 1.0, x.sum())


def in_loops(x: Any) -> Any:
    def step(c: Any, y: Any) -> Any:
        return c + 0.1 * y * cond(x.sum() > 0.0, lambda: x.sqrt() + x.exp(), lambda: (-x).sqrt() * 2.0).sum(), None

    return while_loop(lambda c: c < 4.0, lambda c: c + 1.0 + scan(step, c, x.square())[0], x.sum() * 0.1)


def loop_in_a_loop(x: Any) -> Any:
    """The inner loop begins with a value that moves, and captures two values computed of the outer one's first."""

    def step(c: Any) -> Any:
        return c + while_loop(lambda d: d.sum() < 3.0, lambda d: d + x.abs() + x.square(), c * 0.0 + 0.001)

    return while_loop(lambda c: c.sum() < 5.0, step, x).sum()


def steps_that_never_run(x: Any) -> Any:
    return while_loop(lambda c: c < x.sum(), lambda c: c + x.sqrt().sum() + x.log().exp().sum(), x.abs().sum() * 0.5)


CAPTURED: dict[str, Callable[[Any], Any]] = {
    "roots": root,
    "operands as well": lambda x: cond(
        x.sum() > 0.0, lambda y: (x.sqrt() * y).sum() + x.exp().sum(), lambda y: ((-x).log() * y * y).sum(), x
    ),
    "values computed before": before,
    "parts": lambda x: cond(
        x.sum() > 0.0, lambda: (x[0] * x[1]).sqrt(), lambda: (x[1] - x[0]).square().log() + x.max()
    ),
    "a layer norm": lambda x: cond(x.sum() > 0.0, lambda: (layer_norm(x, (2,)) * x.log()).sum(), lambda: x.sum()),
    "a captured tensor itself": lambda x: cond(x.sum() > 0.0, lambda: x, lambda: x.square()).sum(),
    "no gradient": lambda x: cond(x.sum() > 0.0, lambda: x.detach().sqrt().sum(), lambda: x.square().sum()),
    "a gradient inside": lambda x: cond(
        x.sum() > 0.0, lambda: func.grad(lambda y: (y.log() * y.detach()).sum())(x).sum(), lambda: x.square().sum()
    ),
    "checkpoints": lambda x: cond(
        x.sum() > 0.0, lambda: checkpoint(lambda y: y.sqrt().sum(), x), lambda: checkpoint(lambda y: y.exp().sum(), x)
    ),
    "branches of branches": nested,
    "in a scan": in_a_scan,
    "around a scan": around_a_scan,
    "in a while_loop": in_a_while_loop,
    "in a scan in a while_loop": in_loops,
    "a while_loop in a while_loop": loop_in_a_loop,
    "steps that never run": steps_that_never_run,
}


@pytest.mark.slowest
@every_row("name", CAPTURED)
def test_branches_of_captured_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches and steps compute with captured values, and differentiate them only where they run."""
    monkeypatch.setenv("BURNPY_COMPILE", "0")  # what is compiled is the same, and takes longer
    f = CAPTURED[name]
    forms = [f, func.grad(f), func.jacfwd(f)]
    if name == "a gradient inside":
        del forms[2]  # a derivative of a derivative
    for form in forms:
        fast = compiled(form)
        for values in ([1.5, 1.25], [-1.5, -1.25], [3.0, 2.5], [-3.0, -2.5]):
            x = Tensor[NumPy].from_data(values, dtype="float64")
            np.testing.assert_allclose(fast(x).to_numpy(), form(x).to_numpy(), rtol=1e-12)


def test_a_constant_chooses_while_recording() -> None:
    """As a bool does: the value of a predicate that depends on no argument is known."""
    known = X - X
    f = compiled(lambda x: cond(linalg.det(known) != 0.0, lambda x: linalg.inv(known) @ x, lambda x: x * 2.0, x))
    np.testing.assert_array_equal(f(X).to_numpy(), 2.0 * X.to_numpy())


def test_a_body_draws_only_when_it_runs() -> None:
    """After the same seed the loop's result and the next draw are those of eager mode."""

    def drawn(x: Any) -> Any:
        return Tensor.uniform(x.shape, dtype=x.dtype, device=x.device)

    loops: list[Callable[[Any], Any]] = [
        lambda x: while_loop(lambda x: x.sum() < 50.0, lambda x: x + drawn(x), x),
        lambda x: while_loop(lambda x: x.sum() + drawn(x).sum() < 50.0, lambda x: x + 1.0, x),
        lambda x: while_loop(lambda x: x.sum() + drawn(x).sum() < 50.0, lambda x: x + drawn(x), x),
        lambda x: while_loop(
            lambda x: x.sum() < 50.0, lambda x: cond(drawn(x).sum() < 2.0, drawn, lambda x: x, x) + x, x
        ),
    ]
    for loop in loops:
        results = []
        for f in (loop, compiled(loop)):
            manual_seed(3)
            results.append([f(X).to_numpy(), f(X).to_numpy(), Tensor[NumPy].uniform((2, 2)).to_numpy()])
        np.testing.assert_allclose(results[1], results[0], rtol=1e-12)
