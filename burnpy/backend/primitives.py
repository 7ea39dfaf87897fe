"""Type aliases for the signatures of operations, which name the kind of primitive of each argument and result.

To a type checker every primitive is ``Any``: only the backend that created it knows its class, and code above the
backend uses only ``.shape`` and ``.dtype``. The *names* of the aliases carry the meaning: `burnpy.backend.entries`
reads them from the signatures of `Backend`, so that a signature is both documentation and schema.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

Float: TypeAlias = Any
"""A primitive of floating point numbers, as `Tensor` stores. These and complex ones carry gradients."""
Int: TypeAlias = Any
"""A primitive of integers, as `IntTensor` stores."""
Bool: TypeAlias = Any
"""A primitive of booleans, as `BoolTensor` stores."""
Complex: TypeAlias = Any
"""A primitive of complex numbers, as `ComplexTensor` stores."""
Inexact: TypeAlias = Any
"""Float or Complex; all `Inexact`s of one signature have the same kind."""
Real: TypeAlias = Any
"""Float or Int; all `Real`s of one signature have the same kind."""
Number: TypeAlias = Any
"""Float, Int or Complex; all `Number`s of one signature have the same kind."""
Discrete: TypeAlias = Any
"""Int or Bool; all `Discrete`s of one signature have the same kind."""
Ordered: TypeAlias = Any
"""Any kind but Complex, which has no order; all `Ordered`s of one signature have the same kind."""
Value: TypeAlias = Any
"""A primitive of any kind; all `Value`s of one signature have the same kind."""

Scalar: TypeAlias = bool | int | float
"""A Python number; a complex one, too, beside complex primitives. It does not affect type promotion."""
Shape: TypeAlias = tuple[int, ...]
Dim: TypeAlias = int
"""A dimension, in ``0 <= dim < ndim``."""
Dims: TypeAlias = tuple[int, ...]
"""Dimensions, each in ``0 <= dim < ndim``, ascending, without repeats."""
Key: TypeAlias = tuple[int | slice | None, ...]
"""A basic index: an int or a slice for each leading dimension, in order, and None for each new dimension.

Ints are non-negative and in range; slices are Python's, with any part None or negative, as in ``slice(3, None, -1)``.
Trailing dimensions without an entry are selected whole.
"""
DType: TypeAlias = "np.dtype[Any]"
KindName: TypeAlias = Literal["float", "int", "bool", "complex"]
INEXACT: frozenset[KindName] = frozenset({"float", "complex"})
"""The kinds that carry gradients. A device has its own primitives of these; `Backend.discrete` has those of others."""
KINDS: dict[str, tuple[KindName, ...]] = {
    "Float": ("float",),
    "Int": ("int",),
    "Bool": ("bool",),
    "Complex": ("complex",),
    "Inexact": ("float", "complex"),
    "Real": ("float", "int"),
    "Number": ("float", "int", "complex"),
    "Discrete": ("int", "bool"),
    "Ordered": ("float", "int", "bool"),
    "Value": ("float", "int", "bool", "complex"),
}
"""The kinds of primitives that each alias stands for."""
_UNSIGNED = np.dtype(np.uint64)


def value_range(array: Any) -> tuple[int, int]:
    """Return the least and the largest element of a NumPy array of ints that is not empty.

    Where an array is contiguous, their positions are found in a quarter of the time that ``min`` and ``max`` take for
    few elements, and in the same time for many.

    >>> value_range(np.array([[3, -1], [2, 7]]))
    (-1, 7)
    """
    if array.flags.c_contiguous:
        return array.item(array.argmin()), array.item(array.argmax())
    return int(array.min()), int(array.max())


def below(array: Any, size: int) -> bool:
    """Return whether all elements of a NumPy array of int64 are from 0 to below a size, read only once.

    >>> below(np.array([3, 0]), 4), below(np.array([3, -1]), 4), below(np.array([4]), 4)
    (True, False, False)
    """
    if not array.size:
        return True
    unsigned = array.view(_UNSIGNED)  # where negative ints are the largest
    largest: int = unsigned.item(unsigned.argmax())
    return largest < size
