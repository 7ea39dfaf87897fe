"""The graph is owned by the tensors: nothing recurses, nothing outlives its use, nothing is kept that nobody needs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, where
from burnpy.autodiff.graph import Node
from burnpy.backend import NumPy, errors
from tests.rows import every_row

Train = Autodiff[NumPy]
DEPTHS = [100_000, pytest.param(1_000_000, marks=pytest.mark.long)]


def leaf(data: Any) -> Tensor[Autodiff[NumPy]]:
    return Tensor[Train].from_data(data, dtype="float64").require_grad()


def node_of(x: Tensor[Any]) -> Any:
    return x._primitive.node


def nodes_below(root: Tensor[Any]) -> list[Node]:
    found: list[Any] = []
    stack = [node_of(root)]
    while stack:
        node = stack.pop()
        if isinstance(node, Node) and node not in found:
            found.append(node)
            stack += [p for p in (node.parent0, node.parent1) if p is not None]
    return found


def on_a_small_stack(work: Callable[[], None]) -> None:
    """Where C recursion, as in freeing a chain of objects one by one, would end the process.

    8 MiB is what main threads have; 100,000 frames need more than that. CPython itself frees chains in runs of, since
    3.13, up to some thousand objects, which is why it is not less.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    old = threading.stack_size(8 << 20)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old)
    assert not failures, failures


@pytest.mark.slow
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_graph(depth: int) -> None:
    def work() -> None:
        x = leaf(1.0)
        y = x * 1.0
        for _ in range(depth):
            y = y + x
        grads = y.backward()
        assert grads[x].item() == depth + 1

    on_a_small_stack(work)


@pytest.mark.slow
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_graph_dropped_before_any_backward(depth: int) -> None:
    def work() -> None:
        y = leaf(1.0)
        for _ in range(depth):
            y = -y
        watch = weakref.ref(node_of(y))
        del y
        assert watch() is None

    on_a_small_stack(work)


def test_a_wide_node() -> None:
    from burnpy import cat

    xs = [leaf([float(k)]) for k in range(3_000)]
    grads = (cat(xs) * 2.0).sum().backward()
    assert len(grads) == 3_000
    assert all(grads[x].tolist() == [2.0] for x in xs)


@pytest.mark.usefixtures("no_collector")
def test_nothing_is_alive_after_backward() -> None:
    x = leaf([1.0, 2.0])
    hidden = (x * 3.0).exp()
    loss = (hidden * x).sum()
    nodes = [weakref.ref(node) for node in nodes_below(loss)]
    arrays = [weakref.ref(hidden._primitive.value)]
    assert len(nodes) == 4
    grads = loss.backward()
    del hidden
    assert [ref() for ref in arrays] == [None], "backward() left a saved array alive"
    assert sum(ref() is not None for ref in nodes) == 1, "backward() left nodes alive besides the loss's own"
    del loss
    assert all(ref() is None for ref in nodes)
    assert len(grads) == 1


@pytest.mark.usefixtures("no_collector")
def test_a_root_that_is_held_holds_nothing_after_backward() -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    left, right = x * 2.0, x * 3.0
    root = left @ right
    saved = [weakref.ref(t._primitive.value) for t in (left, right)]
    del left, right
    assert all(ref() is not None for ref in saved)
    root.backward(Tensor[NumPy].ones((2, 2), dtype="float64"))
    assert all(ref() is None for ref in saved), "the root's node kept its operands after backward()"


@pytest.mark.usefixtures("no_collector")
def test_nothing_is_alive_after_a_dropped_forward_pass() -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    hidden = (x @ x).softmax(1)
    value, index = hidden.max(1)
    loss = (value * hidden[:, 0]).gather(0, index).std() + hidden.prod() + hidden.retain_grad().sum()
    refs = [weakref.ref(node) for node in nodes_below(loss)] + [weakref.ref(hidden._primitive.value)]
    del hidden, value, index, loss
    alive = [ref() for ref in refs if ref() is not None]
    assert not alive, f"still alive: {alive}"


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("retain_graph", [False, True])
def test_nothing_is_alive_after_a_nested_pass(retain_graph: bool) -> None:
    x = Tensor[Autodiff[Train]].from_data([0.5, 1.0], dtype="float64").require_grad()
    loss = (x.sin() * x).sum()
    grad = loss.backward(retain_graph=retain_graph)[x]
    refs = [weakref.ref(node) for node in (*nodes_below(loss), *nodes_below(grad))]
    grad.sum().backward(retain_graph=retain_graph)
    del loss, grad
    alive = [ref() for ref in refs if ref() is not None]
    assert not alive, f"still alive: {alive}"


@pytest.mark.usefixtures("no_collector")
def test_nothing_is_alive_after_errors() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    refs = [weakref.ref(node) for node in nodes_below(y)]
    with pytest.raises(errors.ShapeError):
        y.backward()
    with pytest.raises(errors.BurnpyError):
        y + leaf([1.0, 2.0, 3.0])
    loss = y.sum()
    loss.backward()
    with pytest.raises(errors.GraphError):
        loss.backward()
    del y, loss
    assert all(ref() is None for ref in refs)


@pytest.mark.usefixtures("no_collector")
def test_an_untracked_operation_keeps_nothing() -> None:
    x = Tensor[Train].ones((3,))
    watch = weakref.ref(x._primitive.value)
    y = (x * x).exp()
    del x
    assert watch() is None
    assert y.shape == (3,)


def _arrays() -> dict[str, Tensor[Any]]:
    return {name: Tensor.from_data([[1.0, 2.0], [3.0, 4.0]], dtype="float64", device=Train) for name in "xyz"}


KEPT: list[tuple[str, Callable[..., Any], str, str]] = [
    # what, the function of x, y, z, which of them are tracked, which values the result's graph keeps ("o": the result)
    ("exp keeps its result", lambda x, y, z: x.exp(), "x", "o"),
    ("tanh keeps its result", lambda x, y, z: x.tanh(), "x", "o"),
    ("sigmoid keeps its result", lambda x, y, z: x.sigmoid(), "x", "o"),
    ("sqrt keeps its result", lambda x, y, z: x.sqrt(), "x", "o"),
    ("relu keeps its result", lambda x, y, z: x.relu(), "x", "o"),
    ("softmax keeps its result", lambda x, y, z: x.softmax(1), "x", "o"),
    ("sin keeps its argument", lambda x, y, z: x.sin(), "x", "x"),
    ("log keeps its argument", lambda x, y, z: x.log(), "x", "x"),
    ("gelu keeps its argument", lambda x, y, z: x.gelu(), "x", "x"),
    ("mul keeps both for both", lambda x, y, z: x * y, "xy", "xy"),
    ("mul by a constant keeps the constant", lambda x, y, z: x * y, "x", "y"),
    ("a constant times x keeps the constant", lambda x, y, z: y * x, "x", "y"),
    ("mul by a number keeps nothing", lambda x, y, z: x * 2.0, "x", ""),
    ("matmul keeps both for both", lambda x, y, z: x @ y, "xy", "xy"),
    ("matmul by a constant keeps the constant", lambda x, y, z: x @ y, "x", "y"),
    ("div by a constant keeps the divisor", lambda x, y, z: x / y, "x", "y"),
    ("div of a constant keeps divisor and result", lambda x, y, z: x / y, "y", "yo"),
    ("add keeps nothing", lambda x, y, z: x + y, "xy", ""),
    ("sub keeps nothing", lambda x, y, z: x - y, "xy", ""),
    ("neg keeps nothing", lambda x, y, z: -x, "x", ""),
    ("sum keeps nothing", lambda x, y, z: x.sum(), "x", ""),
    ("mean keeps nothing", lambda x, y, z: x.mean(1), "x", ""),
    ("reshape keeps nothing", lambda x, y, z: x.reshape(4), "x", ""),
    ("a transpose keeps nothing", lambda x, y, z: x.mT, "x", ""),
    ("a slice keeps nothing", lambda x, y, z: x[0], "x", ""),
    ("a cast keeps nothing", lambda x, y, z: x.to_dtype("float32"), "x", ""),
    ("where keeps no choices", lambda x, y, z: where(x.detach() > 2.0, x, y), "xy", ""),
    ("index_select keeps no values", lambda x, y, z: x.index_select(0, IntTensor[Train].from_data([0])), "x", ""),
    ("untracked operations keep nothing", lambda x, y, z: (x * y).exp() @ z, "", ""),
]


@pytest.mark.usefixtures("no_collector")
@every_row(("claim", "f", "tracked", "kept"), KEPT)
def test_what_is_kept(claim: str, f: Callable[..., Any], tracked: str, kept: str) -> None:
    """For each tensor besides what leaves hold: is its array alive while only the node of the result is?"""
    plain = _arrays()
    given = {name: (x.require_grad() * 1.0 if name in tracked else x * 1.0) for name, x in plain.items()}
    out = f(*given.values())
    watched = {name: weakref.ref(x._primitive.value) for name, x in given.items()}
    if isinstance(out._primitive.value, np.ndarray):
        watched["o"] = weakref.ref(out._primitive.value)
    node = node_of(out)
    del given, out
    alive = "".join(name for name, ref in watched.items() if ref() is not None)
    assert sorted(alive) == sorted(kept), f"{claim}: of x, y, z and the result (o), alive are {alive!r}, not {kept!r}"
    assert (node is not None) == bool(tracked)


@pytest.mark.usefixtures("no_collector")
def test_arrays_are_freed_while_a_pass_goes_on() -> None:
    """The saved values of a node are freed when the pass has visited it, not at the end of the pass."""
    x = leaf([1.0, 2.0])
    y, saved = x, []
    for _ in range(8):
        y = y.exp()
        saved.append(weakref.ref(y._primitive.value))
        y = y * 0.1
    first = nodes_below(y)[-1]
    vjp, alive = first.vjp0, []

    def probed(inner: Any, grad: Any, *kept: Any) -> Any:
        alive.append(sum(ref() is not None for ref in saved))
        return vjp(inner, grad, *kept)

    first.vjp0 = probed
    loss = y.sum()
    del y
    assert sum(ref() is not None for ref in saved) == 8
    loss.backward()
    assert alive == [1], (
        f"{alive} of 8 saved arrays were alive when the pass came to the first node, which needs its own"
    )
