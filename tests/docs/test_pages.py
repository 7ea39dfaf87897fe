"""The pages of the documentation: generated ones are up to date, and the code in them runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from burnpy.docs import reference

PAGES = sorted(reference.PAGE.parent.glob("*.md"))


def test_the_operations_page_is_what_the_schema_makes() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), (
        "burnpy/docs/operations.md is out of date: run python -m burnpy.docs.reference"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_on_the_pages_runs(page: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    exec(compile(code, str(page), "exec"), {})
