"""Arguments of the namespace's functions, and the error for names that it does not have."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from burnpy.array_api.data_types import COMPLEX, KINDS, astype, number_kind, result_type
from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import KindError, MissingNameError
from burnpy.backend.primitives import KindName
from burnpy.hints.missing import meant
from burnpy.tensor.creation import full
from burnpy.tensor.levels import common_device, raised
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, describe

Kinds = tuple[KindName, ...]
ALL: Kinds = KINDS
NUMERIC: Kinds = ("int", "float")
FLOAT: Kinds = ("float",)
INTEGERS: Kinds = ("int",)
BITS: Kinds = ("bool", "int")
BOOL: Kinds = ("bool",)
_WORDS = {"bool": "boolean", "int": "integer", "float": "real floating-point"}
"""The kinds as the standard calls them."""


def array(x: Any, kinds: Kinds = ALL) -> Any:
    """Return an argument, which must be an array of one of the kinds."""
    if not isinstance(x, TensorBase):
        raise KindError(f"array() takes an array, got {describe(x)}; make one with asarray(x)")
    if x.kind not in kinds:
        raise _wrong_kind(kinds, x)
    return x


def arrays(*xs: Any, kinds: Kinds = ALL) -> list[Any]:
    """Return arrays and Python numbers as tensors of the dtype that they promote to, on a common device.

    Raises:
        KindError: there is no array, an argument is neither an array nor a number, or the dtype is of another kind.
        DeviceError: the arrays are on unrelated devices.
    """
    tensors = [x for x in xs if isinstance(x, TensorBase)]
    if len(tensors) == len(xs) and _alike(tensors) and tensors[0].kind in kinds:
        return tensors
    for x in xs:
        if not isinstance(x, TensorBase) and number_kind(x) is None:
            array(x)  # which refuses it
    if not tensors:
        raise KindError("array() got numbers only; one argument at least must be an array: make one with asarray(x)")
    dtype = result_type(*xs)
    if kind_of(dtype) not in kinds:
        raise _wrong_kind(kinds, *tensors)
    device = placed(*tensors)
    cls: Any = TensorBase.kinds[kind_of(dtype)]
    convert = {"bool": bool, "int": int, "float": float}[kind_of(dtype)]
    return [
        astype(raised(x, device), dtype) if isinstance(x, TensorBase) else full(cls, (), convert(x), dtype, device)
        for x in xs
    ]


def _alike(tensors: list[TensorBase[Any]]) -> bool:
    """Return whether there is nothing to promote or move."""
    return len({(type(x), x.device, x.dtype) for x in tensors}) == 1


def placed(*tensors: TensorBase[Any]) -> Any:
    """Return the device of several tensors; a level, if some are constants beneath it."""
    floats = [x.device for x in tensors if x.kind == "float"]
    return common_device("array", floats, [x.device for x in tensors if x.kind != "float"])


def _wrong_kind(kinds: Kinds, *tensors: TensorBase[Any]) -> KindError:
    expected = " or ".join(_WORDS[kind] for kind in kinds)
    got = " and ".join(describe(x) for x in tensors)
    return KindError(f"array() takes arrays of {expected} dtype, got {got}; convert with astype(x, dtype)")


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
