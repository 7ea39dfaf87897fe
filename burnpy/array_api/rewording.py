"""`standard`, the decorator of the namespace's functions: errors in the words of the standard.

The functions call methods of tensors, whose errors name the method and speak of dims. The user called a function of the
standard, which speaks of axes. Helpers of the namespace write ``array()`` for the function and need not know its name.
"""

from __future__ import annotations

import re
from typing import Any

from burnpy.backend.errors import BurnpyError, CallError
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import F

_WORDS = {"dim": "axis", "dims": "axes", "keepdim": "keepdims", "Dim": "Axis"}
_WORD = re.compile(rf"\b({'|'.join(_WORDS)})\b")
_NAME = re.compile(r"^(\w+\.)?\w+\(\)")


def standard(function: F) -> F:
    """Decorate a function of the namespace: its errors begin with its name and speak of axes. It never returns its
    argument itself, as libraries assign to results (see `burnpy.array_api.updates`).

    >>> x = Tensor[NumPy].ones((2, 3))
    >>> x.__array_namespace__().squeeze(x, axis=4)
    Traceback (most recent call last):
    burnpy.backend.errors.DimError: squeeze() got axis 4 for a tensor with 2 dimensions; it can be from -2
    to 1
    """
    called = explained(function)
    name = function.__name__

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            out = called(*args, **kwargs)
        except BurnpyError as error:
            if len(error.args) == 1 and isinstance(error.args[0], str) and not isinstance(error, CallError):
                message = _WORD.sub(lambda match: _WORDS[match[0]], error.args[0])
                error.args = (_NAME.sub(f"{name}()", message, count=1),)
            raise
        if args and out is args[0] and isinstance(out, TensorBase):
            return out._like(out._primitive)
        return out

    wrapper.__name__ = wrapper.__qualname__ = name
    wrapper.__module__, wrapper.__doc__ = function.__module__, function.__doc__
    wrapper.__wrapped__ = function  # type: ignore[attr-defined]  # for its signature
    return wrapper  # type: ignore[return-value]  # it has the function's signature
