"""Optimizers whose update of a parameter is no elementwise formula: Lamb, Adafactor and Muon."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, compiled
from burnpy.backend import NumPy, dtypes
from burnpy.errors import ArgumentError, ShapeError, StateError
from burnpy.nn import Linear, Sequential, Tanh
from burnpy.optim import Adafactor, AdamW, GradientsParams, Lamb, Muon, Optimizer, Step
from tests.optim.updates import STEPS
from tests.rows import every_row

Train = Autodiff[NumPy]
D: Any = NumPy.device()


def _lamb(optim: Any, step: Step, param: Any, grad: Any, mean: Any, square: Any) -> Any:
    (beta1, beta2), t = optim.betas, step.number
    grad = -grad if step.maximize else grad
    mean, square = beta1 * mean + (1 - beta1) * grad, beta2 * square + (1 - beta2) * grad**2
    change = mean / (1 - beta1**t) / (np.sqrt(square / (1 - beta2**t)) + optim.eps) + step.weight_decay * param
    lengths = np.sqrt((param**2).sum()), np.sqrt((change**2).sum())
    ratio = lengths[0] / lengths[1] if min(lengths) > 0 else 1.0
    return param - step.lr * ratio * change, mean, square


def _adafactor(optim: Any, step: Step, param: Any, grad: Any, row: Any, column: Any) -> Any:
    def rms(x: Any) -> Any:
        return np.sqrt((x**2).mean()) if x.size else 0.0

    least, smallest = optim.eps
    grad = -grad if step.maximize else grad
    share, rate = step.number**optim.beta2_decay, min(step.lr, step.number**-0.5) * max(smallest, rms(param))
    if grad.ndim > 1 and grad.size:
        row = row + share * ((grad**2).mean(-1, keepdims=True) - row)
        column = column + share * ((grad**2).mean(-2, keepdims=True) - column)
        squares = row @ column / np.maximum(row.mean(-2, keepdims=True), least)
    elif grad.ndim < 2:
        squares = row = row + share * (grad**2 - row)
    else:
        squares = grad
    change = grad / np.maximum(np.sqrt(squares), least)
    return param * (1 - step.lr * step.weight_decay) - rate / max(1.0, rms(change) / optim.d) * change, row, column


def _muon(optim: Any, step: Step, param: Any, grad: Any, mean: Any) -> Any:
    grad = -grad if step.maximize else grad
    mean = optim.momentum * mean + (1 - optim.momentum) * grad
    change = optim.momentum * mean + (1 - optim.momentum) * grad if optim.nesterov else mean
    left, sizes, right = np.linalg.svd(change, full_matrices=False)
    sizes = sizes / max(np.sqrt((sizes**2).sum()), optim.eps)
    first, third, fifth = optim.ns_coefficients
    for _ in range(optim.ns_steps):
        sizes = first * sizes + third * sizes**3 + fifth * sizes**5
    inputs, outputs = param.shape
    original = optim.adjust_lr_fn == "original"
    factor = max(1, outputs / inputs) ** 0.5 if original else 0.2 * max(inputs, outputs) ** 0.5
    return param * (1 - step.lr * step.weight_decay) - step.lr * factor * (left * sizes) @ right, mean


ALL = ((2, 3), (), (5,), (0, 3), (2, 4, 5), (40, 30))
MATRICES = ((2, 3), (4, 2), (1, 1), (40, 30))
UPDATES: list[tuple[Optimizer, Any, tuple[tuple[int, ...], ...]]] = [
    (Lamb(betas=(0.9, 0.99)), _lamb, ALL),
    (Adafactor(eps=(1e-3, 1e-2), d=0.5), _adafactor, ALL),
    (Muon(), _muon, MATRICES),
    (Muon(nesterov=False, adjust_lr_fn="match_rms_adamw", ns_steps=3), _muon, MATRICES),
]


def drawn(optim: Optimizer, shapes: Any, dtype: Any) -> list[list[Any]]:
    """Parameters, gradients and states, all of whose elements are above 0."""
    rng = np.random.default_rng(0)
    columns = [shapes, shapes, *([optim.slot_shape(slot, shape) for shape in shapes] for slot in optim.slots)]
    return [[np.asarray(rng.uniform(0.1, 1.0, shape)).astype(dtype) for shape in column] for column in columns]


@every_row("optim, reference, shapes", UPDATES)
def test_values(optim: Optimizer, reference: Any, shapes: Any) -> None:
    for name, close in (("float32", 1e-4), ("float64", 1e-10), ("float16", 4e-3), ("bfloat16", 4e-2)):
        for step in STEPS:
            lists = drawn(optim, shapes, dtypes.dtype_of(name))
            found = optim.update(D, lists[0], lists[1], tuple(lists[2:]), step)
            for k, row in enumerate(zip(*lists, strict=True)):
                wanted = reference(optim, step, *(x.astype("float64") for x in row))
                for x, y in zip([column[k] for column in found], wanted, strict=True):
                    assert (x.shape, x.dtype) == (y.shape, lists[0][k].dtype)
                    np.testing.assert_allclose(x.astype("float64"), y, rtol=close, atol=close, err_msg=str(step))


@every_row("optim, reference, shapes", UPDATES)
def test_a_skipped_update_changes_nothing(optim: Optimizer, reference: Any, shapes: Any) -> None:
    states: list[Any]
    params, grads, *states = drawn(optim, shapes, "float32")
    for skips in (True, False):
        step = Step(0.1, 3, 0.1, found_inf=D.full((), skips, dtypes.bool_))
        found = optim.update(D, params, grads, tuple(states), step)
        plain = optim.update(D, params, grads, tuple(states), step._replace(found_inf=None))
        for x, y in zip(found, (params, *states) if skips else plain, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(x, y, strict=True))
    none: list[list[Any]] = [[] for _ in states]
    assert optim.update(D, [], [], (*none,), Step(0.1)) == ([], *none)


def network() -> Any:
    return Sequential(Linear(6, 9, bias=False, device=Train), Tanh(), Linear(9, 4, bias=False, device=Train))


def stepped(optim: Any, model: Any, state: Any, lr: Any, x: Any) -> Any:
    loss = (model(x) - 1.0).square().mean()
    return *optim.pure_step(lr, model, loss.backward(), state), loss.detach()


@every_row("optim", [row[0] for row in UPDATES])
def test_steps_are_the_same_compiled_and_go_on_from_a_record(optim: Any) -> None:
    start: Any = network()
    x, state = Tensor[Train].normal((8, 6)), optim.init(start)

    @compiled
    def call(model: Any, state: Any, lr: float, x: Any) -> Any:
        return stepped(optim, model, state, lr, x)

    pure, losses = start, list[float]()
    for _ in range(6):
        pure, state, loss = call(pure, state, 0.05, x)
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    again, states = start, optim.init(start)
    for _ in range(6):
        again, states, _ = stepped(optim, again, states, 0.05, x)
    for p, q in zip(pure.params(), again.params(), strict=True):
        np.testing.assert_allclose(p.value.to_numpy(), q.value.to_numpy(), rtol=1e-4, atol=1e-6)
    model, other = start, type(optim)(weight_decay=0.5)
    for _ in range(2):
        model = other.step(0.05, model, model(x).square().mean().backward())
    new = type(optim)(weight_decay=0.5).load_record(other.into_record(), model)
    grads = model(x).square().mean().backward()
    first, second = (o.step(0.05, model, grads)[0].weight.value.tolist() for o in (other, new))
    assert first == second


def test_states_of_another_shape_are_refused() -> None:
    model: Any = network()
    optim = Adafactor()
    model = optim.step(0.1, model, model(Tensor[Train].ones((2, 6))).sum().backward())
    record = optim.into_record()
    ident = model[0].weight.id
    record.states[ident].values["row"] = np.ones((6, 9), np.float32)
    with pytest.raises(StateError, match=r"row for 0\.weight has shape \(6, 9\)"):
        Adafactor().load_record(record, model)


def test_muon_leaves_other_parameters_to_another_optimizer() -> None:
    model: Any = Sequential(Linear(6, 9, device=Train), Tanh(), Linear(9, 4, device=Train))
    x, muon, adam = Tensor[Train].ones((2, 6)), Muon(), AdamW()
    others = {path for path, param in model.named_params().items() if param.ndim != 2}
    with pytest.raises(ShapeError, match=r"Muon steps matrices, got a parameter of shape \(9,\)"):
        muon.step(0.1, model, model(x).sum().backward())
    grads = GradientsParams.from_grads(model(x).sum().backward(), model)
    new = adam.step(0.1, muon.step(0.1, model, grads.without(others)), grads.without({"0.weight", "2.weight"}))
    moved = [
        not np.array_equal(p.value.to_numpy(), q.value.to_numpy())
        for p, q in zip(new.params(), model.params(), strict=True)
    ]
    assert all(moved)


MISTAKES: list[tuple[Any, str]] = [
    (lambda: Lamb(betas=(0.9, 1.0)), "less than 1"),
    (lambda: Lamb(eps=-1.0), r"Lamb\(eps=\)"),
    (lambda: Adafactor(beta2_decay=0.1), "at most 0"),
    (lambda: Adafactor(eps=(1e-3,)), "a pair"),  # type: ignore[arg-type]  # a mistake
    (lambda: Adafactor(d=0.0), "above 0"),
    (lambda: Muon(momentum=1.0), "less than 1"),
    (lambda: Muon(ns_steps=0), "1 or more"),
    (lambda: Muon(ns_coefficients=(1.0, 2.0)), "three numbers"),  # type: ignore[arg-type]  # a mistake
    (lambda: Muon(adjust_lr_fn="adam"), "'match_rms_adamw'"),  # type: ignore[arg-type]  # a mistake
]


@every_row("make, message", MISTAKES)
def test_mistakes(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()
