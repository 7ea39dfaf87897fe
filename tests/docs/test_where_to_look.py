"""The table in architecture.md that says which file has a feature: each file is there, and defines the names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from burnpy.docs import generated
from tests.rows import every_row

ROOT = Path(__file__).parents[2]
SECTION = generated.OPERATIONS.with_name("architecture.md").read_text(encoding="utf-8").split("\n## Where to look\n")[1]
ROWS = re.findall(r"^\| (.+?) \| (`.+?`) \| (`.+?`) \|$", SECTION.split("\n## ")[0], re.MULTILINE)


def defined(path: Path) -> set[str]:
    """The names of the functions, methods, classes and module-level values of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    values = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    values += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    definitions = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, definitions)} | {*map(ast.unparse, values)}


def test_the_table_has_features_of_all_parts() -> None:
    assert len(ROWS) >= 25
    assert len({feature for feature, _, _ in ROWS}) == len(ROWS)
    letters = [re.sub("[^a-z0-9 ]", "", feature.lower()) for feature, _, _ in ROWS]
    assert letters == sorted(letters), "the table is in alphabetical order"
    parts = {path.parent.name for path in (ROOT / "burnpy").glob("*/__init__.py")} - {"docs", "linalg", "metrics"}
    assert parts <= {Path(file).parts[1] for _, files, _ in ROWS for file in re.findall(r"`(.+?)`", files)}


@pytest.mark.slow
@every_row(("feature", "files", "names"), ROWS, ids=[feature for feature, _, _ in ROWS])
def test_a_feature_is_in_its_file(feature: str, files: str, names: str) -> None:
    paths = [ROOT / file for file in re.findall(r"`(.+?)`", files)]
    assert [path for path in paths if not path.is_file()] == []
    found = set[str]().union(*map(defined, paths))
    assert [name for name in re.findall(r"`(.+?)`", names) if name not in found] == []
