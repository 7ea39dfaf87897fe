"""Steps of tensors and trees of tensors, and averages of models."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, KindError, ModuleError, StateError
from burnpy.func import grad
from burnpy.nn import BatchNorm, Linear
from burnpy.optim import Adam, Ema, Group, Sgd

Train = Autodiff[NumPy]
X = np.array([[1.0, -2.0], [0.5, 3.0]])


class Line(NamedTuple):
    """A tree of a class of its own."""

    slope: Any
    rest: list[Any]


def leaf(*values: float, device: Any = Train) -> Any:
    return Tensor.from_data(list(values), dtype="float64", device=device).require_grad()


def loss(tree: Any) -> Any:
    return (tree["h"] - 2.0).square().sum() + (tree["line"].slope * tree["line"].rest[0]).sum()


def made(device: Any) -> Any:
    return {"h": leaf(0.0, 1.0, device=device), "line": Line(leaf(3.0, device=device), [leaf(1.0, device=device)])}


def test_a_tree_is_stepped_like_the_parameters_of_a_model() -> None:
    tree, optim = made(Train), Adam()
    plain, other = made(NumPy), Adam()
    for _ in range(4):
        tree = optim.step(0.1, tree, loss(tree).backward())
        plain = other.step(0.1, plain, grad(loss)(plain))
    assert isinstance(tree["line"], Line)
    assert isinstance(tree["line"].rest, list)
    assert tree["h"].is_require_grad()
    model, third = Linear(2, 1, bias=False, device=Train).astype("float64"), Adam()
    model = model.map(lambda w: w * 0.0 + Tensor[Train].from_data([[0.0], [1.0]]))
    for _ in range(4):
        model = third.step(0.1, model, (model.weight.value - 2.0).square().sum().backward())
    for found in (tree["h"], plain["h"]):
        np.testing.assert_allclose(found.to_numpy(), model.weight.value.to_numpy()[:, 0], rtol=1e-12)
    np.testing.assert_allclose(tree["line"].slope.to_numpy(), plain["line"].slope.to_numpy(), rtol=1e-12)
    assert optim.state()["line.rest.0"].step == 4


def test_one_tensor_and_lists_are_trees_too() -> None:
    x = leaf(1.0)
    assert Sgd().step(0.5, x, (x * 3.0).sum().backward()).tolist() == [-0.5]
    y = leaf(2.0)
    stepped = Sgd().step(0.5, [x, y], (y * 2.0).sum().backward())
    assert stepped[0] is x
    assert stepped[1].tolist() == [1.0]
    pair = {"h": leaf(1.0), "g": leaf(1.0)}
    decayed = Sgd(groups=[Group("h", weight_decay=0.5)]).step(0.5, pair, {"h": x.inner() * 0.0, "g": x.inner() * 0.0})
    assert (decayed["h"].item(), decayed["g"].item()) == (0.75, 1.0)


def test_what_is_no_tree_of_tensors_is_refused() -> None:
    x, optim = leaf(1.0), Sgd()
    wrong: list[tuple[Any, Any, type[Exception], str]] = [
        ({"h": IntTensor[Train].ones((2,))}, {}, KindError, r"Sgd\.step\(\) got a tree with an IntTensor at 'h'"),
        ({}, {}, ArgumentError, "a tree without tensors"),
        ({"h": x}, {"g": x}, ArgumentError, r"tensors \['h'\] and gradients \['g'\]"),
        ({"h": x}, 3, KindError, "got an int"),
    ]
    for tree, grads, error, message in wrong:
        with pytest.raises(error, match=message):
            optim.step(0.1, tree, grads)
    grads = x.square().sum().backward()
    optim.step(0.1, x, grads)
    with pytest.raises(StateError):
        optim.step(0.1, x, grads)


def test_an_average_is_that_of_all_models() -> None:
    model: Any = Linear(2, 1, device=Train).astype("float64")
    ema, optim = Ema(model, decay=0.6), Sgd()
    wanted = {path: p.value.to_numpy() for path, p in model.named_params().items()}
    first = ema
    for _ in range(3):
        model = optim.step(0.1, model, model(Tensor[Train].from_data(X)).square().sum().backward())
        ema = ema.update(model)
        for path, p in model.named_params().items():
            wanted[path] = 0.6 * wanted[path] + 0.4 * p.value.to_numpy()
    for path, p in ema.model.named_params().items():
        np.testing.assert_allclose(p.value.to_numpy(), wanted[path], rtol=1e-12)
        assert p.id == model.named_params()[path].id
        assert p.value.grad_fn is None
    assert (first.updates, ema.updates) == (0, 3)
    assert ema.model.valid()(Tensor[NumPy].from_data(X)).shape == (2, 1)


@pytest.mark.parametrize("decay", [0.0, 1.0])
def test_an_average_that_is_one_of_two_models_has_its_very_weights(decay: float) -> None:
    first = Linear(3, 4, device=Train)
    second = first.map(lambda w: w * 1e3 + 7.0)
    average, expected = Ema(first, decay=decay).update(second).model, second if decay == 0.0 else first
    for p, q in zip(average.params(), expected.params(), strict=True):
        assert p.value.to_numpy().tobytes() == q.value.to_numpy().tobytes()


def test_buffers_of_an_average_are_the_latest_and_it_may_begin_with_less() -> None:
    norm: Any = BatchNorm(2, device=Train)
    ema = Ema(norm, warm_up=True)
    new = norm.map(lambda w: w + 1.0).replace(running_mean=norm.map(lambda w: w).running_mean)
    after = ema.update(new)
    decay = 2 / 11
    np.testing.assert_allclose(after.model.weight.value.to_numpy(), 1.0 + (1 - decay), rtol=1e-6)
    with pytest.raises(ModuleError, match="whose parameters are not those of the average"):
        ema.update(BatchNorm(2, device=Train))
    for settings, message in (
        ({"decay": 1.5}, "decay=1.5; expected a number from 0 to 1"),
        ({"updates": -1}, r"Ema\(updates=\) is -1; expected an int of 0 or more"),
        ({"updates": "3"}, r"Ema\(updates=\) is '3'; expected an int"),
    ):
        with pytest.raises(ArgumentError, match=message):
            Ema(norm, **settings)
    wrong: Any = 3
    with pytest.raises(KindError, match="got an int"):
        Ema(wrong)
