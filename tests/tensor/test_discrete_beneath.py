"""Ints and bools carry no gradient: those of a device beneath go wherever those of the tracked device do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import (
    Autodiff,
    BoolTensor,
    IntTensor,
    Tensor,
    binary_cross_entropy_with_logits,
    bucketize,
    cat,
    cross_entropy,
    linalg,
    metrics,
    nll_loss,
    searchsorted,
    stack,
    where,
)
from burnpy.autodiff import Balanced, Forward, Function, checkpoint
from burnpy.backend import NumPy, Profiled
from burnpy.errors import DeviceError
from burnpy.func import grad, hessian, jacobian, jvp, value_and_grad
from burnpy.nn import CrossEntropyLoss, Embedding, Lstm, MultiHeadAttention, TransformerEncoderLayer
from burnpy.nn import functional as F  # noqa: N812
from burnpy.tensor.tensor_base import TensorBase
from tests.rows import every_row

Operation = Callable[[Any, Any, Any, Any], Any]


class Picked(Function):
    """x at an index."""

    @staticmethod
    def forward(ctx: Any, x: Any, index: Any) -> Any:
        ctx.save_for_backward(index)
        ctx.rows = x.shape[0]
        return x[index]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (index,) = ctx.saved_tensors
        return Tensor.zeros((ctx.rows, *grad.shape[1:]), device=grad.device).at[index].add(grad), None


def seeded(layer: Any) -> Any:
    rng = np.random.default_rng(3)
    return layer.map(lambda w: Tensor.from_data(rng.normal(size=w.shape).astype("float32"), device=w.device))


# x (4, 4) of floats; i (4,) of ints; b (4, 4) of bools; j (4, 4) of ints
OPERATIONS: dict[str, Operation] = {
    "x[i]": lambda x, i, b, j: x[i],
    "x[:, i]": lambda x, i, b, j: x[:, i],
    "x[i, i]": lambda x, i, b, j: x[i, i],
    "x[b]": lambda x, i, b, j: x[b],
    "x[0, b[0]]": lambda x, i, b, j: x[0, b[0]],
    "x[i, b[0]]": lambda x, i, b, j: x[i[:1], b[0]],
    "at.set": lambda x, i, b, j: x.at[i[:2]].set(2.0) * x,
    "at.add": lambda x, i, b, j: x.at[:, i].add(x),
    "at.mul of a mask": lambda x, i, b, j: x.at[b].mul(3.0),
    "where": lambda x, i, b, j: where(b, x, 0.0) + where(b, x, x * 2.0) + x.where(b, 3.0),
    "masked_fill": lambda x, i, b, j: x.masked_fill(b, 1.0),
    "masked_select": lambda x, i, b, j: x.masked_select(b),
    "masked_scatter": lambda x, i, b, j: x.masked_scatter(b, x * 2.0),
    "gather": lambda x, i, b, j: x.gather(1, j),
    "take_along_dim": lambda x, i, b, j: x.take_along_dim(j, dim=1),
    "scatter": lambda x, i, b, j: x.scatter(1, i.unsqueeze(1), 2.0) * x,
    "scatter_add": lambda x, i, b, j: x.scatter_add(1, j, x),
    "scatter_reduce": lambda x, i, b, j: x.scatter_reduce(1, j, x, "amax"),
    "index_select": lambda x, i, b, j: x.index_select(0, i),
    "index_add": lambda x, i, b, j: x.index_add(0, i, x),
    "index_copy": lambda x, i, b, j: x.index_copy(0, i[:2], x[:2]),
    "index_fill": lambda x, i, b, j: x.index_fill(0, i, 2.0) * x,
    "index_reduce": lambda x, i, b, j: x.index_reduce(0, i, x, "prod"),
    "take": lambda x, i, b, j: x.take(j),
    "repeat_interleave": lambda x, i, b, j: x.repeat_interleave(i, 0),
    "cov": lambda x, i, b, j: x.cov(fweights=i + 1),
    "cross_entropy": lambda x, i, b, j: cross_entropy(x, i),
    "nll_loss": lambda x, i, b, j: nll_loss(x.log_softmax(1), i, ignore_index=1),
    "multi_margin_loss": lambda x, i, b, j: F.multi_margin_loss(x, i),
    "soft_margin_loss": lambda x, i, b, j: F.soft_margin_loss(x, j * 2 - 1),
    "hinge_embedding_loss": lambda x, i, b, j: F.hinge_embedding_loss(x, where(b, 1, j * 0 - 1)),
    "margin_ranking_loss": lambda x, i, b, j: F.margin_ranking_loss(x, x * 2.0, where(b, 1, j * 0 - 1)),
    "cosine_embedding_loss": lambda x, i, b, j: F.cosine_embedding_loss(x, x.flip(0), where(i > 1, 1, i * 0 - 1)),
    "embedding": lambda x, i, b, j: F.embedding(j, x),
    "one_hot": lambda x, i, b, j: x[i.one_hot(4).bool()],
    "attention": lambda x, i, b, j: F.scaled_dot_product_attention(x, x, x, mask=b),
    "lu_solve": lambda x, i, b, j: linalg.lu_solve(
        x + 4.0 * Tensor.eye(4, device=x.device), j[0] * 0 + i.sort()[0] * 0 + 1, x
    ),
    "CrossEntropyLoss": lambda x, i, b, j: CrossEntropyLoss()(x, i),
    "Embedding": lambda x, i, b, j: seeded(Embedding(4, 3, device=x.device))(j).sum() * x,
    "Lstm": lambda x, i, b, j: seeded(Lstm(4, 3, device=x.device))(x.unsqueeze(0).expand((4, 4, 4)), lengths=i + 1)[0],
    "MultiHeadAttention": lambda x, i, b, j: seeded(MultiHeadAttention(4, 2, device=x.device))(
        x.unsqueeze(0), mask=b, key_mask=b[:1] | True
    ),
    "TransformerEncoderLayer": lambda x, i, b, j: seeded(
        TransformerEncoderLayer(4, 2, feedforward=8, dropout=0.0, device=x.device)
    )(x.unsqueeze(0), mask=b),
    "checkpoint": lambda x, i, b, j: checkpoint(lambda a, k: a[k].exp(), x, i),
    "Function": lambda x, i, b, j: Picked.apply(x, i),
    "bincount of weights": lambda x, i, b, j: i.bincount(weights=x[0]),
    "searchsorted": lambda x, i, b, j: searchsorted(x[0], x[1], sorter=i.argsort()).float() * x[0],
    "a mask of x and b": lambda x, i, b, j: x[(x > 0.0) & b],
    "an index of both": lambda x, i, b, j: x[(x.argmax(1) + i) % 4],
    "cat of indices": lambda x, i, b, j: x[cat([x.argmax(1), i])] + stack([i, x.argmax(1)]).float().mean(),
    "bucketize": lambda x, i, b, j: x[bucketize(x.argmax(1), i.sort()[0]) % 4],
    "Accuracy": lambda x, i, b, j: x * metrics.Accuracy.of(x, i).value(),
}
CLOSURES = {
    "grad": lambda f, x: grad(lambda a: f(a).sum())(x),
    "value_and_grad": lambda f, x: value_and_grad(lambda a: f(a).sum())(x),
    "jvp": lambda f, x: jvp(f, (x,), (x,)),
    "jacobian": lambda f, x: jacobian(f)(x),
    "hessian": lambda f, x: hessian(lambda a: f(a).square().sum())(x),
}
DEVICES: dict[str, tuple[Any, list[Any]]] = {
    "Autodiff": (Autodiff(NumPy()), [NumPy()]),
    "twice": (Autodiff(Autodiff(NumPy())), [NumPy(), Autodiff(NumPy())]),
    "Forward": (Forward(NumPy()), [NumPy()]),
    "Forward over reverse": (Forward(Autodiff(NumPy())), [NumPy(), Autodiff(NumPy())]),
    "around Profiled": (Autodiff(Profiled(NumPy())), [Profiled(NumPy())]),
    "around Balanced": (Autodiff(Balanced(NumPy())), [NumPy(), Balanced(NumPy())]),
}


def operands(device: Any, beneath: Any) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    floats = rng.normal(size=(4, 4)).astype("float32")
    return (
        Tensor.from_data(floats, device=device),
        IntTensor.from_data(np.array([2, 0, 3, 1]), device=beneath),
        BoolTensor.from_data(floats > 0.1, device=beneath),
        IntTensor.from_data(rng.integers(0, 2, (4, 4)), device=beneath),
    )


def results(operation: Operation, device: Any, beneath: Any) -> list[Any]:
    """The result, its device, and its gradient if the device has one."""
    x, *rest = operands(device, beneath)
    if isinstance(device, Autodiff):
        x = x.require_grad()
    out = operation(x, *rest)
    found = [str(out.device), out.to_numpy()]
    if isinstance(device, Autodiff) and out.is_require_grad():
        found.append(x.grad(out.sum().backward()).to_numpy())
    return found


@pytest.mark.slow
@every_row("name", OPERATIONS)
def test_ints_and_bools_of_a_device_beneath_are_as_good(name: str) -> None:
    for where_, (device, lower) in DEVICES.items():
        expected = results(OPERATIONS[name], device, device)
        for beneath in lower:
            found = results(OPERATIONS[name], device, beneath)
            assert len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=f"{where_}, indices on {beneath}")


@pytest.mark.parametrize("name", CLOSURES)
def test_derivatives_of_functions_that_close_over_ints_of_a_device_beneath(name: str) -> None:
    for device, lower in DEVICES.values():
        x, *same = operands(device, device)

        def run(i: Any, b: Any, j: Any, x: Any = x) -> Any:
            return CLOSURES[name](lambda a: where(b, a[i].exp(), a.gather(1, j)) * x, x)  # type: ignore[no-untyped-call]

        for beneath in lower:
            for found, expected in zip(
                tensors_of(run(*operands(device, beneath)[1:])), tensors_of(run(*same)), strict=True
            ):
                assert found.device is device
                np.testing.assert_array_equal(found.to_numpy(), expected.to_numpy())


def tensors_of(tree: Any) -> list[Any]:
    return [tree] if isinstance(tree, TensorBase) else [x for member in tree for x in tensors_of(member)]


@pytest.mark.parametrize("order", [0, 1])
def test_ints_are_arguments_of_functions_that_are_differentiated(order: int) -> None:
    device = Autodiff(NumPy())
    x, i, _, _ = operands(device, NumPy())
    found = grad(lambda *args: cross_entropy(*(args[::-1] if order else args)), argnums=order)(
        *((i, x) if order else (x, i))
    )
    assert found.device is device


def test_floats_of_a_device_beneath_are_refused() -> None:
    x, i, b, _ = operands(Autodiff(NumPy()), NumPy())
    y = x.inner()
    wrong: list[Callable[[], Any]] = [
        lambda: x + y,
        lambda: x.at[i].set(y),
        lambda: where(b, x, y),
        lambda: cat([x, y]),
        lambda: cross_entropy(x, y),
        lambda: F.soft_margin_loss(x, y),
        lambda: binary_cross_entropy_with_logits(x, y),
    ]
    for call in wrong:
        with pytest.raises(DeviceError, match=r"NumPy"):
            call()


class Other(NumPy):
    """Another backend."""


@every_row("device", [NumPy(), Autodiff(NumPy()), Forward(NumPy()), Autodiff(Profiled(NumPy()))], ids=str)
@every_row("wrong", [Other(), Autodiff(Other()), Autodiff(Autodiff(NumPy())), Profiled(Other())], ids=str)
def test_ints_of_an_unrelated_device_are_refused(device: Any, wrong: Any) -> None:
    """Also those of a device above: a plain tensor is no constant of a singleton device that tracks."""
    x, i, b, j = operands(device, wrong)
    for call in (
        lambda: x[i],
        lambda: x[b],
        lambda: x.gather(1, j),
        lambda: x.masked_fill(b, 0.0),
        lambda: cross_entropy(x, i),
        lambda: F.embedding(j, x),
        lambda: grad(lambda a: a[i].sum())(x),
    ):
        with pytest.raises(DeviceError, match=rf"{type(wrong).__name__}"):
            call()
