"""Telling OpenBLAS, which multiplies NumPy's matrices in most installations, how many threads to use."""

from __future__ import annotations

import ctypes
import os
from _thread import allocate_lock
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np

_NAMES = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")


class Threads(NamedTuple):
    """OpenBLAS's functions that say, and set, how many threads it uses."""

    get: Any
    set: Any


@cache
def openblas() -> Threads | None:
    """Those of the OpenBLAS that NumPy uses; None where it is another library, or its functions are out of reach."""
    try:
        library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    except (AttributeError, OSError, TypeError):
        return None
    for name in _NAMES:
        try:
            return Threads(library[name.format("get_num_threads")], library[name.format("set_num_threads")])
        except AttributeError:
            continue
    return None


_lock = allocate_lock()
_within: list[int] = []
"""How many threads there were before, for each that is within `one_thread`."""


def _forget() -> None:
    """In a forked child, in which those that were within `one_thread` are not."""
    global _lock
    _lock = allocate_lock()
    threads = openblas() if _within else None
    if threads is not None:
        threads.set(_within[0])
    _within.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def one_thread() -> Generator[None]:
    """OpenBLAS, where it is, uses one thread for each product, in the whole process, until all have left this."""
    threads = openblas()
    if threads is None:
        yield
        return
    with _lock:
        _within.append(_within[0] if _within else threads.get())
        threads.set(1)
    try:
        yield
    finally:
        with _lock:
            before = _within.pop()
            if not _within:
                threads.set(before)
