"""Examples of matrix products, also of quantized matrices, of linear layers, and of attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import int8, uint8
from burnpy.testing.cases.samples import Large, Mask, Sample, x
from burnpy.testing.cases.table import row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.primitives import DType, Shape

row(
    "matmul",
    np.matmul,
    [
        (x(2, 3), x(3, 4)),
        (x(1, 3), x(3, 1)),
        (x(2, 2, 3), x(3, 2)),
        (x(2, 3), x(2, 3, 2)),
        (x(2, 1, 2, 3), x(3, 3, 2)),
        (x(0, 3), x(3, 2)),
        (x(2, 0), x(0, 3)),
        (x(2, 3), x(3, 0)),
        (x(0, 2, 3), x(3, 2)),
        (x(3), x(3, high=1.9)),
        (x(3), x(3, 2)),
        (x(2, 3), x(3)),
        (x(3), x(2, 3, 2)),
        (x(2, 1, 2, 3), x(3)),
        (x(0), x(0)),
        (x(0), x(0, 2)),
        (x(2, 2, 3), x(3)),
        (Large((40, 30), -1.0, 1.0), Large((30, 50), -1.0, 1.0)),
    ],
    loose=4,
)
row(
    "matmul_nt",
    lambda x, y: np.matmul(x, np.swapaxes(y, -1, -2)),
    [
        (x(2, 3), x(4, 3)),
        (x(1, 3), x(1, 3)),
        (x(2, 2, 3), x(2, 3)),
        (x(2, 3), x(2, 2, 3)),
        (x(2, 1, 2, 3), x(3, 2, 3)),
        (x(0, 3), x(2, 3)),
        (x(2, 0), x(3, 0)),
        (Large((40, 30), -1.0, 1.0), Large((50, 30), -1.0, 1.0)),
    ],
    loose=4,
)
row(
    "matmul_tn",
    lambda x, y: np.matmul(np.swapaxes(x, -1, -2), y),
    [
        (x(3, 2), x(3, 4)),
        (x(3, 1), x(3, 1)),
        (x(2, 3, 2), x(3, 2)),
        (x(3, 2), x(2, 3, 2)),
        (x(2, 1, 3, 2), x(3, 3, 2)),
        (x(3, 0), x(3, 2)),
        (x(0, 2), x(0, 3)),
        (Large((30, 40), -1.0, 1.0), Large((30, 50), -1.0, 1.0)),
    ],
    loose=4,
)


def _linear_backward(grad: Any, x: Any) -> Any:
    leading = tuple(range(x.ndim - 1))
    return np.tensordot(x, grad, (leading, leading)), grad.sum(leading)


row(
    "linear",
    lambda x, weight, bias: x @ weight + bias,
    [
        (x(2, 3), x(3, 4), x(4)),
        (x(2, 2, 3), x(3, 2), x(2)),
        (x(3), x(3, 2), x(2)),
        (x(0, 3), x(3, 2), x(2)),
        (Large((40, 30), -1.0, 1.0), Large((30, 50), -1.0, 1.0), Large((50,))),
    ],
    loose=4,
)
row(
    "linear_backward",
    _linear_backward,
    [
        (x(2, 4), x(2, 3)),
        (x(2, 2, 2), x(2, 2, 3)),
        (x(2), x(3)),
        (x(0, 2), x(0, 3)),
        (x(2, 0), x(2, 3)),
        (x(2, 3), x(2, 0)),
        (Large((40, 50), -1.0, 1.0), Large((40, 30), -1.0, 1.0)),
    ],
    loose=4,
)


@dataclass(frozen=True)
class Quantized(Sample):
    """A primitive of int8 or uint8 with all values of its dtype, independent of the dtype of the case."""

    shape: Shape
    bits: int

    def __str__(self) -> str:
        return f"{self.bits} bits {self.shape}"

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """Return random ints."""
        low, high, own = (-128, 128, int8) if self.bits == 8 else (0, 256, uint8)
        return np.random.default_rng([seed, *self.shape]).integers(low, high, self.shape, own)


def _quantized_matmul(x: Any, weight: Any, scale: Any) -> Any:
    outputs, groups = scale.shape
    parts = weight.reshape(outputs, groups, weight.shape[1] // groups).astype(np.int64)
    if weight.dtype == uint8:
        parts = np.concatenate([parts % 16, parts // 16], 2) - 8
    return x @ (parts * scale[:, :, None]).reshape(outputs, -1).T


def _scale(*shape: int) -> Any:
    return x(*shape, low=0.01, high=0.02)


row(
    "quantized_matmul",
    _quantized_matmul,
    [
        (x(2, 6), Quantized((4, 6), 8), _scale(4, 1)),
        (x(2, 6), Quantized((4, 6), 8), _scale(4, 3)),
        (x(2, 8), Quantized((3, 4), 4), _scale(3, 2)),
        (x(8), Quantized((3, 4), 4), _scale(3, 1)),
        (x(2, 1, 6), Quantized((4, 6), 8), _scale(4, 1)),
        (x(0, 6), Quantized((4, 6), 8), _scale(4, 1)),
        (Large((1, 333), -1.0, 1.0), Quantized((37, 333), 8), _scale(37, 1)),
        (Large((3, 2, 160), -1.0, 1.0), Quantized((65, 160), 8), _scale(65, 5)),
        (Large((1, 320), -1.0, 1.0), Quantized((37, 160), 4), _scale(37, 10)),
        (Large((7, 176), -1.0, 1.0), Quantized((37, 88), 4), _scale(37, 4)),
        (Large((70, 64), -1.0, 1.0), Quantized((65, 32), 4), _scale(65, 2)),
    ],
    loose=8,
)


def _integer_matmul(x: Any, y: Any) -> Any:
    return np.matmul(x, y, dtype=np.int32)


row(
    "integer_matmul",
    _integer_matmul,
    [
        (Quantized((2, 3), 8), Quantized((3, 4), 8)),
        (Quantized((2, 3), 4), Quantized((3, 1), 8)),
        (Quantized((1, 5), 8), Quantized((2, 5, 3), 4)),
        (Quantized((2, 1, 4, 300), 4), Quantized((3, 300, 2), 4)),
        (Quantized((0, 3), 8), Quantized((3, 4), 8)),
        (Quantized((2, 0), 8), Quantized((0, 4), 8)),
        (Quantized((40, 1100), 8), Quantized((1100, 50), 8)),
        (Quantized((3, 17, 129), 4), Quantized((129, 70), 8)),
    ],
    int64_only=True,
    widened=True,
)


def _integer_conv(x: Any, weight: Any, value: Any, stride: Shape, low: Shape, high: Shape, dilation: Shape) -> Any:
    pairs = [(0, 0), (0, 0), *zip(low, high, strict=True)]
    spread = np.pad(x.astype(np.int64), pairs, constant_values=int(value))
    spans = [(size - 1) * gap + 1 for size, gap in zip(weight.shape[2:], dilation, strict=True)]
    dims = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(spread, spans, dims)
    steps, gaps = ([slice(None, None, step) for step in sizes] for sizes in (stride, dilation))
    windows = windows[(slice(None), slice(None), *steps, *gaps)]
    inner = [1, *range(x.ndim, 2 * x.ndim - 2)]
    out = np.tensordot(windows, weight.astype(np.int64), (inner, [1, *dims]))
    return np.moveaxis(out, -1, 1).astype(np.int32)


row(
    "integer_conv",
    _integer_conv,
    [
        (Quantized((2, 3, 6), 8), Quantized((4, 3, 2), 8), Quantized((), 8), (2,), (1,), (0,), (1,)),
        (Quantized((1, 2, 5, 6), 4), Quantized((3, 2, 3, 2), 8), Quantized((), 4), (1, 1), (0, 0), (0, 0), (2, 3)),
        (Quantized((2, 2, 4, 5), 4), Quantized((3, 2, 1, 1), 8), Quantized((), 4), (1, 1), (0, 0), (0, 0), (1, 1)),
        (
            Quantized((1, 1, 3, 4, 5), 4),
            Quantized((2, 1, 2, 2, 3), 4),
            Quantized((), 4),
            *([(1, 2, 1)] + [(1, 0, 2)] * 2 + [(1,) * 3]),
        ),
        (Quantized((0, 2, 4, 5), 8), Quantized((3, 2, 2, 2), 8), Quantized((), 8), (1, 1), (0, 0), (0, 0), (1, 1)),
        (Quantized((2, 24, 9, 21), 4), Quantized((33, 24, 3, 3), 8), Quantized((), 4), (2, 2), (1, 0), (1, 2), (1, 1)),
        (Quantized((1, 24, 9, 21), 4), Quantized((33, 24, 3, 3), 8), Quantized((), 4), (1, 3), (2, 1), (1, 1), (1, 1)),
        (Quantized((1, 130, 7, 7), 8), Quantized((70, 130, 3, 3), 8), Quantized((), 8), (1, 1), (1, 1), (1, 1), (1, 1)),
    ],
    int64_only=True,
    widened=True,
)


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
    grad: Any, q: Any, k: Any, v: Any, out: Any, logsumexp: Any, mask: Any, offset: int | None, scale: float
) -> Any:
    weights, total = _weights(q, k, mask, offset, scale)
    weights = weights / total
    grad_weight = grad @ v.swapaxes(-1, -2)
    grad_score = weights * (grad_weight - (weights * grad_weight).sum(-1, keepdims=True)) * scale
    return grad_score @ k, grad_score.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad


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
                grad, out, sums = make(*lead, t, f, low=-1.0, high=1.0), make(*lead, t, f), make(*lead, t)
                examples.append((grad, q, k, v, out, sums, *how))
            else:
                examples.append((q, k, v, *how))
    return examples


def _with_results(device: Any, args: list[Any]) -> list[Any]:
    """Replace the samples of the result and of logsumexp."""
    grad, q, k, v, _, _, *how = args
    return [grad, q, k, v, *device.attention(q, k, v, *how), *how]


def _large(*shape: int, low: float = -2.0, high: float = 2.0) -> Large:
    return Large(shape, low, high)


row("attention", _attention, _examples(False), loose=16)
row("attention_backward", _attention_backward, _examples(True), loose=128, completed=_with_results)
