"""Telling OpenBLAS, which multiplies NumPy's matrices in most installations, how many threads to use."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

_NAMES = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")


class Threads(NamedTuple):
    """OpenBLAS's functions that say, and set, how many threads it uses. They keep the interpreter's lock."""

    get: Any
    set: Any


@cache
def openblas() -> Threads | None:
    """Those of the OpenBLAS that NumPy uses; None where it is another library, or its functions are out of reach."""
    try:
        library = ctypes.PyDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    except (AttributeError, OSError, TypeError):
        return None
    for name in _NAMES:
        try:
            return Threads(library[name.format("get_num_threads")], library[name.format("set_num_threads")])
        except AttributeError:
            continue
    return None


# No lock of ours is taken below, as handlers of signals, which raise and multiply too, may run between any two calls.
# What has no call between is done in one piece.

_within: list[ref[Any]] = []
"""Those that OpenBLAS uses one thread for."""
_usual: int | None = None
"""How many it used before; None while it uses as many as the user wants."""


def limit(owner: Any) -> None:
    """Let OpenBLAS, where it is, use one thread for each product, in the whole process: as long as one of those lives
    that this was called for, and has not called `unlimit`."""
    global _usual
    threads = openblas()
    if threads is None:
        return
    _within.append(ref(owner, _left))
    if _usual is None:
        _usual = threads.get()
    threads.set(1)


def unlimit(owner: Any) -> None:
    """Let it have its threads back, if nobody else is left. Where an exception cuts this short, it is called again."""
    _left(ref(owner))


def _left(gone: ref[Any]) -> None:
    global _usual
    threads = openblas()
    if threads is None:
        return
    for found in [*_within]:
        if found == gone or found() is None:
            with suppress(ValueError):  # another thread was faster
                _within.remove(found)
    if _usual is not None and not _within:
        threads.set(_usual)
        if not _within:
            _usual = None


class OneThread:
    """A block in which OpenBLAS uses one thread."""

    __slots__ = ("__weakref__",)

    def __enter__(self) -> None:
        try:
            limit(self)
        except BaseException:
            unlimit(self)
            raise

    def __exit__(self, *raised: object) -> None:
        try:
            unlimit(self)
        except BaseException:
            unlimit(self)
            raise


def _forget() -> None:
    """In a forked child, in which those are not who were within."""
    global _usual
    threads = openblas()
    _within.clear()
    if threads is not None and _usual is not None:
        threads.set(_usual)
        _usual = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
