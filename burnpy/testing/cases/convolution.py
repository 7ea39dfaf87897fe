"""Examples of convolution and its gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Array, Large
from burnpy.testing.cases.table import row


def _conv2d(x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Compute a convolution window by window."""
    o, per = weight.shape[:2]
    windows = list(_windows(x.shape, weight.shape[2:], stride, padding, dilation))
    out = np.zeros((x.shape[0], o, *(1 + max(at) for at in zip(*(at for at, _ in windows), strict=True))))
    wide = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    for (i, j), key in windows:
        for c in range(o):
            first = c // (o // groups) * per
            out[:, c, i, j] = (wide[key][:, first : first + per] * weight[c]).sum((1, 2, 3))
    return out


def _conv2d_input(grad: Any, weight: Any, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    o, per = weight.shape[:2]
    wide = np.zeros((*shape[:2], *(n + 2 * p for n, p in zip(shape[2:], padding, strict=True))))
    for (i, j), key in _windows(shape, weight.shape[2:], stride, padding, dilation):
        for c in range(o):
            first = c // (o // groups) * per
            wide[key][:, first : first + per] += grad[:, c, i, j][:, None, None, None] * weight[c]
    return wide[:, :, padding[0] : padding[0] + shape[2], padding[1] : padding[1] + shape[3]]


def _conv2d_weight(grad: Any, x: Any, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    o, per = shape[:2]
    out = np.zeros(shape)
    wide = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    for (i, j), key in _windows(x.shape, shape[2:], stride, padding, dilation):
        for c in range(o):
            first = c // (o // groups) * per
            out[c] += (grad[:, c, i, j][:, None, None, None] * wide[key][:, first : first + per]).sum(0)
    return out


def _windows(shape: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the position of each window, and the key of its elements in the padded array."""
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    places = zip(shape[2:], padding, reach, stride, strict=True)
    for at in np.ndindex(*((n + 2 * p - r) // s + 1 for n, p, r, s in places)):
        spans = zip(at, stride, reach, dilation, strict=True)
        yield at, (slice(None), slice(None), *(slice(k * s, k * s + r, d) for k, s, r, d in spans))


_ONE = ((1, 1), (0, 0), (1, 1), 1)
_SHAPES: list[tuple[Any, ...]] = [  # shapes of x, weight and result; stride, padding, dilation, groups
    ((2, 1, 4, 4), (2, 1, 3, 3), (2, 2, 4, 4), (1, 1), (1, 1), (1, 1), 1),
    ((1, 2, 3, 4), (3, 2, 2, 2), (1, 3, 2, 3), *_ONE),
    ((2, 2, 3, 2), (3, 2, 1, 1), (2, 3, 3, 2), *_ONE),
    ((1, 2, 6, 5), (2, 2, 3, 2), (1, 2, 3, 2), (2, 3), (1, 1), (1, 2), 1),
    ((1, 4, 3, 3), (4, 2, 2, 2), (1, 4, 2, 2), (1, 1), (0, 0), (1, 1), 2),
    ((2, 2, 3, 3), (4, 1, 2, 3), (2, 4, 4, 1), (1, 1), (1, 0), (1, 1), 2),
    ((1, 1, 5, 5), (1, 1, 1, 1), (1, 1, 3, 3), (2, 2), (0, 0), (1, 1), 1),
    ((0, 1, 3, 3), (1, 1, 2, 2), (0, 1, 2, 2), *_ONE),
]
_SMOOTH = [Array, Large, Large, Array, Array, Large, Large, Large]  # derivatives are checked for some
_BLOCK: list[tuple[Any, ...]] = [
    ((7, 3, 9, 8), (5, 3, 3, 3), (7, 5, 9, 8), (1, 1), (1, 1), (1, 1), 1),
    ((3, 13, 6, 7), (2, 13, 2, 3), (3, 2, 4, 3), (2, 2), (1, 0), (1, 1), 1),
    ((3, 13, 6, 7), (2, 13, 2, 3), (3, 2, 6, 3), (1, 1), (1, 0), (2, 2), 1),
    ((2, 13, 5, 5), (14, 13, 2, 3), (2, 14, 6, 5), (1, 1), (1, 1), (1, 1), 1),
]
_WIDE: list[tuple[Any, ...]] = [((40, 16, 12, 12), (3, 16, 3, 3), (40, 3, 12, 12), (1, 1), (1, 1), (1, 1), 1)]


def _arguments(first: int, second: int, given: int | None = None, *, bias: bool = False) -> list[tuple[Any, ...]]:
    """Return examples of two of the three arrays, the shape of the third if ``given``, and the geometry."""

    def drawn(sample: Any, shape: tuple[int, ...], scale: float = 1.0) -> Array:
        array: Array = sample(shape, -scale, scale)
        return array

    examples = []
    for three, sample in [*zip(_SHAPES, _SMOOTH, strict=True), *((s, Large) for s in _BLOCK)]:
        arrays = [drawn(sample, three[first]), drawn(sample, three[second])]
        middle = [] if given is None else [three[given]]
        if bias:
            middle = [drawn(sample, three[1][:1])]
        examples.append((*arrays, *middle, *three[3:]))
    return examples


_FAR = [(Large(s[0], -0.5, 0.5), Large(s[1], -0.5, 0.5), *s[3:]) for s in _WIDE]

row("conv2d", _conv2d, [*_arguments(0, 1), *_FAR], loose=16)
row(
    "conv2d_bias",
    lambda x, weight, bias, *where: _conv2d(x, weight, *where) + bias.reshape(-1, 1, 1),
    _arguments(0, 1, bias=True),
    loose=16,
)
row("conv2d_input", _conv2d_input, _arguments(2, 1, 0), loose=16)
row("conv2d_weight", _conv2d_weight, _arguments(2, 0, 1), loose=64)
