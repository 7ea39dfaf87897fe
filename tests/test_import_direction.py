"""The direction of imports: each part of the package imports itself and the parts below it, and no module a circle.

All imports are read from the source, those inside of functions and for type checkers too. Two modules are let through:
the door by which methods of tensors call autodiff's tools, which are made of tensors, and the shared type variables.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import pytest

import burnpy
from tests.rows import every_row

pytestmark = pytest.mark.slow  # all modules are parsed

ROOT = Path(burnpy.__file__).parent
BACKENDS = ROOT.parent / "backends"

DOOR = "burnpy.tensor.backward"
"""The one module that imports what is above it, at the first use."""

TYPEVARS = "burnpy.typevars"
"""The type variables that all parts share, with bounds that type checkers alone import."""

PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "messages": (("burnpy.backend.errors", "burnpy.backend.functions", "burnpy.hints", TYPEVARS), ()),
    "backend": (("burnpy.backend",), ("messages",)),
    "autodiff's core": (("burnpy.autodiff",), ("backend",)),
    "tensor": (("burnpy.tensor",), ("autodiff's core",)),
    "batching": (("burnpy.batching",), ("autodiff's core",)),
    "autodiff's tools": (("burnpy.autodiff.tools",), ("tensor", "batching")),
    "data": (("burnpy.data",), ("tensor",)),
    "fft": (("burnpy.fft",), ("tensor",)),
    "linalg": (("burnpy.linalg",), ("tensor",)),
    "special": (("burnpy.special",), ("tensor",)),
    "array_api": (("burnpy.array_api", "burnpy.einops"), ("tensor", "fft", "linalg", "special")),
    "metrics": (("burnpy.metrics",), ("tensor",)),
    "func": (("burnpy.func",), ("autodiff's tools", "linalg")),
    "nn": (("burnpy.nn",), ("func",)),
    "distributions": (("burnpy.distributions",), ("nn", "special")),
    "optim": (("burnpy.optim",), ("nn",)),
    "record": (("burnpy.record",), ("optim",)),
    "interop": (("burnpy.interop",), ("record", "fft")),
    "models": (("burnpy.models",), ("record",)),
    "train": (("burnpy.train",), ("record", "metrics", "data")),
    "distributed": (("burnpy.distributed",), ("train",)),
    "package": (
        ("burnpy", "burnpy.__main__", "burnpy.docs", "burnpy.environment", "burnpy.errors", "burnpy.testing"),
        ("array_api", "distributed", "distributions", "fft", "interop", "models"),
    ),
}
"""Each part's modules, and the parts that it stands on. A module belongs to the part that names it most precisely."""

FACADES = ("burnpy", "burnpy.autodiff")
"""Packages whose ``__init__`` has lazy names of several parts; modules of burnpy import from where it is defined."""

BLOCKS = (ast.stmt, ast.excepthandler, ast.match_case)
"""The parts of a syntax tree that statements, and so imports, are found in: not expressions."""

Kind: TypeAlias = Literal["module", "function", "typing"]


class Import(NamedTuple):
    """One import: the module that is imported, and whether when the importing one runs, later, or by type checkers."""

    target: str
    kind: Kind


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports_of(node: ast.AST, kind: Kind = "module") -> Iterator[Import]:
    """The imports among the statements of a module, a class, a function or another block."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, BLOCKS):
            continue
        inner = kind
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and child in node.body:
            inner = "typing"
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and kind == "module":
            inner = "function"
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, inner) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            for alias in child.names:
                submodule = f"{child.module}.{alias.name}"
                yield Import(submodule if submodule in SOURCES else child.module or "", inner)
        else:
            yield from imports_of(child, inner)


@cache
def imports_in(path: Path) -> set[Import]:
    """Return the imports of a file, which is read when a test asks, not when tests are collected."""
    return {*imports_of(ast.parse(path.read_text(encoding="utf-8")))}


@cache
def all_imports() -> dict[str, set[Import]]:
    """Return the imports of burnpy of each module."""
    return {name: {each for each in imports_in(path) if each.target in SOURCES} for name, path in SOURCES.items()}


def part_of(module: str) -> str | None:
    """The part of a module; None if no part names it. The package itself stands for no other module."""
    fits = [
        (len(prefix), part)
        for part, (prefixes, _) in PARTS.items()
        for prefix in prefixes
        if module == prefix or (module.startswith(f"{prefix}.") and prefix != "burnpy")
    ]
    return max(fits)[1] if fits else None


def below(part: str) -> set[str]:
    """The parts that one stands on, directly or not, and itself."""
    return {part}.union(*[below(other) for other in PARTS[part][1]])


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of modules that reach each other, by the paths that exist once modules outside of circles are gone."""
    reached = {name: set(targets) for name, targets in graph.items()}
    for middle in graph:  # the transitive closure, by Warshall's algorithm
        for targets in reached.values():
            if middle in targets:
                targets |= reached[middle]
    in_circles = [name for name in graph if name in reached[name]]
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in in_circles}
    return sorted(sorted(group) for group in groups)


def test_every_module_has_a_part() -> None:
    assert [module for module in SOURCES if part_of(module) is None] == [], "name its part in PARTS"
    assert {DOOR, TYPEVARS, *FACADES} <= SOURCES.keys(), "these were moved or removed"


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_what_it_stands_on(part: str) -> None:
    allowed = below(part)
    others = [
        f"{module} imports {target} ({part_of(target)}; {kind})"
        for module, imports in all_imports().items()
        if part_of(module) == part and module not in (DOOR, TYPEVARS, *FACADES)
        for target, kind in sorted(imports)
        if part_of(target) not in allowed
    ]
    assert not others


def test_packages_with_names_of_several_parts_are_lazy() -> None:
    kinds = {kind for target, kind in all_imports()["burnpy.autodiff"] if target != "burnpy.backend.lazy"}
    assert kinds <= {"typing", "function"}
    users = {
        module: target
        for module, imports in all_imports().items()
        for target, _ in imports
        if target in FACADES and part_of(module) != "package"
    }
    assert not users, "import a name from the module that defines it"


def test_bounds_of_type_variables_cost_no_import() -> None:
    assert {kind for _, kind in all_imports()[TYPEVARS]} == {"typing"}


def test_the_door_leads_from_tensors_to_the_tools_alone() -> None:
    allowed = below("tensor")
    above = {(part_of(target), kind) for target, kind in all_imports()[DOOR] if part_of(target) not in allowed}
    assert above == {("autodiff's tools", "typing"), ("autodiff's tools", "function")}


@every_row("part", PARTS)
def test_no_modules_import_each_other(part: str) -> None:
    """What only type checkers import does not count: a method of a base class may return the class made of it."""
    members = {module for module in SOURCES if part_of(module) == part}
    graph = {
        module: {target for target, kind in all_imports()[module] if kind != "typing" and target in members}
        for module in members
    }
    assert circles(graph) == []


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a", "f"}}
    assert circles(graph) == [["a", "b", "c"], ["d", "e"], ["f"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def closure(arrows: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The arrows and those that follow from them."""
    while more := {(a, d) for a, b in arrows for c, d in arrows if b == c} - arrows:
        arrows = arrows | more
    return arrows


def test_the_picture_of_the_packages_is_right() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = dict(re.findall(r'^    (\w+)\["<b>([\w.]+)</b>', page, re.MULTILINE))  # two are parts of burnpy.autodiff
    drawn = re.findall(r"^    (\w+) (-->|-- .* -->|-\. .* \.->) (\w+)$", page, re.MULTILINE)
    solid = {(names[a], names[b]) for a, line, b in drawn if not line.startswith("-.")}
    dotted = {(names[a], names[b]) for a, line, b in drawn if line.startswith("-.")}
    found: dict[str, set[tuple[str, str]]] = {"module": set(), "function": set(), "typing": set()}
    for name in names.values():
        folder = ROOT.parent / name.replace(".", "/") if "." in name else BACKENDS / name
        for path in folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]:
            if path.name == "warm.py":  # a command, which trains models and which no module imports
                continue
            for module, kind in imports_in(path):
                other = ".".join(module.split(".")[:2]) if module.startswith("burnpy.") else module.split(".")[0]
                if other in names.values() and other != name:
                    found[kind].add((name, other))
    packages = {f"burnpy.{path.parent.name}" for path in ROOT.glob("*/__init__.py")}
    packages |= {path.parent.name for path in BACKENDS.glob("*/__init__.py")}
    assert set(names.values()) == packages - {"burnpy.docs", "burnpy.testing"} | {"burnpy.special"}  # a module
    assert solid <= found["module"], "these arrows are drawn, and nothing is imported at the top of a module"
    assert dotted <= found["function"] - found["module"]
    assert found["module"] <= closure(solid), "these imports are not drawn, nor do they follow from what is"
    assert found["function"] <= closure(solid | dotted)
