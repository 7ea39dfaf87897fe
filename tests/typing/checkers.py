"""Runs a type checker on the project, and on the programs of the pages, where it must reject the marked lines.

    python -m tests.typing.checkers mypy

One run sees everything, as most of its time goes into reading burnpy and NumPy. Prints each error that is not in a
marked line, and each marked line without an error. pyright is basedpyright.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from burnpy import docs

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOCS = ROOT / "burnpy" / "docs"
PAGES = [ROOT / "README.md", *sorted({*DOCS.glob("*.md"), *DOCS.glob("book/*.md")} - {DOCS / "array_api.md"})]
"""The pages whose programs are checked; array_api.md imports packages that are heavy to install."""
ACCEPTED = tuple(sorted(HERE.glob("*accepted.py")))
REJECTED = tuple(sorted(HERE.glob("*rejected.py")))
WRITTEN = ROOT / "out" / "typing"
"""The folder for the programs of the pages."""
REFUSED_LINES = (DOCS / "book" / "backends.md").read_text(encoding="utf-8").partition("| line | why |")[2]
MISTAKES = {
    "README.md": ["v.sum().backward()", "error(model, held_out)"],
    "backends.md": re.findall(r"^\| `(.+?)` \|", REFUSED_LINES.partition("\n\n")[0], re.MULTILINE),
}
"""The lines that checkers reject, according to the end of a page."""
TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
MYPY = ["mypy", "--no-error-summary", "--hide-error-context", *TOOLS["mypy"]["files"]]
PYRIGHT = ["basedpyright", "--pythonpath", sys.executable, "--outputjson", *TOOLS["pyright"]["include"]]
COMMANDS = {
    "mypy": [sys.executable, "-m", *MYPY],
    "pyright": [sys.executable, "-m", *PYRIGHT],
}
ERROR = re.compile(r"^(\S+?):(\d+): error: .*$", re.MULTILINE)
Error: TypeAlias = tuple[Path, int, str]
"""The file, the line, and the text that names both."""


def output_of(checker: str, paths: Iterable[Path]) -> str:
    """Return the output of a checker on the project and on some more files."""
    # For pyright: helper threads that collect garbage early cost more processor time than they save.
    environment = {**os.environ, "NODE_OPTIONS": "--v8-pool-size=0 --max-semi-space-size=64"}
    command = [*COMMANDS[checker], *map(str, paths)]
    return subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False).stdout


def errors_in(checker: str, output: str) -> list[Error]:
    """Return the errors in the output of a checker."""
    if checker != "pyright":
        return [(ROOT / m[1], int(m[2]), m[0]) for m in ERROR.finditer(output)]
    errors = [d for d in json.loads(output)["generalDiagnostics"] if d["severity"] != "information"]
    places = [(d["file"], d["range"]["start"]["line"] + 1, d["message"]) for d in errors]
    return [(Path(file), line, f"{file}:{line}: {message}") for file, line, message in places]


def marked(paths: Iterable[Path]) -> set[tuple[Path, int]]:
    """Return the lines that checkers are to reject."""
    lines = [(path, enumerate(path.read_text(encoding="utf-8").splitlines(), 1)) for path in paths]
    return {(path, number) for path, numbered in lines for number, line in numbered if line.endswith("  # E")}


def pages() -> list[Path]:
    """Write the program of each page to a file, with its line numbers, and what the page says that checkers reject."""
    WRITTEN.mkdir(parents=True, exist_ok=True)
    paths = []
    for page in PAGES:
        mistakes = "".join(f"_ = {mistake}  # E\n" for mistake in MISTAKES.get(page.name, ()))
        paths.append(WRITTEN / f"{page.stem}.py")
        text = f"# pyright: standard{docs.program(page)}{mistakes}"  # strict mode wants types of lambdas' arguments
        if not paths[-1].exists() or paths[-1].read_text(encoding="utf-8") != text:
            paths[-1].write_text(text, encoding="utf-8")
    return paths


def not_as_marked(checker: str, found: Sequence[Error], wanted: set[tuple[Path, int]]) -> list[str]:
    """Return the errors in lines that are not marked, and the marked lines without an error."""
    missing = sorted(wanted - {(file, line) for file, line, _ in found})
    wrong = [text for file, line, text in found if (file, line) not in wanted]
    return [*wrong, *(f"{file}:{line}: {checker} does not reject this" for file, line in missing)]


def main(checker: str) -> int:
    """Print the lines that a checker wrongly rejects or does not reject; 1 if there are any."""
    paths = (*REJECTED, *pages())
    output = output_of(checker, paths)
    lines = not_as_marked(checker, errors_in(checker, output), marked(paths))
    print("\n".join(lines or [f"{checker}: as expected"]))
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
