"""The NumPy backend's threads: who does what, the same numbers whoever does it, failures, forks, one thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.dtypes import float32
from burnpy_numpy import threads
from burnpy_numpy.openblas import one_thread, openblas
from burnpy_numpy.products import product

D = NumPy()
LARGE = 1 << 20


@pytest.fixture(autouse=True)
def _three(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threads, "COUNT", 3)
    yield
    assert not threads._busy.locked()


def parts(size: int, each: int = 1) -> dict[tuple[int, int], str]:
    """The parts that were worked on, and the names of the threads."""
    found: dict[tuple[int, int], str] = {}
    threads.shared(lambda start, stop: found.update({(start, stop): threading.current_thread().name}), size, each)
    return dict(sorted(found.items()))


def test_each_thread_has_a_part() -> None:
    found = parts(LARGE)
    edges = [edge for edge, _ in found] + [LARGE]
    assert list(found) == list(pairwise(edges))
    assert edges[0] == 0
    assert len(found) == 3
    mine, *others = found.values()
    assert mine == threading.current_thread().name
    assert others == ["burnpy", "burnpy"]


def test_what_is_small_stays_with_the_caller() -> None:
    here = threading.current_thread().name
    assert parts(1000) == {(0, 1000): here}
    assert parts(0) == {(0, 0): here}
    assert parts(1, each=LARGE) == {(0, 1): here}
    assert list(parts(2, each=LARGE)) == [(0, 1), (1, 2)]


def test_one_thread_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "COUNT", 1)
    monkeypatch.setattr(threads, "_Worker", None)
    monkeypatch.setattr(threads, "_workers", [])
    assert parts(LARGE) == {(0, LARGE): threading.current_thread().name}


def test_the_same_parts_when_others_keep_the_threads_busy() -> None:
    free = parts(LARGE)
    with threads._busy:
        busy = parts(LARGE)
    assert list(busy) == list(free)
    assert set(busy.values()) == {threading.current_thread().name}
    nested: list[tuple[int, int]] = []
    threads.shared(lambda start, stop: nested.extend(parts(LARGE)), LARGE)
    assert nested == [*free] * 3


@pytest.mark.parametrize("who", range(3))
def test_failures_carry_over_when_all_have_ended(who: int) -> None:
    ended: list[int] = []

    def work(start: int, stop: int) -> None:
        if start == LARGE * who // 3:
            raise ZeroDivisionError(str(who))
        ended.append(start)

    with pytest.raises(ZeroDivisionError, match=str(who)):
        threads.shared(work, LARGE)
    assert len(ended) == 2
    assert len(parts(LARGE)) == 3


def results() -> list[Any]:
    """Of all operations that share their work, on arrays that are large enough."""
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, 16, 16, 64, 64)).astype(float32)
    weight, bias = rng.standard_normal((2, 16, 1, 1)).astype(float32)
    pool = ((2, 2), (2, 2), (0, 0), (1, 1))
    top = D.max_pool2d(x, *pool, False)
    normal = D.normalize(x, weight, bias, (0, 2, 3), 1e-5)
    rows = x.reshape(-1, 64)
    scale = np.ones(64, float32)
    of_rows = D.normalize(rows, scale, scale, (1,), 1e-5)
    filters = rng.standard_normal((16, 16, 3, 3)).astype(float32)
    conv = ((1, 1), (1, 1), (1, 1), 1)
    few, of_few = x[:, :3], filters[:, :3]
    return [
        *(
            D.relu(x),
            D.relu_backward(g, x),
            D.gelu(x, False),
            D.gelu_backward(g, x, False),
            D.gelu_backward(g, x, True),
        ),
        *(top, D.max_pool2d_backward(D.mul(top, 2.0), x, top, *pool)),
        *D.adam_update(x, g, g, D.square(g), 0.1, 0.9, 0.99, 1e-8, 0.1, True, 3, False),
        *D.adam_update(x, g, g.copy(), D.square(g), 0.1, 0.9, 0.99, 1e-8, 0.1, True, 3, True),
        *(*normal, *D.normalize_backward(g, x, weight, normal[1], normal[2], (0, 2, 3), 1e-5)),
        *(*of_rows, *D.normalize_backward(g.reshape(-1, 64), rows, scale, of_rows[1], of_rows[2], (1,), 1e-5)),
        *(D.conv2d(x, filters, *conv), D.conv2d_input(g, filters, x.shape, *conv)),
        D.conv2d_weight(g, x, filters.shape, *conv),
        *(D.conv2d(few, of_few, *conv), D.conv2d_input(g, of_few, few.shape, *conv)),
        *(D.conv2d_weight(g, few, of_few.shape, *conv), D.conv2d_weight(g, x, (16, 4, 3, 3), *conv[:3], 4)),
    ]


def test_the_same_numbers_busy_or_not_and_nearly_the_same_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    free = results()
    with threads._busy:
        busy = results()
    monkeypatch.setattr(threads, "COUNT", 1)
    alone = results()
    for one, other, single in zip(free, busy, alone, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, single, rtol=1e-4, atol=1e-5 * np.abs(single).max())


def test_many_threads_of_the_user() -> None:
    wanted = results()
    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(lambda _: results(), range(6)):
            for one, other in zip(wanted, found, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_threads_of_its_own() -> None:
    code = """
import os, sys
from burnpy_numpy import threads
from burnpy_numpy.openblas import one_thread, openblas
threads.COUNT = 2
seen = []
threads.shared(lambda start, stop: seen.append(start), 1 << 20)
threads._busy.acquire()  # as another thread might hold it at the moment of the fork, within a product
blas = openblas()
if blas is not None:
    blas.set(3)
within = one_thread()
within.__enter__()
child = os.fork()
if not child:
    threads.shared(lambda start, stop: seen.append(start), 1 << 20)
    if blas is not None and blas.get() != 3:
        os._exit(99)
    os._exit(len(seen) * 10 + len(threads._workers))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60)
    assert done.returncode == 41


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        ({"OMP_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "2"}, 2),
        ({"OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "2", "BURNPY_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "64"}, 8),
        ({"OMP_NUM_THREADS": "64", "BURNPY_NUM_THREADS": "64"}, 64),
        ({"OMP_NUM_THREADS": "many", "BURNPY_NUM_THREADS": "0"}, None),
        ({}, None),
    ],
    ids=str,
)
def test_how_many(environment: dict[str, str], count: int | None) -> None:
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert threads.asked_for(environment) == (min(processors or 1, 8) if count is None else count)


def test_openblas_has_its_threads_back_when_all_have_left() -> None:
    blas = openblas()
    if blas is None:
        pytest.skip("NumPy multiplies with another library")
    before = blas.get()
    blas.set(2)
    try:
        first, second = one_thread(), one_thread()
        with first:
            second.__enter__()
            assert blas.get() == 1
        assert blas.get() == 1
        second.__exit__(None, None, None)
        assert blas.get() == 2
        with pytest.raises(ZeroDivisionError), one_thread():
            raise ZeroDivisionError
        assert blas.get() == 2
    finally:
        blas.set(before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(300, 200, 100), (100, 200, 300), (512, 512, 512), (5000, 64, 1), (1, 300, 5000)])
def test_products_are_the_same_in_parts(shape: tuple[int, int, int], dtype: str) -> None:
    rows, inner, columns = shape
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, inner)).astype(dtype), rng.normal(size=(inner, columns)).astype(dtype)
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    for a in (x, np.asfortranarray(x)):
        for b in (y, np.asfortranarray(y)):
            found = product(a, b)
            assert np.allclose(found, x @ y, rtol=tolerance, atol=tolerance)
            with threads._busy:
                assert np.array_equal(product(a, b), found)
    device = NumPy()
    assert np.allclose(device.matmul_nt(x, np.ascontiguousarray(y.T)), x @ y, rtol=tolerance, atol=tolerance)
    assert np.allclose(device.matmul_tn(np.ascontiguousarray(x.T), y), x @ y, rtol=tolerance, atol=tolerance)


def test_large_products_leave_openblas_as_it_was_and_do_not_start_its_threads() -> None:
    blas = openblas()
    if blas is None:
        pytest.skip("NumPy multiplies with another library")
    seen: list[int] = []
    before = blas.get()
    blas.set(2)
    try:
        x = np.ones((512, 512), np.float32)
        together = threads._together

        def looked(work: threads.Work, *rest: Any) -> None:
            seen.append(blas.get())
            together(work, *rest)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threads, "_together", looked)
            product(x, x)
        assert seen == [1]
        assert blas.get() == 2
    finally:
        blas.set(before)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads cannot be moved here")
def test_workers_keep_off_the_processor_of_the_caller() -> None:
    worker = threads._Worker()
    worker.begin(lambda start, stop: None, 0, 1)
    assert worker.ended() is None
    mine = os.sched_getaffinity(0)
    native = worker._thread.native_id
    assert native is not None
    for here in [*mine, -1]:
        worker.keep_off(here)
        assert os.sched_getaffinity(native) == (mine - {here} or mine)
