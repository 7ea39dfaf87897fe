"""Whatever is raised, wherever it falls while files are read and written, is raised, and leaves no trace.

Ctrl-C and the handlers of signals raise between two instructions of Python. Here a trace function does, at one
instruction of `burnpy.record` after the other.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnpy.record
from burnpy.backend import NumPy
from burnpy.nn import Linear
from burnpy.record import from_torch, load, read_torch, save
from tests.interrupting import LONG, Interruption, Opcodes
from tests.record.nets import FIXTURES, mlp

ERRORS = (TimeoutError, ValueError, RuntimeError, KeyError)
FOLDER = str(Path(burnpy.record.__file__).parent)

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that is dropped


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Files that a traceback keeps open are collected here, where the warning is expected, and not in a later test."""
    yield
    gc.collect()


def raising(function: Callable[[], Any], at: int, error: BaseException | None = None) -> int:
    """Call a function, and raise an error before one of the instructions in our frames; how many there were."""

    def fail() -> None:
        assert error is not None
        raise error

    opcodes = Opcodes(lambda file: file.startswith(FOLDER), at, fail)
    opcodes.run(function)
    return opcodes.count


def everywhere(function: Callable[[], Any], most: int, part: float = 0.0) -> range:
    """Places to raise at: about so many, the first by a part of their distance later; more in the long form."""
    count = raising(function, 0)
    distance = max(1, count // max(most, LONG))
    return range(1 + int(part * distance), count + 1, distance)


def open_files() -> dict[str, str]:
    """Return what each descriptor of this process is."""
    folder, found = Path("/proc/self/fd"), dict[str, str]()
    for descriptor in os.listdir(folder) if folder.is_dir() else ():
        with suppress(FileNotFoundError):  # the listing itself
            found[descriptor] = os.readlink(folder / descriptor)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("existing", [True, False])
def test_saving_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existing: bool) -> None:
    monkeypatch.setattr("burnpy.backend.storage.os.fsync", int)  # the disk takes longer than all the rest
    path = tmp_path / "a"
    x = np.arange(3)
    old = (tmp_path / "old", tmp_path / "new")
    save(old[0], step=1, x=x)
    save(old[1], step=2, x=x)
    versions = [file.read_bytes() for file in old]
    for file in old:
        file.unlink()

    def saving() -> None:
        save(path, step=2, x=x)

    seen = set()
    files = open_files()
    for at in everywhere(saving, 400):
        path.unlink(missing_ok=True)
        if existing:
            path.write_bytes(versions[0])
        with pytest.raises(Interruption) as raised:
            raising(saving, at, Interruption())
        left = os.listdir(tmp_path)  # while the exception, and what its frames hold, is still there
        assert left in ([["a"]] if existing else [["a"], []]), (at, left)
        if left:
            seen.add(path.read_bytes())
        del raised
        now = open_files()
        assert len(now) <= len(files) + 1, (at, files, now)
        files = now
    assert seen == (set(versions) if existing else {versions[1]})


@pytest.mark.slow
@pytest.mark.parametrize("which", range(len(ERRORS)))
def test_an_error_of_the_users_own_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int) -> None:
    monkeypatch.setattr("burnpy.backend.storage.os.fsync", int)
    model, error = mlp(2), ERRORS[which]("late")
    save(tmp_path / "a", model=model, step=1)
    linear = Linear(3, 4, device=NumPy)
    functions: list[Callable[[], Any]] = [
        lambda: save(tmp_path / "b", model=model, step=1),
        lambda: load(tmp_path / "a").apply_to(model, remap={"x": "y"}),
        lambda: load(FIXTURES / "layers.safetensors"),
        lambda: read_torch(FIXTURES / "layers.pt", "inputs"),
        lambda: from_torch(linear, FIXTURES / "layers.safetensors", strict=False, remap={r"^linear\.": ""}),
    ]
    for function in functions:
        for at in everywhere(function, 8, which / len(ERRORS)):  # each error at places of its own
            with pytest.raises(type(error)) as raised:
                raising(function, at, error)
            assert raised.value is error, at
            error.__traceback__ = error.__cause__ = error.__context__ = None
