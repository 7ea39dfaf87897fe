"""Arguments of the namespace's functions, their dtypes, promotion across kinds, and errors in the standard's words.

Code of array API libraries takes arrays to be mutable. There ``x[key] = value`` makes the tensor x become
``x.at[key].set(value)`` (`assign`), so gradients flow to its former value and to the new one. Such code assigns to
arrays that it made itself. Everywhere else, tensors are immutable.

``array_api_extra.at(x)[key].set(value)`` asks whether x is writeable, and if not, assigns to ``asarray(x, copy=True)``.
The answer for a tensor is no, except for such a copy, so x stays as it is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from types import FrameType
from typing import Any, NamedTuple, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from burnpy.backend.dtypes import (
    COMPLEXES,
    DEFAULT,
    DTYPES,
    FLOATS,
    INTS,
    complex_dtype,
    dtype_of,
    epsilon,
    kind_of,
    largest,
    part_dtype,
    promote_types,
    tiny,
)
from burnpy.backend.errors import ArgumentError, BurnpyError, CallError, DTypeError, KindError, MissingNameError
from burnpy.backend.lazy import lazy_attributes
from burnpy.backend.primitives import INEXACT, DType, KindName
from burnpy.hints.missing_names import meant
from burnpy.tensor.call_errors import explained
from burnpy.tensor.creation import full
from burnpy.tensor.levels import common_device, raised
from burnpy.tensor.tensor import BoolTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import F

_WORDS = {"dim": "axis", "dims": "axes", "keepdim": "keepdims", "Dim": "Axis"}
_WORD = re.compile(rf"\b({'|'.join(_WORDS)})\b")
_NAME = re.compile(r"^(\w+\.)?\w+\(\)")


def standard(function: F) -> F:
    """Decorate a function of the namespace: its errors begin with its name and speak of axes. It never returns its
    argument itself, as libraries assign to results (see `assign`).

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


KINDS: tuple[KindName, ...] = ("bool", "int", "float", "complex")
"""From narrow to wide."""
NUMBERS: dict[type, KindName] = {bool: "bool", int: "int", float: "float", complex: "complex"}
_NAMES = {
    "bool": ("bool",),
    "signed integer": INTS[:4],
    "unsigned integer": INTS[4:],
    "integral": INTS,
    "real floating": FLOATS,
    "complex floating": COMPLEXES,
    "numeric": (*INTS, *FLOATS, *COMPLEXES),
}
"""The names of the dtypes of each kind of the standard."""


class FloatInfo(NamedTuple):
    """The limits of a float dtype, as `finfo` returns them."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntInfo(NamedTuple):
    """The limits of an int dtype, as `iinfo` returns them."""

    bits: int
    max: int
    min: int
    dtype: DType


def number_kind(x: Any) -> KindName | None:
    """Return the kind of a Python or NumPy number; None for anything else."""
    if isinstance(x, np.generic):
        x = x.item()
    return next((kind for number, kind in NUMBERS.items() if isinstance(x, number)), None)


def dtype_from(x: Any) -> DType:
    """Return the dtype of a tensor, or the dtype that ``x`` names."""
    return x.dtype if isinstance(x, TensorBase) else dtype_of(x)


@standard
def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype that arrays, dtypes and Python numbers promote to.

    >>> from burnpy import array_api as xp
    >>> xp.result_type(xp.int8, xp.uint8), xp.result_type(xp.asarray([1]), 0.5)
    (dtype('int16'), dtype('float32'))
    """
    if not arrays_and_dtypes:
        raise ArgumentError("array() takes at least one array or dtype")
    numbers = [kind for x in arrays_and_dtypes if (kind := number_kind(x)) is not None]
    dtypes = [dtype_from(x) for x in arrays_and_dtypes if number_kind(x) is None]
    widest: KindName = max([*numbers, *map(kind_of, dtypes)], key=KINDS.index)
    own = [dtype for dtype in dtypes if kind_of(dtype) == widest]
    if widest == "complex":  # of the precision of floats beside
        own += [complex_dtype(dtype) for dtype in dtypes if kind_of(dtype) == "float"]
    return reduce(promote_types, own) if own else DEFAULT[widest]


@standard
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """Convert an array to another dtype, of any kind. Memory never changes, so ``copy`` makes no difference."""
    if not isinstance(x, TensorBase):
        raise KindError(f"array() takes an array, got {describe(x)}; make one with asarray(x)")
    target: Any = dtype_from(dtype)
    moved: Any = x if device is None else x.to_device(device)  # type: ignore[attr-defined]  # a method of all kinds
    if target == moved.dtype:
        return moved
    kind = kind_of(target)
    if kind == "complex" and moved.kind in ("bool", "int"):
        moved = moved.float(part_dtype(target))
    return moved.bool() if kind == "bool" else getattr(moved, kind)(target)


@standard
def can_cast(from_: Any, to: Any, /) -> bool:
    """Return whether promotion with ``to`` gives ``to``.

    >>> from burnpy import array_api as xp
    >>> xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.float64, xp.float32)
    (True, False)
    """
    source, target = dtype_from(from_), dtype_from(to)
    try:
        return result_type(source, target) == target
    except DTypeError:  # uint64 and a signed dtype
        return False


@standard
def finfo(type: Any, /) -> FloatInfo:
    """Return the limits of a float dtype, or of an array's dtype; for a complex dtype, of its parts.

    >>> from burnpy import array_api as xp
    >>> xp.finfo(xp.float64).eps
    2.220446049250313e-16
    """
    dtype = dtype_of(part_dtype(dtype_from(type)), "float")
    most = largest(dtype)
    return FloatInfo(DTYPES[dtype.name].bits, epsilon(dtype), most, -most, tiny(dtype), dtype)


@standard
def iinfo(type: Any, /) -> IntInfo:
    """Return the limits of an int dtype, or of an array's."""
    dtype = dtype_of(dtype_from(type), "int")
    info = np.iinfo(dtype)
    return IntInfo(info.bits, int(info.max), int(info.min), dtype)


@standard
def isdtype(dtype: Any, kind: Any) -> bool:
    """Return whether a dtype is of a kind: a dtype, a name such as "real floating", or a tuple of several.

    >>> from burnpy import array_api as xp
    >>> xp.isdtype(xp.int8, "integral"), xp.isdtype(xp.int8, ("bool", xp.float32))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str):
        return dtype_of(dtype).name in names_of(kind)
    return dtype_of(dtype) == dtype_from(kind)


def names_of(kind: str) -> tuple[str, ...]:
    """Return the names of the dtypes of one of the standard's kinds."""
    if kind not in _NAMES:
        raise ArgumentError(f"array() got kind={kind!r}; expected one of {', '.join(map(repr, _NAMES))}")
    return _NAMES[kind]


Kinds = tuple[KindName, ...]
ALL: Kinds = KINDS
NUMERIC: Kinds = ("int", "float", "complex")
REAL: Kinds = ("int", "float")
FLOATING: Kinds = ("float", "complex")
FLOAT: Kinds = ("float",)
COMPLEX: Kinds = ("complex",)
INTEGERS: Kinds = ("int",)
BITS: Kinds = ("bool", "int")
BOOL: Kinds = ("bool",)
_KINDS_IN_WORDS = {"bool": "boolean", "int": "integer", "float": "real floating-point", "complex": "complex"}
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
    convert = {kind: number for number, kind in NUMBERS.items()}[kind_of(dtype)]
    return [
        astype(raised(x, device), dtype) if isinstance(x, TensorBase) else full(cls, (), convert(x), dtype, device)
        for x in xs
    ]


def _alike(tensors: list[TensorBase[Any]]) -> bool:
    """Return whether there is nothing to promote or move."""
    return len({(type(x), x.device, x.dtype) for x in tensors}) == 1


def placed(*tensors: TensorBase[Any]) -> Any:
    """Return the device of several tensors; a level, if some are constants beneath it."""
    floats = [x.device for x in tensors if x.kind in INEXACT]
    return common_device("array", floats, [x.device for x in tensors if x.kind not in INEXACT])


def _wrong_kind(kinds: Kinds, *tensors: TensorBase[Any]) -> KindError:
    expected = " or ".join(_KINDS_IN_WORDS[kind] for kind in kinds)
    got = " and ".join(describe(x) for x in tensors)
    return KindError(f"array() takes arrays of {expected} dtype, got {got}; convert with astype(x, dtype)")


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


def missing_from(package: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package of the standard, whose errors say what to write instead of a name.

    >>> from burnpy import array_api as xp
    >>> xp.softmax
    Traceback (most recent call last):
    burnpy.backend.errors.MissingNameError: burnpy.array_api has no softmax, which is not in the array API standard;
    write x.softmax(...)
    """

    def refuse(name: str) -> NoReturn:
        raise MissingNameError(lambda: _message(package, name))

    return lazy_attributes(package, {}, refuse)[0]


def _message(package: str, name: str) -> str:
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
    """Return whether the caller is array_api_compat's ``is_writeable_array(x)``, and the answer is no. It believes that
    an array of a library unknown to it is writeable if the array has an ``__array_namespace__``."""
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
