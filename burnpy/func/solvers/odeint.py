"""`odeint`: ordinary differential equations, with the states at given times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.func.control_flow.scan_and_cond import scan
from burnpy.func.jacobian_products import jvp
from burnpy.func.pytree import describe_tree, loop_function
from burnpy.func.solvers.adaptive_steps import (
    EVENT,
    NON_FINITE,
    UNDERFLOW,
    AdaptiveMethod,
    State,
    dopri5_step,
    rk4_step,
    rodas4_step,
)
from burnpy.func.solvers.adjoint import Solve, Solved, solved_with_adjoint
from burnpy.func.solvers.problems import FlatTree, derivative_order, refuse_failure
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import ABOVE_0, checked_count, checked_number
from burnpy.tensor.joining import cat, where
from burnpy.tensor.levels import differs_between_examples
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase

Y = TypeVar("Y")

_ADAPTIVE: dict[str, tuple[Any, int, int]] = {"dopri5": (dopri5_step, 5, 5), "rodas4": (rodas4_step, 4, 4)}
"""The step of each adaptive method, the order of its error estimate plus 1, and the number of terms between steps."""
_TOLERANCES = {"float32": (1e-4, 1e-6), "float64": (1e-7, 1e-9)}
_TOO_MANY = 4.0


class OdeSolution(NamedTuple, Generic[Y]):
    """The result of `odeint`."""

    t: Tensor[Any]
    """The times, of shape (T,): those given, but none after the event."""
    y: Y
    """The states at these times: the tree of ``y0``, with a first dim for the times; NaN at times not reached."""
    steps: IntTensor[Any]
    """The number of steps."""
    rejected: IntTensor[Any]
    """The number of steps that were tried and had too large an error."""
    converged: BoolTensor[Any]
    """True if all times, or the event, were reached."""
    event: BoolTensor[Any]
    """True if the event ended it; its time is then the last of ``t``."""


@explained
def odeint(
    f: Callable[[Any, Y], Y],
    y0: Y,
    t: Tensor[Any] | Sequence[float],
    *,
    method: str = "dopri5",
    rtol: float | None = None,
    atol: Any = None,
    event: Callable[[Any, Y], Tensor[Any]] | None = None,
    first_step: float | None = None,
    max_steps: int = 10_000,
    substeps: int = 1,
    adjoint: bool = False,
    check_errors: bool = True,
) -> OdeSolution[Y]:
    """Solve the differential equation dy/dt = f(t, y) from y(t[0]) = y0, and return y at the times ``t``.

    Derivatives in both modes are those of the steps that were taken: by ``y0``, by ``t``, and by all tensors that ``f``
    closes over, such as the parameters of a model. Step sizes are constants for them. With ``adjoint=True`` gradients
    come from the adjoint equation instead, whose memory does not grow with the steps. It may be batched by `vmap`,
    where each example has its own steps, and `compiled`.

    Args:
        f: takes the time, a tensor of shape (), and the state; returns the derivative, a tree like ``y0``.
        y0: the first state, a float tensor or a tree of them, all of dtype float32 or float64. Tensors may be complex,
            which are solved as pairs of floats.
        t: the times, rising or falling, at least one.
        method: "dopri5", of order 5 with adaptive steps; "rodas4", implicit, of order 4 with adaptive steps, for
            stiff equations of few variables, as it takes the Jacobian of ``f``; or "rk4", of order 4 with fixed steps.
        rtol: the relative tolerance of the error of a step; 1e-7 by default, 1e-4 for float32.
        atol: the absolute one, a number or a tree like ``y0``; 1e-9 by default, 1e-6 for float32.
        event: a function of the time and the state, whose result, of shape (), ends the solution where it changes
            its sign. Its time has derivatives. Later times are replaced by it.
        first_step: the size of the first step; None chooses it.
        max_steps: the number of steps, rejected ones included, after which it gives up.
        substeps: with "rk4" the number of equal steps from each time to the next.
        adjoint: whether gradients in reverse are solutions of the adjoint equation, found backwards in time with the
            same method and tolerances, within which they are exact, at any order. Only the states at ``t`` are kept.
            Tangents, and gradients in compiled functions, are those of the steps. For "dopri5" and "rk4", without
            an event.
        check_errors: whether to raise an error if it fails. Otherwise the states that it did not reach are NaN, and
            ``converged`` is False.

    Raises:
        ConvergenceError: there were too many steps, or steps became too small, or ``f`` is not finite.
        ArgumentError: the times do not rise or fall, or a setting is out of range, or ``f`` returns another structure.
        KindError, ShapeError, DTypeError: ``y0``, ``t``, or a result of ``f``, is of another kind, shape or dtype.

    >>> y0 = Tensor[NumPy].from_data([1.0, 0.0], dtype="float64")
    >>> turn = Tensor[NumPy].from_data([[0.0, 1.0], [-1.0, 0.0]], dtype="float64")
    >>> solution = odeint(lambda t, y: turn @ y, y0, [0.0, 3.141592653589793])
    >>> [round(y, 6) for y in solution.y[-1].tolist()], solution.converged.item()
    ([-1.0, 0.0], True)
    """
    loop_function("odeint", f, "of the time and the state")
    flat = FlatTree("odeint", "y0", y0)
    times = _times(t, flat)
    slope = flat.function(f, "a result of f")
    if method == "rk4":
        if event is not None:
            raise ArgumentError('odeint() got event= with method="rk4"; events need an adaptive method, as "dopri5"')
        solve = _fixed(checked_count(substeps, "substeps", 1, "odeint()"), check_errors)
    elif method in _ADAPTIVE:
        defaults = _TOLERANCES[flat.dtype.name]
        solve = _adaptive(
            method,
            rtol=checked_number(defaults[0] if rtol is None else rtol, "rtol", "odeint()", ABOVE_0),
            atol=_absolute(defaults[1] if atol is None else atol, flat),
            event=None if event is None else _event(event, flat),
            max_steps=checked_count(max_steps, "max_steps", 1, "odeint()"),
            first_step=None if first_step is None else checked_number(first_step, "first_step", "odeint()", ABOVE_0),
            check_errors=check_errors,
        )
    else:
        raise ArgumentError(f'odeint() got method={method!r:.60}; expected "dopri5", "rodas4" or "rk4"')
    if adjoint:
        _refuse_adjoint(method, atol, event, first_step)
        found = solved_with_adjoint(solve, slope, flat.vector, times)
    else:
        found = solve(slope, flat.vector, times)
    return OdeSolution(found.t, flat.tree(found.y), *found[2:])


def _refuse_adjoint(method: str, atol: Any, event: Any, first_step: Any) -> None:
    """Refuse options that have no meaning for a solution that goes back in time."""
    if method == "rodas4":
        why = 'method="rodas4": stiff equations cannot be solved backwards, where what they damp grows'
    elif event is not None:
        why = "event=: an equation that ends early has no adjoint"
    elif atol is not None and not isinstance(atol, (int, float)):
        why = "atol as a tree: the adjoint has elements of its own; give a number"
    elif first_step is not None:
        why = "first_step=: each interval of the adjoint has its own"
    else:
        return
    raise ArgumentError(f"odeint() got adjoint=True and {why}; or use adjoint=False")


def _adaptive(method: str, *, event: Any, first_step: float | None, check_errors: bool, **settings: Any) -> Solve:
    """Return the solver with steps whose size is chosen."""
    step, order, terms = _ADAPTIVE[method]

    def solve(f: Callable[..., Any], y0: Any, times: Any) -> Solved:
        how = AdaptiveMethod(f=f, step=step, order=order, terms=terms, end=times[-1], event=event, **settings)

        def reach(state: State, time: Any) -> tuple[State, Any]:
            state = how.until(time, state)
            ahead = (how.end - state.before).detach().sign()
            reached = (state.t.detach() - time.detach()) * ahead >= 0.0
            return state, where(reached, state.at(time), float("nan"))

        last, rows = scan(reach, how.begin(times[0], y0, first_step), times[1:])
        ys = cat([y0.unsqueeze(0), rows], 0)
        fired = last.status == EVENT
        if event is not None:
            at = event_time(event, last)
            late = fired & ((times - at) * (last.t - last.before).detach().sign() > 0.0)
            times, ys = where(late, at, times), where(late.unsqueeze(1), last.at(at), ys)
        unreached = (last.t != how.end) & (last.status == 0.0)
        status = where(unreached, _TOO_MANY, where(fired, 0.0, last.status)).detach()
        if check_errors:
            refuse_failure(status, _CAUSES, [last.t, last.accepted, last.h])
        return Solved(times, ys, last.accepted.detach().int(), last.rejected.detach().int(), status == 0.0, fired)

    return solve


_CAUSES: dict[int, Callable[..., str]] = {
    int(UNDERFLOW): lambda t, steps, h: (
        f"odeint() cannot go on from t = {t}, after {steps} steps: a step of size {h} still has too large an error; "
        'the solution may have a pole there, or be stiff (method="rodas4")'
    ),
    int(NON_FINITE): lambda t, steps, h: (
        f"odeint() got a NaN or an infinite value at t = {t}, after {steps} steps; check f, y0 and the times"
    ),
    int(_TOO_MANY): lambda t, steps, h: (
        f"odeint() reached max_steps at t = {t}, after {steps} steps, with steps of size {h}; raise max_steps or the "
        'tolerances, or use method="rodas4" if the equation is stiff'
    ),
}


def _fixed(substeps: int, check_errors: bool) -> Solve:
    """Return the solver with equal steps between the times."""

    def solve(f: Callable[..., Any], y0: Any, times: Any) -> Solved:
        def to_next(y: Any, span: tuple[Any, Any]) -> tuple[Any, Any]:
            y = _rk4_steps(f, y, *span, substeps)
            return y, y

        _, rows = scan(to_next, y0, (times[:-1], times[1:]))
        ys = cat([y0.unsqueeze(0), rows], 0)
        fine = ys.detach().isfinite().all()
        status = where(fine, times[0].detach() * 0.0, NON_FINITE)
        taken = times[0].detach() * 0.0 + float((times.shape[0] - 1) * substeps)
        if check_errors:
            refuse_failure(status, _CAUSES, [times[-1], taken, times[-1] - times[0]])
        return Solved(times, ys, taken.int(), (taken * 0.0).int(), fine, taken < 0.0)

    return solve


def _rk4_steps(f: Callable[..., Any], y: Any, begin: Any, end: Any, count: int) -> Any:
    """Return the solution at ``end`` after a number of equal steps."""
    h = (end - begin) * (1.0 / count)
    if count == 1:
        return rk4_step(f, begin, y, h)

    def step(state: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        t, y = state
        return (t + h, rk4_step(f, t, y, h)), None

    (_, y), _ = scan(step, (begin, y), None, length=count)
    return y


def _times(t: Any, flat: FlatTree) -> Any:
    """Return the times as a tensor."""
    if not isinstance(t, TensorBase):
        try:
            values = [float(x) for x in t]
        except (TypeError, ValueError):
            raise KindError(
                f"odeint() takes times as a float tensor or a list of numbers, got {describe_tree(t)}"
            ) from None
        t = Tensor.from_data(values, dtype=flat.dtype.name, device=flat.vector.device)
    if not isinstance(t, Tensor):
        raise KindError(f"odeint() takes times as a float tensor, got {describe_tree(t)} of {t.dtype}; call .float()")
    if len(t.shape) != 1 or not t.shape[0]:
        raise ShapeError(f"odeint() takes times of shape (T,), at least one, got shape {t.shape}")
    if t.dtype != flat.dtype:
        raise DTypeError(
            f"odeint() got times of dtype {t.dtype} and a state of dtype {flat.dtype}; convert one with .to_dtype(...)"
        )
    moves = (t[1:] - t[:-1]).detach()
    fine = ((moves > 0.0).all() | (moves < 0.0).all()) & moves.isfinite().all()
    device: Any = fine._device
    if device.discrete.eager_checks and not differs_between_examples(fine) and not fine.item():
        raise ArgumentError(
            f"odeint() got times {t.tolist()!r:.200}; expected finite times that strictly increase or decrease"
        )
    if not device.discrete.eager_checks:
        device.discrete.defer_check((fine._primitive,), _unless_monotone)
    return t


def _unless_monotone(fine: int) -> ArgumentError | None:
    return None if fine else ArgumentError("odeint() takes finite times that rise, or that fall, without equal ones")


def _event(event: Callable[..., Any], flat: FlatTree) -> Callable[..., Any]:
    """Return an event function of a time and a vector, which checks its result."""
    loop_function("odeint", event, "of the time and the state as event")

    def checked(t: Any, y: Any) -> Any:
        value: Any = event(t, flat.tree(y))
        if not isinstance(value, Tensor) or value.shape or value.dtype != flat.dtype:
            raise ShapeError(
                f"odeint() takes an event function that returns a float tensor of shape () and dtype {flat.dtype}, and "
                f"it returned {describe_tree(value)}"
            )
        return value

    return checked


def _absolute(atol: Any, flat: FlatTree) -> Any:
    """Return the absolute tolerance as a number or a vector."""
    if isinstance(atol, (int, float)) and not isinstance(atol, bool):
        return checked_number(atol, "atol", "odeint()", ABOVE_0)
    return flat.flat(atol, "atol")


_HALVINGS = {"float32": 26, "float64": 55}


def event_time(event: Callable[..., Any], state: State) -> Any:
    """Return the time in the last step at which an event function of a time and a vector is 0, if it changes its sign.
    It is found by bisection. Its derivatives are those of `implicit`, with the slope as Jacobian."""
    still = State(*[part if isinstance(part, tuple) else part.detach() for part in state])
    still = still._replace(dense=tuple([part.detach() for part in state.dense]))
    sign = event(still.before, still.at(still.before)).detach().sign()

    def halve(bounds: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        low, high = bounds
        middle = (low + high) * 0.5
        beyond = event(middle, still.at(middle)).detach() * sign <= 0.0
        return (where(beyond, low, middle), where(beyond, middle, high)), None

    (_, time), _ = scan(halve, (still.before, still.t), None, length=_HALVINGS[str(state.t.dtype)])
    slope = jvp(lambda t: event(t, still.at(t)), time, time.ones_like())[1].detach()
    moves = slope != 0.0
    for _ in range(derivative_order(event(time, state.at(time)))):
        value = event(time, state.at(time))
        time = time - where(moves, (value - value.detach()) / where(moves, slope, 1.0), 0.0)
    return time
