"""The file of a run: everything that it continues from, written by a thread while training goes on."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from burnpy.backend.errors import BurnpyError, RecordError, RecordFileError, path_shown
from burnpy.record.checkpoints import save


class Writer:
    """Writes one checkpoint at a time on a thread of its own.

    What is saved is immutable (models, records of optimizers, plain values), so that nothing is copied and training
    goes on meanwhile. An error is raised by the next `write` or by `close`.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None

    def write(self, path: Path, delete: tuple[Path, ...], parts: Mapping[str, Any]) -> None:
        """Begin to write a file, after the one before is complete; then delete the files of earlier checkpoints.

        Raises:
            RecordFileError: the folder cannot be made, or the file before could not be written.
        """
        self.wait()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordFileError(
                error.errno,
                f"the folder {path_shown(path.parent)} for checkpoints cannot be made: {error.strerror or error}",
            ) from error
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="burnpy-checkpoints")
        self._pending = self._pool.submit(_write, path, delete, dict(parts))

    def wait(self) -> None:
        """Wait until the file is complete, and raise the error of its writing."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Wait as `wait` does, and end the thread."""
        try:
            self.wait()
        finally:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None


def _write(path: Path, delete: tuple[Path, ...], parts: dict[str, Any]) -> None:
    save(path, **parts)
    for old in delete:
        old.unlink(missing_ok=True)


def settings_differ(saved: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return how the settings of a saved run and of this one differ, as text; None if they do not.

    >>> settings_differ({"batches": 10, "accumulate": 1}, {"batches": 12, "accumulate": 1})
    'batches was 10 and is 12'
    """
    differences = [
        f"{name} was {saved.get(name)!r} and is {now.get(name)!r}"
        for name in {**saved, **now}
        if saved.get(name) != now.get(name)
    ]
    return ", ".join(differences) or None


def part(record: Any, name: str, kind: type[Any]) -> Any:
    """Return a part of a file of a run.

    Raises:
        RecordError: the file is a record, but not one of a run.
    """
    try:
        return record.part(name, kind)
    except BurnpyError as error:
        raise RecordError(
            f"{record.path} is not a checkpoint of a training run, from which one could resume: {error}"
        ) from error
