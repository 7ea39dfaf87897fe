"""Pages, docstrings, comments and messages are plain technical English, without phrases that readers stumble over."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import burnpy

ROOT = Path(burnpy.__file__).parents[1]
PHRASES = {
    r"\b(was|were) (asked|given)\b": "write got, expected or cannot",
    r"\b(by|of) what\b": "name the thing",
    r"\bof which\b": "make two sentences, or write whose",
    r"\bthat of\b": "repeat the noun",
    r"\bof those of\b": "repeat the noun",
    r"\bas of\b": "write see, as in, as for, such as, or those of",
}
"""Patterns, and what to write instead."""
RIDDLES = re.compile(r"(What|Where|Whether|Of|That|By) ")
"""The beginnings of a docstring that do not say what the thing is or does."""
SAME_SENTENCE = "(?:[^.;:]|[.;:](?! ))*"
MANY_OF = re.compile(rf"\bof\b{SAME_SENTENCE}\bof\b{SAME_SENTENCE}\bof\b")
"""Three "of" in one sentence."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments and strings of a file with their lines; the parts of joined literals as one text."""
    source = path.read_text(encoding="utf-8")
    comment, last = "", 0  # lines of comments below each other, which may share a sentence
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            if line != last + 1:
                yield last, comment
                comment = ""
            comment, last = f"{comment} {token.string.lstrip('#')}", line
    yield last, comment
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(map(str, parts))


def sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__)]


def pages() -> list[Path]:
    folders = ("burnpy", "backends", "benchmarks", "examples", "tests")
    inner = [page for folder in folders for page in sorted((ROOT / folder).rglob("*.md"))]
    return [*sorted(ROOT.glob("*.md")), ROOT / "Makefile", *inner]


def trees(may_have: Callable[[str], object]) -> Iterator[tuple[Path, ast.Module]]:
    """Yield the syntax trees of files, chosen by their sources.

    No tree is kept: a million nodes would slow down every later ``gc.collect()`` of the process.
    """
    for path in sources("burnpy", "backends"):
        source = path.read_text(encoding="utf-8")
        if may_have(source):
            yield path, ast.parse(source)


def may_have_a_phrase(path: Path) -> bool:
    """Search the whole file as one line, where `texts` takes a hundred times as long."""
    line = re.sub(r"[\s\"'#]+f?[\"']?", " ", path.read_text(encoding="utf-8"))
    return any(re.search(phrase, line, re.IGNORECASE) for phrase in PHRASES)


@pytest.mark.slow
def test_phrases_that_readers_stumble_over_do_not_occur() -> None:
    found = []
    for path in filter(may_have_a_phrase, sources("burnpy", "backends", "tests", "benchmarks", "examples")):
        for line, text in texts(path):
            for phrase, advice in PHRASES.items():
                hit = re.search(phrase, " ".join(text.split()), re.IGNORECASE)
                if hit:
                    found.append(f"{path.relative_to(ROOT)}:{line}: {hit[0]!r}: {advice}")
    assert not found, "\n".join(["", *sorted(set(found))])


def test_pages_have_none_of_these_phrases() -> None:
    found = []
    for path in pages():
        text = path.read_text(encoding="utf-8")
        for phrase, advice in PHRASES.items():
            for hit in re.finditer(phrase.replace(" ", r"\s+"), text, re.IGNORECASE):
                line = text.count("\n", 0, hit.start()) + 1
                found.append(f"{path.relative_to(ROOT)}:{line}: {hit[0]!r}: {advice}")
    assert not found, "\n".join(["", *found])


def test_docstrings_begin_with_what_the_thing_is_or_does() -> None:
    found = []
    for path, tree in trees(re.compile(rf'"""\s*{RIDDLES.pattern}').search):
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                text = ast.get_docstring(node) or ""
                if RIDDLES.match(text):
                    found.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}")
    assert not found, "\n".join(["", *found])


@pytest.mark.slowest
def test_messages_have_at_most_two_of() -> None:
    """One sentence with three "of" is a riddle; a message names the thing instead."""
    found = []
    for path, tree in trees(lambda source: MANY_OF.search(re.sub(r'{[^{}]*}|"""[^"]*"""', "", source))):
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and node.exc is not None:
                for part in ast.walk(node.exc):
                    if isinstance(part, ast.JoinedStr):
                        text = "".join(str(v.value) for v in part.values if isinstance(v, ast.Constant))
                        found += [
                            f"{path.relative_to(ROOT)}:{part.lineno}: {sentence.strip()}"
                            for sentence in re.split(r"[.;:] ", text)
                            if len(re.findall(r"\bof\b", sentence)) > 2
                        ]
    assert not found, "\n".join(["", *found])
