"""`custom_vjp` and `custom_jvp`: functions whose derivative is another function."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, func
from burnpy.autodiff import Forward, custom_jvp, custom_vjp, make_dual, unpack_dual
from burnpy.autodiff.modes import no_grad
from burnpy.autodiff.recording import observing
from burnpy.backend import Backend, NumPy, errors
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

B = TypeVar("B", bound=Backend)
Train = Autodiff[NumPy]
Twice = Autodiff[Train]


def plain(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


def leaf(data: Any, device: Any = Train) -> Any:
    return Tensor.from_data(data, dtype="float64", device=device).require_grad()


@custom_vjp
def product(x: Tensor[B], scale: float, y: Tensor[B]) -> Tensor[B]:
    """x times y times a number."""
    return x * y * scale


def product_forward(x: Tensor[B], scale: float, y: Tensor[B]) -> tuple[Tensor[B], Any]:
    return product(x, scale, y), {"xy": (x, [y]), "scale": scale, "none": None}


def product_backward(residuals: Any, grad: Tensor[B]) -> tuple[Tensor[B], None, Tensor[B]]:
    x, (y,) = residuals["xy"]
    assert residuals["none"] is None
    return grad * y * residuals["scale"], None, grad * x * residuals["scale"]


product.defvjp(product_forward, product_backward)


@custom_jvp
def softlog(x: Tensor[B], y: Tensor[B]) -> tuple[Tensor[B], Tensor[B], IntTensor[B]]:
    return x.exp() / y, (x * y).sum(), x.int()


@softlog.defjvp
def softlog_jvp(primals: Any, tangents: Any) -> Any:
    x, y = primals
    tx, ty = tangents
    e = x.exp()
    first = (tx * e - e * ty / y) / y
    second = (tx * y + x * ty).reshape(-1).cumsum(0)[-1] if x.numel() else (tx * y).sum()
    return softlog(x, y), (first, second, None)


def floats(found: tuple[Any, ...]) -> tuple[Any, ...]:
    return found[:2]


CHECKED: list[tuple[str, Callable[..., Any]]] = [
    ("custom_jvp", lambda x, y: floats(softlog(x, y))),
    ("one result of custom_jvp", lambda x, y: softlog(x, y)[1]),
    ("custom_jvp of one tensor", lambda x, y: (*floats(softlog(x, x)), y * 1.0)),
    ("custom_jvp of itself", lambda x, y: softlog(softlog(x, y)[0], y)[0]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("claim", "f"), CHECKED, ids=[row[0] for row in CHECKED])
@pytest.mark.parametrize("shape", [(2,), (), (0,)])
def test_custom_jvp_is_right_in_both_modes_and_twice(claim: str, f: Any, shape: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = (plain(rng.uniform(0.5, 1.5, shape)) for _ in range(2))
    gradcheck(f, (x, y))
    gradgradcheck(f, (x, y))


def test_custom_vjp_in_reverse_and_twice() -> None:
    def f(x: Any, y: Any) -> Any:
        return product(x, 3.0, y.sin()) * x

    x, y = plain([0.3, -0.5]), plain([1.5, 0.7])
    gradcheck(f, (x, y), check_forward_ad=False)
    gradgradcheck(f, (x, y), check_forward_ad=False)


def test_what_differentiates_is_what_runs() -> None:
    seen: list[str] = []

    @custom_vjp
    def f(x: Tensor[B]) -> Tensor[B]:
        seen.append(f"f {x.device}")
        return x * x

    def fwd(x: Tensor[B]) -> tuple[Tensor[B], Tensor[B]]:
        seen.append(f"fwd {x.device}")
        return x * x, x

    def bwd(x: Tensor[B], grad: Tensor[B]) -> tuple[Tensor[B]]:
        seen.append(f"bwd {x.device} {grad.device}")
        return (grad * x * 2.0,)

    f.defvjp(fwd, bwd)
    f(plain(1.0))
    f(leaf(1.0).detach())
    with no_grad():
        f(leaf(1.0))
    assert seen == ["f NumPy"] * 3
    seen.clear()
    x = leaf(3.0, Twice)
    first = f(x).backward()[x]
    assert first.backward()[x.inner()].item() == 2.0
    assert seen == ["fwd Autodiff[NumPy]", "bwd Autodiff[NumPy] Autodiff[NumPy]"]
    seen.clear()
    lifted = f(Tensor.from_inner(leaf(3.0)))
    assert lifted.is_require_grad(), "the inner level differentiates by its own leaf"
    assert seen == ["fwd NumPy"]


def test_the_rule_is_believed() -> None:
    @custom_vjp
    def through(x: Tensor[B]) -> Tensor[B]:
        return x.round()

    through.defvjp(lambda x: (through(x), None), lambda _, grad: (grad * 7.0,))
    x = leaf([1.2, 2.7])
    assert through(x).sum().backward()[x].tolist() == [7.0, 7.0]


def test_several_results_of_custom_vjp() -> None:
    seen: list[Any] = []

    class Pair(NamedTuple):
        low: Any
        high: Any

    @custom_vjp
    def f(x: Any, y: Any) -> Any:
        return Pair(x * y, (y * 2.0).sum()), 0

    @custom_vjp
    def g(x: Any, y: Any) -> Any:
        return Pair(x * y, y.int())

    def bwd(residuals: Any, grads: Any) -> Any:
        seen.append(grads)
        return grads[0] * residuals[1], None

    g.defvjp(lambda x, y: (g(x, y), (x, y)), bwd)
    x, y = leaf([2.0]), leaf([3.0])
    found = g(x, y)
    assert isinstance(found, Pair)
    assert isinstance(found.high, IntTensor)
    grads = found.low.backward()
    assert (grads[x].tolist(), y.grad(grads)) == ([3.0], None)
    assert seen[0][1] is None
    with pytest.raises(errors.KindError, match=r"f\(\) returned Pair"):
        f(x.detach(), y.detach())


def test_residuals_keep_their_form() -> None:
    class Saved(NamedTuple):
        x: Any
        rest: Any

    seen: list[Any] = []

    @custom_vjp
    def f(x: Any) -> Any:
        return x * 2.0

    def fwd(x: Any) -> Any:
        return x * 2.0, Saved(x, [(x, 3), OrderedDict(i=x.int(), b=x > 0.0, s="s")])

    def bwd(residuals: Any, grad: Any) -> Any:
        seen.append(residuals)
        return grad * 2.0

    f.defvjp(fwd, bwd)
    x = leaf([1.5])
    f(x).backward()
    (saved,) = seen
    (also, three), named = saved.rest
    assert isinstance(saved, Saved)
    assert isinstance(named, OrderedDict)
    assert (saved.x.tolist(), also.tolist(), three) == ([1.5], [1.5], 3)
    assert (named["i"].tolist(), named["b"].tolist(), named["s"]) == ([1], [True], "s")
    assert {t.device for t in (saved.x, also, named["i"], named["b"])} == {NumPy()}


@pytest.mark.parametrize("decorator", [custom_vjp, custom_jvp])
def test_without_tensors_the_function_just_runs(decorator: Any) -> None:
    assert decorator(lambda n: n * 2.0)(3.0) == 6.0


def test_arguments_by_name_and_default() -> None:
    @custom_jvp
    def f(x: Tensor[B], scale: float = 2.0, shift: float = 0.0) -> Tensor[B]:
        return x * scale + shift

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * primals[1]))
    x = leaf(1.0)
    assert f(x, shift=1.0).backward()[x].item() == 2.0
    assert f(x, scale=3.0).backward()[x].item() == 3.0
    assert f(shift=1.0, x=x, scale=4.0).backward()[x].item() == 4.0


def test_decorated_functions_look_like_functions() -> None:
    assert (product.__name__, product.__doc__) == ("product", "x times y times a number.")  # type: ignore[attr-defined]  # of functions
    assert repr(product) == "<custom_vjp product>"
    assert product(leaf(1.0), 2.0, leaf(1.0)).grad_fn.name == "product"  # type: ignore[union-attr]  # tracked
    assert product(plain(2.0), 3.0, plain(4.0)).item() == 24.0


def test_observers_see_what_custom_vjp_keeps() -> None:
    seen: list[Any] = []
    x, y = leaf([5.0]), leaf([7.0])
    with observing(lambda device, node: seen.append(node)):
        product(x, 1.0, y)
    (node,) = seen
    assert node.operation == "product"
    assert [v.tolist() for v in node.saved0 if isinstance(v, np.ndarray)] == [[5.0], [7.0]]


def test_forward_mode_of_custom_jvp() -> None:
    x = make_dual(plain([0.5]), plain([2.0]))
    first, _, index = softlog(x, Tensor.from_data([2.0], dtype="float64", device=x.device))
    assert unpack_dual(first).tangent.item() == pytest.approx(np.exp(0.5))  # type: ignore[union-attr]  # there
    assert index.tolist() == [0]


def test_custom_vjp_has_no_forward_mode() -> None:
    x = make_dual(plain(1.0), plain(1.0))
    with pytest.raises(errors.NotTrackedError, match=r"product\(\) was differentiated in forward mode.*custom_jvp"):
        product(x, 1.0, x)
    constant = Tensor.from_data(1.0, dtype="float64", device=Forward(NumPy()))
    assert product(constant, 2.0, constant).item() == 2.0


def test_rules_that_are_not_there() -> None:
    @custom_vjp
    def f(x: Tensor[B]) -> Tensor[B]:
        return x * 2.0

    @custom_jvp
    def g(x: Tensor[B]) -> Tensor[B]:
        return x * 2.0

    assert (f(plain(1.0)).item(), g(plain(1.0)).item()) == (2.0, 2.0)
    with pytest.raises(errors.NotTrackedError, match=r"f\(\).*f\.defvjp\(fwd, bwd\)"):
        f(leaf(1.0))
    with pytest.raises(errors.NotTrackedError, match=r"g\(\).*g\.defjvp\(jvp\)"):
        g(leaf(1.0))
    with pytest.raises(errors.KindError, match=r"f\.defvjp\(fwd, bwd\) takes two functions"):
        f.defvjp(f, None)  # type: ignore[arg-type]  # which is the point
    with pytest.raises(errors.KindError, match=r"g\.defjvp\(jvp\) takes a function"):
        g.defjvp(3)  # type: ignore[type-var]  # which is the point
    with pytest.raises(errors.KindError, match="decorates a function"):
        custom_vjp(3)  # type: ignore[type-var]  # which is the point

    def keyword(x: Any, *, scale: float) -> Any:
        return x

    with pytest.raises(errors.ArgumentError, match="takes scale by keyword only"):
        custom_jvp(keyword)


def vjp_of(fwd: Any = None, bwd: Any = None) -> Any:
    @custom_vjp
    def f(x: Any, n: Any) -> Any:
        return x * n

    f.defvjp(fwd or (lambda x, n: (x * n, n)), bwd or (lambda n, g: (g * n, None)))
    return f


X = leaf([1.0, 2.0])
WRONG: list[tuple[str, Any, type[Exception], str]] = [
    ("no pair", {"fwd": lambda x, n: x}, errors.ArgumentError, r"the fwd of f\(\) returned Tensor.*must return a pair"),
    ("no tensor", {"fwd": lambda x, n: (3, None)}, errors.KindError, r"the fwd of f\(\) returned int 3 as result 0"),
    ("another device", {"fwd": lambda x, n: (X, None)}, errors.DeviceError, r"the fwd .* result 0 on Auto"),
    ("residual from elsewhere", {"fwd": lambda x, n: (x, [X])}, errors.DeviceError, "returned a residual on"),
    ("count", {"bwd": lambda n, g: g}, errors.ArgumentError, r"the bwd of f\(\) returned 1 gradient, expected 2"),
    ("shape", {"bwd": lambda n, g: (g.sum(), None)}, errors.ShapeError, r"gradient 0 .*\(\), where shape \(2,\)"),
    ("arguments of fwd", {"fwd": lambda x: x}, errors.ArgumentError, r"the fwd of f\(\) takes \(x\) .* take what"),
    ("arguments of bwd", {"bwd": lambda g: g}, errors.ArgumentError, r"the bwd of f\(\) takes \(g\) .* the residuals"),
    ("not None", {"bwd": lambda n, g: (g, g)}, errors.KindError, r"gradient 1 for a value that is not a tensor"),
]  # fmt: skip


@every_row("what, rules, error, message", WRONG, ids=[row[0] for row in WRONG])
def test_wrong_rules_of_custom_vjp(what: str, rules: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        vjp_of(**rules)(X, 2.0).sum().backward()


def test_wrong_arguments() -> None:
    f = vjp_of()
    with pytest.raises(errors.KindError, match=r"f\(\) got tensors inside of a list"):
        f([X], 2.0)
    with pytest.raises(errors.DeviceError, match=r"f\(\)"):
        f(X, leaf(1.0, Twice))
    with pytest.raises(errors.ArgumentError, match=r"f\(\) was called with arguments that it does not take"):
        f(X, m=2)


NONLINEAR: list[tuple[str, Any, str]] = [
    ("exp", lambda x, t: (x, t.exp()), r"the jvp of f\(\) applied exp to the tangents"),
    ("a square", lambda x, t: (x, t * t), "applied mul to the tangents"),
    ("dividing by it", lambda x, t: (x, x / t), "applied div to the tangents"),
    ("dividing by it, broadcast", lambda x, t: (x, x[:1] / t), "applied div to the tangents"),
    ("abs", lambda x, t: (x, t.abs() * x), "applied abs to the tangents"),
    ("the result", lambda x, t: (x + t, t), "computed result 0 of the tangents"),
]


@every_row("what, rule, message", NONLINEAR, ids=[row[0] for row in NONLINEAR])
def test_a_rule_that_is_not_linear_is_refused(what: str, rule: Any, message: str) -> None:
    @custom_jvp
    def f(x: Tensor[B]) -> Tensor[B]:
        return x

    f.defjvp(lambda primals, tangents: rule(primals[0], tangents[0]))
    with pytest.raises(errors.ArgumentError, match=message):
        f(X)


def test_linear_rules_of_many_forms() -> None:
    @custom_jvp
    def f(x: Tensor[B]) -> Tensor[B]:
        return x * 3.0

    def jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        one = x / x
        parts = [
            t / 2.0 + one / one * t / one,
            -(t * -0.5),
            t.reshape(2, 1).mT.reshape(2),
            (t[:1] / one).sum() * 0.0 + t * 0.0,
            (t * x[:1].detach()) * 0.0,
        ]
        return x * 3.0, sum(parts[1:], start=parts[0])

    f.defjvp(jvp)
    assert f(X).sum().backward()[X].tolist() == [3.0, 3.0]


def test_a_tangent_of_none_is_zero() -> None:
    @custom_jvp
    def f(x: Tensor[B], y: Tensor[B]) -> tuple[Tensor[B], Tensor[B]]:
        return x * 1.0, y * 1.0

    f.defjvp(lambda primals, tangents: (f(*primals), (None, tangents[1])))
    x, y = leaf(1.0), leaf(2.0)
    first, second = f(x, y)
    assert not first.is_require_grad()
    grads = second.backward()
    assert (x.grad(grads), grads[y].item()) == (None, 1.0)


def test_wrong_rules_of_custom_jvp() -> None:
    @custom_jvp
    def f(x: Tensor[B]) -> Tensor[B]:
        return x * 1.0

    dual = make_dual(plain([1.0, 2.0]), plain([1.0, 2.0]))
    arguments: tuple[Any, Any] = (X, dual)
    for argument in arguments:
        f.defjvp(lambda primals, tangents: primals[0])
        with pytest.raises(errors.ArgumentError, match=r"the jvp of f\(\) returned Tensor.*a pair"):
            f(argument)
        f.defjvp(lambda primals, tangents: (primals[0], tangents[0].sum()))
        with pytest.raises(errors.ShapeError, match=r"the jvp of f\(\) .* tangent 0 .*where shape \(2,\)"):
            f(argument)
        f.defjvp(lambda primals, tangents: (primals[0], tangents[0].detach().to_numpy()))
        with pytest.raises(errors.KindError, match=r"tangent 0 ndarray"):
            f(argument)
        f.defjvp(lambda primals: primals)
        with pytest.raises(
            errors.ArgumentError, match=r"jvp of f\(\) takes \(primals\) .* the tuple of the arguments, then"
        ):
            f(argument)


@pytest.mark.usefixtures("no_collector")
def test_nothing_outlives_its_use() -> None:
    def run(backward: bool) -> list[weakref.ref[Any]]:
        x, y = leaf([1.0]), leaf([2.0])
        hidden = x * 1.0
        a = product(hidden, 2.0, y)
        b, c, _ = softlog(a, hidden)
        refs: list[weakref.ref[Any]] = [weakref.ref(t._primitive.node) for t in (hidden, a, b, c)]
        refs += [weakref.ref(t._primitive.value) for t in (hidden, a)]
        loss = (b + c).sum()
        del hidden, a
        if backward:
            loss.backward()
            assert refs[-1]() is None, "backward() left a saved array alive"
        return refs

    for backward in (False, True):
        assert all(ref() is None for ref in run(backward))


def test_in_the_derivatives_of_func() -> None:
    x, y, c = plain([0.3, 0.5]), plain([1.2, 0.7]), plain([2.0, 3.0])
    mixed = func.grad(lambda x: (func.grad(lambda y: product(x, 2.0, y).sum())(y) * x).sum())(x)
    assert mixed.to_numpy() == pytest.approx(4 * x.to_numpy())

    @custom_jvp
    def scaled(x: Tensor[B]) -> Tensor[B]:
        return x * x * 5.0

    scaled.defjvp(lambda primals, tangents: (primals[0] * primals[0] * c, tangents[0] * primals[0] * c * 2.0))
    assert func.grad(lambda x: scaled(x).sum())(x).tolist() == [1.2, 3.0], "what the rule closes over is lifted"
    assert func.hessian(lambda x: scaled(x).sum())(x).tolist() == [[4.0, 0.0], [0.0, 6.0]]
    (_, tangent) = func.jvp(scaled, (x,), (y,))
    assert tangent.to_numpy() == pytest.approx(2 * (x * c * y).to_numpy())
    escaped: list[Any] = []

    def leaking(x: Tensor[B]) -> Tensor[B]:
        escaped.append(x)
        return x.sum()

    func.grad(leaking)(x)
    with pytest.raises(errors.EscapedError, match="has returned"):
        scaled(escaped[0])
    with pytest.raises(errors.EscapedError, match="has returned"):
        product(escaped[0], 1.0, escaped[0])


def test_retained_passes_and_threads() -> None:
    x, y = leaf([1.0, 2.0]), leaf([2.0, 3.0])
    loss = (product(x, 2.0, y) * softlog(x, y)[0]).sum()
    want = loss.backward(retain_graph=True)[x].tolist()
    found: list[Any] = []

    def work() -> None:
        found.extend(loss.backward(retain_graph=True)[x].tolist() for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [want] * 40
    loss.backward()
    with pytest.raises(errors.GraphError, match="retain_graph"):
        loss.backward()
