"""Accepted code runs, and rejected code raises a clear TypeError. ``tests.typing.checkers`` runs the type checkers."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from burnpy.backend.errors import BurnpyError
from tests.rows import every_row
from tests.typing.checkers import ACCEPTED, REJECTED, ROOT, errors_in, marked, not_as_marked


def test_output_of_checkers_is_compared_with_the_marked_lines() -> None:
    mypy = "burnpy/a.py:3: error: Bad  [misc]\nburnpy/a.py:3: note: Why\nout/page.py:7: error: Worse  [arg-type]\n"
    found = errors_in("mypy", mypy)
    a, page = ROOT / "burnpy" / "a.py", ROOT / "out" / "page.py"
    assert not_as_marked("mypy", found, {(a, 3), (page, 7)}) == []
    assert not_as_marked("mypy", found, {(a, 3), (page, 8)}) == [
        "out/page.py:7: error: Worse  [arg-type]",
        f"{page}:8: mypy does not reject this",
    ]
    place = {"file": str(page), "range": {"start": {"line": 6}}, "message": "Bad"}
    pyright = [{**place, "severity": severity} for severity in ("error", "information")]
    assert errors_in("pyright", json.dumps({"generalDiagnostics": pyright})) == [(page, 7, f"{page}:7: Bad")]


def test_many_lines_are_marked() -> None:
    assert len(marked(REJECTED)) >= 130


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.slow
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
    message = re.sub(r"\. Did you mean '\w+'\?$", "", str(caught.value))  # which Python adds from 3.13 on
    assert "\n" not in message
    assert ". " not in message, "one sentence"
