"""The error for names that the namespace and its extensions do not have."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from burnpy.array_api.data_types import COMPLEX
from burnpy.backend.errors import MissingNameError
from burnpy.hints.missing import meant
from burnpy.tensor.tensor import Tensor

_OF_COMPLEX = ("complex64", "complex128", "eig", "eigvals")

_STANDARD_NAMES = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "array": "asarray",
    "cat": "concat",
    "concatenate": "concat",
    "conjugate": "conj",
    "dot": "matmul",
    "inner": "vecdot",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "mod": "remainder",
    "norm": "linalg.vector_norm",
    "power": "pow",
    "ravel": "reshape",
    "right_shift": "bitwise_right_shift",
    "swapaxes": "moveaxis",
    "transpose": "permute_dims",
    "true_divide": "divide",
}
"""For each of NumPy's names that the standard replaces: its function for the same purpose."""


def missing_from(package: str) -> Callable[[str], NoReturn]:
    """Return the ``__getattr__`` of a package of the standard, which says what to write instead of a name.

    >>> from burnpy import array_api as xp
    >>> xp.softmax
    Traceback (most recent call last):
    burnpy.backend.errors.MissingNameError: burnpy.array_api has no softmax, which is not in the array API standard;
    write x.softmax(...)
    """

    def __getattr__(name: str) -> NoReturn:  # noqa: N807  # a package's own
        if name.startswith("__"):  # Python's own modules probe for such names
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        raise MissingNameError(lambda: _message(package, name))

    return __getattr__


def _message(package: str, name: str) -> str:
    if name in _OF_COMPLEX:
        return f"{package} has no {name}: {COMPLEX}"
    module: Any = import_module(package)
    message = f"{package} has no {name}, which is not in the array API standard"
    if name in _STANDARD_NAMES:
        return f"{message}; write xp.{_STANDARD_NAMES[name]}(...)"
    for extension in ("linalg", "fft"):
        if name in import_module(f"burnpy.array_api.{extension}").__all__:
            return f"{message}; write xp.{extension}.{name}(...)"
    if name in dir(Tensor):
        return f"{message}; write x.{name}(...)"
    if name in import_module("burnpy").__all__:
        return f"{message}; use burnpy.{name}"
    close = meant(name, module.__all__)
    return f"{message}; did you mean {close}?" if close else f"{message}; see https://data-apis.org/array-api"
