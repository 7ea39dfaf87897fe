"""Cases of convolution and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Array, Large
from burnpy.testing.cases.table import row


def _conv2d(x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Position by position."""
    (n, c, *_), (o, per, *kernel) = x.shape, weight.shape
    wide = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    counts = [(size - r) // s + 1 for size, r, s in zip(wide.shape[2:], reach, stride, strict=True)]
    out = np.zeros((n, o, *counts))
    for i, j in np.ndindex(*counts):
        rows = slice(i * stride[0], i * stride[0] + reach[0], dilation[0])
        columns = slice(j * stride[1], j * stride[1] + reach[1], dilation[1])
        window = wide[:, :, rows, columns].reshape(n, groups, 1, per, *kernel)
        out[:, :, i, j] = (window * weight.reshape(groups, o // groups, per, *kernel)).sum((3, 4, 5)).reshape(n, o)
    return out if c else np.zeros((n, o, *counts))


def _adjoint(f: Any, shape: Any, grad: Any) -> Any:
    """The transpose of a linear function of an array of ``shape``, column by column."""
    out = np.zeros(shape)
    for position in np.ndindex(*shape):
        unit = np.zeros(shape)
        unit[position] = 1.0
        out[position] = (f(unit) * grad).sum()
    return out


def _conv2d_input(grad: Any, weight: Any, shape: Any, *where: Any) -> Any:
    return _adjoint(lambda unit: _conv2d(unit, weight, *where), shape, grad)


def _conv2d_weight(grad: Any, x: Any, shape: Any, *where: Any) -> Any:
    return _adjoint(lambda unit: _conv2d(x, unit, *where), shape, grad)


_ONE = ((1, 1), (0, 0), (1, 1), 1)
_SHAPES: list[tuple[Any, ...]] = [  # of x, of the weight, of the result; stride, padding, dilation, groups
    ((2, 1, 4, 4), (2, 1, 3, 3), (2, 2, 4, 4), (1, 1), (1, 1), (1, 1), 1),
    ((1, 2, 3, 4), (3, 2, 2, 2), (1, 3, 2, 3), *_ONE),
    ((2, 2, 3, 2), (3, 2, 1, 1), (2, 3, 3, 2), *_ONE),
    ((1, 2, 6, 5), (2, 2, 3, 2), (1, 2, 3, 2), (2, 3), (1, 1), (1, 2), 1),
    ((1, 4, 3, 3), (4, 2, 2, 2), (1, 4, 2, 2), (1, 1), (0, 0), (1, 1), 2),
    ((2, 2, 3, 3), (4, 1, 2, 3), (2, 4, 4, 1), (1, 1), (1, 0), (1, 1), 2),
    ((1, 1, 5, 5), (1, 1, 1, 1), (1, 1, 3, 3), (2, 2), (0, 0), (1, 1), 1),
    ((0, 1, 3, 3), (1, 1, 2, 2), (0, 1, 2, 2), *_ONE),
]
_BLOCK: list[tuple[Any, ...]] = [((7, 3, 9, 8), (5, 3, 3, 3), (7, 5, 9, 8), (1, 1), (1, 1), (1, 1), 1)]
_WIDE: list[tuple[Any, ...]] = [((70, 20, 12, 12), (6, 20, 3, 3), (70, 6, 12, 12), (1, 1), (1, 1), (1, 1), 1)]


def _arguments(first: int, second: int, given: int | None = None, *, bias: bool = False) -> list[tuple[Any, ...]]:
    """An example of each: two of the three arrays, the shape of the third where it is ``given``, and where."""

    def drawn(sample: Any, shape: tuple[int, ...], scale: float = 1.0) -> Array:
        array: Array = sample(shape, -scale, scale)
        return array

    found = []
    for three, sample in [*((s, Array) for s in _SHAPES), *((s, Large) for s in _BLOCK)]:
        arrays = [drawn(sample, three[first]), drawn(sample, three[second])]
        middle = [] if given is None else [three[given]]
        if bias:
            middle = [drawn(sample, three[1][:1])]
        found.append((*arrays, *middle, *three[3:]))
    return found


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

