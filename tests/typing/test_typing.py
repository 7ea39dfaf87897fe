"""mypy and pyright accept and reject what they must, line by line, and the rejected raises a clear TypeError.

One run of a checker sees the modules of this folder and the programs of README.md and of the book, as most of its time
goes into reading burnpy and NumPy. A second run on the same files is quick: mypy has its cache, and pyright's answer is
kept in ``out``. pyright, which has no cache, sees all pages in the long form, else those that say what checkers reject.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from burnpy.backend.errors import BurnpyError
from burnpy.docs import programs
from tests.interrupting import LONG
from tests.rows import every_row

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOCS = ROOT / "burnpy" / "docs"
PAGES = [ROOT / "README.md", *sorted({*DOCS.glob("*.md"), *DOCS.glob("book/*.md")} - {DOCS / "array_api.md"})]
"""The pages whose programs are checked; array_api.md imports packages that are heavy to install."""
ACCEPTED = tuple(sorted(HERE.glob("*accepted.py")))
REJECTED = tuple(sorted(HERE.glob("*rejected.py")))
ENVIRONMENT = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
"""In which the checkers stand that were installed beside this interpreter."""
KEPT = ROOT / "out" / "typing"
"""The folder that keeps the programs of the pages and pyright's answer from one run to the next."""
NODE = {**os.environ, "NODE_OPTIONS": "--v8-pool-size=0 --max-semi-space-size=64"}
"""For pyright: helper threads that collect garbage early cost more processor time than they save."""

REFUSED_LINES = (DOCS / "book" / "backends.md").read_text(encoding="utf-8").partition("| line | why |")[2]
MISTAKES = {
    "README.md": ["x.inner().sum().backward()", "error(model, held_out)"],
    "backends.md": re.findall(r"^\| `(.+?)` \|", REFUSED_LINES.partition("\n\n")[0], re.MULTILINE),
}
"""The lines that checkers reject, according to the end of a page."""
SAYING = [page for page in PAGES if page.name in MISTAKES]


def mypy_lines(*paths: Path) -> set[tuple[str, int]]:
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    found = re.findall(r"^(\S+?):(\d+): error: ", done.stdout, re.MULTILINE)
    return {(Path(name).name, int(line)) for name, line in found}


def pyright_lines(*paths: Path) -> set[tuple[str, int]]:
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", *map(str, paths)]

    def run() -> list[tuple[str, int]]:
        done = subprocess.run(command, cwd=ROOT, env=NODE, capture_output=True, text=True, check=False)
        report = [d for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"]
        return [(Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in report]

    sources = [path for name in ("burnpy", "backends") for path in (ROOT / name).rglob("*.py*") if path.is_file()]
    key = digest(command, [ROOT / "pyproject.toml", *paths, *(path for path in sources if path.suffix != ".pyc")])
    return remembered(KEPT / "pyright.json", key, run)


def digest(command: list[str], paths: Iterable[Path]) -> str:
    """Return a hash of the inputs of an answer: the command, the files and the versions of all packages."""
    installed = sorted(path.name for folder in sys.path for path in Path(folder).glob("*.dist-info"))
    found = hashlib.sha256(repr((sys.version, command, installed)).encode())
    for path in sorted(paths):
        found.update(f"{path}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def remembered(path: Path, key: str, run: Callable[[], Iterable[tuple[str, int]]]) -> set[tuple[str, int]]:
    """Return the lines that a file keeps under a key; where it keeps none, run the checker and keep what it finds."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if kept.get("key") != key:
        kept = {"key": key, "lines": sorted(run())}
        write(path, json.dumps(kept))
    return {(name, line) for name, line in kept["lines"]}


def write(path: Path, text: str) -> None:
    """Write a file as a whole, which another process may be reading; leave it alone where it says the same."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(text, encoding="utf-8")
        new.replace(path)


def ty_lines(*paths: Path) -> set[tuple[str, int]]:
    command = ["ty", "check", "--output-format", "concise", "--python", sys.executable, *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    return {(Path(name).name, int(line)) for name, line in re.findall(r"^(\S+?):(\d+):\d+: error", done.stdout, re.M)}


def pyrefly_lines(*paths: Path) -> set[tuple[str, int]]:
    command = ["pyrefly", "check", "--output-format", "json", "--python-interpreter-path", sys.executable]
    done = subprocess.run(
        [*command, *map(str, paths)], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)["errors"]
    return {(Path(d["path"]).name, d["line"]) for d in report if d["severity"] == "error"}


def marked(checker: str, *paths: Path) -> set[tuple[str, int]]:
    """The lines that a checker is to reject."""
    found = set()
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            mark = re.search(r"  # E(?:, not ([\w, ]+))?$", line)
            if mark and checker not in (mark[1] or "").split(", "):
                found.add((path.name, number))
    return found


def pages(chosen: Iterable[Path]) -> list[Path]:
    """Write the program of each page to a file, with its line numbers, and what the page says that checkers reject."""
    paths = []
    for page in chosen:
        code = programs.program(page)
        mistakes = "".join(f"_ = {mistake}  # E\n" for mistake in MISTAKES.get(page.name, ()))
        paths.append(KEPT / f"{page.stem}.py")
        write(paths[-1], f"# pyright: standard{code}{mistakes}")  # strict mode wants types for the arguments of lambdas
    return paths


CHECKERS = {"mypy": mypy_lines, "pyright": pyright_lines, "ty": ty_lines, "pyrefly": pyrefly_lines}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_checkers_reject_the_marked_lines_and_no_others(checker: str) -> None:
    """mypy and pyright always; ty and pyrefly, which have not settled yet, on what is rejected, where installed."""
    paths = REJECTED
    if checker not in ("ty", "pyrefly"):
        paths = (*ACCEPTED, *REJECTED, *pages(PAGES if checker == "mypy" or LONG else SAYING))
    elif shutil.which(checker, path=ENVIRONMENT["PATH"]) is None:
        pytest.skip(f"{checker} is not installed")
    found, wanted = CHECKERS[checker](*paths), marked(checker, *paths)
    assert found == wanted, f"not rejected: {sorted(wanted - found)}; wrongly rejected: {sorted(found - wanted)}"


def test_an_answer_is_kept_until_something_changes(tmp_path: Path) -> None:
    source, kept, runs = tmp_path / "a.py", tmp_path / "out" / "kept.json", []

    def answer(option: str = "") -> set[tuple[str, int]]:
        def run() -> list[tuple[str, int]]:
            runs.append(source.read_text())
            return [("a.py", len(runs))]

        return remembered(kept, digest(["checker", option], [source]), run)

    source.write_text("1")
    assert answer() == answer() == {("a.py", 1)}
    source.write_text("2")
    assert answer() == answer() == {("a.py", 2)}
    assert answer("--strict") == answer("--strict") == {("a.py", 3)}
    assert runs == ["1", "2", "2"]


def test_mypy_and_pyright_see_every_marked_line() -> None:
    assert marked("mypy", *REJECTED) == marked("pyright", *REJECTED) == marked("no checker", *REJECTED)
    assert len(marked("mypy", *REJECTED)) >= 130


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_accepted_code_runs(path: Path) -> None:
    module(path)


def mistakes() -> dict[str, tuple[Any, str]]:
    """Every mistake with words of its error: the functions of the modules, and the rows of their tables."""
    found: dict[str, tuple[Any, str]] = {}
    for path in REJECTED:
        names = vars(module(path))
        functions = [f for f in names.values() if isinstance(f, FunctionType) and f.__module__ == path.stem]
        for f in functions:
            if not f.__code__.co_argcount:  # others are what mistakes are made with
                found[f"{path.stem}-{f.__name__}"] = (f, (f.__doc__ or "").strip())
        for row, (words, f) in enumerate(names.get("MISTAKES", [])):
            found[f"{path.stem}-{row}-{words}"] = (f, words)
    return found


REFUSED = mistakes()


@every_row(("mistake", "words"), REFUSED.values(), ids=REFUSED)
def test_rejected_code_raises_a_type_error_that_says_what_to_do(mistake: Callable[[], object], words: str) -> None:
    with pytest.raises((TypeError, BurnpyError), match=re.escape(words)) as caught:
        mistake()
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(". ") == 0, "one sentence"
