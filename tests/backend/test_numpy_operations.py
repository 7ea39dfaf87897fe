"""The NumPy backend: values by hand and from `math`, dtypes, views and memory, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from burnpy import Tensor, compiled
from burnpy.backend import NumPy
from burnpy.backend.dtypes import bool_, dtype_of, float16, float32, float64, int8, int16, int32, int64, uint8
from burnpy.backend.errors import ArgumentError
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.table import calls
from burnpy.testing.checks import difference
from tests.rows import every_row

D = NumPy()
FLOATS = [float16, dtype_of("bfloat16"), float32, float64]
INTS = [int8, int16, int32, int64, uint8]


def values(x: Any) -> Any:
    return D.to_numpy(x).tolist()


def array(data: Any, dtype: Any = float32) -> Any:
    return np.array(data, dtype)


@every_row("name", [name for name, row in ROWS.items() if row.operation.elementwise])
def test_scalars_of_numpy_are_taken(name: str) -> None:
    """As reductions and views of one element give them, in place of 0-d arrays."""
    for arguments in calls(name, ("float32", "int64"), ("contiguous",)):
        if all(a.shape == () for a in arguments.given if isinstance(a, np.ndarray)):
            scalars = [a[()] if isinstance(a, np.ndarray) else a for a in arguments.given]
            out, (expected,) = getattr(D, name)(*scalars), arguments.expected
            assert (out.shape, out.dtype) == ((), expected.dtype)
            assert difference(np.asarray(out), expected, ROWS[name].loose) is None


def test_erf_is_exact_to_the_dtype() -> None:
    x = np.linspace(-6, 6, 20001)
    exact = np.array([math.erf(v) for v in x])
    assert np.abs(D.erf(x.astype(float32)) - [math.erf(v) for v in x.astype(float32)]).max() < 5e-7
    assert np.abs(D.erf(x) - exact).max() < 1e-15
    assert values(D.erf(array([math.inf, -math.inf, math.nan])))[:2] == [1, -1]


def test_erf_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "scipy.special", None)
    x = np.array([[0.5, -2.0]])
    assert values(D.erf(x)) == [[math.erf(0.5), math.erf(-2.0)]]


@every_row("power", [-3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 4, 2.5])
@every_row("dtype", FLOATS, ids=str)
def test_powers(power: float, dtype: Any) -> None:
    x = array([0.5, 1.0, 3.0], dtype)
    out = D.pow(x, power)
    assert out.dtype == dtype
    rough = {2: 1e-2, 4: 1e-6, 8: 1e-14}[dtype.itemsize]
    np.testing.assert_allclose(out.astype(float64), [v**power for v in (0.5, 1.0, 3.0)], rtol=rough)


def test_powers_at_the_edge() -> None:
    x = array([0.0, -0.0, math.inf, -math.inf, math.nan, -2.0])
    np.testing.assert_array_equal(D.pow(x, 3), [0, -0.0, math.inf, -math.inf, math.nan, -8])
    np.testing.assert_array_equal(D.pow(x, 0), np.ones(6))
    np.testing.assert_array_equal(D.pow(x, -1), [math.inf, -math.inf, 0, -0.0, math.nan, -0.5])


def test_signed_zeros_are_not_confused() -> None:
    x = array([1.0])
    for _ in range(2):
        assert values(D.div(x, 0.0)) == [math.inf]
        assert values(D.div(x, -0.0)) == [-math.inf]


def test_rounding_and_remainders() -> None:
    assert values(D.round(array([0.5, 1.5, 2.5, -0.5, -1.5]))) == [0, 2, 2, 0, -2]
    x = array([5.0, -5.0, 5.0, -5.0])
    assert values(D.remainder(x, array([3.0, 3.0, -3.0, -3.0]))) == [2, 1, -1, -2]
    assert values(D.floor_divide(x, array([3.0, 3.0, -3.0, -3.0]))) == [1, -2, -2, 1]
    assert values(D.remainder(array([5, -5], int32), 3)) == [2, 1]
    assert values(D.floor_divide(array([5, -5], int32), 3)) == [1, -2]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_wins(dtype: Any) -> None:
    x = array([[1.0, math.nan, 2.0], [3.0, 5.0, 5.0]], dtype)
    assert np.isnan(D.amax(x, (1,), False).astype(float64)).tolist() == [True, False]
    assert np.isnan(D.amin(x, (1,), False).astype(float64)).tolist() == [True, False]
    assert values(D.argmax(x, 1, False)) == [1, 1]
    assert np.isnan(D.maximum(x, 2.0).astype(float64)).sum() == 1
    assert np.isnan(float(D.sign(x)[0, 1]))


@every_row("dtype", [*INTS, bool_], ids=str)
def test_discrete_reductions_count_in_int64(dtype: Any) -> None:
    x = array([[1, 1, 0], [1, 1, 1]], dtype)
    assert D.sum(x, (0, 1), False).dtype == int64
    assert int(D.sum(x, (0, 1), False)) == 5
    assert D.sum(x, (), False).dtype == int64
    assert D.cumsum(x, 1).dtype == int64
    assert D.prod(x, (1,), False).dtype == int64
    assert values(D.prod(x, (1,), False)) == [0, 1]


@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
def test_narrow_floats_accumulate_in_float32(dtype: Any) -> None:
    ones = np.ones((1, 4096), dtype)
    assert values(D.sum(ones, (1,), False)) == [4096]
    assert values(D.matmul(ones, ones.T)) == [[4096]]
    assert values(D.cumsum(ones, 1))[0][-1] == 4096
    big = np.full((4,), 60000, dtype)
    assert abs(float(D.mean(big, (0,), False)) - 60000) < 200, "the sum is beyond float16"
    for name in ("softmax", "log_softmax"):
        assert getattr(D, name)(ones, 1).dtype == dtype


@every_row(
    "shape",
    [(3, 4), (64, 300), (2, 30, 40), (1, 700), (700, 1), (9000, 2), (5000,), (0, 3), (3, 0), (1, 4, 2400), (4, 1, 900)],
)
@every_row("dtype", [float32, float64], ids=str)
def test_sums_of_every_shape(shape: tuple[int, ...], dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    n = len(shape)
    for dims in {tuple(range(k)) for k in range(n + 1)} | {tuple(range(k, n)) for k in range(n + 1)} | {(n // 2,)}:
        for keepdim in (False, True):
            wanted = x.astype(float64).sum(axis=dims, keepdims=keepdim)
            for given in (x, x.T.copy().T):
                out = D.sum(given, dims, keepdim)
                assert (out.shape, out.dtype) == (wanted.shape, dtype)
                np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=2e-4 if dtype == float32 else 1e-11)


def test_softmax_is_shifted() -> None:
    x = array([[1000.0, 1000.0], [-1000.0, 0.0], [-math.inf, 0.0]])
    assert values(D.softmax(x, 1)) == [[0.5, 0.5], [0, 1], [0, 1]]
    np.testing.assert_allclose(D.log_softmax(x, 1)[0], [-math.log(2)] * 2, rtol=1e-6)
    np.testing.assert_allclose(D.logsumexp(x, (1,), False), [1000 + math.log(2), 0, 0], rtol=1e-6)
    nothing = array([[-math.inf, -math.inf]])
    assert values(D.logsumexp(nothing, (1,), False)) == [-math.inf]
    assert np.isnan(D.softmax(nothing, 1)).all()
    assert np.isnan(D.mean(np.ones((0,), float32), (0,), False))


@pytest.mark.parametrize("make", [lambda v: v, lambda v: v[()]], ids=["array", "scalar"])
def test_promotion(make: Any) -> None:
    wide, narrow = array([1.0, 2.0], float32), make(np.array(1.0, float64))
    assert D.add(wide, narrow).dtype == float32, "a 0-d primitive does not widen"
    assert D.add(narrow, wide).dtype == float32
    assert D.add(wide, np.ones(2, float64)).dtype == float64
    assert D.add(make(np.array(1.0, float32)), narrow).dtype == float64
    assert D.add(array([1.0], float16), array([1.0], dtype_of("bfloat16"))).dtype == float32
    assert D.mul(array([1], int8), array([1], uint8)).dtype == int16
    assert D.matmul(np.ones((2, 2), float32), np.ones((2, 2), float64)).dtype == float64
    assert D.lt(wide, np.ones(2, float64)).dtype == bool_


@every_row("dtype", [*FLOATS, *INTS], ids=str)
def test_python_numbers_do_not_promote(dtype: Any) -> None:
    x = array([1, 2], dtype)
    for name in ("add", "sub", "mul", "maximum", "minimum", "pow", "remainder", "floor_divide"):
        assert getattr(D, name)(x, 2).dtype == dtype, name
        assert getattr(D, name)(x[0], 2).dtype == dtype, name
    assert D.where(x > 1, x, 0).dtype == dtype
    assert D.eq(x, 1).dtype == bool_
    assert values(D.eq(x, 1)) == [True, False]


def test_ints_wrap_and_compare() -> None:
    assert values(D.add(array([127], int8), 1)) == [-128]
    assert values(D.lt(array([127], int8), 300)) == [True]
    with pytest.raises(OverflowError):
        D.add(array([127], int8), 300)


def test_int_division_by_zero() -> None:
    x = array([1, 2], int32)
    for name, words in (("floor_divide", "integer division"), ("remainder", "remainder")):
        for zero in (0, array([1, 0], int32)):
            with pytest.raises(ArgumentError, match=f"{words} of int32 divides by zero; .* convert to float"):
                getattr(D, name)(x, zero)


def test_negative_powers_of_ints() -> None:
    for exponent in (-1, array([1, -1], int64)):
        with pytest.raises(ArgumentError, match=r"pow of int64 with a negative exponent .* convert to float"):
            D.pow(array([1, 2], int64), exponent)


@every_row("dtype", [float32, float64, int32, bool_], ids=str)
@every_row("n", [5, 20000])
def test_where_large_and_small(dtype: Any, n: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-9, 9, (2, n)).astype(dtype)
    condition = rng.random(n) < 0.5
    np.testing.assert_array_equal(D.where(condition, x, y), np.where(condition, x, y))
    np.testing.assert_array_equal(D.where(condition, x, 0), np.where(condition, x, dtype.type(0)))
    np.testing.assert_array_equal(D.where(condition, x[::-1], 1), np.where(condition, x[::-1], dtype.type(1)))
    np.testing.assert_array_equal(D.where(condition, x, y[:1]), np.where(condition, x, y[:1]))


@every_row("name", ["bool", "uint8", "int16", "float16", "float32", "float64", "complex64", "complex128"])
def test_where_of_a_fill_value(name: str) -> None:
    dtype = np.dtype(name)
    rng = np.random.default_rng(0)
    x, condition = rng.integers(0, 2, (100, 100)).astype(dtype), rng.random((100, 100)) < 0.5
    for number in (
        (0, 1, True) + (-0.0, math.nan, -math.inf, 2.5) * (dtype.kind in "fc") + (1 - 2j,) * (dtype.kind == "c")
    ):
        value = np.asarray(number).astype(dtype)
        for mask, each in ((condition, x), (condition.T, x[::-1]), (condition[:, :1], x), (condition, x[:1])):
            wanted, other = np.where(mask, each, value), np.where(mask, value, each)
            for found in (D.where(mask, each, number), D.where(mask, each, value), D.where(mask, each, value[()])):
                assert found.dtype is dtype
                assert found.tobytes() == wanted.tobytes()
            for filled in (value, value[()]):
                assert D.where(mask, filled, each).tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_where_of_special_numbers_and_views_is_fresh_memory(dtype: Any) -> None:
    x: Any = np.array([[math.nan, -0.0, math.inf], [1.0, -math.inf, 2.0]], dtype)
    y: Any = np.asfortranarray(x[:, ::-1])
    y.flags.writeable = False
    for condition in (x > 0, np.asfortranarray(x > 0), np.broadcast_to(np.array([True, False, True]), x.shape)):
        for other in (y, math.nan, -0.0, 1e300):
            before = x.copy()
            with np.errstate(over="ignore"):
                wanted = np.where(condition, x, np.asarray(other).astype(dtype))
            found = D.where(condition, x, other)
            assert found.tobytes() == wanted.tobytes()
            assert found.flags.c_contiguous
            assert not np.shares_memory(found, x)
            assert x.tobytes() == before.tobytes()
    assert D.where(np.array(True), np.array(2.0, dtype), 1.0) == 2.0


def test_relu_backward_ignores_what_it_drops() -> None:
    for n in (2, 10000):
        out = np.tile(array([0.0, 1.0]), n // 2)
        grad = np.tile(array([math.inf, 3.0]), n // 2)
        assert values(D.relu_backward(grad, out))[:2] == [0, 3]
        assert values(D.relu(array([[-1.0, 2.0] * (n // 2)])))[0][:2] == [0, 2]


def test_the_last_of_duplicates_stays() -> None:
    index = np.array([1, 0, 1])
    x, src = np.zeros((2, 2), float32), array([[1, 1], [2, 2], [3, 3]])
    assert values(D.index_put(x, 0, index, src)) == [[2, 2], [3, 3]]
    assert values(D.scatter(x, 0, np.array([[0, 1], [0, 1]]), array([[1, 2], [3, 4]]))) == [[3, 0], [0, 4]]
    assert values(D.index_add(x, 0, index, src)) == [[2, 2], [4, 4]]


@every_row("dim", [0, 1, 2])
@every_row("dtype", [*FLOATS, int64], ids=str)
def test_index_add_of_many(dim: int, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    shape = [6, 5, 7]
    index = rng.integers(0, shape[dim], 30)
    x = rng.integers(0, 3, shape).astype(dtype)
    shape[dim] = 30
    src = rng.integers(0, 3, shape).astype(dtype)
    wanted = x.astype(float64)
    for at, to in enumerate(index):
        wanted[(slice(None),) * dim + (to,)] += src[(slice(None),) * dim + (at,)]
    np.testing.assert_array_equal(D.index_add(x, dim, index, src).astype(float64), wanted)


def test_accumulation_reuses_what_it_may() -> None:
    total = np.ones(3, float32)
    assert D.accumulate(total, array([1, 2, 3])) is total
    assert values(total) == [2, 3, 4]
    assert D.accumulate_slice(total, (slice(0, 2, 1),), array([1, 1])) is total
    assert D.accumulate_slice(total, (2,), np.float32(1)) is total
    assert D.accumulate_index(total, 0, np.array([0, 0]), array([1, 1])) is total
    assert values(total) == [5, 4, 5]


def test_accumulation_where_nothing_can_be_reused() -> None:
    fixed = np.broadcast_to(np.float32(1), (3,))
    assert values(D.accumulate(fixed, array([1, 2, 3]))) == [2, 3, 4]
    assert values(D.accumulate_slice(fixed, (slice(0, 1, 1),), array([5]))) == [6, 1, 1]
    assert values(D.accumulate_slice(fixed, (0,), np.float32(5))) == [6, 1, 1]
    assert values(D.accumulate_index(fixed, 0, np.array([1]), array([5]))) == [1, 6, 1]
    assert values(fixed) == [1, 1, 1]
    assert float(D.accumulate(np.float32(1), np.float32(2))) == 3
    assert D.accumulate(array([1.0]), np.ones(1, float64)).dtype == float64


def test_creation() -> None:
    assert values(D.arange(0, 1, 0.25, float32)) == [0, 0.25, 0.5, 0.75]
    long = D.arange(0, 100, 0.1, float32)
    assert abs(float(long[-1]) - 99.9) < 1e-5, "steps are not added up in float32"
    assert math.copysign(1, float(D.full((), -0.0, float32))) == -1
    assert values(D.full((2,), 1e300, float32)) == [math.inf] * 2
    assert D.full((), 3, dtype_of("bfloat16")).shape == ()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_random_numbers_have_the_precision_of_their_dtype(dtype: Any) -> None:
    """Numbers are the generator's own in float32 and float64; 16-bit numbers are rounded float32."""
    drawn = float64 if dtype == float64 else float32
    normal = np.random.default_rng(0).standard_normal(50, drawn).astype(dtype)
    np.testing.assert_array_equal(D.random_normal(np.random.default_rng(0), (50,), dtype), normal)
    uniform = np.random.default_rng(0).random(50, drawn).astype(dtype)
    np.testing.assert_array_equal(D.random_uniform(np.random.default_rng(0), (50,), dtype), uniform)


@every_row("given", [">f4", "<f4", ">i8", "longlong", "q", "?"])
def test_from_numpy_copies_into_canonical_memory(given: str) -> None:
    source = np.arange(6).reshape(2, 3).astype(given).T
    out = D.from_numpy(source)
    assert out.dtype is np.dtype(out.dtype.name)
    assert out.flags.c_contiguous
    assert out.dtype.isnative
    assert not np.shares_memory(out, source)
    np.testing.assert_array_equal(out, source)
    np.testing.assert_array_equal(D.adopt_numpy(source), source)


def test_numpy_arrays_come_and_go() -> None:
    x = np.ones(3, float32)
    assert D.adopt_numpy(x) is x
    assert D.to_numpy(x) is x
    assert type(D.to_numpy(np.float32(1))) is np.ndarray
    assert type(D.from_numpy(np.ma.masked_array([1.0]))) is np.ndarray


def test_views_are_views() -> None:
    x = np.zeros((100, 100), float32)
    for view in (D.mT(x), D.reshape(x, (10000,)), D.slice(x, (3,)), D.expand(x, (2, 100, 100)), D.permute(x, (1, 0))):
        assert np.shares_memory(view, x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_index_add_of_16_bits_adds_up_in_32(dtype: str) -> None:
    """One by one, each would be rounded away: 1 + 2⁻¹² is 1."""
    device, narrow = NumPy(), dtype_of(dtype)
    src, index = device.full((4096,), 2.0**-12, narrow), np.zeros(4096, np.int64)
    for total in (device.index_add, device.accumulate_index):
        assert total(device.full((2,), 1.0, narrow), 0, index, src).astype(np.float32).tolist() == [2.0, 1.0]


@every_row("dtype", [np.float32, np.float64])
@every_row("columns", [256, 257, 1000, 5000])
def test_products_of_long_rows_are_those_of_their_elements(columns: int, dtype: Any) -> None:
    x = np.random.default_rng(columns).uniform(0.99, 1.01, (3, 2, columns)).astype(dtype)
    wanted = x.astype(np.float64).prod(2)
    found = NumPy().prod(x, (2,), False)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-4 if dtype is np.float32 else 1e-12)
    assert NumPy().prod(x, (2,), True).shape == (3, 2, 1)
    x[0, 1, -1], x[2, 0, 7] = np.nan, 0.0
    found = NumPy().prod(x, (2,), False)
    assert np.isnan(found[0, 1])
    assert found[2, 0] == 0.0
    np.testing.assert_array_equal(NumPy().prod(x[:0], (2,), False), np.ones((0, 2), dtype))


@every_row("diagonal", [-130, -3, 0, 2, 129])
@every_row("shape", [(100, 100), (130, 70), (3, 50, 90)])
def test_triangles_of_large_matrices_are_numpys(shape: tuple[int, ...], diagonal: int) -> None:
    numbers = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    numbers[..., 3, 5], numbers[..., 5, 3] = np.nan, -0.0
    for x in (numbers, numbers > 0, np.nan_to_num(numbers * 50).astype(np.int16), numbers * np.complex64(1 + 1j)):
        for found, wanted in ((NumPy().tril, np.tril), (NumPy().triu, np.triu)):
            result = found(x, diagonal)
            assert result.dtype == x.dtype
            np.testing.assert_array_equal(result, wanted(x, diagonal))
            assert not np.shares_memory(result, x)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "columns"), [((4, 80, 24), 512), ((30000, 3), 5), ((3, 7), 50000), ((66000, 1), 2)])
def test_large_linear_maps_are_products_and_sums(shape: tuple[int, ...], columns: int, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, bias = rng.normal(size=shape).astype(dtype), rng.normal(size=columns).astype(dtype)
    wide = rng.normal(size=(shape[-1], 2 * columns)).astype(dtype)
    bound = 1e-3 if dtype is np.float32 else 1e-11
    for weight in (wide[:, :columns].copy(), wide[:, :columns].T.copy().T, wide[:, ::2]):
        wanted = np.matmul(x.astype(np.float64), weight) + bias
        found = NumPy().linear(x, weight, bias)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)
        np.testing.assert_allclose(NumPy().linear(x[::2], weight, bias), wanted[::2], rtol=bound, atol=bound)
    bias[1] = np.nan
    found = NumPy().linear(x, weight, bias)
    assert np.isnan(found[..., 1]).all()
    assert np.isfinite(found[..., 2:]).all()


def test_large_linear_maps_do_without_openblas(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias = np.ones((1024, 8), np.float32), np.ones((8, 256), np.float32), np.ones(256, np.float32)
    monkeypatch.setattr("burnpy_numpy.matmul.gemm", lambda _: None)
    assert (NumPy().linear(x, weight, bias) == 9.0).all()


def test_large_linear_maps_give_the_same_on_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.normal(size=s).astype(np.float32) for s in ((4096, 32), (32, 128), (128,)))
    wanted = NumPy().linear(x, weight, bias)
    monkeypatch.setattr("burnpy_numpy.cpu_threads.COUNT", 3)
    np.testing.assert_allclose(NumPy().linear(x, weight, bias), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_batches_in_any_layout(dtype: str) -> None:
    """Rows are gathered for one large product, and a view of part of each row is no matrix that a kernel reads."""
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(256, 96)).astype(dtype), rng.normal(size=96).astype(dtype)
    whole = rng.normal(size=(20, 30, 512)).astype(dtype)
    part = whole[:, :, :256]
    views = [part, whole[:, :, ::2], part.transpose(1, 0, 2), part[::-1], whole[:, ::3, 256:], part[:0]]
    for x in [*views, np.broadcast_to(part[:1], part.shape)]:
        for matrix in (weight, np.asfortranarray(weight)):
            expected = x.astype(np.float64) @ matrix
            np.testing.assert_allclose(D.matmul(x, matrix), expected, rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(D.linear(x, matrix, bias), expected + bias, rtol=1e-3, atol=1e-3)


@every_row("dtype", [*FLOATS], ids=str)
@every_row(
    "shapes", [((9, 1), (1, 1)), ((1, 1), (1, 9)), ((2, 9, 1), (1, 1)), ((1,), (1, 9)), ((1, 1), (2, 1, 9))], ids=str
)
def test_zero_times_nan_is_nan_in_products_with_one_element(shapes: tuple[Any, Any], dtype: Any) -> None:
    """`numpy.dot` scales by a matrix of one element, and skips 0."""
    for numbers in ((0.0, math.nan), (math.nan, 0.0), (0.0, math.inf)):
        x, y = (np.full(shape, number, dtype) for shape, number in zip(shapes, numbers, strict=True))
        assert np.isnan(D.matmul(x, y).astype(float64)).all()
        planned = compiled(lambda a, b: a @ b)(*(Tensor[NumPy].from_data(a) for a in (x, y)))
        assert planned.isnan().all().item()
        grad, image = x.reshape((1, 1, -1, 1)), y.reshape((1, -1, 1, 1))
        if x.size == 1:
            weight = D.conv2d_weight(grad, image, (1, y.size, 1, 1), (1, 1), (0, 0), (1, 1), 1)
            assert np.isnan(weight.astype(float64)).all()


@every_row("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint64"])
def test_clamps_and_remainders_of_many_ints(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, 5000, dtype, endpoint=True)
    x[:4] = limits.min, limits.max, 0, 1
    for low, high in ((2, 50), (None, 50), (2, None), (limits.min, limits.max), (50, 2), (-(1 << 70), 1 << 70)):
        bounds = (limits.min if low is None else low, limits.max if high is None else high)
        wanted = [min(max(value, bounds[0]), bounds[1]) for value in x.tolist()]
        if limits.min <= bounds[0] and bounds[1] <= limits.max:
            found = D.clamp(x, low, high)
            assert found.dtype == x.dtype
            assert found.tolist() == wanted
    assert D.clamp_min(x, 3).tolist() == [max(value, 3) for value in x.tolist()]
    assert D.clamp_max(x, 3).tolist() == [min(value, 3) for value in x.tolist()]
    y = np.roll(x, 1)
    y[y == 0] = 7
    y[1] = limits.max if limits.min == 0 else -1  # of the least int it has no quotient
    x[1] = limits.min
    for divisor in (y, 7, 1, limits.max, *((-7, -1, limits.min) if limits.min else ())):
        found = D.remainder(x, divisor)
        assert found.dtype == x.dtype
        assert found.tolist() == [
            a % b for a, b in zip(x.tolist(), np.broadcast_to(divisor, 5000).tolist(), strict=True)
        ]
    with pytest.raises(ArgumentError, match="divides by zero"):
        D.remainder(x, 0)
    with pytest.raises(ArgumentError, match="divides by zero"):
        D.remainder(x, np.where(y == 7, y.dtype.type(0), y))


@every_row("y", [0.7, -0.7, 2.0**-30, 0.0, np.inf, "array"])
def test_quotients_of_float32_rounded_down(y: Any) -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=6000) * 10.0 ** rng.integers(-3, 6, 6000)).astype("float32")
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.0, -1.0, 3e38], "float32")
    for values in (x, np.concatenate([x, special])):
        divisor = rng.permutation(values) if y == "array" else y
        with np.errstate(all="ignore"):
            wanted = np.floor_divide(values, divisor if y == "array" else np.float32(y))
        found = D.floor_divide(values, divisor)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@every_row("dtype", ["float64", "int64", "uint64"])
@every_row("kinds", [2, 7, 1 << 40])
def test_orders_of_64_bits_are_stable(dtype: str, kinds: int) -> None:
    rng = np.random.default_rng(0)
    x = (rng.integers(0, kinds, (70, 90, 2)) * (1 << 20)).astype(dtype)
    if dtype == "float64":
        x[3:30:3, :, 0] = np.choose(rng.integers(0, 5, (9, 90)), [np.nan, np.inf, -np.inf, 0.0, -0.0])
    for dim in (0, 1):
        for given in (x, x[::-1], np.asfortranarray(x)):
            np.testing.assert_array_equal(D.argsort(given, dim, False), np.argsort(given, dim, kind="stable"))
            reverse = np.argsort(np.flip(given, dim), dim, kind="stable")
            np.testing.assert_array_equal(D.argsort(given, dim, True), given.shape[dim] - 1 - np.flip(reverse, dim))


@every_row("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64"])
@every_row("bits", [3, 7, 31, 63])
def test_products_of_ints_are_numpys(dtype: str, bits: int) -> None:
    rng = np.random.default_rng(0)
    limits = np.iinfo(dtype)
    low, high = max(limits.min, -(1 << bits)), min(limits.max, (1 << bits) - 1)
    for left, right in [((30, 40), (40, 50)), ((3, 20, 70), (70, 20)), ((2, 1, 20, 30), (3, 30, 40))]:
        x = rng.integers(low, high, left, dtype=dtype, endpoint=True)
        y = rng.integers(low, high, right, dtype=dtype, endpoint=True)
        x[..., 0, 0], y[..., 0, 0] = low, high
        for given in (x, np.asfortranarray(x)):
            found = D.matmul(given, y)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, np.matmul(x, y))


@every_row("dtype", ["float16", "bfloat16", "float32", "int8", "uint8", "int32", "int64"])
def test_the_largest_of_many_equal_elements_are_the_first(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, (12, 8, 150)).astype(dtype_of(dtype))
    x[0, 0] = 3
    x[0, 1, :7] = 9
    wide = x.astype(np.int64)
    for dim in range(3):
        for k in (1, 2, 3):
            for largest in (False, True):
                order = np.argsort(-wide if largest else wide, dim, kind="stable")
                wanted = order.take(range(k), dim)
                np.testing.assert_array_equal(D.topk_index(x, dim, k, largest), wanted)
            np.testing.assert_array_equal(
                D.kthvalue_index(x, dim, k), np.argsort(wide, dim, kind="stable").take([k - 1], dim)
            )


@every_row("dtype", ["float32", "float64"])
def test_the_variance_of_everything_is_exact(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((301, 303)).astype(dtype)
    with monkeypatch.context() as patch:
        patch.setattr("burnpy_array.reduction._variance", None)
        for given in (x, x.T, np.asfortranarray(x), x * 1e15, x * 1e-15, x + 3):
            wanted = given.var(dtype=np.float64, ddof=1)
            np.testing.assert_allclose(D.var(given, (0, 1), False, 1.0), wanted, rtol=1e-5)
            assert D.var(given, (0, 1), True, 1.0).shape == (1, 1)
    assert D.var(x, (0, 1), False, 1e9) == np.inf
    assert D.var(np.full((300, 300), 0.1, dtype), (0, 1), False, 1.0) == 0
    far = (x.astype(np.float64) + 1e6).astype(dtype)
    np.testing.assert_allclose(D.var(far, (0, 1), False, 1.0), far.var(dtype=np.float64, ddof=1), rtol=1e-3)
    for value in (np.nan, np.inf, np.finfo(dtype).max):
        x[7, 7] = value
        assert not np.isfinite(D.var(x, (0, 1), False, 1.0))


@every_row("dtype", ["float32", "float64", "float16", "int64", "int8"])
def test_values_are_found_in_short_sequences_by_comparing_all(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).integers(-9, 9, 40_000).astype(dtype)
    if dtype.startswith("float"):
        values[:3] = [np.nan, np.inf, -np.inf]
    wide = values.astype(np.float64)
    for sequence in (np.array([3]), np.arange(-5, 6, 2), np.sort(np.arange(64) % 7)):
        wanted = {right: np.searchsorted(sequence, wide, side) for right, side in ((True, "right"), (False, "left"))}
        with monkeypatch.context() as patch:
            patch.setattr(np, "searchsorted", None)
            for right, places in wanted.items():
                np.testing.assert_array_equal(D.searchsorted(sequence.astype(dtype), values, right), places)
    undefined = np.array([0.0, np.nan])
    assert D.searchsorted(undefined, np.ones(2000), True).tolist() == [1] * 2000


def test_largest_elements_of_short_rows_are_found_by_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnpy_numpy.scans_and_ordering._outermost", None)
    x = np.random.default_rng(0).random((100, 100), np.float32)
    np.testing.assert_array_equal(D.topk_index(x, 1, 3, True), np.argsort(-x, 1)[:, :3])


@every_row("dtype", ["float32", "complex64"])
def test_large_gradients_expanded_from_one_number_are_selected_cast_and_negated(dtype: str) -> None:
    grad, mask = np.broadcast_to(dtype_of(dtype).type(2), (90, 100)), np.arange(9000).reshape(90, 100) % 3 == 0
    np.testing.assert_array_equal(D.where(mask, grad, D.neg(grad)), np.where(mask, 2, -2))
    np.testing.assert_array_equal(D.neg(np.array(grad).T), np.full((100, 90), -2))
    if dtype == "float32":
        for x in (grad, np.arange(9000, dtype=np.float32).reshape(100, 90).T):
            np.testing.assert_array_equal(D.cast(D.cast(x, dtype_of("bfloat16")), float32), x.astype("bfloat16"))


@every_row("dtype", ["float16", "bfloat16"])
def test_reductions_and_scans_of_many_halves_are_those_of_float32_rounded_once(dtype: str) -> None:
    x = np.random.default_rng(0).uniform(0.9, 1.1, (40, 50, 6)).astype(dtype_of(dtype))
    x[0, 0, :4] = [np.inf, -0.0, np.nan, -1.0]
    wide = x.astype(np.float32)
    for name in ("prod", "amax", "amin", "nansum"):
        for dims in ((0,), (1,), (2,), (0, 1), (0, 1, 2)):
            for keepdim in (False, True):
                found, wanted = (getattr(D, name)(each, dims, keepdim) for each in (x, wide))
                np.testing.assert_array_equal(found.astype(float32), wanted.astype(x.dtype).astype(float32))
    for name in ("cumsum", "cumprod", "softmax", "log_softmax"):
        for dim in range(3):
            found, wanted = (getattr(D, name)(each, dim) for each in (x, wide))
            np.testing.assert_array_equal(found.astype(float32), wanted.astype(x.dtype).astype(float32))
    for name in ("cummax", "cummin"):
        for found, wanted in zip(getattr(D, name)(x, 1), getattr(D, name)(wide, 1), strict=True):
            np.testing.assert_array_equal(found.astype(float32), wanted.astype(found.dtype).astype(float32))
    for name in ("argmax", "argmin"):
        np.testing.assert_array_equal(getattr(D, name)(x, 1, False), getattr(D, name)(wide, 1, False))


@every_row("dtype", ["float32", "float64", "int16", "int64"])
@every_row("axes", [(1, 0, 2), (2, 1, 0), (1, 2, 0)])
def test_reductions_and_scans_in_the_order_of_memory(axes: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (20, 30, 40)).astype(dtype).transpose(axes)
    plain = np.array(x, order="C")
    for dims in ((0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)):
        for keepdim in (False, True):
            for name in ("sum", "prod", "amax", "amin", *(("nansum",) if dtype.startswith("float") else ())):
                found, wanted = (getattr(D, name)(each, dims, keepdim) for each in (x, plain))
                np.testing.assert_array_equal(found, wanted)
                assert (np.shape(found), found.dtype) == (np.shape(wanted), wanted.dtype)
    for dim in range(3):
        for name, function in {"cumsum": np.cumsum, "cumprod": np.cumprod}.items():
            found = getattr(D, name)(x, dim)
            np.testing.assert_array_equal(found, function(plain, dim, None if dtype.startswith("float") else int64))


def test_sums_of_functions_of_everything_have_a_rest() -> None:
    for size in (5000, 4096, 4095, 131072, 131073):
        x = np.random.default_rng(0).normal(size=size).astype("float32")
        x[3] = np.nan
        exact = np.nansum(x.astype(float64))
        assert D.nansum(x, (0,), False) == pytest.approx(exact, rel=1e-5, abs=1e-3)
        x[3], x[-1] = 1.0, 1e-20
        assert D.vector_norm(x, 2.0, (0,), False) == pytest.approx(np.linalg.norm(x.astype(float64)), rel=1e-6)


def test_one_hot_of_what_is_out_of_range_is_zero() -> None:
    index = np.array([[0, 2, 5], [-1, 1, 3]])
    found = D.one_hot(index, 3)
    np.testing.assert_array_equal(found, np.equal(index[..., None], np.arange(3)).astype(int64))
    assert D.one_hot(index[:0], 3).shape == (0, 3, 3)
    assert D.one_hot(np.int64(2), 3).tolist() == [0, 0, 1]


def test_views_that_make_up_a_read_only_array_are_joined_without_a_copy() -> None:
    x = np.arange(240, dtype=np.float32)
    x.flags.writeable = False
    y = x.reshape((2, 5, 6, 4))
    for whole in (y, y.swapaxes(1, 2), y.transpose((3, 0, 2, 1))):
        for dim in range(4):
            parts = np.split(whole, [1], dim)
            joined = D.cat(parts, dim)
            assert np.shares_memory(joined, x)
            assert not joined.flags.writeable
            np.testing.assert_array_equal(joined, whole)
            for others in (parts[::-1], [parts[0], parts[1].copy()], np.split(whole.copy(), [1], dim)):
                joined = D.cat(others, dim)
                assert not np.shares_memory(joined, others[0])
                np.testing.assert_array_equal(joined, np.concatenate(others, dim))
    turned = [x[::-1]]
    np.testing.assert_array_equal(D.cat(turned, 0), turned[0])
    with pytest.raises(ValueError, match="dimensions"):
        D.cat([y[:1], y[1:, :3]], 0)
