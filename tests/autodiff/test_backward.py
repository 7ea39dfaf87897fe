"""`backward` and `grad`: what they compute, what they consume, and the errors for misuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.autodiff import Forward, detect_anomaly, make_dual
from burnpy.autodiff.tools import backward as functions
from burnpy.backend import NumPy, errors
from tests.rows import every_row

Train = Autodiff[NumPy]
backward: Any = functions.backward  # whose misuse type checkers would find
grad: Any = functions.grad


def plain(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


def leaf(data: Any, device: Any = Train) -> Any:
    return Tensor.from_data(data, dtype="float64", device=device).require_grad()


X, W, V = leaf([1.0, 2.0]), leaf([3.0, 4.0]), plain([0.5, -1.0])


def test_backward_of_several() -> None:
    y = X * W
    found = backward([y, X.sum(), W], [V, None, V])
    assert found[X].tolist() == [0.5 * 3 + 1, -4 + 1]
    assert found[W].tolist() == [0.5 + 0.5, -2 - 1]
    only = backward((X * W).sum(), inputs=X)
    assert [x in only for x in (X, W)] == [True, False]
    assert len(backward((X * 1.0).sum(), inputs=[W])) == 0


def test_grad_of_outputs_twice_the_same_and_the_same_tensor() -> None:
    y = X * W
    of_itself, dx, again = grad(y, [y, X, X], V)
    assert of_itself.tolist() == V.tolist()
    assert dx.tolist() == again.tolist() == [1.5, -4.0]
    (through,) = grad([X, (X * X).sum()], X, [V, None])
    assert through.tolist() == [2.5, 3.0]


def test_only_the_paths_between_are_consumed() -> None:
    hidden = X * 2.0
    one, other = (hidden * W).sum(), hidden.exp().sum()
    assert grad(one, hidden)[0].tolist() == [3.0, 4.0]
    with pytest.raises(errors.GraphError, match=r"backward\(\) or grad\(\) would walk .* retain_graph=True"):
        grad(one, hidden)
    assert other.backward()[X].to_numpy() == pytest.approx(2 * np.exp([2.0, 4.0]))


@pytest.mark.parametrize("watched", [False, True])
def test_unused_inputs_are_named_before_anything_is_consumed(watched: bool) -> None:
    far, further = leaf([1.0, 2.0, 3.0]), leaf(0.0)
    y = X * W
    with detect_anomaly() if watched else pytest.MonkeyPatch.context():
        with pytest.raises(
            errors.ArgumentError, match=r"input 1, of shape \(3,\) and 3, of shape \(\), on .*allow_unused"
        ):
            grad(y, [X, far, y, further], V)
        unused = [X, W, far]
        assert grad(y, unused, V, retain_graph=True, allow_unused=True)[2] is None
        assert grad(y, unused, V, materialize_grads=True)[2].tolist() == [0.0, 0.0, 0.0]


Mistake = tuple[str, Callable[[], Any], type[Exception], str]
MISTAKES: list[Mistake] = [
    ("backward of nothing", lambda: backward([]), errors.KindError, r"backward\(tensors=…\) takes a float"),
    ("of a number", lambda: backward(3), errors.KindError, r"backward\(tensors=…\) takes .*, got 3"),
    ("of an int tensor", lambda: grad(IntTensor[Train].from_data(1), X), errors.KindError, "got an IntTensor"),
    ("inputs of nothing", lambda: grad(X.sum(), []), errors.KindError, r"grad\(inputs=…\) takes"),
    ("inputs by name", lambda: grad(X.sum(), {"x": X}), errors.KindError, r"grad\(inputs=…\) takes .*, got \{'x'"),
    ("a plain input", lambda: grad(X.sum(), V), errors.NotTrackedError, r"grad\(\) got a Tensor .* on NumPy"),
    ("an untracked input", lambda: grad(X.sum(), X.detach()), errors.NotTrackedError, "input 0, .* is not tracked"),
    ("inputs that are no leaves", lambda: backward(X.sum(), inputs=X * 1.0), errors.NotTrackedError, "is not a leaf"),
    ("levels mixed", lambda: grad(leaf(1.0, Autodiff[Train]), X), errors.DeviceError, r"got tensors on"),
    ("no gradient", lambda: grad(X * 1.0, X), errors.ShapeError, r"as with \.sum\(\), .* as grad_outputs="),
    ("no gradients", lambda: backward([X * 1.0]), errors.ShapeError, r"as with \.sum\(\), .* as gradients="),
    ("their number", lambda: grad(X, X, [V, V]), errors.ArgumentError, "1 tensor, but 2 in grad_outputs"),
    ("their shape", lambda: grad(X, X, plain([1.0])), errors.ShapeError, r"\(1,\).*the tensor's shape \(2,\)"),
    ("a number", lambda: backward(X, 1.0), errors.KindError, r"a Tensor on NumPy as gradients, not from 1\.0"),
    ("an array", lambda: backward(X, np.ones(2)), errors.KindError, "as gradients, not from an ndarray"),
    ("a tracked one", lambda: grad(X, X, X), errors.DeviceError, r"gradients live one level below"),
    ("of a dual", lambda: backward(make_dual(V, V)), errors.NotTrackedError, "carries tangents along.*unpack_dual"),
    ("create_graph", lambda: grad(X, X, create_graph=True), TypeError, r"grad\(\) takes .* create_graph; to "),
    ("backward", lambda: backward(X, create_graph=True), TypeError, r"backward\(\) takes .* create_graph; to "),
    ("the method", lambda: X.backward(create_graph=True), TypeError, r"backward\(\) takes .* create_graph; to "),
    ("inputs", lambda: X.backward(inputs=[X]), TypeError, r"takes no argument inputs; burnpy\.autodiff\.backward"),
    ("by PyTorch's name", lambda: backward(X, grad_tensors=V), TypeError, "no argument grad_tensors; .* gradients"),
    ("batched", lambda: grad(X, X, is_grads_batched=True), TypeError, r"is_grads_batched; burnpy\.func\.jacobian"),
    ("anything", lambda: grad(X, X, wrong=True), TypeError, r"grad\(\) takes no argument wrong$"),
    ("x.grad of no gradients", lambda: X.grad(3), errors.KindError, r"x\.grad\(grads\) takes .*, got 3"),
    ("x.grad_remove", lambda: X.grad_remove(None), errors.KindError, r"x\.grad_remove\(grads\) takes the Gradients"),
]  # fmt: skip


@every_row("what, mistake, error, message", MISTAKES, ids=[row[0] for row in MISTAKES])
def test_mistakes(what: str, mistake: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mistake()


def test_a_tensor_on_forward_has_its_tangent() -> None:
    dual: Any = Tensor[Forward[NumPy]].ones(())
    with pytest.raises(errors.NotTrackedError, match="unpack_dual"):
        dual.backward()


@every_row(
    "name, instead",
    [
        ("requires_grad", r"x\.is_require_grad\(\)"),
        ("requires_grad_", r"x = x\.require_grad\(\)"),
        ("is_leaf", "grad_fn is None"),
        ("data", r"x\.inner\(\)"),
        ("detach_", r"x = x\.detach\(\)"),
        ("retains_grad", "retain_grad"),
        ("register_post_accumulate_grad_hook", "register_hook"),
    ],
)
def test_attributes_of_pytorchs_tensors(name: str, instead: str) -> None:
    for x in (X, V, IntTensor[NumPy].ones((2,))):
        assert not hasattr(x, name)
        with pytest.raises(AttributeError, match=rf"Tensor has no {name}; .*{instead}"):
            getattr(x, name)
        with pytest.raises(AttributeError, match=instead):
            setattr(x, name, True)
