"""A tensor of a level and one from beneath, in both orders, in every operation that takes two: the result is the same
as if both were on the level, in value, gradient and tangent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import (
    BoolTensor,
    IntTensor,
    Tensor,
    binary_cross_entropy_with_logits,
    cat,
    cdist,
    cross_entropy,
    maximum,
    minimum,
    mse_loss,
    nll_loss,
    stack,
    where,
)
from burnpy.backend import NumPy, errors
from burnpy.distributions import Categorical
from burnpy.func import compiled, grad, jvp, vmap
from burnpy.nn import Gru, Lstm, Rnn, functional
from tests.rows import every_row

rng = np.random.default_rng(0)


def x64(*shape: int) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(rng.uniform(0.5, 1.5, shape), dtype="float64")


I = IntTensor[NumPy].from_data([[2, 0, 1], [0, 0, 2]])  # noqa: E741  # indices
ROW = IntTensor[NumPy].from_data([1, 0, 1])
MASK = BoolTensor[NumPy].from_data([[True, False, True], [False, False, True]])


def methodcaller(name: str) -> Callable[[Any, Any], Any]:
    return lambda x, y: getattr(x, name)(y)


TWO: dict[str, Callable[[Any, Any], Any]] = {
    **{name: methodcaller(name) for name in ("add", "sub", "mul", "div", "pow", "remainder", "maximum", "minimum")},
    "operators": lambda x, y: (x + y) * (x - y) / (x * y) ** y % y,
    "broadcast": lambda x, y: x[:1] * y + x[0] / y[:, :1] - x[0, 0],
    "comparison": lambda x, y: where(x < y, x, y) + where(y >= x, 2 * x, y),
    "matmul": lambda x, y: x @ y.T + x.matmul(y[0]).sum() + y[1] @ x[0],
    "cat": lambda x, y: cat([x, y, x], dim=1) * 2.0,
    "stack": lambda x, y: stack([x, y], dim=1).exp(),
    "where": lambda x, y: where(MASK, x, y) * where(x > 1.0, y, x),
    "where method": lambda x, y: x.where(MASK, y) + x.where(y > 1.0, 3.0),
    "maximum, minimum": lambda x, y: maximum(x, y) * minimum(x, y),
    "masked_fill": lambda x, y: x.masked_fill(MASK, y[0, 0]) * x.masked_fill(y > 1.0, 0.5),
    "masked_select": lambda x, y: x.masked_select(y > 1.0) * 2.0,
    "index by its own": lambda x, y: x[y > 1.0] + x[y.argmax(dim=0).clamp(0, 1)].sum(),
    "scatter": lambda x, y: x.scatter(1, I, y) * x,
    "scatter_add": lambda x, y: x.scatter_add(1, I, y) * x,
    "gather": lambda x, y: x.gather(1, I) * y.gather(1, I),
    "at set": lambda x, y: x.at[0].set(y[1]) * x,
    "at add": lambda x, y: x.at[:, 1:].add(y[:, :2]) * x,
    "at mul": lambda x, y: x.at[1, 2].mul(y[0, 0]) * x,
    "at min": lambda x, y: x.at[0].min(y[0]) * x,
    "at index": lambda x, y: x.at[:, ROW].add(y) * x.at[ROW[:2]].set(y) * x.at[:, ROW].mul(y),
    "mse_loss": lambda x, y: mse_loss(x, y, reduction="none"),
    "cross_entropy": lambda x, y: cross_entropy(x, y),
    "cross_entropy of classes": lambda x, y: cross_entropy(x, ROW[:2], weight=y[0], label_smoothing=0.1),
    "nll_loss": lambda x, y: nll_loss(x.log_softmax(1), ROW[:2], weight=y[1]),
    "binary cross entropy": lambda x, y: binary_cross_entropy_with_logits(x, y, weight=y, pos_weight=y[0]),
    "Huber's loss": lambda x, y: functional.huber_loss(x, y, delta=0.5),
    "lerp": lambda x, y: x.lerp(y, y * 0.3),
    "cdist": lambda x, y: cdist(x, y + 5.0),
}


@pytest.mark.slow
@every_row("f", TWO.values(), ids=TWO)
def test_lifting(f: Callable[[Any, Any], Any]) -> None:
    x, y, s, t = x64(2, 3), x64(2, 3), x64(2, 3), x64(2, 3)

    def number(x: Any, y: Any) -> Any:
        return (f(x, y).sin()).sum()

    by_x, by_y = grad(number, (0, 1))(x, y)  # both on the level
    np.testing.assert_allclose(grad(number)(x, y).to_numpy(), by_x.to_numpy(), rtol=1e-14)
    np.testing.assert_allclose(grad(lambda x: number(x, y))(x).to_numpy(), by_x.to_numpy(), rtol=1e-14)
    np.testing.assert_allclose(grad(lambda y: number(x, y))(y).to_numpy(), by_y.to_numpy(), rtol=1e-14)

    whole, along = jvp(f, (x, y), (s, t))
    out, along_x = jvp(lambda x: f(x, y), (x,), (s,))
    other, along_y = jvp(lambda y: f(x, y), (y,), (t,))
    np.testing.assert_allclose((along_x + along_y).to_numpy(), along.to_numpy(), rtol=1e-13)
    assert whole.tolist() == out.tolist() == other.tolist() == f(x, y).tolist()

    # Two levels apart, and of two different ones.
    far = grad(lambda z: grad(lambda x: number(x, y) * z)(x).sum())(Tensor[NumPy].ones((), dtype="float64"))
    assert far.item() == pytest.approx(by_x.sum().item(), rel=1e-13)
    mixed = grad(lambda y: (grad(lambda x: number(x, y))(x) * s).sum())(y)
    swapped = grad(lambda y: jvp(lambda x: number(x, y), (x,), (s,))[1])(y)
    np.testing.assert_allclose(mixed.to_numpy(), swapped.to_numpy(), rtol=1e-12)


FLOATS, SEQUENCES = x64(6, 3), x64(2, 5, 4)
PICKED, LENGTHS, LABELS = (IntTensor[NumPy].from_data(x) for x in ([4, 0], [2, 5], [0, 2, 1, 1, 0, 2]))
KEPT, KEYS = (BoolTensor[NumPy].from_data(rng.random(shape) < 0.7) for shape in ((6, 3), (5, 5)))
NETWORKS = [Layer(4, 4, bidirectional=True, device=NumPy).astype("float64") for Layer in (Lstm, Gru, Rnn)]
ALONE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "index": (lambda i: FLOATS[i] * FLOATS[i, 1:2] + FLOATS[:, i[1]][:2, None], PICKED),
    "index_select": (lambda i: FLOATS.index_select(0, i), PICKED),
    "gather": (lambda i: FLOATS.gather(0, i[:, None]) + FLOATS.take_along_dim(i[:, None], 0), PICKED),
    "scatter": (lambda i: FLOATS.scatter(0, i[:, None], 2.0) + FLOATS.scatter_add(0, i[:, None], FLOATS[:2]), PICKED),
    "index_add": (lambda i: FLOATS.index_add(0, i, FLOATS[:2]) * FLOATS.index_copy(0, i, FLOATS[:2]), PICKED),
    "index_fill": (lambda i: FLOATS.index_fill(0, i, 2.0) * FLOATS.index_reduce(0, i, FLOATS[:2], "prod"), PICKED),
    "at": (lambda i: FLOATS.at[i].add(FLOATS[:2]) + FLOATS.at[i, 1].set(3.0), PICKED),
    "put": (lambda i: FLOATS.put(i, FLOATS[0, :2]) + FLOATS.take(i)[0], PICKED),
    "embedding": (lambda i: functional.embedding(i, FLOATS), PICKED),
    "embedding_bag": (lambda i: functional.embedding_bag(i[None], FLOATS), PICKED),
    "cross_entropy": (lambda i: cross_entropy(FLOATS, i), LABELS),
    "nll_loss": (lambda i: nll_loss(FLOATS, i) + functional.multi_margin_loss(FLOATS, i), LABELS),
    "masked_fill": (lambda m: FLOATS.masked_fill(m, 0.5) + where(m, FLOATS, 2.0) * FLOATS.where(m, FLOATS[0]), KEPT),
    "attention": (lambda m: functional.scaled_dot_product_attention(SEQUENCES, SEQUENCES, SEQUENCES, mask=m), KEYS),
    "recurrent networks": (lambda n: stack([f(SEQUENCES, lengths=n)[0] for f in NETWORKS]), LENGTHS),
    "log_prob": (lambda i: Categorical(logits=FLOATS).log_prob(i), LABELS),
    "ldexp": (lambda i: FLOATS[0, :2].ldexp(i), PICKED),
}
"""Functions of ints or bools alone, which read floats from beneath."""


@every_row("f, x", ALONE.values(), ids=ALONE)
def test_ints_and_bools_alone(f: Callable[[Any], Any], x: Any) -> None:
    expected, both = f(x).to_numpy(), stack([x, x])
    found = (vmap(f)(both)[1], vmap(vmap(f))(stack([both, both]))[1, 0], compiled(f)(x), compiled(vmap(f))(both)[1])
    for out in found:
        np.testing.assert_allclose(out.to_numpy(), expected, rtol=1e-12)


def test_ints_and_bools() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        index = x.int()  # an int tensor of the level
        seen.extend(
            [index + ROW[0], ROW[0] + index, index == ROW[0], ROW[0] / (index + 1), (x > 0) & MASK, MASK | (x > 0)]
        )
        return (seen[3] * x).sum() + x64(2, 3)[index.clamp(0, 1)].sum()

    x = Tensor[NumPy].from_data([1.0, 2.0, 3.0], dtype="float64")
    np.testing.assert_allclose(grad(f)(x).to_numpy(), [1 / 2, 1 / 3, 1 / 4], rtol=1e-7)
    assert seen[0].tolist() == seen[1].tolist() == [2, 3, 4]
    assert seen[2].tolist() == [True, False, False]
    assert seen[4].tolist() == MASK.tolist()


def test_mistakes_are_still_explained() -> None:
    x, shorter = x64(2, 3), x64(2)
    with pytest.raises(errors.ShapeError, match=r"mul\(\) got shapes \(2, 3\) and \(2,\)"):
        grad(lambda x: (x * shorter).sum())(x)
    with pytest.raises(errors.ShapeError, match=r"mul\(\) got shapes \(2,\) and \(2, 3\)"):
        grad(lambda x: (shorter * x).sum())(x)
    with pytest.raises(errors.KindError, match="kinds do not mix"):
        grad(lambda x: (I * x).sum())(x)
    with pytest.raises(errors.ShapeError, match=r"matmul\(\) got shapes \(1,\) and"):
        grad(lambda x: (shorter[:1] @ x).sum())(x)
