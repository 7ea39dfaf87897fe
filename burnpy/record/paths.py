"""Validation of the path argument of a file."""

from __future__ import annotations

import os
from typing import Any

from burnpy.backend.errors import CallError, a


def path_of(path: Any, operation: str) -> str:
    """Return a path as a string.

    Raises:
        CallError: it is not a path, or contains characters that no path can have.

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
    """The repr of a plain value; the type's name for anything else."""
    return repr(value) if value is None or isinstance(value, (bool, int, float, bytes)) else a(type(value).__name__)
