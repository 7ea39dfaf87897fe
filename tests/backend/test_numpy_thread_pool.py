"""Kernels on several threads in native code: who takes part, the same bits, forks, interruptions, the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.dtypes import float32
from burnpy.optim import AdamW, Step
from burnpy_numpy import cpu_threads as threads
from tests.interrupting import LONG, Interruption, every_opcode, interrupt

pytest.importorskip("llvmlite")

from burnpy_numpy.kernels.compiler.entry import TABLE, Entry
from burnpy_numpy.kernels.kernel import loaded
from burnpy_numpy.kernels.launch import share

D = NumPy()
PARTS = 3
MEETING = """
define void @kernel(ptr %table, ptr %sizes, i64 %begin, i64 %end) {
entry:
  %present_at = load ptr, ptr %table
  %expected = load i64, ptr %sizes
  %before = atomicrmw add ptr %present_at, i64 1 seq_cst
  br label %wait
wait:
  %present = load atomic i64, ptr %present_at seq_cst, align 8
  %all = icmp sge i64 %present, %expected
  br i1 %all, label %done, label %wait
done:
  ret void
}
"""
"""A kernel whose parts wait for each other, so that it ends only if as many threads take part."""


@pytest.fixture(autouse=True)
def _three(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threads, "COUNT", PARTS)
    yield
    if threads._pool:
        assert threads._pool[0].words[:2].tolist() == [0, 1], "no caller has the pool, and nobody is inside"


def meeting() -> Entry:
    made = loaded("meeting", "meeting", lambda: MEETING, TABLE)
    assert made is not None
    return made


def meet() -> None:
    """Return when all threads have taken part in a job."""
    present = np.zeros(1, np.int64)
    share(meeting(), (present,), (PARTS,), PARTS, threads.LEAST)
    assert present.tolist() == [PARTS]


@contextmanager
def no_workers(pool: threads.ThreadPool) -> Iterator[None]:
    """A context in which no worker hears a caller."""
    events = pool.words[threads.FIRST_EVENT : threads.RANGES]
    before, deaf = events.copy(), threads._Event()
    events[events != 0] = deaf.address
    yield
    events[:] = before


ORDER = """
define void @kernel(ptr %table, ptr %sizes, i64 %begin, i64 %end) {
  %order = load ptr, ptr %table
  %count_at = getelementptr i64, ptr %order, i64 -1
  %count = atomicrmw add ptr %count_at, i64 1 seq_cst
  %place = getelementptr i64, ptr %order, i64 %count
  store i64 %begin, ptr %place
  ret void
}
"""
"""A kernel that writes which part was the next, behind their number."""


def inputs() -> Callable[[], list[Any]]:
    """A function that computes something by each way to share a kernel: with memory of each thread's, kept or new or of
    zeros, a program of elements and of rows with sums, and lists."""
    rng = np.random.default_rng(0)
    x, grad = rng.standard_normal((2, 2048, 200)).astype(float32)
    w, scale = rng.standard_normal((200, 300)).astype(float32), rng.standard_normal(200).astype(float32)
    mean, root = D.normalize(x, scale, scale, (1,), 1e-5)[1:]
    heads = rng.standard_normal((4, 96, 12, 32)).astype(float32).swapaxes(1, 2)
    q, k, v, by_out = heads, heads[::-1], heads[:, ::-1], heads[:, :, ::-1]
    places, weights = rng.integers(-1, 900, (4, 2, 1000)), rng.standard_normal((4, 2, 1000)).astype(float32)
    images, plane = x[:1568].reshape((4, 100, 28, 28)), x[0, :9].reshape((1, 1, 3, 3)).repeat(100, 0)
    window, few = (
        rng.standard_normal((64, 64, 3, 3)).astype(float32),
        rng.standard_normal((16, 3, 3, 3)).astype(float32),
    )
    channels, pixels = x.reshape((32, 64, 10, 20)), x[:, :48].reshape((32, 3, 32, 32))
    where = ((1, 1), (1, 1), (1, 1), 1)
    row, (out, logs) = x.reshape(-1), D.attention(q, k, v, None, 0, 0.2)
    return lambda: [
        *D.attention(q, k, v, None, 0, 0.2),
        *D.attention_backward(by_out, q, k, v, out, logs, None, 0, 0.2),
        D.weighted_gather(images.reshape((4, 100, 784)), places, weights),
        D.frame_spectra(row, row[:512], 64, "backward"),
        D.conv2d(images, plane, (1, 1), (1, 1), (1, 1), 100),
        D.conv2d(channels, window, *where),
        D.conv2d_weight(channels, channels, window.shape, *where),
        D.conv2d(pixels, few, *where),
        D.conv2d_input(D.conv2d(pixels, few, *where), few, pixels.shape, *where),
        D.conv2d_weight(D.conv2d(pixels, few, *where), pixels, few.shape, *where),
        *(D.matmul(x, w), D.matmul(x.T, grad), D.matmul_nt(w.T, x), D.gelu(x, False), D.gelu_backward(grad, x, False)),
        *D.normalize_backward(grad, x, scale, mean, root, (1,), 1e-5),
        *(out for (out,) in AdamW().update(D, [x], [grad], ([grad], [D.square(grad)]), Step(0.1, 3, 0.1))),
    ]


def same(xs: list[Any], ys: list[Any]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(xs, ys, strict=True))


def test_all_threads_take_part_again_and_again() -> None:
    for _ in range(30):
        meet()


def test_workers_that_wait_in_native_code_come_for_python_too() -> None:
    for _ in range(20):
        meet()
        barrier, names = threading.Barrier(PARTS), list[str]()

        def work(start: int, stop: int, barrier: threading.Barrier = barrier, names: list[str] = names) -> None:
            barrier.wait(60)
            names.append(threading.current_thread().name)

        threads.shared(work, 1 << 20)
        assert sorted(names) == sorted([threading.current_thread().name, "burnpy", "burnpy"])


def test_the_bits_depend_neither_on_the_number_of_threads_nor_on_who_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    compute = inputs()
    monkeypatch.setattr(threads, "COUNT", 1)
    alone = compute()
    for count in (2, 3, 8, 2, 3):  # in the end some who are not in the team come late
        monkeypatch.setattr(threads, "COUNT", count)
        assert same(compute(), alone)
    pool = threads.pool_of(PARTS, threads.LEAST)[0]
    assert pool is not None
    pool.words[0] = 1  # as while another caller has it
    assert same(compute(), alone)
    pool.words[0] = 0
    with no_workers(pool):
        assert same(compute(), alone)
    meet()


def test_a_thread_begins_with_its_own_parts_and_takes_the_last_ones_of_others() -> None:
    pool, memory = threads.pool_of(PARTS, threads.LEAST)[0], np.zeros(1 + 4 * PARTS, np.int64)
    ordered = loaded("ordered", "ordered", lambda: ORDER, TABLE)
    assert pool is not None is not ordered
    with no_workers(pool):
        share(ordered, (memory[1:],), (), 4 * PARTS, threads.LEAST)
    assert memory.tolist() == [4 * PARTS, 0, 1, 2, 3, 7, 6, 5, 4, 11, 10, 9, 8]


def test_many_threads_of_the_user() -> None:
    compute = inputs()
    wanted = compute()
    with ThreadPoolExecutor(4) as pool:
        computed = [pool.submit(compute) for _ in range(40 if LONG else 12)]
        assert all(same(each.result(), wanted) for each in computed)
    meet()


@pytest.mark.slow
def test_no_exception_anywhere_loses_a_worker() -> None:
    def start() -> None:
        threads._pool.clear()
        threads.pool_of(PARTS, threads.LEAST)

    meet()
    for raised in every_opcode(start, (threads,), interrupt, every=1 if LONG else 4):
        assert isinstance(raised, Interruption)
        meet()


AFTER_FORK = """
import os, sys, threading
import numpy as np
from burnpy.backend import NumPy
from burnpy_numpy import cpu_threads as threads
d = NumPy()
x = np.random.default_rng(0).standard_normal((1024, 256)).astype(np.float32)
w = x[:256].copy()
wanted, going = d.matmul(x, w), True
def others():
    while going:
        d.matmul(x, w)
thread = threading.Thread(target=others)
thread.start()
codes = []
for _ in range(10):
    child = os.fork()
    if not child:
        right = all(np.array_equal(d.matmul(x, w), wanted) for _ in range(20))
        names = []
        barrier = threading.Barrier(2)
        def work(start, stop):
            barrier.wait(60)
            names.append(threading.current_thread().name)
        threads.shared(work, 1 << 20)
        os._exit(41 if right and sorted(names) == ["MainThread", "burnpy"] else 42)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
going = False
thread.join()
print(*codes)
"""
TO_THE_END = """
import threading
import numpy as np
from burnpy.backend import NumPy
d = NumPy()
x = np.ones((1024, 256), np.float32)
def others():
    while True:
        d.gelu(x, False)
        d.matmul(x, x[:256])
for _ in range(2):
    threading.Thread(target=others, daemon=True).start()
for _ in range(20):
    d.matmul(x, x[:256])
print("done")
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BURNPY_NUM_THREADS": "2"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, env=environment, timeout=240, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_amid_work_of_other_threads_has_a_pool_of_its_own() -> None:
    done = run(AFTER_FORK)
    assert done.stdout.split() == ["41"] * 10, done.stderr


@pytest.mark.slow
def test_the_process_ends_while_others_work() -> None:
    for _ in range(5):
        done = run(TO_THE_END)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_a_signal_amid_a_job_is_raised_when_it_is_over() -> None:
    compute, raised = inputs(), 0
    wanted = compute()

    def handler(number: int, frame: object) -> None:
        raise Interruption

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for k in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 * (k + 1))
                compute()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interruption:
                raised += 1
            assert same(compute(), wanted) if k % 10 == 9 else True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert raised
    meet()
