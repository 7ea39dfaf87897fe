"""The operations that are one NumPy function each, with nothing between the caller and NumPy that can be left out.

`burnpy_array` calls ``self._call(self.xp.add, x, y)``; three attributes and a frame, together a third of NumPy's own
time for a small array. Here the method's globals are the functions themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from burnpy_array.methods import specialised
from burnpy_array.pointwise import BINARY, UNARY
from burnpy_numpy.quiet import quietly, run

if TYPE_CHECKING:
    FUNCTION: Any


def _unary(self: Any, x: Any) -> Any:
    try:
        return run(FUNCTION, x)
    except RuntimeError:
        return quietly(FUNCTION, x)


def _binary(self: Any, x: Any, y: Any) -> Any:
    if type(y) is ndarray and x.dtype is y.dtype:
        try:
            return run(FUNCTION, x, y)
        except RuntimeError:
            return quietly(FUNCTION, x, y)
    return self._binary(FUNCTION, x, y)


_NAMES = {**{n: getattr(np, n) for n in (*UNARY.values(), *BINARY.values())}, **globals()}


def fast_methods() -> dict[str, Callable[..., Any]]:
    """The methods by name."""
    made = {ours: specialised(_unary, ours, theirs, _NAMES) for ours, theirs in UNARY.items()}
    return made | {ours: specialised(_binary, ours, theirs, _NAMES) for ours, theirs in BINARY.items()}
