"""The tables of the chapters for readers who know another library: the code in the column of burnpy runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from burnpy import docs
from burnpy.docs import generated

CHAPTERS = sorted(generated.OPERATIONS.parent.glob("book/coming_from_*.md"))
TABLE = re.compile(r"^\| \w+ \| burnpy \| \|\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)


def spans(page: Path) -> list[str]:
    """Return the pieces of code in the second column of the tables whose columns are a library and burnpy."""
    rows = [row for table in TABLE.findall(page.read_text(encoding="utf-8")) for row in table.splitlines()]
    return [span for row in rows for span in re.findall(r"`(.+?)`", re.split(r"(?<!\\)\|", row)[2])]


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.name)
def test_code_of_the_tables_runs(page: Path) -> None:
    names, _ = docs.run(page)
    codes, failed = spans(page), []
    for code in codes:
        try:
            exec(code, dict(names))
        except Exception as error:
            failed.append(f"{code}: {type(error).__name__}: {error}")
    assert len(codes) >= 15
    assert not failed, "\n".join(["", *failed])
