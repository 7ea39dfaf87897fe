"""Programs as CUDA kernels: for every division of rows among threads, the results of the NumPy backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import Backend, CuPy, NumPy, explain
from burnpy.backend.dtypes import dtype_of, int64
from burnpy.backend.programs import Extent, Input, ProgramError, trace
from burnpy.backend.programs.program import execute
from tests.hostcuda import simulator

simulator.require()

from burnpy_cupy.kernels import launch, normalization  # noqa: E402
from burnpy_cupy.kernels import programs as kernels  # noqa: E402
from burnpy_cupy.kernels.launch import along, flat, matrix, transposed  # noqa: E402

ULPS = {"float64": 4e-16, "float32": 2.4e-7, "float16": 1e-3, "bfloat16": 8e-3}
"""The unit in the last place, relative to a number, with the error of CUDA's functions left to a factor."""


def drawn(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype_of(dtype))


def full(dtype: str) -> Input:
    return Input(Extent.FULL, dtype)


def launched(name: str, *args: Any) -> tuple[list[Any], tuple[Any, ...]]:
    """The results of an operation on the GPU, as NumPy's arrays, and the kernels that it ran."""
    device = CuPy()
    given = [device.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
    found = explain(lambda: getattr(device, name)(*given))
    results = found.result if isinstance(found.result, (tuple, list)) else [found.result]
    return [device.to_numpy(x) for x in results], found.kernels


def agree(name: str, *args: Any, kinds: int = 1, factor: float = 8.0) -> None:
    """Assert that an operation runs as kernels alone, of so many kinds, and that its results are the CPU's."""
    results, ran = launched(name, *args)
    assert len(ran) == kinds
    wide = [a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind not in "bi" else a for a in args]
    wanted = getattr(NumPy(), name)(*wide)
    for got, want in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        near = factor * ULPS[got.dtype.name]
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=near, atol=near * np.abs(want).max())


SHAPES = [
    ((9, 7), 1),  # warps
    ((3, 1500), 1),  # a block for a row
    ((2, 9000), 1),  # a larger one, of several runs
    ((300, 5), 0),  # lanes
    ((5, 40, 6), 1),  # lanes of planes
    ((1, 70), 1),  # one row
]


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_rows_in_every_place_of_memory(shape: tuple[int, ...], dim: int) -> None:
    x, grad = drawn(shape), drawn(shape, seed=1)
    agree("softmax", x, dim)
    agree("log_softmax_backward", grad, x, dim)
    index = np.random.default_rng(2).integers(0, shape[dim], (*shape[:dim], *shape[dim + 1 :]))
    agree("cross_entropy", x, index, dim)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_dtypes(dtype: str) -> None:
    x, grad = drawn((6, 50), dtype), drawn((6, 50), dtype, 1)
    agree("softmax", x, 1)
    agree("gelu_backward", grad, x, False)
    weight, bias = drawn((50,), dtype, 2), drawn((50,), dtype, 3)
    agree("normalize", x, weight, bias, (1,), 1e-5)
    results, _ = launched("rms_norm_backward", grad, x, weight, (1,), 1e-5)
    assert [r.dtype for r in results] == [x.dtype, x.dtype]


@pytest.mark.parametrize(("rows", "kinds"), [(70, 2), (1000, 3)])
def test_sums_over_rows_by_chunks(rows: int, kinds: int) -> None:
    grad, x, weight = drawn((rows, 40)), drawn((rows, 40), seed=1), drawn((40,), seed=2)
    agree("rms_norm_backward", grad, x, weight, (1,), 1e-5, kinds=kinds, factor=30)
    mean, var = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    agree("normalize_backward", grad, x, weight, mean, var, (1,), 1e-5, kinds=kinds, factor=30)


@pytest.mark.parametrize("plane", [(4, 4), (30, 40)])
def test_a_batch_norm_is_one_launch_each_way(plane: tuple[int, int]) -> None:
    x, grad = drawn((3, 5, *plane)), drawn((3, 5, *plane), seed=1)
    weight, bias, dims = drawn((5, 1, 1), seed=2), drawn((5, 1, 1), seed=3), (0, 2, 3)
    agree("normalize", x, weight, bias, dims, 1e-5)
    mean, var = x.mean(dims, keepdims=True), x.var(dims, keepdims=True)
    agree("normalize_backward", grad, x, weight, mean, var, dims, 1e-5, factor=30)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("shape", [(5, 3, 33, 31), (5, 3, 16, 17), (9, 3, 34, 33), (150, 2, 7, 7), (4500, 2)])
def test_a_batch_norm_of_few_long_channels_is_divided(
    shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With means far from 0, where sums of squares would leave nothing, in every order of threads, in planes of every
    width, and but for the smallest in more parts than a warp has threads."""
    monkeypatch.setattr(normalization, "_MIN_PART", 120)
    normalization._divided.cache_clear()
    dims, channels = (0, *range(2, len(shape))), (shape[1], *[1] * (len(shape) - 2))
    device: Any = CuPy()
    host: Any = NumPy()
    x, grad = drawn(shape, "float64") + 300.0, drawn(shape, "float64", 1)
    given = [a.astype(dtype_of(dtype)) for a in (x, drawn(channels, "float64", 2), drawn(channels, "float64", 3), grad)]
    x, weight, bias, grad = (a.astype(np.float64) for a in given)
    mean, var = x.mean(dims, keepdims=True), x.var(dims, keepdims=True)
    moments = [a.astype(dtype_of(dtype)) for a in (mean, var)]
    want = [*host.normalize(x, weight, bias, dims, 1e-5)]
    want += host.normalize_backward(grad, x, weight, *[a.astype(np.float64) for a in moments], dims, 1e-5)
    found = []
    for order in simulator.ORDERS:
        xs = [device.from_numpy(a) for a in (*given, *moments)]
        with simulator.order(order), simulator.watched() as journal:
            results = [*device.normalize(*xs[:3], dims, 1e-5)]
            results += device.normalize_backward(xs[3], *xs[:2], *xs[4:], dims, 1e-5)
        found.append([device.to_numpy(a) for a in results])
        assert len(journal.launches) == 4
        assert all(name.startswith("burnpy_batch_norm") for name in journal.launches)
    normalization._divided.cache_clear()
    close = {"float64": 1e-10, "float32": 1e-4, "bfloat16": 0.02}[dtype]
    for k, (a, b) in enumerate(zip(found[0], want, strict=True)):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=close, atol=close * np.abs(b).max(), err_msg=str(k))
        assert all(a.tobytes() == other[k].tobytes() for other in found[1:])


def test_special_values_pass_through() -> None:
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 3e38, -3e38, 88.0], np.float32)
    with np.errstate(all="ignore"):
        for name, rest in {
            "gelu": (True,),
            "silu": (),
            "sigmoid": (),
            "softplus": (1.0,),
            "hardtanh": (-1.0, 1.0),
        }.items():
            (got,), _ = launched(name, special, *rest)
            want = getattr(NumPy(), name)(special, *rest)
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-37)
            np.testing.assert_array_equal(np.signbit(got[3:5]), np.signbit(want[3:5]))
        rows = np.stack([np.roll(special, k) for k in range(8)])
        (got,), _ = launched("softmax", rows, 1)
        assert np.isnan(got).all()
        (got,), _ = launched("softmax", np.where(np.isnan(rows) | (rows > 1e38), -np.inf, rows), 1)
        assert np.isfinite(got).all()


def test_a_long_sum_is_as_exact_as_numpys() -> None:
    program = trace(lambda b, x: b.mean(x, (1,), True), (full("float32"),), name="mean")
    x = (drawn((1, 300_000)) + 1000).astype(np.float32)
    device = CuPy()
    kernel = kernels.Kernel(device.xp, program)
    (mean,) = kernel([device.from_numpy(x)], (), matrix(*x.shape), x.shape, (1, 1))
    assert abs(device.to_numpy(mean).item() / x.astype(np.float64).mean() - 1) < 1e-6


@pytest.mark.parametrize("columns", [9000, 8200 * 4])
def test_rows_that_registers_do_not_keep_are_read_from_either_end(columns: int) -> None:
    agree("softmax", drawn((2, columns), "float64"), 1)
    agree("log_softmax", drawn((2, columns), "float64"), 1)


def test_a_batch_is_kept_whole_where_registers_hold_it() -> None:
    row, column = Input(Extent.ROW, "float32"), Input(Extent.COLUMN, "float32")
    of_sums = trace(lambda b, x, y: b.softmax(b.add(x, y), 1), (row, column))  # which reads no element twice
    softmax = trace(lambda b, x: b.softmax(x, 1), (full("float32"),))
    found = [launch.batch_of(each, n, 1024, 1024) for each in (of_sums, softmax) for n in (20_000, 1 << 20)]
    assert [each.whole for each in found] == [True, False] * 2
    assert all(each.size <= 32 for each in found)
    assert launch.batch_of(softmax, 2048, 256, 256) == launch.Batch(8, whole=True, ahead=True)


def test_many_short_rows_beside_each_other_have_a_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_MANY_SHORT_ROWS", 300)
    assert transposed(5, 301).threads(False) == launch.Threads("lanes", 256, 1)
    agree("softmax", drawn((5, 301)), 0)
    found = CuPy().to_numpy(CuPy().sum(CuPy().from_numpy(drawn((33, 301))), (0,), False))
    np.testing.assert_allclose(found, drawn((33, 301)).astype(np.float64).sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(21, 70), (9, 1100), (70, 5)])
def test_threads_read_the_next_row_while_they_compute_one(
    rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_BLOCKS_LEFT", 1)
    program = trace(lambda b, x, y: b.add(b.softmax(x, 1), y), (full("float32"), Input(Extent.COLUMN, "float32")))
    device, x, y = CuPy(), drawn((rows, columns)), drawn((rows, 1), seed=1)
    kernel, geometry = kernels.Kernel(device.xp, program), matrix(rows, columns)
    prepared = kernel.prepared(program, geometry)
    assert prepared.grid[0] == -(-rows // (4 * prepared.block[1]))
    (found,) = kernel([device.from_numpy(a) for a in (x, y)], (), geometry, x.shape, (rows, 1))
    want = NumPy().softmax(x, 1) + y
    np.testing.assert_allclose(device.to_numpy(found), want, rtol=1e-6, atol=1e-6)


def everything(b: Any, x: Any, row: Any, column: Any, number: Any, mask: Any) -> tuple[Any, ...]:
    """All instructions at once: extents, conversions, comparisons, positions and lengths."""
    wide = b.cast(b.maximum(b.mul(x, row), b.add(column, number)), dtype_of("float64"))
    narrow = b.cast(b.cast(b.sign(b.neg(wide)), dtype_of("float16")), dtype_of("float32"))
    positions = b.reshape(b.discrete.arange(0, x.shape[0], 1, int64), (x.shape[0], 1))
    below = b.discrete.lt(positions, b.discrete.arange(0, x.shape[1], 1, int64))
    chosen = b.discrete.bitwise_and(b.discrete.bitwise_or(mask, below), b.discrete.bitwise_not(b.gt(x, 0.5)))
    out = b.where(chosen, b.add(narrow, b.round(b.floor(b.ceil(b.minimum(x, 1.5))))), b.abs(b.erf(b.tanh(x))))
    return out, b.amax(out, (1,), True), b.sum(b.mul(out, b.sum(x, (1,), True)), (0,), False)


def test_every_kind_of_instruction() -> None:
    inputs = (full("float32"), Input(Extent.ROW, "float32"), Input(Extent.COLUMN, "float32"))
    program = trace(everything, (*inputs, Input(Extent.SCALAR, "float32"), full("bool")))
    x, row, column, mask = drawn((30, 9)), drawn((9,), seed=1), drawn((30, 1), seed=2), drawn((30, 9), seed=3) > 0
    device, numbers = CuPy(), (0.25,)
    found = explain(lambda: device.run(program, [*map(device.from_numpy, (x, row, column, mask))], numbers))
    assert [kernel.program.name for kernel in found.kernels] == ["everything", "everything, sums over rows"]
    assert "__global__ __launch_bounds__(256) void burnpy_everything(" in found.code
    for got, want in zip(found.result, execute(NumPy(), program, [x, row, column, mask], numbers), strict=True):
        np.testing.assert_allclose(device.to_numpy(got), want, rtol=3e-6, atol=1e-6)


def test_an_index_out_of_range_is_told_late() -> None:
    inputs = (full("float32"), Input(Extent.COLUMN, "int64"))
    program = trace(lambda b, x, index: b.gather(x, 1, index), inputs, name="picked")
    device = CuPy()
    x = device.from_numpy(drawn((3, 5)))
    (out,) = device.run(program, [x, device.from_numpy(np.array([[4], [0], [2]]))], ())
    np.testing.assert_array_equal(device.to_numpy(out)[:, 0], drawn((3, 5))[[0, 1, 2], [4, 0, 2]])
    device.run(program, [x, device.from_numpy(np.array([[5], [0], [2]]))], ())
    with pytest.raises(ProgramError, match="picked got an index out of the range of its 5 columns"):
        device.synchronize()


def test_without_kernels_the_array_functions_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnpy_cupy.kernels.kernel.kernels_enabled", lambda: False)
    monkeypatch.setattr(CuPy(), "_programs", {})
    x = drawn((4, 5))
    (got,), ran = launched("softmax", x, 1)
    assert not ran
    np.testing.assert_allclose(got, NumPy().softmax(x, 1), rtol=1e-6)


def test_what_kernels_do_not_have_is_executed_step_by_step() -> None:
    program = trace(lambda b, x: b.sub(x, b.mean(x, (0,), True)), (full("float32"),), name="centered")
    device, x = CuPy(), drawn((6, 4))
    found = explain(lambda: device.run(program, [device.from_numpy(x)], ()))
    assert not found.kernels
    np.testing.assert_allclose(device.to_numpy(found.result[0]), x - x.mean(0), atol=1e-6)


def test_a_kernel_refuses_arrays_of_other_sizes() -> None:
    device = CuPy()
    kernel = kernels.Kernel(device.xp, trace(Backend.silu, (full("float32"),)))
    with pytest.raises(ProgramError, match="got 6 elements of float32, expected 7 of float32"):
        kernel([device.from_numpy(drawn((6,)))], (), flat(7), (7,), ())
    with pytest.raises(ProgramError, match="got 7 elements of float64, expected 7 of float32"):
        kernel([device.from_numpy(drawn((7,), "float64"))], (), flat(7), (7,), ())


def test_geometries() -> None:
    assert along((4, 5), (1,)) == matrix(4, 5)
    assert along((4, 1, 5), (2,)) == matrix(4, 5)
    assert along((4, 5), (0,)) == transposed(4, 5)
    assert along((2, 3, 4, 5), (1, 2, 3)) == matrix(2, 60)
    assert along((2, 3, 2, 3, 2), (0, 2, 4)) is None
    assert along((0, 3), (1,)) is None
    assert along((63, 1 << 17), (1,)) is None
    assert along((64, 1 << 17), (1,)) == matrix(64, 1 << 17)
    shape, dims = (2, 3, 4, 5), (0, 2)
    found = along(shape, dims)
    assert found is not None
    places = np.arange(120).reshape(shape).transpose(1, 3, 0, 2).reshape(15, 8)
    row, column = np.arange(15)[:, None], np.arange(8)
    inner, steps = found.inner, found.steps
    at = (
        row // inner[0] * steps[0]
        + row % inner[0] * steps[1]
        + column // inner[1] * steps[2]
        + column % inner[1] * steps[3]
    )
    np.testing.assert_array_equal(at, places)
    assert [matrix(4, n).threads(False).kind for n in (1024, 1025)] == ["warp", "block"]
    assert transposed(400, 5).threads(False).kind == "lanes"
    assert flat(10).threads(True).kind == "grid"
    assert (matrix(1 << 15, 1 << 14).wide, matrix(1 << 16, 1 << 14).wide) == (False, True)


def test_activations_keep_the_order_of_their_operand() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    turned = CuPy().from_numpy(x).transpose(2, 0, 1)
    for name, args in (("relu", (turned,)), ("silu_backward", (turned, turned))):
        with simulator.watched() as journal:
            out = getattr(CuPy(), name)(*args)
        assert journal.launches == [f"burnpy_{name}"], "no copy"
        assert out.strides == turned.strides
        wanted = getattr(NumPy(), name)(*[x.transpose(2, 0, 1)] * len(args))
        np.testing.assert_allclose(CuPy().to_numpy(out), wanted, rtol=1e-4)
