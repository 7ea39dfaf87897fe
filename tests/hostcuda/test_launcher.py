"""Launches with arguments packed by `burnpy_cupy.kernels.launch`, and elementwise kernels by layout."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy
from tests.hostcuda import simulator

simulator.require()

from burnpy_cupy.kernels import elementwise_kernel  # noqa: E402
from burnpy_cupy.kernels import launch as module  # noqa: E402
from burnpy_cupy.kernels.elementwise_kernel import Elementwise, ElementwiseKernel, copied, in_order_of  # noqa: E402
from burnpy_cupy.kernels.kernel import Kernels, Raw  # noqa: E402
from burnpy_cupy.kernels.launch import Lattice, launcher  # noqa: E402

_SOURCE = """
struct Pair { long long first, second; };
extern "C" __global__ void noted(double* out, double x, long long n, const Pair pair) {
  out[0] = x, out[1] = n, out[2] = pair.first, out[3] = pair.second;
}
"""


@pytest.fixture
def xp() -> Any:
    return CuPy().xp


def noting(xp: Any) -> Any:
    """A launch that writes its arguments down: a number, and those that stay."""
    rest = struct.pack("=3q", 7, -8, 9)
    return launcher(xp, xp.RawKernel(_SOURCE, "noted"), (1, 1), (1, 1), "Qd", rest)


def test_arguments_are_those_given_and_those_that_stay(xp: Any) -> None:
    launch, out = noting(xp), xp.zeros((4,))
    launch(out.data.ptr, 0.5)
    assert out.get().tolist() == [0.5, 7, -8, 9]
    launch(out.data.ptr, 2)
    assert out.get().tolist() == [2, 7, -8, 9]


def test_threads_do_not_share_arguments(xp: Any) -> None:
    launch = noting(xp)

    def last(number: int) -> float:
        out = xp.zeros((4,))
        for k in range(50):
            launch(out.data.ptr, number + k)
        return float(out.get()[0])

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(last, range(0, 6400, 100))] == [*range(49, 6449, 100)]


def test_a_launch_within_a_launch_has_arguments_of_its_own(xp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a signal's handler, between the packing of arguments and the call of the driver."""
    inner, outs = noting(xp), xp.zeros((2, 4))
    driver = module.driver()

    class Interrupted:
        @staticmethod
        def launchKernel(*args: Any) -> None:  # noqa: N802  # the driver's name
            inner(outs[1].data.ptr, 1.0)
            driver.launchKernel(*args)

    monkeypatch.setattr(module, "driver", lambda: Interrupted)
    noting(xp)(outs[0].data.ptr, 0.5)
    assert outs.get()[:, 0].tolist() == [0.5, 1.0]


def test_a_thread_begins_with_the_context_of_its_gpu(xp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver expects it; each thread asks for it once."""
    asked = list[int]()
    real = xp.cuda.runtime.memGetInfo

    def noted() -> Any:
        asked.append(1)
        return real()

    monkeypatch.setattr(xp.cuda.runtime, "memGetInfo", noted)
    launch, out = noting(xp), xp.zeros((4,))
    with ThreadPoolExecutor(1) as pool:
        for _ in range(3):
            pool.submit(launch, out.data.ptr, 1.0).result()
    assert len(asked) == 1


def test_a_later_launch_has_more_shared_memory(xp: Any) -> None:
    """As for a recurrent layer with a larger weight: the limit is of the kernel, whichever launch came first."""
    text = (
        'extern "C" __global__ void filled(float* out) { extern __shared__ float all[]; all[0] = 7; out[0] = all[0]; }'
    )
    kernels = Kernels(xp, {}, {"filled": Raw(text)})
    for size in (1 << 10, 100 << 10, 60 << 10, 200 << 10):
        out = xp.zeros(1, np.float32)
        launcher(xp, kernels.typed("filled", {"ONE": 1}, size), (1, 1), (1, 1), "Q", b"", size)(out.data.ptr)
        assert out.get().tolist() == [7.0]
    assert len(kernels._typed) == 1


def test_arguments_have_a_limit(xp: Any) -> None:
    with pytest.raises(AssertionError, match="4 KB"):
        launcher(xp, None, (1, 1), (1, 1), "Q", bytes(5000))


_ADD = Elementwise("T x, T y, float64 factor", "T z", "z = x + y * static_cast<T>(factor)")


@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3)), ((0, 3), (3,)), ((), ())]
)
@pytest.mark.parametrize("turned", [False, True], ids=["in order", "turned"])
def test_operands_are_broadcast_and_read_where_they_lie(xp: Any, shapes: Any, turned: bool) -> None:
    arrays = [np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1 for shape in shapes]
    given = [xp.array(a.T, order="C").T if turned else xp.array(a) for a in arrays]
    kernel = ElementwiseKernel(xp, "burnpy_test_add", _ADD)
    with simulator.watched() as journal:
        out = kernel(*given, 3.0)
    np.testing.assert_array_equal(out.get(), arrays[0] + arrays[1] * 3)
    assert journal.launches == ["burnpy_test_add"] * bool(out.size)
    assert kernel(*given, 0.0).get().tolist() == np.broadcast_arrays(*arrays)[0].tolist(), "numbers are no layout"


def test_raw_arrays_are_indexed_by_places_and_by_positions(xp: Any) -> None:
    code = "const ptrdiff_t at[] = {1, i}; y = x[at] * 100 + x[i] * 10 + x.size()"
    kernel = ElementwiseKernel(xp, "burnpy_test_raw", Elementwise("raw T x", "raw T unused, T y", code))
    x = np.arange(6.0).reshape(2, 3)
    for given in (xp.array(x), xp.array(x.T).T, xp.array(np.repeat(x, 2, 1))[:, ::2]):
        out = kernel(given, given, xp.zeros((3,)))[1]
        assert out.get().tolist() == (x[1] * 100 + x.reshape(-1)[:3] * 10 + 6).tolist()


def test_a_tuple_of_numbers_is_part_of_the_layout(xp: Any) -> None:
    code = "y = x + a * 1000 + b * 100 + c * 10 + d"
    declared = Elementwise("int64 a, int32 b, T x, float64 c, int32 d", "T y", code)
    kernel, x = ElementwiseKernel(xp, "burnpy_test_constants", declared), xp.ones((2,))
    for a, b, c, d in ((1, 2, 3.5, 4), (1, 3, 3.5, 4), (2, 3, 2.5, -1)):
        wanted = [1 + a * 1000 + b * 100 + c * 10 + d] * 2
        assert kernel((a, b), x, c, d).get().tolist() == kernel(a, b, x, (c, d)).get().tolist() == wanted


def test_constants_are_in_the_source(xp: Any) -> None:
    declared = Elementwise(
        "T x, const int32 power, int32 factor", "T y", "y = factor; for (int k = 0; k < power; k++) y *= x"
    )
    kernel, x = ElementwiseKernel(xp, "burnpy_test_power", declared), xp.full((3,), 2.0)
    for power, factor in ((3, 1), (3, 5), (2, 1)):
        assert kernel(x, (power,), factor).get().tolist() == [factor * 2.0**power] * 3
    assert len(kernel._kernels) == 2, "one for each power"


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_threads_have_several_elements(xp: Any, dtype: str) -> None:
    """Numbers of elements around those of a block."""
    kernel = ElementwiseKernel(xp, "burnpy_test_sum", Elementwise("T x, T y", "T z", "z = x + y"))
    for count in (1, 255, 1023, 1025, 2047, 5000):
        x = np.arange(count).astype(dtype)
        assert kernel(xp.array(x), xp.array(x)).get().tolist() == (x + x).tolist()
        assert kernel(xp.array(x)[::3], xp.array(x)[::3]).get().tolist() == (x + x)[::3].tolist()


def test_results_keep_the_order_of_operands(xp: Any) -> None:
    kernel = ElementwiseKernel(xp, "burnpy_test_add", _ADD)
    x, row = xp.zeros((2, 3, 4)), xp.zeros((4,))
    turned = x.transpose(2, 0, 1)
    assert kernel(turned, turned, 1.0).strides == turned.strides
    assert kernel(turned, xp.zeros((1, 3)), 1.0).strides == turned.strides
    assert kernel(x, row, 1.0).strides == x.strides
    other = xp.zeros((4, 2, 3))
    for pair in ((turned, other), (other, turned)):
        assert kernel(*pair, 1.0).strides == other.strides, "row-major, if operands differ"


def test_large_arrays_are_counted_in_64_bits(xp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elementwise_kernel, "_INDEX64", 1)
    x, row = np.arange(24.0).reshape(2, 3, 4), np.arange(4.0)
    turned = xp.array(x).transpose(2, 0, 1)
    kernel = ElementwiseKernel(xp, "burnpy_test_add", _ADD)
    placed = ElementwiseKernel(xp, "burnpy_test_at", Elementwise("raw T x", "T y", "y = x[_at] * 100 + _at[1] + x[i]"))
    with simulator.watched() as journal:
        assert kernel(xp.array(x), xp.array(row), 2.0).get().tolist() == (x + row * 2).tolist()
        assert kernel(turned, xp.array(x.transpose(2, 0, 1)), 1.0).get().tolist() == (x + x).transpose(2, 0, 1).tolist()
        found = placed(turned, xp.zeros(turned.shape)).get()
    assert found.tolist() == (x.transpose(2, 0, 1) * 101 + np.arange(2)[:, None]).tolist()
    assert journal.launches == [*["burnpy_test_add_many"] * 2, "burnpy_test_at_many"]


def test_transposes_are_copied_by_tiles(xp: Any) -> None:
    shapes = {(40, 70): (1, 0), (3, 33, 50): (0, 2, 1), (2, 20, 6, 5): (0, 2, 3, 1)}
    for dtype in ("bool", "float16", "float32", "complex64", "int64"):
        for shape, order in shapes.items():
            x = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
            with simulator.watched() as journal:
                out = copied(xp, xp.array(x).transpose(order))
            assert out._c_contiguous
            np.testing.assert_array_equal(out.get(), x.transpose(order))
            assert journal.launches == ["burnpy_transpose"]
    part = np.arange(6400.0).reshape(80, 80)
    np.testing.assert_array_equal(copied(xp, xp.array(part)[3:70, 5:60].T).get(), part[3:70, 5:60].T)
    for x in (xp.zeros((4, 50)).T, xp.zeros((40, 50))[::2].T[::3], xp.zeros((2, 3, 4, 5)).transpose(0, 2, 1, 3)):
        with simulator.watched() as journal:
            copied(xp, x)
        assert journal.launches == ["burnpy_copy"], "few columns, or other steps"


def test_numbers_are_divided_by_products_and_shifts() -> None:
    sizes = [*range(1, 70), 127, 128, 129, 4095, 4096, 65537, (1 << 30) + 1, (1 << 31) - 1]
    numbers = Lattice(tuple(sizes), {}).numbers()
    for k, size in enumerate(sizes):
        factor, shift = numbers[len(sizes) + k], numbers[2 * len(sizes) + k]
        for x in (0, 1, size - 1, size, size + 1, 7 * size - 1, 7 * size, (1 << 31) // size * size - 1, (1 << 31) - 1):
            if x < 1 << 31:
                assert ((x * factor >> 32) + x) >> shift == x // size, (x, size)
        assert factor < 1 << 32


def test_results_lie_in_the_order_of_an_array(xp: Any) -> None:
    x = xp.zeros((2, 3, 4, 5))
    for order in ((0, 1, 2, 3), (0, 2, 1, 3), (3, 0, 2, 1)):
        like = x.transpose(order)
        assert in_order_of(xp, like, like.shape, np.dtype("float32")).strides == tuple(n // 2 for n in like.strides)
