"""Hooks on a tensor's gradient, and on the gradients of a group of tensors."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.autodiff import make_dual, register_multi_grad_hook
from burnpy.autodiff.graph import Node
from burnpy.autodiff.modes import no_grad
from burnpy.autodiff.recording import observing
from burnpy.autodiff.tools.backward import backward, grad
from burnpy.backend import NumPy, errors
from tests.rows import every_row

Train = Autodiff[NumPy]
Twice = Autodiff[Train]


def plain(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


def leaf(data: Any, device: Any = Train) -> Any:
    return Tensor.from_data(data, dtype="float64", device=device).require_grad()


def times(factor: float) -> Callable[[Any], Any]:
    return lambda gradient: gradient * factor


def test_a_hook_replaces_the_gradient() -> None:
    x = leaf([1.0, 2.0])
    h = x * 3.0
    y, handle = h.register_hook(times(10.0))
    assert y is not h
    assert y.tolist() == h.tolist()
    assert (y * y).sum().backward(retain_graph=True)[x].tolist() == [180.0, 360.0]
    assert (h * h).sum().backward(retain_graph=True)[x].tolist() == [18.0, 36.0], "hooking changed the tensor"
    handle.remove()
    assert (y * y).sum().backward()[x].tolist() == [18.0, 36.0]


def test_a_hook_sees_the_whole_gradient_once() -> None:
    seen: list[Any] = []
    x = leaf([1.0, 2.0])
    y, _ = (x * 1.0).register_hook(lambda g: seen.append((g.device, g.tolist())))
    grads = (y.sum() + (y * y).sum() + y[0] * 5.0).backward()
    assert seen == [(NumPy(), [8.0, 5.0])]
    assert grads[x].tolist() == [8.0, 5.0], "a hook that returns None leaves the gradient"


def test_hooks_of_leaves_last() -> None:
    x = leaf([1.0, 2.0])
    y, handle = x.register_hook(times(2.0))
    for _ in range(3):
        grads = (y * y).sum().backward()
        assert grads[y].tolist() == grads[x].tolist() == y.grad(grads).tolist() == [4.0, 8.0]
        assert len(grads) == 1
    assert y.require_grad().grad(grads).tolist() == [4.0, 8.0]
    assert (x * x).sum().backward()[y].tolist() == [2.0, 4.0]
    assert (x.sum() + y.sum()).backward()[x].tolist() == [3.0, 3.0]
    handle.remove()
    assert (y * y).sum().backward()[y].tolist() == [2.0, 4.0]


def test_hooks_run_in_the_order_of_their_registration() -> None:
    for factor in (None, 1.0):
        x = leaf([1.0])
        once, first = (x if factor is None else x * factor).register_hook(lambda g: g + 1.0)
        twice, second = once.register_hook(lambda g: g * 10.0)
        assert twice.sum().backward(retain_graph=True)[x].tolist() == [20.0]
        assert once.sum().backward(retain_graph=True)[x].tolist() == [2.0]
        first.remove()
        assert twice.sum().backward(retain_graph=True)[x].tolist() == [10.0]
        second.remove()
        assert twice.sum().backward()[x].tolist() == [1.0]


def test_handles() -> None:
    x = leaf([1.0])
    y, handle = x.register_hook(times(3.0))
    assert "times.<locals>.<lambda>" in repr(handle)
    with handle as same:
        assert same is handle
        assert y.sum().backward()[x].tolist() == [3.0]
    assert y.sum().backward()[x].tolist() == [1.0]
    handle.remove()
    handle.remove()
    assert "removed" in repr(handle)


def test_removing_during_a_pass() -> None:
    x = leaf([1.0])
    handles: list[Any] = []

    def once(gradient: Any) -> Any:
        handles[0].remove()
        return gradient * 5.0

    y, handle = x.register_hook(once)
    handles.append(handle)
    assert [y.sum().backward()[x].item() for _ in range(2)] == [5.0, 1.0]


def test_retained_gradients_are_those_after_the_hooks() -> None:
    x = leaf([1.0])
    h = x * 2.0
    before, _ = h.retain_grad().register_hook(times(10.0))
    assert (before * 1.0).sum().backward()[before].tolist() == [10.0]
    hooked, _ = (x * 2.0).register_hook(times(10.0))
    after = hooked.retain_grad()
    grads = (after * 1.0).sum().backward()
    assert (grads[after].tolist(), grads[x].tolist()) == ([10.0], [20.0])
    with pytest.raises(errors.NotTrackedError, match=r"retain_grad\(\)"):
        grads[hooked]


def test_grad_by_a_hooked_tensor() -> None:
    x = leaf([1.0])
    h = x * 2.0
    y, _ = h.register_hook(times(10.0))
    z = (y * 3.0).sum()
    assert [g.item() for g in grad(z, [y, h, x], retain_graph=True)] == [30.0, 30.0, 60.0]
    w, _ = x.register_hook(times(10.0))
    assert grad((w * 3.0).sum(), w)[0].item() == 30.0
    assert grad(y.sum(), y)[0].item() == 10.0


def test_the_root_may_be_hooked() -> None:
    x = leaf(3.0)
    y, _ = (x * x).register_hook(times(2.0))
    assert y.backward()[x].item() == 12.0
    z, _ = x.register_hook(times(2.0))
    assert z.backward()[x].item() == 2.0


def test_hooks_are_not_run_where_no_gradient_comes() -> None:
    x, y = leaf([1.0]), leaf([1.0])
    hooked, _ = (x * 2.0).register_hook(lambda g: pytest.fail("was run"))
    y.sum().backward()
    grad((hooked * y).sum(), y)


def test_hooks_in_nested_differentiation() -> None:
    x = leaf(2.0, Twice)
    y, _ = x.register_hook(lambda g: g * g)
    first = (y * y).backward()[x]
    assert (first.item(), first.device) == (16.0, Autodiff(NumPy()))
    assert first.backward()[x.inner()].item() == 16.0
    inner, _ = x.inner().register_hook(times(10.0))
    assert (inner * inner).backward()[x.inner()].item() == 40.0


def test_hooks_under_no_grad_and_observers() -> None:
    x = leaf(2.0)
    seen: list[Node] = []
    with no_grad(), observing(lambda device, node: seen.append(node)):
        y, _ = x.register_hook(times(10.0))
    assert y.backward()[x].item() == 10.0
    assert [node.operation for node in seen] == ["register_hook"]


X = leaf([1.0, 2.0])
WRONG: list[tuple[str, Callable[[Any], Any], type[Exception], str]] = [
    ("shape", lambda g: g.sum(), errors.ShapeError, r"hook <lambda> of register_hook\(\) .*\(\), where shape \(2,\)"),
    ("dtype", lambda g: g.to_dtype("float32"), errors.DTypeError, r"hook <lambda> of .*float32, where float64"),
    ("kind", lambda g: g.int(), errors.KindError, r"hook <lambda> of .* returned an IntTensor, where a Tensor"),
    ("array", lambda g: g.to_numpy(), errors.KindError, r"hook <lambda> of .* returned ndarray"),
    ("number", lambda g: 0.0, errors.KindError, r"hook <lambda> of .* returned float 0\.0"),
    ("device", Tensor.from_inner, errors.DeviceError, r"on Autodiff\[NumPy\], where one on NumPy is needed"),
]  # fmt: skip


@every_row("what, hook, error, message", WRONG, ids=[row[0] for row in WRONG])
def test_wrong_hooks(what: str, hook: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        X.register_hook(hook)[0].sum().backward()


@pytest.mark.parametrize("method", ["register_hook", "register_node_hook", "register_multi_grad_hook"])
def test_what_has_no_gradient_cannot_be_hooked(method: str) -> None:
    def register(x: Any) -> None:
        if method == "register_hook":
            x.register_hook(times(1.0))
        elif method == "register_node_hook":
            x.register_node_hook(before=lambda grads: None)
        else:
            register_multi_grad_hook([x], lambda grads: None)

    with pytest.raises(errors.NotTrackedError, match=rf"{method}\(\) got a Tensor .* on NumPy, which records no graph"):
        register(plain(1.0))
    with pytest.raises(errors.NotTrackedError, match=rf"{method}\(\) .* is not tracked"):
        register(leaf(1.0).detach())
    with pytest.raises(errors.NotTrackedError, match=rf"{method}\(\) .* on Forward\[NumPy\] that is not tracked"):
        register(make_dual(plain(1.0), plain(1.0)))


def test_what_is_no_function_is_no_hook() -> None:
    with pytest.raises(errors.KindError, match=r"register_hook\(\) takes a function, not 3"):
        X.register_hook(3)
    with pytest.raises(errors.KindError, match=r"register_node_hook\(\) takes a function, not 3"):
        (X * 2.0).register_node_hook(before=3)
    with pytest.raises(errors.KindError, match=r"register_multi_grad_hook\(\) takes a function"):
        register_multi_grad_hook([X], 3)  # type: ignore[call-overload]  # which is the point


any_group: Any = register_multi_grad_hook


@pytest.mark.parametrize(
    ("hooked", "message"),
    [
        (lambda: X.register_hook(lambda: None)[0], r"lambda> of register_hook\(\) takes \(\) and was called with 1"),
        (
            lambda: (X * 2.0).register_node_hook(after=lambda g: None)[0],
            r"of register_node_hook\(\) takes \(g\) and .* 2",
        ),
        (
            lambda: any_group([X], lambda a, b: None)[0][0],
            r"of register_multi_grad_hook\(\) takes \(a, b\)",
        ),
    ],
)
def test_hooks_of_other_arguments(hooked: Any, message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=f"the hook .*{message}"):
        hooked().sum().backward()


@pytest.mark.usefixtures("no_collector")
def test_hooks_leave_nothing_alive() -> None:
    class Watched:
        def __call__(self, *grads: Any) -> None:
            pass

    def run(backward: bool) -> list[weakref.ref[Any]]:
        x = leaf([1.0])
        hooks = [Watched() for _ in range(4)]
        y, first = x.register_hook(hooks[0])
        z, _ = (y * 2.0).exp().register_hook(hooks[1])
        w, _ = (z * z).register_node_hook(before=hooks[2])
        (w, y), last = register_multi_grad_hook([w, y], hooks[3])
        refs: list[weakref.ref[Any]] = [weakref.ref(t._primitive.node) for t in (x, y, z, w)]
        refs += [weakref.ref(hook) for hook in hooks]
        loss = w.sum()
        if backward:
            loss.backward()
        assert repr((first, last))
        return refs

    for backward_too in (False, True):
        alive = [ref() for ref in run(backward_too) if ref() is not None]
        assert not alive, f"still alive: {alive}"


@pytest.mark.usefixtures("no_collector")
def test_a_removed_hook_is_forgotten() -> None:
    x = leaf([1.0])
    hook = times(2.0)
    watch = weakref.ref(hook)
    y, handle = x.register_hook(hook)
    del hook
    assert watch() is not None
    handle.remove()
    assert watch() is None
    assert y.sum().backward()[x].tolist() == [1.0]


def test_hooks_in_threads() -> None:
    x = leaf([1.0, 2.0])
    y, _ = x.register_hook(times(2.0))
    (y, z), _ = register_multi_grad_hook(
        [y, leaf([1.0, 1.0])], lambda grads: found.append(sum(g is None for g in grads))
    )
    found: list[Any] = []
    results: list[Any] = []

    def work() -> None:
        for _ in range(30):
            results.append((y * y).sum().backward()[x].tolist())
            results.append((y * z).sum().backward()[x].tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [[2.0, 2.0]] * 120 + [[4.0, 8.0]] * 120
    assert sorted(found) == [0] * 120 + [1] * 120


def test_many_hooks() -> None:
    x = y = leaf(1.0)
    for _ in range(500):
        y, _ = y.register_hook(lambda g: g + 1.0)
    assert y.backward()[x].item() == 501.0


def test_a_group_is_told_of_all_gradients_that_there_are() -> None:
    seen: list[Any] = []
    x, y, z = leaf([1.0]), leaf([2.0]), leaf([3.0])
    (a, b, c), handle = register_multi_grad_hook(
        [x, y * 1.0, z], lambda grads: seen.append([None if g is None else g.tolist() for g in grads])
    )
    grads = (a * b + a).sum().backward(retain_graph=True)
    assert seen == [[[3.0], [1.0], None]]
    assert (grads[x].tolist(), grads[a].tolist(), grads[y].tolist(), len(grads)) == ([3.0], [3.0], [1.0], 2)
    (c * c).sum().backward()
    assert seen[1:] == [[None, None, [6.0]]]
    (c * a * b).sum().backward()
    assert seen[2:] == [[[6.0], [3.0], [2.0]]]
    handle.remove()
    c.sum().backward()
    assert len(seen) == 3


def test_a_group_is_told_when_all_are_there() -> None:
    order: list[Any] = []
    x = leaf([1.0])
    h = x * 2.0
    (h, other), _ = register_multi_grad_hook([h, leaf([1.0])], lambda grads: order.append("group"))
    late, _ = (h * other).register_hook(lambda g: order.append("late"))
    late.sum().backward()
    assert order == ["late", "group"]


def test_a_group_of_one_kind_of_use_any() -> None:
    seen: list[Any] = []
    x, y = leaf([1.0]), leaf([2.0])
    (a, b), handle = register_multi_grad_hook([x, y], lambda g: seen.append(g.tolist()), mode="any")
    for _ in range(2):
        (a * b).sum().backward()
    assert len(seen) == 2
    assert all(g in ([1.0], [2.0]) for g in seen)
    (b * 5.0).sum().backward()
    assert seen[2:] == [[5.0]]
    handle.remove()
    b.sum().backward()
    assert len(seen) == 3


@pytest.mark.parametrize("mode", ["all", "any"])
def test_groups_and_passes_to_some_inputs(mode: Any) -> None:
    seen: list[Any] = []
    x, y, w = leaf([1.0]), leaf([2.0]), leaf([3.0])
    h, k = x * 2.0, y * 3.0
    (a, b), _ = register_multi_grad_hook([h, k], lambda grads: seen.append(grads), mode=mode)
    loss = (a * b * w).sum()
    assert grad(loss, x, retain_graph=True)[0].tolist() == [36.0]
    assert len(seen) == 1
    if mode == "all":
        assert [g is None for g in seen[0]] == [False, True]
    assert grad(loss, w, retain_graph=True)[0].tolist() == [12.0]
    assert len(seen) == 1, "the pass came to no member"
    assert [g.tolist() for g in grad(loss, [a, y], retain_graph=True)] == [[18.0], [18.0]]
    assert len(seen) == 2
    assert backward((x * 2.0 + a).sum(), inputs=[x])[x].tolist() == [4.0]
    assert len(seen) == 3


def test_groups_in_nested_differentiation_and_with_other_hooks() -> None:
    seen: list[Any] = []
    x = leaf(2.0, Twice)
    y, _ = x.register_hook(times(2.0))
    (y, square), _ = register_multi_grad_hook([y, x * x], lambda grads: seen.append([g and g.item() for g in grads]))
    y, _ = y.register_hook(times(3.0))
    first = (y * y + square.retain_grad()).backward()[x]
    assert seen == [[12.0, 1.0]]
    assert first.item() == 28.0
    assert first.backward()[x.inner()].item() == 14.0


def test_the_same_tensor_twice_in_a_group() -> None:
    seen: list[Any] = []
    x = leaf(2.0)
    (a, b), _ = register_multi_grad_hook([x, x], lambda grads: seen.append([g and g.item() for g in grads]))
    assert (a * 3.0 + b * 5.0).backward()[x].item() == 8.0
    assert seen == [[3.0, 5.0]]


def test_wrong_groups() -> None:
    with pytest.raises(errors.ArgumentError, match='mode="all" or mode="any", not \'some\''):
        register_multi_grad_hook([X], lambda grads: None, mode="some")  # type: ignore[call-overload]  # which is the point
    wrongs: list[Any] = [[], [3.0], [X, None], X]
    for wrong in wrongs:
        with pytest.raises(errors.KindError, match="a sequence of float tensors"):
            register_multi_grad_hook(wrong, lambda grads: None)
    with pytest.raises(errors.DeviceError):
        register_multi_grad_hook([X, leaf(1.0, Twice)], lambda grads: None)
    for mode in ("all", "any"):
        (y,), _ = register_multi_grad_hook([X], lambda found: found, mode=mode)
        with pytest.raises(errors.ArgumentError, match=r"of register_multi_grad_hook\(\) returned .*cannot replace"):
            y.sum().backward()


def test_hooked_values_share_memory() -> None:
    x = leaf([1.0, 2.0])
    y, _ = x.register_hook(times(1.0))
    (z,), _ = register_multi_grad_hook([y], lambda grads: None)
    assert np.shares_memory(x.to_numpy(), z.to_numpy())
    assert z.inner().tolist() == [1.0, 2.0]
    assert not z.detach().is_require_grad()
