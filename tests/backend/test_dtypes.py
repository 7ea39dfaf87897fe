"""Dtypes: names, kinds, and promotion as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend.dtypes import (
    DTYPES,
    FLOATS,
    INTS,
    bool_,
    dtype_of,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    kind_of,
    promote_types,
    result_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from burnpy.backend.errors import DTypeError
from tests.rows import every_row

bfloat16 = dtype_of("bfloat16")


@every_row(
    "given, wanted",
    [
        ("float32", float32),
        (np.float64, float64),
        (float32, float32),
        (float, float32),
        (int, int64),
        (bool, bool_),
        ("bool", bool_),
        (">f8", float64),
    ],
)
def test_what_names_a_dtype(given: Any, wanted: Any) -> None:
    assert dtype_of(given) is wanted


@every_row("given", ["float33", None, "complex256", object, "U3", 3.0])
def test_what_does_not(given: Any) -> None:
    with pytest.raises(DTypeError, match="use one of"):
        dtype_of(given)


def test_the_wrong_kind_names_the_right_tensor() -> None:
    with pytest.raises(DTypeError, match="a Tensor holds float dtypes, got int64; use IntTensor"):
        dtype_of("int64", "float")


def test_kinds() -> None:
    assert {kind_of(dtype_of(n)) for n in FLOATS} == {"float"}
    assert {kind_of(dtype_of(n)) for n in INTS} == {"int"}
    assert kind_of(bool_) == "bool"


@every_row(
    "a, b, wanted",
    [
        (float16, bfloat16, float32),
        (float16, float32, float32),
        (bfloat16, float32, float32),
        (bfloat16, float64, float64),
        (float32, float64, float64),
        (int8, uint8, int16),
        (int16, uint8, int16),
        (int32, uint16, int32),
        (int32, uint32, int64),
        (uint8, uint64, uint64),
        (int8, int64, int64),
        (bool_, bool_, bool_),
    ],
)
def test_promotion(a: Any, b: Any, wanted: Any) -> None:
    assert promote_types(a, b) == promote_types(b, a) == wanted


@pytest.mark.parametrize(("a", "b"), [(int64, uint64), (float32, int32), (bool_, int8)])
def test_what_does_not_promote(a: Any, b: Any) -> None:
    with pytest.raises(DTypeError, match="convert one of them"):
        promote_types(a, b)


def test_dimensions_outweigh_precision() -> None:
    assert result_type(np.zeros(3, float32), np.zeros((), float64)) == float32
    assert result_type(np.float64(1), np.zeros(3, float16)) == float16
    assert result_type(np.zeros((), float32), np.float64(1)) == float64
    assert result_type(np.zeros(3, float32), np.zeros(0, float64)) == float64


@pytest.mark.parametrize("name", DTYPES)
def test_the_table_has_the_format_of_each_dtype(name: str) -> None:
    finfo: Any = np.finfo if name != "bfloat16" else pytest.importorskip("ml_dtypes").finfo
    row, dtype = DTYPES[name], dtype_of(name)
    assert (row.kind, row.bits) == (kind_of(dtype), 8 * dtype.itemsize)
    if row.kind == "float":
        info = finfo(dtype)
        assert (2.0 ** (1 - row.digits), 2.0**row.lowest) == (float(info.eps), float(info.smallest_subnormal))
    elif row.kind == "int":
        assert np.iinfo(dtype).max == 2**row.digits - 1
