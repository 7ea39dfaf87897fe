"""`cg`: linear equations with a symmetric positive definite matrix, by the method of conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from burnpy.autodiff.modes import no_grad
from burnpy.backend.errors import ShapeError
from burnpy.func.control_flow.branches import while_loop
from burnpy.func.pytree import describe_tree, loop_function
from burnpy.func.solvers.problems import (
    NON_FINITE,
    STALLED,
    TOO_MANY,
    FlatTree,
    Solution,
    count,
    implicit,
    largest,
    positive,
    refuse_failure,
)
from burnpy.tensor.dims import need_flag
from burnpy.tensor.joining import where
from burnpy.tensor.tensor import Tensor

X = TypeVar("X")

_MOST_FOR_MATRIX = 4096  # above that, a matrix and its factors take too much memory
_TOLERANCES = {"float32": 1e-5, "float64": 1e-10}


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
    need_flag(check_errors, "check_errors", "cg")
    flat = FlatTree("cg", "b", b)
    size = flat.vector.shape[0]
    product = _matrix(a, b, size) if isinstance(a, Tensor) else flat.function(_checked(a, "a"), "a result of a")
    inverse = None
    if preconditioner is not None:
        inverse = flat.function(_checked(preconditioner, "preconditioner"), "a result of preconditioner")
    tol = positive("cg", "tol", _TOLERANCES[flat.dtype.name] if tol is None else tol)
    most = 10 * max(size, 1) if max_steps is None else count("cg", "max_steps", max_steps)
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
        refuse_failure(status, _CAUSES, [residual, last.steps])
    return Solution(flat.tree(last.x), residual, last.steps.detach().int(), status == 0.0)


_CAUSES: dict[int, Callable[..., str]] = {
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


class _State(NamedTuple):
    x: Any
    residual: Any  #: b - A x
    direction: Any
    energy: Any  #: the product of the residual and the preconditioned one
    steps: Any
    status: Any


def _solved(a: Callable[[Any], Any], inverse: Callable[[Any], Any] | None, b: Any, goal: Any, max_steps: int) -> _State:
    """Return the state after the last step."""

    def unfinished(s: _State) -> Any:
        return (s.residual.square().sum() > goal) & (s.status == 0.0) & (s.steps < max_steps)

    def step(s: _State) -> _State:
        product = a(s.direction)
        curvature = (s.direction * product).sum()
        fine = curvature > 0.0
        length = s.energy / where(fine, curvature, 1.0)
        x, residual = s.x + s.direction * length, s.residual - product * length
        turned = residual if inverse is None else inverse(residual)
        energy = (residual * turned).sum()
        direction = turned + s.direction * (energy / s.energy)
        status = where(curvature.detach().isfinite(), where(fine, s.status, STALLED), NON_FINITE)
        return _State(x, residual, direction, energy, s.steps + 1.0, status)

    turned = b if inverse is None else inverse(b)
    energy = (b * turned).sum()
    zero = goal * 0.0
    status = where(
        energy.detach().isfinite(), where((energy > 0.0) | (goal == 0.0), zero.zeros_like(), STALLED), NON_FINITE
    )
    return while_loop(unfinished, step, _State(b.zeros_like(), b, turned, energy, zero.zeros_like(), status))


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
