"""Under a file's name there is the old file or the new one, whole: after a kill, on a full disk, without permission."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from burnpy.backend import errors
from burnpy.record import load, save
from burnpy.record.safetensors_file import write
from tests.interrupting import LONG

posix = pytest.mark.skipif(os.name == "nt", reason="signals and limits of POSIX systems")

KILLED = """
    import json, os, random, signal, sys, time
    import numpy as np
    from burnpy.record import load, save

    path, rounds = sys.argv[1], int(sys.argv[2])
    rng = random.Random(0)

    def saving(start, began):
        # each file is of its step: whatever is mixed of two is seen
        for step in range(start, start + 100_000):
            os.write(began, b"x")
            save(path, step=step, x=np.full(50_000 + step % 7, step), y=np.full(10, step))

    save(path, step=0, x=np.zeros(1), y=np.zeros(10))
    last, leftovers = 0, 0
    for killed in range(20 * rounds):
        if killed >= rounds and leftovers > 5:
            break  # where the system lets the child save whole files by turns, it takes more of them
        began, write = os.pipe()
        child = os.fork()
        if child == 0:
            saving(last + 1, write)
        # During the second save or soon after: its duration depends on how busy the machine is.
        os.read(began, 1)
        start = time.perf_counter()
        os.read(began, 1)
        time.sleep(rng.uniform(0.0, 1.5 * (time.perf_counter() - start)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(began)
        os.close(write)
        record = load(path)
        assert record.checked
        assert record.step >= last, (record.step, last)
        assert (record.x == record.step).all() and (record.y == record.step).all()
        assert record.step == 0 or len(record.x) == 50_000 + record.step % 7
        last = record.step
        found = os.listdir(os.path.dirname(path))
        leftovers += len(found) - 1
        assert len(found) <= 2, found  # the next save removes what the last left behind
    save(path, step=-1)
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]
    print(json.dumps({"saved": last, "leftovers": leftovers}))
"""


@pytest.mark.slowest
@posix
def test_killed_at_any_moment(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        textwrap.dedent(KILLED),
        str(tmp_path / "a.safetensors"),
        "60" if LONG else "25",
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    told = json.loads(done.stdout)
    assert told["saved"] > 20  # some went through
    assert told["leftovers"] > 5  # and some did not


class Crash(BaseException):
    """What stops a save wherever it is."""


STEPS = ("FileIO", "fsync", "replace", "write")


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException) -> Iterator[None]:
    """One step of saving fails, as the system's own does: in no frame but those of the standard library."""

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    namespace = {"__name__": "os"}
    fail = FunctionType(fail.__code__, namespace, "fail", None, fail.__closure__)
    with monkeypatch.context() as patched:
        if step == "write":
            patched.setattr("burnpy.record.safetensors_file.write_all", fail)
        elif step == "FileIO":
            patched.setattr("burnpy.backend.storage.FileIO", fail)
        else:
            patched.setattr(f"burnpy.backend.storage.os.{step}", fail)
        yield


@pytest.mark.parametrize("step", STEPS)
def test_an_error_of_the_system_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "a"
    save(path, step=1)
    error = OSError(errno.ENOSPC, "No space left on device")
    with (
        failing(monkeypatch, step, error),
        pytest.raises(errors.RecordFileError, match=r"cannot save .*/a: No space left .* as it was") as raised,
    ):
        save(path, step=2)
    assert raised.value.errno == errno.ENOSPC
    assert isinstance(raised.value, OSError)
    assert load(path).step == 1
    assert os.listdir(tmp_path) == ["a"]
    save(path, step=3)
    assert load(path).step == 3


@pytest.mark.parametrize("step", STEPS[1:])
def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "a"
    save(path, step=1)
    with failing(monkeypatch, step, Crash()), pytest.raises(Crash):
        save(path, step=2)
    assert load(path).step == 1
    assert os.listdir(tmp_path) == ["a"]


@posix
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "a"
    save(path, step=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # writing more fails in the middle
    try:
        with pytest.raises(errors.RecordFileError, match="cannot save"):
            save(path, x=np.zeros(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert load(path).step == 1
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(errors.RecordNotFoundError, match=r"there is no folder .*nowhere; make it first"):
        save(tmp_path / "nowhere" / "a", step=1)
    with pytest.raises(FileNotFoundError):
        save(tmp_path / "nowhere" / "a", step=1)
    with pytest.raises(errors.RecordFileError, match="directory"):
        save(tmp_path, step=1)


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    save(tmp_path / "a", step=1)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(errors.RecordFileError, match="Permission denied"):
            save(tmp_path / "a", step=2)
        assert load(tmp_path / "a").step == 1
    finally:
        tmp_path.chmod(0o700)


@posix
def test_links_and_permissions_stay(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    save(tmp_path / "real" / "a", step=1)
    (tmp_path / "real" / "a").chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a")
    save(tmp_path / "link", step=2)
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "real" / "a").step == 2
    assert stat.S_IMODE((tmp_path / "real" / "a").stat().st_mode) == 0o640


def test_only_our_own_leftovers_are_removed(tmp_path: Path) -> None:
    others = [".a.tmp", ".b.00000000.tmp", ".a.0000000.tmp", "a.00000000.tmp", ".a.00000000.tmp.txt"]
    for name in [*others, ".a.00000000.tmp", ".a.abcdef01.tmp"]:
        (tmp_path / name).write_bytes(b"x")
    save(tmp_path / "a", step=1)
    left = set(os.listdir(tmp_path))
    assert left == {*others, "a"} if os.name != "nt" else left >= {"a"}


@posix
def test_threads_that_save_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def saving(thread: int) -> None:
        try:
            for step in range(20):
                save(tmp_path / "a", by=thread, x=np.full(1000 + thread, step))
                assert len(load(tmp_path / "a").x) >= 1000
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=saving, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert os.listdir(tmp_path) == ["a"]


def test_memory_is_not_copied(tmp_path: Path) -> None:
    import tracemalloc

    x = np.zeros(4_000_000)  # 32 MB
    tracemalloc.start()
    write(tmp_path / "a", {"x": x}, {})
    _, most = tracemalloc.get_traced_memory()
    assert most < 2_000_000
    tracemalloc.reset_peak()
    found = load(tmp_path / "a")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 34_000_000
    assert found.model["x"].value.nbytes == x.nbytes
