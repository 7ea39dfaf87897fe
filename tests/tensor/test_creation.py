"""Factories: values, devices, dtypes and errors."""

from __future__ import annotations

from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import pytest
import typing_extensions

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.backend.errors import (
    ArgumentError,
    BurnpyError,
    DeviceError,
    DTypeError,
    KindError,
    NotTrackedError,
    ShapeError,
)
from tests.rows import every_row

Train = Autodiff[NumPy]
Alias = typing_extensions.TypeAliasType("Alias", Train)
B = TypeVar("B", bound=Backend)
CLASSES: list[Any] = [Tensor, IntTensor, BoolTensor]


@every_row("cls", CLASSES)
@every_row("backend", [NumPy, NumPy(), Train, Autodiff(NumPy), Alias, Autodiff[Train]])
def test_device_by_alias_and_by_argument(cls: Any, backend: Any) -> None:
    by_argument = cls.zeros((2, 3), device=backend)
    by_alias = cls[backend].zeros((2, 3))
    assert by_argument.device is by_alias.device is burnpy.backend.device_of(backend)
    assert type(by_alias) is cls
    assert by_alias.shape == (2, 3)
    for x in (by_alias, by_alias.ones_like(), cls.from_data(by_alias, device=backend)):
        assert x._backend is (x.device if cls is Tensor else x.device.discrete)


@pytest.mark.parametrize("cls", CLASSES)
def test_no_device(cls: Any) -> None:
    with pytest.raises(DeviceError, match=rf"write {cls.__name__}\[NumPy\].zeros.*device=NumPy"):
        cls.zeros((2,))
    with pytest.raises(DeviceError, match="type variable"):
        cls[B].zeros((2,))
    with pytest.raises(DeviceError, match="not a backend"):
        cls.zeros((2,), device="cuda")
    with pytest.raises(KindError, match="does not make a tensor"):
        cls([1.0])


def test_defaults() -> None:
    assert Tensor[NumPy].from_data([1, 2]).dtype == burnpy.float32
    assert IntTensor[NumPy].from_data([1, 2]).dtype == burnpy.int64
    assert BoolTensor[NumPy].from_data([True, False]).dtype == burnpy.bool_
    assert Tensor[NumPy].from_data(1.5).shape == ()
    assert Tensor[NumPy].from_data([[], []]).shape == (2, 0)
    assert IntTensor[NumPy].from_data([]).dtype == burnpy.int64
    assert BoolTensor[NumPy].from_data([]).shape == (0,)
    assert Tensor[NumPy].from_data([True, 2]).tolist() == [1.0, 2.0]
    assert Tensor[NumPy].from_data(range(3)).tolist() == [0.0, 1.0, 2.0]
    assert Tensor[NumPy].from_data([1.0, np.float64(2)]).dtype == burnpy.float32


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_arrays_keep_their_dtype(dtype: str) -> None:
    name = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    array = np.array([[1.0, 2.0]], name)
    x = Tensor[NumPy].from_data(array)
    assert x.dtype == array.dtype
    assert Tensor[NumPy].from_data(array[0, 0]).shape == ()
    assert Tensor[NumPy].from_data([array, array]).dtype == array.dtype
    assert Tensor[NumPy].from_data(x).dtype == array.dtype
    assert Tensor[NumPy].from_data([1, 2], dtype=dtype).dtype == array.dtype
    array[:] = 7.0
    assert x.tolist() == [[1.0, 2.0]]


ABOVE = 1.0 + 2.0**-8 + 2.0**-40
"""Above the middle of two numbers of bfloat16, 1 and 1.0078125, by less than float32 can tell."""


@pytest.mark.parametrize("device", [NumPy(), Autodiff(NumPy())])
@every_row(
    "make",
    [
        lambda of, x: of.from_data([x], dtype="bfloat16"),
        lambda of, x: of.from_data(np.array([[x]]), dtype="bfloat16"),
        lambda of, x: of.from_data(np.full(9999, x)[::2], dtype="bfloat16"),
        lambda of, x: of.full((2,), x, dtype="bfloat16"),
        lambda of, x: of.full((9999,), x, dtype="bfloat16"),
        lambda of, x: of.ones((2,), dtype="bfloat16").full_like(x),
        lambda of, x: of.arange(x, x + 1, dtype="bfloat16"),
        lambda of, x: of.linspace(x, x, 3, dtype="bfloat16"),
        lambda of, x: of.zeros((2,), dtype="bfloat16") + x,
        lambda of, x: x * of.ones((9999,), dtype="bfloat16"),
        lambda of, x: of.zeros((2,), dtype="bfloat16").clamp(min=x),
        lambda of, x: burnpy.where(of.zeros((2,)) < 1.0, x, of.zeros((2,), dtype="bfloat16")),
        lambda of, x: of.zeros((2,), dtype="bfloat16").at[0].set(x)[:1],
        lambda of, x: of.from_data([x], dtype="float64").bfloat16(),
        lambda of, x: of.from_data(np.asarray(Tensor[NumPy].from_data([x], dtype="float64"), ml_dtypes.bfloat16)),
    ],
)
def test_numbers_are_rounded_to_bfloat16_once(make: Any, device: Any) -> None:
    assert {*make(Tensor[device], ABOVE).reshape(-1).tolist()} == {1.0078125}


@pytest.mark.parametrize("count", [2, 9999])
def test_bounds_are_rounded_to_16_bits_once(count: int) -> None:
    for dtype, digits in (("bfloat16", 8), ("float16", 11)):
        x = Tensor[NumPy].zeros((count,), dtype=dtype).clamp(min=1.0 + 2.0**-digits + 2.0**-40)
        assert {*x.tolist()} == {1.0 + 2.0 ** (1 - digits)}


@pytest.mark.parametrize("sign", [1, -1])
def test_ints_are_rounded_to_bfloat16_once(sign: int) -> None:
    for large, expected in ((2**40 + 2**32 + 1, 2.0**40 + 2.0**33), (2**62 + 2**54 + 1, 2.0**62 + 2.0**55)):
        for count in (1, 2000):
            ints = IntTensor[NumPy].full((count,), sign * large)
            for x in (ints.float("bfloat16"), Tensor[NumPy].from_data(ints.to_numpy(), dtype="bfloat16")):
                assert {*x.tolist()} == {sign * expected}
    assert (Tensor[NumPy].zeros((2,), dtype="bfloat16") + sign * (2**40 + 2**32 + 1))[0].item() == sign * (
        2.0**40 + 2.0**33
    )
    with pytest.raises(DTypeError, match=r"add\(\) got dtype bfloat16 and 1000.*cannot hold"):
        Tensor[NumPy].zeros((2,), dtype="bfloat16") + 10**400


def test_from_data_of_other_memory() -> None:
    assert Tensor[NumPy].from_data(np.array([1.0, 2.0], ">f4")).tolist() == [1.0, 2.0]
    assert Tensor[NumPy].from_data(np.arange(6.0).reshape(2, 3).T[::-1]).tolist() == [[2, 5], [1, 4], [0, 3]]
    assert IntTensor[NumPy].from_data(np.array([1, 2], "q")).dtype == burnpy.int64
    assert Tensor[NumPy].from_data([Tensor[NumPy].ones((2,)), Tensor[NumPy].zeros((2,))]).tolist() == [[1, 1], [0, 0]]
    assert Tensor[Train].from_data(Tensor[NumPy].ones((2,))).device is Autodiff(NumPy())
    assert Tensor[NumPy].from_data(np.array([1, 2]), dtype="float64").tolist() == [1.0, 2.0]
    assert Tensor[NumPy].from_data([1e300]).tolist() == [np.inf]
    assert Tensor[NumPy].from_data([2**70, 1]).tolist() == [2.0**70, 1.0]


WRONG: list[tuple[Any, Any, type[BurnpyError], str]] = [
    (Tensor, [[1.0], [1.0, 2.0]], ShapeError, "ragged.*length 1 and 2"),
    (Tensor, [1.0, [2.0]], ShapeError, "mixes numbers and lists"),
    (Tensor, [np.zeros(2), np.zeros(3)], ShapeError, r"\(2,\) and \(3,\)"),
    (Tensor, ["1.5"], ArgumentError, "'1.5' of type str"),
    (Tensor, "1.5", ArgumentError, "'1.5' of type str"),
    (Tensor, None, ArgumentError, "NoneType"),
    (Tensor, [None, 1.0], ArgumentError, "NoneType"),
    (Tensor, {1.0}, ArgumentError, "set"),
    (Tensor, [1j], DTypeError, "1j"),
    (Tensor, np.zeros(2, complex), DTypeError, "complex128"),
    (Tensor, np.array(["a"]), DTypeError, "<U1"),
    (Tensor, np.array([None]), DTypeError, "object"),
    (Tensor, np.zeros(2, "M8[s]"), DTypeError, "datetime64"),
    (Tensor, np.array([1, 2]), DTypeError, r"IntTensor.from_data.*astype\('float32'\)"),
    (Tensor, np.array([True]), DTypeError, "BoolTensor"),
    (Tensor, [10**400], DTypeError, "too large"),
    (IntTensor, [1.5], DTypeError, "1.5.*use Tensor"),
    (IntTensor, [1, float("nan")], DTypeError, "nan"),
    (IntTensor, [float("inf")], DTypeError, "inf"),
    (IntTensor, np.array([1.0]), DTypeError, "Tensor.from_data"),
    (IntTensor, [2**63], DTypeError, "9223372036854775808"),
    (IntTensor, [2**63, -1], DTypeError, "int64 cannot hold"),
    (IntTensor, [2**200], DTypeError, "int64 cannot hold"),
    (BoolTensor, [0, 1], DTypeError, "use IntTensor"),
    (BoolTensor, [0.0], DTypeError, "use Tensor"),
    (BoolTensor, np.array([1]), DTypeError, "IntTensor"),
]


@every_row("cls, data, error, match", WRONG)
def test_wrong_data(cls: Any, data: Any, error: type[BurnpyError], match: str) -> None:
    with pytest.raises(error, match=match):
        cls[NumPy].from_data(data)


def test_wrong_dtype() -> None:
    with pytest.raises(DTypeError, match="not a known dtype"):
        Tensor[NumPy].from_data([1.0], dtype="float31")
    with pytest.raises(DTypeError, match="use IntTensor"):
        Tensor[NumPy].zeros((2,), dtype="int64")
    with pytest.raises(DTypeError, match="uint8 cannot hold 300"):
        IntTensor[NumPy].from_data([1, 300], dtype="uint8")
    with pytest.raises(DTypeError, match="uint8 cannot hold -1"):
        IntTensor[NumPy].from_data(np.array([-1]), dtype="uint8")
    with pytest.raises(DTypeError, match="int8 cannot hold 128"):
        IntTensor[NumPy].full((2,), 128, dtype="int8")
    with pytest.raises(DTypeError, match="use Tensor"):
        IntTensor[NumPy].full((2,), 1.5)  # type: ignore[call-overload]  # what is tested
    with pytest.raises(DTypeError, match="use Tensor"):
        IntTensor[NumPy].zeros((2,)).full_like(float("nan"))


def test_a_graph_is_not_dropped_silently() -> None:
    x = Tensor[Train].from_data([1.0]).require_grad()
    for data in (x, [x, x], [[x]]):
        with pytest.raises(NotTrackedError, match="stack"):
            Tensor[Train].from_data(data)
    with pytest.raises(KindError, match=r"x\.int\(\)"):
        IntTensor[Train].from_data(x.detach())


def test_copy_false() -> None:
    x = Tensor[NumPy].arange(4.0, dtype="float64")
    array = x.to_numpy()
    assert np.shares_memory(Tensor[Train].from_data(array, copy=False).to_numpy(), array)
    with pytest.raises(ArgumentError, match="takes a copy"):
        Tensor[NumPy].from_data(array, dtype="float32", copy=False)
    with pytest.raises(DTypeError, match="Tensor"):
        IntTensor[NumPy].from_data(array, copy=False)
    with pytest.raises(ArgumentError, match="not a list"):
        Tensor[NumPy].from_data([1.0], copy=False)


@pytest.mark.parametrize("backend", [NumPy, Train])
def test_filled(backend: Any) -> None:
    three: Any = np.int8(3)
    half: Any = np.float32(0.5)
    assert Tensor[backend].zeros(2).tolist() == [0.0, 0.0]
    assert Tensor[backend].zeros(()).item() == 0.0
    assert Tensor[backend].ones([2, 1]).tolist() == [[1.0], [1.0]]
    assert Tensor[backend].full((2,), half, dtype="float64").tolist() == [0.5, 0.5]
    assert Tensor[backend].full((1,), 2).dtype == burnpy.float32
    assert IntTensor[backend].full((2,), three, dtype="uint8").tolist() == [3, 3]
    assert BoolTensor[backend].ones((2,)).tolist() == [True, True]
    assert BoolTensor[backend].full((1,), False).tolist() == [False]
    assert Tensor[backend].eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert IntTensor[backend].eye(2).tolist() == [[1, 0], [0, 1]]
    x = Tensor[backend].ones((2, 1), dtype="float16")
    assert x.zeros_like().dtype == "float16"
    assert x.full_like(3, dtype="float64").tolist() == [[3.0], [3.0]]
    assert BoolTensor[backend].zeros((2,)).ones_like().tolist() == [True, True]


@pytest.mark.parametrize("backend", [NumPy, Train])
def test_ranges(backend: Any) -> None:
    assert IntTensor[backend].arange(3).tolist() == [0, 1, 2]
    assert IntTensor[backend].arange(5, 0, -2).tolist() == [5, 3, 1]
    assert IntTensor[backend].arange(2, 2).shape == (0,)
    assert Tensor[backend].arange(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75]
    assert Tensor[backend].linspace(0, 1, 3).tolist() == [0.0, 0.5, 1.0]
    assert Tensor[backend].linspace(0, 1, 0).shape == (0,)
    for wrong in ((0, 1, 0), (5, 0), (0, float("inf")), (0, 1, float("inf")), (0, 1, float("nan")), (0, 1, 5e-324)):
        with pytest.raises(ArgumentError, match="never arrives"):
            Tensor[backend].arange(*wrong)
    with pytest.raises(ShapeError, match="addressed"):
        Tensor[backend].arange(0, 1e30)
    with pytest.raises(ShapeError, match="negative"):
        Tensor[backend].linspace(0, 1, -1)
    with pytest.raises(DTypeError, match="use Tensor"):
        IntTensor[backend].arange(2.5)  # type: ignore[call-overload]  # what is tested
    with pytest.raises(DTypeError, match="int8, which cannot hold 199"):
        IntTensor[backend].arange(200, dtype="int8")


@every_row("shape", [(-1,), -1, (2.0,), 2.5, "ab", None, (2**62, 4), ((1,),)])
def test_wrong_shapes(shape: Any) -> None:
    with pytest.raises((ShapeError, ArgumentError), match="zeros"):
        Tensor[NumPy].zeros(shape)


def test_from_inner() -> None:
    x = Tensor[NumPy].ones((2,))
    assert Tensor.from_inner(x).device is Autodiff(NumPy())
    assert Tensor[Train].from_inner(x).inner().tolist() == [1.0, 1.0]
    twice = Tensor.from_inner(Tensor.from_inner(x))
    assert twice.device is Autodiff(Autodiff(NumPy()))
    assert IntTensor[Train].from_inner(IntTensor[NumPy].arange(2)).inner().device is NumPy()
    assert BoolTensor.from_inner(BoolTensor[NumPy].ones(2)).inner().tolist() == [True, True]
    with pytest.raises(DeviceError, match="not the inner backend"):
        Tensor[Autodiff[Train]].from_inner(x)
    with pytest.raises(KindError, match="takes a Tensor"):
        Tensor.from_inner(IntTensor[NumPy].arange(2))  # type: ignore[call-overload]  # what is tested


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    with pytest.raises(ArgumentError, match=r"no missing elements; fill them first"):
        Tensor[NumPy].from_data(masked)
    assert Tensor[NumPy].from_data(masked.filled(0.0)).tolist() == [1.0, 0.0]


def test_a_tensor_is_on_one_backend() -> None:
    wrong: Any = Tensor
    with pytest.raises(DeviceError, match=r"Tensor\[...\] got 2 backends"):
        wrong[NumPy, Autodiff[NumPy]].zeros((2,))


@pytest.mark.heavy("pandas", "polars")
def test_frames_and_series_keep_their_dtype() -> None:
    import pandas as pd
    import polars as pl

    for make in (pd.DataFrame, pl.DataFrame):
        frame = make({"a": [1, 2], "b": [0.5, 1.5], "c": [True, False], "d": ["x", "y"]})
        x = Tensor[NumPy].from_data(frame[["b", "c", "a"]])
        assert (x.tolist(), str(x.dtype)) == ([[0.5, 1.0, 1.0], [1.5, 0.0, 2.0]], "float64")
        assert IntTensor[NumPy].from_data(frame["a"]).tolist() == [1, 2]
        assert BoolTensor[NumPy].from_data(frame[["c"]]).tolist() == [[True], [False]]
        with pytest.raises(KindError, match=r"Tensor.from_data\(\) got a frame whose column d has the dtype"):
            Tensor[NumPy].from_data(frame)
        with pytest.raises(DTypeError, match=r"a series that has 1 missing value, .* or pass .to_numpy\(\)"):
            Tensor[NumPy].from_data(make({"e": [1.0, None]})["e"])
