"""One test of many cases: every case runs, and one error names all that failed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

IN_FULL = 3
"""The number of failures whose messages are shown; the others are named."""
Case: TypeAlias = Callable[[object], AbstractContextManager[None]]
"""A function that takes a description of a case, and returns the context in which to run it."""


@contextmanager
def every_case() -> Generator[Case, None, None]:
    """Collect the failures of many cases, and raise them at the end as one `AssertionError`.

    Errors of any class and pytest's own failures count; skips and interrupts end the test as usual.

    >>> with every_case() as case:
    ...     for n in (1, 2, 3):
    ...         with case(n):
    ...             assert n != 2, "it is two"
    Traceback (most recent call last):
    AssertionError: 1 of 3 cases failed: 2
    2: it is two
    """
    import pytest

    failures: list[tuple[str, BaseException]] = []
    count = 0

    @contextmanager
    def case(description: object) -> Generator[None, None, None]:
        nonlocal count
        count += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            failures.append((str(description), error))

    yield case
    if failures:
        raise AssertionError(_summary(failures, count)) from failures[0][1]


def _summary(failures: list[tuple[str, BaseException]], count: int) -> str:
    lines = [f"{len(failures)} of {count} cases failed: {'; '.join(name for name, _ in failures)}"]
    for name, error in failures[:IN_FULL]:
        said = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        lines.append(f"{name}: {said}")
    return "\n".join(lines)
