"""`Function`: operations whose derivative the user writes."""

from __future__ import annotations

import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, assert_type

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, func
from burnpy.autodiff import (
    Context,
    Forward,
    Function,
    detect_anomaly,
    make_dual,
    once_differentiable,
    register_multi_grad_hook,
    unpack_dual,
)
from burnpy.autodiff.modes import no_grad
from burnpy.autodiff.recording import observing
from burnpy.autodiff.tools.backward import grad
from burnpy.backend import Backend, NumPy, errors
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

B = TypeVar("B", bound=Backend)
Train = Autodiff[NumPy]
Twice = Autodiff[Train]
Thrice = Autodiff[Twice]
TRAIN, TWICE = Autodiff(NumPy()), Autodiff(Autodiff(NumPy()))
THRICE = Autodiff(TWICE)


def plain(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


def leaf(data: Any, device: Any = Train) -> Any:
    return Tensor.from_data(data, dtype="float64", device=device).require_grad()


class Exp(Function):
    """Saves its result."""

    @staticmethod
    def forward(ctx: Context, x: Tensor[B]) -> Tensor[B]:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Context, grad: Tensor[B]) -> Tensor[B]:
        (y,) = ctx.saved_tensors
        return grad * y

    @staticmethod
    def jvp(ctx: Context, tangent: Tensor[B]) -> Tensor[B]:
        (y,) = ctx.saved_tensors
        return tangent * y


class Cube(Function):
    """Saves its argument."""

    @staticmethod
    def forward(ctx: Context, x: Tensor[B]) -> Tensor[B]:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Context, grad: Tensor[B]) -> Tensor[B]:
        (x,) = ctx.saved_tensors
        return grad * x * x * 3.0

    @staticmethod
    def jvp(ctx: Context, tangent: Tensor[B]) -> Tensor[B]:
        (x,) = ctx.saved_tensors
        return tangent * x * x * 3.0


class Mixed(Function):
    """Two tensors, a number and a string; three results."""

    @staticmethod
    def forward(
        ctx: Context, x: Tensor[B], scale: float, y: Tensor[B], name: str = "mixed"
    ) -> tuple[Tensor[B], Tensor[B], Tensor[B]]:
        ctx.scale = scale
        ctx.save_for_backward(x, y)
        return x * y * scale, y.sin(), x + y

    @staticmethod
    def backward(ctx: Context, product: Tensor[B], sine: Tensor[B], total: Tensor[B]) -> Any:
        x, y = ctx.saved_tensors
        return product * y * ctx.scale + total, None, product * x * ctx.scale + sine * y.cos() + total, None

    @staticmethod
    def jvp(ctx: Context, tx: Tensor[B], scale: None, ty: Tensor[B], name: None = None) -> Any:
        x, y = ctx.saved_tensors
        return tx * y * ctx.scale + ty * x * ctx.scale, ty * y.cos(), tx + ty


class Sorted(Function):
    """A float and an int result."""

    @staticmethod
    def forward(ctx: Context, x: Tensor[B]) -> tuple[Tensor[B], IntTensor[B]]:
        index = IntTensor.from_data(x.to_numpy().argsort(), device=x.device)
        ctx.save_for_backward(index)
        return x.index_select(0, index), index

    @staticmethod
    def backward(ctx: Context, grad: Tensor[B], none: None) -> Tensor[B]:
        assert none is None
        index: Any = ctx.saved_tensors[0]
        inverse = IntTensor.from_data(index.to_numpy().argsort(), device=index.device)
        return grad.index_select(0, inverse)

    @staticmethod
    def jvp(ctx: Context, tangent: Tensor[B]) -> tuple[Tensor[B], None]:
        index: Any = ctx.saved_tensors[0]
        return tangent.index_select(0, index), None


def function(**methods: Callable[..., Any]) -> Any:
    """Create a Function ``F`` with the given methods; the others are those of doubling."""
    double = {"forward": lambda ctx, x: x * 2.0, "backward": lambda ctx, g: g * 2.0}
    return type("F", (Function,), {name: staticmethod(f) for name, f in (double | methods).items()})


CHECKED: list[tuple[str, Callable[..., Any], tuple[Tensor[Any], ...]]] = [
    ("a saved result", Exp.apply, (plain([0.3, -0.5]),)),
    ("a saved argument", Cube.apply, (plain([0.3, -0.5]),)),
    ("several arguments and results", lambda x, y: Mixed.apply(x, 2.0, y), (plain([0.3, -0.5]), plain([1.5, 0.7]))),
    ("one tensor twice", lambda x: Mixed.apply(x, 2.0, x), (plain([0.3, -0.5]),)),
    ("one result of several", lambda x, y: Mixed.apply(x, 2.0, y)[1], (plain([0.3, -0.5]), plain([1.5, 0.7]))),
    ("one tracked argument", lambda y: Mixed.apply(y.detach(), 2.0, y)[0], (plain([1.5, 0.7]),)),
    ("an int result", lambda x: Sorted.apply(x)[0] * plainlike(x, [1.0, 2.0, 3.0]), (plain([0.3, 0.9, -0.5]),)),
    ("a Function of a Function", lambda x: Cube.apply(Exp.apply(Cube.apply(x))), (plain([0.3, -0.5]),)),
    ("no elements", Exp.apply, (plain([]),)),
    ("a number", Exp.apply, (plain(0.5),)),
]


def plainlike(x: Tensor[B], data: Any) -> Tensor[B]:
    return Tensor.from_data(data, dtype="float64", device=x.device)


@every_row("claim, f, inputs", CHECKED, ids=[row[0] for row in CHECKED])
def test_derivatives_are_right_in_both_modes_and_twice(claim: str, f: Any, inputs: Any) -> None:
    if claim != "one tracked argument":
        gradcheck(f, inputs)
        gradgradcheck(f, inputs)
    else:
        y: Any = inputs[0]
        x: Any = Tensor.from_inner(y).require_grad()
        assert np.allclose(x.grad(f(x).sum().backward()).to_numpy(), 2.0 * y.to_numpy())


def test_third_derivatives_and_where_each_comes_back() -> None:
    x = leaf([2.0], Thrice)
    first = Cube.apply(x).sum().backward()[x]
    second = first.sum().backward()[x.inner()]
    third = second.sum().backward()[x.inner().inner()]
    assert (first.tolist(), second.tolist(), third.tolist()) == ([12.0], [12.0], [6.0])
    assert (first.device, second.device, third.device) == (Autodiff(Train), Autodiff(NumPy), NumPy())


@every_row("device", [NumPy(), TRAIN, TWICE, THRICE, Forward(NumPy()), Autodiff(Forward(NumPy()))])
def test_forward_runs_once_beneath_all_levels(device: Any) -> None:
    """On the plain backend; where several levels differentiate, on one of its own on top of that."""
    seen: list[Any] = []

    def forward(ctx: Context, x: Tensor[B], i: IntTensor[B], b: BoolTensor[B]) -> Any:
        seen.append((x.device, i.device, b.device))
        return x * 2.0, i, b

    f = function(forward=forward, backward=lambda ctx, g, i, b: (g * 2.0, None, None))
    x = Tensor.from_data([1.0, 2.0], device=device)
    i, b = IntTensor.from_data([1], device=device), BoolTensor.from_data([True], device=device)
    y, j, c = f.apply(x.require_grad(), i, b)
    ((on, *discrete),) = seen
    assert (on.inner if device in (TWICE, THRICE) else on, *discrete) == (NumPy(),) * 3
    assert (y.device, j.device, c.device) == (device,) * 3
    assert (y.tolist(), j.tolist(), c.tolist()) == ([2.0, 4.0], [1], [True])


def test_backward_runs_on_the_level_beneath() -> None:
    seen: list[Any] = []

    def backward(ctx: Context, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        seen.append((g.device, x.device))
        return g * x * 2.0

    def forward(ctx: Context, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    f = function(forward=forward, backward=backward)
    x = leaf([3.0], Twice)
    assert f.apply(x).sum().backward()[x].backward()[x.inner()].tolist() == [2.0]
    assert seen == [(TRAIN, TRAIN)]
    outer = f.apply(x).inner().sum().backward()
    assert outer[x.inner()].tolist() == [6.0]
    assert seen[1:] == [(NumPy(), NumPy())], "the inner level uses the Function's backward too"


def test_second_derivatives_through_saved_intermediates_are_refused() -> None:
    def forward(ctx: Context, x: Any) -> Any:
        ctx.save_for_backward(x * x, x, None)
        return x * x * x

    def forward_of_constants(ctx: Context, x: Any) -> Any:
        ctx.save_for_backward((x.detach() * x.detach()) * (x > 0.0).float().to_dtype(x.dtype), x, None)
        return x * x * x

    def backward(ctx: Context, g: Any) -> Any:
        saved: tuple[Any, ...] = ctx.saved_tensors
        square, x, none = saved
        assert none is None
        return g * square * 2.0 + g * x * x.detach()

    x = leaf(2.0, Twice)
    first = function(forward=forward, backward=backward).apply(x).backward()[x]
    assert first.item() == 12.0
    with pytest.raises(errors.GraphError, match="saved a tensor that it computed from its arguments"):
        first.backward()
    first = function(forward=forward_of_constants, backward=backward).apply(x).backward()[x]
    assert first.backward()[x.inner()].item() == 2.0, "detached tensors and conditions are constants"


def test_attributes_are_shared_by_all_levels_and_passes() -> None:
    def forward(ctx: Context, x: Any) -> Any:
        ctx.count = 0
        return x * 2.0

    def backward(ctx: Context, g: Any) -> Any:
        ctx.count += 1
        return g * float(ctx.count)

    x = leaf(1.0)
    y = function(forward=forward, backward=backward).apply(x)
    assert [y.backward(retain_graph=True)[x].item() for _ in range(3)] == [1.0, 2.0, 3.0]


def test_needs_input_grad() -> None:
    seen: list[Any] = []

    def forward(ctx: Context, x: Any, n: Any, y: Any, i: Any) -> Any:
        seen.append(("forward", ctx.needs_input_grad))
        return x * y

    def backward(ctx: Context, g: Any) -> Any:
        seen.append(("backward", ctx.needs_input_grad))
        return g, None, g, None

    f = function(forward=forward, backward=backward)
    x, i = leaf(1.0), IntTensor[Train].from_data(1)
    f.apply(x, 3, x.detach(), i).backward()
    assert seen == [("forward", (True, False, False, False)), ("backward", (True, False, False, False))]
    seen.clear()
    f.apply(x.detach(), 3, x.detach(), i)
    f.apply(plain(1.0), 3, plain(1.0), 2)
    with no_grad():
        f.apply(x, 3, x, i)
    assert seen == [("forward", (False,) * 4)] * 3


def test_what_is_not_tracked_may_be_given_none_or_a_gradient() -> None:
    for other in (None, "zeros"):
        f = function(
            forward=lambda ctx, x, y: x * 2.0,
            backward=lambda ctx, g, other=other: (g * 2.0, None if other is None else g * 0.0),
        )
        x, y = leaf([1.0]), leaf([1.0])
        grads = f.apply(x, y.detach()).backward()
        assert (len(grads), grads[x].tolist()) == (1, [2.0])


def test_none_for_a_tracked_argument_is_no_gradient() -> None:
    f = function(forward=lambda ctx, x, y: x * y, backward=lambda ctx, g: (None, g))
    x, y = leaf([[1.0, 2.0]]), leaf([[1.0, 2.0]])
    grads = f.apply(x * 2.0, y).sum().backward()
    assert (x.grad(grads), x in grads, grads[y].tolist()) == (None, False, [[1.0, 1.0]])
    grads = (f.apply(x * 2.0, y) + x * 3.0).sum().backward()
    assert grads[x].tolist() == [[3.0, 3.0]], "what another way gives is there"
    grads = (f.apply(f.apply(y, x), x) + f.apply(x, x)).sum().backward()
    assert grads[x].tolist() == [[2.0, 2.0]]
    assert y.grad(grads) is None


NOTHING: list[tuple[str, dict[str, Any]]] = [
    ("None", {"backward": lambda ctx, g: None}),
    ("None, once differentiable", {"backward": once_differentiable(lambda ctx, g: None)}),
    ("a tuple of None", {"backward": lambda ctx, g: (None,)}),
]


@pytest.mark.parametrize(("what", "methods"), NOTHING, ids=[row[0] for row in NOTHING])
def test_grad_of_what_backward_gives_no_gradient(what: str, methods: dict[str, Any]) -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    f = function(**methods)

    def loss() -> Any:
        return (f.apply(x.exp().retain_grad()) * 2.0 + y).sum()

    first, second = grad(loss(), [x, y], allow_unused=True)
    assert first is None
    assert second is not None
    assert second.tolist() == [1.0, 1.0]
    zeros, _ = grad(loss(), [x, y], materialize_grads=True)
    assert zeros.tolist() == [0.0, 0.0]
    with pytest.raises(errors.ArgumentError, match=r"input 0, of shape \(2,\), for which each backward\(\) .*allow_un"):
        grad(loss(), [x, y])
    assert len(loss().backward()) == 1
    kept = loss()
    assert [len(kept.backward(retain_graph=retain)) for retain in (True, False)] == [1, 1]
    with pytest.raises(errors.GraphError, match="consumed"):
        kept.backward()
    assert func.grad(lambda x: f.apply(x).sum())(plain([1.0, 2.0])).tolist() == [0.0, 0.0]
    hooked: list[Any] = []
    z = (x * 1.0).register_hook(hooked.append)[0]
    assert len(f.apply(z).sum().backward()) == 0
    assert not hooked
    (u, v), _ = register_multi_grad_hook([x, y], hooked.append)
    (f.apply(u) + v).sum().backward()
    assert [g is None for g in hooked[0]] == [True, False]
    shown, _ = f.apply(x * 1.0).register_node_hook(after=lambda grads, of: hooked.append(grads[0].tolist()))
    shown.sum().backward()
    assert hooked[1] == [0.0, 0.0], "a node hook is given zeros, which it may replace"
    with detect_anomaly():
        assert len(f.apply(x * 1.0).sum().backward()) == 0


def test_none_beside_the_gradients_that_are_needed() -> None:
    """Several arguments, some of them untracked; in the decorator too."""
    backward: Any = lambda ctx, g: (g, None, None, g * 2.0)  # noqa: E731  # short
    for decorated in (backward, once_differentiable(lambda *args: backward(*args))):
        f = function(forward=lambda ctx, *xs: xs[0] + xs[3], backward=decorated)
        x, y, z = leaf([1.0]), leaf([1.0]), leaf([1.0])
        grads = f.apply(x.detach(), y, 3, z).backward()
        assert (y.grad(grads), grads[z].tolist(), len(grads)) == (None, [2.0], 1)


def test_trailing_nones_are_allowed() -> None:
    f = function(forward=lambda ctx, x, scale=2.0: x * scale, backward=lambda ctx, g: (g * 2.0, None))
    x = leaf(1.0)
    assert f.apply(x).backward()[x].item() == 2.0
    assert f.apply(x, 2.0).backward()[x].item() == 2.0
    assert f.apply(x, scale=2.0).backward()[x].item() == 2.0
    assert Mixed.apply(x, y=x, scale=3.0)[0].backward()[x].item() == 6.0


@pytest.mark.parametrize("materialize", [True, False])
def test_gradients_that_are_not_there(materialize: bool) -> None:
    seen: list[Any] = []

    def forward(ctx: Context, x: Any) -> Any:
        ctx.set_materialize_grads(materialize)
        third = x * 3.0
        ctx.mark_non_differentiable(third)
        return x * 1.0, (x * 2.0).sum(), third

    def backward(ctx: Context, *grads: Any) -> Any:
        seen.append([None if g is None else g.tolist() for g in grads])
        return grads[0] if grads[0] is not None else None

    f = function(forward=forward, backward=backward)
    x = leaf([1.0, 2.0])
    first, second, third = f.apply(x)
    assert (first.is_require_grad(), second.is_require_grad(), third.is_require_grad()) == (True, True, False)
    assert first.sum().backward(retain_graph=True)[x].tolist() == [1.0, 1.0]
    found = x.grad(second.backward())
    assert (found.tolist() if found is not None else None) == ([0.0, 0.0] if materialize else None)
    none: list[Any] = [[0.0, 0.0], 0.0] if materialize else [None, None]
    assert seen == [[[1.0, 1.0], none[1], none[0]], [none[0], 1.0, none[0]]]


def test_results_without_a_gradient_are_not_tracked() -> None:
    def forward(ctx: Context, x: Any) -> Any:
        y = x * 2.0
        ctx.mark_non_differentiable(y)
        return y

    x = leaf([1.0])
    assert not function(forward=forward).apply(x).is_require_grad()
    floor = function(forward=lambda ctx, x: x.int()).apply(x)
    assert isinstance(floor, IntTensor)


def test_results_that_are_arguments() -> None:
    f = function(forward=lambda ctx, x: x, backward=lambda ctx, g: -g)
    x = leaf([1.0, 2.0], Twice)
    y = f.apply(x)
    assert y is not x
    assert (y * y).sum().backward()[x].tolist() == [-2.0, -4.0]
    both = function(forward=lambda ctx, x: (x, x), backward=lambda ctx, g, h: g + h * 10.0)
    one, two = both.apply(x)
    assert (one.sum() + two.sum()).backward()[x].tolist() == [11.0, 11.0]


class Pair(NamedTuple):
    low: Tensor[Any]
    high: Tensor[Any]


def test_results_keep_their_form() -> None:
    f = function(forward=lambda ctx, x: Pair(x * 1.0, x * 2.0), backward=lambda ctx, a, b: a + b * 2.0)
    found = f.apply(leaf(1.0))
    assert isinstance(found, Pair)
    assert found.high.item() == 2.0
    assert isinstance(function(forward=lambda ctx, x: (x,)).apply(leaf(1.0)), tuple)
    assert f.apply(plain(1.0)).low.device is NumPy()


def test_without_tensors_forward_just_runs() -> None:
    f = function(forward=lambda ctx, n: Tensor[NumPy].zeros((n,)))
    assert f.apply(3).shape == (3,)


def test_types() -> None:
    x: Tensor[Autodiff[NumPy]] = leaf([1.0])
    assert_type(Exp.apply(x), Tensor[Autodiff[NumPy]])
    assert_type(Exp.apply(x.inner()), Tensor[NumPy])
    assert_type(Sorted.apply(x), tuple[Tensor[Autodiff[NumPy]], IntTensor[Autodiff[NumPy]]])


def test_modes_and_detach() -> None:
    x = leaf(2.0)
    with no_grad():
        assert not Cube.apply(x).is_require_grad()
    assert not Cube.apply(x.detach()).is_require_grad()
    assert Cube.apply(x).grad_fn.name == "Cube"  # type: ignore[union-attr]  # tracked
    nested = leaf(2.0, Twice)
    inner_only = Cube.apply(Tensor.from_inner(nested.inner()))
    assert inner_only.inner().backward()[nested.inner()].item() == 12.0


def test_observers_see_the_nodes_and_what_they_keep() -> None:
    seen: list[Any] = []
    x, y = leaf([1.0]), leaf([2.0])
    with observing(lambda device, node: seen.append((device, node))):
        Exp.apply(x)
        one = len(seen)
        Mixed.apply(x, 2.0, y)
    assert one == 1
    assert {node.operation for _, node in seen} == {"Exp", "Mixed"}
    assert all(device is TRAIN for device, _ in seen)
    kept = [value for _, node in seen for value in node.saved0 if isinstance(value, np.ndarray)]
    assert sorted(a.tolist()[0] for a in kept) == [1.0, 2.0, pytest.approx(np.e)]


def test_grad_walks_to_one_argument() -> None:
    x, y = leaf(1.0), leaf(2.0)
    product, _, total = Mixed.apply(x, 3.0, y)
    assert [g.item() for g in grad([product, total], y)] == [4.0]
    hidden = x * 1.0
    assert grad(Exp.apply(hidden), hidden)[0].item() == pytest.approx(np.e)


def test_forward_mode() -> None:
    x, t = plain([1.0, 2.0]), plain([1.0, 0.0])
    primal, tangent = unpack_dual(Cube.apply(make_dual(x, t)))
    assert (primal.tolist(), tangent.tolist()) == ([1.0, 8.0], [3.0, 0.0])  # type: ignore[union-attr]  # there
    assert unpack_dual(Cube.apply(Tensor.from_data([1.0], device=Forward(NumPy())))).tangent is None
    values, index = Sorted.apply(make_dual(plain([2.0, 1.0]), t))
    assert unpack_dual(values).tangent.tolist() == [0.0, 1.0]  # type: ignore[union-attr]  # there
    assert index.tolist() == [1, 0]


def test_tangents_that_are_not_there() -> None:
    seen: list[Any] = []

    def make(materialize: bool) -> Any:
        def forward(ctx: Context, x: Any, y: Any, n: int) -> Any:
            ctx.set_materialize_grads(materialize)
            return x + y, x * 2.0

        def jvp(ctx: Context, *tangents: Any) -> Any:
            seen.append(tuple(None if t is None else t.tolist() for t in tangents))
            return tangents[0], None

        return function(forward=forward, jvp=jvp)

    dual, constant = make_dual(plain(1.0), plain(5.0)), Tensor.from_data(1.0, dtype="float64", device=Forward(NumPy()))
    first, second = make(True).apply(dual, constant, 1)
    make(False).apply(dual, constant, 1)
    assert seen == [(5.0, 0.0, None), (5.0, None, None)]
    assert unpack_dual(first).tangent.item() == 5.0  # type: ignore[union-attr]  # there
    assert unpack_dual(second).tangent is None


def test_both_modes_together() -> None:
    x = plain(0.5)
    over = make_dual(x, plain(1.0))  # forward over reverse
    y = Tensor.from_inner(over).require_grad()
    gradient = y.grad(Cube.apply(y).backward())
    assert unpack_dual(gradient).tangent.item() == 3.0  # type: ignore[arg-type, union-attr]  # there
    z = leaf(0.5)  # reverse over forward
    tangent = unpack_dual(Exp.apply(make_dual(z, Tensor[Train].from_data(1.0, dtype="float64")))).tangent
    assert tangent is not None
    assert tangent.backward()[z].item() == pytest.approx(np.exp(0.5))


class Once(Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor[B], y: Tensor[B]) -> Tensor[B]:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor[B]) -> Any:
        x, y = ctx.saved_tensors
        assert [grad.device, x.device] == [NumPy(), NumPy()]
        assert ctx.needs_input_grad == (True, False)
        return Tensor.from_data(grad.to_numpy() * y.to_numpy(), device=grad.device), None

    @staticmethod
    def jvp(ctx: Context, tx: Tensor[B], ty: Tensor[B]) -> Tensor[B]:
        x, y = ctx.saved_tensors
        return tx * y + ty * x


def test_a_tensor_kept_as_an_attribute_is_named() -> None:
    class Kept(Function):
        @staticmethod
        def forward(ctx: Context, x: Tensor[B]) -> Tensor[B]:
            ctx.square = x * x
            return x * x * x

        @staticmethod
        def backward(ctx: Context, grad: Tensor[B]) -> Any:
            return grad * ctx.square * 3.0

    x = leaf([2.0])
    assert Kept.apply(x).backward()[x].tolist() == [12.0]  # one level has one device
    with pytest.raises(
        errors.DeviceError, match=r"Autodiff\[NumPy\] .*; ctx\.square stays .* ctx\.save_for_backward\(\)"
    ):
        Kept.apply(leaf([2.0], Twice)).backward()


def test_once_differentiable() -> None:
    x = leaf([2.0])
    y = Tensor[Train].from_data([3.0], dtype="float64")
    assert Once.apply(x, y).backward()[x].tolist() == [3.0]
    twice = leaf([2.0], Twice)
    z = Tensor.from_data([3.0], dtype="float64", device=Twice)
    first = Once.apply(twice, z).backward()[twice]
    assert first.tolist() == [3.0]
    assert first.is_require_grad()
    with pytest.raises(errors.GraphError, match=r"Once\.backward\(\) is once_differentiable"):
        first.backward()
    dual = Tensor.from_inner(make_dual(plain([2.0]), plain([1.0]))).require_grad()
    with pytest.raises(errors.GraphError, match=r"Once\.backward\(\) is once_differentiable"):
        Once.apply(dual, Tensor.from_data([3.0], dtype="float64", device=dual.device)).backward()


def test_once_differentiable_in_either_order_of_decorators() -> None:
    class Outside(Once):
        @once_differentiable
        @staticmethod
        def backward(ctx: Context, grad: Tensor[B]) -> Any:
            return grad * ctx.saved_tensors[1], None

    x = leaf([2.0], Twice)
    first = Outside.apply(x, x.detach()).backward()[x]
    assert first.tolist() == [2.0]
    with pytest.raises(errors.GraphError, match=r"Outside\.backward\(\) is once_differentiable"):
        first.backward()
    decorator: Any = once_differentiable
    with pytest.raises(errors.KindError, match=r"once_differentiable decorates a backward\(\) of a Function, not 3"):
        decorator(3)


# Errors: what the user did, and what the message says.

X = leaf([1.0, 2.0])
WRONG_GRADIENTS: list[tuple[str, Callable[..., Any], type[Exception], str]] = [
    ("too few", lambda g: g, errors.ArgumentError, r"F\.backward\(\) returned 1 gradient, expected 2"),
    ("too many", lambda g: (g, None, g), errors.ArgumentError, r"returned 3 gradients, expected 2"),
    ("shape", lambda g: (g.sum(), None), errors.ShapeError, r"of shape \(\), where shape \(2,\) .* one element"),
    ("large", lambda g: (g[:, None] * g, None), errors.ShapeError, r"shape \(2, 2\), where shape \(2,\) .* sum what"),
    ("dtype", lambda g: (g.to_dtype("float32"), None), errors.DTypeError, r"gradient 0 .*float32, where float64"),
    ("an int tensor", lambda g: (g.int(), None), errors.KindError, r"gradient 0 an IntTensor, where a Tensor"),
    ("an array", lambda g: (g.to_numpy(), None), errors.KindError, r"ndarray .*where a Tensor of shape \(2,\)"),
    ("a number", lambda g: (1.0, None), errors.KindError, r"gradient 0 float 1\.0, where a Tensor"),
    ("a list", lambda g: ([g], None), errors.KindError, r"gradient 0 list"),
    ("all in a list", lambda g: [g, None], errors.KindError, r"F\.backward\(\) returned a list, expected a tuple of 2"),
    ("a level too high", lambda g: (Tensor.from_inner(g), None), errors.DeviceError, r"use \.inner\(\)"),
    ("for a number", lambda g: (g, g), errors.KindError, r"1 for a value that is not a tensor; expected None"),
]  # fmt: skip


@every_row("what, backward, error, message", WRONG_GRADIENTS, ids=[r[0] for r in WRONG_GRADIENTS])
def test_wrong_gradients(what: str, backward: Any, error: type[Exception], message: str) -> None:
    f = function(forward=lambda ctx, x, n: x * n, backward=lambda ctx, g: backward(g))
    with pytest.raises(error, match=message):
        f.apply(X, 2.0).sum().backward()


def test_a_gradient_for_an_int_tensor() -> None:
    f = function(forward=lambda ctx, x, i: x * 2.0, backward=lambda ctx, g: (g, g))
    with pytest.raises(errors.KindError, match=r"gradient 1 for a value that is an IntTensor; expected None"):
        f.apply(X, IntTensor[Train].from_data([1, 2])).sum().backward()


def marked(ctx: Context, x: Tensor[B]) -> Tensor[B]:
    y = x * 1.0
    ctx.mark_non_differentiable(y)
    return y


WRONG_TANGENTS: list[tuple[str, Callable[..., Any], type[Exception], str]] = [
    ("too few", lambda t: t, errors.ArgumentError, r"F\.jvp\(\) returned 1 tangent, expected 2"),
    ("shape", lambda t: (t.sum(), None), errors.ShapeError, r"returned as tangent 0 .*\(\), where shape \(2,\)"),
    ("for an int result", lambda t: (t, t), errors.KindError, r"tangent 1 for a value that is an IntTensor"),
    ("for a marked result", lambda t: (t, t), errors.KindError, r"tangent 1 for a value that is marked as non-diff"),
    ("a number", lambda t: (0.0, None), errors.KindError, r"tangent 0 float 0\.0"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "jvp", "error", "message"), WRONG_TANGENTS, ids=[r[0] for r in WRONG_TANGENTS])
def test_wrong_tangents(what: str, jvp: Any, error: type[Exception], message: str) -> None:
    f = function(forward=lambda ctx, x: (x * 2.0, x.int()), jvp=lambda ctx, t: jvp(t))
    if what == "for a marked result":
        f = function(forward=lambda ctx, x: (x * 2.0, marked(ctx, x)), jvp=lambda ctx, t: jvp(t))
    with pytest.raises(error, match=message):
        f.apply(make_dual(plain([1.0, 2.0]), plain([1.0, 2.0])))


WRONG_FORWARDS: list[tuple[str, Callable[..., Any], type[Exception], str]] = [
    ("an array", lambda ctx, x: x.to_numpy(), errors.KindError, r"F\.forward\(\) returned ndarray .* as result 0"),
    ("nothing", lambda ctx, x: None, errors.KindError, r"returned NoneType None as result 0"),
    ("a list", lambda ctx, x: [x], errors.KindError, r"returned list"),
    ("an empty tuple", lambda ctx, x: (), errors.KindError, r"empty tuple"),
    ("one of another device", lambda ctx, x: (x, X), errors.DeviceError, r"result 1 on Autodiff\[NumPy\]"),
    ("saving a number", lambda ctx, x: ctx.save_for_backward(x, 3.0), errors.KindError, "1 is 3.0.*ctx.scale = 3"),
    ("saving from elsewhere", lambda ctx, x: ctx.save_for_backward(X), errors.DeviceError, "computes on NumPy"),
    ("saving twice", lambda c, x: (c.save_for_backward(), c.save_for_backward()), errors.ArgumentError, "one call"),
    ("reading what was saved", lambda ctx, x: ctx.saved_tensors, errors.GraphError, r"for backward\(\) and jvp\(\)"),
    ("marking another", lambda c, x: (c.mark_non_differentiable(x * 1.0), x)[1], errors.ArgumentError, "not a result"),
    ("changing in place", lambda ctx, x: ctx.mark_dirty(x), errors.ImmutableError, "return a new tensor"),
    ("assigning", lambda ctx, x: x.__setitem__(0, 1.0), errors.ImmutableError, r"\.at\["),
    ("an attribute that is not there", lambda ctx, x: ctx.scale, AttributeError, "ctx of F has no attribute scale"),
]  # fmt: skip


@every_row("what, forward, error, message", WRONG_FORWARDS, ids=[r[0] for r in WRONG_FORWARDS])
def test_wrong_forwards(what: str, forward: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        function(forward=forward).apply(X)


def test_wrong_calls() -> None:
    y = leaf([1.0, 2.0], Twice)
    with pytest.raises(errors.DeviceError, match=r"Mixed\.apply\(\)"):
        Mixed.apply(X, 1.0, y)
    with pytest.raises(errors.KindError, match=r"Exp\.apply\(\) got tensors inside of a list, as argument 0"):
        Exp.apply([X])  # type: ignore[arg-type]  # which is the point
    with pytest.raises(errors.KindError, match=r"inside of a dict"):
        function(forward=lambda ctx, d: d["x"][0]).apply({"x": (X,)})
    with pytest.raises(errors.KindError, match=r"call Exp\.apply"):
        Exp(X)
    with pytest.raises(errors.ArgumentError, match=r"Exp\.apply\(\) was called with arguments that it does not take"):
        Exp.apply(X, y=2)  # type: ignore[call-arg]  # which is the point
    with pytest.raises(errors.ArgumentError, match="keyword-only"):
        function(forward=lambda ctx, x, *, y: x).apply(X, y=2)
    with pytest.raises(errors.KindError, match=r"Bad\.backward must be a @staticmethod"):
        type("Bad", (Function,), {"forward": staticmethod(lambda ctx, x: x), "backward": lambda ctx, g: g})
    empty: Any = types.new_class("Empty", (Function,))
    with pytest.raises(errors.KindError, match=r"Empty\.apply\(\) was called, and Empty defines no forward\(\); write"):
        empty.apply(X)
    for method, instead in (
        ("setup_context", r"let forward\(ctx, \*args\) take ctx"),
        ("vjp", r"name it backward\(\)"),
    ):
        with pytest.raises(errors.KindError, match=rf"Old\.{method}\(\) would never be called; {instead}"):
            type("Old", (Function,), {method: staticmethod(lambda ctx, grad: grad)})


SIGNATURES: list[tuple[str, dict[str, Any], str]] = [
    (
        "forward without ctx",
        {"forward": lambda x: x},
        r"F\.forward\(\) takes \(x\) and was called with 2 arguments .*ctx",
    ),
    (
        "forward of two",
        {"forward": lambda ctx, x, y: x},
        r"F\.forward\(\) takes \(ctx, x, y\) and .* argument: 'y'\); let",
    ),
    (
        "backward without ctx",
        {"backward": lambda g: g},
        r"F\.backward\(\) takes \(g\) .*; let it take ctx, and then the grad",
    ),
    (
        "backward of two",
        {"backward": lambda ctx, g, h: g},
        r"F\.backward\(\) takes \(ctx, g, h\) and was called with 2",
    ),
    ("jvp of none", {"jvp": lambda ctx: ctx}, r"F\.jvp\(\) takes \(ctx\) .*; let it take ctx, and then the tangent of"),
]


@pytest.mark.parametrize(("what", "methods", "message"), SIGNATURES, ids=[row[0] for row in SIGNATURES])
def test_wrong_signatures(what: str, methods: dict[str, Any], message: str) -> None:
    f = function(**{"forward": lambda ctx, x: x * 2.0, "backward": lambda ctx, g: g, **methods})
    with pytest.raises(errors.ArgumentError, match=message):
        f.apply(make_dual(plain(1.0), plain(1.0))) if "jvp" in methods else f.apply(X).sum().backward()


def test_a_type_error_of_the_users_own_is_left_alone() -> None:
    def other(x: Any) -> Any:
        return x

    def raising(ctx: Context, x: Any) -> Any:
        return other(x, 2)  # type: ignore[call-arg]  # which is the point

    with pytest.raises(TypeError, match=r"other\(\) takes 1 positional argument") as caught:
        function(forward=raising).apply(X)
    assert type(caught.value) is TypeError


def test_missing_rules() -> None:
    class Bare(Function):
        @staticmethod
        def forward(ctx: Context, x: Tensor[B]) -> Tensor[B]:
            return x * 2.0

    assert Bare.apply(X.detach()).tolist() == [2.0, 4.0]
    with pytest.raises(errors.NotTrackedError, match=r"Bare defines no backward\(\)"):
        Bare.apply(X)
    with pytest.raises(errors.NotTrackedError, match=r"Bare has no jvp\(\); define jvp\(ctx, \*tangents\)"):
        Bare.apply(make_dual(plain(1.0), plain(1.0)))


def test_ctx_is_freed() -> None:
    kept: list[Context] = []

    def forward(ctx: Context, x: Any) -> Any:
        kept.append(ctx)
        ctx.save_for_backward(x)
        return x * 2.0

    def backward(ctx: Context, g: Any) -> Any:
        kept.append(ctx)
        with pytest.raises(errors.GraphError, match=r"save_for_backward\(\) of F is for forward\(\)"):
            ctx.save_for_backward(g)
        with pytest.raises(errors.GraphError, match=r"set_materialize_grads\(\) of F is for forward\(\)"):
            ctx.set_materialize_grads(False)
        assert len(ctx.saved_tensors) == 1
        return g * 2.0

    function(forward=forward, backward=backward).apply(X).sum().backward()
    assert len(kept) == 2
    for ctx in kept:
        with pytest.raises(errors.GraphError, match=r"ctx\.saved_tensors of F was used when the call was over"):
            ctx.saved_tensors
        with pytest.raises(errors.GraphError, match="when the call was over"):
            ctx.save_for_backward(X)


def test_an_error_in_backward_is_the_users_own() -> None:
    def backward(ctx: Context, g: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        function(backward=backward).apply(X).sum().backward()


@pytest.mark.usefixtures("no_collector")
def test_nothing_is_alive_after_backward_or_when_dropped() -> None:
    def run(backward: bool) -> list[weakref.ref[Any]]:
        x, y = leaf([1.0]), leaf([2.0])
        hidden = x * 1.0
        one = Exp.apply(hidden)
        two, three, _ = Mixed.apply(one, 2.0, y)
        refs: list[weakref.ref[Any]] = [weakref.ref(t._primitive.node) for t in (hidden, one, two, three)]
        refs += [weakref.ref(t._primitive.value) for t in (hidden, one)]
        loss = (two + three).sum()
        if backward:
            del hidden, one
            loss.backward()
            assert refs[-1]() is None, "backward() left a saved array alive"
        return refs

    for backward in (False, True):
        assert all(ref() is None for ref in run(backward))


@pytest.mark.usefixtures("no_collector")
def test_nothing_is_alive_after_nested_passes() -> None:
    x, y = leaf([1.0], Twice), leaf([2.0], Twice)
    product, _, _ = Mixed.apply(Exp.apply(x), 2.0, y)
    first = product.backward(retain_graph=True)[x]
    refs = [weakref.ref(product._primitive.node), weakref.ref(first._primitive.node)]
    first.backward()
    del product, first
    assert all(ref() is None for ref in refs)


def test_in_the_derivatives_of_func() -> None:
    x, y = plain([0.3, 0.5]), plain([1.2, 0.7])
    assert func.hessian(lambda x: Cube.apply(x).sum())(x).to_numpy() == pytest.approx(np.diag([1.8, 3.0]))
    mixed = func.grad(lambda x: (func.grad(lambda y: Mixed.apply(x, 2.0, y)[0].sum())(y) * x).sum())(x)
    assert mixed.to_numpy() == pytest.approx(4 * x.to_numpy())
    assert func.jvp(Cube.apply, (x,), (y,))[1].to_numpy() == pytest.approx((x * x * y * 3.0).to_numpy())
    with_plain = func.grad(lambda x: Mixed.apply(x, 2.0, y)[0].sum())(x)
    assert with_plain.to_numpy() == pytest.approx(2 * y.to_numpy()), "a plain tensor is lifted to the level"
    escaped: list[Any] = []

    def leaking(x: Tensor[B]) -> Tensor[B]:
        escaped.append(x)
        return x.sum()

    func.grad(leaking)(x)
    with pytest.raises(errors.EscapedError, match="has returned"):
        Exp.apply(escaped[0])
    with pytest.raises(errors.EscapedError, match="has returned"):
        escaped[0].register_hook(lambda g: None)


def test_a_second_pass_is_refused_unless_retained() -> None:
    x = leaf(1.0)
    product, sine, _ = Mixed.apply(x, 2.0, x)
    product.backward(retain_graph=True)
    product.backward()
    with pytest.raises(errors.GraphError, match="retain_graph"):
        sine.backward()


def test_threads() -> None:
    x = leaf([1.0, 2.0])
    shared = Mixed.apply(x, 2.0, Exp.apply(x))[0].sum()
    want = shared.backward(retain_graph=True)[x].tolist()
    found: list[Any] = []

    def work() -> None:
        for _ in range(20):
            found.append(shared.backward(retain_graph=True)[x].tolist())
            found.append(Mixed.apply(x, 2.0, Exp.apply(x))[0].sum().backward()[x].tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [want] * 160


def test_many_arguments_and_results() -> None:
    def forward(ctx: Context, *xs: Any) -> Any:
        return tuple(x * 2.0 for x in xs)

    f = function(forward=forward, backward=lambda ctx, *gs: tuple(g * 2.0 for g in gs))
    xs = [leaf([float(k)]) for k in range(50)]
    outs = f.apply(*xs)
    grads = sum((out * float(k) for k, out in enumerate(outs)), start=outs[0] * 0.0).sum().backward()
    assert [grads[x].item() for x in xs] == [2.0 * k for k in range(50)]
