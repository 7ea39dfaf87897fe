"""``grad_fn``: a view of the operation that computed a tensor, what it saves, and what was before it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

from burnpy import Autodiff, IntTensor, Tensor, cat, where
from burnpy.autodiff import (
    Function,
    GradFn,
    detect_anomaly,
    register_multi_grad_hook,
    to_dot,
    to_mermaid,
    to_svg,
    track_lines,
)
from burnpy.autodiff.tools.graph_views import walk
from burnpy.autodiff.tools.saved_tensors import saved_tensors_hooks
from burnpy.backend import NumPy
from burnpy.backend.errors import GraphError, NotTrackedError
from tests.rows import every_row

Train = Autodiff[NumPy]
DRAWERS: list[Callable[..., str]] = [to_dot, to_mermaid, to_svg]


def leaf(data: Any, device: Any = Train) -> Tensor[Any]:
    return Tensor.from_data(data, dtype="float64", device=device).require_grad()


def fn(x: Tensor[Any]) -> GradFn:
    found = x.grad_fn
    assert found is not None
    return found


class Twice(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2.0, y * 2.0

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return g * 2.0, h * 2.0


def test_leaves_and_untracked_tensors_have_none() -> None:
    x = leaf([1.0])
    assert x.grad_fn is None
    assert x.register_hook(lambda g: g)[0].grad_fn is None, "a leaf seen through a hook is a leaf"
    assert x.detach().grad_fn is None
    assert x.inner().grad_fn is None
    assert (x.detach() * 2.0).grad_fn is None
    assert Tensor[NumPy].ones((2,)).grad_fn is None


def test_only_the_outermost_level_is_shown() -> None:
    x = leaf([1.0], Autodiff[Train])
    y = x.exp()
    assert fn(y).name == fn(y.inner()).name == "exp"
    assert Tensor.from_inner(y.inner()).grad_fn is None


# a title, the function of x and y of shape (2, 3), its name, the names of its arguments' nodes and of its saved values
VIEWS: list[tuple[str, Callable[..., Any], str, list[str], list[str]]] = [
    ("one argument", lambda x, y: x.exp(), "exp", ["leaf"], ["out"]),
    ("two arguments", lambda x, y: x * y, "mul", ["leaf", "leaf"], ["y", "x"]),
    ("one of two is tracked", lambda x, y: x * y.detach(), "mul", ["leaf"], ["y"]),
    ("the other is", lambda x, y: x.detach() * y, "mul", ["leaf"], ["x"]),
    ("a number", lambda x, y: x * 2.0, "mul", ["leaf"], ["y"]),
    ("what was broadcast", lambda x, y: x + y[0], "add", ["leaf", "slice"], ["y_shape"]),
    ("a reduction", lambda x, y: x.sum(1), "sum", ["leaf"], ["x_shape", "dims", "keepdim"]),
    (
        "many arguments",
        lambda x, y: cat([x, y, x]),
        "cat",
        ["leaf"] * 3,
        ["x_shape", "dim", "start", "start_1", "start_2"],
    ),
    ("a kept gradient", lambda x, y: x.exp().retain_grad(), "retain_grad", ["exp"], []),
    ("seen through a hook", lambda x, y: x.exp().register_hook(lambda g: g)[0], "exp", ["leaf"], ["out"]),
    ("after a hook", lambda x, y: x.register_hook(lambda g: g)[0].exp(), "exp", ["leaf"], ["out"]),
    ("seen by a group", lambda x, y: register_multi_grad_hook([x.exp()], print)[0][0], "exp", ["leaf"], ["out"]),
    ("a Function", lambda x, y: Twice.apply(x, y)[0], "Twice", ["Twice"], []),
    (
        "by indices",
        lambda x, y: x.index_select(0, IntTensor[Train].from_data([1])),
        "index_select",
        ["leaf"],
        ["x_shape", "dim", "index"],
    ),
]


@every_row("claim, f, name, before, saved", VIEWS, ids=[row[0] for row in VIEWS])
def test_views(claim: str, f: Any, name: str, before: list[str], saved: list[str]) -> None:
    x, y = leaf([[1.0, 2.0, 3.0]] * 2), leaf([[1.0] * 3] * 2)
    out = f(x, y)
    view = fn(out)
    assert view.name == name
    assert [v.name for v in view.next_functions] == before
    assert list(view.saved) == saved
    assert (view.shape, view.dtype) == (out.shape, out.dtype)


def test_a_function_of_several_results_has_its_arguments_behind_the_call() -> None:
    x, y = leaf([1.0]), leaf([2.0])
    one, two = Twice.apply(x, y)
    (call,) = fn(one).next_functions
    assert (call,) == fn(two).next_functions
    assert [v.variable.tolist() for v in call.next_functions] == [[1.0], [2.0]]
    assert call.saved["saved_0"].tolist() == [1.0]


def test_what_is_saved_is_shown_as_tensors_of_the_inner_device() -> None:
    x = leaf([[3.0, 1.0], [2.0, 4.0]])
    y = x.exp()
    out = fn(y).saved["out"]
    assert isinstance(out, Tensor)
    assert out.device is NumPy()
    assert out.tolist() == y.tolist()
    picked = x.index_select(0, IntTensor[Train].from_data([1]))
    assert isinstance(fn(picked).saved["index"], IntTensor)
    masked = where(x.detach() > 2.0, x, 0.0)
    assert fn(masked).saved["condition"].tolist() == [[True, False], [False, True]]
    with pytest.raises(TypeError):
        fn(y).saved["out"] = out  # type: ignore[index]  # which is the claim


def test_what_hooks_packed_is_not_unpacked() -> None:
    x = leaf([1.0])
    with saved_tensors_hooks(lambda t: t.tolist(), lambda values: pytest.fail("it was unpacked")):
        y = x.exp()
    assert not isinstance(fn(y).saved["out"], Tensor)


# the function of x, of shape (2, 3), whose argument's shape is to be told from the view of the result of .sum()
SHAPES: list[Callable[[Any], Any]] = [
    lambda x: x.exp(),
    lambda x: x * 2.0,
    lambda x: x + x,
    lambda x: x + leaf([1.0, 2.0, 3.0]),
    lambda x: leaf([[1.0], [2.0]]) - x,
    lambda x: x.sum(0),
    lambda x: x.mT,
    lambda x: x.permute(1, 0),
    lambda x: x.reshape(6),
    lambda x: x.unsqueeze(0).expand(4, 2, 3),
    lambda x: x[0, 1:],
    lambda x: x.softmax(1),
    lambda x: x.log_softmax(0),
    lambda x: x.cumsum(1),
    lambda x: x.flip(0),
    lambda x: x.tril(),
    lambda x: x.to_dtype("float32"),
    lambda x: x @ leaf([[1.0] * 2] * 3),
    lambda x: leaf([1.0, 1.0]) @ x,
    lambda x: x.var(1),
    lambda x: x.amax(1),
    lambda x: x.logsumexp(0),
    lambda x: x.prod(1),
    lambda x: cat([x, x, x], 1),
    lambda x: where(x.detach() > 0.0, x, 0.0),
    lambda x: x.gather(1, IntTensor[Train].zeros((2, 1))),
    lambda x: x.index_select(1, IntTensor[Train].zeros((5,))),
    lambda x: leaf([[0.0] * 3] * 4).at[0:2].set(x),
    lambda x: x.at[0].set(1.0),
    lambda x: x.retain_grad(),
    lambda x: x.register_hook(lambda g: g)[0] * 2.0,
]


@every_row("f", SHAPES, ids=range(len(SHAPES)))
def test_shapes_are_told_down_to_the_leaves(f: Any) -> None:
    """Shapes and dtypes of all nodes are inferred from the end of a graph, though nodes do not store them."""
    x = leaf([[1.0, 2.0, 3.0]] * 2)
    middle = x * 1.0
    out = f(middle)
    end = out.sum()
    waiting, seen = [fn(end)], []
    while waiting:
        view = waiting.pop()
        seen.append(view)
        waiting += view.next_functions
    found = [view for view in seen if view == fn(middle)]
    assert found
    assert all((view.shape, view.dtype) == ((2, 3), x.dtype) for view in found)
    assert any((view.shape, view.dtype) == (out.shape, out.dtype) for view in seen if view == fn(out))


def test_views_are_equal_by_operation() -> None:
    x = leaf([1.0])
    y = x.exp()
    z = y * y
    assert fn(y) == fn(y)
    assert hash(fn(y)) == hash(fn(y))
    assert fn(z).next_functions[0] == fn(z).next_functions[1] == fn(y)
    assert len({fn(y), fn(y), fn(z)}) == 2
    assert fn(y) != fn(x.exp())
    assert fn(y) != "exp"
    (end,) = fn(y).next_functions
    assert end.is_leaf
    other = x.sin()
    assert end == fn(other).next_functions[0]
    assert end.variable.grad(z.sum().backward()) is not None


def test_representation() -> None:
    y = leaf([1.0, 2.0]).exp()
    assert repr(fn(y)) == "GradFn(exp, shape=(2,), dtype=float64)"
    assert repr(fn(y).next_functions[0]) == "GradFn(leaf, shape=(2,), dtype=float64)"
    loss = y.sum()
    loss.backward()
    assert repr(fn(loss)) == "GradFn(sum, shape=(), dtype=float64, freed)"
    assert repr(fn(leaf([1.0, 2.0]).exp())) == "GradFn(exp, shape=(2,), dtype=float64)", "of a tensor that is gone"


def test_what_is_freed_says_so() -> None:
    x = leaf([1.0])
    loss = x.exp().sum()
    view = fn(loss)
    assert not view.is_freed
    loss.backward()
    assert fn(loss).is_freed
    with pytest.raises(
        GraphError, match=r"cannot read grad_fn.saved of sum: a backward pass has freed.*retain_graph=True"
    ):
        view.saved
    with pytest.raises(GraphError, match=r"cannot read grad_fn.next_functions of sum: a backward pass has freed"):
        view.next_functions
    assert view.name == "sum"
    assert view.shape == ()


def test_of_tensors_that_are_gone() -> None:
    """As in PyTorch, it keeps what it shows: a chain of attributes works on temporaries."""
    x = leaf([1.0])
    assert fn((x * 2.0).sum()).next_functions[0].name == "mul"
    assert fn((x.exp() * 2.0).sum()).next_functions[0].next_functions[0].saved["out"].item() == pytest.approx(
        2.718281828
    )
    (end,) = fn(leaf([3.0]).exp()).next_functions
    assert end.variable.tolist() == [3.0]
    view = fn(x.exp())
    view.metadata["mine"] = 3
    assert view.metadata == {"mine": 3}
    assert not view.is_freed


def test_variable_and_metadata() -> None:
    x = leaf([1.0])
    y = x.exp().retain_grad()
    (end,) = fn(y).next_functions[0].next_functions
    assert end.variable.tolist() == [1.0]
    assert fn(y).variable.tolist() == y.tolist()
    with pytest.raises(NotTrackedError, match="is the tensor of a leaf, and this is exp"):
        fn(y).next_functions[0].variable
    fn(y).metadata["mine"] = 3
    assert fn(y).metadata == {"mine": 3}
    with pytest.raises(NotTrackedError, match="this is a leaf"):
        end.metadata


def test_lines() -> None:
    x = leaf([1.0])
    with track_lines():
        y = x.exp()  # noted
    line = fn(y).line
    assert line is not None
    assert (line.code, line.file, line.function) == ("y = x.exp()  # noted", __file__, "test_lines")
    assert fn(x.exp()).line is None
    with track_lines(None):
        z = x.exp()
    assert len(fn(z).lines) > 1
    with detect_anomaly():
        w = x.exp()
    assert len(fn(w).lines) > 1


@pytest.mark.usefixtures("no_collector")
def test_looking_keeps_nothing_alive() -> None:
    x = leaf([1.0, 2.0])
    with track_lines():
        hidden = x.exp()
        loss = (hidden * hidden).sum()
    for draw in DRAWERS:
        draw(loss, names={"x": x, "hidden": hidden})
    assert fn(hidden).saved["out"].tolist() == hidden.tolist()
    refs = [weakref.ref(node) for node in walk([loss._primitive.node])[0]] + [weakref.ref(hidden._primitive.value)]
    assert len(refs) == 4
    del hidden, loss
    assert [ref() for ref in refs] == [None] * 4, "a drawing, or a look, kept a graph alive"


@pytest.mark.usefixtures("no_collector")
def test_a_view_keeps_its_operation_and_a_pass_frees_what_that_holds() -> None:
    x = leaf([1.0, 2.0])
    hidden = x.exp()
    loss = hidden.sum()
    view = fn(loss)
    node, value = weakref.ref(loss._primitive.node), weakref.ref(hidden._primitive.value)
    del hidden
    loss.backward()
    assert value() is None, "what the operation kept outlived the pass"
    del loss
    assert node() is not None
    del view
    assert node() is None, "a view is in a cycle"
