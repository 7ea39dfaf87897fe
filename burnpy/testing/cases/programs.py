"""Cases of `Backend.run`: programs with all extents of inputs, reductions over columns and over rows, and a gather."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy.backend.programs import Extent, Input, trace
from burnpy.testing.cases.samples import ByDType, Index, Large, x
from burnpy.testing.cases.table import row

_FULL, _ROW, _COLUMN, _SCALAR = Extent.FULL, Extent.ROW, Extent.COLUMN, Extent.SCALAR


def _wave(b: Any, x: Any, scale: Any, shift: Any, number: Any) -> Any:
    """Elementwise, of all extents: tanh(x · scale + shift) · number."""
    return b.mul(b.tanh(b.add(b.mul(x, scale), shift)), number)


def _spread(b: Any, x: Any, weight: Any) -> Any:
    """With a sum of each row: x · weight / √(mean(x²) + 1)."""
    return b.mul(b.div(x, b.sqrt(b.add(b.mean(b.square(x), (1,), True), 1.0))), weight)


def _weighted(b: Any, x: Any, factor: Any) -> Any:
    """Three results: exp(x), the sum of exp(x) · factor over rows, and the largest of each row."""
    e = b.exp(x)
    return e, b.sum(b.mul(e, factor), (0,), False), b.amax(x, (1,), True)


def _picked(b: Any, x: Any, index: Any) -> Any:
    """One element of each row: (x - Σ x)[index]."""
    return b.gather(b.sub(x, b.sum(x, (1,), True)), 1, index)


def _program(f: Callable[..., Any], *extents: Extent, index: bool = False) -> ByDType:
    def make(dtype: Any) -> Any:
        inputs = [Input(extent, dtype.name) for extent in extents]
        return trace(f, (*inputs, Input(_COLUMN, "int64")) if index else tuple(inputs))

    return ByDType(make, f.__name__)


_PROGRAMS = {
    _wave: _program(_wave, _FULL, _ROW, _COLUMN, _SCALAR),
    _spread: _program(_spread, _FULL, _ROW),
    _weighted: _program(_weighted, _FULL, _COLUMN),
    _picked: _program(_picked, _FULL, index=True),
}


def _reference(program: Any, xs: list[Any], numbers: tuple[float, ...]) -> list[Any]:
    if program.name == "_wave":
        return [np.tanh(xs[0] * xs[1] + xs[2]) * numbers[0]]
    if program.name == "_spread":
        return [xs[0] / np.sqrt((xs[0] ** 2).mean(1, keepdims=True) + 1) * xs[1]]
    if program.name == "_weighted":
        return [np.exp(xs[0]), (np.exp(xs[0]) * xs[1]).sum(0), xs[0].max(1, keepdims=True)]
    return [np.take_along_axis(xs[0] - xs[0].sum(1, keepdims=True), xs[1], 1)]


row(
    "run",
    _reference,
    [
        (_PROGRAMS[_wave], [x(3, 4), x(4), x(3, 1)], (1.5,)),
        (_PROGRAMS[_wave], [x(0, 4), x(4), x(0, 1)], (1.5,)),
        (_PROGRAMS[_wave], [Large((90, 61)), Large((61,)), Large((90, 1))], (0.5,)),
        (_PROGRAMS[_spread], [x(3, 4), x(4)], ()),
        (_PROGRAMS[_spread], [Large((30, 150)), Large((150,))], ()),
        (_PROGRAMS[_weighted], [x(3, 4), x(3, 1)], ()),
        (_PROGRAMS[_weighted], [Large((300, 17), -0.1, 0.1), Large((300, 1), 0.1, 0.2)], ()),
        (_PROGRAMS[_picked], [x(3, 4), Index(((1,), (0,), (3,)))], ()),
    ],
    kinds=("float",),
    loose=16,
)
