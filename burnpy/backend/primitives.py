"""The vocabulary of operation signatures: which kind of primitive an argument or a result is.

To a type checker every primitive is ``Any``: only the backend that made it knows its class, and above the backend only
``.shape`` and ``.dtype`` are known of it. The *names* carry the meaning. `burnpy.backend.entries` reads them from the
signatures of `Backend`, so a signature written with them is at once documentation and schema.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

Float: TypeAlias = Any
"""A primitive of floating point numbers: what `Tensor` holds. Only these carry gradients."""
Int: TypeAlias = Any
"""A primitive of integers: what `IntTensor` holds."""
Bool: TypeAlias = Any
"""A primitive of truth values: what `BoolTensor` holds."""
Number: TypeAlias = Any
"""Float or Int; two `Number`s of one signature are of the same kind."""
Discrete: TypeAlias = Any
"""Int or Bool; two `Discrete`s of one signature are of the same kind."""
Value: TypeAlias = Any
"""Any kind; two `Value`s of one signature are of the same kind."""

Scalar: TypeAlias = bool | int | float
"""A Python number. It never changes the dtype of the operation that it takes part in."""
Shape: TypeAlias = tuple[int, ...]
Dims: TypeAlias = tuple[int, ...]
"""Dimensions, each in ``0 <= dim < ndim``, ascending, none twice."""
Key: TypeAlias = tuple[int | slice | None, ...]
"""A basic index: an int or a slice for each of the leading dimensions, in order, and any number of None for new ones.

Ints are from 0 and in range, slices as Python's: any part may be None or negative, as in ``slice(3, None, -1)``.
Dimensions that are not mentioned are whole.
"""
DType: TypeAlias = "np.dtype[Any]"
KindName: TypeAlias = Literal["float", "int", "bool"]
