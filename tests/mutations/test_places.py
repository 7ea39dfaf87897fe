"""Mutations change one place of each kind; the same places are found and picked again."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from tests.mutations.__main__ import FIRST, LATE, NOT_BY_DEFAULT, operations
from tests.mutations.faults import FAULTS
from tests.mutations.places import KINDS, WEIGHTS, Finder, Place, folder_of, picked

ROOT = Path(__file__).parents[2]

RULES = "burnpy/backend/operations/some.py"
SOURCE = '''
"""Not -1, nor True."""
TABLE = {"a": lambda i, g, out: i.neg(i.mul(g, out))}

def rule(i: Any, x: Float, keepdim: bool = False) -> Float:
    if x.dtype == "float64" and x.ndim >= 2:
        raise ShapeError(f"rule({x}) takes matrices, got {x.ndim} dims")
    return i.where(i.eq(x, x), i.sub(x, 1.5), cut)  # – counted in bytes
'''


def places(source: str = SOURCE) -> list[Place]:
    return Finder(RULES, source.encode()).places


def test_changes_of_each_kind() -> None:
    assert {(place.kind, place.before, place.after) for place in places()} == {
        ("sign", "i.neg(i.mul(g, out))", "i.mul(g, out)"),
        ("sign", "mul", "div"),
        ("sign", "sub", "add"),
        ("value", "lambda i, g, out: i.neg(i.mul(g, out))", "lambda i, g, x: i.neg(i.mul(g, x))"),
        ("value", "x, 1.5", "1.5, x"),
        ("value", "i.sub(x, 1.5), cut", "cut, i.sub(x, 1.5)"),
        ("bound", ">=", ">"),
        ("bound", "2", "3"),
        ("message", "matrices", "other"),
        ("dtype", '"float64"', '"float32"'),
        ("condition", 'x.dtype == "float64" and x.ndim >= 2', 'not (x.dtype == "float64" and x.ndim >= 2)'),
        ("default", "False", "True"),
    }


def test_a_change_replaces_its_text_alone() -> None:
    for place in places():
        changed = place.applied(SOURCE.encode()).decode()
        ast.parse(changed)
        assert len(changed) - len(SOURCE) == len(place.after) - len(place.before)
        assert changed != SOURCE


def test_places_are_the_same_where_other_lines_moved() -> None:
    assert places("# a line\n" + SOURCE) == places()


def test_a_seed_picks_the_same_of_each_kind() -> None:
    chosen = picked(places(), len(KINDS), 0)
    assert [place.kind for place in chosen] == list(KINDS)
    assert picked(places()[::-1], len(KINDS), 0) == chosen


def test_every_folder_of_the_tables_is_there_and_has_places() -> None:
    paths = [path for folder in ("burnpy", "backends") for path in sorted((ROOT / folder).rglob("*.py"))]
    files = [file for path in paths if folder_of(file := path.relative_to(ROOT).as_posix())]

    def have_places(some: Iterable[str]) -> bool:
        return any(Finder(file, (ROOT / file).read_bytes()).places for file in some)

    assert [folder for folder in WEIGHTS if not have_places(f for f in files if folder_of(f) == folder)] == []
    assert [prefix for prefix in FIRST if not have_places(f for f in files if f.startswith(prefix))] == []
    rooms = {room for first in FIRST.values() for room in first} | {*LATE, *NOT_BY_DEFAULT}
    assert [room for room in rooms if not (ROOT / "tests" / room).is_dir()] == []


def test_a_derivative_concerns_its_operation() -> None:
    rule = "def hypot_x_vjp(i, g):\n    return i.mul(g, g)\n"
    source = f"{rule}\nclass Binary:\n    def hypot(self): ...\n    def fmod(self): ..."
    (place,) = [place for place in Finder(RULES, source.encode()).places if place.kind == "sign"]
    assert operations(place, source) == ["hypot"]


def test_the_faults_of_the_differential_machine_have_their_places() -> None:
    counts = {f.name: (ROOT / f.file).read_text(encoding="utf-8").count(f.right) for f in FAULTS}
    assert set(counts.values()) == {1}, counts
