"""`odeint` against SciPy and closed forms: values, derivatives, events, failures."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, ComplexTensor, Tensor, compiled, stack
from burnpy.autodiff import Balanced, checkpoint
from burnpy.autodiff.tools.graph_views import walk
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, ConvergenceError, DTypeError, KindError, NotTrackedError, ShapeError
from burnpy.func import grad, hessian, jacobian, jvp, odeint, vmap
from burnpy.nn import Linear
from burnpy.optim import GradientsParams
from tests.rows import every_row

integrate = pytest.importorskip("scipy.integrate")


def x64(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


def lorenz(p: Any) -> Callable[..., list[Any]]:
    return lambda t, a, b, c: [p[0] * (b - a), a * (p[1] - c) - b, a * b - p[2] * c]


def van_der_pol(mu: float) -> Callable[..., list[Any]]:
    return lambda t, x, v: [v, mu * (1.0 - x * x) * v - x]


def robertson(t: Any, a: Any, b: Any, c: Any) -> list[Any]:
    return [1e4 * b * c - 0.04 * a, 0.04 * a - 1e4 * b * c - 3e7 * b * b, 3e7 * b * b]


def driven(t: Any, y: Any) -> list[Any]:
    return [-10.0 * (y - t * t)]


def vector(g: Callable[..., list[Any]]) -> Callable[[Any, Any], Any]:
    """The function of a state as a tensor, for one of its elements; SciPy takes the latter."""
    return lambda t, y: stack(g(t, *y.unbind()))


LORENZ, START = [10.0, 28.0, 8 / 3], x64([1.0, 1.0, 1.0])


@pytest.mark.slowest
@every_row(
    "g, y0, t, method, options, tolerance",
    [
        (lorenz(LORENZ), [1.0, 1.0, 1.0], [0.0, 0.5, 1.0], "dopri5", {"rtol": 1e-9}, 1e-6),
        (lorenz(LORENZ), [1.0, 1.0, 1.0], [0.0, 0.5, 1.0], "rk4", {"substeps": 50}, 1e-3),
        (lorenz(LORENZ), [1.0, 1.0, 1.0], [0.0, 0.3], "rodas4", {"rtol": 1e-6}, 1e-4),
        (van_der_pol(1.0), [2.0, 0.0], [0.0, 3.0, 6.0], "dopri5", {}, 1e-6),
        (van_der_pol(1.0), [2.0, 0.0], [6.0, 3.0, 0.0], "dopri5", {}, 1e-4),
        (van_der_pol(1e3), [2.0, 0.0], [0.0, 1.0, 500.0], "rodas4", {"rtol": 1e-5}, 1e-4),
        (robertson, [1.0, 0.0, 0.0], [0.0, 0.4, 40.0, 4e5], "rodas4", {"rtol": 1e-5, "atol": START * 1e-10}, 1e-4),
        (driven, [1.0], [0.0, 1.0, 5.0], "rodas4", {"rtol": 1e-6}, 1e-5),
        (driven, [1.0], [0.0, 1.0, 5.0], "rk4", {"substeps": 50}, 1e-3),
    ],
)
def test_agrees_with_scipy(g: Any, y0: Any, t: Any, method: str, options: Any, tolerance: float) -> None:
    found = odeint(vector(g), x64(y0), t, method=method, **options)
    solver = {"method": "LSODA" if method == "rodas4" else "DOP853", "rtol": 1e-10, "atol": 1e-12}
    want = integrate.solve_ivp(lambda t, y: g(t, *y), (t[0], t[-1]), y0, t_eval=t, **solver)
    np.testing.assert_allclose(found.y.to_numpy(), want.y.T, rtol=tolerance, atol=tolerance * 1e-2)
    assert found.converged.item()
    assert found.t.tolist() == t


def test_orders_of_the_methods() -> None:
    """The error falls with the power of the step size that the order says, so the tables have no typing error."""
    g: Any = lambda t, x, v: [v, -x - t * v]  # noqa: E731
    want = integrate.solve_ivp(lambda t, y: g(t, *y), (0, 1), [1, 0], rtol=1e-13, atol=1e-13, method="DOP853").y[:, -1]
    loose: Any = {"rtol": 1e9, "first_step": 1.0}  # each interval is one step
    for method, order, options in (("rk4", 4, {}), ("dopri5", 5, loose), ("rodas4", 4, loose)):
        errors = []
        for steps in (8, 16):
            y = x64([1.0, 0.0])
            for k in range(steps):
                y = odeint(vector(g), y, [k / steps, (k + 1) / steps], method=method, **options).y[-1]
            errors.append(np.abs(y.to_numpy() - want).max())
        assert errors[0] / errors[1] > 2 ** (order - 0.5), (method, errors)


@pytest.mark.slowest
@pytest.mark.parametrize("method", ["dopri5", "rk4", pytest.param("rodas4", marks=pytest.mark.long)])
def test_derivatives_to_second_order(method: str) -> None:
    """By parameters, the first state and the times, in both modes, alone and in a batch, against differences."""
    options: Any = {"substeps": 8} if method == "rk4" else {"rtol": 1e-6}

    def f(x: Any) -> Any:
        times = stack([x[0], x[1]])
        return odeint(lambda t, y: -x[3] * y * y + t.sin(), x[2:3], times, method=method, **options).y[-1, 0]

    x = x64([0.1, 1.2, 0.7, 1.3])
    gradient, eps = grad(f)(x).to_numpy(), 1e-6
    bumps = [x64(np.eye(4)[k] * eps) for k in range(4)]
    if method == "rk4":  # the others choose other steps for another x
        differences = [(f(x + d).item() - f(x - d).item()) / (2 * eps) for d in bumps]
        np.testing.assert_allclose(gradient, differences, rtol=1e-6)
        second = [(grad(f)(x + d).to_numpy() - grad(f)(x - d).to_numpy()) / (2 * eps) for d in bumps]
        np.testing.assert_allclose(hessian(f)(x).to_numpy(), second, rtol=1e-5, atol=1e-7)

    def exact(x: Any) -> float:
        tight: Any = {"rtol": 1e-11, "atol": 1e-13}
        y = odeint(lambda t, y: -x[3] * y * y + t.sin(), x[2:3], stack([x[0], x[1]]), **tight).y
        return float(y[-1, 0].item())

    np.testing.assert_allclose(gradient, [(exact(x + d) - exact(x - d)) / (2 * eps) for d in bumps], rtol=1e-3)
    np.testing.assert_allclose([jvp(f, x, x64(row))[1].item() for row in np.eye(4)], gradient, rtol=1e-10)
    rows = x64([x.tolist(), (x + 0.1).tolist()])
    for found in (vmap(grad(f))(rows)[0], grad(lambda rows: vmap(f)(rows).sum())(rows)[0], jacobian(f)(x)):
        np.testing.assert_allclose(found.to_numpy(), gradient, rtol=1e-10)


@pytest.mark.slow
def test_each_example_of_a_batch_has_its_own_steps() -> None:
    speeds = x64([1.0, 30.0])
    solve: Any = lambda w: odeint(lambda t, y: stack([y[1], -w * w * y[0]]), x64([1.0, 0.0]), [0.0, 1.0])  # noqa: E731
    found = vmap(solve)(speeds)
    assert found.steps.tolist() == [solve(speeds[0]).steps.item(), solve(speeds[1]).steps.item()]
    np.testing.assert_allclose(found.y[:, -1, 0].to_numpy(), np.cos([1.0, 30.0]), atol=1e-6)


@pytest.mark.slow
def test_compiled_and_tracked() -> None:
    rates = x64(LORENZ)
    solve: Any = lambda p: odeint(vector(lorenz(p)), START, [0.0, 0.2, 0.5])  # noqa: E731
    fast = compiled(solve)
    for p in (rates, rates * 1.1):
        for found, want in zip(fast(p), solve(p), strict=True):
            np.testing.assert_allclose(found.to_numpy(), want.to_numpy(), rtol=1e-9)
    tracked = Tensor[Autodiff[NumPy]].from_data(rates.to_numpy()).require_grad()
    start = Tensor[Autodiff[NumPy]].from_data(START.to_numpy())
    y = odeint(vector(lorenz(tracked)), start, [0.0, 0.2, 0.5]).y
    np.testing.assert_allclose(
        y.sum().backward()[tracked].to_numpy(), grad(lambda p: solve(p).y.sum())(rates).to_numpy(), rtol=1e-10
    )


@pytest.mark.slowest
def test_rejected_steps_have_no_part_in_gradients() -> None:
    """The first step is far too long, and leads to the root of a negative number. The solution is (1 - 2 p t)²."""

    def solve(p: Any) -> Any:
        y0 = p.ones_like().reshape(1)
        return odeint(lambda t, y: -4.0 * p * y.sqrt(), y0, [0.0, 0.4], first_step=0.4, rtol=1e-6).y[-1].sum()

    def together(p: Any) -> Any:
        return vmap(solve)(p).sum()

    p = x64([1.0, 0.5])
    want = -1.6 * (1.0 - 0.8 * p.to_numpy())
    for found in (vmap(grad(solve))(p), grad(together)(p), compiled(grad(together))(p)):
        np.testing.assert_allclose(found.to_numpy(), want, rtol=1e-5)
    np.testing.assert_allclose([grad(solve)(p[0]).item(), compiled(grad(solve))(p[0]).item()], want[0], rtol=1e-5)


@pytest.mark.long
def test_stiff_equations_over_long_times() -> None:
    """Robertson's equations to 4e10, and an oscillator whose period is 1,614; references: Hairer and Wanner."""
    late = odeint(vector(robertson), x64([1.0, 0.0, 0.0]), [0.0, 4e10], method="rodas4", rtol=1e-6, atol=1e-12)
    assert late.steps.item() < 2000
    np.testing.assert_allclose(late.y[-1].to_numpy(), [5.2e-8, 2.08e-13, 1.0], rtol=2e-2)
    tol: Any = {"rtol": 1e-7, "atol": 1e-9}
    found = odeint(vector(van_der_pol(1e3)), x64([2.0, 0.0]), [0.0, 1000.0, 2000.0], method="rodas4", **tol)
    want = integrate.solve_ivp(
        lambda t, y: van_der_pol(1e3)(t, *y),
        (0, 2000),
        [2, 0],
        method="Radau",
        t_eval=[0, 1000, 2000],
        rtol=1e-10,
        atol=1e-12,
    )
    np.testing.assert_allclose(found.y.to_numpy(), want.y.T, rtol=1e-4)


@every_row("method", ["dopri5", "rodas4", "rk4"])
def test_float32(method: str) -> None:
    y0 = Tensor[NumPy].from_data([1.0, 0.0])
    found = odeint(lambda t, y: stack([y[1], -y[0]]), y0, [0.0, 1.0, 3.0], method=method, substeps=20)
    assert found.y.dtype == np.float32
    np.testing.assert_allclose(found.y[:, 0].to_numpy(), np.cos([0.0, 1.0, 3.0]), atol=2e-3)


@pytest.mark.slowest
def test_parameters_of_a_model_are_trained() -> None:
    """Gradients of all parameters, on a graph, and in a compiled step."""
    model, y0 = Linear(2, 2, device=Autodiff[NumPy]), Tensor[Autodiff[NumPy]].normal((3, 2))

    def loss(model: Any) -> Any:
        return odeint(lambda t, y: model(y).tanh(), y0, [0.0, 0.5]).y[-1].square().mean()

    def gradients(model: Any) -> Any:
        return GradientsParams.from_grads(loss(model).backward(), model).norm()

    assert gradients(model).item() > 0.0
    np.testing.assert_allclose(compiled(gradients)(model).item(), gradients(model).item(), rtol=1e-5)


def test_trees() -> None:
    state = {"x": Tensor[NumPy].ones((2, 2)), "v": Tensor[NumPy].zeros(())}
    found = odeint(lambda t, s: {"v": s["x"].sum() * 0.0 + 1.0, "x": -s["x"]}, state, [0.0, 0.5, 1.0])
    assert found.y["x"].shape == (3, 2, 2)
    assert found.y["v"].dtype == np.float32
    np.testing.assert_allclose(found.y["x"][-1].to_numpy(), np.exp(-1.0), rtol=1e-4)
    np.testing.assert_allclose(found.y["v"].to_numpy(), [0.0, 0.5, 1.0], rtol=1e-6)
    assert odeint(lambda t, y: y, START, [0.0]).y.tolist() == [START.tolist()]


def test_events_have_times_with_derivatives() -> None:
    def fall(h: Any, times: Any = (0.0, 0.5, 1.0, 2.0), **options: Any) -> Any:
        f = lambda t, y: stack([y[1], y[1] * 0.0 - 9.81])  # noqa: E731
        return odeint(f, stack([h, h * 0.0]), list(times), event=lambda t, y: y[0], **options)

    h = x64(3.0)
    for method in ("dopri5", "rodas4"):
        found, ground = fall(h, method=method), (2 * 3 / 9.81) ** 0.5
        np.testing.assert_allclose(found.t.to_numpy(), [0.0, 0.5, ground, ground], rtol=1e-9)
        np.testing.assert_allclose(found.y[2:, 0].to_numpy(), 0.0, atol=1e-9)
        assert found.event.item()
        assert found.converged.item()
    slope: Any = lambda h: 0.5 * (2 / 9.81 / h) ** 0.5  # noqa: E731
    np.testing.assert_allclose(grad(lambda h: fall(h).t[-1])(h).item(), slope(3.0), rtol=1e-8)
    np.testing.assert_allclose(
        vmap(grad(lambda h: fall(h).t[-1]))(x64([3.0, 1.0])).to_numpy(), [slope(3.0), slope(1.0)]
    )
    assert not fall(h, (0.0, 0.5)).event.item()


@pytest.mark.slow
@every_row(
    "f, y0, options, words",
    [
        (lambda t, y: y * y, [1.0], {}, "cannot go on from t = 1,"),
        (lambda t, y: (1.0 - t).sqrt() * y, [1.0], {}, "NaN or an infinite value at t = 1,"),
        (lambda t, y: y / 0.0, [1.0], {}, "at t = 0, after 0 steps"),
        (vector(van_der_pol(1e6)), [2.0, 0.0], {"max_steps": 60}, "reached max_steps"),
    ],
)
def test_failures_are_errors_or_say_so(f: Any, y0: Any, options: Any, words: str) -> None:
    solve: Any = lambda y0, **more: odeint(f, y0, [0.0, 0.5, 2.0], **options, **more)  # noqa: E731
    with pytest.raises(ConvergenceError, match=words):
        solve(x64(y0))
    with pytest.raises(ConvergenceError, match=words):
        compiled(lambda y0: solve(y0).y)(x64(y0))
    result = solve(x64(y0), check_errors=False)
    assert not result.converged.item()
    assert result.y[-1].isnan().all().item()
    assert result.y[0].tolist() == y0


@every_row(
    "call, error, words",
    [
        (lambda y: odeint(lambda t, y: y, y, [0.0, 0.0]), ArgumentError, r"got times \[0.0, 0.0\]; expected finite"),
        (lambda y: odeint(lambda t, y: y, y, [0.0, 2.0, 1.0]), ArgumentError, "times that strictly increase"),
        (lambda y: odeint(lambda t, y: y, y, y.int()), KindError, "float tensor, got IntTensor.*call .float"),
        (lambda y: odeint(lambda t, y: y, y, []), ShapeError, "at least one, got shape .0,."),
        (lambda y: odeint(lambda t, y: y, y, y.cumsum(0).to_dtype("float32")), DTypeError, "times of dtype float32"),
        (lambda y: odeint(lambda t, y: y[:2], y, [0.0, 1.0]), ShapeError, "a result of f of shape .2,. for y0"),
        (lambda y: odeint(lambda t, y: {"a": y}, y, [0.0, 1.0]), ArgumentError, "a result of f of structure"),
        (lambda y: odeint(lambda t, y: None, y, [0.0, 1.0]), ArgumentError, "a result of f of structure None"),
        (
            lambda y: odeint(lambda t, y: y.to_dtype("float32"), y, [0.0, 1.0]),
            DTypeError,
            "a result of f of dtype float32",
        ),
        (lambda y: odeint(lambda t, y: y, y.int(), [0.0, 1.0]), KindError, "y0 is IntTensor"),
        (lambda y: odeint(lambda t, y: y, y, [0.0, 1.0], method="euler"), ArgumentError, 'expected "dopri5"'),
        (
            lambda y: odeint(lambda t, y: y, y, [0.0, 1.0], rtol=0.0),
            ArgumentError,
            "rtol=0.0; expected a finite number",
        ),
        (lambda y: odeint(lambda t, y: y, y, [0.0, 1.0], max_steps=0), ArgumentError, "max_steps=0"),
        (lambda y: odeint(lambda t, y: y, y, [0.0, 1.0], event=lambda t, y: y), ShapeError, "event function"),
        (lambda y: odeint(1.0, y, [0.0, 1.0]), KindError, "takes a function of the time and the state"),  # type: ignore[arg-type]  # wrong on purpose
    ],
)
def test_mistakes_are_one_sentence(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(START)


def driven_by(x: Any, **options: Any) -> Any:
    """A function of two times, a first state and a parameter; f uses it and an exponential that is computed outside."""
    times, rate = stack([x[0], 0.5 * (x[0] + x[1]), x[1]]), x[3].exp()
    y = odeint(lambda t, y: -rate * y * y + t.sin() * x[3], x[2:3], times, **options).y
    return y[2, 0] + 2.0 * y[1, 0] * y[1, 0] + y[0, 0]


ADJOINT_AT = x64([0.1, 1.2, 0.7, 0.3])


@cache
def derivatives_at() -> tuple[list[float], Any]:
    """Return the first derivatives of `driven_by`, by differences, and the second ones, without an adjoint."""

    def exact(x: Any) -> float:
        return float(driven_by(x, rtol=1e-12, atol=1e-13).item())

    bumps = [x64(row) for row in 1e-5 * np.eye(4)]
    first = [(exact(ADJOINT_AT + d) - exact(ADJOINT_AT - d)) / 2e-5 for d in bumps]
    return first, hessian(lambda x: driven_by(x, rtol=1e-9))(ADJOINT_AT).to_numpy()


@pytest.mark.slowest
@pytest.mark.parametrize("options", [{}, {"method": "rk4", "substeps": 10}])
def test_the_adjoint_has_the_derivatives_of_the_solution(options: Any) -> None:
    """First and second derivatives, alone and in a batch, which may be inside or outside."""

    def f(x: Any) -> Any:
        return driven_by(x, adjoint=True, **options)

    first, second = derivatives_at()
    rows = stack([ADJOINT_AT, ADJOINT_AT * 1.1])
    batched = grad(lambda rows: vmap(f)(rows).sum())
    for found in (grad(f)(ADJOINT_AT), jacobian(f)(ADJOINT_AT), vmap(grad(f))(rows)[0], batched(rows)[0]):
        np.testing.assert_allclose(found.to_numpy(), first, rtol=1e-5)
    np.testing.assert_allclose([jvp(f, ADJOINT_AT, x64(row))[1].item() for row in np.eye(4)], first, rtol=2e-5)
    for found in (hessian(f)(ADJOINT_AT), jacobian(grad(f))(ADJOINT_AT), vmap(hessian(f))(rows)[0]):
        np.testing.assert_allclose(found.to_numpy(), second, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_adjoint_of_a_model_and_of_complex_states() -> None:
    device = Autodiff[NumPy]
    model, y0 = Linear(2, 2, device=device), Tensor[device].normal((3, 2)).require_grad()

    def gradients(adjoint: bool, again: bool = False) -> list[Any]:
        def loss() -> Any:
            return odeint(lambda t, y: model(y).tanh(), y0, [0.0, 0.5, 1.0], adjoint=adjoint).y.square().mean()

        grads = (checkpoint(loss) if again else loss()).backward()
        return [grads[x].to_numpy() for x in (y0, *(p.value for p in model.params()))]

    for found, repeated, want in zip(gradients(True), gradients(True, True), gradients(False), strict=True):
        np.testing.assert_allclose(found, want, atol=1e-5)
        np.testing.assert_array_equal(found, repeated)
    z0 = ComplexTensor[NumPy].from_data(np.array([1.0, 1j]))

    def turned(rates: Any, adjoint: bool) -> Any:
        return (odeint(lambda t, z: rates * z, z0, [0.0, 1.0], adjoint=adjoint).y[-1] * 1j).real.sum()

    found, want = [grad(lambda rates, each=each: turned(rates, each))(z0 * 0.5) for each in (True, False)]
    np.testing.assert_allclose(found.to_numpy(), want.to_numpy(), atol=1e-6)
    fast = compiled(grad(lambda x: driven_by(x, adjoint=True)))(ADJOINT_AT)
    np.testing.assert_allclose(fast.to_numpy(), grad(driven_by)(ADJOINT_AT).to_numpy(), rtol=1e-5)


@every_row("smallest", [0, 4096])
def test_the_adjoint_of_a_balanced_device(smallest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There results of f are arrays with their recipes, and gradients are arrays of the device beneath."""
    monkeypatch.setattr(Balanced, "smallest", smallest)

    def gradients(device: Any) -> Any:
        x = Tensor[device].from_data(ADJOINT_AT.to_numpy(), dtype="float64").require_grad()
        grads = driven_by(x, adjoint=True).backward()
        assert grads[x].device is NumPy.device()
        return grads[x].tolist()

    assert gradients(Autodiff[Balanced[NumPy]]) == gradients(Autodiff[NumPy])


def test_the_graph_of_an_adjoint_does_not_grow_with_the_steps() -> None:
    rate = Tensor[Autodiff[NumPy]].from_data(1.0, dtype="float64").require_grad()

    def nodes(adjoint: bool, end: float) -> int:
        f: Callable[[Any, Any], Any] = lambda t, y: stack([y[1], -rate * y[0]])  # noqa: E731
        y = odeint(f, rate.ones_like().expand((2,)), [0.0, end], adjoint=adjoint).y
        return len(walk([y._primitive.node])[0])

    assert nodes(True, 1.0) == nodes(True, 4.0) < 10
    assert nodes(False, 4.0) > nodes(False, 1.0) + 100


@every_row(
    "options, words",
    [
        ({"method": "rodas4"}, "stiff equations cannot be solved backwards"),
        ({"event": lambda t, y: y.sum()}, "ends early has no adjoint"),
        ({"atol": START}, "atol as a tree"),
        ({"first_step": 0.1}, "each interval of the adjoint"),
    ],
)
def test_options_without_an_adjoint_are_refused(options: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=f"adjoint=True and .*{words}.*adjoint=False"):
        odeint(lambda t, y: y, START, [0.0, 1.0], adjoint=True, **options)


def test_an_adjoint_says_what_it_cannot_differentiate() -> None:
    one = x64([1.0])

    def late(x: Any) -> Any:
        """The parameter has its part in the steps back alone, as rounding may have it there."""
        calls: list[int] = []

        def f(t: Any, y: Any) -> Any:
            calls.append(1)
            return y * x if len(calls) > 25 else -y

        return odeint(f, x * 2.0, [0.0, 1.0], method="rk4", substeps=5, adjoint=True).y[-1].sum()

    with pytest.raises(NotTrackedError, match="depends on a tensor in some steps only"):
        grad(lambda x: late(x.exp()))(one)
    with pytest.raises(NotTrackedError, match="use jvp of grad in place of grad of jvp"):
        grad(lambda x: jvp(lambda y: odeint(lambda t, y: -y, y, [0.0, 1.0], adjoint=True).y.sum(), x, one)[1])(one)


@pytest.mark.slow
def test_stiff_equations_of_a_batch_that_end_after_other_numbers_of_steps() -> None:
    """An example at the end takes steps of length 0, of whose matrix with 1 / h nothing may reach its gradient."""
    rates = x64([[1.0], [1.1], [2.0]])

    def end(rate: Tensor[NumPy]) -> Tensor[NumPy]:
        return odeint(lambda t, y: -y * rate, rate * 0.0 + 1.0, [0.0, 1.0], method="rodas4").y[-1].sum()

    assert vmap(grad(end))(rates).allclose(-(-rates).exp(), rtol=1e-3)
    assert vmap(hessian(end))(rates).reshape(3, 1).allclose((-rates).exp(), rtol=1e-2)
