"""The files of `burnpy.nn`: no circle of imports, one name for a family, no module in the place of a function."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

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
    assert order.index("burnpy.nn.param") < order.index("burnpy.nn.module_tree") < order.index("burnpy.nn.module_base")
    assert order.index("burnpy.nn.module") < order.index("burnpy.nn.layers.linear")


def test_a_function_is_defined_in_the_file_of_its_layer() -> None:
    """`burnpy.nn.functional` is a table of names. A layer that calls a function of burnpy.nn stands with it."""
    assert [path.name for path in (ROOT / "functional").glob("*.py")] == ["__init__.py"]
    layers = [getattr(burnpy.nn, name) for name in burnpy.nn.__all__]
    called = [(layer, layer._function) for layer in layers if getattr(layer, "_function", None) is not None]
    assert len(called) > 40
    apart = [
        (layer.__name__, function.__module__)
        for layer, function in called
        if function.__module__.startswith("burnpy.nn") and function.__module__ != layer.__module__
    ]
    assert not apart


def test_no_module_takes_the_place_of_a_function() -> None:
    """A module is set as an attribute of its package when it is imported, where a lazy name is looked up later."""
    names = {name for name in burnpy.nn.__all__ if not isinstance(getattr(burnpy.nn, name), ModuleType)}
    assert not names & {path.stem for path in ROOT.glob("*.py")}
