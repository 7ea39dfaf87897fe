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

from burnpy_cupy.kernels import launch as module  # noqa: E402
from burnpy_cupy.kernels.elementwise import Elementwise, ElementwiseKernel, in_order_of  # noqa: E402
from burnpy_cupy.kernels.launch import launcher  # noqa: E402

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
    """As of a signal's handler, between the packing of arguments and the call of the driver."""
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


def test_results_lie_in_the_order_of_an_array(xp: Any) -> None:
    x = xp.zeros((2, 3, 4, 5))
    for order in ((0, 1, 2, 3), (0, 2, 1, 3), (3, 0, 2, 1)):
        like = x.transpose(order)
        assert in_order_of(xp, like, like.shape, np.dtype("float32")).strides == tuple(n // 2 for n in like.strides)
