"""Derivatives inside of each other: closures over outer variables, perturbation confusion, what escapes, lifetimes."""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, cat, compiled, stack, where
from burnpy.autodiff import Balanced, Forward, checkpoint, custom_jvp, make_dual, unpack_dual
from burnpy.autodiff.modes import no_grad
from burnpy.autodiff.recording import observing
from burnpy.backend import Checked, Mixed, NumPy, Profiled, errors
from burnpy.func import grad, hessian, hvp, jacfwd, jacobian, jacrev, jvp, linearize, value_and_grad, vhp, vjp, vmap
from burnpy.func.pytree import tensors_in
from tests.rows import every_row

F = Callable[[Any], Any]


def x64(data: Any, device: Any = NumPy) -> Tensor[Any]:
    return Tensor.from_data(data, dtype="float64", device=device)


def ones_like(x: Any) -> Any:
    return Tensor.ones(x.shape, dtype=x.dtype, device=x.device)


# Ways to the derivative of a function of one number.
WAYS: dict[str, Callable[[F], F]] = {
    "grad": grad,
    "value_and_grad": lambda f: lambda x: value_and_grad(f)(x)[1],
    "vjp": lambda f: lambda x: vjp(f, x)[1](ones_like(x))[0],
    "jvp": lambda f: lambda x: jvp(f, (x,), (ones_like(x),))[1],
    "linearize": lambda f: lambda x: linearize(f, x)[1](ones_like(x)),
    "jacrev": jacrev,
    "jacfwd": lambda f: jacobian(f, mode="forward", chunk_size=1),
}
PAIRS = list(itertools.product(WAYS, repeat=2))
TRIPLES = list(itertools.product(("grad", "jvp", "linearize"), repeat=3))


@every_row("names", PAIRS, ids="-".join)
def test_perturbations_are_not_confused(names: tuple[str, str]) -> None:
    outer, inner = (WAYS[name] for name in names)
    x, elsewhere = x64(3.0), x64(5.0)
    # d/dx [x · d/dy (x · y)] = 2x, wherever the inner derivative is taken.
    assert outer(lambda x: x * inner(lambda y: x * y)(x))(x).item() == 6.0
    assert outer(lambda x: x * inner(lambda y: x * y)(elsewhere))(x).item() == 6.0
    # d/dx [x · d/dy (x + y)] at y = 1: Siskind and Pearlmutter's, 1; not 2.
    assert outer(lambda x: x * inner(lambda y: x + y)(x64(1.0)))(x64(1.0)).item() == 1.0
    # The inner function does not depend on its argument, or only on the outer variable.
    assert outer(lambda x: x * x + inner(lambda y: x * x)(x))(x).item() == 6.0
    assert outer(lambda x: inner(lambda y: y)(x) * x)(x).item() == 1.0
    # Second derivatives.
    assert outer(inner(lambda x: x * x * x))(x).item() == 18.0


@every_row("names", TRIPLES, ids="-".join)
def test_three_deep(names: tuple[str, str, str]) -> None:
    a, b, c = (WAYS[name] for name in names)
    at = x64(0.7)
    assert a(b(c(lambda x: x.sin())))(at).item() == pytest.approx(-np.cos(0.7), abs=1e-14)

    def f(x: Any) -> Any:
        # d/dy [sin(xy) · d/dz (x y² z²)] = 2x⁶ cos(x²) / x + 6x³ sin(x²) at y = z = x
        return x * b(lambda y: (x * y).sin() * c(lambda z: x * y * y * z * z)(y))(x)

    x, s, c2 = 0.7, np.sin(0.49), np.cos(0.49)
    want = 12 * x**5 * c2 - 4 * x**7 * s + 24 * x**3 * s + 12 * x**5 * c2
    assert a(f)(at).item() == pytest.approx(want, rel=1e-13)


def test_four_deep_and_far_variables() -> None:
    at = x64(2.0)

    def f(w: Any) -> Any:
        return grad(lambda x: jvp(lambda y: grad(lambda z: w**3 * x**2 * y**2 * z**2)(y), (x,), (w,))[1])(w)

    # 2w³x²y²z at z = y: 2w³x²y³; its derivative along w: 6w⁴x²y² at y = x: 6w⁴x⁴, by x at w: 24w⁷.
    assert f(at).item() == 24 * 2.0**7
    assert grad(f)(at).item() == 24 * 7 * 2.0**6


def test_no_grad_around_does_not_silence_and_inside_does() -> None:
    x = x64(3.0)
    for way in WAYS.values():
        with no_grad():
            assert way(lambda x: x * x)(x).item() == 6.0
            assert way(way(lambda x: x * x * x))(x).item() == 18.0

        def f(x: Any) -> Any:
            with no_grad():
                constant = x * x
            return constant * x

        assert way(f)(x).item() == 9.0
        assert way(lambda x: x.detach() * x)(x).item() == 3.0

    def g(x: Any) -> Any:
        with no_grad():
            slope = grad(lambda y: y * y * x)(x)  # its own level records
        return slope * x

    assert grad(g)(x).item() == 2 * 9.0


@every_row("way", WAYS.values(), ids=WAYS)
def test_on_tensors_that_are_tracked_already(way: Callable[[F], F]) -> None:
    x = x64(3.0, Autodiff[NumPy]).require_grad()
    slope = way(lambda y: y * y * x)(x)
    assert slope.device is Autodiff(NumPy())
    assert slope.backward()[x].item() == 4 * 3.0
    dual = make_dual(x64(3.0), x64(1.0))
    primal, tangent = unpack_dual(way(lambda y: y * y * dual)(dual))
    assert (primal.item(), tangent is not None and tangent.item()) == (18.0, 12.0)
    assert isinstance(dual.device, Forward)


def test_results_are_on_the_device_of_the_arguments() -> None:
    x = x64([1.0, 2.0])
    results = [
        grad(lambda x: x.sum())(x),
        grad(lambda x: x64(1.0))(x),  # independent of the argument, and plain
        *vjp(lambda x: x, x)[1](x),
        *jvp(lambda x: (x, x64(0.0)), (x,), (x,))[1],
        *hvp(lambda x: x.sum(), x, x),
        *vhp(lambda x: x.sum(), x, x),
        jacobian(lambda x: x * 2)(x),
        hessian(lambda x: x.sum())(x),
        linearize(lambda x: x, x)[1](x),
    ]
    assert all(r.device is NumPy() and not r.is_require_grad() for r in results)


def test_an_inner_result_can_be_used_on_the_outer_level() -> None:
    x = x64([1.0, 2.0])

    def f(x: Any) -> Any:
        value, slope = value_and_grad(lambda y: (y * y * x).sum())(x64([3.0, 4.0]))
        return value + (slope * x64([1.0, 10.0])).sum()

    # Σ y²x + Σ c 2yx by x: y² + 2cy
    assert grad(f)(x).tolist() == [9.0 + 6.0, 16.0 + 80.0]


def test_the_pullback_and_the_derivative_can_be_differentiated() -> None:
    x, v = x64([0.5, 2.0]), x64([3.0, -1.0])
    pullback, push = vjp(lambda x: x.sin() * x, x)[1], linearize(lambda x: x.sin() * x, x)[1]
    slope = np.cos([0.5, 2.0]) * [0.5, 2.0] + np.sin([0.5, 2.0])
    linear: Any
    for linear in (lambda v: pullback(v)[0], push):
        np.testing.assert_allclose(linear(v).to_numpy(), slope * v.to_numpy(), rtol=1e-14)
        np.testing.assert_allclose(
            grad(lambda v, linear=linear: (linear(v) ** 2).sum())(v).to_numpy(), 2 * slope**2 * v.to_numpy()
        )
        np.testing.assert_allclose(jacfwd(linear)(v).to_numpy(), np.diag(slope), rtol=1e-14)
        np.testing.assert_allclose(hessian(lambda v, linear=linear: (linear(v) ** 3).sum())(v).to_numpy(),
                                   np.diag(6 * slope**3 * v.to_numpy()), rtol=1e-13)  # fmt: skip
        assert linear(v).device is NumPy()


def test_a_pullback_of_a_vector_that_is_differentiated_by_the_point() -> None:
    x, v = x64([0.5, 2.0]), x64([3.0, -1.0])
    found = grad(lambda x: (vjp(lambda y: y.exp() * x, x)[1](v)[0]).sum())(x)  # d/dx Σ v eˣ x
    e = np.exp([0.5, 2.0])
    np.testing.assert_allclose(found.to_numpy(), v.to_numpy() * e * (1 + np.array([0.5, 2.0])), rtol=1e-14)


USES: dict[str, Callable[[Any, Any], Any]] = {
    "method": lambda kept, x: kept.exp(),
    "with itself": lambda kept, x: kept * kept,
    "with a number": lambda kept, x: kept + 1.0,
    "first": lambda kept, x: kept * x,
    "second": lambda kept, x: x * kept,
    "matmul": lambda kept, x: x @ kept,
    "index": lambda kept, x: kept[0],
    "cat": lambda kept, x: cat([x, kept]),
    "stack": lambda kept, x: stack([kept, x]),
    "where": lambda kept, x: where(x > 0, x, kept),
    "sum": lambda kept, x: kept.sum(),
    "compare": lambda kept, x: x > kept,
    "differentiated": lambda kept, x: grad(lambda y: y.sum())(kept),
    "closed over": lambda kept, x: grad(lambda y: (y * kept).sum())(x),
    "returned": lambda kept, x: grad(lambda y: kept.sum())(x),
    "as a tangent": lambda kept, x: jvp(lambda y: y, (x,), (kept,)),
    "as an output": lambda kept, x: jvp(lambda y: kept, (x,), (x,)),
}


@every_row("use", USES.values(), ids=USES)
@every_row("way", ["grad", "jvp"])
def test_what_escapes_from_its_level_cannot_be_used(way: str, use: Callable[[Any, Any], Any]) -> None:
    kept: list[Any] = []
    x = x64([1.0, 2.0])

    def f(x: Any) -> Any:
        kept.append(x * 2)
        return x.sum()

    grad(f)(x) if way == "grad" else jvp(f, (x,), (x,))
    with pytest.raises(errors.EscapedError, match=rf"a function that {way}\(\) called and that has returned"):
        use(kept[0], x)
    assert "the closed level of" in repr(kept[0])
    assert kept[0].tolist() == [2.0, 4.0]


@every_row("name", ["cat", "stack", "where"])
def test_the_error_names_the_function_that_got_an_escaped_tensor(name: str) -> None:
    kept: list[Any] = []
    x = x64([1.0, 2.0])

    def f(x: Any) -> Any:
        kept.extend((x * 2, x > 0))
        return x.sum()

    grad(f)(x)
    y, mask = kept
    uses = {"cat": lambda: cat([y, y]), "stack": lambda: stack([y, y]), "where": lambda: where(mask, y, y)}
    with pytest.raises(errors.EscapedError, match=rf"^{name}\(\) got"):
        uses[name]()


def test_a_pullback_that_escapes_from_an_outer_level() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.extend((vjp(lambda y: y * x, x)[1], linearize(lambda y: y * x, x)[1], jacobian(lambda y: y * x)))
        return x.sum()

    x = x64([1.0, 2.0])
    grad(f)(x)
    for use in kept:
        with pytest.raises(errors.EscapedError, match="has returned"):
            use(x)


def test_a_level_is_closed_where_the_function_raises() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        grad(f)(x64(1.0))
    with pytest.raises(errors.EscapedError):
        kept[0] + 1.0
    assert grad(lambda x: x * x)(x64(3.0)).item() == 6.0  # and nothing is left open


def test_tensors_tracked_elsewhere_are_an_error() -> None:
    x, w = x64([1.0, 2.0]), x64([1.0, 2.0], Autodiff[NumPy]).require_grad()
    for f in (lambda x: (x * w).sum(), lambda x: (w * x).sum(), lambda x: w.sum()):
        with pytest.raises(errors.DeviceError, match="Autodiff"):
            grad(f)(x)
        with pytest.raises(errors.DeviceError, match="Autodiff"):
            jvp(f, (x,), (x,))
    with pytest.raises(errors.DeviceError, match=r"grad\(\) got tensors on"):
        grad(lambda x, w: x.sum())(x, w)


def test_levels_of_two_threads_do_not_mix() -> None:
    failures: list[BaseException] = []

    def f(x: Any) -> Any:
        def work() -> None:
            try:
                grad(lambda y: y * x)(x64(1.0))
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return grad(lambda y: y * x)(x)

    grad(f)(x64(3.0))
    if failures:  # where threads begin with an empty context; free-threaded builds of 3.14 hand theirs on
        assert isinstance(failures[0], errors.DeviceError)
        assert "as arguments" in str(failures[0])


def test_threads_differentiate_at_once() -> None:
    wrong: list[Any] = []
    barrier = threading.Barrier(4)
    shared = x64(2.0)
    pullback = vjp(lambda x: x * x * shared, shared)[1]

    def work(k: int) -> None:
        barrier.wait()
        for n in range(40):
            x = x64(float(k + n % 3))
            found = grad(lambda x: x * jvp(lambda y: x * y * shared, (x,), (shared,))[1])(x).item()
            third = grad(grad(grad(lambda x: x**4)))(x).item()
            if (found, third, pullback(x)[0].item()) != (8 * x.item(), 24 * x.item(), 8 * x.item()):
                wrong.append((k, n, found, third))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.slow
def test_no_graph_is_left_alive() -> None:
    x = x64([1.0, 2.0])

    def f(x: Any) -> Any:
        return (x.sin() * x[:1] * grad(lambda y: (y * x).sum())(x)).sum()

    runs: dict[str, Callable[[], Any]] = {
        "grad": lambda: grad(f)(x),
        "vjp": lambda: vjp(f, x)[1](x64(1.0)),
        "jvp": lambda: jvp(f, (x,), (x,)),
        "linearize": lambda: linearize(f, x)[1](x),
        "hessian": lambda: hessian(f)(x),
        "jacobian": lambda: jacobian(lambda x: x * x)(x),
        "hvp": lambda: hvp(f, x, x),
        "vhp": lambda: vhp(f, x, x),
        "an error": lambda: _raising(x),
    }
    for name, run in runs.items():
        nodes: list[weakref.ref[Any]] = []
        devices: list[weakref.ref[Any]] = []

        def note(device: Any, node: Any, nodes: Any = nodes, devices: Any = devices) -> None:
            nodes.append(weakref.ref(node))
            devices.append(weakref.ref(device))

        with uncollected(), observing(note):
            result = run()
            assert nodes, name
            assert not [ref for ref in nodes if ref() is not None], name
            assert not [ref for ref in devices if ref() is not None], name
        del result


def _raising(x: Any) -> None:
    with contextlib.suppress(errors.ShapeError):
        grad(lambda x: x * x)(x)


def test_a_pullback_keeps_its_graph_and_lets_it_go() -> None:
    nodes: list[weakref.ref[Any]] = []
    with uncollected(), observing(lambda device, node: nodes.append(weakref.ref(node))):
        pullback = vjp(lambda x: x.sin().sum(), x64([1.0]))[1]
        assert any(ref() is not None for ref in nodes)
        pullback(x64(1.0)), pullback(x64(2.0))
        del pullback
        assert not [ref for ref in nodes if ref() is not None]


def test_ints_and_random_numbers_inside_of_a_function() -> None:
    x = x64([1.0, 2.0, 3.0])
    index = IntTensor[NumPy].from_data([2, 0, 2])

    def f(x: Any) -> Any:
        found = x[index] * x.index_select(0, x.argmax().reshape(1))
        noise = Tensor.normal(x.shape, dtype=x.dtype, device=x.device) * 0.0
        return (found + noise).sum() + Tensor.arange(3, dtype=x.dtype, device=x.device).sum()

    # (2 x₂ + x₀) x₂
    assert grad(f)(x).tolist() == [3.0, 0.0, 13.0]
    assert jacfwd(f)(x).tolist() == [3.0, 0.0, 13.0]


def closing_over(device: Any) -> dict[str, Callable[[], Any]]:
    """All transforms, of functions that close over tensors on the device of their arguments."""
    values = np.random.default_rng(0).normal(size=(4, 4))
    x, w, rows = x64(values, device), x64(values.T + 1.0, device), IntTensor.from_data([3, 0], device=device)

    @custom_jvp
    def warped(a: Any) -> Any:
        return (a @ w).tanh()

    @warped.defjvp
    def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        out = (primals[0] @ w).tanh()
        return out, (tangents[0] @ w) * (1.0 - out * out)

    def g(a: Any) -> Any:
        return (a @ w).tanh() * w + a.square().mean() * w

    def f(a: Any) -> Any:
        return g(a).sum() + (a[rows] @ w[rows].mT).sum()

    def pulled(a: Any) -> Any:
        out, pull = vjp(g, a)
        return out, pull(w)

    def pushed(a: Any) -> Any:
        out, push = linearize(g, a)
        return out, push(w)

    return {
        "grad": lambda: grad(f)(x),
        "value_and_grad": lambda: value_and_grad(f)(x),
        "vjp": lambda: pulled(x),
        "jvp": lambda: jvp(g, (x,), (w,)),
        "linearize": lambda: pushed(x),
        "jacobian": lambda: jacobian(g)(x),
        "jacrev": lambda: jacrev(g)(x),
        "jacfwd": lambda: jacfwd(g)(x),
        "hessian": lambda: hessian(f)(x),
        "hvp": lambda: hvp(f, (x,), (w,)),
        "vhp": lambda: vhp(f, x, w),
        "grad of grad": lambda: grad(lambda a: (grad(f)(a) * w).sum())(x),
        "grad of jvp": lambda: grad(lambda a: jvp(g, (a,), (w,))[1].sum())(x),
        "jvp of grad": lambda: jvp(grad(f), (x,), (w,)),
        "has_aux": lambda: grad(lambda a: (f(a), a * w), has_aux=True)(x),
        "inner": lambda: grad(lambda a: (a * (a.inner() * w)).sum())(x),
        "checkpoint": lambda: grad(lambda a: checkpoint(lambda b: (b @ w).tanh(), a).sum())(x),
        "custom_jvp": lambda: grad(lambda a: warped(a).sum())(x),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", closing_over(NumPy))
def test_functions_close_over_tensors_on_any_decorator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Balanced, "smallest", 0)  # recipes for small arrays too
    expected = [np.asarray(x) for x in tensors_in(closing_over(NumPy)[name]())]
    assert expected
    kinds: list[Any] = [Balanced, Profiled, Checked, Mixed]
    inside = [*(kind(NumPy()) for kind in kinds), Balanced(Checked(NumPy())), Profiled(Balanced(NumPy()))]
    for device in [*inside, *map(Autodiff, inside), *map(Forward, inside)]:
        found = tensors_in(closing_over(device)[name]())
        assert {x.device for x in found} == {device}
        tolerance = 0.0 if "Mixed" not in str(device) else 0.05
        for x, value in zip(found, expected, strict=True):
            difference = np.abs(np.asarray(x) - value).max()
            assert difference <= tolerance * np.abs(value).max() + 1e-12, f"{device}: differs by {difference}"


def compiled_with_number(f: Any) -> Any:
    return lambda x: compiled(f)(x, 2.0)


LEVELS = (grad, jacfwd, jacrev, hessian, vmap)


@pytest.mark.parametrize(
    ("transform", "raises"), [*itertools.product(LEVELS, (False, True)), (compiled_with_number, True)]
)
def test_nothing_is_left_for_the_garbage_collector(transform: Any, raises: bool) -> None:
    """Levels are freed as soon as their function has returned, or raised an error; so is a recording by an error."""

    def f(x: Any, scale: Any = 1.0) -> Any:
        if raises:
            raise ArithmeticError
        return (x * x * scale).sum()

    def call() -> None:
        with contextlib.suppress(ArithmeticError):
            transform(f)(Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]]))

    call()
    gc.collect()
    gc.disable()
    gc.freeze()  # so that the second collection looks through what the call has made alone
    try:
        call()
        assert gc.collect() == 0
    finally:
        gc.enable()
