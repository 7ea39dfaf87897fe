"""One test for all rows of a table. ``pytest.mark.parametrize`` makes a test of each row, which costs milliseconds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeAlias

import numpy as np

from burnpy.testing.conformance import every_case

Test: TypeAlias = Callable[..., None]
Ids: TypeAlias = Iterable[object] | Callable[[Any], object] | None


def every_row(names: str | Sequence[str], table: Iterable[Any], ids: Ids = None) -> Callable[[Test], Test]:
    """Run a test once for each row; one error names all rows that failed.

    Takes what ``pytest.mark.parametrize`` takes, except marks of single rows. The rows share the test's fixtures, and
    a skip ends them all.

    Args:
        names: the arguments of the test that a row has, as "a, b" or as a sequence.
        table: the rows, or the values of a single argument.
        ids: what to call the rows in the error, or a function of each of its values; None for the values.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    each = [tuple(row) if len(arguments) > 1 else (row,) for row in table]
    if callable(ids):
        called = [", ".join(str(ids(value)) for value in row) for row in each]
    else:
        called = [label(arguments, row, n) for n, row in enumerate(each)] if ids is None else list(map(str, ids))

    def one_test(test: Test) -> Test:
        @wraps(test)
        def run(**others: Any) -> None:
            with every_case() as case:
                for name, row in zip(called, each, strict=True):
                    with case(name):
                        test(**others, **dict(zip(arguments, row, strict=True)))

        signature = inspect.signature(test)
        others = [value for name, value in signature.parameters.items() if name not in arguments]
        vars(run)["__signature__"] = signature.replace(parameters=others)
        return run

    return one_test


def label(arguments: list[str], row: tuple[Any, ...], number: int) -> str:
    """Return a row's values, with its number for those that have no short text."""
    return ", ".join(_shown(value) or f"{name}{number}" for name, value in zip(arguments, row, strict=True))


def _shown(value: Any) -> str:
    if isinstance(value, str | bytes | int | float | complex | tuple | list | np.dtype | None):
        text = str(value)
        return text if len(text) < 60 else ""
    name = getattr(value, "__name__", "")
    return "" if name == "<lambda>" else str(name)
