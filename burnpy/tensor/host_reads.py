"""Values that leave tensors for Python or NumPy, where no derivative follows them, shown to whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

Watch: TypeAlias = Callable[[Any, str], None]
"""``(tensor, method)``: a tensor whose values leave by a method, ``to_numpy()`` or such."""

watches: list[Watch] = []
"""Those of all threads: empty, as it nearly always is, nobody is told, and nothing is spent."""
_watch: ContextVar[Watch | None] = ContextVar("burnpy_leaving", default=None)


def told(x: Any, method: str) -> None:
    """Tell the watch of this context, the innermost, if there is one."""
    watch = _watch.get()
    if watch is not None:
        watch(x, method)


@contextmanager
def watching(watch: Watch) -> Generator[None, None, None]:
    """A block in which ``watch`` is told of values that leave."""
    token = _watch.set(watch)
    watches.append(watch)
    try:
        yield
    finally:
        watches.remove(watch)
        _watch.reset(token)
