"""`checkpoint`: the same results and derivatives, for less memory."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, Generator, Tensor, errors, func
from burnpy.autodiff import (
    Balanced,
    Forward,
    checkpoint,
    checkpoint_sequential,
    make_dual,
    save_to_disk,
    saved_tensors_hooks,
    unpack_dual,
)
from burnpy.autodiff.modes import enable_grad, no_grad
from burnpy.autodiff.tools.backward import grad
from burnpy.backend import NumPy
from burnpy.backend.backend import Fingerprint
from burnpy.backend.dtypes import dtype_of
from tests.rows import every_row

DEVICES: dict[str, Any] = {
    "Autodiff": Autodiff[NumPy],
    "Autodiff²": Autodiff[Autodiff[NumPy]],
    "Autodiff³": Autodiff[Autodiff[Autodiff[NumPy]]],
    "Balanced": Autodiff[Balanced[NumPy]],
    "Balanced²": Autodiff[Autodiff[Balanced[NumPy]]],
}


@pytest.fixture(autouse=True)
def _balance_small_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Balanced, "smallest", 0)


def leaf(shape: tuple[int, ...], device: Any = Autodiff[NumPy], seed: int = 0) -> Tensor[Any]:
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return Tensor.from_data(values, device=device).require_grad()


def layer(x: Any, w: Any) -> Any:
    return ((x @ w).gelu() * x).sin()


def _in_a_list(x: Any, w: Any) -> Any:
    def f(ts: Any, *, scale: float) -> dict[str, Any]:
        (a, b), c = ts
        return {"y": (layer(a, b) * scale, [c.exp()])}

    found = checkpoint(f, [(x, w), x], scale=2.0)
    return found["y"][0] + found["y"][1][0]


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "one": lambda x, w: checkpoint(layer, x, w),
    "two in a row": lambda x, w: checkpoint(layer, checkpoint(layer, x, w), w),
    "a closure": lambda x, w: checkpoint(lambda: layer(layer(x, w), w)),
    "nested": lambda x, w: checkpoint(lambda a: checkpoint(layer, checkpoint(layer, a, w), w) + a, x),
    "thrice nested": lambda x, w: checkpoint(
        lambda a: checkpoint(lambda b: checkpoint(layer, layer(b, w), w).exp(), a * 2.0) * a, x
    ),
    "containers": _in_a_list,
    "an argument twice": lambda x, w: checkpoint(lambda a, b: a * b + a.exp(), x, x),
    "what is returned is the argument": lambda x, w: checkpoint(lambda a: a, x) * w,
    "untracked arguments": lambda x, w: checkpoint(layer, x.detach(), w),
    "inside of no_grad": lambda x, w: _recording_again(x, w),
    "sequential": lambda x, w: checkpoint_sequential([lambda a: layer(a, w)] * 5, 2, x),
}


def _recording_again(x: Any, w: Any) -> Any:
    with no_grad(), enable_grad():
        return checkpoint(layer, x, w)


def without(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def derivatives(f: Any, x: Any, w: Any) -> list[Any]:
    """Derivatives of each order that the device has."""
    out = f(x, w).sum()
    found = [out.to_numpy()]
    while out.device.differentiates:
        grads = out.backward(retain_graph=True)
        again = out.backward()
        parts = [grads[t] for t in (x, w) if t in grads]
        found += [p.to_numpy() for p in (*parts, *(again[t] for t in (x, w) if t in again))]
        out, x, w = sum((p * p).sum() for p in parts), x.inner(), w.inner()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", WAYS)
def test_derivatives_are_the_same_to_the_last_bit(way: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = leaf((3, 3), DEVICES[device]), leaf((3, 3), DEVICES[device], 1)
    found = derivatives(WAYS[way], *leaves)
    monkeypatch.setitem(globals(), "checkpoint", without)
    monkeypatch.setitem(globals(), "checkpoint_sequential", lambda fs, n, x: [x := f(x) for f in fs][-1])
    expected = derivatives(WAYS[way], *leaves)
    assert len(found) == len(expected) > 2
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert np.array_equal(a, b), f"number {k} of {way} on {device}:\n{a}\nand without checkpoint:\n{b}"


def test_on_a_plain_backend_it_is_a_call() -> None:
    x = Tensor[NumPy].ones((2,))
    assert checkpoint(lambda x: x.exp(), x).tolist() == x.exp().tolist()
    assert checkpoint(lambda: 3) == 3


def test_forward_mode_goes_through() -> None:
    x = Tensor[NumPy].from_data([1.0, 2.0])
    y = checkpoint(lambda x: x * x, make_dual(x, Tensor[NumPy].ones((2,))))
    assert isinstance(y.device, Forward)
    assert unpack_dual(y).tangent.tolist() == [2.0, 4.0]  # type: ignore[union-attr]  # it has one


def test_what_the_graph_holds() -> None:
    """The memory of each section is its argument alone, and the arrays in use while it runs again."""
    x = leaf((1000,))
    kept: list[Any] = []

    def f(a: Any) -> Any:
        for _ in range(5):
            a = a.sin()
            kept.append(weakref.ref(a._primitive.value))
        return a

    y = x
    for _ in range(4):
        y = checkpoint(f, y)
    alive = [r() is not None for r in kept]
    assert alive == ([False] * 4 + [True]) * 4
    kept.clear()
    grads = y.sum().backward()
    del y
    assert len(kept) == 4 * 3, "the fourth sine is what the fifth keeps, and with it everything is there"
    assert not any(r() is not None for r in kept)
    assert x in grads


def test_nesting_saves_the_inner_arguments_too() -> None:
    x = leaf((1000,))
    kept: list[Any] = []

    def inner(a: Any) -> Any:
        a = a.sin().sin()
        kept.append(weakref.ref(a._primitive.value))
        return a

    def outer(a: Any) -> Any:
        for _ in range(4):
            a = checkpoint(inner, a)
        return a

    y = checkpoint(outer, x)
    assert [r() is not None for r in kept] == [False, False, False, True]
    del y


@pytest.mark.parametrize("container", [dict, OrderedDict, lambda **named: defaultdict(list, named)])
def test_nesting_saves_the_inner_arguments_in_containers_too(container: Any) -> None:
    x = leaf((1000,))
    kept: list[Any] = []
    types: set[type] = set()

    def inner(named: Any) -> Any:
        types.add(type(named))
        a = named["a"].sin().sin()
        kept.append(weakref.ref(a._primitive.value))
        return container(a=a)

    def outer(a: Any) -> Any:
        named = container(a=a)
        for _ in range(4):
            named = checkpoint(inner, named)
        return named["a"]

    y = checkpoint(outer, x)
    assert [r() is not None for r in kept] == [False, False, False, True]
    assert x in y.sum().backward()
    assert types == {type(container())}, "the second run gets containers of the same type"


def test_each_section_runs_twice_and_once_more_for_a_second_pass() -> None:
    runs = 0

    def f(a: Any) -> Any:
        nonlocal runs
        runs += 1
        return (a.sin() * a).exp()

    x = leaf((3,))
    loss = checkpoint(f, checkpoint(f, x)).sum()
    assert runs == 2
    loss.backward(retain_graph=True)
    assert runs == 4
    loss.backward()
    assert runs == 6
    runs = 0
    loss = checkpoint(lambda a: checkpoint(f, checkpoint(f, a)), x).sum()
    loss.backward()
    assert runs == 2 + 1 + 2, "the first run, the outer section's up to the second argument, the inner ones"


def test_a_pass_along_some_paths_only() -> None:
    x, w = leaf((3, 3)), leaf((3, 3), seed=1)
    y = checkpoint(layer, x, w)
    (found,) = grad(y.sum(), w)
    assert np.array_equal(found.to_numpy(), grad(layer(x, w).sum(), w)[0].to_numpy())


@pytest.mark.slow
@pytest.mark.parametrize("passes", ["backward", "dropped"])
def test_nothing_is_left_without_the_garbage_collector(passes: str) -> None:
    x, w = leaf((50, 50)), leaf((50, 50), seed=1)

    def run() -> None:
        loss = checkpoint(lambda a: checkpoint(layer, layer(a, w), w), checkpoint(layer, x, w)).sum()
        if passes == "backward":
            loss.backward()

    run()  # what a rule needs is made at its first use, and stays
    gc.collect()
    gc.disable()
    try:
        before = {id(o) for o in gc.get_objects()}
        run()
        left = [o for o in gc.get_objects() if id(o) not in before and type(o).__module__.startswith("burnpy.autodiff")]
        assert not left, f"{len(left)} objects: {left[:5]}"
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_many_sections_in_a_row(count: int) -> None:
    x = leaf((2,))
    y: Any = x
    for _ in range(count):
        y = checkpoint(lambda a: (a * 1.0001).sin(), y)
    assert x in y.sum().backward()
    y = x
    for _ in range(count):
        y = checkpoint(lambda a: (a * 1.0001).sin(), y)
    del y


def dropped(x: Any) -> Any:
    mask = Tensor.uniform(x.shape, dtype=x.dtype, device=x.device) > 0.5
    return x.exp() * mask.float().double() * x


@pytest.mark.parametrize("drawn", ["never", "before"])
def test_default_generators_draw_the_same_again(drawn: str) -> None:
    burnpy.manual_seed(3)
    x = leaf((50,))
    if drawn == "before":
        Tensor[NumPy].uniform((3,))
    y = checkpoint(dropped, x)
    after = Tensor[NumPy].uniform((3,)).tolist()
    found = y.sum().backward()[x].to_numpy()
    following = Tensor[NumPy].uniform((3,)).tolist()
    burnpy.manual_seed(3)
    if drawn == "before":
        Tensor[NumPy].uniform((3,))
    assert np.array_equal(found, dropped(x).sum().backward()[x].to_numpy())
    assert (Tensor[NumPy].uniform((3,)).tolist(), Tensor[NumPy].uniform((3,)).tolist()) == (after, following)


def test_random_numbers_in_another_thread() -> None:
    x = leaf((50,))
    y = checkpoint(dropped, x).sum()
    expected = y.to_numpy()
    found: list[Any] = []

    def backward() -> None:
        found.append(y.backward()[x].to_numpy())

    worker = threading.Thread(target=backward)
    worker.start()
    worker.join()
    assert len(found) == 1
    values, mask = x.to_numpy(), found[0] != 0
    assert np.allclose((np.exp(values) * values)[mask].sum(), expected)


def test_manual_seed_within_a_section_stays_there() -> None:
    def f(a: Any) -> Any:
        burnpy.manual_seed(7)
        return dropped(a)

    x = leaf((20,))
    y = checkpoint(f, x)
    burnpy.manual_seed(1)
    expected = Tensor[NumPy].uniform((3,)).tolist()
    burnpy.manual_seed(1)
    y.sum().backward()
    assert Tensor[NumPy].uniform((3,)).tolist() == expected


def test_without_the_random_state_the_difference_is_found() -> None:
    x = leaf((50,))
    y = checkpoint(dropped, x, preserve_rng_state=False).sum()
    with pytest.raises(errors.SavedTensorsError, match="has other values in a result or saved value of mul"):
        y.backward()
    unchecked = checkpoint(dropped, x, preserve_rng_state=False, determinism_check=False).sum()
    assert x in unchecked.backward()
    own = Generator(0)
    y = checkpoint(lambda a: a * Tensor.uniform(a.shape, dtype=a.dtype, device=a.device, generator=own), x).sum()
    with pytest.raises(errors.SavedTensorsError, match="other values"):
        y.backward()


def _changing(*fs: Callable[[Any], Any]) -> Callable[[Any], Any]:
    runs = iter(fs)

    def changing(a: Any) -> Any:
        return next(runs)(a)

    return changing


def _shifted(a: Any) -> Any:
    """exp of another value, with the same node beneath."""
    moved = (a.detach() + 0.5)._primitive
    moved.node = a._primitive.node
    return a._like(moved).exp()


@every_row(
    "first, second, message",
    [
        (lambda a: a.exp() * a, lambda a: a.sin() * a, "changing again .* has sin as step 0, where the first had exp"),
        (lambda a: (a + a) * a, lambda a: (a - a) * a, "has sub as step 0, where the first had add"),
        (lambda a: a.exp().exp(), lambda a: a.exp(), "ended where the first had exp as step 2"),
        (lambda a: a[0].exp(), lambda a: a[:1].exp(), r"an array of shape \(1,\) .* the first had .* shape \(\)"),
        (lambda a: a.exp(), lambda a: (a.float().exp(),), "has cast as step 0"),
        (lambda a: a.exp(), _shifted, "has other values in a result or saved value of exp"),
        (lambda a: a.exp().sin(), lambda a: _shifted(a).sin(), "has other values in a result or saved value of exp"),
    ],
)
def test_a_function_that_does_something_else_the_second_time(first: Any, second: Any, message: str) -> None:
    loss = _first(checkpoint(_changing(first, second), leaf((4,)))).sum()
    with pytest.raises(errors.SavedTensorsError, match=f"(?s){message}.*must do the same each time"):
        loss.backward()


def _first(x: Any) -> Any:
    return x[0] if isinstance(x, tuple) else x


def test_wrong_calls() -> None:
    call: Any = checkpoint  # whose misuse type checkers would find
    x = Tensor[Autodiff[NumPy]].ones((2,)).require_grad()
    with pytest.raises(errors.KindError, match=r"checkpoint\(\) takes a function and its arguments, not 3"):
        call(3, x)
    with pytest.raises(errors.KindError, match=r"checkpoint\(determinism_check\) takes True or False, not 'none'"):
        call(lambda x: x, x, determinism_check="none")
    with pytest.raises(TypeError, match=r"checkpoint\(\) takes no argument use_reentrant; there is one way"):
        call(lambda x: x, x, use_reentrant=False)
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        call(lambda x: x, x, other=False)
    assert call(lambda x, debug: debug, x, debug=3) == 3, "an argument of the function's own"
    assert call(lambda x, **options: options, x, early_stop=3) == {"early_stop": 3}


def test_errors_pass_through() -> None:
    runs = 0

    def f(a: Any) -> Any:
        nonlocal runs
        runs += 1
        if runs == 2:
            raise ZeroDivisionError("mine")
        return a.exp()

    x = leaf((2,))
    with pytest.raises(ZeroDivisionError, match="mine"):
        checkpoint(f, x).sum().backward()
    runs = 1
    with pytest.raises(ZeroDivisionError, match="mine"):
        checkpoint(f, x)
    assert x in x.exp().sum().backward()


def test_a_graph_walked_by_several_threads() -> None:
    x, w = leaf((20, 20)), leaf((20, 20), seed=1)
    loss = checkpoint(layer, checkpoint(layer, x, w), w).sum()
    expected = layer(layer(x, w), w).sum().backward()[x].to_numpy()
    found: list[Any] = []

    def backward() -> None:
        for _ in range(5):
            found.append(loss.backward(retain_graph=True)[x].to_numpy())

    workers = [threading.Thread(target=backward) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 20
    assert all(np.array_equal(f, expected) for f in found)


def test_a_backward_pass_within_a_section() -> None:
    def f(a: Any) -> Any:
        slope = (a * a * a).sum().backward()[a]
        return a * slope.sum().item()

    x = leaf((3,))
    slope = 3 * x.to_numpy() ** 2
    assert checkpoint(f, x).sum().backward()[x].tolist() == pytest.approx([slope.sum()] * 3)


def test_hooks_around_have_the_arguments(tmp_path: Any) -> None:
    x, w = leaf((4, 4)), leaf((4, 4), seed=1)
    shapes: list[Any] = []

    def pack(t: Any) -> Any:
        shapes.append(t.shape)
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        y = checkpoint(layer, x * 2.0, w)
    assert shapes == [(4, 4)], "the argument, and no parameter"
    with save_to_disk(tmp_path):
        z = checkpoint(layer, x * 2.0, w)
    assert len(list(tmp_path.iterdir())) == 1
    assert np.array_equal(y.sum().backward()[x].to_numpy(), z.sum().backward()[x].to_numpy())
    assert not list(tmp_path.iterdir())


def test_hooks_within_a_section(tmp_path: Any) -> None:
    def f(a: Any) -> Any:
        with save_to_disk(tmp_path):
            return (a * 1.0).exp().sin()

    x = leaf((4,))
    y = checkpoint(f, x)
    expected = x.exp().sin().sum().backward()[x].to_numpy()
    assert np.allclose(y.sum().backward()[x].to_numpy(), expected)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("segments", [0, 6])
def test_segments(segments: int) -> None:
    with pytest.raises(errors.ArgumentError, match=rf"got {segments} segments of 5 functions"):
        checkpoint_sequential([lambda x: x] * 5, segments, leaf((2,)))


@every_row("device", [NumPy, Autodiff[NumPy], Autodiff[Balanced[NumPy]]])
@every_row("derivative", ["grad", "hessian", "jacrev", "grad of vjp", "grad of jvp", "jvp of grad", "thrice"])
def test_within_the_derivatives_of_func(derivative: str, device: Any) -> None:
    """Levels whose function has returned are open again while it runs for a second time."""
    x: Any = Tensor.from_data([0.5, 1.0, 1.5], dtype="float64", device=device)
    ones = Tensor.ones((3,), dtype="float64", device=device)

    def plain(a: Any) -> Any:
        return (a * a).exp() / a

    def run(f: Any) -> Any:
        if derivative == "grad of vjp":
            return func.grad(lambda v: (func.vjp(f, v)[1](ones)[0] ** 2).sum())(x)
        if derivative == "grad of jvp":
            return func.grad(lambda v: (func.jvp(f, (v,), (ones,))[1] ** 2).sum())(x)
        if derivative == "jvp of grad":
            return func.jvp(func.grad(lambda v: f(v).sum()), (x,), (ones,))[1]
        if derivative == "thrice":
            third = func.grad(lambda v: (func.grad(lambda u: (func.grad(lambda t: f(t).sum())(u) ** 2).sum())(v)).sum())
            return third(x)
        if derivative == "jacrev":
            return func.jacrev(f)(x)
        return getattr(func, derivative)(lambda v: f(v).sum())(x)

    for f in (
        lambda a: checkpoint(plain, a),
        lambda a: checkpoint(lambda b: checkpoint(plain, b * 1.0), a),
    ):
        assert np.array_equal(run(f).to_numpy(), run(lambda a, f=f: _unchecked(f, a)).to_numpy())


def _unchecked(f: Any, a: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "checkpoint", without)
        return f(a)


def test_a_closed_level_refuses_again_after_a_second_run() -> None:
    escaped: list[Any] = []

    def f(a: Any) -> Any:
        escaped.append(a)
        return a.exp()

    x = Tensor[NumPy].ones((2,))
    func.grad(lambda a: checkpoint(f, a).sum())(x)
    assert len(escaped) == 2
    for a in escaped:
        with pytest.raises(errors.EscapedError):
            a * a


def test_context_variables_are_those_of_the_first_run() -> None:
    factor: ContextVar[float] = ContextVar("factor", default=1.0)
    x = leaf((2,))
    factor.set(3.0)
    y = checkpoint(lambda a: (a * factor.get()).exp(), x).sum()
    factor.set(5.0)
    assert y.backward()[x].tolist() == (x.inner() * 3.0).exp().mul(3.0).tolist()


def test_what_a_second_run_need_not_compute() -> None:
    """The product and the sum after the last array that is kept; and nothing, where only arguments are kept."""
    x, w = leaf((4, 4)), leaf((4, 4), seed=1)
    reached: list[str] = []

    def f(a: Any) -> Any:
        h = (a @ w).gelu()
        reached.append("activation")
        y = h @ w
        reached.append("product")
        return y + a

    y = checkpoint(f, x * 2.0)
    reached.clear()
    found = y.sum().backward()
    assert reached == [], "GELU's result is what the product keeps: with it everything is there"
    expected = f(x * 2.0).sum().backward()
    assert all(np.array_equal(found[t].to_numpy(), expected[t].to_numpy()) for t in (x, w))
    y = checkpoint(lambda a: [a * w, reached.append("again")][0], x * 2.0)  # type: ignore[func-returns-value]  # None
    reached.clear()
    found = y.sum().backward()
    assert reached == []
    assert np.array_equal(found[w].to_numpy(), 2 * x.to_numpy())


def test_a_function_that_handles_every_exception() -> None:
    def f(a: Any) -> Any:
        try:
            return a.exp().sin() * w
        except BaseException:  # among them the end of a second run
            return (a.exp() * a).exp()

    x, w = leaf((4,)), leaf((4,), seed=1)
    found = checkpoint(f, x).sum().backward()
    expected = (x.exp().sin() * w).sum().backward()
    assert all(np.array_equal(found[t].to_numpy(), expected[t].to_numpy()) for t in (x, w))


def test_random_state_is_put_back_where_a_second_run_ends_early() -> None:
    def f(a: Any) -> Any:
        b = dropped(a).exp()
        return b + Tensor.uniform(b.shape, dtype=b.dtype, device=b.device)

    burnpy.manual_seed(5)
    x = leaf((50,))
    loss = checkpoint(f, x).sum()
    following = Tensor[NumPy].uniform((3,)).tolist()
    loss.backward()
    burnpy.manual_seed(5)
    f(x)
    assert Tensor[NumPy].uniform((3,)).tolist() == following
    burnpy.manual_seed(5)
    loss = checkpoint(f, x).sum()
    loss.backward()
    assert Tensor[NumPy].uniform((3,)).tolist() == following


@pytest.mark.parametrize("device", DEVICES)
def test_what_others_keep_of_what_was_computed_once(device: str) -> None:
    """An array that several nodes keep, some of them walked already and some dropped."""
    x, w = leaf((3, 3), DEVICES[device]), leaf((3, 3), DEVICES[device], 1)

    def f(a: Any) -> Any:
        e = (a @ w).exp()
        return e * e.sin(), e @ w, e / a

    _, y, z = checkpoint(f, x)
    del _
    found = (y.sum() * z.sum()).backward()
    _, y, z = f(x)
    expected = (y.sum() * z.sum()).backward()
    assert all(np.array_equal(found[t].to_numpy(), expected[t].to_numpy()) for t in (x, w))


@pytest.mark.parametrize("branch", [0, 1, 2])
def test_other_values_are_found_in_every_branch(branch: int) -> None:
    """Saved arrays that no operation computed, such as a mask, are compared too."""
    runs = 0

    def f(a: Any) -> Any:
        nonlocal runs
        runs += 1
        factors = [1.0] * 3
        factors[branch] += runs / 10
        mask = Tensor.from_data(np.full(4, factors[2]), device=a.device)
        return (a * factors[0]).exp().sin().sin(), (a * factors[1]).cos().exp().exp(), a * 1.0 * mask

    x = leaf((4,))
    y, z, w = checkpoint(f, x)
    with pytest.raises(errors.SavedTensorsError, match="has other values in a result"):
        (y.sum() + z.sum() + w.sum()).backward()


@pytest.mark.parametrize(("dtype", "bits"), [("float16", 4), ("bfloat16", 4), ("float32", 11), ("float64", 26)])
def test_a_second_run_may_differ_in_half_of_the_digits(dtype: str, bits: int) -> None:
    """The limit grows with the element and with the largest one: a sum may be added up in another order."""
    one, near, far = (np.array([1.0 + change * 2.0**-bits], dtype_of(dtype)).tobytes() for change in (0.0, 1.75, 2.25))
    kept = Fingerprint(one, dtype_of(dtype))
    assert kept.resembles(Fingerprint(near, dtype_of(dtype)))
    assert not kept.resembles(Fingerprint(far, dtype_of(dtype)))
