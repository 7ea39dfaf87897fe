"""Moving and joining elements, against NumPy; every kind of tensor can do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from tests.rows import every_row

Array = np.ndarray[Any, Any]
Train = Autodiff[NumPy]
A = np.arange(24.0).reshape(2, 3, 4)

TABLE: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "reshape": (lambda x: x.reshape(4, 6), lambda a: a.reshape(4, 6)),
    "reshape tuple": (lambda x: x.reshape((6, 4)), lambda a: a.reshape(6, 4)),
    "reshape -1": (lambda x: x.reshape(2, -1, 2), lambda a: a.reshape(2, 6, 2)),
    "reshape numpy ints": (lambda x: x.reshape([np.int64(8), -1]), lambda a: a.reshape(8, 3)),
    "flatten": (lambda x: x.flatten(), np.ravel),
    "flatten part": (lambda x: x.flatten(1), lambda a: a.reshape(2, 12)),
    "flatten front": (lambda x: x.flatten(0, -2), lambda a: a.reshape(6, 4)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "permute negative": (lambda x: x.permute((-1, 0, -2)), lambda a: a.transpose(2, 0, 1)),
    "transpose": (lambda x: x.transpose(0, -1), lambda a: a.swapaxes(0, 2)),
    "mT": (lambda x: x.mT, lambda a: a.swapaxes(1, 2)),
    "T": (lambda x: x[0].T, lambda a: a[0].T),
    "movedim": (lambda x: x.movedim(0, 2), lambda a: np.moveaxis(a, 0, 2)),
    "movedim many": (lambda x: x.movedim((0, 1), (-1, 0)), lambda a: np.moveaxis(a, (0, 1), (-1, 0))),
    "squeeze": (lambda x: x[:, :1, None].squeeze(), lambda a: a[:, 0]),
    "squeeze dim": (lambda x: x[:1, :, None].squeeze(2), lambda a: a[:1]),
    "squeeze of more is nothing": (lambda x: x.squeeze((0, 1)), lambda a: a),
    "unsqueeze": (lambda x: x.unsqueeze(0), lambda a: a[None]),
    "unsqueeze last": (lambda x: x.unsqueeze(-1), lambda a: a[..., None]),
    "unsqueeze before last": (lambda x: x.unsqueeze(-2), lambda a: a[:, :, None]),
    "expand": (lambda x: x[:, :1].expand(5, -1, 3, -1), lambda a: np.broadcast_to(a[:, :1], (5, 2, 3, 4))),
    "broadcast_to": (lambda x: x[0].broadcast_to((2, 3, 4)), lambda a: np.broadcast_to(a[0], (2, 3, 4))),
    "expand_as": (lambda x: x[0, 0].expand_as(x), lambda a: np.broadcast_to(a[0, 0], (2, 3, 4))),
    "flip": (lambda x: x.flip(0, -1), lambda a: np.flip(a, (0, 2))),
    "flip nothing": (lambda x: x.flip(()), lambda a: a),
    "roll": (lambda x: x.roll((1, -5), (0, 2)), lambda a: np.roll(a, (1, -5), (0, 2))),
    "tril": (lambda x: x.tril(), np.tril),
    "tril 1": (lambda x: x.tril(1), lambda a: np.tril(a, 1)),
    "triu -1": (lambda x: x.triu(-1), lambda a: np.triu(a, -1)),
    "split": (lambda x: x.split(3, 2)[1], lambda a: a[..., 3:]),
    "split list": (lambda x: x.split([1, 0, 2], 1)[2], lambda a: a[:, 1:]),
    "chunk": (lambda x: x.chunk(2, -1)[1], lambda a: a[..., 2:]),
    "unbind": (lambda x: x.unbind(1)[2], lambda a: a[:, 2]),
    "cat": (lambda x: burnpy.cat([x, x[:1]]), lambda a: np.concatenate([a, a[:1]])),
    "cat last": (lambda x: burnpy.cat((x, x[..., :2], x), dim=-1), lambda a: np.concatenate([a, a[..., :2], a], -1)),
    "stack": (lambda x: burnpy.stack([x, x.flip(0)]), lambda a: np.stack([a, a[::-1]])),
    "stack between": (lambda x: burnpy.stack((x, x.flip(0), x), 1), lambda a: np.stack([a, a[::-1], a], 1)),
    "stack last": (lambda x: burnpy.stack([x, x], dim=-1), lambda a: np.stack([a, a], -1)),
    "stack 0-d": (lambda x: burnpy.stack([x[0, 0, 0], x[1, 0, 0]]), lambda a: a[:, 0, 0]),
}


@every_row("name", TABLE)
def test_values(name: str) -> None:
    ours, theirs = TABLE[name]
    for cls, a in ((Tensor, A), (IntTensor, A.astype(np.int16)), (BoolTensor, A % 5 == 0)):
        maker: Any = cls
        found, wanted = ours(maker[NumPy].from_data(a)), theirs(a)
        assert type(found) is cls
        assert found.dtype == a.dtype
        assert found.shape == wanted.shape
        assert np.array_equal(found.to_numpy(), wanted)


@every_row("name", TABLE)
def test_gradients_go_back_where_the_elements_came_from(name: str) -> None:
    ours, theirs = TABLE[name]
    x = Tensor[Train].from_data(A).require_grad()
    out = ours(x)
    weights = np.random.default_rng(3).standard_normal(out.shape)
    grads = (out * Tensor[Train].from_data(weights)).sum().backward()
    wanted = np.zeros(A.size)
    positions = theirs(np.arange(1, 1 + A.size).reshape(A.shape))  # 0, which tril writes, is none of them
    np.add.at(wanted, np.asarray(positions).ravel() - 1, np.where(positions == 0, 0, weights).ravel())
    np.testing.assert_allclose(grads[x].to_numpy(), wanted.reshape(A.shape), 1e-12)


def test_parts() -> None:
    x = IntTensor[NumPy].arange(7)
    assert [p.tolist() for p in x.split(3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [p.tolist() for p in x.chunk(3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [p.tolist() for p in x.chunk(5)] == [[0, 1], [2, 3], [4, 5], [6]]
    assert [p.shape for p in Tensor[NumPy].zeros((2, 0)).split(2, 1)] == [(2, 0)]
    assert [p.shape for p in Tensor[NumPy].zeros((2, 0)).chunk(2, 1)] == [(2, 0), (2, 0)]
    assert [p.item() for p in x.unbind()] == list(range(7))


def test_without_elements_and_without_dimensions() -> None:
    empty, scalar = Tensor[NumPy].zeros((0, 3)), Tensor[NumPy].from_data(5.0)
    assert empty.reshape(3, 0).shape == (3, 0)
    assert empty.reshape(-1).shape == (0,)
    assert empty.flatten().shape == (0,)
    assert empty.roll(1, 0).shape == (0, 3)
    assert empty.mT.shape == (3, 0)
    assert burnpy.cat([empty, empty[:0], Tensor[NumPy].ones((1, 3))]).tolist() == [[1.0] * 3]
    assert scalar.reshape(1, 1).tolist() == [[5.0]]
    assert scalar.reshape(()).shape == scalar.squeeze().shape == scalar.permute().shape == ()
    assert scalar.flatten().shape == scalar.unsqueeze(0).shape == scalar.expand(1).shape == (1,)
    assert scalar.expand(2, 2).tolist() == [[5.0, 5.0]] * 2


def test_diagonals_far_outside() -> None:
    x = Tensor[NumPy].ones((2, 3))
    assert x.tril(1 << 62).tolist() == x.triu(-(1 << 62)).tolist() == x.tolist()
    assert x.triu(1 << 62).tolist() == x.tril(-(1 << 62)).tolist() == (x * 0.0).tolist()
