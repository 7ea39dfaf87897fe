"""Matrix products by the kernel: values in all layouts, bits that depend on the inner dimension alone, and memory."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import local
from typing import Any

import numpy as np
import pytest

import burnpy_numpy.cpu_threads as threads
import burnpy_numpy.matmul as matmul
from burnpy import IntTensor, Tensor, compiled
from burnpy.backend import Mixed, NumPy, explain
from burnpy.backend.dtypes import dtype_of, float32, int32
from burnpy.nn import functional
from burnpy_array import ArrayBackend
from burnpy_numpy.matmul import kernel_product
from tests.kernels import needs_kernels, needs_products
from tests.rows import every_row

pytest.importorskip("llvmlite")
import burnpy_numpy.plans.executor  # noqa: F401  # it has the store of packed weights before a test replaces that
from burnpy_numpy.kernels import packed_weights
from burnpy_numpy.kernels.compiler.target import has_amx, target
from burnpy_numpy.kernels.products import products
from burnpy_numpy.kernels.products.copies import CHUNK_BYTES
from burnpy_numpy.kernels.products.stripes import MOST_BYTES

D = NumPy()
ROOT = Path(__file__).resolve().parents[2]
pytestmark = needs_kernels
DTYPES = [np.float32, np.float64]


@pytest.fixture(autouse=True)
def all_sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compute products of all sizes by the kernel."""
    matmul._products.clear()
    monkeypatch.setattr(products, "serves", lambda *sizes: True)
    monkeypatch.setattr(matmul, "LEAST", 1)
    yield
    matmul._products.clear()
    kept = getattr(products._own, "memory", None)
    assert kept is None or kept.shape[1] == products.workspace_size(), "too little memory for the next products"


def drawn(rng: np.random.Generator, dtype: Any, *shape: int) -> Any:
    return rng.normal(size=shape).astype(dtype)


def use_small_blocks(patch: pytest.MonkeyPatch) -> None:
    """Divide B into small blocks, which a workspace of its own has room for: it has none for the usual ones."""
    patch.setattr(products, "_block_bytes", lambda: 1 << 16)
    patch.setattr(products, "_own", local())


def layouts(x: Any) -> list[Any]:
    """Return equal arrays of matrices: contiguous, transposed, part of a wider one, reversed, in steps."""
    *outer, rows, columns = x.shape
    part = np.zeros((*outer, rows + 1, columns + 3), x.dtype)[..., 1:, 2 : 2 + columns]
    steps = np.zeros((*outer, rows, 2 * columns), x.dtype)[..., ::2]
    part[...] = steps[...] = x
    return [x, part, x.swapaxes(-1, -2).copy().swapaxes(-1, -2), x[..., ::-1, :].copy()[..., ::-1, :], steps]


def check(x: Any, y: Any, found: Any, bias: Any = 0.0) -> None:
    """Compare with the product in float64, to a few roundings of the sum of the absolute products."""
    exact = np.matmul(x.astype(np.float64), y.astype(np.float64)) + bias
    scale = np.matmul(abs(x.astype(np.float64)), abs(y.astype(np.float64))) + abs(bias)
    assert found.dtype == x.dtype
    assert found.shape == exact.shape
    assert (abs(found - exact) <= 20 * np.finfo(x.dtype).eps * scale + 1e-30).all(), (x.shape, x.strides, y.strides)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 4, 7, 12, 29])
def test_products_in_all_layouts(rows: int, dtype: Any) -> None:
    rng = np.random.default_rng(rows)
    for inner, columns in [(1, 1), (3, 8), (17, 15), (64, 33), (401, 47), (810, 100)]:
        x, y, bias = (drawn(rng, dtype, *s) for s in ((rows, inner), (inner, columns), (columns,)))
        for a, b in [*((a, y) for a in layouts(x)), *((x, b) for b in layouts(y)), (layouts(x)[2], layouts(y)[2])]:
            check(x, y, kernel_product(a, b))
        check(x, y, D.linear(x, y, bias), bias)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_gradient_by_a_bias_comes_with_the_product(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bits do not depend on the number of inputs, on layouts or on threads; the other gradient is the product."""
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    if not target().fuses:
        pytest.skip("this target does not convert float16")
    monkeypatch.setattr(ArrayBackend, "linear_backward", None)
    monkeypatch.setattr(products, "_WORTH_WIDENING", 1)
    monkeypatch.setattr(threads, "LEAST", 1 << 8)
    rng, narrow = np.random.default_rng(3), dtype_of(dtype) if dtype_of(dtype).itemsize == 2 else None
    for rows, columns in [(2, 300), (9, 65), (64, 24), (401, 47), (514, 100), (2100, 70)]:
        grad, bits = rng.integers(-9, 10, (rows, columns)).astype(dtype_of(dtype)) / dtype_of(dtype).type(8), set()
        for inputs, count in itertools.product((1, 2, 12, 33), (1, 3)):
            monkeypatch.setattr(threads, "COUNT", count)
            matmul._products.clear()
            x = drawn(rng, dtype_of(dtype), rows, inputs)
            for a, g in [*((a, grad) for a in layouts(x)), *((x, g) for g in layouts(grad))]:
                weight, bias = D.linear_backward(g, a)
                expected = kernel_product(a.T, g, dtype=narrow) if inputs > 1 or narrow else D.matmul_tn(a, g)
                assert weight.tobytes() == expected.astype(weight.dtype).tobytes()
                assert bias.dtype == grad.dtype
                bits.add(bias.tobytes())
        exact = grad.astype(np.float64).sum(0)  # of multiples of an eighth, and so is each sum of them
        assert bits == {exact.astype(grad.dtype).tobytes()}


@every_row("dtype, rows", [("float32", 512), ("float32", 1 << 14), ("float64", 256), ("float64", 1 << 13)])
def test_sums_of_many_rows_lose_few_digits(dtype: str, rows: int) -> None:
    grad = np.random.default_rng(0).random((rows, 32)).astype(dtype)
    bias = D.linear_backward(grad, grad)[1]
    exact = grad.astype(np.longdouble).sum(0)
    assert (abs(bias - exact) <= 4 * np.finfo(grad.dtype).eps * exact).all()


@needs_products
def test_longer_sums_are_no_part_of_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert [products.serves(8, 1 << k, 64, 4, False, True) for k in (1, 6, 14, 15)] == [False, True, True, False]


@needs_products
def test_the_place_of_a_programs_arrays_is_not_read_without_a_program() -> None:
    """Plans leave an int there, whose memory has another content in each version of Python."""
    x, y, unread = (np.ones(shape, np.float32) for shape in ((8, 16), (16, 32), 32))
    out, found = np.empty((8, 32), np.float32), products.product_of(x, y)
    assert isinstance(found, products.Product)
    found.run(x, y, out, arrays=unread)
    assert (unread == 1).all()
    assert (out == 16).all()


def test_the_gradient_by_a_bias_is_infinite_where_a_gradient_is() -> None:
    grad = np.ones((70, 40), np.float32)
    grad[5, 3], grad[66, 39], grad[7, 8] = np.inf, -np.inf, np.nan
    bias = D.linear_backward(grad, np.ones((70, 30), np.float32))[1]
    np.testing.assert_array_equal(bias, grad.sum(0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 4, 7, 12, 29])
def test_products_are_added_to_memory(rows: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bit as a product and a sum; not where an element is several sums, which would come in another order."""
    rng = np.random.default_rng(rows)
    for count in (1, 3):
        monkeypatch.setattr(threads, "COUNT", count)
        matmul._products.clear()
        for inner, columns in [(1, 1), (3, 8), (17, 15), (64, 33), (200, 47), (150, 400), (401, 47)]:
            x, y, total = (drawn(rng, dtype, *s) for s in ((rows, inner), (inner, columns), (rows, columns)))
            for a, b in [*((a, y) for a in layouts(x)), (x, layouts(y)[2]), (layouts(x)[2], layouts(y)[2])]:
                expected, memory = total + kernel_product(a, b), total.copy()
                added = kernel_product(a, b, total=memory)
                assert added is (memory if inner * total.itemsize <= CHUNK_BYTES else None)
                assert (
                    D.accumulate_product(memory if added is None else total.copy(), a, b).tobytes()
                    == expected.tobytes()
                )
                assert added is None or memory.tobytes() == expected.tobytes()


def test_products_are_not_added_to_memory_that_cannot_have_them() -> None:
    x, y = np.ones((4, 8), np.float32), np.ones((8, 16), np.float32)
    shut, wide = np.ones((4, 16), np.float32), np.ones((4, 16))
    shut.flags.writeable = False
    narrow = np.ones((64, 64), np.float16)
    assert D.accumulate_product(narrow, narrow, narrow).tolist() == [[65.0] * 64] * 64
    for total in (shut, np.broadcast_to(np.float32(1), (4, 16)), np.ones((16, 4), np.float32).T, wide):
        assert D.accumulate_product(total, x, y).tolist() == [[9.0] * 16] * 4
    assert shut.tolist() == [[1.0] * 16] * 4


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_many_rows_and_of_blocks_of_columns(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels are copied where there are many rows, and columns come in blocks that fit into a small cache."""
    use_small_blocks(monkeypatch)
    rng = np.random.default_rng(0)
    x, y = drawn(rng, dtype, 130, 410), drawn(rng, dtype, 410, 203)
    for a in layouts(x)[:3]:
        for b in layouts(y)[:3]:
            check(x, y, kernel_product(a, b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_batches_that_broadcast(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    for left, right in [((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3)), ((0,), (0,))]:
        x, y = drawn(rng, dtype, *left, 13, 21), drawn(rng, dtype, *right, 21, 34)
        for a in layouts(x):
            check(x, y, D.matmul(a, y))
        check(x, y, D.matmul_nt(x, y.swapaxes(-1, -2).copy()))
        check(x, y, D.matmul_tn(x.swapaxes(-1, -2).copy(), y))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bits_of_a_row_depend_on_the_inner_dimension_alone(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    for inner in (5, 400, 1000):
        x, y, bias = (drawn(rng, dtype, *s) for s in ((700, inner), (inner, 150), (150,)))
        whole, added = kernel_product(x, y), kernel_product(x, y, bias)
        for a in layouts(x):
            for b in layouts(y):
                np.testing.assert_array_equal(kernel_product(a, b), whole)
        for rows, columns in ((1, 150), (5, 33), (100, 1)):
            np.testing.assert_array_equal(kernel_product(x[:rows], y[:, :columns]), whole[:rows, :columns])
            some = kernel_product(x[:rows], y[:, :columns], bias[:columns])
            np.testing.assert_array_equal(some, added[:rows, :columns])
        np.testing.assert_array_equal(kernel_product(x.reshape(7, 100, inner), y).reshape(700, 150), whole)
        for count in (2, 3, 8):
            matmul._products.clear()
            monkeypatch.setattr(threads, "COUNT", count)
            monkeypatch.setattr(threads, "LEAST", 1)
            np.testing.assert_array_equal(kernel_product(x, y), whole)
            np.testing.assert_array_equal(D.linear(x, y, bias), added)
        monkeypatch.setattr(threads, "COUNT", 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [8, 150, 410])
def test_panels_of_weights_are_kept_for_few_rows(columns: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second product with an array keeps its panels, which give the same bits until the array is gone."""
    monkeypatch.setattr(products, "_FAR", 1)
    rng = np.random.default_rng(5)
    x, bias = drawn(rng, dtype, 13, 410), drawn(rng, dtype, columns)
    for rows in (2, 13):
        weight, turned = drawn(rng, dtype, 410, columns), drawn(rng, dtype, columns, 410)
        given: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [(D.linear, (weight, bias)), (D.matmul_nt, (turned,))]
        for multiply, others in given:
            store = packed_weights.PackedWeights(1 << 22)
            monkeypatch.setattr(packed_weights, "packed_weights", store)
            first = multiply(x[:rows], *others)
            assert not store._packed
            second = multiply(x[:rows], *others)
            assert len(store._packed) == 1
            for count in (1, 3):
                matmul._products.clear()
                monkeypatch.setattr(threads, "COUNT", count)
                monkeypatch.setattr(threads, "LEAST", 1)
                np.testing.assert_array_equal(multiply(x[:rows], *others), first)
            np.testing.assert_array_equal(second, first)
            assert not others[0].flags.writeable


def test_plans_use_kept_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    store = packed_weights.PackedWeights(1 << 22)
    monkeypatch.setattr(packed_weights, "packed_weights", store)
    monkeypatch.setattr(products, "_FAR", 1)
    rng = np.random.default_rng(6)
    weight, turned, bias = (Tensor[NumPy].from_data(drawn(rng, np.float32, *s)) for s in ((90, 70), (70, 90), (70,)))
    plan = compiled(lambda x, w, t: (functional.linear(x, w, bias).relu(), x @ t.transpose(0, 1)))
    for _ in range(4):
        x = Tensor[NumPy].from_data(drawn(rng, np.float32, 5, 90))
        for found, wanted in zip(plan(x, weight, turned), ((x @ weight + bias).relu(), x @ turned.T), strict=True):
            np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy(), rtol=2e-4, atol=2e-4)
    assert len(store._packed) >= 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_element_multiplies_a_row_or_a_column(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "matmul", None)  # which takes ten times as long
    x, one = np.array([[2.0], [np.nan], [0.0], [-3.0]], dtype), np.full((1, 1), np.inf, dtype)
    for shape in ((4, 1), (1, 4)):
        found = NumPy().matmul(x, one) if shape[1] == 1 else NumPy().matmul(one, x.T)
        np.testing.assert_array_equal(found, np.reshape([np.inf, np.nan, np.nan, -np.inf], shape))


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities_and_nan_stay_in_their_rows_and_columns(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    x, y = drawn(rng, dtype, 29, 50), drawn(rng, dtype, 50, 70)
    x[3, 49], x[28, 0], y[7, 69], y[8, 33] = np.nan, np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        found, wanted = kernel_product(x, y), np.matmul(x, y)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(np.where(np.isinf(found), found, 0.0), np.where(np.isinf(wanted), wanted, 0.0))


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_floats_of_16_bits_are_widened(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their products have the bits of products of float32 in all layouts, with sums of float32."""
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    if not target().fuses:
        pytest.skip("this target does not convert float16")
    monkeypatch.setattr(products, "multiplied_by", lambda stored: "numbers")
    monkeypatch.setattr(products, "_WORTH_WIDENING", 1)
    narrow, rng = dtype_of(name), np.random.default_rng(7)
    for m, k, n in [(1, 1, 1), (5, 3, 33), (13, 19, 15), (29, 401, 47), (130, 810, 100)]:
        x, y = (drawn(rng, np.float32, *s).astype(narrow) for s in ((m, k), (k, n)))
        wide, bias = kernel_product(x.astype(np.float32), y.astype(np.float32)), drawn(rng, np.float32, n)
        for a, b in [*((a, y) for a in layouts(x)), *((x, b) for b in layouts(y)), (layouts(x)[2], layouts(y)[2])]:
            np.testing.assert_array_equal(kernel_product(a, b, dtype=float32), wide)
        added = kernel_product(x.astype(np.float32), y.astype(np.float32), bias)
        np.testing.assert_array_equal(kernel_product(x, y, bias, dtype=float32), added)
        found = [D.matmul(x, y), D.matmul_nt(x, layouts(y)[2].T), D.matmul_tn(layouts(x)[2].T, y)]
        for each in [*found, D.matmul(np.stack([x, x]), y)[1]]:
            np.testing.assert_array_equal(each, wide.astype(narrow))
    empty = D.matmul(x[:0], y)
    assert empty.shape == (0, n)
    assert empty.dtype is narrow


def by_amx(x: Any, y: Any, bias: Any = 0.0) -> Any:
    """Return a product of bfloat16 as AMX computes it: of each 32 products, those of even places are added in order,
    and those of odd places; then both, to what was before."""
    (m, k), n = x.shape, y.shape[1]
    depth = -(-k // 32) * 32
    left, right = np.zeros((m, depth), np.float32), np.zeros((depth, n), np.float32)
    left[:, :k], right[:k], total = x, y, np.zeros((m, n), np.float32) + np.float32(bias)
    for start in range(0, depth, 32):
        sums = np.zeros((2, m, n), np.float32)
        for place in range(32):
            sums[place % 2] += left[:, start + place, None] * right[start + place]
        total += sums[0] + sums[1]
    return total


def by_dot_products(x: Any, y: Any, bias: Any = 0.0) -> Any:
    """Return a product of bfloat16 as `vdpbf16ps` computes it: sums of chunks, each in order, but that the second one
    of two neighbours comes before the first one."""
    (m, k), n = x.shape, y.shape[1]
    count = -(-2 * k // CHUNK_BYTES)
    chunk, total = -(-k // (2 * count)) * 2, np.zeros((m, n), np.float32) + np.float32(bias)
    left, right = x.astype(np.float64), y.astype(np.float64)
    for start in range(0, k, chunk):
        some = np.zeros((m, n), np.float32)
        for place in range(start, min(start + chunk, k)):
            one = place ^ 1 if place ^ 1 < k else place
            some = (some + left[:, one, None] * right[one]).astype(np.float32)
        total = some + total
    return total


BFLOAT16 = {"amx": (by_amx, MOST_BYTES), "dots": (by_dot_products, CHUNK_BYTES)}
"""By the instructions for bfloat16: their products, and the bytes of a row whose sums they round to bfloat16."""


def has(by: str, dtype: str) -> bool:
    """Return whether the target has instructions for words of a dtype; see `words_of`."""
    if by != "dots":
        return has_amx() if by == "amx" else target().fuses
    needs = "+avx512bf16" if dtype == "bfloat16" else "+avx512vnni"
    return target().vector == 64 and needs in target().features.split(",")


def multiply_by(way: str, dtypes: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiply operands of these dtypes by one kind of instructions, as far as a test goes."""
    usual = products.multiplied_by
    monkeypatch.setattr(products, "multiplied_by", lambda stored: way if dtypes.issuperset(stored) else usual(stored))


@pytest.fixture(params=BFLOAT16)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The instructions by which products of bfloat16 of all sizes are computed, where the processor has them."""
    pytest.importorskip("ml_dtypes")
    if not has(request.param, "bfloat16"):
        pytest.skip("this target lacks the instructions")
    monkeypatch.setattr(products, "_WORTH_WIDENING", 1)
    multiply_by(request.param, {"bfloat16"}, monkeypatch)
    by: str = request.param
    return by


def check_blocks_of_threads(monkeypatch: pytest.MonkeyPatch, multiply: Callable[[], Any], expected: Any) -> None:
    """Compare a product that is divided into several blocks of columns, and among several threads."""
    with monkeypatch.context() as patch:
        use_small_blocks(patch)
        patch.setattr(threads, "LEAST", 1)
        for count in (2, 3, 8):
            matmul._products.clear()
            patch.setattr(threads, "COUNT", count)
            np.testing.assert_array_equal(multiply(), expected)
    matmul._products.clear()


@pytest.mark.slow
def test_words_of_bfloat16_are_added_up_in_one_order(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits of a row depend on the inner dimension alone, also where the sums are rounded to bfloat16."""
    rng, bfloat16, (multiplied, most) = np.random.default_rng(9), dtype_of("bfloat16"), BFLOAT16[way]
    for m, k, n in [(1, 1, 1), (5, 3, 33), (13, 19, 15), (16, 32, 16), (29, 401, 47), (130, 1100, 100), (70, 2100, 40)]:
        x, y = (drawn(rng, np.float32, *s).astype(bfloat16) for s in ((m, k), (k, n)))
        bias = drawn(rng, np.float32, n)
        wanted, added = multiplied(x, y), multiplied(x, y, bias)
        check(x.astype(np.float32), y.astype(np.float32), wanted)
        for a, b in [*((a, y) for a in layouts(x)), *((x, b) for b in layouts(y)), (layouts(x)[2], layouts(y)[2])]:
            np.testing.assert_array_equal(kernel_product(a, b, dtype=float32), wanted)
            np.testing.assert_array_equal(kernel_product(a, b, bias, dtype=float32), added)
            rounded = kernel_product(a, b, dtype=bfloat16)
            assert rounded.dtype is (bfloat16 if 2 * k <= most else float32)
            np.testing.assert_array_equal(rounded, wanted.astype(rounded.dtype))
        np.testing.assert_array_equal(
            kernel_product(x[:1], y[:, : n // 2 + 1], dtype=float32), wanted[:1, : n // 2 + 1]
        )
        np.testing.assert_array_equal(kernel_product(np.stack([x, x]), y, dtype=float32), np.stack([wanted, wanted]))
        check_blocks_of_threads(monkeypatch, partial(kernel_product, x, y, bias, dtype=float32), added)


def test_panels_of_bfloat16_are_kept(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, bfloat16 = packed_weights.PackedWeights(1 << 22), dtype_of("bfloat16")
    monkeypatch.setattr(packed_weights, "packed_weights", store)
    monkeypatch.setattr(products, "_WORTH_KEEPING", 1)
    rng = np.random.default_rng(10)
    for columns in (8, 64, 150):
        x, weight = (drawn(rng, np.float32, *s).astype(bfloat16) for s in ((5, 411), (411, columns)))
        for kept, given in ((weight, weight), (turned := np.ascontiguousarray(weight.T), turned.T)):
            found = [kernel_product(x[:rows], given, dtype=float32) for rows in (5, 5, 3, 1)]
            for each in found:
                np.testing.assert_array_equal(each, BFLOAT16[way][0](x, weight)[: len(each)])
            assert store._packed
            assert not kept.flags.writeable


@pytest.fixture(params=["pairs", "dots", "amx"])
def ints(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """A function that returns ints of 8 bits without and with signs, which one kind of instructions multiplies."""
    if not has(request.param, "int8"):
        pytest.skip("this target lacks the instructions")
    multiply_by(request.param, {"int8", "uint8"}, monkeypatch)
    monkeypatch.setattr(products, "_WORTH_WIDENING", 1)
    rng = np.random.default_rng(12)

    def signed_and_unsigned(*shape: int) -> list[Any]:
        unsigned = rng.integers(0, 256, shape).astype(np.uint8)
        return [unsigned, unsigned.view(np.int8)]

    return signed_and_unsigned


@pytest.mark.slow
def test_products_of_ints_are_exact_in_all_layouts(ints: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for m, k, n in [(1, 1, 1), (5, 3, 33), (13, 19, 15), (16, 64, 16), (29, 801, 47), (130, 2100, 100)]:
        for x, y in itertools.product(ints(m, k), ints(k, n)):
            wanted = np.matmul(x, y, dtype=np.int32)
            for a, b in [*((a, y) for a in layouts(x)), *((x, b) for b in layouts(y)), (layouts(x)[2], layouts(y)[2])]:
                found = kernel_product(a, b, dtype=int32)
                assert found.dtype is int32
                np.testing.assert_array_equal(found, wanted)
        check_blocks_of_threads(monkeypatch, partial(kernel_product, x, y, dtype=int32), wanted)


def test_products_of_ints_of_batches_that_broadcast(ints: Any) -> None:
    for left, right in [((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3)), ((4,), ()), ((0,), (0,))]:
        for x, y in itertools.product(ints(*left, 13, 21), ints(*right, 21, 34)):
            np.testing.assert_array_equal(D.integer_matmul(x, y), np.matmul(x, y, dtype=np.int32))


def test_sums_of_ints_wrap_around_as_numpy_adds_them(ints: Any) -> None:
    for x, y in [(255, 255), (-128, -128), (-128, 255), (255, -128)]:
        a, b = (np.full(s, v, np.uint8 if v > 0 else np.int8) for s, v in (((3, 140_000), x), ((140_000, 5), y)))
        wanted = (x * y * 140_000 + 2**31) % 2**32 - 2**31
        assert D.integer_matmul(a, b).tolist() == [[wanted] * 5] * 3
        assert ArrayBackend.integer_matmul(D, a, b).tolist() == [[wanted] * 5] * 3


def test_panels_of_ints_are_kept(ints: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = packed_weights.PackedWeights(1 << 22)
    monkeypatch.setattr(packed_weights, "packed_weights", store)
    for columns, signs in itertools.product((8, 150), itertools.product((0, 1), repeat=2)):
        x, y = (ints(*size)[sign].copy() for sign, size in zip(signs, ((50, 1811), (1811, columns)), strict=True))
        wanted = (x.astype(np.float64) @ y).astype(np.int32)
        for kept, given in ((y, y), (turned := np.ascontiguousarray(y.T), turned.T)):
            for rows in (50, 50, 3, 1):
                np.testing.assert_array_equal(kernel_product(x[:rows], given, dtype=int32), wanted[:rows])
            assert store._packed
            assert not kept.flags.writeable


def test_words_of_bfloat16_keep_infinities_and_nan_and_have_no_subnormal_numbers(way: str) -> None:
    rng, bfloat16 = np.random.default_rng(11), dtype_of("bfloat16")
    x, y = (drawn(rng, np.float32, *s).astype(bfloat16) for s in ((29, 50), (50, 70)))
    x[3, 49], x[28, 0], y[7, 69], y[8, 33] = np.nan, np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        found, wanted = kernel_product(x, y, dtype=float32), x.astype(np.float32) @ y.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(np.where(np.isinf(found), found, 0.0), np.where(np.isinf(wanted), wanted, 0.0))
    rounded = [each.astype(np.float32) for each in (kernel_product(x, y, dtype=bfloat16), found.astype(bfloat16))]
    np.testing.assert_array_equal(*rounded)
    small, one = np.full((2, 2), 1e-39, bfloat16), np.eye(2, dtype=bfloat16)
    np.testing.assert_array_equal(kernel_product(small, one, dtype=float32), 0.0)
    np.testing.assert_array_equal(kernel_product(small, one, dtype=bfloat16), bfloat16.type(0.0))
    most = np.full((2, 2), 3.3e38, bfloat16)  # the sums round to infinity
    np.testing.assert_array_equal(kernel_product(most, one + one, dtype=bfloat16), bfloat16.type(np.inf))


def test_the_first_of_two_parts_is_larger_while_another_thread_wakes_up() -> None:
    for rows, columns, ahead, wanted in [(1024, 192, 0.0, 516), (1024, 192, 0.2, 624), (1024, 192, 9.0, 768)]:
        assert products._part(rows, columns, 2, 12, 32, False, ahead) == (wanted, 192)
    assert products._part(8, 64, 2, 12, 32, False, 9.0) == (12, 32)
    assert products._part(1024, 192, 4, 12, 32, True, 0.0) == (264, 192)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_mixed_precision_multiplies_floats_of_16_bits(name: str) -> None:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    device, narrow, rng = Mixed(NumPy, name), dtype_of(name), np.random.default_rng(8)
    x, w, bias = (drawn(rng, np.float32, *s) for s in ((2, 40, 50), (50, 70), (70,)))
    a, b = (v.astype(narrow).astype(np.float32) for v in (x, w))
    for found, wanted in [
        (device.matmul(x, w), a @ b),
        (device.linear(x, w, bias), a @ b + bias),
        (device.matmul_nt(x, w.T.copy()), a @ b),
        (device.matmul_tn(x[0], x[1]), a[0].T @ a[1]),
        (device.matmul(x, np.stack([w, w])), a @ b),
    ]:
        assert found.dtype is float32
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_gradients_of_linear_layers_are_products_of_floats_of_16_bits(name: str) -> None:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    if not target().fuses:
        pytest.skip("this target does not convert float16")
    device, narrow, rng = Mixed(NumPy, name), dtype_of(name), np.random.default_rng(12)
    for outer in ((40,), (2, 20), (1,)):
        grad, x = drawn(rng, np.float32, *outer, 500), drawn(rng, np.float32, *outer, 300)
        a, b = ([*v.astype(narrow).astype(np.float64).reshape(-1, v.shape[-1])] for v in (x, grad))
        explanation = explain(device.linear_backward, grad, x)
        for found, wanted in zip(explanation.result, (np.transpose(a) @ b, np.sum(b, 0)), strict=True):
            assert found.dtype is float32
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        assert any(f"{name}, {name}" in kernel.program.text for kernel in explanation.kernels)
    empty = device.linear_backward(grad[:0], x[:0])
    np.testing.assert_array_equal(empty[0], np.zeros((300, 500)))


@pytest.mark.slowest
def test_nothing_is_read_beyond_an_array() -> None:
    """Each operand, and the result, ends where a page begins that cannot be read: that would end the process."""
    if not sys.platform.startswith("linux"):
        pytest.skip("pages are protected by Linux's mprotect")
    subprocess.run([sys.executable, "-m", "tests.programs.families", "run", "products"], check=True, cwd=ROOT)


@needs_products
def test_openblas_multiplies_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for value, expected in (("blas", False), ("", True)):
        monkeypatch.setenv("BURNPY_PRODUCTS", value)
        products._enabled.cache_clear()
        assert products.serves(256, 256, 256, 4) is expected
    monkeypatch.undo()
    products._enabled.cache_clear()


FOLLOWING: dict[str, tuple[Callable[..., Any], bool]] = {
    "elementwise": (lambda y, full, row: y * y.sigmoid() - full, True),
    "values by column": (lambda y, full, row: (full - y * row).relu(), True),
    "sums of rows": (lambda y, full, row: (y - y.mean(-1, keepdim=True)) * row, True),
    "no product": (lambda y, full, row: (full + row).relu() @ y.transpose(-1, -2), False),
    "used outside, too": (lambda y, full, row: (y.relu(), y), False),
}
"""Operations that follow a product, and whether its kernel is called by the product's."""


@pytest.mark.parametrize("name", FOLLOWING)
@pytest.mark.parametrize("count", [1, 3])
def test_programs_follow_products_in_plans(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "COUNT", count)
    monkeypatch.setattr(threads, "LEAST", 1)
    rng, (f, expected) = np.random.default_rng(4), FOLLOWING[name]
    seen: list[Any] = []
    real = products.following

    def noted(*given: Any) -> Any:
        seen.append(real(*given))
        return seen[-1]

    monkeypatch.setattr(products, "following", noted)
    for shape, inner, columns in (((5, 27), 401, 97), ((9,), 33, 700)):
        bias, turned = (Tensor[NumPy].from_data(drawn(rng, np.float32, *s)) for s in ((columns,), (columns, inner)))
        weight = Tensor[NumPy].from_data(drawn(rng, np.float32, inner, columns))
        for multiply in (
            lambda x: functional.linear(x, weight, bias),  # noqa: B023  # called at once
            lambda x: x @ weight,  # noqa: B023
            lambda x: x @ turned.transpose(0, 1),  # noqa: B023
        ):
            plan = compiled(lambda x, full, row: f(multiply(x), full, row))  # noqa: B023
            seen.clear()
            for _ in range(2):
                given = ((*shape, inner), (*shape, columns), (columns,))
                x, full, row = (Tensor[NumPy].from_data(drawn(rng, np.float32, *s)) for s in given)
                results, wanted = plan(x, full, row), f(multiply(x), full, row)
                for got, other in zip(*[r if isinstance(r, tuple) else (r,) for r in (results, wanted)], strict=True):
                    np.testing.assert_allclose(got.to_numpy(), other.to_numpy(), rtol=2e-4, atol=2e-4)
            assert (len(seen) > 0 and None not in seen) is expected


@pytest.mark.long
def test_random_products() -> None:
    rng = np.random.default_rng()
    sizes = [1, 2, 3, 5, 8, 11, 12, 13, 16, 17, 31, 32, 33, 48, 64, 65, 100, 128, 200, 400, 401, 801]
    for number in range(20_000):
        m, k, n = (int(s) for s in rng.choice(sizes, 3))
        if m * k * n <= 4e6:
            x, y = drawn(rng, DTYPES[number % 2], m, k), drawn(rng, DTYPES[number % 2], k, n)
            check(x, y, kernel_product(layouts(x)[rng.integers(5)], layouts(y)[rng.integers(5)]))


@needs_products
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (3, 2)])
@pytest.mark.parametrize("result", ["uint8", "float32"])
def test_what_follows_a_convolution_of_ints_is_computed_with_it(
    monkeypatch: pytest.MonkeyPatch, images: int, kernel: tuple[int, int], result: str
) -> None:
    """By rows of the product, also where its sums and the result have elements of other sizes, and on threads."""
    r = np.random.default_rng(1)
    x = IntTensor[NumPy].from_data(r.integers(0, 256, (images, 32, 11, 9)).astype(np.uint8))
    w = IntTensor[NumPy].from_data(r.integers(-128, 128, (40, 32, *kernel)).astype(np.int8))
    scale = Tensor[NumPy].from_data(r.uniform(1e-4, 2e-4, (40, 1, 1)).astype(np.float32))
    where = ((2, 1), (1, 0), (1, 1), (1, 1)) if kernel == (3, 2) else ((1, 1), (0, 0), (0, 0), (1, 1))

    def convolved(x: Any, w: Any) -> Any:
        value = IntTensor[NumPy].full((), 7, dtype="uint8")._primitive
        sums = x._like(x._backend.integer_conv(x._primitive, w._primitive, value, *where))
        scaled = sums.float() * scale + 100.0
        return scaled if result == "float32" else scaled.round().clamp(0, 255).int("uint8")

    monkeypatch.setattr(threads, "LEAST", 1)
    for count in (1, 3):
        monkeypatch.setattr(threads, "COUNT", count)
        step = compiled(convolved)
        for _ in range(2):
            assert (step(x, w) == convolved(x, w)).all().item()
        programs = [part.operations for part in step.explain(x, w).programs]
        assert [names[0] for names in programs] == ["integer_conv"]
