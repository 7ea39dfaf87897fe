"""Workers: the same bits whoever computes a share, also where workers are killed; and a sentence for each mistake."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import burnpy
from burnpy import Tensor
from burnpy.backend import NumPy
from burnpy.data.child_processes import WorkerTraceback
from burnpy.distributed import Workers
from burnpy.distributed.worker_engine import FlatLayouts, flattened
from burnpy.distributed.workers import _seed
from burnpy.errors import ArgumentError, CallError, KindError, MissingPackageError, WorkerError
from burnpy.optim import GradientsAccumulator, GradientsParams
from tests.distributed import farm

pytestmark = pytest.mark.slow

if not hasattr(socket, "send_fds"):
    pytest.skip("needs a system that passes files to processes", allow_module_level=True)


@pytest.fixture(scope="module")
def processes() -> Iterator[Workers]:
    with Workers(2, limit=120, retries=7) as made:
        yield made


def in_one_process(calls: int) -> Any:
    """The mean of gradients by a loop, with the random numbers of the calls after so many."""
    count = calls

    def mean(model: Any, shares: Sequence[Any]) -> GradientsParams[NumPy]:
        nonlocal count
        count += 1
        total = GradientsAccumulator[NumPy]()
        for k, rows in enumerate(shares):
            burnpy.manual_seed(_seed(0, count, k))
            total = total.add(farm.gradients(model, rows), weight=len(rows))
        return total.mean()

    return mean


def values_come_back_in_the_order_of_the_shares(workers: Workers, folder: Path) -> None:
    assert workers.map(farm.square, 0.5, [0, 1, 2, 3, 4]) == [0.5, 1.5, 4.5, 9.5, 16.5]
    assert workers.map(farm.delayed, 1.0, range(5)) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert workers.map(farm.square, 0.0, []) == []


def the_weights_are_those_of_one_process_with_all_workers_killed(workers: Workers, folder: Path) -> None:
    expected = farm.trained(in_one_process(workers._calls))
    given = (str(folder), 2)
    assert farm.trained(lambda model, shares: workers.mean(farm.killed, (model, *given), shares)) == expected
    assert len(list(folder.iterdir())) == 2


def metrics_are_values_too(workers: Workers, folder: Path) -> None:
    means = workers.map(farm.mean_of, 2.0, [Tensor[NumPy].from_data([k]) for k in (1.0, 2.0, 6.0)])
    assert sum(means[1:], means[0]).value() == 6.0


def an_exception_of_the_function_is_raised_with_its_traceback(workers: Workers, folder: Path) -> None:
    with pytest.raises(LookupError, match=r"^there is no share 2") as raised:
        workers.map(farm.failing, None, range(4))
    assert isinstance(raised.value.__cause__, WorkerTraceback)
    assert "in failing" in str(raised.value.__cause__)
    assert raised.value.__notes__ == ["raised by a worker, for share 2 of 4"]
    assert workers.map(farm.square, 0.0, range(4)) == [0, 1, 4, 9]  # what was still computed is not taken for these


def what_cannot_be_sent_is_named(workers: Workers, folder: Path) -> None:
    lock: Any = threading.Lock()
    with pytest.raises(WorkerError, match=r"cannot.*lock"):
        workers.map(farm.square, lock, [1])
    with pytest.raises(WorkerError, match=r"share 1.*lock"):
        workers.map(farm.square, 0, [1, lock])
    with pytest.raises(WorkerError, match=r"cannot be sent|send its answer"):
        workers.map(farm.a_lock, 0, [1])
    assert workers.map(farm.square, 0, [1]) == [1]


CLAIMS = [
    values_come_back_in_the_order_of_the_shares,
    the_weights_are_those_of_one_process_with_all_workers_killed,
    metrics_are_values_too,
    an_exception_of_the_function_is_raised_with_its_traceback,
    what_cannot_be_sent_is_named,
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_processes(claim: Callable[[Workers, Path], None], processes: Workers, tmp_path: Path) -> None:
    claim(processes, tmp_path)


@pytest.mark.heavy("ray")
def test_ray(tmp_path: Path) -> None:
    with Workers(2, engine="ray", limit=120) as actors:  # for all claims, as starting it takes seconds
        for claim in CLAIMS:
            claim(actors, tmp_path)
        assert actors.map(lambda model, share: model + share, 1, [2]) == [3]  # functions go as they are


def test_the_weights_are_those_of_one_process_with_many_killed(processes: Workers, tmp_path: Path) -> None:
    for kills in (0, 1, 7):
        expected = farm.trained(in_one_process(processes._calls))
        folder = tmp_path / f"{kills}"
        folder.mkdir()

        def mean(model: Any, shares: Any, given: tuple[str, int] = (str(folder), kills)) -> GradientsParams[NumPy]:
            return processes.mean(farm.killed, (model, *given), shares)

        assert farm.trained(mean) == expected
        assert len(list(folder.iterdir())) == kills


def test_workers_that_were_killed_while_they_waited_are_replaced(processes: Workers) -> None:
    assert len(set(processes.map(farm.pid, 0.2, range(2)))) == 2
    idle: list[Any] = processes._idle
    before = {worker.process.pid for worker in idle}
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert processes.map(farm.square, 0, range(5)) == [0, 1, 4, 9, 16]
    assert not before & {*processes.map(farm.pid, 0.2, range(2))}


def test_gradients_travel_flat_and_come_back_as_they_were() -> None:
    layouts, model = FlatLayouts(), farm.net()
    for rows in ([1, 2, 3], [4, 5]):
        grads = farm.gradients(model, rows)
        sent: Any = pickle.loads(pickle.dumps(flattened(grads)))
        assert (sent.layout is None) == (len(rows) == 2), "the layout is sent once"
        back = layouts.opened(sent)
        assert back.buffer_updates.keys() == grads.buffer_updates.keys()
        for mine, its in ((grads, back), (grads.buffer_updates, back.buffer_updates)):
            assert {name: x.tolist() for name, x in mine.items()} == {name: x.tolist() for name, x in its.items()}
    part = grads.without("4")
    assert layouts.opened(flattened(part)).missing == part.missing
    assert flattened(3) == layouts.opened(3) == 3


def test_a_share_that_kills_every_worker_is_given_up(processes: Workers) -> None:
    with pytest.raises(WorkerError, match=r"^8 workers were lost while computing share 1, the last one"):
        processes.map(farm.always_killed, None, range(3))
    assert processes.map(farm.square, 0.0, [2]) == [4]


def test_processes_are_sent_functions_by_name(processes: Workers) -> None:
    with pytest.raises(WorkerError, match=r"it is a lambda, defined in .*; define it by def at the top level of a mod"):
        processes.map(lambda model, share: model + share, 1, [2])


def test_mistakes_in_a_mean(processes: Workers) -> None:
    with pytest.raises(ArgumentError, match=r"^mean\(\) got 2 shares, and none of them has a weight above 0"):
        processes.mean(farm.gradients, farm.net(), [[], range(0)], weights=[0, 0])
    with pytest.raises(ArgumentError, match=r"^mean.. got 1 weights for 2 shares"):
        processes.mean(farm.gradients, farm.net(), [[1], [2]], weights=[1])
    with pytest.raises(
        ArgumentError, match=r"cannot find the number of samples in each share; pass weights=, one for each"
    ):
        processes.mean(farm.gradients, farm.net(), [1, 2])
    with pytest.raises(KindError, match=r"it returned a float; write GradientsParams.from_grads"):
        processes.mean(farm.square, 0.5, [1], weights=[1])  # type: ignore[type-var]  # as the message says
    with pytest.raises(KindError, match=r"as the function"):
        processes.map(3, 0.5, [1])  # type: ignore[arg-type]  # as the message says


def test_a_worker_beyond_the_limit_is_lost(tmp_path: Path) -> None:
    with Workers(1, limit=5, retries=1) as few:
        assert few.map(farm.stuck, str(tmp_path), [7]) == [7]
    with pytest.raises(CallError, match=r"^these workers were closed"):
        few.map(farm.square, 0, [1])
    few.close()


def test_settings_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match=r"count=0; expected an int of at least 1"):
        Workers(0)
    with pytest.raises(ArgumentError, match=r"limit=0"):
        Workers(1, limit=0)
    with pytest.raises(ArgumentError, match=r"engine='mpi'; expected 'processes' or 'ray'"):
        Workers(1, engine="mpi")  # type: ignore[arg-type]  # as the message says
    with pytest.raises(ArgumentError, match=r"other machines need engine='ray'"):
        Workers(1, address="10.0.0.1:6379")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        MissingPackageError, match=r"install it with: pip install \"burnpy\[ray\]\", or use engine='pro"
    ):
        Workers(1, engine="ray")


@pytest.mark.heavy("ray")
def test_an_address_where_nothing_answers() -> None:
    code = """
        from burnpy.distributed import Workers
        from burnpy.errors import ArgumentError
        try:
            Workers(1, engine="ray", address="127.0.0.1:1")
        except ArgumentError as error:
            print(error)
    """
    said = ran(code).stdout
    assert said.startswith("Workers() got address='127.0.0.1:1', where no Ray cluster answers ([Errno 111] Conn")


def test_a_cluster_that_refuses_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**settings: Any) -> None:
        raise ConnectionError("Failed to connect") from RuntimeError("InvalidAuthToken")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=init))
    with pytest.raises(ArgumentError, match=r"^Workers\(\) got address='auto', where a Ray cluster refuses this p"):
        Workers(1, engine="ray", address="auto")


@pytest.mark.slowest
def test_a_program_that_starts_workers_when_it_is_imported(tmp_path: Path) -> None:
    program = tmp_path / "unguarded.py"
    program.write_text("from burnpy.distributed import Workers\nWorkers(1).map(pow, 2, [3])\n", encoding="utf-8")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, env=os.environ)
    assert "put its code under: if __name__ == '__main__':" in done.stderr.splitlines()[-1]


def test_ray_is_loaded_only_when_asked_for() -> None:
    code = """
        import sys, burnpy.distributed
        print("ray" in sys.modules, "multiprocessing.connection" in sys.modules)
    """
    assert ran(code).stdout.split() == ["False", "False"]


def ran(code: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, check=True)
