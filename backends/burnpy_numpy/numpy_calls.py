"""Calling NumPy's functions: without warnings, with numbers as 0-d arrays, in the order of memory.

Division by zero gives inf or NaN silently, as in IEEE 754. ``with np.errstate(all="ignore")`` takes three times as long
as a small operation. NumPy stores that setting in a context variable, so here it is set once, in a dedicated
`contextvars.Context`, and `Context.run` calls functions in it at no measurable cost. NumPy adds a 0-d array in half the
time of a Python number, and so numbers are cached as such.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

import numpy as np

from burnpy.backend.dtypes import kind_of, nearest
from burnpy.backend.errors import raised_by_other_code
from burnpy.backend.primitives import DType, Shape

_context = copy_context()
_context.run(np.errstate(all="ignore").__enter__)
run = _context.run
"""``run(f, *args)`` calls f(*args) without warnings. It raises RuntimeError while the context is in use; call
`quietly` in that case."""


def quietly(f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call f(*args, **keywords) without warnings while another thread, or a caller in this one, is in the context. Call
    it while handling the RuntimeError of `run`. An error raised in a Python function, f or a signal handler, is raised
    again: f may have written to memory, and must not be called a second time."""
    error = sys.exception()
    if error is not None and raised_by_other_code(error, ()):
        raise error
    with np.errstate(all="ignore"):
        return f(*args, **keywords)


def direct(function: Any) -> Any:
    """Return a function of NumPy that looks for no other array classes, which takes a tenth of a microsecond."""
    return getattr(function, "_implementation", function)


_MAX_NUMBERS = 512
known: dict[DType, dict[complex | str, Any]] = {}
"""The cached numbers, by dtype. Zeros have their strings as keys: 0.0 and -0.0 are equal but distinct numbers."""


def constant(y: Any, dtype: DType) -> Any:
    """Return ``y`` as a 0-d array of ``dtype``, or unchanged if the dtype cannot hold it, for NumPy to handle."""
    try:
        if y.__class__ is not complex:
            return known[dtype][y or str(y)]
    except KeyError:
        pass
    if not _holds(dtype, y):
        return y
    if type(y) is complex:  # 1 - 0j equals 1, and is another number
        return np.array(y, dtype)
    try:
        with np.errstate(over="ignore"):  # 1e300 in float32 is infinity
            array = np.array(nearest(y, dtype), dtype)
    except OverflowError:
        if dtype.kind == "V":  # NumPy's error would tell nothing
            raise
        return y
    if dtype.itemsize == 2:  # operations of floats of 16 bits have kernels, and look for them if there is no number
        return array
    array.flags.writeable = False  # shared by all callers
    numbers = known.setdefault(dtype, {})
    if len(numbers) >= _MAX_NUMBERS:
        numbers.clear()
    if y == y:  # a NaN would be found by identity only, so each would be added
        numbers[y or str(y)] = array
    return array


def _holds(dtype: DType, y: Any) -> bool:
    kind = kind_of(dtype)
    return (
        kind == "complex"
        or (kind == "float" and y.__class__ is not complex)
        or (kind == "int" and type(y) is not float)
        or (kind == "bool" and y in (0, 1))
    )


def spread(x: Any, shape: Shape) -> Any:
    """Return a copy of x expanded to a shape: for few elements in a tenth of the time of ``numpy.broadcast_to``."""
    out = np.empty(shape, x.dtype)
    out[...] = x
    return out


def memory_order(xs: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the dims in the order in which arrays of one shape lie in memory without gaps; None if they differ."""
    steps = xs[0].strides
    axes = tuple(sorted(range(len(steps)), key=lambda d: -steps[d]))
    return axes if all(x.transpose(axes).flags.c_contiguous for x in xs) else None


def inverse(axes: Sequence[int]) -> list[int]:
    """Return the places of the dims 0, 1, … in a permutation."""
    return sorted(range(len(axes)), key=axes.__getitem__)


BITS: dict[int, Any] = {size: np.dtype(f"int{8 * size}") for size in (1, 2, 4, 8)}
"""The int dtypes by size in bytes."""


OPERATORS: dict[str, Any] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
"""Operators by NumPy's function names: on NumPy scalars they take an eighth of the time of NumPy's functions."""
