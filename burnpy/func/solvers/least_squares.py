"""`least_squares`: nonlinear least squares, by the method of Levenberg and Marquardt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from burnpy.autodiff.modes import no_grad
from burnpy.backend.errors import DTypeError
from burnpy.func.control_flow.scan_and_cond import while_loop
from burnpy.func.jacobians import jacfwd
from burnpy.func.pytree import loop_function
from burnpy.func.solvers.minima import Minimum
from burnpy.func.solvers.problems import NON_FINITE, STALLED, TOO_MANY, FlatTree, implicit, largest, refuse_failure
from burnpy.linalg.decompositions import qr
from burnpy.linalg.equations import solve_triangular
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import ABOVE_0, checked_count, checked_number
from burnpy.tensor.joining import cat, where

X = TypeVar("X")

_TOLERANCES = {"float32": 1e-4, "float64": 1e-8}
_FIRST_DAMPING, _MOST_DAMPING = 1e-3, 1e30


@explained
def least_squares(
    f: Callable[[X], Any], x0: X, *, tol: float | None = None, max_steps: int = 200, check_errors: bool = True
) -> Minimum[X]:
    """Minimize half the sum of squares of f(x) near x0, by the method of Levenberg and Marquardt.

    The minimum is differentiable by all tensors that ``f`` closes over: by the implicit function theorem, exact to any
    order, in both modes; the first guess has no derivative. It may be batched by `vmap`, and `compiled`.

    Args:
        f: takes a tree like ``x0`` and returns the residuals, a float tensor or a tree of them, of its dtype.
        x0: the first guess, a float tensor or a tree of them, all of dtype float32 or float64.
        tol: it ends where a step changes no element by more than ``tol · (|x| + tol)``, or where the cosine of the
            angle between the residuals and each column of the Jacobian is at most ``tol``; 1e-8 by default, 1e-4 for
            float32.
        max_steps: the number of steps after which it gives up.
        check_errors: whether to raise an error if it fails. Otherwise ``converged`` is False, and x is the best point.

    Raises:
        ConvergenceError: there were too many steps, or no step reduces the squares, or ``f`` is not finite.
        ArgumentError: a setting is out of range.
        KindError, DTypeError: ``x0``, or a result of ``f``, is of another kind or dtype.

    Source: Moré, The Levenberg-Marquardt algorithm: implementation and theory, 1978; the damping is changed as in
    Nielsen, Damping parameter in Marquardt's method, 1999.

    >>> t = Tensor[NumPy].from_data([0.0, 1.0, 2.0], dtype="float64")
    >>> y = 3.0 * (-0.5 * t).exp()
    >>> fit = least_squares(lambda p: p[0] * (-p[1] * t).exp() - y, t[1:] * 0.0 + 1.0)
    >>> [round(p, 6) for p in fit.x.tolist()], fit.value.item() < 1e-20
    ([3.0, 0.5], True)
    """
    loop_function("least_squares", f, "that returns residuals")
    flat = FlatTree("least_squares", "x0", x0)

    def residuals(x: Any) -> Any:
        found = FlatTree("least_squares", "the result of f", f(flat.tree(x)))
        if found.dtype != flat.dtype:
            raise DTypeError(
                f"least_squares() got residuals of dtype {found.dtype} and x0 of dtype {flat.dtype}; both must be equal"
            )
        return found.vector

    def gradient(x: Any) -> Any:
        return residuals(x) @ jacfwd(residuals)(x)

    tol = checked_number(_TOLERANCES[flat.dtype.name] if tol is None else tol, "tol", "least_squares()", ABOVE_0)
    max_steps = checked_count(max_steps, "max_steps", 1, "least_squares()")
    with no_grad():
        last = _descended(residuals, flat.vector.detach(), tol, max_steps)
        size = largest(gradient(last.x).detach())
    status = where((last.status == 0.0) & ~last.done, TOO_MANY, last.status)
    if check_errors:
        refuse_failure(status, _CAUSES, [last.cost, size, last.steps])
    x = implicit(gradient, last.x, residuals(last.x))
    return Minimum(flat.tree(x), residuals(x).square().sum() * 0.5, size, last.steps.int(), status == 0.0)


_CAUSES: dict[int, Callable[..., str]] = {
    int(STALLED): lambda cost, size, steps: (
        f"least_squares() found no step that reduces the value {cost}, with a gradient of up to {size}, after {steps} "
        "steps; start elsewhere, or raise tol"
    ),
    int(TOO_MANY): lambda cost, size, steps: (
        f"least_squares() reached max_steps={steps} at the value {cost}, with a gradient of up to {size}; raise "
        "max_steps or tol"
    ),
    int(NON_FINITE): lambda cost, size, steps: (
        f"least_squares() got a NaN or an infinite value from f after {steps} steps; start where f is finite"
    ),
}


class _State(NamedTuple):
    x: Any
    residual: Any
    cost: Any
    scale: Any  #: the largest norm of each column of the Jacobian so far
    damping: Any
    growth: Any  #: the factor of the damping after the next step that is rejected
    steps: Any
    done: Any
    status: Any


def _descended(f: Callable[[Any], Any], x: Any, tol: float, max_steps: int) -> _State:
    """Return the state after the last step."""

    def unfinished(s: _State) -> Any:
        return ~s.done & (s.status == 0.0) & (s.steps < max_steps)

    def step(s: _State) -> _State:
        jacobian = jacfwd(f)(s.x).detach()
        norms = jacobian.square().sum(0).sqrt()
        gradient = s.residual @ jacobian
        cosines = gradient.abs() / where(norms > 0.0, norms, 1.0)
        level = (cosines <= (s.cost * 2.0).sqrt() * tol).all()
        trial = _shorter(f, s._replace(scale=s.scale.maximum(norms)), jacobian, gradient)
        small = ((trial.x - s.x).abs() <= (s.x.abs() + tol) * tol).all()
        status = where(trial.status == 0.0, s.status, where(small | level, s.status, trial.status))
        return trial._replace(steps=s.steps + 1.0, done=level | small | (trial.cost == 0.0), status=status)

    residual, zero = f(x).detach(), x.sum().zeros_like()
    cost = residual.square().sum() * 0.5
    status = where(cost.isfinite(), zero, NON_FINITE)
    start = _State(
        x, residual, cost, x.zeros_like(), zero + _FIRST_DAMPING, zero + 2.0, zero, cost == 0.0, status
    )  # fmt: skip
    return while_loop(unfinished, step, start)


def _shorter(f: Callable[[Any], Any], s: _State, jacobian: Any, gradient: Any) -> _State:
    """Return the state after a step that reduces the squares, which more and more damping makes shorter."""
    weights = where(s.scale > 0.0, s.scale, 1.0)

    def rejected(t: _State) -> Any:
        return ~t.done & (t.status == 0.0)

    def attempt(t: _State) -> _State:
        move = _damped(jacobian, s.residual, weights * t.damping.sqrt())
        x = s.x + move
        residual = f(x).detach()
        cost = residual.square().sum() * 0.5
        predicted = ((move * weights).square().sum() * t.damping - (move * gradient).sum()) * 0.5
        ratio = (s.cost - cost) / where(predicted > 0.0, predicted, 1.0)
        better = (cost < s.cost) & (predicted > 0.0)
        calmer = (1.0 - (ratio * 2.0 - 1.0) ** 3).clamp(1 / 3, 2.0)
        damping = t.damping * where(better, calmer, t.growth)
        growth = where(better, 2.0, t.growth * 2.0)
        ended = (damping > _MOST_DAMPING) | (s.x + move == s.x).all()
        status = where(better, t.status, where(ended, t.status + STALLED, t.status))
        return _State(
            where(better, x, s.x), where(better, residual, s.residual), where(better, cost, s.cost), s.scale,
            damping, growth, t.steps, better, status,
        )  # fmt: skip

    return while_loop(rejected, attempt, s._replace(done=s.cost < 0.0))


def _damped(jacobian: Any, residual: Any, weights: Any) -> Any:
    """Return the step that minimizes the squares of J step + r, and of its elements with weights."""
    matrix = cat([jacobian, weights.diag()], 0)
    right = cat([residual, weights.zeros_like()], 0)
    factors = qr(matrix)
    return -solve_triangular(factors.R, (right @ factors.Q).unsqueeze(1), upper=True).squeeze(1)
