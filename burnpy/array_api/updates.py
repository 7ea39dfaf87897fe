"""Assignments by libraries: ``x[key] = value`` in the code of array API libraries, which takes arrays to be mutable.

There the tensor x becomes ``x.at[key].set(value)``, so gradients flow to its former value and to the new one. Such code
assigns to arrays that it made itself. Everywhere else, tensors are immutable.

``array_api_extra.at(x)[key].set(value)`` asks whether x is writeable, and if not, assigns to ``asarray(x, copy=True)``.
The answer for a tensor is no, except for such a copy, so x stays as it is.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any
from weakref import WeakValueDictionary

from burnpy.array_api.data_types import KINDS, astype
from burnpy.tensor.tensor import BoolTensor
from burnpy.tensor.tensor_base import TensorBase

LIBRARIES = frozenset({"array_api_extra", "scipy", "sklearn"})
"""The packages whose code may assign. SciPy and scikit-learn contain copies of array_api_extra."""

_copies: WeakValueDictionary[int, TensorBase[Any]] = WeakValueDictionary()
"""Copies that nothing has been assigned to, by id: tensors compare by element."""


def copied(x: Any) -> Any:
    """Return a writeable copy of a tensor, in the same memory."""
    copy = x._like(x._primitive)
    _copies[id(copy)] = copy
    return copy


def asked_whether_writeable(x: Any, caller: FrameType) -> bool:
    """Return whether the caller is array_api_compat's ``is_writeable_array(x)``, and the answer is no.

    It believes that an array of a library unknown to it is writeable if the array has an ``__array_namespace__``.
    """
    return caller.f_code.co_name == "is_writeable_array" and _copies.get(id(x)) is not x


def assign(x: Any, key: Any, value: Any) -> bool:
    """Carry out ``x[key] = value`` if the statement is in a library's code, and return whether it is."""
    if sys._getframe(2).f_globals.get("__name__", "").partition(".")[0] not in LIBRARIES:
        return False
    if isinstance(value, TensorBase) and KINDS.index(value.kind) < KINDS.index(x.kind):
        value = astype(value, x.dtype)
    if isinstance(key, BoolTensor) and key.shape == x.shape and getattr(value, "shape", ()) == ():
        updated = x.masked_fill(key, value)  # of no shape that depends on values: for vmap and compiled functions
    else:
        updated = x.at[key].set(value)
    x._device, x._primitive = updated._device, updated._primitive
    _copies.pop(id(x), None)
    return True
