"""Examples of operations that create, convert, reshape, slice and join primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from burnpy.backend.dtypes import bool_, float32, float64, int32, int64, kind_of
from burnpy.testing.cases.samples import CASE, ByKind, Large, Values, x
from burnpy.testing.cases.table import row

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType

_KINDS: Any = ("float", "int", "bool", "complex")
_SOME = [x(2, 3), x(), x(0, 3), x(3, 1, 2)]


def _converted(x: Any, dtype: Any) -> Any:
    return x.astype(dtype)


row(
    "full",
    np.full,
    [(s, v, CASE) for s in ((2, 3), (), (0, 3)) for v in (ByKind(0.75, 2), ByKind(0, 0, False))],
    kinds=_KINDS,
)
row(
    "arange",
    lambda start, stop, step, dtype: np.arange(start, stop, step),
    [(0, 5, 1, CASE), (5, 0, -2, CASE), (0, 0, 1, CASE), (3, 1, 1, CASE), (2, 9, 3, CASE), (126, 128, 1, CASE)],
    kinds=("float", "int"),
)
row(
    "linspace",
    lambda start, stop, num, dtype: np.linspace(start, stop, num),
    [(0.0, 1.0, 5, CASE), (1.0, -1.0, 3, CASE), (2.0, 3.0, 1, CASE), (0.0, 1.0, 0, CASE)],
    kinds=("float",),
)
row("eye", lambda n, m, dtype: np.eye(n, m), [(3, 3, CASE), (2, 3, CASE), (3, 2, CASE), (0, 2, CASE)], kinds=_KINDS)
row(
    "cast",
    _converted,
    [
        (a, d)
        for a in [*_SOME, Values((1.0, -1.0, float("inf"), float("nan")))]
        for d in (ByKind(float32, int32, bool_), ByKind(float64, int64, bool_))
    ],
    kinds=("float", "int", "bool"),
)
row("to_float", _converted, [(a, d) for a in _SOME for d in (float32, float64)])
row("to_int", _converted, [(a, d) for a in [*_SOME, Values((1.5, -1.5, 2.0, -0.5))] for d in (int32, int64)])
row("to_bool", lambda x: x != 0, [(a,) for a in [*_SOME, Values((0.0, -0.0, 1.0, float("inf"), float("nan")))]])
row("detach", lambda x: x, [(a,) for a in _SOME])

Property: TypeAlias = "Callable[[Any, DType], None]"
"""A function that raises an AssertionError if the operation of a device lacks a property, for a dtype."""

SHAPES = ((2, 3), (), (0, 3))


def from_numpy(device: Any, dtype: DType) -> None:
    """Check that values, shape and dtype are preserved, for any layout, and that the array is copied."""
    wide = np.arange(24).reshape(4, 6).astype(dtype)
    for array in (wide, wide.T, wide[::-2, 1::3], wide[0, 0], wide[:0], np.broadcast_to(wide[:1], (3, 6))):
        array = np.asarray(array)
        x = device.from_numpy(array)
        assert (x.shape, x.dtype) == (array.shape, dtype), f"from_numpy made {x.shape} and {x.dtype}"
        assert np.array_equal(device.to_numpy(x), array), f"from_numpy changed {array} to {device.to_numpy(x)}"
    array = np.ones((3,), dtype)
    x = device.from_numpy(array)
    array[0] = 0
    assert device.to_numpy(x)[0] == 1, "a change of the array reached the primitive that from_numpy made of it"
    swapped = np.ones((3,), dtype).astype(dtype.newbyteorder())
    assert device.from_numpy(swapped).dtype == dtype, "from_numpy keeps a foreign byte order"


def adopt_numpy(device: Any, dtype: DType) -> None:
    """Check that values, shape and dtype are preserved."""
    for shape in SHAPES:
        array = np.ones(shape, dtype)
        x = device.adopt_numpy(array)
        assert (x.shape, x.dtype) == (shape, dtype), f"adopt_numpy made {x.shape} and {x.dtype}"
        assert np.array_equal(device.to_numpy(x), np.ones(shape, dtype)), f"adopt_numpy made {device.to_numpy(x)}"


def to_numpy(device: Any, dtype: DType) -> None:
    """Check that values, shape and dtype are preserved, and that 0-d primitives give an array too."""
    for shape in SHAPES:
        array = device.to_numpy(device.full(shape, 1, dtype))
        assert isinstance(array, np.ndarray), f"to_numpy gave a {type(array).__name__}"
        assert (array.shape, array.dtype) == (shape, dtype), f"to_numpy gave {array.shape} and {array.dtype}"


PROPERTIES: dict[str, tuple[frozenset[str], Property]] = {
    "from_numpy": (frozenset(_KINDS), from_numpy),
    "adopt_numpy": (frozenset(_KINDS), adopt_numpy),
    "to_numpy": (frozenset(_KINDS), to_numpy),
}
"""The check of each operation, and the kinds of dtypes in which it runs; those that draw are in the file ``random``."""


def kinds_fit(name: str, dtype: DType) -> bool:
    """Return whether the property of an operation is checked in a dtype."""
    return kind_of(dtype) in PROPERTIES[name][0]


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
    """Add each element of the gradient to the element of x that it is a copy of."""
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
row(
    "stack",
    np.stack,
    [
        *[([x(2, 3), x(2, 3, high=1.9), x(2, 3)], dim) for dim in range(3)],
        ([x(2, 3)], 0),
        ([x(), x()], 0),
        ([x(0, 3), x(0, 3)], 1),
    ],
)
row("flip", np.flip, [(x(2, 3), (0,)), (x(2, 3), (1,)), (x(2, 3), (0, 1)), (x(2, 3), ()), (x(), ()), (x(0, 3), (0,))])
row("mT", lambda x: np.swapaxes(x, -1, -2), [(x(2, 3),), (x(2, 3, 4),), (x(0, 3),)])
row("pad_ends", _padded, [(x(*shape), pairs, how) for how in _NUMPYS_MODES for shape, pairs in _PAIRS])
row("pad_ends_backward", _folded, [(x(*_padded_shape(*e)), *e, how) for how in _NUMPYS_MODES for e in _PAIRS])
_diagonals("tril", np.tril)
_diagonals("triu", np.triu)
