"""Examples of convolution and its gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Array, Large
from burnpy.testing.cases.table import row


def _convolution(x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Compute a convolution of images or volumes window by window."""
    o, per = weight.shape[:2]
    windows = list(_windows(x.shape, weight.shape[2:], stride, padding, dilation))
    out = np.zeros((x.shape[0], o, *(1 + max(at) for at in zip(*(at for at, _ in windows), strict=True))))
    wide = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    for at, key in windows:
        for c in range(o):
            first = c // (o // groups) * per
            products = wide[key][:, first : first + per] * weight[c]
            out[(slice(None), c, *at)] = products.reshape((len(products), weight[c].size)).sum(1)
    return out


def _convolution_input(
    grad: Any, weight: Any, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    o, per = weight.shape[:2]
    wide = np.zeros((*shape[:2], *(n + 2 * p for n, p in zip(shape[2:], padding, strict=True))))
    for at, key in _windows(shape, weight.shape[2:], stride, padding, dilation):
        for c in range(o):
            first = c // (o // groups) * per
            wide[key][:, first : first + per] += np.multiply.outer(grad[(slice(None), c, *at)], weight[c])
    return wide[(slice(None), slice(None), *(slice(p, p + n) for p, n in zip(padding, shape[2:], strict=True)))]


def _convolution_weight(grad: Any, x: Any, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    o, per = shape[:2]
    out = np.zeros(shape)
    wide = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    for at, key in _windows(x.shape, shape[2:], stride, padding, dilation):
        for c in range(o):
            first = c // (o // groups) * per
            out[c] += np.tensordot(grad[(slice(None), c, *at)], wide[key][:, first : first + per], 1)
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
