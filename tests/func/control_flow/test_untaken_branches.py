"""Branches and steps of compiled functions that do not run: they raise no error for values that they are not given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Tensor, cross_entropy, func, linalg, manual_seed
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, BurnpyError, IndexRangeError, LinAlgError
from burnpy.func import compiled, cond, scan, while_loop
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


@every_row("name", REFUSED)
def test_errors_of_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call and later ones raise what eager mode raises: where the function is called, not where it is not."""
    monkeypatch.setenv("BURNPY_COMPILE", "0")  # what is compiled is the same, and takes longer
    error, refused = REFUSED[name]

    def choice(x: Any) -> Any:
        return cond(x.sum() > 0.0, lambda x: x.square(), refused, x)

    def loop(x: Any) -> Any:
        return while_loop(lambda x: x.sum() < 0.0, refused, x)

    pairs: list[tuple[Any, Any]] = [(choice, X.square()), (loop, X)]
    if name != "weights that are all zero":
        pairs += [
            (func.grad(lambda x: choice(x).sum()), 2.0 * X),
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
