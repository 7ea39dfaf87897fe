"""`fixed_point`: solutions of x = g(x), by iteration with Anderson's acceleration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from burnpy.autodiff.modes import no_grad
from burnpy.func.control_flow.branches import while_loop
from burnpy.func.pytree import loop_function
from burnpy.func.solvers.implicit import Factors, implicit
from burnpy.func.solvers.problems import (
    NON_FINITE,
    TOO_MANY,
    FlatTree,
    Solution,
    count,
    largest,
    positive,
    refuse_failure,
)
from burnpy.tensor.dims import need_flag
from burnpy.tensor.joining import cat, where

X = TypeVar("X")

_TOLERANCES = {"float32": 1e-5, "float64": 1e-10}


def fixed_point(
    g: Callable[[X], X],
    x0: X,
    *,
    tol: float | None = None,
    max_steps: int = 1000,
    history: int = 5,
    check_errors: bool = True,
) -> Solution[X]:
    """Find x = g(x) from x0, by iteration with Anderson's acceleration.

    The derivatives of the solution, by all tensors that ``g`` closes over, are those of the implicit function theorem,
    exact to any order, in both modes; the first guess has none. They take the Jacobian of ``g`` as a matrix; the
    solution alone does not. It may be batched by `vmap`, and `compiled`.

    Args:
        g: takes a tree like ``x0`` and returns one.
        x0: the first guess, a float tensor or a tree of them, all of dtype float32 or float64.
        tol: it ends where no element of g(x) - x is larger than ``tol · (1 + |x|)``; 1e-10 by default, 1e-5 for
            float32.
        max_steps: the number of steps after which it gives up.
        history: the number of past steps that a step is extrapolated from; 0 iterates ``g`` alone.
        check_errors: whether to raise an error if it fails. Otherwise ``converged`` is False.

    Raises:
        ConvergenceError: there were too many steps, or ``g`` is not finite.
        ArgumentError: a setting is out of range, or ``g`` returns another structure.
        KindError, ShapeError, DTypeError: ``x0``, or a result of ``g``, is of another kind, shape or dtype.

    Source: Walker and Ni, Anderson acceleration for fixed-point iterations, 2011.

    >>> one = Tensor[NumPy].from_data(1.0, dtype="float64")
    >>> round(fixed_point(lambda x: x.cos(), one).x.item(), 10)
    0.7390851332
    """
    loop_function("fixed_point", g, "of the unknowns")
    need_flag(check_errors, "check_errors", "fixed_point")
    flat = FlatTree("fixed_point", "x0", x0)
    step = flat.function(g, "a result of g")
    tol = positive("fixed_point", "tol", _TOLERANCES[flat.dtype.name] if tol is None else tol)
    max_steps = count("fixed_point", "max_steps", max_steps)
    with no_grad():
        last = _iterated(step, flat.vector.detach(), tol, max_steps, count("fixed_point", "history", history, 0))
    status = where((last.status == 0.0) & ~_close(last, tol), TOO_MANY, last.status)
    residual = largest(last.residual)
    if check_errors:
        refuse_failure(status, _CAUSES, [residual, last.steps])
    x = last.x + last.residual
    x = implicit(lambda x: x - step(x), x, step(x))
    return Solution(flat.tree(x), residual, last.steps.int(), status == 0.0)


_CAUSES: dict[int, Callable[..., str]] = {
    int(TOO_MANY): lambda residual, steps: (
        f"fixed_point() reached max_steps={steps} with g(x) - x of up to {residual}; raise max_steps or tol, or start "
        "elsewhere: iterations converge where g contracts"
    ),
    int(NON_FINITE): lambda residual, steps: (
        f"fixed_point() got a NaN or an infinite value from g after {steps} steps; start elsewhere, or damp g"
    ),
}


class _State(NamedTuple):
    x: Any
    residual: Any  #: g(x) - x
    moves: Any  #: the changes of g(x) in the last steps, (history, n), from the newest
    changes: Any  #: the changes of the residual in them
    steps: Any
    status: Any


def _close(s: _State, tol: float) -> Any:
    return (s.residual.abs() <= (s.x.abs() + 1.0) * tol).all()


def _iterated(g: Callable[[Any], Any], x: Any, tol: float, max_steps: int, history: int) -> _State:
    """Return the state after the last step."""

    def unfinished(s: _State) -> Any:
        return ~_close(s, tol) & (s.status == 0.0) & (s.steps < max_steps)

    def step(s: _State) -> _State:
        x = s.x + s.residual
        if history:
            x = x - _weights(s.changes, s.residual) @ s.moves
        residual = g(x).detach() - x
        status = where(residual.isfinite().all(), s.status, NON_FINITE)
        moves, changes = s.moves, s.changes
        if history:
            change = residual - s.residual
            moves = cat([(x - s.x + change).unsqueeze(0), moves[:-1]], 0)
            changes = cat([change.unsqueeze(0), changes[:-1]], 0)
        return _State(x, residual, moves, changes, s.steps + 1.0, status)

    residual, zero = g(x).detach() - x, x.sum().zeros_like()
    rows = x.unsqueeze(0).expand(max(history, 1), x.shape[0]) * 0.0
    status = where(residual.isfinite().all(), zero, NON_FINITE)
    return while_loop(unfinished, step, _State(x, residual, rows, rows, zero, status))


def _weights(changes: Any, residual: Any) -> Any:
    """Return the weights with which changes of the residual add up to it, as nearly as they can.

    A share of 1e-10 of the largest of them (1e-5 for float32) keeps the equations regular where some are missing or
    depend on each other.
    """
    gram = changes @ changes.T
    ridge = gram.diagonal().max() * (1e-10 if changes.dtype.itemsize == 8 else 1e-5)
    ridge = where(ridge > 0.0, ridge, 1.0)
    eye = gram.diagonal().ones_like().diag()
    return Factors(gram + eye * ridge).solve(changes @ residual)
