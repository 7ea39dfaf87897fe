"""Callbacks for values that are read out of tensors into Python or NumPy, where derivatives are lost."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

Watch: TypeAlias = Callable[[Any, str], None]
"""A callback ``(tensor, method)``: the tensor that was read, and the name of the method, such as ``to_numpy()``."""

watches: list[Watch] = []
"""The active callbacks of all threads. The list is nearly always empty, and then a read costs nothing more."""
_watch: ContextVar[Watch | None] = ContextVar("burnpy_leaving", default=None)


def notify(x: Any, method: str) -> None:
    """Call the innermost callback of this context, if there is one."""
    watch = _watch.get()
    if watch is not None:
        watch(x, method)


@contextmanager
def watching(watch: Watch) -> Generator[None, None, None]:
    """A context manager that calls ``watch`` for every value that is read out of a tensor in its block."""
    token = _watch.set(watch)
    watches.append(watch)
    try:
        yield
    finally:
        watches.remove(watch)
        _watch.reset(token)
