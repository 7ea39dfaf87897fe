"""Files by path, or by a URL such as ``s3://bucket/run.safetensors``, which the package fsspec reads and writes.

Files are replaced atomically: at any moment the path names either the complete old file or the complete new one.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from burnpy.backend.errors import (
    ArgumentError,
    CallError,
    MissingPackageError,
    RecordFileError,
    RecordNotFoundError,
    a,
    path_shown,
    raised_by_other_code,
)
from burnpy.backend.lazy import needed

_URL = re.compile(r"([a-z][\w+.-]+::)*[a-z][\w+.-]+://", re.IGNORECASE)  # a scheme of one letter is a drive of Windows


def is_url(path: str) -> bool:
    """Return whether a path is a URL.

    >>> is_url("s3://bucket/run.safetensors"), is_url("simplecache::s3://bucket/x"), is_url("runs/a"), is_url("C://a")
    (True, True, False, False)
    """
    return _URL.match(path) is not None


def refuse_url(path: str | os.PathLike[str], owner: str) -> None:
    """Check that a path is a local one."""
    if is_url(os.fspath(path)):
        raise ArgumentError(f"{owner} writes to the local disk, and got {path_shown(path)}")


def inside(folder: str, name: str) -> str:
    """Return the path of a file in a folder.

    >>> inside("s3://bucket/run", "a.csv"), inside("zip://run::s3://bucket/all.zip", "a.csv")
    ('s3://bucket/run/a.csv', 'zip://run/a.csv::s3://bucket/all.zip')
    """
    if not is_url(folder):
        return os.path.join(folder, name)
    place, rest = _divided(folder)
    return f"{place.rstrip('/')}/{name}{rest}"


def beside(path: str, name: str) -> str:
    """Return the path of another file in the folder of a file.

    >>> beside("zip://run/index.json::s3://bucket/all.zip", "a.csv")
    'zip://run/a.csv::s3://bucket/all.zip'
    """
    if not is_url(path):
        return os.path.join(os.path.dirname(path), name)
    place, rest = _divided(path)
    return f"{place.rpartition('/')[0]}/{name}{rest}"


def _divided(url: str) -> tuple[str, str]:
    """Divide a URL after the path of the file: what follows is the archive that the file is in."""
    place, chain, rest = url.partition("::")
    return (place, f"{chain}{rest}") if "://" in place else (url, "")  # as in simplecache::s3://bucket/run


def opened(path: str) -> IO[bytes]:
    """Open a file to read bytes. A URL is not copied first, but read as far as it is needed."""
    if not is_url(path):
        return open(path, "rb")
    with _storage(path) as (system, place):
        file: IO[bytes] = system.open(place, "rb")
        return file


@contextmanager
def local_copy(path: str) -> Generator[str, None, None]:
    """Return the path of a local file with the contents: of a URL a temporary copy, else the file itself."""
    if not is_url(path):
        yield path
        return
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        with _storage(path) as (system, place):
            copy = os.path.join(folder, place.rpartition("/")[2] or "copy")  # the suffix may name a compression
            system.get_file(place, copy)
        yield copy


def upload(url: str, write: Callable[[FileIO], None]) -> None:
    """Write a temporary file by ``write``, and upload it."""
    with TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy")
        with FileIO(copy, "x") as file:
            write(file)
        with _storage(url) as (system, place):
            system.put_file(copy, place)


def is_file(path: str) -> bool:
    """Return whether there is such a file; errors as `opened`."""
    if not is_url(path):
        return os.path.isfile(path)
    with _storage(path) as (system, place):
        return bool(system.isfile(place))


def is_folder(path: str) -> bool:
    """Return whether there is such a folder; errors as `opened`."""
    if not is_url(path):
        return os.path.isdir(path)
    with _storage(path) as (system, place):
        return bool(system.isdir(place))


def names_in(folder: str) -> list[str]:
    """Return the sorted names of the files and folders in a folder; errors as `opened`."""
    if not is_url(folder):
        return sorted(os.listdir(folder))
    with _storage(folder) as (system, place):
        return sorted(name.rstrip("/").rpartition("/")[2] for name in system.ls(place, detail=False))


def files_below(folder: str) -> list[str]:
    """Return the paths of all files in a folder and in those below; errors as `opened`."""
    if not is_url(folder):
        return [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    with _storage(folder) as (system, place):
        start = len(place.rstrip("/")) + 1
        return [inside(folder, name[start:]) for name in system.find(place)]


def make_folder(path: str) -> None:
    """Make a folder, and those above it, unless they exist."""
    if is_url(path):
        with _storage(path) as (system, place):
            system.makedirs(place, exist_ok=True)
        return
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        if raised_by_other_code(error):
            raise
        raise RecordFileError(error.errno, f"cannot make the folder {path_shown(path)}: {error.strerror}") from error


@contextmanager
def _storage(url: str) -> Generator[tuple[Any, str], None, None]:
    """Return the file system of a URL, and the path in it; whatever it raises becomes an error of burnpy."""
    core = needed("fsspec.core", path_shown(url), "fsspec", "remote")
    try:
        yield core.url_to_fs(url)
    except ImportError as error:  # the message names the package
        raise MissingPackageError(f"{path_shown(url)} cannot be reached: {error}") from error
    except FileNotFoundError as error:
        raise RecordNotFoundError(errno.ENOENT, f"there is no file {path_shown(url)}") from error
    except Exception as error:  # each storage has its own
        number = error.errno if isinstance(error, OSError) else None
        reason = str(error) or type(error).__name__
        raise RecordFileError(number or errno.EIO, f"{path_shown(url)} cannot be reached: {reason}") from error


def path_of(path: Any, operation: str) -> str:
    """Return a path as a string.

    >>> path_of(3, "load()")
    Traceback (most recent call last):
    burnpy.backend.errors.CallError: load() takes a path, a string or a pathlib.Path, got 3
    """
    text: object = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise CallError(f"{operation} takes a path, a string or a pathlib.Path, got {shown(path)}")
    try:
        nul = b"\0" in os.fsencode(text)
    except UnicodeEncodeError:  # a lone surrogate
        nul = True
    if nul:
        raise CallError(f"{operation} got the path {text!r:.80}, which no file can have; mend the name")
    return text


def shown(value: object) -> str:
    """Return the repr of a plain value; the type's name for anything else."""
    return repr(value) if value is None or isinstance(value, (bool, int, float, bytes)) else a(type(value).__name__)


locks: Any = None
"""The module `fcntl`; None on Windows, where leftover temporary files are not removed."""
with suppress(ImportError):
    import fcntl as locks


class ignoring_os_errors:  # noqa: N801  # lower case, like contextlib.suppress, which it replaces
    """A context manager that suppresses an OSError of the system, but not one raised by the handler of a signal."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, OSError) and not raised_by_other_code(error)


def replace(path: str, write: Callable[[FileIO], None]) -> None:
    """Replace a file by one that ``write`` writes: a local file atomically, a URL by one upload of the whole file.

    Raises:
        RecordNotFoundError: the folder does not exist.
        RecordFileError: the file cannot be written: no permission, a full disk. A local old file is unchanged.
        MissingPackageError: the URL needs a package that is not installed.
    """
    if not is_url(path):
        _replace_local(path, write)
        return
    try:
        upload(path, write)
    except OSError as error:
        if isinstance(error, RecordFileError) or raised_by_other_code(error):
            raise
        raise RecordFileError(error.errno, f"cannot save {path_shown(path)}: {error.strerror or error}") from error


def _replace_local(path: str, write: Callable[[FileIO], None]) -> None:
    """Replace a local file atomically with one that ``write`` writes; on failure the old file is unchanged.

    The new content goes to a temporary file in the same folder, which is synced to disk and renamed. A killed process
    leaves its temporary file behind; the next write to the same path removes it. A symbolic link stays a link, and
    permissions are preserved.

    An exception, KeyboardInterrupt included, may occur at any point: the temporary name is chosen before the file
    exists, and everything after that is in one ``try`` of one frame. A context manager could not guarantee that: an
    exception between the return of its ``__enter__`` and the start of the ``with`` block is handled by neither.
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
            except BaseException as error:  # Ctrl-C too: no temporary file is left behind
                if not isinstance(error, FileExistsError):  # else the file belongs to another process
                    with ignoring_os_errors():
                        temporary.unlink()
                raise
        _sync_folder(target.parent)
    except OSError as error:
        if raised_by_other_code(error):
            raise
        if isinstance(error, FileNotFoundError) and not target.parent.is_dir():
            raise RecordNotFoundError(
                error.errno,
                f"cannot save {path_shown(target)}: there is no folder {path_shown(target.parent)}; make it first",
            ) from error
        reason = error.strerror or error
        if saved:
            message = f"{path_shown(path)} is saved, but whether its name is on the disk is unknown: {reason}"
        else:
            message = f"cannot save {path_shown(path)}: {reason}; what was there before is as it was"
        raise RecordFileError(error.errno, message) from error


def _saved(temporary: Path, target: Path, write: Callable[[FileIO], None]) -> bool:
    """Write a temporary file and rename it; False if another process removed it as a leftover before it was locked."""
    with FileIO(temporary, "x+") as file:
        if _locked(file) and not os.fstat(file.fileno()).st_nlink:
            return False
        with ignoring_os_errors():
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        write(file)
        os.fsync(file.fileno())
        if locks is None:  # Windows cannot rename an open file
            file.close()
        os.replace(temporary, target)
    return True


def _locked(file: FileIO, wait: bool = True) -> bool:
    """Lock an open file for this process; False if locking fails or, with ``wait=False``, if it is already locked."""
    if locks is None:
        return False
    with ignoring_os_errors():
        locks.flock(file.fileno(), locks.LOCK_EX | (0 if wait else locks.LOCK_NB))
        return True
    return False


def _remove_leftovers(target: Path) -> None:
    """Remove the temporary files that killed processes left beside ``target``: those that no process has locked."""
    if locks is None:
        return
    pattern = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{8}\.tmp")
    with os.scandir(target.parent) as entries:
        leftovers = [entry for entry in entries if pattern.fullmatch(entry.name)]
    for entry in leftovers:
        with ignoring_os_errors(), FileIO(entry.path, "r+") as file:
            if _locked(file, wait=False):
                os.unlink(entry.path)


def _sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that a rename in it survives a crash."""
    if os.name == "nt":  # Windows cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
