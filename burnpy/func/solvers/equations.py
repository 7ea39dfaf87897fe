"""Solvers of equations: `root` by Newton's method with a line search, `fixed_point` by iteration with Anderson's
acceleration, and `cg` for linear equations with a symmetric positive definite matrix, by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from burnpy.autodiff.modes import no_grad
from burnpy.backend.errors import ShapeError
from burnpy.func.control_flow.scan_and_cond import while_loop
from burnpy.func.jacobians import jacfwd
from burnpy.func.pytree import describe_tree, loop_function
from burnpy.func.solvers.problems import (
    NON_FINITE,
    STALLED,
    TOO_MANY,
    Factors,
    FlatTree,
    Solution,
    implicit,
    largest,
    refuse_failure,
)
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import ABOVE_0, checked_count, checked_number
from burnpy.tensor.joining import cat, where
from burnpy.tensor.tensor import Tensor

X = TypeVar("X")

_TOLERANCES = {"float32": 1e-4, "float64": 1e-8}
"""The default size of the last step, relative to the unknowns; the error of the result is about its square."""
_DECREASE, _SHORTEST = 1e-4, 2.0**-30


@explained
def root(
    f: Callable[[X], X], x0: X, *, tol: float | None = None, max_steps: int = 100, check_errors: bool = True
) -> Solution[X]:
    """Find x with f(x) = 0 near x0, by Newton's method with a line search.

    The solution is differentiable by all tensors that ``f`` closes over: by the implicit function theorem, exact to any
    order, in both modes; the first guess has no derivative. It may be batched by `vmap`, and `compiled`.

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
    flat = FlatTree("root", "x0", x0)
    g = flat.function(f, "a result of f")
    tol = checked_number(_TOLERANCES[flat.dtype.name] if tol is None else tol, "tol", "root()", ABOVE_0)
    max_steps = checked_count(max_steps, "max_steps", 1, "root()")
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
        "|f| that is not a root: start elsewhere"
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
    """Return the first point x + s · move with a smaller residual, for s = 1, ½, ¼, …; the value of f there; and s."""
    before = value.square().sum()

    def too_far(s: tuple[Any, Any, Any]) -> Any:
        _, value, share = s
        return ~(value.square().sum() <= before * (1.0 - share * (2.0 * _DECREASE))) & (share >= _SHORTEST)

    def halve(s: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        share = s[2] * 0.5
        return x + move * share, f(x + move * share).detach(), share

    share = x.sum().zeros_like() + 1.0
    return while_loop(too_far, halve, (x + move, f(x + move).detach(), share))


_ITERATION_TOLERANCES = {"float32": 1e-5, "float64": 1e-10}


@explained
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

    The solution is differentiable by all tensors that ``g`` closes over: by the implicit function theorem, exact to any
    order, in both modes; the first guess has no derivative. The derivatives take the Jacobian of ``g`` as a matrix; the
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
    flat = FlatTree("fixed_point", "x0", x0)
    step = flat.function(g, "a result of g")
    tol = checked_number(
        _ITERATION_TOLERANCES[flat.dtype.name] if tol is None else tol, "tol", "fixed_point()", ABOVE_0
    )
    max_steps = checked_count(max_steps, "max_steps", 1, "fixed_point()")
    with no_grad():
        history = checked_count(history, "history", 0, "fixed_point()")
        last = _iterated(step, flat.vector.detach(), tol, max_steps, history)
    status = where((last.status == 0.0) & ~_close(last, tol), TOO_MANY, last.status)
    residual = largest(last.residual)
    if check_errors:
        refuse_failure(status, _ITERATION_CAUSES, [residual, last.steps])
    x = last.x + last.residual
    x = implicit(lambda x: x - step(x), x, step(x))
    return Solution(flat.tree(x), residual, last.steps.int(), status == 0.0)


_ITERATION_CAUSES: dict[int, Callable[..., str]] = {
    int(TOO_MANY): lambda residual, steps: (
        f"fixed_point() reached max_steps={steps} with g(x) - x of up to {residual}; raise max_steps or tol, or start "
        "elsewhere: iterations converge where g contracts"
    ),
    int(NON_FINITE): lambda residual, steps: (
        f"fixed_point() got a NaN or an infinite value from g after {steps} steps; start elsewhere, or damp g"
    ),
}


class _Iterates(NamedTuple):
    x: Any
    residual: Any  #: g(x) - x
    moves: Any  #: the changes of g(x) in the last steps, (history, n), from the newest
    changes: Any  #: the changes of the residual in them
    steps: Any
    status: Any


def _close(s: _Iterates, tol: float) -> Any:
    return (s.residual.abs() <= (s.x.abs() + 1.0) * tol).all()


def _iterated(g: Callable[[Any], Any], x: Any, tol: float, max_steps: int, history: int) -> _Iterates:
    """Return the state after the last step."""

    def unfinished(s: _Iterates) -> Any:
        return ~_close(s, tol) & (s.status == 0.0) & (s.steps < max_steps)

    def step(s: _Iterates) -> _Iterates:
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
        return _Iterates(x, residual, moves, changes, s.steps + 1.0, status)

    residual, zero = g(x).detach() - x, x.sum().zeros_like()
    rows = x.unsqueeze(0).expand(max(history, 1), x.shape[0]) * 0.0
    status = where(residual.isfinite().all(), zero, NON_FINITE)
    return while_loop(unfinished, step, _Iterates(x, residual, rows, rows, zero, status))


def _weights(changes: Any, residual: Any) -> Any:
    """Return the weights with which changes of the residual add up to it, as nearly as they can. A share of 1e-10 of
    the largest of them (1e-5 for float32) keeps the equations regular where some are missing or depend on each
    other."""
    gram = changes @ changes.T
    ridge = gram.diagonal().max() * (1e-10 if changes.dtype.itemsize == 8 else 1e-5)
    ridge = where(ridge > 0.0, ridge, 1.0)
    eye = gram.diagonal().ones_like().diag()
    return Factors(gram + eye * ridge).solve(changes @ residual)


_MOST_FOR_MATRIX = 4096  # above that, a matrix and its factors take too much memory
_LINEAR_TOLERANCES = {"float32": 1e-5, "float64": 1e-10}


@explained
def cg(
    a: Callable[[X], X] | Tensor[Any],
    b: X,
    *,
    preconditioner: Callable[[X], X] | None = None,
    tol: float | None = None,
    max_steps: int | None = None,
    check_errors: bool = True,
) -> Solution[X]:
    """Solve A x = b for a symmetric positive definite A that is given by its products, by conjugate gradients.

    The derivatives, by ``b`` and by all tensors that ``a`` closes over, are those of the equation, exact to any order,
    in both modes. They take A as a matrix; of more than 4,096 unknowns they go through the steps instead. It may be
    batched by `vmap`, and `compiled`.

    Args:
        a: a function that takes a tree like ``b`` and returns its product with A; or a matrix of shape (n, n), if ``b``
            is a vector.
        b: the right side, a float tensor or a tree of them, all of dtype float32 or float64.
        preconditioner: the product with an approximation of A⁻¹, symmetric and positive definite.
        tol: it ends where the norm of b - A x is at most ``tol`` times the norm of b; 1e-10 by default, 1e-5 for
            float32.
        max_steps: the number of steps after which it gives up; 10 times the number of unknowns by default.
        check_errors: whether to raise an error if it fails. Otherwise ``converged`` is False.

    Raises:
        ConvergenceError: there were too many steps, or A is not positive definite, or not finite.
        ArgumentError: a setting is out of range, or ``a`` returns another structure.
        KindError, ShapeError, DTypeError: ``b``, or a result of ``a``, is of another kind, shape or dtype.

    Source: Hestenes and Stiefel, Methods of conjugate gradients for solving linear systems, 1952.

    >>> b = Tensor[NumPy].from_data([1.0, 2.0], dtype="float64")
    >>> [round(x, 9) for x in cg(lambda x: 3.0 * x + x.flip(0), b).x.tolist()]
    [0.125, 0.625]
    """
    flat = FlatTree("cg", "b", b)
    size = flat.vector.shape[0]
    product = _matrix(a, b, size) if isinstance(a, Tensor) else flat.function(_checked(a, "a"), "a result of a")
    inverse = None
    if preconditioner is not None:
        inverse = flat.function(_checked(preconditioner, "preconditioner"), "a result of preconditioner")
    tol = checked_number(_LINEAR_TOLERANCES[flat.dtype.name] if tol is None else tol, "tol", "cg()", ABOVE_0)
    most = 10 * max(size, 1) if max_steps is None else checked_count(max_steps, "max_steps", 1, "cg()")
    goal = flat.vector.square().sum().detach() * tol**2
    if size <= _MOST_FOR_MATRIX:
        with no_grad():
            last = _solved(product, inverse, flat.vector.detach(), goal, most)
        start = last.x.detach()
        last = last._replace(x=implicit(lambda x: product(x) - flat.vector, start, product(start) - flat.vector))
    else:
        last = _solved(product, inverse, flat.vector, goal, most)
    status = where((last.status == 0.0) & (last.residual.square().sum() > goal), TOO_MANY, last.status).detach()
    residual = largest(last.residual.detach())
    if check_errors:
        refuse_failure(status, _LINEAR_CAUSES, [residual, last.steps])
    return Solution(flat.tree(last.x), residual, last.steps.detach().int(), status == 0.0)


_LINEAR_CAUSES: dict[int, Callable[..., str]] = {
    int(STALLED): lambda residual, steps: (
        f"cg() found that the matrix, or the preconditioner, is not positive definite after {steps} steps; use "
        "linalg.solve, or solve with AᵀA"
    ),
    int(TOO_MANY): lambda residual, steps: (
        f"cg() reached max_steps={steps} with a residual of up to {residual}; raise max_steps or tol, or give a "
        "preconditioner"
    ),
    int(NON_FINITE): lambda residual, steps: f"cg() got a NaN or an infinite value from a or b after {steps} steps",
}


class _CgState(NamedTuple):
    x: Any
    residual: Any  #: b - A x
    direction: Any
    energy: Any  #: the product of the residual and the preconditioned one
    steps: Any
    status: Any


def _solved(
    a: Callable[[Any], Any], inverse: Callable[[Any], Any] | None, b: Any, goal: Any, max_steps: int
) -> _CgState:
    """Return the state after the last step."""

    def unfinished(s: _CgState) -> Any:
        return (s.residual.square().sum() > goal) & (s.status == 0.0) & (s.steps < max_steps)

    def step(s: _CgState) -> _CgState:
        product = a(s.direction)
        curvature = (s.direction * product).sum()
        fine = curvature > 0.0
        length = s.energy / where(fine, curvature, 1.0)
        x, residual = s.x + s.direction * length, s.residual - product * length
        turned = residual if inverse is None else inverse(residual)
        energy = (residual * turned).sum()
        direction = turned + s.direction * (energy / s.energy)
        status = where(curvature.detach().isfinite(), where(fine, s.status, STALLED), NON_FINITE)
        return _CgState(x, residual, direction, energy, s.steps + 1.0, status)

    turned = b if inverse is None else inverse(b)
    energy = (b * turned).sum()
    zero = goal * 0.0
    status = where(
        energy.detach().isfinite(), where((energy > 0.0) | (goal == 0.0), zero.zeros_like(), STALLED), NON_FINITE
    )
    return while_loop(unfinished, step, _CgState(b.zeros_like(), b, turned, energy, zero.zeros_like(), status))


def _checked(f: Any, name: str) -> Any:
    loop_function("cg", f, f"that multiplies with a matrix as {name}")
    return f


def _matrix(a: Any, b: Any, size: int) -> Callable[[Any], Any]:
    """Return the product with a matrix."""
    if a.shape != (size, size) or not isinstance(b, Tensor) or len(b.shape) != 1:
        raise ShapeError(
            f"cg() got a matrix of shape {a.shape} for b of shape {describe_tree(b)}; pass a function instead"
        )
    return lambda x: a @ x
