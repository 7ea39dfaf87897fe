"""The files of `burnpy.nn` import one another without a circle, also inside of functions and for type checkers."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import burnpy.nn

ROOT = Path(burnpy.nn.__path__[0])
FILES = {".".join(("burnpy", "nn", *path.relative_to(ROOT).with_suffix("").parts)): path for path in ROOT.rglob("*.py")}


def imports(path: Path) -> set[str]:
    """The modules of `burnpy.nn` that a file imports anywhere; packages are left out, as they import their modules."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return imported & FILES.keys()


def test_there_is_no_circle_of_imports() -> None:
    graph = {name: imports(path) for name, path in FILES.items()}
    order = [*TopologicalSorter(graph).static_order()]  # a CycleError names the files of a circle
    assert order.index("burnpy.nn.variable") < order.index("burnpy.nn.tree") < order.index("burnpy.nn.module_base")
    assert order.index("burnpy.nn.module") < order.index("burnpy.nn.layers.dense")
