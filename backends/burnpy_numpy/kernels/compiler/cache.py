"""Compiled kernels on disk, in a folder that belongs to the user alone.

An entry is trusted if it and its folder are the user's, nobody else may write to them, and its checksum is right.
Anything else is rebuilt and never executed. The folder is ``BURNPY_CACHE_DIR``, or the operating system's folder for
caches.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path

_MAGIC = b"burnpy kernel 1\n"
_LARGEST = 1 << 26


def folder() -> Path | None:
    """Return the folder, which is made if it is missing; None if it cannot be made or is not the user's own."""
    path = _place()
    if not path.is_absolute():  # there is no home folder
        return None
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path if _is_own(os.lstat(path), stat.S_ISDIR) else None
    except OSError:
        return None


def _place() -> Path:
    """Return the path of the folder."""
    given = os.environ.get("BURNPY_CACHE_DIR")
    if given:
        return Path(given).absolute()
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return Path(base) / "burnpy" / "kernels"


def _is_own(status: os.stat_result, is_kind: object) -> bool:
    """Return whether a file or folder is of a kind, belongs to the user, and is writable by nobody else."""
    assert callable(is_kind)
    if not is_kind(status.st_mode):
        return False
    if not hasattr(os, "getuid"):  # Windows: the user's profile folder has its own access list
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def read(key: str) -> bytes | None:
    """Return the code of an entry; None if there is none that can be trusted."""
    place = folder()
    if place is None:
        return None
    try:
        descriptor = os.open(place / key, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    except OSError:
        return None
    try:
        if not _is_own(os.fstat(descriptor), stat.S_ISREG):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:  # which refuses a folder
            content = file.read(_LARGEST)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    head, code = content[: len(_MAGIC) + 64], content[len(_MAGIC) + 64 :]
    return code if head == _head(key, code) else None


def write(key: str, code: bytes) -> None:
    """Write an entry, in place of one of the same name. Failing to write is no error: the code is compiled again.

    The file is complete when it gets its name. It is not synced to the disk, as its checksum shows what a crash left.
    """
    place = folder()
    if place is None:
        return
    temporary = place / f".{key}.{secrets.token_hex(4)}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_head(key, code) + code)
        with suppress(OSError):
            os.rmdir(place / key)  # an empty folder, which a file cannot replace
        os.replace(temporary, place / key)
    except OSError:
        with suppress(OSError):
            temporary.unlink()


def _head(key: str, code: bytes) -> bytes:
    """Return what stands before the code: a name of the format, and a checksum of key and code."""
    return _MAGIC + hashlib.sha256(key.encode() + code).hexdigest().encode()
