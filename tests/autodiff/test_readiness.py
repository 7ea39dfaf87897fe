"""``backward(on_ready=f)``: each gradient is reported once, complete, and after the last node that adds to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnpy import Autodiff, Tensor
from burnpy.autodiff import Balanced, Function, checkpoint, detect_anomaly, recording
from burnpy.autodiff.graph import Leaf
from burnpy.autodiff.tools.backward import backward
from burnpy.backend import NumPy, errors
from burnpy.nn import BatchNorm, Linear, Relu, Sequential

Train = Autodiff[NumPy]
FEW = settings(max_examples=40)

OPERATIONS: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "square": lambda x, y: x * x,
    "where": lambda x, y: x.maximum(y) - x.exp().clamp(0.0, 2.0),
    "slices": lambda x, y: x[0:1] * y + x[1:2],
    "set": lambda x, y: x.at[0].set(y[1]),
    "hooked": lambda x, y: (x * 1.5).register_hook(lambda g: g * 2.0)[0] + y,
    "retained": lambda x, y: (x * 0.5).retain_grad() + y,
    "checkpointed": lambda x, y: checkpoint(lambda u: u.sin() * y, x),
    "detached": lambda x, y: x + y.detach(),
}


def leaf(data: Any, device: Any = Train) -> Any:
    return Tensor.from_data(data, dtype="float64", device=device).require_grad()


class Reports:
    """Notes of a pass: which vjps have run, and what was reported when."""

    def __init__(self) -> None:
        self.visited: list[Any] = []
        self.reported: list[tuple[Any, np.ndarray[Any, Any], int]] = []
        self.values: list[Any] = []

    def intercept(self, inner: Any, node: Any, vjp: Any, grad: Any, kept: Any) -> Any:
        self.visited.append(node)
        return vjp(inner, grad, *kept)

    def __call__(self, x: Any, grad: Any) -> None:
        assert grad.device is x.device.inner
        self.reported.append((x._primitive.node, grad.to_numpy().copy(), len(self.visited)))
        self.values.append(grad)


def consumers(roots: list[Any]) -> dict[Any, set[Any]]:
    """The nodes that have a leaf as a parent, by leaf."""
    found: dict[Any, set[Any]] = {}
    stack, seen = [root._primitive.node for root in roots], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.__class__ is Leaf:
            found.setdefault(node, set())
            continue
        for parent in (node.parent0, node.parent1):
            if parent.__class__ is Leaf:
                found.setdefault(parent, set()).add(node)
            if parent is not None:
                stack.append(parent)
    return found


def check(roots: list[Any], *, exact: bool = True, **arguments: Any) -> list[Any]:
    """Differentiate; compare the reports with the result, and their moments with the graph. Returns their order."""
    using, reports = consumers(roots), Reports()
    with recording.using(interceptors=(reports.intercept,)):
        grads = backward(roots, on_ready=reports, **arguments)
    assert len(reports.reported) == len(grads) == len({node for node, _, _ in reports.reported})
    for (node, noted, at), value in zip(reports.reported, reports.values, strict=True):
        held = grads._values[node]
        assert value._primitive is held, "another array than the result's was reported"
        assert np.array_equal(noted, value.to_numpy()), "the gradient changed after it was reported"
        assert using[node].isdisjoint(reports.visited[at:]), "a node that adds to it was still to come"
        if exact and using[node]:
            assert reports.visited[at - 1] in using[node], "it could have been reported earlier"
        if not using[node]:
            assert at == 0, "a leaf that is only a root is complete at once"
    return [node for node, _, _ in reports.reported]


@FEW
@given(
    names=st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=12),
    picks=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=12, max_size=12),
    ends=st.lists(st.integers(0, 50), min_size=1, max_size=3),
    retain_graph=st.booleans(),
)
def test_each_gradient_once_complete_and_early(
    names: list[str], picks: list[tuple[int, int]], ends: list[int], retain_graph: bool
) -> None:
    """The graphs are drawn at random, with several roots that may be leaves or repeated."""
    leaves = [leaf(np.linspace(-1.0, 1.0, 2) + k) for k in range(3)]
    leaves.append(leaf([0.5, 0.25]).register_hook(lambda g: g * 3.0)[0])
    tensors = list(leaves)
    for name, (first, second) in zip(names, picks, strict=False):
        x, y = tensors[first % len(tensors)], tensors[second % len(tensors)]
        tensors.append(OPERATIONS[name](x, y))
    roots = [tensors[-1 - end % len(tensors)] for end in ends]
    seeds = [Tensor[NumPy].from_data([1.0, 2.0], dtype="float64") for _ in roots]
    # A node to which no gradient flows, such as one beneath `set`, calls no vjp, and the moment cannot be seen.
    order = check(roots, gradients=seeds, retain_graph=retain_graph)
    if retain_graph:
        assert check(roots, gradients=seeds) == order


def test_the_gradient_is_that_after_the_hooks_of_the_leaf() -> None:
    x = leaf([1.0, 2.0])
    hooked, _ = x.register_hook(lambda g: g * 10.0)
    seen: list[Any] = []
    grads = (hooked * 3.0 + x).sum().backward(on_ready=lambda of, g: seen.append((of, g.tolist())))
    ((of, value),) = seen
    assert value == [31.0, 31.0] == grads[x].tolist()
    assert x.grad(grads).tolist() == value
    assert of._primitive.node is x._primitive.node


def test_later_layers_come_first_while_earlier_ones_are_still_to_be_computed() -> None:
    model = Sequential(Linear(3, 4, device=Train), Relu(), Linear(4, 2, device=Train))
    paths = {param.value._primitive.node: path for path, param in model.named_params().items()}
    loss = model(Tensor[Train].ones((5, 3))).square().sum()
    order = [paths[node] for node in check([loss])]
    assert sorted(order[:2]) == ["2.bias", "2.weight"]
    assert sorted(order[2:]) == ["0.bias", "0.weight"]


def test_inputs_alone_are_reported() -> None:
    x, y, z = leaf([1.0]), leaf([2.0]), leaf([3.0])
    out = (x * y + z).exp()
    seen: list[Any] = []
    grads = backward(out, inputs=[x, z], on_ready=lambda of, g: seen.append(of.item()))
    assert sorted(seen) == [1.0, 3.0]
    assert len(grads) == 2
    seen.clear()
    assert len(backward([y * 2.0, x], inputs=[y], on_ready=lambda of, g: seen.append(of.item()))) == 1
    assert seen == [2.0]


class Half(Function):
    """The second argument has no gradient, although it is tracked."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x * 2.0 + y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0, None


def test_absent_contributions_are_not_reported() -> None:
    x, y = leaf([1.0]), leaf([2.0])
    seen: list[Any] = []
    grads = Half.apply(x, y).sum().backward(on_ready=lambda of, g: seen.append((of.item(), g.item())))
    assert seen == [(1.0, 2.0)]
    assert y.grad(grads) is None
    seen.clear()
    Half.apply(x * 1.0, y * 3.0).sum().backward(on_ready=lambda of, g: seen.append((of.item(), g.item())))
    assert seen == [(1.0, 2.0)]


def test_updates_of_buffers_are_not_reported() -> None:
    model = Sequential(Linear(3, 4, device=Train), BatchNorm(4, device=Train))
    count: list[Any] = []
    loss = model(Tensor[Train].normal((5, 3), 0.0, 1.0)).square().sum()
    grads = loss.backward(on_ready=lambda of, g: count.append(of.shape))
    assert len(count) == len(grads) == 4
    assert grads.buffer_updates


def test_nested_levels_report_tensors_of_the_inner_level() -> None:
    x = leaf([2.0], Autodiff[Train])
    cubes: list[Any] = []
    grads = (x * x * x).sum().backward(on_ready=lambda of, g: cubes.append(g))
    second = cubes[0].sum().backward()
    assert x.inner().grad(second).tolist() == [12.0]
    assert grads[x].tolist() == [12.0]


@pytest.mark.parametrize("device", [Autodiff[Balanced[NumPy]], Train])
def test_strategies_and_instruments_report_as_well(device: Any) -> None:
    x, y = leaf([[1.0, 2.0]], device), leaf([[3.0], [4.0]], device)
    seen: dict[float, Any] = {}
    with detect_anomaly():
        grads = (x @ y).exp().log().gelu().sum().backward(on_ready=lambda of, g: seen.update({of.sum().item(): g}))
    assert seen[3.0].tolist() == grads[x].tolist()
    assert seen[7.0].tolist() == grads[y].tolist()


def test_mistakes() -> None:
    x = leaf([1.0])
    wrong: Any = 3
    with pytest.raises(errors.KindError, match=r"backward\(on_ready=…\) takes a function of a leaf and its gradient"):
        x.sum().backward(on_ready=wrong)
    with pytest.raises(errors.KindError, match="takes a function"):
        backward([x.sum()], on_ready=wrong)
    with pytest.raises(errors.ArgumentError, match="let it take a leaf and its gradient"):
        x.sum().backward(on_ready=lambda g: None)
    with pytest.raises(errors.ArgumentError, match="cannot replace gradients"):
        x.sum().backward(on_ready=lambda of, g: g)
    with pytest.raises(ZeroDivisionError):
        x.sum().backward(on_ready=lambda of, g: 1 / 0)


def test_a_plain_pass_makes_no_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    from burnpy.autodiff import engine

    monkeypatch.setattr(engine, "_with_last_uses", None)
    x = leaf([1.0])
    assert x.sum().backward()[x].tolist() == [1.0]
