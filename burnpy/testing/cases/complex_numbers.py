"""Examples of complex numbers and their parts."""

from __future__ import annotations

import numpy as np

from burnpy.testing.cases.samples import Large, Values, x
from burnpy.testing.cases.table import row

_SHAPES = [(x(2, 3),), (x(3, 1, 2),), (x(),), (x(0, 3),), (Large((96, 100)),)]
_EDGES = Values((0.0, -0.0, 1.0, -1.0, 3.0))

row(
    "complex",
    lambda real, imag: real + 1j * imag,
    [(x(*s), x(*s, low=-1.0)) for s in ((2, 3), (3, 1, 2), (), (0, 3))],
)
row("real", np.real, [*_SHAPES, (_EDGES,)])
row("imag", np.imag, [*_SHAPES, (_EDGES,)])
row("conj", np.conj, [*_SHAPES, (_EDGES,)])
row("complex_abs", np.abs, [*_SHAPES, (_EDGES,)])
row("angle", np.angle, [*_SHAPES, (_EDGES,)])
