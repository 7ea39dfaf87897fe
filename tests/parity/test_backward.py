"""`backward` and `grad` beside PyTorch's: roots, inputs, unused and duplicate ones, retained gradients, kinks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, Tensor
from burnpy.autodiff import backward, grad
from burnpy.backend import NumPy, errors
from tests.parity.closeness import assert_close

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

Train = Autodiff[NumPy]
Twice = Autodiff[Train]
rng = np.random.default_rng(0)
X, Y, Z = (rng.normal(size=(2, 3)) for _ in range(3))
V, W = (rng.normal(size=(2, 3)) for _ in range(2))


def leaves(*arrays: Any, device: Any = Train) -> tuple[list[Any], list[Any]]:
    """The same leaves in both libraries."""
    ours = [Tensor.from_data(a, dtype="float64", device=device).require_grad() for a in arrays]
    return ours, [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays]


def plain(*arrays: Any) -> tuple[list[Any], list[Any]]:
    return [Tensor[NumPy].from_data(a) for a in arrays], [torch.tensor(a) for a in arrays]


def test_several_roots_with_and_without_gradients() -> None:
    (x, y), (x_, y_) = leaves(X, Y)
    (v,), (v_,) = plain(V)
    grads = backward([x * y.sin(), (x.exp()).sum()], [v, None])
    torch.autograd.backward([x_ * y_.sin(), x_.exp().sum()], [v_, None])
    assert_close(grads[x], x_.grad)
    assert_close(grads[y], y_.grad)


def test_a_root_twice_and_a_root_under_another() -> None:
    (x,), (x_,) = leaves(X)
    y, y_ = (x * x).sum(), (x_ * x_).sum()
    grads = backward([y, y, y.sin()])
    torch.autograd.backward([y_, y_, y_.sin()])
    assert_close(grads[x], x_.grad)


def test_inputs_of_backward_leave_the_others_without() -> None:
    (x, y), (x_, y_) = leaves(X, Y)
    grads = backward((x * y).sum(), inputs=[x])
    torch.autograd.backward((x_ * y_).sum(), inputs=[x_])
    assert_close(grads[x], x_.grad)
    assert (y.grad(grads) is None) == (y_.grad is None) is True


def test_retained_graphs_and_accumulation() -> None:
    (x,), (x_,) = leaves(X)
    loss, loss_ = (x.tanh() ** 3).sum(), (x_.tanh() ** 3).sum()
    grads = loss.backward(retain_graph=True) + loss.backward()
    loss_.backward(retain_graph=True)
    loss_.backward()
    assert_close(grads[x], x_.grad)
    with pytest.raises(errors.GraphError):
        loss.backward()
    with pytest.raises(RuntimeError):
        loss_.backward()


def test_retain_grad() -> None:
    (x,), (x_,) = leaves(X)
    y, y_ = (x * 2.0).retain_grad(), x_ * 2.0
    y_.retain_grad()
    grads = (y * y).sum().backward()
    (y_ * y_).sum().backward()
    assert_close(grads[y], y_.grad)
    assert_close(grads[x], x_.grad)


def test_grad_by_duplicates_outputs_and_interior_tensors() -> None:
    (x, y), (x_, y_) = leaves(X, Y)
    z, z_ = x * y, x_ * y_
    out, out_ = (z.sin() * x).sum(), (z_.sin() * x_).sum()
    for g, g_ in zip(grad(out, [x, x, z, out, y]), torch.autograd.grad(out_, [x_, x_, z_, out_, y_]), strict=True):
        assert_close(g, g_)


def test_grad_by_inputs_that_depend_on_each_other() -> None:
    (x,), (x_,) = leaves(X)
    y, y_ = x.exp(), x_.exp()
    z, z_ = y * x, y_ * x_
    ours = grad((z * y).sum(), [y, x, z])
    for g, g_ in zip(ours, torch.autograd.grad((z_ * y_).sum(), [y_, x_, z_]), strict=True):
        assert_close(g, g_)


def test_unused_inputs() -> None:
    (x, y), (x_, y_) = leaves(X, Y)
    with pytest.raises(errors.ArgumentError, match="input 1"):
        grad(x.sum(), [x, y])
    with pytest.raises(RuntimeError):
        torch.autograd.grad(x_.sum(), [x_, y_])
    assert grad(x.sum(), [x, y], allow_unused=True)[1] is None
    assert torch.autograd.grad(x_.sum(), [x_, y_], allow_unused=True)[1] is None
    materialized = grad(x.sum(), [x, y], materialize_grads=True)
    for g, g_ in zip(materialized, torch.autograd.grad(x_.sum(), [x_, y_], materialize_grads=True), strict=True):
        assert_close(g, g_)


def test_several_outputs_with_gradients_to_start_from() -> None:
    (x, y), (x_, y_) = leaves(X, Y)
    (v, w), (v_, w_) = plain(V, W)
    ours = grad([x * y, x / (y * y + 1.0)], [x, y], [v, w])
    theirs = torch.autograd.grad([x_ * y_, x_ / (y_ * y_ + 1.0)], [x_, y_], [v_, w_])
    for g, g_ in zip(ours, theirs, strict=True):
        assert_close(g, g_)


def test_third_order() -> None:
    (x,), (x_,) = leaves(X, device=Autodiff[Twice])
    (first,) = grad((x.sin() * x.exp()).sum(), x)
    (second,) = grad((first * first).sum(), x.inner())
    (third,) = grad(second.sum(), x.inner().inner())
    (first_,) = torch.autograd.grad((x_.sin() * x_.exp()).sum(), x_, create_graph=True)
    (second_,) = torch.autograd.grad((first_ * first_).sum(), x_, create_graph=True)
    (third_,) = torch.autograd.grad(second_.sum(), x_)
    assert_close(first, first_)
    assert_close(second, second_)
    assert_close(third, third_)


def test_a_gradient_penalty() -> None:
    """The gradient of an input, in a loss that is differentiated with respect to the weights."""
    (x, w), (x_, w_) = leaves(X, Y, device=Twice)
    (slope,) = grad((x * w).tanh().sum(), x)
    penalty = (slope.square().sum(1).sqrt() - 1.0).square().mean()
    (slope_,) = torch.autograd.grad((x_ * w_).tanh().sum(), x_, create_graph=True)
    penalty_ = (slope_.square().sum(1).sqrt() - 1.0).square().mean()
    penalty_.backward()
    grads = penalty.backward()
    assert_close(penalty, penalty_)
    assert_close(grads[w.inner()], w_.grad)


def test_fan_out_and_aliasing() -> None:
    (x,), (x_,) = leaves(X)

    def run(x: Any) -> Any:
        total = x
        for _ in range(40):
            total = total + x * 0.5 + x.reshape(3, 2).reshape(2, 3)
        view = total[0]
        return (total.sum(0) * view).sum() + (view + view).sum()

    loss_ = run(x_)
    loss_.backward()
    loss = run(x)
    assert_close(loss, loss_)
    assert_close(loss.backward()[x], x_.grad)


KINKS = {
    "relu": lambda x: x.relu(),
    "abs": lambda x: x.abs(),
    "clamp": lambda x: x.clamp(0.0, 1.0),
    "maximum": lambda x: x.maximum(x.detach()) if hasattr(x, "to_numpy") else torch.maximum(x, x.detach()),
    "amax": lambda x: x.amax(1),
    "max": lambda x: x.max(),
    "max_of": lambda x: x.max(1).values,
    "prod": lambda x: x.prod(1),
    "power": lambda x: x**2,
}


@pytest.mark.parametrize("name", KINKS)
def test_where_the_derivative_does_not_exist(name: str) -> None:
    (x,), (x_,) = leaves([[0.0, 0.0, 1.0], [1.0, 1.0, -1.0]])
    out, out_ = KINKS[name](x), KINKS[name](x_)
    out_.sum().backward()
    assert_close(out.sum().backward()[x], x_.grad)


def test_promotion_gives_each_leaf_its_dtype() -> None:
    a, b = X.astype(np.float32), Y
    x, y = (Tensor[Train].from_data(v).require_grad() for v in (a, b))
    x_, y_ = (torch.tensor(v, requires_grad=True) for v in (a, b))
    grads = (x * y + x[:1]).sum().backward()
    (x_ * y_ + x_[:1]).sum().backward()
    np.testing.assert_allclose(grads[x].to_numpy(), x_.grad.numpy(), rtol=1e-6)
    assert grads[x].dtype == burnpy.float32
    assert_close(grads[y], y_.grad)
