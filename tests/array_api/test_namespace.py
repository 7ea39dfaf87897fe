"""The namespace of a tensor: its device, kinds and dtypes, gradients, derivatives as functions, and its errors."""

from __future__ import annotations

import inspect
import operator
from typing import Any

import array_api_strict
import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, ComplexTensor, IntTensor, Tensor, array_api, func
from burnpy.backend import NumPy, Profiled
from burnpy.errors import ArgumentError, CallError, DimError, KindError, MissingNameError, ShapeError
from tests.rows import every_row

xp: Any = array_api  # it has more names than its type, which mistakes below ask for
strict: Any = array_api_strict
F: Any = Tensor[NumPy].from_data([[1.0, 4.0], [9.0, 16.0]])
I = IntTensor[NumPy].from_data([1, 2])  # noqa: E741  # ints, as F and B
Z = ComplexTensor[NumPy].from_data([[1j, 2j], [3j, 4j]])
B = BoolTensor[NumPy].from_data([True, False])


def test_arrays_are_made_on_the_device_of_the_tensor() -> None:
    assert F.__array_namespace__(api_version="2025.12") is xp
    for device in (Autodiff[NumPy], Profiled[NumPy], Autodiff[Profiled[NumPy]]):
        x = Tensor.ones((2,), device=device)
        own = x.__array_namespace__()
        assert own is x.__array_namespace__(api_version="2022.12") is (x > 0).__array_namespace__()
        made = (own.zeros(2), own.asarray([1.0]), own.arange(2), own.fft.fftfreq(2), own.from_dlpack(np.ones(2)))
        assert {each.device for each in made} == {x.device, own.__array_namespace_info__().default_device()}
        assert own.asarray(F).device is F.device
        assert own.asarray(F, device=x.device).device is x.device
        assert own.sum is xp.sum
    assert xp.zeros(1).device is NumPy()


def test_gradients_flow_through_functions_and_operators() -> None:
    x: Any = Tensor[Autodiff[NumPy]].from_data([[1.0, 4.0], [9.0, 16.0]]).require_grad()
    space = x.__array_namespace__()
    y = space.multiply(space.sqrt(x), space.asarray([1, 2])) + space.asarray([[0.5, 1.0]])
    loss = space.sum(space.stack([y, space.where(x > 4, y, 0.0)]))
    np.testing.assert_allclose(loss.backward()[x], [[0.5, 0.5], [1 / 3, 0.5]], rtol=1e-6)


def test_levels_of_derivatives_make_arrays_beneath_them() -> None:
    def f(x: Any) -> Any:
        space = x.__array_namespace__()
        assert space is xp
        return space.sum(space.pow(x, 3) * space.asarray([[2.0, 1.0]]))

    np.testing.assert_allclose(func.grad(f)(F), 3 * np.asarray(F) ** 2 * [[2, 1]])
    np.testing.assert_allclose(func.hessian(lambda x: xp.sum(xp.exp(x)))(xp.zeros(2)), np.eye(2))
    np.testing.assert_allclose(func.vmap(lambda x: xp.cumulative_sum(x))(F), [[1, 5], [9, 25]])


def test_kinds_promote_in_functions() -> None:
    half = F.half()
    assert [xp.add(x, y).dtype.name for x, y in ((I, F), (B, I), (B, half), (I, 0.5), (B, 2))] == [
        *("float32", "int64", "float16", "float32", "int64")
    ]
    assert [xp.multiply(x, y).dtype.name for x, y in ((F, 1j), (F.double(), Z), (I, Z), (B, 1j), (Z, 2))] == [
        *("complex64", "complex128", "complex64", "complex64", "complex64")
    ]
    assert xp.where(B, I, 0.5).tolist() == [1.0, 0.5]
    assert xp.concat([B, I]).tolist() == [1, 0, 1, 2]
    assert xp.add(xp.asarray(1.0, dtype=xp.float64), F).dtype == xp.float64, "0-d arrays promote others"


def test_isin_inverts() -> None:  # array-api-strict 2.6.1 ignores ``invert``
    assert xp.isin(I, xp.asarray([2, 3]), invert=True).tolist() == [True, False]


def test_asarray_reads_what_others_hold() -> None:
    assert xp.asarray(np.float64(2.0)).dtype == xp.float64
    assert xp.asarray(strict.asarray([1, 2], dtype=strict.int8)).dtype == xp.int8
    assert xp.asarray([[F[0, 0], 2], [I[1], True]]).tolist() == [[1.0, 2.0], [2.0, 1.0]]
    assert xp.asarray([1, 2], dtype=xp.float64).dtype == xp.float64
    assert xp.asarray(memoryview(b"ab")).tolist() == [97, 98]
    assert xp.from_dlpack(np.array([True])).kind == "bool"
    assert xp.asarray([]).dtype == xp.float32


def test_all_names_of_the_standard_are_here() -> None:
    absent = {name for name in strict.__all__ if not name.startswith("_") and not hasattr(xp, name)}
    others = {"ArrayAPIStrictFlags", "Device", "get_array_api_strict_flags"}
    assert {name for name in absent - others if "strict_flags" not in name and "versions" not in name} == set()
    assert {name for name in strict.linalg.__all__ if not hasattr(xp.linalg, name)} == set()
    assert set(strict.fft.__all__) == set(xp.fft.__all__)
    for name in xp.__all__:
        function, theirs = getattr(xp, name), getattr(strict, name, None)
        if inspect.isfunction(function) and inspect.isfunction(theirs):
            assert {*inspect.signature(function).parameters} == {*inspect.signature(theirs).parameters}, name
            assert function.__doc__, name


@every_row(
    ("call", "kind", "message"),
    [
        (
            lambda: xp.sin(I),
            KindError,
            "sin() takes arrays of real floating-point or complex dtype, got an IntTensor of shape (2,)",
        ),
        (lambda: xp.logical_not(F), KindError, "logical_not() takes arrays of boolean dtype, got a Tensor of shape"),
        (lambda: xp.bitwise_or(I, F), KindError, "bitwise_or() takes arrays of boolean or integer dtype"),
        (lambda: xp.mean(I), KindError, "mean() takes arrays of real floating-point or complex dtype"),
        (lambda: xp.add(1, 2), KindError, "add() got numbers only; one argument at least must be an array"),
        (lambda: xp.add(F, [1]), KindError, "add() takes an array, got [1]; make one with asarray(x)"),
        (lambda: xp.imag(F), KindError, "imag() takes arrays of complex dtype, got a Tensor of shape (2, 2)"),
        (
            lambda: xp.max(Z),
            KindError,
            "max() takes arrays of integer or real floating-point dtype, got",
        ),
        (lambda: xp.less(Z, F), KindError, "less() takes arrays of integer or real floating-point dtype, got"),
        (
            lambda: xp.softmax,
            MissingNameError,
            "has no softmax, which is not in the array API standard; write x.softmax",
        ),
        (lambda: xp.concatenate, MissingNameError, "not in the array API standard; write xp.concat(...)"),
        (lambda: xp.inner, MissingNameError, "not in the array API standard; write xp.vecdot(...)"),
        (lambda: xp.cross, MissingNameError, "not in the array API standard; write xp.linalg.cross(...)"),
        (lambda: xp.einsum, MissingNameError, "not in the array API standard; use burnpy.einsum"),
        (lambda: xp.concatt, MissingNameError, "which is not in the array API standard; did you mean concat?"),
        (lambda: xp.fft.fft2, MissingNameError, "burnpy.array_api.fft has no fft2, which is not in the array API"),
        (lambda: xp.sum(F, axis=2), DimError, "sum() got axis 2 for"),
        (lambda: xp.sum(F, dim=1), CallError, "sum() does not take dim; it takes axis"),
        (
            lambda: xp.subtract(F, xp.ones(3)),
            ShapeError,
            "subtract() got shapes (2, 2) and (3,), which do not broadcast",
        ),
        (lambda: xp.concat([F, I]), ShapeError, "concat() "),
        (lambda: xp.take(F, I), ArgumentError, "take() of shape (2, 2) needs an axis"),
        (lambda: xp.isdtype(xp.int8, "ints"), ArgumentError, "isdtype() got kind='ints'; expected one of 'bool'"),
        (lambda: xp.asarray(F, dtype=xp.int8, copy=False), ArgumentError, "asarray() with copy=False got a Tensor"),
        (lambda: xp.asarray([[1], [2, 3]]), ArgumentError, "asarray() got [[1], [2, 3]], whose rows differ in length"),
        (lambda: xp.asarray("text"), KindError, "asarray() got 'text'; expected an array, a number or nested"),
        (lambda: F.__array_namespace__(api_version="2020.01"), ArgumentError, "got api_version='2020.01'; burnpy has"),
        (lambda: F & F, KindError, "&, |, ^, ~, << and >> take ints or masks, got a Tensor of shape (2, 2)"),
        (
            lambda: F.size(1),
            CallError,
            "x.size(1) was called, but x.size is the number of elements, 4; write x.shape[1]",
        ),
        (
            lambda: operator.index(F[0, 0]),
            KindError,
            "an index or a count is an int, got a Tensor of shape () and dtype float32",
        ),
        (
            lambda: F.to_device(NumPy, stream=3),
            ArgumentError,
            "to_device() got stream=3; the copy is made on the stream",
        ),
    ],
)
def test_errors_are_in_the_words_of_the_standard(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)
    assert not str(caught.value).startswith("array()")


def test_attributes_of_the_standard() -> None:
    assert (F.size, F[:0].size, I.size) == (4, 0, 2)
    assert complex(F[0, 1]) == 4 + 0j
    assert F.dtype == xp.float32
    assert I.dtype == xp.int64
    assert B.dtype == xp.bool
    info = xp.__array_namespace_info__()
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind="complex floating")) == {"complex64", "complex128"}
    assert len(info.dtypes()) == 13
    assert info.capabilities()["boolean indexing"]
    assert info.default_dtypes()["indexing"] == xp.int64
    assert info.default_dtypes()["complex floating"] == xp.complex64
    assert info.devices() == (NumPy(),)


def test_gradients_flow_through_spectra() -> None:
    x: Any = Tensor[Autodiff[NumPy]].from_data([0.0, 1.0, 0.0, -1.0]).require_grad()
    spectrum = xp.fft.rfft(x)
    np.testing.assert_allclose(xp.imag(spectrum), [0, -2, 0], atol=1e-6)
    power = xp.real(xp.sum(xp.multiply(spectrum, xp.conj(spectrum))))
    np.testing.assert_allclose(power.backward()[x], [0, 4, 0, -4], atol=1e-5)
