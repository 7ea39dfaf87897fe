"""Explanations for error messages about a user's function that returned something other than float tensors."""

from __future__ import annotations

from collections.abc import Awaitable
from numbers import Number
from types import GeneratorType

from burnpy.tensor.base import TensorBase


def probable_cause(returned: object) -> str:
    """Return the end of an error message that explains why a returned object has no derivative; "" if unknown.

    >>> probable_cause(None)
    '; a function without a return statement returns None'
    >>> probable_cause("text")
    ''
    """
    cause = _cause(returned)
    return f"; {cause}" if cause else ""


def _cause(returned: object) -> str:
    if returned is None:
        return "a function without a return statement returns None"
    if isinstance(returned, TensorBase):
        return "only float tensors have derivatives"
    if isinstance(returned, Number):  # NumPy's too
        return "a number has no derivative: return the tensor itself, without .item() or float()"
    if isinstance(getattr(returned, "value", None), TensorBase):
        return "a parameter holds a tensor: give its .value"
    if hasattr(returned, "__array__"):
        return "an array has no derivative: compute with tensors, without to_numpy()"
    if isinstance(returned, GeneratorType):
        return "a function with yield in it returns a generator: write return, or collect the tensors in a list"
    if isinstance(returned, Awaitable):
        return "an async function returns a coroutine: leave out async"
    if callable(returned):
        return "a function has no derivative: return its result, as in f(x)"
    return ""
