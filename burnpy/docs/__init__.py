"""The pages of the documentation, and the Python on them: a page's blocks are one program with the output it shows."""

from __future__ import annotations

import ast
import doctest
import io
import re
import tokenize
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

BOOK = sorted(Path(__file__).with_name("book").glob("*.md"))

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page: Path) -> list[str]:
    """Return the blocks of Python of a page, which continue each other."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def program(page: Path) -> str:
    """Return the blocks of a page as one program whose lines have the numbers that they have on the page."""
    code = ""
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        code += "\n" * (text.count("\n", 0, block.start(1)) - code.count("\n")) + block[1]
    return code


def comments_of(code: str) -> dict[int, tuple[str, bool]]:
    """Return the comments of a program by line, each with whether it is alone on its line."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    found = [token for token in tokens if token.type == tokenize.COMMENT]
    return {t.start[0]: (t.string.removeprefix("#").removeprefix(" "), not t.line[: t.start[1]].strip()) for t in found}


def run(page: Path) -> tuple[dict[str, Any], list[str]]:
    """Run a page; return its names, and what its statements print where the comments behind or below them differ."""
    code = program(page)
    comments = comments_of(code)
    names: dict[str, Any] = {}
    wrong = []
    for statement in ast.parse(code).body:
        output = io.StringIO()
        with redirect_stdout(output):
            exec(compile(ast.Module([statement], []), str(page), "exec", dont_inherit=True), names)
        line = statement.end_lineno or 0
        said = "".join(f"{text}\n" for text in shown(comments, line))
        got = output.getvalue()
        if got and not doctest.OutputChecker().check_output(said, got, OPTIONS):
            wrong.append(f"{page.name}:{line} prints\n{got}and the page shows\n{said}")
    return names, wrong


def shown(comments: dict[int, tuple[str, bool]], line: int) -> Iterator[str]:
    """Yield the comment at the end of a line, or those alone on the lines below it."""
    if line in comments:
        yield comments[line][0]
    while comments.get(line + 1, ("", False))[1]:
        line += 1
        yield comments[line][0]


def pictures(page: Path) -> list[tuple[Path, str]]:
    """Return the pictures that a page shows, and the names to which its code has assigned their text, as SVG."""
    shown = re.findall(r"!\[[^\]]*\]\((pictures/(\w+)\.svg)\)", page.read_text(encoding="utf-8"))
    return [(page.parent / file, name) for file, name in shown]


def picture(page: Path, name: str) -> str:
    """Return the text of a picture, which the page's code assigns to a name."""
    return f"{run(page)[0][name]}\n"
