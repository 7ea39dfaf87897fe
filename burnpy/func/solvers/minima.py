"""`minimize`: minima of smooth functions, by L-BFGS or by Newton's method with conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from burnpy.autodiff.modes import no_grad
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.func.control_flow.scan_and_cond import while_loop
from burnpy.func.gradients_and_hessians import grad, value_and_grad
from burnpy.func.jacobian_products import jvp
from burnpy.func.pytree import describe_tree, loop_function
from burnpy.func.solvers.problems import NON_FINITE, STALLED, TOO_MANY, FlatTree, implicit, largest, refuse_failure
from burnpy.linalg.equations import solve_triangular
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import ABOVE_0, checked_count, checked_number
from burnpy.tensor.joining import cat, where
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor

X = TypeVar("X")

_TOLERANCES = {"float32": 1e-3, "float64": 1e-6}
_METHODS = ("lbfgs", "newton-cg")


class Minimum(NamedTuple, Generic[X]):
    """The result of `minimize` and `least_squares`."""

    x: X
    """The place of the minimum, a tree like the first guess."""
    value: Tensor[Any]
    """The value there, of shape (): of least squares half the sum of the squares."""
    gradient: Tensor[Any]
    """The largest magnitude of the elements of the gradient, of shape ()."""
    steps: IntTensor[Any]
    """The number of steps."""
    converged: BoolTensor[Any]
    """True if it converged."""


@explained
def minimize(
    f: Callable[[X], Tensor[Any]],
    x0: X,
    *,
    method: str = "lbfgs",
    tol: float | None = None,
    max_steps: int = 1000,
    history: int = 10,
    check_errors: bool = True,
) -> Minimum[X]:
    """Find a minimum of f near x0.

    The minimum is differentiable by all tensors that ``f`` closes over: by the implicit function theorem, exact to any
    order, in both modes; the first guess has no derivative. The derivatives take the Hessian of ``f`` as a matrix; the
    minimum alone does not. It may be batched by `vmap`, and `compiled`.

    `burnpy.optim.LBfgs` trains models, and may go on later.

    Args:
        f: takes a tree like ``x0`` and returns a tensor of shape ().
        x0: the first guess, a float tensor or a tree of them, all of dtype float32 or float64.
        method: "lbfgs", which estimates the Hessian from the last gradients; or "newton-cg", whose steps solve with the
            Hessian by conjugate gradients, and which needs fewer steps that take longer.
        tol: it ends where no element of the gradient is larger; 1e-6 by default, 1e-3 for float32.
        max_steps: the number of steps after which it gives up.
        history: the number of past steps that L-BFGS uses.
        check_errors: whether to raise an error if it fails. Otherwise ``converged`` is False, and x is the best point.

    Raises:
        ConvergenceError: there were too many steps, or no step reduces f, or f is not finite.
        ArgumentError: a setting is out of range.
        KindError, DTypeError: ``x0`` is of another kind or dtype.
        ShapeError: ``f`` returns no tensor of shape ().

    Source: Nocedal and Wright, Numerical Optimization, 2006, algorithms 7.1 and 7.5.

    >>> x0 = Tensor[NumPy].from_data([-1.2, 1.0], dtype="float64")
    >>> rosenbrock = lambda x: (1.0 - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2
    >>> [round(x, 6) for x in minimize(rosenbrock, x0).x.tolist()]
    [1.0, 1.0]
    """
    loop_function("minimize", f, "to minimize")
    if method not in _METHODS:
        raise ArgumentError(f'minimize() got method={method!r:.60}; expected "lbfgs" or "newton-cg"')
    flat = FlatTree("minimize", "x0", x0)

    def value(x: Any) -> Any:
        result: Any = f(flat.tree(x))
        if not isinstance(result, Tensor) or result.shape or result.dtype != flat.dtype:
            raise ShapeError(
                f"minimize() takes a function that returns a float tensor of shape () and dtype {flat.dtype}, and it "
                f"returned {describe_tree(result)}; reduce it, as with .sum()"
            )
        return result

    tol = checked_number(_TOLERANCES[flat.dtype.name] if tol is None else tol, "tol", "minimize()", ABOVE_0)
    max_steps = checked_count(max_steps, "max_steps", 1, "minimize()")
    history = checked_count(history, "history", 1, "minimize()")
    with no_grad():
        last = _descended(value, flat.vector.detach(), method, tol, max_steps, history)
    status = where((last.status == 0.0) & ~_flat(last.point, tol), TOO_MANY, last.status)
    size = largest(last.point.gradient)
    if check_errors:
        refuse_failure(status, _CAUSES, [last.point.value, size, last.steps])
    x = implicit(grad(value), last.point.x, value(last.point.x))
    return Minimum(flat.tree(x), value(x), size, last.steps.int(), status == 0.0)


_CAUSES: dict[int, Callable[..., str]] = {
    int(STALLED): lambda value, size, steps: (
        f"minimize() found no step that reduces the value {value}, with a gradient of up to {size}, after {steps} "
        "steps; the gradient may be inexact, or tol too small for the dtype"
    ),
    int(TOO_MANY): lambda value, size, steps: (
        f"minimize() reached max_steps={steps} at the value {value}, with a gradient of up to {size}; raise max_steps "
        "or tol"
    ),
    int(NON_FINITE): lambda value, size, steps: (
        f"minimize() got a NaN or an infinite value from f after {steps} steps; start where f is finite"
    ),
}


class _State(NamedTuple):
    point: Point
    moves: Any  #: the last steps of L-BFGS, (history, n), from the newest
    changes: Any  #: the changes of the gradient in them
    steps: Any
    status: Any


def _flat(point: Point, tol: float) -> Any:
    return largest(point.gradient) <= tol


def _descended(f: Callable[[Any], Any], x: Any, method: str, tol: float, max_steps: int, history: int) -> _State:
    """Return the state after the last step."""

    def at(x: Any) -> Point:
        value, gradient = value_and_grad(f)(x)
        return Point(x, value.detach(), gradient.detach())

    def unfinished(s: _State) -> Any:
        return ~_flat(s.point, tol) & (s.status == 0.0) & (s.steps < max_steps)

    def step(s: _State) -> _State:
        gradient = s.point.gradient
        if method == "lbfgs":
            direction = -_scaled(gradient, s.moves, s.changes)
        else:
            direction = _newton_direction(lambda v: jvp(grad(f), s.point.x, v)[1].detach(), gradient)
        downhill = (direction * gradient).sum() < 0.0
        direction = where(downhill, direction, -gradient)
        first = s.status + 1.0
        if method == "lbfgs":
            first = where(s.steps == 0.0, (1.0 / gradient.abs().sum()).minimum(1.0), first)
        point, found = search(at, s.point, direction, first)
        move, change = point.x - s.point.x, point.gradient - gradient
        moves = cat([move.unsqueeze(0), s.moves[:-1]], 0)
        changes = cat([change.unsqueeze(0), s.changes[:-1]], 0)
        return _State(point, moves, changes, s.steps + 1.0, where(found, s.status, STALLED))

    start, zero = at(x), x.sum().zeros_like()
    rows = x.unsqueeze(0).expand(history if method == "lbfgs" else 1, x.shape[0]) * 0.0
    finite = start.value.isfinite() & start.gradient.isfinite().all()
    return while_loop(unfinished, step, _State(start, rows, rows, zero, where(finite, zero, NON_FINITE)))


def _scaled(gradient: Any, moves: Any, changes: Any) -> Any:
    """Return the product of the gradient and L-BFGS's estimate of the inverse of the Hessian.

    Source: Nocedal and Wright, Numerical Optimization, 2006, equation 7.24, for rows from the newest step.
    """
    products = (moves * changes).sum(1)
    usable = (products > changes.square().sum(1) * 1e-12).unsqueeze(1)  # rows of zeros stand for missing steps
    moves, changes = where(usable, moves, 0.0), where(usable, changes, 0.0)
    products = (moves * changes).sum(1)
    square = changes[0].square().sum()
    scale = where(usable[0, 0], products[0] / where(usable[0, 0], square, 1.0), 1.0)
    triangle = (moves @ changes.T).tril() + where(usable[:, 0], 0.0, products.ones_like()).diag()
    inner = solve_triangular(triangle, (moves @ gradient).unsqueeze(1), upper=False)
    along = products.unsqueeze(1) * inner + (changes @ (changes.T @ inner) - (changes @ gradient).unsqueeze(1)) * scale
    outer = solve_triangular(triangle.T, along, upper=True)
    return gradient * scale + (moves.T @ outer - changes.T @ inner * scale).squeeze(1)


class _Inner(NamedTuple):
    direction: Any
    residual: Any  #: the Hessian times the direction, plus the gradient
    along: Any
    steps: Any
    ended: Any


def _newton_direction(hessian: Callable[[Any], Any], gradient: Any) -> Any:
    """Return a direction that solves Newton's equation as exactly as the size of the gradient deserves. It ends at a
    direction in which the function bends downward."""
    size = gradient.square().sum()
    goal = size * size.sqrt().minimum(0.25)

    def unfinished(s: _Inner) -> Any:
        return (s.residual.square().sum() > goal) & (s.ended == 0.0) & (s.steps < 2.0 * gradient.shape[0] + 10.0)

    def step(s: _Inner) -> _Inner:
        product = hessian(s.along)
        curvature, energy = (s.along * product).sum(), s.residual.square().sum()
        bends_up = curvature > s.along.square().sum() * 1e-14
        length = energy / where(bends_up, curvature, 1.0)
        residual = s.residual + product * length
        along = s.along * (residual.square().sum() / energy) - residual
        stays = where(s.steps == 0.0, -gradient, s.direction)
        direction = where(bends_up, s.direction + s.along * length, stays)
        return _Inner(direction, residual, along, s.steps + 1.0, where(bends_up, s.ended, 1.0))

    zero = size.zeros_like()
    return while_loop(unfinished, step, _Inner(gradient.zeros_like(), gradient, -gradient, zero, zero)).direction


_DECREASE, _CURVATURE, _MOST = 1e-4, 0.9, 60.0


class Point(NamedTuple):
    """A place, the value of a function there, and its gradient."""

    x: Any
    value: Any
    gradient: Any


class _Search(NamedTuple):
    point: Point
    best: Point
    share: Any
    low: Any
    high: Any
    tries: Any
    done: Any


def search(at: Callable[[Any], Point], start: Point, direction: Any, first: Any) -> tuple[Point, Any]:
    """Return a point along a direction that satisfies the weak Wolfe conditions, and whether a lower point was found.

    Steps are doubled until one is too long, and then bisected. If none satisfies the conditions in 60 trials, it is the
    lowest one.

    Args:
        at: evaluates a place.
        start: the point to start from.
        direction: a direction in which the function falls.
        first: the first step to try, in units of the direction.

    Source: Lewis and Overton, Nonsmooth optimization via quasi-Newton methods, 2013, algorithm 4.6.
    """
    slope = (start.gradient * direction).sum()
    infinite = first * 0.0 + float("inf")

    def judged(share: Any) -> tuple[Point, Any, Any]:
        point = at(start.x + direction * share)
        finite = point.value.isfinite() & point.gradient.isfinite().all()
        too_high = ~(finite & (point.value <= start.value + slope * share * _DECREASE))
        too_steep = (point.gradient * direction).sum() < slope * _CURVATURE
        return point, too_high, too_steep

    def unfinished(s: _Search) -> Any:
        return ~s.done & (s.tries < _MOST)

    def attempt(s: _Search) -> _Search:
        point, too_high, too_steep = judged(s.share)
        better = point.value < s.best.value
        best = Point(*[where(better, x, y) for x, y in zip(point, s.best, strict=True)])
        high, low = where(too_high, s.share, s.high), where(~too_high & too_steep, s.share, s.low)
        share = where(high.isfinite(), (low + high) * 0.5, s.share * 2.0)
        done = ~too_high & ~too_steep
        return _Search(point, best, where(done, s.share, share), low, high, s.tries + 1.0, done)

    zero = first * 0.0
    last = while_loop(unfinished, attempt, _Search(start, start, first, zero, infinite, zero, zero > 0.0))
    lower = last.best.value < start.value
    chosen = [where(last.done, x, y) for x, y in zip(last.point, last.best, strict=True)]
    return Point(*chosen), last.done | lower
