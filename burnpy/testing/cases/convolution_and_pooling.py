"""Examples of operations on windows: convolution, pooling, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from burnpy.backend.operations.convolution import window_counts
from burnpy.testing.cases.samples import Array, Large, Values, x
from burnpy.testing.cases.table import row


def _convolution(x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Compute a convolution of images or volumes window by window."""
    windows = list(_windows(x.shape, weight.shape[2:], stride, padding, dilation))
    counts = [1 + max(at) for at in zip(*(at for at, _ in windows), strict=True)]
    out = np.zeros((len(x), len(weight), *counts))
    wide, weights = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding))), _in_groups(weight, groups)
    for at, key in windows:
        products = _members_in_groups(wide[key], groups) @ weights.mT
        out[(slice(None), slice(None), *at)] = products.swapaxes(0, 1).reshape(out.shape[:2])
    return out


def _in_groups(weight: Any, groups: int) -> Any:
    """Return weights or their gradient as one matrix for each group, with a row for each channel of the result."""
    return weight.reshape(groups, len(weight) // groups, int(np.prod(weight.shape[1:])))


def _members_in_groups(x: Any, groups: int) -> Any:
    """Return elements of a window, or of the result, as one matrix for each group, with a row for each member."""
    return x.reshape(len(x), groups, int(np.prod(x.shape[1:])) // groups).swapaxes(0, 1)


def _convolution_input(
    grad: Any, weight: Any, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    wide = np.zeros((*shape[:2], *(n + 2 * p for n, p in zip(shape[2:], padding, strict=True))))
    weights = _in_groups(weight, groups)
    for at, key in _windows(shape, weight.shape[2:], stride, padding, dilation):
        products = _members_in_groups(grad[(slice(None), slice(None), *at)], groups) @ weights
        wide[key] += products.swapaxes(0, 1).reshape(wide[key].shape)
    return wide[(slice(None), slice(None), *(slice(p, p + n) for p, n in zip(padding, shape[2:], strict=True)))]


def _convolution_weight(grad: Any, x: Any, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    out = _in_groups(np.zeros(shape), groups)
    wide = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    for at, key in _windows(x.shape, shape[2:], stride, padding, dilation):
        by_results = _members_in_groups(grad[(slice(None), slice(None), *at)], groups)
        out += by_results.mT @ _members_in_groups(wide[key], groups)
    return out.reshape(shape)


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

_ONE_OF_3 = ((1, 1, 1), (0, 0, 0), (1, 1, 1), 1)
_VOLUMES: list[tuple[Any, ...]] = [
    ((1, 2, 2, 3, 2), (2, 2, 2, 2, 1), (1, 2, 1, 2, 2), *_ONE_OF_3),
    ((2, 1, 4, 3, 3), (1, 1, 2, 2, 2), (2, 1, 3, 2, 4), (2, 1, 1), (1, 0, 1), (1, 1, 1), 1),
    ((1, 2, 5, 3, 4), (2, 1, 2, 2, 2), (1, 2, 2, 1, 3), (2, 3, 1), (0, 0, 1), (2, 1, 3), 2),
    ((0, 1, 3, 3, 2), (1, 1, 2, 2, 2), (0, 1, 2, 2, 1), *_ONE_OF_3),
    ((2, 3, 5, 6, 8), (5, 3, 3, 3, 3), (2, 5, 5, 6, 8), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    ((1, 4, 7, 6, 9), (6, 2, 2, 3, 2), (1, 6, 4, 2, 5), (2, 2, 2), (1, 0, 1), (1, 1, 2), 2),
]


def _arguments(
    first: int, second: int, given: int | None = None, *, bias: bool = False, volumes: bool = False
) -> list[tuple[Any, ...]]:
    """Return examples of two of the three arrays, the shape of the third if ``given``, and the geometry."""

    def drawn(sample: Any, shape: tuple[int, ...], scale: float = 1.0) -> Array:
        array: Array = sample(shape, -scale, scale)
        return array

    examples = []
    shapes: list[tuple[Any, Any]] = [*zip(_SHAPES, _SMOOTH, strict=True), *((s, Large) for s in _BLOCK)]
    if volumes:
        shapes = [*((s, Array) for s in _VOLUMES[:1]), *((s, Large) for s in _VOLUMES[1:])]
    for three, sample in shapes:
        arrays = [drawn(sample, three[first]), drawn(sample, three[second])]
        middle = [] if given is None else [three[given]]
        if bias:
            middle = [drawn(sample, three[1][:1])]
        examples.append((*arrays, *middle, *three[3:]))
    return examples


_FAR = [(Large(s[0], -0.5, 0.5), Large(s[1], -0.5, 0.5), *s[3:]) for s in _WIDE]

for _name, _volumes in (("conv2d", False), ("conv3d", True)):
    row(_name, _convolution, [*_arguments(0, 1, volumes=_volumes), *([] if _volumes else _FAR)], loose=16)
    row(
        f"{_name}_bias",
        lambda x, weight, bias, *where: _convolution(x, weight, *where) + bias.reshape((-1, *(1,) * (x.ndim - 2))),
        _arguments(0, 1, bias=True, volumes=_volumes),
        loose=16,
    )
    row(f"{_name}_input", _convolution_input, _arguments(2, 1, 0, volumes=_volumes), loose=16)
    row(f"{_name}_weight", _convolution_weight, _arguments(2, 0, 1, volumes=_volumes), loose=64)


def _places(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, counts: Any) -> Any:
    """Yield the position of each window, and the positions of its elements in x, without padding."""
    for at in np.ndindex(*counts):
        inside = [
            [i * s - p + k * d for k in range(n) if 0 <= i * s - p + k * d < size]
            for i, s, p, d, n, size in zip(at, stride, padding, dilation, kernel, x.shape[2:], strict=True)
        ]
        yield at, np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)


def _max_pool2d(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    counts = window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)
    out = np.zeros((*x.shape[:2], *counts))
    for (i, j), key in _places(x, kernel, stride, padding, dilation, counts):
        out[:, :, i, j] = x[key].max((2, 3))
    return out


def _max_pool2d_backward(grad: Any, x: Any, out: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    total = np.zeros(x.shape)
    for (i, j), key in _places(x, kernel, stride, padding, dilation, out.shape[2:]):
        for n, c in np.ndindex(*x.shape[:2]):
            rows, columns = key[2].ravel(), key[3].ravel()
            hits = [
                (a, b) for a in rows for b in columns if x[n, c, a, b] >= out[n, c, i, j] or np.isnan(x[n, c, a, b])
            ]
            if hits:
                total[(n, c, *hits[0])] += grad[n, c, i, j]
    return total


def _max_pool2d_indices(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    counts = window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)
    places = np.arange(x.shape[2] * x.shape[3]).reshape(x.shape[2:])
    indices = np.zeros((*x.shape[:2], *counts), np.int64)
    for (i, j), key in _places(x, kernel, stride, padding, dilation, counts):
        window = x[key].reshape((*x.shape[:2], key[2].size * key[3].size))
        indices[:, :, i, j] = places[key[2][0, 0], key[3][0, 0]].ravel()[window.argmax(2)]
    return indices


def _area(shape: Any, at: Any, kernel: Any, stride: Any, padding: Any, count_include_pad: bool) -> int:
    sizes: list[int] = []
    for n, i, k, s, p in zip(shape[2:], at, kernel, stride, padding, strict=True):
        low, high = (-p, n + p) if count_include_pad else (0, n)
        sizes.append(int(min(i * s - p + k, high) - max(i * s - p, low)))
    return sizes[0] * sizes[1]


def _avg_pool2d(
    x: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor: Any
) -> Any:
    counts = window_counts(x.shape, kernel, stride, padding, (1, 1), ceil_mode)
    out = np.zeros((*x.shape[:2], *counts))
    for at, key in _places(x, kernel, stride, padding, (1, 1), counts):
        area = _area(x.shape, at, kernel, stride, padding, count_include_pad)
        out[:, :, at[0], at[1]] = x[key].sum((2, 3)) / (divisor or area)
    return out


def _avg_pool2d_backward(
    grad: Any, shape: Any, kernel: Any, stride: Any, padding: Any, count_include_pad: bool, divisor: Any
) -> Any:
    total = np.zeros(shape)
    for at, key in _places(total, kernel, stride, padding, (1, 1), grad.shape[2:]):
        area = _area(shape, at, kernel, stride, padding, count_include_pad)
        total[key] += grad[:, :, at[0], at[1], None, None] / (divisor or area)
    return total


def _adaptive(x: Any, size: Any) -> Any:
    out = np.zeros((*x.shape[:2], *size))
    for i, j in np.ndindex(*size):
        (top, bottom), (left, right) = (
            (k * n // m, -(-(k + 1) * n // m)) for k, n, m in zip((i, j), x.shape[2:], size, strict=True)
        )
        out[:, :, i, j] = x[:, :, top:bottom, left:right].mean((2, 3))
    return out


def _adaptive_indices(x: Any, size: Any) -> Any:
    out = np.zeros((*x.shape[:2], *size), np.int64)
    places = np.arange(x.shape[2] * x.shape[3]).reshape(x.shape[2:])
    for i, j in np.ndindex(*size):
        rows, columns = (
            slice(k * n // m, -(-(k + 1) * n // m)) for k, n, m in zip((i, j), x.shape[2:], size, strict=True)
        )
        window = x[:, :, rows, columns].reshape((*x.shape[:2], places[rows, columns].size))
        out[:, :, i, j] = places[rows, columns].ravel()[window.argmax(2)]
    return out


def _adaptive_backward(grad: Any, shape: Any) -> Any:
    total = np.zeros(shape)
    for i, j in np.ndindex(*grad.shape[2:]):
        (top, bottom), (left, right) = (
            (k * n // m, -(-(k + 1) * n // m)) for k, n, m in zip((i, j), shape[2:], grad.shape[2:], strict=True)
        )
        total[:, :, top:bottom, left:right] += grad[:, :, i, j, None, None] / ((bottom - top) * (right - left))
    return total


_SIZES: list[tuple[Any, ...]] = [  # shape of x, size of the result
    ((2, 2, 4, 6), (2, 3)),
    ((1, 2, 5, 3), (2, 2)),
    ((2, 1, 3, 3), (1, 1)),
    ((1, 1, 2, 3), (3, 5)),
    ((0, 1, 2, 3), (1, 2)),
]
_NAN, _INF = math.nan, math.inf
_SPECIAL = [(Values((1.0, 2.0, _NAN, 3.0, 4.0, _INF, 5.0, 6.0, 7.0), (1, 1, 3, 3)), (2, 3))]
_WHERE: list[tuple[Any, ...]] = [  # shape of x, kernel, stride, padding, dilation, ceil_mode
    ((2, 1, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((1, 2, 4, 3), (3, 2), (1, 1), (1, 1), (1, 1), False),
    ((1, 1, 5, 5), (2, 2), (2, 2), (0, 0), (1, 1), True),
    ((1, 1, 5, 6), (2, 2), (1, 2), (1, 0), (2, 3), False),
    ((1, 1, 5, 4), (3, 3), (2, 2), (1, 1), (1, 1), True),
    ((1, 2, 3, 3), (1, 1), (1, 1), (0, 0), (1, 1), False),
    ((0, 1, 3, 3), (2, 2), (1, 1), (0, 0), (1, 1), False),
]
_BIG: list[tuple[Any, ...]] = [((8, 3, 20, 22), (2, 2), (2, 2), (0, 0), (1, 1), False)]
_SQUARE = Values((1.0, _NAN, 3.0, _NAN, 2.0, -_INF, -_INF, 4.0, _INF, 1.0, -_INF, -_INF), (1, 1, 3, 4))
_EMPTY_HANDED = Values((-_INF,) * 9, (1, 1, 3, 3))
_LOST: list[tuple[Any, ...]] = [
    (_SQUARE, (2, 2), (1, 2), (0, 0), (1, 1), False),
    (_SQUARE, (1, 2), (1, 2), (0, 0), (1, 1), False),
    (_EMPTY_HANDED, (2, 2), (2, 2), (1, 1), (1, 1), False),
]
_TOPS = [
    Values((_NAN, _NAN, _INF, 4.0), (1, 1, 2, 2)),
    Values((_NAN, _NAN, 2.0, 4.0, _INF, -_INF), (1, 1, 3, 2)),
    Values((-_INF,) * 4, (1, 1, 2, 2)),
]
"""The maxima of the windows of `_LOST`, which contain a NaN or no element larger than the padding."""
_AVERAGES = [
    *((shape, *how[:3], how[4], count, None) for shape, *how in [*_WHERE[:3], *_WHERE[4:]] for count in (True, False)),
    *((shape, *how[:3], how[4], False, 3) for shape, *how in (_WHERE[1], _WHERE[4])),
]


def _some(k: int, shape: Any, low: float = -2.0) -> Array:
    """Describe a sample for the k-th of many cases; derivatives are checked for every third."""
    return Large(shape, low, 2.0) if k % 3 else Array(shape, low, 2.0)


def _out(shape: Any, *how: Any) -> tuple[int, ...]:
    return (*shape[:2], *window_counts(shape, *how))


row(
    "max_pool2d",
    _max_pool2d,
    [*((x(*shape), *how) for shape, *how in _WHERE), *((Large(shape), *how) for shape, *how in _BIG), *_LOST],
)
row(
    "max_pool2d_indices",
    _max_pool2d_indices,
    [*((x(*shape), *how) for shape, *how in _WHERE), *((Large(shape), *how) for shape, *how in _BIG), *_LOST],
)
row(
    "max_pool2d_backward",
    _max_pool2d_backward,
    [
        *(
            (_some(k, _out(shape, *how)), _some(k, shape), _some(k, _out(shape, *how), -1.0), *how[:4])
            for k, (shape, *how) in enumerate(_WHERE)
        ),
        *((Large(_out(shape, *how)), Large(shape), Large(_out(shape, *how)), *how[:4]) for shape, *how in _BIG),
        *((x(*_out(given.shape, *how)), given, top, *how[:4]) for (given, *how), top in zip(_LOST, _TOPS, strict=True)),
    ],
    loose=4,
)
row("avg_pool2d", _avg_pool2d, [(_some(k, shape), *how) for k, (shape, *how) in enumerate(_AVERAGES)], loose=4)
row(
    "avg_pool2d_backward",
    _avg_pool2d_backward,
    [
        (_some(k, _out(shape, kernel, stride, padding, (1, 1), ceil)), shape, kernel, stride, padding, *how)
        for k, (shape, kernel, stride, padding, ceil, *how) in enumerate(_AVERAGES)
    ],
    loose=4,
)
row(
    "adaptive_max_pool2d_indices",
    _adaptive_indices,
    [
        *((x(*shape), size) for shape, size in _SIZES),
        *_SPECIAL,
        (Values((1.0, 2.0, 2.0, 0.0, 2.0, -0.0, 0.0, _NAN, _NAN), (1, 1, 3, 3)), (2, 2)),
        (Large((4, 6, 13, 19)), (5, 4)),
        (Large((2, 3, 30, 15)), (3, 15)),
    ],
)
row("adaptive_avg_pool2d", _adaptive, [*((x(*shape), size) for shape, size in _SIZES), *_SPECIAL], loose=4)
row(
    "adaptive_avg_pool2d_backward",
    _adaptive_backward,
    [
        *((x(*shape[:2], *size), shape) for shape, size in _SIZES),
        (Values((1.0, _NAN, _INF, -1.0), (1, 1, 2, 2)), (1, 1, 3, 4)),
    ],
    loose=4,
)
