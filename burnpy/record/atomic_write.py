"""Writing a file so that under its name there is, at any moment, the old one or the new one, whole."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from burnpy.backend.errors import RecordFileError, RecordNotFoundError
from burnpy.record.foreign_errors import ignoring_failures, is_anothers

locks: Any = None
"""The module `fcntl`; None on Windows, where leftovers stay."""
with suppress(ImportError):
    import fcntl as locks


def replace(path: str, write: Callable[[FileIO], None]) -> None:
    """Put a file that ``write`` writes in the place of the one at ``path``, or nothing at all where that fails.

    It is written beside the old one under another name, brought to the disk, and renamed. A process that is killed
    leaves that name behind; whoever writes the same file next removes it. A link stays a link; permissions stay.

    An exception, Ctrl-C's too, may fall anywhere: the name is known before there is a file of that name, and what
    follows is in one ``try`` of one frame. A context manager could not say that: between its end and the beginning of
    the ``with`` is nobody.

    Raises:
        RecordNotFoundError: the folder is not there.
        RecordFileError: it cannot be written: no permission, a full disk. The old file is as it was.
    """
    target = Path(os.path.realpath(path))
    saved = False
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        _remove_leftovers(target)
        while not saved:
            temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
            try:
                saved = _saved(temporary, target, write)
            except BaseException as error:
                if not isinstance(error, FileExistsError):  # that one is somebody else's
                    with ignoring_failures():
                        temporary.unlink()
                raise
        _sync_folder(target.parent)
    except OSError as error:
        if is_anothers(error):
            raise
        if isinstance(error, FileNotFoundError) and not target.parent.is_dir():
            raise RecordNotFoundError(
                error.errno, f"cannot save {target}: there is no folder {target.parent}; make it first"
            ) from error
        reason = error.strerror or error
        if saved:
            message = f"{path} is saved, but whether its name is on the disk is unknown: {reason}"
        else:
            message = f"cannot save {path}: {reason}; what was there before is as it was"
        raise RecordFileError(error.errno, message) from error


def _saved(temporary: Path, target: Path, write: Callable[[FileIO], None]) -> bool:
    """Write a new file and rename it; False where somebody took it for a leftover before it was locked."""
    with FileIO(temporary, "x+") as file:
        if _locked(file) and not os.fstat(file.fileno()).st_nlink:
            return False
        with ignoring_failures():
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        write(file)
        os.fsync(file.fileno())
        if locks is None:  # Windows renames no open file
            file.close()
        os.replace(temporary, target)
    return True


def _locked(file: FileIO, wait: bool = True) -> bool:
    """Lock an open file for this process; False where it cannot be, or, without waiting, is locked already."""
    if locks is None:
        return False
    with ignoring_failures():
        locks.flock(file.fileno(), locks.LOCK_EX | (0 if wait else locks.LOCK_NB))
        return True
    return False


def _remove_leftovers(target: Path) -> None:
    """Remove what killed processes left behind of this file: what nobody has locked."""
    if locks is None:
        return
    pattern = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{8}\.tmp")
    with os.scandir(target.parent) as entries:
        found = [entry for entry in entries if pattern.fullmatch(entry.name)]
    for entry in found:
        with ignoring_failures(), FileIO(entry.path, "r+") as file:
            if _locked(file, wait=False):
                os.unlink(entry.path)


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk."""
    if os.name == "nt":  # a folder cannot be opened there
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
