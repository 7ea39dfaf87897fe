"""The page "An evening's reading" names files that exist, say what they are for, and take an evening."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "burnpy" / "docs" / "reading.md"
FILES = [ROOT / name for name in re.findall(r"^\| \d+ \| `(\S+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)]


def test_the_files_are_read_in_an_evening() -> None:
    assert len(FILES) == 13
    lines = {path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert sum(lines.values()) <= 3000, lines
    assert all(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for path in FILES)
