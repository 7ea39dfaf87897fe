"""Examples of operations that create and convert primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from burnpy.backend.dtypes import bool_, float32, float64, int32, int64, kind_of
from burnpy.testing.cases.samples import CASE, ByKind, Values, x
from burnpy.testing.cases.table import row

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType

_ALL: Any = ("float", "int", "bool", "complex")
_SOME = [x(2, 3), x(), x(0, 3), x(3, 1, 2)]


def _converted(x: Any, dtype: Any) -> Any:
    return x.astype(dtype)


row(
    "full",
    np.full,
    [(s, v, CASE) for s in ((2, 3), (), (0, 3)) for v in (ByKind(0.75, 2), ByKind(0, 0, False))],
    kinds=_ALL,
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
row("eye", lambda n, m, dtype: np.eye(n, m), [(3, 3, CASE), (2, 3, CASE), (3, 2, CASE), (0, 2, CASE)], kinds=_ALL)
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
    "from_numpy": (frozenset(_ALL), from_numpy),
    "adopt_numpy": (frozenset(_ALL), adopt_numpy),
    "to_numpy": (frozenset(_ALL), to_numpy),
}
"""The check of each operation, and the kinds of dtypes in which it runs; those that draw are in the file ``random``."""


def kinds_fit(name: str, dtype: DType) -> bool:
    """Return whether the property of an operation is checked in a dtype."""
    return kind_of(dtype) in PROPERTIES[name][0]
