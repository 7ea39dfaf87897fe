"""Conversions between dtypes, kinds and devices, and to Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy, Profiled, device_of
from burnpy.backend.errors import DeviceError, DTypeError, NotTrackedError, ShapeError
from tests.rows import every_row

Train = Autodiff[NumPy]


@pytest.mark.parametrize("backend", [NumPy, Train, Autodiff[Train]])
def test_kinds(backend: Any) -> None:
    x: Any = Tensor[backend].from_data([-1.7, 0.0, float("nan")])
    i: Any = IntTensor[backend].from_data([-1, 0, 2])
    b: Any = BoolTensor[backend].from_data([True, False])
    converted: Any = [
        (x[:2].int(), IntTensor, "int64", [-1, 0]),
        (x[:2].int("int8"), IntTensor, "int8", [-1, 0]),
        (x.bool(), BoolTensor, "bool", [True, False, True]),
        (x[:2].float("float64").float(), Tensor, "float32", [float(np.float32(-1.7)), 0.0]),
        (i.float(), Tensor, "float32", [-1.0, 0.0, 2.0]),
        (i.float("float16"), Tensor, "float16", [-1.0, 0.0, 2.0]),
        (i.int("int32"), IntTensor, "int32", [-1, 0, 2]),
        (i.bool(), BoolTensor, "bool", [True, False, True]),
        (b.float(burnpy.float64), Tensor, "float64", [1.0, 0.0]),
        (b.int(), IntTensor, "int64", [1, 0]),
        (b.bool(), BoolTensor, "bool", [True, False]),
    ]
    for y, cls, dtype, values in converted:
        assert type(y) is cls
        assert y.dtype == dtype
        assert y.device is x.device
        assert y.tolist() == values
        assert (y + y if cls is not BoolTensor else y & y).shape == y.shape  # its backend is the right one
    assert x.float() is x
    assert i.int() is i
    assert b.bool() is b


def test_wrong_kinds() -> None:
    x, i = Tensor[NumPy].ones((2,)), IntTensor[NumPy].ones((2,))
    with pytest.raises(DTypeError, match=r"x\.int\('int32'\)"):
        x.to_dtype("int32")
    with pytest.raises(DTypeError, match=r"x\.bool\(\)"):
        i.to_dtype(bool)
    with pytest.raises(DTypeError, match="use IntTensor"):
        x.float("int32")
    with pytest.raises(DTypeError, match="not a known dtype"):
        x.to_dtype("float8")
    with pytest.raises(DTypeError, match="complex"):
        x.to_dtype(complex)


def test_float_dtypes() -> None:
    x = Tensor[NumPy].from_data([1.0, 2.5])
    assert [y.dtype.name for y in (x.half(), x.bfloat16(), x.double(), x.to_dtype("float16"))] == [
        "float16",
        "bfloat16",
        "float64",
        "float16",
    ]
    assert x.bfloat16().float().tolist() == [1.0, 2.5]
    assert x.to_dtype(burnpy.float32) is x
    assert x.bfloat16().dtype == burnpy.bfloat16


def test_casts_are_recorded() -> None:
    x = Tensor[Train].from_data([1.0, 2.0]).require_grad()
    grads = (x.double() * 3).sum().backward()
    assert grads[x].tolist() == [3.0, 3.0]
    assert grads[x].dtype == burnpy.float32
    assert not x.int().float().is_require_grad()


def test_to_python() -> None:
    assert Tensor[NumPy].full((1, 1), 0.5).item() == 0.5
    assert type(Tensor[NumPy].ones((2,)).sum().item()) is float
    assert type(Tensor[NumPy].ones((), dtype="bfloat16").item()) is float
    assert type(IntTensor[NumPy].ones((), dtype="int8").item()) is int
    assert type(BoolTensor[NumPy].ones(()).item()) is bool
    assert Tensor[NumPy].ones((2, 1), dtype="bfloat16").tolist() == [[1.0], [1.0]]
    assert Tensor[NumPy].zeros((0, 2)).tolist() == []
    assert Tensor[NumPy].zeros((2, 3)).numel() == 6
    assert Tensor[NumPy].zeros(()).numel() == 1
    for shape in ((2,), (0,)):
        with pytest.raises(ShapeError, match=r"item\(\) got a Tensor of shape"):
            Tensor[NumPy].zeros(shape).item()


@every_row("target", [Train, Autodiff[Train], Profiled[NumPy], Autodiff[Profiled[NumPy]]], ids=str)
@every_row("kind", [Tensor, IntTensor, BoolTensor])
def test_to_device_copies_nothing_where_the_same_computes(kind: Any, target: Any) -> None:
    x = kind[NumPy].ones((2, 3))[:, 1:]
    y = x.to_device(target)
    assert y.device is device_of(target)
    assert np.shares_memory(x.to_numpy(), y.to_numpy())
    assert np.shares_memory(y.to_device(Train).to_numpy(), x.to_numpy())


def test_to_device() -> None:
    x = Tensor[NumPy].from_data([1.0, 2.0])
    assert x.to_device(NumPy) is x
    target: Any
    for target in (Train, Autodiff[Train], Autodiff(NumPy())):
        y = x.to_device(target)
        assert y.device is device_of(target)
        assert not y.is_require_grad()
        assert np.shares_memory(y.to_numpy(), x.to_numpy())
        assert y.to_device(NumPy()).tolist() == [1.0, 2.0]
        i = IntTensor[NumPy].arange(2).to_device(target)
        assert (i + i).to_device(NumPy).tolist() == [0, 2]
        assert BoolTensor[NumPy].ones((2,)).to_device(target).device is y.device
    leaf = x.to_device(Train).require_grad()
    assert leaf.to_device(Train) is leaf
    with pytest.raises(NotTrackedError, match=r"x\.detach\(\)"):
        leaf.to_device(NumPy)
    assert leaf.detach().to_device(NumPy).tolist() == [1.0, 2.0]
    with pytest.raises(DeviceError, match="not a backend"):
        x.to_device("cuda")  # type: ignore[arg-type]  # what is tested
