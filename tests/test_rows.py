"""A table of cases as one test: `tests/rows.py`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from tests.rows import every_row

SEEN: list[Any] = []


@every_row("power", [1, 2])
@every_row(("base", "result"), [(2, (2, 4)), (3, (3, 9))])
def test_all_rows_run(base: int, result: tuple[int, int], power: int, tmp_path: Path) -> None:
    assert base**power == result[power - 1]
    SEEN.append((base, power, tmp_path))


def test_they_ran_in_order_with_the_fixtures_of_one_test() -> None:
    SEEN.clear()
    test_all_rows_run(tmp_path="a folder")
    assert SEEN == [(2, 1, "a folder"), (3, 1, "a folder"), (2, 2, "a folder"), (3, 2, "a folder")]
    assert list(inspect.signature(test_all_rows_run).parameters) == ["tmp_path"]


@pytest.mark.parametrize(
    ("ids", "named"),
    [(None, "0, len; 0.5, f3"), ("abcd", "b; d")],
)
def test_rows_that_fail_are_named(ids: Any, named: str) -> None:
    @every_row("x, f", [(1, len), (0, len), ("one", lambda: 0), (0.5, lambda: 0)], ids)
    def test(x: Any, f: Any) -> None:
        assert callable(f)
        assert x in (1, "one"), f"it is {x}"

    expected = f"2 of 4 cases failed: {named}\n"
    with pytest.raises(AssertionError) as caught:
        test()
    assert str(caught.value).startswith(expected)
    assert "it is 0.5" in str(caught.value)


def test_a_row_may_be_called_by_a_function() -> None:
    @every_row("x, y", [(1, 0), (2, 0)], ids=lambda value: f"<{value}>")
    def test(x: int, y: int) -> None:
        assert x == y + 1

    with pytest.raises(AssertionError, match="1 of 2 cases failed: <2>, <0>"):
        test()
