"""Files by path, or by a URL such as ``s3://bucket/run.safetensors``, which the package fsspec reads and writes."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import FileIO
from tempfile import TemporaryDirectory
from typing import IO, Any

from burnpy.backend.errors import (
    ArgumentError,
    MissingPackageError,
    RecordFileError,
    RecordNotFoundError,
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
