"""The supported dtypes: one table of them, conversion of their names, and PyTorch's promotion within a kind."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, reduce
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.errors import DTypeError, a
from burnpy.backend.primitives import INEXACT, DType, KindName

float16: DType = np.dtype(np.float16)
float32: DType = np.dtype(np.float32)
float64: DType = np.dtype(np.float64)
int8: DType = np.dtype(np.int8)
int16: DType = np.dtype(np.int16)
int32: DType = np.dtype(np.int32)
int64: DType = np.dtype(np.int64)
uint8: DType = np.dtype(np.uint8)
uint16: DType = np.dtype(np.uint16)
uint32: DType = np.dtype(np.uint32)
uint64: DType = np.dtype(np.uint64)
bool_: DType = np.dtype(np.bool_)
complex64: DType = np.dtype(np.complex64)
complex128: DType = np.dtype(np.complex128)

DEFAULT: dict[KindName, DType] = {"float": float32, "int": int64, "bool": bool_, "complex": complex64}
"""The default dtype of each kind, for tensors created from Python numbers."""
_OF_PYTHON: dict[type | str, DType] = {
    float: float32,
    int: int64,
    bool: bool_,
    complex: complex64,
    "float": float32,
    "int": int64,
    "complex": complex64,
}
"""The dtypes of Python's types and their names: NumPy's "float" is float64, PyTorch's float is float32."""
OWNERS: dict[KindName, str] = {"float": "Tensor", "int": "IntTensor", "bool": "BoolTensor", "complex": "ComplexTensor"}
"""The tensor class of each kind."""


class Format(NamedTuple):
    """A row of the table of dtypes: its kind, the form of its numbers, and its name in other formats."""

    kind: KindName
    bits: int
    digits: int  #: the bits of a float's significand, the leading one included; the bits of an int's magnitude
    lowest: int  #: the exponent of a float's smallest subnormal number; 0 for others
    c: str  #: the type in C; 16-bit floats are classes of CuPy's headers
    safetensors: str  #: "" if the format has none
    torch: str  #: the name of PyTorch's storage, without "Storage"; "" if it has none
    onnx: int  #: the number in ``TensorProto.DataType``
    cuda: int = -1  #: the number in ``cudaDataType_t`` of dtypes that are multiplied


DTYPES = {
    "bfloat16": Format("float", 16, 8, -133, "bfloat16", "BF16", "BFloat16", 16, 14),
    "float16": Format("float", 16, 11, -24, "float16", "F16", "Half", 10, 2),
    "float32": Format("float", 32, 24, -149, "float", "F32", "Float", 1, 0),
    "float64": Format("float", 64, 53, -1074, "double", "F64", "Double", 11, 1),
    "int8": Format("int", 8, 7, 0, "signed char", "I8", "Char", 3),
    "int16": Format("int", 16, 15, 0, "short", "I16", "Short", 5),
    "int32": Format("int", 32, 31, 0, "int", "I32", "Int", 6),
    "int64": Format("int", 64, 63, 0, "long long", "I64", "Long", 7),
    "uint8": Format("int", 8, 8, 0, "unsigned char", "U8", "Byte", 2),
    "uint16": Format("int", 16, 16, 0, "unsigned short", "U16", "", 4),
    "uint32": Format("int", 32, 32, 0, "unsigned int", "U32", "", 12),
    "uint64": Format("int", 64, 64, 0, "unsigned long long", "U64", "", 13),
    "bool": Format("bool", 8, 1, 0, "bool", "BOOL", "Bool", 9),
    "complex64": Format("complex", 64, 24, -149, "complex<float>", "C64", "ComplexFloat", 14, 4),
    "complex128": Format("complex", 128, 53, -1074, "complex<double>", "", "ComplexDouble", 15, 5),
}
"""All dtypes by name."""
FLOATS = tuple([name for name, row in DTYPES.items() if row.kind == "float"])
HALVES = tuple([name for name in FLOATS if DTYPES[name].bits == 16])
COMPLEXES = tuple([name for name, row in DTYPES.items() if row.kind == "complex"])
INTS = tuple([name for name, row in DTYPES.items() if row.kind == "int"])


@cache
def kind_of(dtype: DType) -> KindName:
    """Return the kind of a dtype: "float", "int", "bool" or "complex"."""
    if dtype.name not in DTYPES:
        raise DTypeError(f"tensors do not hold dtype {dtype}; use one of {', '.join(DTYPES)}")
    return DTYPES[dtype.name].kind


def dtype_of(dtype: Any, kind: KindName | None = None) -> DType:
    """Convert ``"float32"``, ``np.float32``, ``burnpy.float32`` or ``float`` to the canonical NumPy dtype.

    Args:
        dtype: anything that names a dtype; ``"bfloat16"`` needs the package ``ml_dtypes``.
        kind: the kind that the dtype must have, or None for any.

    >>> dtype_of("float64")
    dtype('float64')
    >>> dtype_of(float, "float")
    dtype('float32')
    """
    result = _OF_PYTHON.get(dtype) if isinstance(dtype, (type, str)) else None
    if result is None:
        result = _parsed(dtype)
    if kind is not None and kind_of(result) != kind:
        raise DTypeError(f"{a(OWNERS[kind])} holds {kind} dtypes, got {result}; use {OWNERS[kind_of(result)]} instead")
    return result


def _parsed(dtype: Any) -> DType:
    if isinstance(dtype, str) and dtype == "bfloat16":
        return _bfloat16()
    try:
        result = np.dtype(dtype)
    except (TypeError, ValueError):
        result = None
    if dtype is None or result is None:
        what = (
            f"{a(type(dtype).__name__)}"
            if isinstance(dtype, (int, list, tuple)) or hasattr(dtype, "shape")
            else f"{dtype!r:.80}"
        )
        name = what.rpartition(".")[2]  # of PyTorch's dtypes too
        way = f'write "{name}"' if name in DTYPES else f"use one of {', '.join(DTYPES)}"
        raise DTypeError(f"{what} is not a known dtype; {way}")
    kind_of(result)  # refuses object and string dtypes
    native: DType = np.dtype(result.type)  # native byte order, and the one object that `is` can compare
    return native


def converted(x: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Return an array of NumPy in another dtype, each element rounded once; the array itself if it has that dtype.
    NumPy rounds float64 and ints to float32 before it rounds them to bfloat16. Here the last bit of the float32 is set
    where the first rounding was inexact, and rounding the result gives what rounding the element once would give."""
    if dtype.kind != "V" or x.dtype.kind not in "iuf" or x.dtype.itemsize < 4 or x.dtype == float32:
        return x.astype(dtype, copy=False)
    if x.dtype.itemsize == 8 and x.dtype.kind != "f":  # more digits than float64 has: the last ones as one bit
        x = np.where(np.abs(x // 2) < 1 << 52, x, (x >> 11 | (x & 2047 != 0)) << 11)
    wide = np.asarray(x, float64)
    with np.errstate(over="ignore"):
        near = wide.astype(float32)
    bits = near.view(np.int32)
    toward_zero = bits - (np.abs(near) > np.abs(wide))
    return np.where((near != wide) & (wide == wide), toward_zero | 1, bits).astype(np.int32).view(float32).astype(dtype)


def nearest(value: Any, dtype: DType) -> Any:
    """Return the Python number of a dtype next to another, where NumPy's conversion would round twice; see `converted`.

    >>> nearest(1.0 + 2.0**-8 + 2.0**-40, dtype_of("bfloat16"))
    1.0078125
    """
    if dtype.kind != "V" or isinstance(value, complex) or not math.isfinite(value):
        return value
    row = DTYPES[dtype.name]
    exponent = max(math.frexp(value)[1] - row.digits, row.lowest)
    if exponent > 128:  # overflows, as the number itself does
        return value
    return math.copysign(math.ldexp(round(math.ldexp(value, -exponent)), exponent), value)


def installed(names: Iterable[str]) -> frozenset[DType]:
    """Return the dtypes of some names, without bfloat16 where the package ml_dtypes is not installed."""
    found: set[DType] = set()
    for name in names:
        with suppress(DTypeError):
            found.add(dtype_of(name))
    return frozenset(found)


def _bfloat16() -> DType:
    try:
        import ml_dtypes  # pyright: ignore[reportMissingImports]  # optional
    except ImportError:
        raise DTypeError("dtype bfloat16 needs the package ml_dtypes; install it with: pip install ml_dtypes") from None
    result: DType = np.dtype(ml_dtypes.bfloat16)
    return result


def is_inexact(dtype: DType) -> bool:
    """Return whether primitives of a dtype carry gradients: floats and complex numbers."""
    return kind_of(dtype) in INEXACT


def complex_dtype(dtype: DType) -> DType:
    """Return the complex dtype with parts of a float dtype, complex64 for 16 bits; a complex dtype itself."""
    return complex128 if dtype in (float64, complex128) else complex64


def part_dtype(dtype: DType) -> DType:
    """Return the float dtype of the parts of a complex dtype; a float dtype itself."""
    return {"complex64": float32, "complex128": float64}.get(dtype.name, dtype)


@cache
def promote_types(a: DType, b: DType) -> DType:
    """Return the smallest dtype that both dtypes, of the same kind, can be cast to, as ``torch.promote_types`` does.

    >>> promote_types(float16, float32)
    dtype('float32')
    """
    if a == b:
        return a
    if kind_of(a) != kind_of(b):
        raise DTypeError(f"dtypes {a} and {b} are of different kinds and do not promote; convert one of them")
    if "bfloat16" in (a.name, b.name):  # bfloat16 and float16 promote to float32
        other = b if a.name == "bfloat16" else a
        return float32 if other == float16 else other
    result = np.promote_types(a, b)
    if kind_of(result) != kind_of(a):
        raise DTypeError(f"no int dtype holds both {a} and {b}; convert one of them with .to_dtype(...)")
    return result


def result_type(*xs: Any) -> DType:
    """Return the result dtype of an operation on primitives of the same kind, as ``torch.result_type`` does.

    0-d primitives do not promote those that have dimensions.
    """
    common = reduce(promote_types, [x.dtype for x in xs])  # which refuses different kinds
    wide: list[DType] = [x.dtype for x in xs if x.shape != ()]
    return reduce(promote_types, wide) if 0 < len(wide) < len(xs) else common


def largest(dtype: DType) -> float:
    """Return the largest finite number of a float dtype."""
    row = DTYPES[dtype.name]
    return (2.0 - epsilon(dtype)) * 2.0 ** (2 - row.lowest - row.digits)


@cache
def tiny(dtype: DType) -> float:
    """Return the smallest normal number of a float dtype."""
    row = DTYPES[dtype.name]
    return 2.0 ** (row.lowest + row.digits - 1)


def infinity_bits(dtype: DType) -> int:
    """Return the bits of infinity in a float dtype: those of the exponent, which NaN has set, too."""
    row = DTYPES[dtype.name]
    return (1 << row.bits - 1) - (1 << row.digits - 1)


def has_few_exponents(dtype: DType) -> bool:
    """Return whether a float dtype has fewer exponents than float32, in which its products are exact."""
    return tiny(dtype) > tiny(float32)


def is_upper_half(name: str) -> bool:
    """Return whether the numbers of a 16-bit float dtype, given by name, are the upper bits of float32's."""
    row, whole = DTYPES[name], DTYPES["float32"]
    return row.bits == 16 and row.lowest + row.digits == whole.lowest + whole.digits


@cache
def int_limits(dtype: DType) -> tuple[int, int]:
    """Return the least and the largest number of an int dtype, which NumPy computes anew each time."""
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


@cache
def epsilon(dtype: DType) -> float:
    """Return the distance from 1 to the next larger number of a float dtype."""
    return 2.0 ** (1 - DTYPES[dtype.name].digits)
