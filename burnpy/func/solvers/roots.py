"""`root`: systems of equations, by Newton's method with a line search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from burnpy.autodiff.modes import no_grad
from burnpy.func.control_flow.branches import while_loop
from burnpy.func.jacobians import jacfwd
from burnpy.func.pytree import loop_function
from burnpy.func.solvers.implicit import Factors, implicit
from burnpy.func.solvers.problems import (
    NON_FINITE,
    STALLED,
    TOO_MANY,
    FlatTree,
    Solution,
    count,
    largest,
    positive,
    refuse_failure,
)
from burnpy.tensor.dims import need_flag
from burnpy.tensor.joining import where

X = TypeVar("X")

_TOLERANCES = {"float32": 1e-4, "float64": 1e-8}
"""The default size of the last step, relative to the unknowns; the error of the result is about its square."""
_DECREASE, _SHORTEST = 1e-4, 2.0**-30


def root(
    f: Callable[[X], X], x0: X, *, tol: float | None = None, max_steps: int = 100, check_errors: bool = True
) -> Solution[X]:
    """Find x with f(x) = 0 near x0, by Newton's method with a line search.

    The derivatives of the solution, by all tensors that ``f`` closes over, are those of the implicit function theorem,
    exact to any order, in both modes; the first guess has none. It may be batched by `vmap`, and `compiled`.

    Each step takes the Jacobian of ``f``, so the number of unknowns should be at most some thousand.

    Args:
        f: takes a tree like ``x0`` and returns one.
        x0: the first guess, a float tensor or a tree of them, all of dtype float32 or float64.
        tol: it ends after a step that changes no element by more than ``tol · (1 + |x|)``; 1e-8 by default, 1e-4 for
            float32. The error of the result is about the square of that.
        max_steps: the number of steps after which it gives up.
        check_errors: whether to raise an error if it fails. Otherwise ``converged`` is False, and x is the best point.

    Raises:
        ConvergenceError: there were too many steps, or no step reduces the residual, or ``f`` is not finite.
        ArgumentError: a setting is out of range, or ``f`` returns another structure.
        KindError, ShapeError, DTypeError: ``x0``, or a result of ``f``, is of another kind, shape or dtype.

    Source: Dennis and Schnabel, Numerical Methods for Unconstrained Optimization and Nonlinear Equations, 1983.

    >>> from burnpy.func import grad
    >>> a = Tensor[NumPy].from_data(9.0, dtype="float64")
    >>> square_root = lambda a: root(lambda x: x * x - a, a).x
    >>> square_root(a).item(), grad(square_root)(a).item()
    (3.0, 0.16666666666666666)
    """
    loop_function("root", f, "of the unknowns")
    need_flag(check_errors, "check_errors", "root")
    flat = FlatTree("root", "x0", x0)
    g = flat.function(f, "a result of f")
    tol = positive("root", "tol", _TOLERANCES[flat.dtype.name] if tol is None else tol)
    max_steps = count("root", "max_steps", max_steps)
    with no_grad():
        last = _newton(g, flat.vector.detach(), tol, max_steps)
    status = where((last.status == 0.0) & ~last.done, TOO_MANY, last.status)
    residual = largest(last.value)
    if check_errors:
        refuse_failure(status, _CAUSES, [residual, last.steps])
    x = implicit(g, last.x, g(last.x))
    return Solution(flat.tree(x), residual, last.steps.int(), status == 0.0)


_CAUSES: dict[int, Callable[..., str]] = {
    int(STALLED): lambda residual, steps: (
        f"root() found no step that reduces the residual of {residual} after {steps} steps; it may be at a minimum of "
        "|f| that is no root: start elsewhere"
    ),
    int(TOO_MANY): lambda residual, steps: (
        f"root() reached max_steps={steps} with a residual of {residual}; raise max_steps, or start elsewhere"
    ),
    int(NON_FINITE): lambda residual, steps: (
        f"root() got a NaN or an infinite value from f after {steps} steps; start where f is finite"
    ),
}


class _State(NamedTuple):
    x: Any
    value: Any  #: f(x)
    steps: Any
    done: Any
    status: Any


def _newton(f: Callable[[Any], Any], x: Any, tol: float, max_steps: int) -> _State:
    """Return the state after the last step."""
    value = f(x).detach()
    zero = x.sum().zeros_like()
    status = where(value.isfinite().all(), zero, NON_FINITE)

    def unfinished(s: _State) -> Any:
        return ~s.done & (s.status == 0.0) & (s.steps < max_steps)

    def step(s: _State) -> _State:
        move = -Factors(jacfwd(f)(s.x)).solve(s.value)
        x, value, share = _shorter(f, s.x, s.value, move)
        small = (move.abs() <= (s.x.abs() + 1.0) * tol).all()
        stalled = (share < _SHORTEST) & ~small
        status = where(stalled, where(move.isfinite().all(), s.status + STALLED, NON_FINITE), s.status)
        keep = share < _SHORTEST
        done = small | (value == 0.0).all()
        return _State(where(keep, s.x, x), where(keep, s.value, value), s.steps + 1.0, done, status)

    return while_loop(unfinished, step, _State(x, value, zero, (value == 0.0).all(), status))


def _shorter(f: Callable[[Any], Any], x: Any, value: Any, move: Any) -> tuple[Any, Any, Any]:
    """Return the first point x + s · move, with s = 1, ½, ¼, …, whose residual is smaller, f there, and s."""
    before = value.square().sum()

    def too_far(s: tuple[Any, Any, Any]) -> Any:
        _, value, share = s
        return ~(value.square().sum() <= before * (1.0 - share * (2.0 * _DECREASE))) & (share >= _SHORTEST)

    def halve(s: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        share = s[2] * 0.5
        return x + move * share, f(x + move * share).detach(), share

    share = x.sum().zeros_like() + 1.0
    return while_loop(too_far, halve, (x + move, f(x + move).detach(), share))
