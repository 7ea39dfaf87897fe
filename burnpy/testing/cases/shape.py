"""Examples of operations that reshape, slice and join, and of the matrix product."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.testing.cases.samples import ByKind, Large, x
from burnpy.testing.cases.table import row

_ALL = slice(None, None, 1)


_KEYS = [
    (0, 1),
    (_ALL, _ALL),
    (slice(0, 2, 1), 2),
    (1, slice(0, 4, 2)),
    (slice(None, None, -1), slice(3, 0, -2)),
    (None, 1, None, _ALL),
    (slice(2, 2, 1), _ALL),
    (_ALL, slice(0, 4, 3)),
    (1,),
    (slice(2, None, -2), None),
]


def _scattered(x: Any, key: Any, src: Any) -> Any:
    out = x.copy()
    out[key] = src
    return out


_NUMPYS_MODES: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


_PAIRS = (
    ((4,), ((2, 3),)),
    ((3, 4), ((0, 0), (0, 1))),
    ((2, 3, 4), ((1, 1), (2, 0), (3, 2))),
    ((4, 5), ((2, 1), (0, -2))),
    ((0, 3), ((0, 0), (2, 1))),
)


def _padded(x: Any, pairs: Any, how: str) -> Any:
    x = np.pad(x, [(max(low, 0), max(high, 0)) for low, high in pairs], _NUMPYS_MODES[how])
    return x[
        tuple([slice(max(-low, 0), size - max(-high, 0)) for size, (low, high) in zip(x.shape, pairs, strict=True)])
    ]


def _padded_shape(shape: Any, pairs: Any) -> Any:
    return tuple([low + size + high for size, (low, high) in zip(shape, pairs, strict=True)])


def _folded(grad: Any, shape: Any, pairs: Any, how: str) -> Any:
    """Return the sum of the elements of the gradient by the element of x that they are."""
    out = np.zeros(shape, grad.dtype)
    places = _padded(np.arange(out.size).reshape(shape), pairs, how)
    np.add.at(out.reshape(-1), places.reshape(-1), grad.reshape(-1))
    return out


def _diagonals(name: str, f: Any) -> None:
    row(name, f, [(a, k) for a in (x(3, 4), x(4, 2), x(2, 3, 3), x(0, 3)) for k in (-2, -1, 0, 1, 3)])


row(
    "reshape",
    lambda x, shape: x.reshape(shape),
    [(x(2, 6), (3, 4)), (x(2, 6), (12,)), (x(), (1, 1)), (x(1), ()), (x(0, 3), (3, 0)), (x(2, 3), (2, 1, 3))],
)


row(
    "permute",
    np.transpose,
    [(x(2, 3, 4), (2, 0, 1)), (x(2, 3), (0, 1)), (x(2, 3), (1, 0)), (x(), ()), (x(0, 3), (1, 0))],
)


row(
    "expand",
    np.broadcast_to,
    [
        (x(3), (2, 3)),
        (x(2, 1), (2, 3)),
        (x(), (2, 2)),
        (x(), ()),
        (x(2, 3), (2, 3)),
        (x(1, 3), (0, 3)),
        (x(1), (0,)),
        (x(0, 1), (2, 0, 3)),
        (Large((1, 80)), (70, 80)),
    ],
)


row(
    "slice",
    lambda x, key: x[key],
    [*((x(3, 4), key) for key in _KEYS), (x(), ()), (x(), (None,)), (x(0, 3), (_ALL, 1))],
)


row(
    "slice_scatter",
    _scattered,
    [
        (x(3, 4), (0, 1), x()),
        (x(3, 4), (1, slice(0, 4, 2)), x(2)),
        (x(3, 4), (slice(None, None, -1), slice(3, 0, -2)), x(3, 2)),
        (x(3, 4), (_ALL, slice(1, 3, 1)), x(3, 1)),
        (x(3, 4), (None, 1, _ALL), x(1, 4)),
        (x(3, 4), (slice(2, 2, 1), _ALL), x(4)),
        (x(3, 4), (1,), x(4)),
        (x(3, 4), (_ALL, 2), ByKind(0.75, 2)),
        (x(), (), x(high=1.9)),
        (x(0, 3), (_ALL, 1), x(0)),
    ],
)


row(
    "cat",
    np.concatenate,
    [
        ([x(2, 3), x(1, 3), x(2, 3, high=1.9)], 0),
        ([x(2, 3), x(2, 1)], 1),
        ([x(2, 3)], 0),
        ([x(0, 3), x(2, 3)], 0),
        ([x(0, 3), x(0, 2)], 1),
        ([x(2, n) for n in (1, 2, 3, 1, 2)], 1),
    ],
)


row("flip", np.flip, [(x(2, 3), (0,)), (x(2, 3), (1,)), (x(2, 3), (0, 1)), (x(2, 3), ()), (x(), ()), (x(0, 3), (0,))])


row("mT", lambda x: np.swapaxes(x, -1, -2), [(x(2, 3),), (x(2, 3, 4),), (x(0, 3),)])


row("pad_ends", _padded, [(x(*shape), pairs, how) for how in _NUMPYS_MODES for shape, pairs in _PAIRS])


row("pad_ends_backward", _folded, [(x(*_padded_shape(*e)), *e, how) for how in _NUMPYS_MODES for e in _PAIRS])


_diagonals("tril", np.tril)


_diagonals("triu", np.triu)
