"""The NumPy backend's threads: who does what, the same numbers whoever does it, failures, forks, one thread."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy, try_lock
from burnpy.backend.dtypes import float32
from burnpy.optim import AdamW, Step
from burnpy_numpy import cpu_threads as threads
from burnpy_numpy import openblas as openblas_module
from burnpy_numpy.matmul import product
from burnpy_numpy.openblas import OneThread, openblas
from burnpy_numpy.programs import NumPyForeachBlocks
from tests.interrupting import LONG, Interruption, every_opcode, interrupt
from tests.rows import every_row


class InBlocks(NumPy):
    """Without kernels of lists."""

    foreach = NumPyForeachBlocks.foreach


D = NumPy()
LARGE = 1 << 20


@pytest.fixture(autouse=True)
def _three(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threads, "COUNT", 3)
    yield
    assert threads._workers_lock.owner() is None


class Other:
    """What has the workers for itself, as the job of another thread would."""

    def __enter__(self) -> None:
        assert threads._workers_lock.acquire(self)  # type: ignore[arg-type]  # no job, but a lock does not ask

    def __exit__(self, *raised: object) -> None:
        threads._workers_lock.release(self)  # type: ignore[arg-type]  # as above


def parts(size: int, each: int = 1) -> dict[tuple[int, int], str]:
    """The parts that were worked on, and the names of the threads."""
    found: dict[tuple[int, int], str] = {}
    threads.shared(lambda start, stop: found.update({(start, stop): threading.current_thread().name}), size, each)
    return dict(sorted(found.items()))


def test_three_threads_work_at_once() -> None:
    meeting, found = threading.Barrier(3), dict[tuple[int, int], threading.Thread]()

    def work(start: int, stop: int) -> None:
        meeting.wait(60)
        found[start, stop] = threading.current_thread()

    threads.shared(work, LARGE)
    edges = [0, LARGE // 3, LARGE * 2 // 3, LARGE]
    assert sorted(found) == list(pairwise(edges))
    assert len({*found.values()}) == 3
    assert sorted(thread.name for thread in found.values()) == sorted(
        [threading.current_thread().name] + ["burnpy"] * 2
    )


def test_the_caller_does_what_nobody_else_comes_for() -> None:
    found, here = dict[int, str](), threading.current_thread().name
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads._Worker, "ask", lambda worker, job: None)
        threads.shared(lambda start, stop: found.update({start: threading.current_thread().name}), LARGE)
    assert found == {LARGE * k // 3: here for k in range(3)}


def test_a_worker_that_comes_late_keeps_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[threads._Job] = []
    monkeypatch.setattr(threads._Worker, "ask", lambda worker, job: late.append(job))
    x = np.ones(3)
    alive = weakref.ref(x)

    def work(start: int, stop: int, x: Any) -> None:
        x += 1

    threads.shared(partial(work, x=x), LARGE)
    assert x.tolist() == [4, 4, 4]
    del x
    assert len(late) == 2
    assert alive() is None
    for job in late:
        job.help(threads._workers[0])


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
    with Other():
        busy = parts(LARGE)
    assert list(busy) == list(free)
    assert set(busy.values()) == {threading.current_thread().name}
    nested: list[tuple[int, int]] = []
    threads.shared(lambda start, stop: nested.extend(parts(LARGE)), LARGE)
    assert nested == [*free] * 3


@pytest.mark.parametrize("failing", [{0}, {1}, {2}, {1, 2}, {0, 1, 2}], ids=str)
def test_the_first_failure_carries_over_when_all_have_ended(failing: set[int]) -> None:
    under_way: list[int] = []

    def work(start: int, stop: int) -> None:
        under_way.append(start)
        time.sleep(0.001)
        under_way.remove(start)
        if round(start * 3 / LARGE) in failing:
            raise ZeroDivisionError(str(round(start * 3 / LARGE)))

    for _ in range(5):
        with pytest.raises(ZeroDivisionError, match=str(min(failing))):
            threads.shared(work, LARGE)
        assert not under_way
    assert len(parts(LARGE)) == 3


def test_nothing_waits_for_the_garbage_collector_after_a_failure() -> None:
    class Memory:
        pass

    def fail(start: int, stop: int, memory: Memory) -> None:
        raise ZeroDivisionError

    memory = Memory()
    gone = weakref.ref(memory)
    gc.disable()
    try:
        with suppress(ZeroDivisionError):
            threads.shared(partial(fail, memory=memory), LARGE)
        del memory
        for worker in threads._workers:  # who may have come late, and have seen the job
            idle(worker)
        assert gone() is None
    finally:
        gc.enable()


def idle(worker: threads._Worker) -> None:
    """Wait until a worker has nothing to do."""
    here = threading.Event()
    job = threads._Job(lambda start, stop: here.set(), 1, 1, False)
    worker.ask(job)
    assert here.wait(60)


class Interrupted:
    """Interrupted threaded work: no part may go on, and everything must be as before."""

    def __init__(self) -> None:
        self.under_way: list[int] = []
        self.begun: set[int] = set()  # the parts, in one call
        self.seen: set[int] = set()  # how many of them had begun, at each interruption
        threads.shared(lambda start, stop: None, LARGE, products=True)  # from now on workers and caches are there
        self.workers = len(threads._workers)  # more than this work needs, if other tests used more threads

    def interrupt(self) -> None:
        """Be the handler of a signal that raises."""
        self.seen.add(len(self.begun))
        raise Interruption

    def slowly(self, start: int, stop: int) -> None:
        self.begun.add(start)
        self.under_way.append(start)
        try:
            time.sleep(0.0003)
        finally:
            self.under_way.remove(start)

    def check(self) -> None:
        assert not self.under_way
        self.begun.clear()
        assert threads._workers_lock.owner() is None
        blas = openblas()
        assert blas is None or blas.get() == 2
        seen: dict[int, int] = {}
        threads.shared(lambda start, stop: seen.update({start: stop}), LARGE, products=True)
        assert [*pairwise([*sorted(seen), LARGE])] == sorted(seen.items())
        assert len(seen) == 3
        assert len(threads._workers) == self.workers >= 2


@pytest.fixture
def two_of_openblas() -> Iterator[None]:
    blas = openblas()
    if blas is None:
        yield
        return
    before = blas.get()
    blas.set(2)
    yield
    assert blas.get() == 2
    blas.set(before)


MODULES = threads, openblas_module, try_lock


@pytest.mark.usefixtures("two_of_openblas")
@pytest.mark.parametrize("products", [False, True])
def test_no_exception_anywhere_leaves_anything_under_way(products: bool) -> None:
    watch = Interrupted()
    work = partial(threads.shared, watch.slowly, LARGE, products=products)
    for raised in every_opcode(work, MODULES, watch.interrupt, every=1 if LONG else 3):
        assert isinstance(raised, Interruption)
        watch.check()
    assert {0, 3} <= watch.seen, "before the first part begins, and after all have"


@pytest.mark.usefixtures("two_of_openblas")
def test_no_exception_anywhere_leaves_openblas_with_one_thread() -> None:
    watch = Interrupted()
    for raised in every_opcode(lambda: threads.shared(watch.slowly, 1, products=True), MODULES, interrupt):
        assert isinstance(raised, Interruption)
        watch.check()


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no such signals here")
@pytest.mark.parametrize(
    ("in_part", "in_wait", "wanted"),
    [
        (None, Interruption, Interruption),
        (Interruption, None, Interruption),
        (ValueError, TypeError, TypeError),
        (ValueError, KeyboardInterrupt, KeyboardInterrupt),
        (KeyboardInterrupt, TypeError, KeyboardInterrupt),
    ],
)
def test_interruptions_of_a_part_and_of_the_wait(
    in_part: type[BaseException] | None, in_wait: type[BaseException] | None, wanted: type[BaseException]
) -> None:
    began, waiting, caller, under_way = threading.Event(), threading.Event(), threading.get_ident(), list[int]()
    errors = iter([error for error in (in_part, in_wait) if error])

    def handler(number: int, frame: object) -> None:
        raise next(errors)

    def work(start: int, stop: int) -> None:
        if threading.get_ident() == caller:
            assert began.wait(60)
            try:
                if in_part:
                    signal.raise_signal(signal.SIGALRM)
            finally:
                waiting.set()
            return
        under_way.append(start)
        began.set()
        assert waiting.wait(60)
        if in_wait and under_way[0] == start:
            time.sleep(0.02)
            for _ in range(3):  # which are seen as one, when the wait is over
                signal.pthread_kill(caller, signal.SIGALRM)
        time.sleep(0.02)
        under_way.remove(start)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(wanted):
            threads.shared(work, LARGE)
        assert not under_way
        assert next(errors, None) is None
    finally:
        signal.signal(signal.SIGALRM, before)


ALARMED = """
import gc, random, signal, sys, time
import numpy as np
from burnpy import Tensor
from burnpy.backend import NumPy
from burnpy_numpy import cpu_threads as threads

class Alarm(BaseException):
    pass

def handler(number, frame):
    if armed:
        raise Alarm

armed = False
repeated, count = sys.argv[1] == "repeated", int(sys.argv[2])
x = Tensor[NumPy].from_data(np.random.default_rng(0).standard_normal(1 << 21).astype(np.float32))
y = Tensor[NumPy].from_data(np.random.default_rng(1).standard_normal((1 << 19)).astype(np.float32))
m = Tensor[NumPy].from_data(np.random.default_rng(2).standard_normal((300, 300)).astype(np.float32))
known = [a.to_numpy().copy() for a in (y.gelu(), y.relu(), m @ m)]
signal.signal(signal.SIGALRM, handler)
random.seed(0)
wrong = alarms = 0
for k in range(count):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 3e-3), 2e-4 if repeated else 0)
        x.gelu()
        armed = False
    except Alarm:
        armed = False  # at once: an alarm here would end the program
        alarms += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    found = y.gelu(), y.relu(), m @ m
    wrong += any(not np.array_equal(a.to_numpy(), b) for a, b in zip(found, known))
    del found
    # A job whose releases were all interrupted keeps the workers until the last of them has taken it from its queue.
    end = time.monotonic() + 60
    while threads._workers_lock.owner() is not None:
        if time.monotonic() > end:
            sys.exit("the workers are taken")
        gc.collect()
        time.sleep(1e-3)
print(alarms, wrong)
"""


@pytest.mark.slowest
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
@pytest.mark.parametrize("how", ["once", "repeated"])
def test_alarms_amid_threaded_work(how: str) -> None:
    """After each that raised, the following results are right."""
    environment = {**os.environ, "BURNPY_NUM_THREADS": "2"}
    command = [sys.executable, "-c", ALARMED, how, str(LONG or 40)]
    done = subprocess.run(command, env=environment, timeout=240 + LONG, capture_output=True, text=True)
    assert not done.stderr
    alarms, wrong = map(int, done.stdout.split())
    assert alarms
    assert not wrong


def results() -> list[Any]:
    """Of all operations that share their work, on arrays that are large enough."""
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, 8, 16, 64, 64)).astype(float32)
    weight, bias = rng.standard_normal((2, 16, 1, 1)).astype(float32)
    pool = ((2, 2), (2, 2), (0, 0), (1, 1))
    step, owned = Step(0.1, 3, 0.1), Step(0.1, 3, 0.1, owned=True)
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
        *(x for (x,) in AdamW().update(D, [x], [g], ([g], [D.square(g)]), step)),
        *(x for (x,) in AdamW().update(D, [x], [g], ([g.copy()], [D.square(g)]), owned)),
        *(x for (x,) in AdamW().update(InBlocks(), [x], [g], ([g], [D.square(g)]), step)),
        *(x for (x,) in AdamW().update(InBlocks(), [x], [g], ([g.copy()], [D.square(g)]), owned)),
        *(*normal, *D.normalize_backward(g, x, weight, normal[1], normal[2], (0, 2, 3), 1e-5)),
        *(*of_rows, *D.normalize_backward(g.reshape(-1, 64), rows, scale, of_rows[1], of_rows[2], (1,), 1e-5)),
        *(D.conv2d(x, filters, *conv), D.conv2d_input(g, filters, x.shape, *conv)),
        D.conv2d_weight(g, x, filters.shape, *conv),
        *(D.conv2d(few, of_few, *conv), D.conv2d_input(g, of_few, few.shape, *conv)),
        *(D.conv2d_weight(g, few, of_few.shape, *conv), D.conv2d_weight(g, x, (16, 4, 3, 3), *conv[:3], 4)),
    ]


@pytest.mark.slow
def test_the_same_numbers_busy_or_not_and_nearly_the_same_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    free = results()
    with Other():
        busy = results()
    monkeypatch.setattr(threads, "COUNT", 1)
    alone = results()
    for one, other, single in zip(free, busy, alone, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, single, rtol=1e-4, atol=1e-5 * np.abs(single).max())


@pytest.mark.slow
@pytest.mark.parametrize("count", [4, pytest.param(12, marks=pytest.mark.long)])
def test_many_threads_of_the_user(count: int) -> None:
    wanted = results()
    with ThreadPoolExecutor(count) as pool:
        for found in pool.map(lambda _: results(), range(count)):
            for one, other in zip(wanted, found, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_threads_of_its_own() -> None:
    code = """
import os, sys
from burnpy_numpy import cpu_threads as threads
from burnpy_numpy.openblas import OneThread, openblas
threads.COUNT = 2
seen = []
threads.shared(lambda start, stop: seen.append(start), 1 << 20)
other = threads._Job(lambda start, stop: None, 2, 2, True)
threads._workers_lock.acquire(other)  # as another thread might hold it at the moment of the fork, within a product
blas = openblas()
if blas is not None:
    blas.set(3)
within = OneThread()
within.__enter__()
child = os.fork()
if not child:
    threads.shared(lambda start, stop: seen.append(start), 1 << 20)
    if blas is not None and blas.get() != 3:
        os._exit(99)
    os._exit(len(seen) * 10 + len(threads._workers))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=240)
    assert done.returncode == 41


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_amid_an_operation_is_no_silent_wrong_number() -> None:
    code = """
import os, sys, threading
from burnpy.backend import errors
from burnpy_numpy import cpu_threads as threads
threads.COUNT = 2
began, forked, caller, child = threading.Event(), threading.Event(), threading.get_ident(), 0
def work(start, stop):
    global child
    if threading.get_ident() != caller:
        began.set()
        forked.wait(60)
    elif not child:
        assert began.wait(60)
        child = os.fork()
        if child:
            forked.set()
try:
    threads.shared(work, 1 << 20)
except errors.StateError as error:
    os._exit(41 if child == 0 and "fork between operations" in str(error) else 42)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=240)
    assert done.returncode == 41


@every_row(
    "environment, count",
    [
        ({"OMP_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "2"}, 2),
        ({"OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "2", "BURNPY_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "64"}, 8),
        ({"OMP_NUM_THREADS": "64", "BURNPY_NUM_THREADS": "64"}, 64),
        ({"OMP_NUM_THREADS": "many", "BURNPY_NUM_THREADS": "0"}, None),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "1000000"}, 1),
        ({"MPI_LOCALNRANKS": "1000000", "OMP_NUM_THREADS": "3"}, 3),
        ({}, None),
    ],
    ids=str,
)
def test_how_many(environment: dict[str, str], count: int | None) -> None:
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert threads.asked_for(environment) == (min(processors or 1, 8) if count is None else count)


@pytest.mark.slow
def test_openblas_shares_the_processors_of_a_host_with_other_ranks() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in threads._VARIABLES}
    environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1000000"
    code = (
        "import burnpy_numpy.cpu_threads, burnpy_numpy.openblas as o; print(o.openblas().get() if o.openblas() else 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_openblas_has_its_threads_back_when_all_have_left() -> None:
    blas = openblas()
    if blas is None:
        pytest.skip("NumPy multiplies with another library")
    before = blas.get()
    blas.set(2)
    try:
        first, second = OneThread(), OneThread()
        with first:
            second.__enter__()
            assert blas.get() == 1
        assert blas.get() == 1
        second.__exit__(None, None, None)
        assert blas.get() == 2
        with pytest.raises(ZeroDivisionError), OneThread():
            raise ZeroDivisionError
        assert blas.get() == 2
    finally:
        blas.set(before)


@pytest.mark.slow
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
            with Other():
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
        take = threads._Job._take

        def looked(job: threads._Job) -> None:
            seen.append(blas.get())
            take(job)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threads._Job, "_take", looked)
            patch.setattr("burnpy_numpy.matmul.kernel_product", lambda *_: None)
            product(x, x)
        assert set(seen) == {1}
        assert blas.get() == 2
    finally:
        blas.set(before)


def test_products_of_members_of_16_bits_have_sums_of_32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnpy_numpy.matmul.kernel_product", lambda *_, **__: None)
    x = np.random.default_rng(0).random((3, 128, 2048)).astype(np.float16)
    y = np.ones((3, 2048, 2), np.float16)
    assert np.array_equal(D.matmul(x, y), np.matmul(x.astype(float32), y.astype(float32)).astype(np.float16))


def runs_of_threads() -> dict[str, str]:
    """How often each thread of this process ran; with an R while it runs or is about to."""
    found = {}
    for name in os.listdir("/proc/self/task"):
        with suppress(OSError):  # it has ended
            state = Path(f"/proc/self/task/{name}/stat").read_text().rsplit(") ", 1)[1][0]
            found[name] = Path(f"/proc/self/task/{name}/schedstat").read_text().split()[2] + state.strip("S")
    return found


@pytest.mark.usefixtures("two_of_openblas")
@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="it is not known how often threads run")
def test_operations_do_not_start_the_threads_of_openblas() -> None:
    def normal(*shape: int) -> Any:
        return np.random.default_rng(0).normal(size=shape).astype(np.float32)

    products = [
        *[(normal(40, 700), normal(700, 16)), (normal(1, 700), normal(700, 700)), (normal(700, 700), normal(700, 1))],
        *[(normal(700), normal(700, 700)), (normal(700, 700), normal(700)), (normal(2, 3, 40), normal(40, 700))],
        *[(normal(4, 300, 300), normal(4, 300, 8)), (normal(3, 1, 300, 300), normal(4, 300, 8))],
    ]
    calls = [partial(D.matmul, x, y) for x, y in products]
    calls += [
        partial(D.conv2d, normal(1, 256, 4, 4), normal(512, 256, 1, 1), (1, 1), (0, 0), (1, 1), 1),
        partial(D.conv2d, normal(2, 32, 3, 3), normal(64, 32, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ]
    outs = [call() for call in calls]
    before, own = runs_of_threads(), {str(worker._thread.native_id) for worker in threads._workers} | {str(os.getpid())}
    normal(256, 256).dot(normal(256, 256))
    woken = {name for name, runs in runs_of_threads().items() if name not in own and runs != before.get(name)}
    while any("R" in runs for name, runs in runs_of_threads().items() if name in woken):  # they wait for some 20 ms
        time.sleep(0.001)
    for call, out in zip(calls, outs, strict=True):
        before = runs_of_threads()
        assert np.array_equal(call(), out)
        after = runs_of_threads()
        assert [after[name] for name in woken] == [before[name] for name in woken], call.args[0].shape
    for out, (x, y) in zip(outs, products, strict=False):
        np.testing.assert_allclose(out, x @ y, rtol=1e-4, atol=1e-3)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads cannot be moved here")
def test_workers_keep_off_the_processor_of_the_caller() -> None:
    worker = threads._Worker()
    idle(worker)
    mine = os.sched_getaffinity(0)
    native = worker._thread.native_id
    assert native is not None
    for here in [*mine, -1]:
        worker.keep_off(here)
        assert os.sched_getaffinity(native) == (mine - {here} or mine)
