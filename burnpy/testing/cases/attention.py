"""Examples of attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Large, Mask, x
from burnpy.testing.cases.table import row


def _weights(q: Any, k: Any, mask: Any, offset: int | None, scale: float) -> Any:
    """Return exp(scores), 0 for masked keys, and the sums of its rows, replaced by 1 where they are 0."""
    scores = np.exp(q @ k.swapaxes(-1, -2) * scale)
    if mask is not None:
        scores = scores * mask
    if offset is not None:
        scores = scores * np.tri(scores.shape[-2], scores.shape[-1], offset)
    total = scores.sum(-1, keepdims=True)
    return scores, np.where(total == 0, 1, total)


def _attention(q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> Any:
    weights, total = _weights(q, k, mask, offset, scale)
    return weights / total @ v, np.log(total)[..., 0]


def _attention_backward(
    grad: Any, q: Any, k: Any, v: Any, logsumexp: Any, mask: Any, offset: int | None, scale: float
) -> Any:
    weights, total = _weights(q, k, mask, offset, scale)
    weights = weights / total
    by_weight = grad @ v.swapaxes(-1, -2)
    by_score = weights * (by_weight - (weights * by_weight).sum(-1, keepdims=True)) * scale
    return by_score @ k, by_score.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad


_SHAPES: list[tuple[Any, ...]] = [  # leading dimensions, queries, keys, size of keys and of values; mask, offset, scale
    ((), 2, 3, 2, 2, None, None, 0.7),
    ((2,), 3, 3, 2, 1, None, 0, 0.5),
    ((2, 1), 2, 3, 2, 2, Mask((2, 3)), None, 0.5),
    ((2,), 3, 2, 1, 2, Mask((2, 1, 2)), 0, 0.5),
    ((1,), 2, 0, 2, 2, None, None, 1.0),
    ((0,), 2, 2, 2, 2, None, 0, 1.0),
    ((), 2, 4, 2, 1, None, 1, 0.5),
    ((2,), 2, 3, 1, 2, None, 2, 0.5),
    ((1,), 3, 2, 2, 1, None, -1, 0.5),
    ((), 2, 2, 1, 1, None, -2, 1.0),
]
_LARGE: list[tuple[Any, ...]] = [
    ((3, 4), 40, 50, 8, 6, None, None, 0.3),
    ((3, 4), 40, 50, 8, 6, None, 10, 0.3),
    ((3, 4), 70, 70, 8, 8, Mask((3, 1, 70, 70)), 0, 0.3),
]


def _examples(backward: bool) -> list[tuple[Any, ...]]:
    examples: list[tuple[Any, ...]] = []
    for shapes, make in ((_SHAPES, x), (_LARGE, _large)):
        for lead, t, s, e, f, *how in shapes:
            q, k, v = make(*lead, t, e, low=-1.0), make(*lead, s, e, high=1.9), make(*lead, s, f, high=1.8)
            if backward:
                sums = make(*lead, t, low=1.0, high=2.0)
                examples.append((make(*lead, t, f, low=-1.0, high=1.0), q, k, v, sums, *how))
            else:
                examples.append((q, k, v, *how))
    return examples


def _large(*shape: int, low: float = -2.0, high: float = 2.0) -> Large:
    return Large(shape, low, high)


row("attention", _attention, _examples(False), loose=16)
row("attention_backward", _attention_backward, _examples(True), loose=128)
