"""Processes that make batches: the same bits, recycled memory, and a sentence for each way in which they fail."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import operator
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff
from burnpy.backend import NumPy
from burnpy.data import ArrayDataset, Batch, BatchRandom, Loader, Stream, StreamLoader, child_processes, collate
from burnpy.data.child_processes import Packed, WorkerTraceback
from burnpy.data.workers import ProcessEngine
from burnpy.errors import LoadingError, OutOfMemoryError, WorkerError

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs a system that passes files to processes"),
]


def data(n: int = 20) -> ArrayDataset:
    return ArrayDataset(x=np.arange(n * 3, dtype=np.float32).reshape(n, 3), i=np.arange(n))


def loader(source: Any = None, **options: Any) -> Loader[Batch[Any]]:
    settings = {"batch_size": 3, "shuffle": True, "engine": "processes", "workers": 2, **options}
    return Loader(data() if source is None else source, collate(device=NumPy), **settings)


def bits(batch: Batch[Any]) -> list[bytes]:
    return [batch[name].to_numpy().tobytes() for name in {**batch}]


def ended() -> bool:
    limit = time.monotonic() + 60.0
    while multiprocessing.active_children() and time.monotonic() < limit:
        time.sleep(0.01)
    return not multiprocessing.active_children()


def engine_of(epoch: Any) -> ProcessEngine:
    assert isinstance(epoch._engine, ProcessEngine)
    return epoch._engine


@pytest.fixture(autouse=True)
def no_descriptors_left() -> Any:
    """No test leaves files open, nor processes. The first starts the fork server, which stays."""
    multiprocessing.get_context("forkserver").Process(target=operator.index, args=(0,)).start()
    assert ended()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert ended()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_the_same_bits_as_without_workers() -> None:
    many = [bits(batch) for batch in loader(data(90), workers=0).epoch(1)]
    kept = list(loader(data(90)).epoch(1))  # more than may keep their slots
    assert [bits(batch) for batch in kept] == many
    alone = [bits(batch) for batch in loader(workers=0).epoch(1)]
    batches = list(loader().epoch(1))
    assert [bits(batch) for batch in batches] == alone
    assert [bits(batch) for batch in loader(prefetch=1).epoch(1, start=3)] == alone[3:]
    shard = loader().shard(1, 2)
    assert [batch.i.tolist() for batch in shard.epoch(1)] == [b.i.tolist()[(len(b) + 1) // 2 :] for b in batches]


def test_batches_on_an_autodiff_device() -> None:
    (batch,) = Loader(data(2), collate(device=Autodiff[NumPy]), batch_size=2, engine="processes", workers=1)
    assert batch.x.device is Autodiff(NumPy())
    assert batch.x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_slots_are_recycled() -> None:
    epoch = loader(data(300), prefetch=2).epoch(0)
    workers = engine_of(epoch)._workers
    for _ in epoch:
        pass
    assert 2 <= sum(worker.made for worker in workers) <= 8  # for a hundred batches


def test_a_batch_that_is_kept_is_not_written_over() -> None:
    epoch = loader(data(300), shuffle=False).epoch(0)
    first = next(epoch)
    column = next(epoch).x.to_numpy()  # the batch itself goes
    for _ in epoch:
        pass
    assert first.i.tolist() == [0, 1, 2]
    assert column[:, 0].tolist() == [9, 12, 15]


def test_a_result_that_waits_for_memory_comes_before_the_next_task() -> None:
    here, there = multiprocessing.Pipe()

    def serve() -> None:
        with suppress(EOFError):
            child_processes._serve(there)

    thread = threading.Thread(target=serve)
    thread.start()
    packed = Packed(operator.is_)  # called with the task, and with the function that says whether to stop
    descriptor = child_processes.anonymous_file(packed.size, "the work")
    packed.write(child_processes.mapped(os.dup(descriptor)))
    try:
        here.send(packed.sizes)
        child_processes.send_file(here, descriptor)
        for number in range(2):
            here.send(("task", number, number, None))
        assert here.recv() == ("ready",)
        assert here.recv()[:2] == ("small", 0)
        assert not here.poll(0.3)  # it waits
        here.send(("slot", 0, None, 7))
        child_processes.send_file(here, descriptor)
        assert here.recv()[:3] == ("done", 0, 7)
        assert here.recv()[:2] == ("small", 1)
    finally:
        os.close(descriptor)
        here.close()
        thread.join()
        there.close()


def test_a_packed_object_in_a_cycle_is_collected_without_an_error() -> None:
    """The traceback of an error refers to what was packed where it was raised."""
    code = """
import gc
from burnpy.data.child_processes import Packed
cycle = [Packed("work")]
cycle.append(cycle)
del cycle
gc.collect()
"""
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-c", code]  # reports errors of finalizers on all versions
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")


def test_larger_batches_than_before() -> None:
    growing = [{"x": np.full(1000 * k, k)} for k in range(1, 12)]
    batches = Loader(growing, collate(device=NumPy), batch_size=1, engine="processes", workers=2)
    assert [batch.x.tolist() for batch in batches] == [[[k] * 1000 * k] for k in range(1, 12)]


def test_a_function_collates() -> None:
    assert [*Loader(range(5), sum, batch_size=2, engine="processes", workers=2)] == [1, 5, 4]


def test_memory_maps_are_opened_by_path(tmp_path: Path) -> None:
    orders: Any = "CF"
    for order in orders:
        array: Any = np.arange(12.0).reshape(4, 3)
        np.save(tmp_path / "x.npy", np.asarray(array, order=order))
        source = ArrayDataset(x=np.load(tmp_path / "x.npy", mmap_mode="r")).map(operator.itemgetter("x"))
        types = Loader(source, partial(map, type), batch_size=4, workers=0)
        assert [*next(types.epoch(0))] == [np.memmap] * 4
        (batch,) = Loader(source, np.stack, batch_size=4, engine="processes", workers=1)
        assert batch.tolist() == np.arange(12.0).reshape(4, 3).tolist()


def test_an_exception_arrives_with_its_index_and_traceback() -> None:
    source = data().map(operator.itemgetter("x")).map(operator.methodcaller("nothing"))
    with pytest.raises(LoadingError, match=r"sample 0 of batch 0 of epoch 0 .*: .*nothing") as caught:
        next(loader(source, shuffle=False).epoch(0))
    assert caught.value.index == 0
    cause = caught.value.__cause__
    assert isinstance(cause, AttributeError)
    assert isinstance(cause.__cause__, WorkerTraceback)
    assert re.search(r"views\.py.*in draw", str(cause.__cause__))


def test_ragged_samples() -> None:
    with pytest.raises(ValueError, match=r"x has shape \(1,\) in sample 0 and \(2,\) in sample 1"):
        next(loader([{"x": [1]}, {"x": [1, 2]}], shuffle=False).epoch(0))


@pytest.mark.parametrize("when", ["at once", "amid"])
def test_a_killed_worker_is_a_sentence(when: str) -> None:
    epoch = loader(data(3000), prefetch=4).epoch(0)
    if when == "amid":
        for _ in range(5):
            next(epoch)
    for child in multiprocessing.active_children():
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"was killed by SIGKILL"):
        for _ in epoch:
            pass


def test_a_worker_that_exits_is_a_sentence() -> None:
    source = data().map(operator.itemgetter("i")).map(os._exit)
    with pytest.raises(WorkerError, match="ended with status 0 at batch 0"):
        next(loader(source, shuffle=False, workers=1).epoch(0))


class Holder:
    def __init__(self, held: Any) -> None:
        self.held = held

    def __call__(self, sample: Any) -> Any:
        return self.held


def doubled(sample: Any) -> Any:
    def inner(sample: Any) -> Any:
        return sample

    return inner


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            lambda sample: sample,
            r"dataset\.view\.function cannot be sent: it is a lambda, defined in .*test_processes\.py at",
        ),
        (doubled(None), r"it is the function doubled\.<locals>\.inner, .*; define it by def at the top"),
        (partial(operator.add, (i for i in range(3))), r"dataset\.view\.function\.args\[0\] .* it is a generator"),
        (Holder({"a": [1, sys.stderr]}), r"dataset\.view\.function\.held\['a'\]\[1\] .*; open it where"),
    ],
)
def test_what_cannot_be_pickled_is_named(function: Any, said: str) -> None:
    with pytest.raises(WorkerError, match=said):
        loader(data().map(function)).epoch(0)


def test_a_transform_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(WorkerError, match=r"sends collator to .* collator\.transforms\[0\] .* a lambda"):
        Loader(
            data(), collate(device=NumPy, transform=lambda c, rng: c), batch_size=2, workers=1, engine="processes"
        ).epoch(0)


def test_a_full_memory_is_seen_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = loader().epoch(0)
    monkeypatch.setattr(child_processes, "_available", lambda: 100)
    with pytest.raises(OutOfMemoryError, match=r"the dataset, .* takes .* MiB of shared memory"):
        loader().epoch(0)
    monkeypatch.undo()

    def full(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OutOfMemoryError, match=r"a batch takes .* \(No space left on device\)"):
        next(epoch)


def pids() -> set[int | None]:
    return {process.pid for process in multiprocessing.active_children()}


def test_processes_go_on_in_the_next_epoch() -> None:
    many = loader(data(300))
    alone = loader(data(300), workers=0)
    assert [bits(batch) for batch in many.epoch(0)] == [bits(batch) for batch in alone.epoch(0)]
    first = pids()
    assert len(first) == 2
    for epoch in (1, 2):
        assert [bits(batch) for batch in many.epoch(epoch)] == [bits(batch) for batch in alone.epoch(epoch)]
    assert pids() == first
    one, other = many.epoch(3), many.epoch(4)  # at the same time
    assert [bits(batch) for batch in other] == [bits(batch) for batch in alone.epoch(4)]
    assert [bits(batch) for batch in one] == [bits(batch) for batch in alone.epoch(3)]
    assert len(pids()) == 2
    killed = multiprocessing.active_children()[0]
    killed.kill()  # while nobody waits for it
    killed.join()
    assert [bits(batch) for batch in many.epoch(5)] == [bits(batch) for batch in alone.epoch(5)]
    many.close()
    assert not pids()
    assert len(list(many.epoch(6))) == 100
    del many
    gc.collect()
    assert not pids()


def test_a_dataset_that_was_changed_reaches_the_processes() -> None:
    samples = [{"x": np.zeros(2)} for _ in range(6)]
    many = loader(samples, shuffle=False)
    assert next(many.epoch(0)).x.tolist() == [[0.0, 0.0]] * 3
    list(many.epoch(0))
    samples[1]["x"] = np.ones(2)
    assert next(many.epoch(1)).x.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    list(many.epoch(1))
    samples[2]["x"][1] = 5.0
    assert next(many.epoch(2)).x.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 5.0]]


@pytest.mark.parametrize("how", ["exhaust", "close", "drop", "with"])
def test_processes_end(how: str) -> None:
    epoch: Any = loader(data(300)).epoch(0)  # of a loader that is gone, which keeps none
    next(epoch)
    assert len(multiprocessing.active_children()) == 2
    if how == "exhaust":
        list(epoch)
    elif how == "close":
        epoch.close()
        assert list(epoch) == []
    elif how == "with":
        with pytest.raises(ZeroDivisionError), epoch:
            raise ZeroDivisionError
    else:
        del epoch
        gc.collect()
    assert not multiprocessing.active_children()


class Numbers(Stream[Any]):
    """Samples with their epoch; the state is the number of the next one."""

    def samples(self, epoch: int, state: Any) -> Any:
        for k in range(state or 0, 17):
            if k == self.fails_at:
                raise OSError("the disk is gone")
            yield {"i": k, "e": epoch}, k + 1

    fails_at: int | None = None


def noisy(columns: Any, rng: BatchRandom) -> Any:
    return {**columns, "r": rng.normal(shape=(3,))}


def streamed(stream: Stream[Any], **options: Any) -> StreamLoader[Any]:
    settings: Any = {"batch_size": 3, "seed": 4, "engine": "processes", "workers": 2, **options}
    return StreamLoader(stream, collate(device=NumPy, transform=noisy), **settings)


def test_streams() -> None:
    stream = Numbers().shuffle(5, seed=1).map(dict)
    alone, many = streamed(stream, workers=0), streamed(stream)
    for epoch in range(2):
        whole = [bits(batch) for batch in alone.epoch(epoch)]
        assert [bits(batch) for batch in many.epoch(epoch)] == whole
        assert len(pids()) == 2
    part = many.epoch(1)
    next(part)
    assert [bits(batch) for batch in many.epoch(1, state=part.state)] == whole[1:]


def test_what_is_wrong_with_a_stream_comes_when_its_turn_comes() -> None:
    stream = Numbers()
    stream.fails_at = 5
    epoch = streamed(stream).epoch(0)
    assert next(epoch).i.tolist() == [0, 1, 2]
    with pytest.raises(LoadingError, match="reading sample 5 of batch 1 of epoch 0 raised OSError: the disk is gone"):
        next(epoch)
    with pytest.raises(LoadingError, match="sample 0 of batch 0 of epoch 0 raised TypeError") as caught:
        next(streamed(Numbers().map(len).map(len)).epoch(0))  # type: ignore[arg-type]  # the mistake
    assert caught.value.index == 0
    with pytest.raises(WorkerError, match=r"stream\.map\[0\] cannot be sent: it is a lambda"):
        streamed(Numbers().map(lambda sample: sample)).epoch(0)


class Locks(Stream[Any]):
    def samples(self, epoch: int, state: Any) -> Any:
        yield threading.Lock(), 1


def test_a_sample_of_a_stream_that_cannot_be_pickled() -> None:
    with pytest.raises(WorkerError, match=r"one cannot be sent \(cannot pickle '_thread.lock' object\)"):
        next(streamed(Locks()).epoch(0))


def ran(
    tmp_path: Path,
    program: str,
    *,
    interrupt: signal.Signals | None = None,
    how: Callable[[Path], list[str]] | None = None,
) -> tuple[int, str, str]:
    """Run a program in a process group of its own; its status, output and errors."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "backends")])}
    with subprocess.Popen(
        [sys.executable, *(how(path) if how else [str(path)])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline() if interrupt else ""
        if interrupt:
            os.killpg(process.pid, interrupt)  # as a terminal and a job scheduler do it
        try:
            out, errors = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, first + out, errors


PROGRAM = """
    import time
    import numpy as np
    from burnpy.backend import NumPy
    from burnpy.data import ArrayDataset, Loader, collate

    def half(sample):
        time.sleep(PAUSE)
        return {"x": sample["x"] / 2}

    def train():
        data = ArrayDataset(x=np.arange(6.0)).map(half)
        for batch in Loader(data, collate(device=NumPy), batch_size=2, workers=2, engine="processes").epoch(0):
            print(batch.x.tolist(), flush=True)
"""


def test_functions_of_the_program(tmp_path: Path) -> None:
    program = PROGRAM.replace("PAUSE", "0") + "\n    if __name__ == '__main__':\n        train()\n"
    assert ran(tmp_path, program) == (0, "[0.0, 0.5]\n[1.0, 1.5]\n[2.0, 2.5]\n", "")


CHOSEN = """
    def doubled(x):
        return x * 2.0

    if __name__ == "__main__":
        import multiprocessing
        from burnpy import Tensor

        multiprocessing.set_start_method("METHOD")
        with multiprocessing.Pool(1) as pool:
            print(pool.map(doubled, [Tensor[NumPy].from_data([1.0])])[0].tolist(), flush=True)
            train()
            pool.close()
            pool.join()
"""


@pytest.mark.slowest
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_program_with_processes_of_its_own(method: str, tmp_path: Path) -> None:
    """The fork server is the default on Linux from Python 3.14 on, and the same as the engine's."""
    program = PROGRAM.replace("PAUSE", "0") + CHOSEN.replace("METHOD", method)
    assert ran(tmp_path, program) == (0, "[2.0]\n[0.0, 0.5]\n[1.0, 1.5]\n[2.0, 2.5]\n", "")


def test_an_unguarded_program_is_explained(tmp_path: Path) -> None:
    status, out, errors = ran(tmp_path, PROGRAM.replace("PAUSE", "0") + "\n    train()\n")
    assert (status, out) == (1, "")
    assert errors.count("Traceback") == 1
    assert "put its code under: if __name__ == '__main__':" in errors


@pytest.mark.slowest
def test_a_function_of_an_interactive_session_is_explained(tmp_path: Path) -> None:
    program = textwrap.dedent(PROGRAM.replace("PAUSE", "0") + "\n    train()\n")
    status, out, errors = ran(tmp_path, program, how=lambda path: ["-c", program])
    assert (status, out) == (1, "")
    assert errors.count("Traceback") == 1
    assert "half" in errors.splitlines()[-1]
    assert "interactive session" in errors.splitlines()[-1]


def test_the_reason_of_a_process_that_ended_is_read_before_its_end_is_reported() -> None:
    engine: Any = object.__new__(ProcessEngine)
    here, there = Pipe()
    there.send(("ready",))
    there.send(("unreadable", "AttributeError: no attribute 'half'"))
    there.close()
    with pytest.raises(WorkerError, match=r"'half'; functions and classes of an interactive session"):
        engine._tell(SimpleNamespace(connection=here), ("task", 0, 0, None))


@pytest.mark.parametrize("engine", ["processes", "threads"])
def test_ctrl_c(engine: str, tmp_path: Path) -> None:
    program = (
        PROGRAM.replace("PAUSE", "0 if sample['x'] < 2 else 600")
        + "\n    if __name__ == '__main__':\n        train()\n"
    )
    program = program.replace('engine="processes"', f'engine="{engine}"')
    status, out, errors = ran(tmp_path, program, interrupt=signal.SIGINT)  # which waits for no worker's ten minutes
    assert status == -signal.SIGINT
    assert out == "[0.0, 0.5]\n"
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_a_learner_saves_when_all_processes_are_terminated(tmp_path: Path) -> None:
    program = """
        import sys
        import time
        import numpy as np
        from burnpy import Autodiff
        from burnpy.backend import NumPy
        from burnpy.data import ArrayDataset, Loader, collate
        from burnpy.nn import Linear
        from burnpy.optim import Sgd
        from burnpy.train import BatchEnd, Checkpoints, Epochs, Learner, Step

        Train = Autodiff[NumPy]

        def slow(sample):
            time.sleep(0.1)
            return sample

        def step(model, batch):
            return Step(model(batch.x).mean())

        def report(event):
            if isinstance(event, BatchEnd) and event.step == 3:
                print("step", flush=True)

        if __name__ == "__main__":
            data = ArrayDataset(x=np.ones((2000, 1), "f4")).map(slow)
            loader = Loader(data, collate(device=Train), batch_size=2, workers=2, engine="processes")
            callbacks = [Checkpoints(sys.path[0] + "/saved", every=Epochs(1)), report]
            learner = Learner(step, optim=Sgd(), lr=0.1, callbacks=callbacks)
            result = learner.fit(Linear(1, 1, device=Train), loader, epochs=1)
            print(result.stopped, result.step >= 3)
    """
    status, out, errors = ran(tmp_path, program, interrupt=signal.SIGTERM)
    assert (status, out, errors) == (0, "step\ninterrupted True\n", "")
    assert len([*(tmp_path / "saved").iterdir()]) == 1


def test_a_program_that_ends_within_an_epoch_waits_for_no_process(tmp_path: Path) -> None:
    program = PROGRAM.replace("PAUSE", "0 if sample['x'] < 2 else 600") + (
        "\n    if __name__ == '__main__':\n"
        "        data = ArrayDataset(x=np.arange(6.0)).map(half)\n"
        "        epoch = Loader(data, collate(device=NumPy), batch_size=2, workers=2, engine='processes').epoch(0)\n"
        "        print(next(epoch).x.tolist())\n"
    )
    assert ran(tmp_path, program) == (0, "[0.0, 0.5]\n", "")
