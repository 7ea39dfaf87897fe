"""Writing a file so that under its name there is, at any moment, the old one or the new one, whole."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from burnpy.backend.errors import RecordFileError, RecordNotFoundError

locks: Any = None
"""The module `fcntl`; None on Windows, where leftovers stay."""
with suppress(ImportError):
    import fcntl as locks


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[FileIO, None, None]:
    """A new file to write to, which takes the place of the one at ``path`` when all is done, or not at all.

    It is written beside the old one under another name, brought to the disk, and renamed. A process that is killed
    leaves that name behind; whoever writes the same file next removes it. A link stays a link; permissions stay.

    Raises:
        RecordNotFoundError: the folder is not there.
        RecordFileError: it cannot be written: no permission, a full disk. The old file is as it was.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        _remove_leftovers(target)
        temporary, file = _opened(target)
    except FileNotFoundError as error:
        raise RecordNotFoundError(
            error.errno, f"cannot save {target}: there is no folder {target.parent}; make it first"
        ) from error
    except OSError as error:
        raise _failed(path, error) from error
    try:
        with file:
            yield file
            os.fsync(file.fileno())
            if locks is None:  # Windows renames no open file
                file.close()
            os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and not isinstance(error, RecordFileError):
            raise _failed(path, error) from error
        raise
    try:
        _sync_folder(target.parent)
    except OSError as error:
        raise RecordFileError(
            error.errno,
            f"{os.fspath(path)} is saved, but whether its name is on the disk is unknown: {error.strerror or error}",
        ) from error


def _failed(path: str | os.PathLike[str], error: OSError) -> RecordFileError:
    return RecordFileError(
        error.errno,
        f"cannot save {os.fspath(path)}: {error.strerror or error}; what was there before is as it was",
    )


def _opened(target: Path) -> tuple[Path, FileIO]:
    """A new file beside the target, locked: nobody takes it for a leftover."""
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        number = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if _locked(number) and not os.fstat(number).st_nlink:  # somebody was faster, and took it for one
            os.close(number)
            continue
        with suppress(OSError):
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        return temporary, FileIO(number, "r+")


def _locked(number: int, wait: bool = True) -> bool:
    """Lock an open file for this process; False where it cannot be, or, without waiting, is locked already."""
    if locks is None:
        return False
    try:
        locks.flock(number, locks.LOCK_EX | (0 if wait else locks.LOCK_NB))
    except OSError:
        return False
    return True


def _remove_leftovers(target: Path) -> None:
    """Remove what killed processes left behind of this file: what nobody has locked."""
    if locks is None:
        return
    pattern = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{8}\.tmp")
    with os.scandir(target.parent) as entries:
        found = [entry for entry in entries if pattern.fullmatch(entry.name)]
    for entry in found:
        with suppress(OSError):
            number = os.open(entry.path, os.O_RDWR)
            try:
                if _locked(number, wait=False):
                    os.unlink(entry.path)
            finally:
                os.close(number)


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk."""
    if os.name == "nt":  # a folder cannot be opened there
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
