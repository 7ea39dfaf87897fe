"""The stubs of packages that import their names on first use say what their tables say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest

from burnpy.docs import generated_code
from tests.rows import every_row

ROOT = Path(__file__).parents[2]


@every_row("package", generated_code.PACKAGES)
def test_the_stub_imports_what_the_package_has(package: str) -> None:
    module = import_module(package)
    names: dict[str, object] = {}
    exec(compile(ast.parse(generated_code.exports_stub(package)), "stub", "exec"), names)
    assert {name: getattr(module, name) for name in module.__all__} == {name: names[name] for name in module.__all__}
    assert sorted(module.__all__) == sorted(cast(list[str], names["__all__"]))


def file_of(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


@cache
def parsed(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


@pytest.mark.slow
def test_what_a_table_lists_is_defined() -> None:
    missing = []
    for package in generated_code.PACKAGES:
        for module, names in vars(import_module(package))["_NAMES"].items():
            if names and module != package:
                found = {word for node in parsed(file_of(module)).body for word in defined(node)}
                missing += [
                    f"{package.replace('.', '/')}/__init__.py lists {name}: define it in {file_of(module)}"
                    for name in names.split()
                    if name not in found
                ]
    assert not missing, "\n".join(["", *missing])


def defined(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [ast.unparse(target) for target in targets]


def public_functions() -> Iterator[tuple[str, str]]:
    """The files and names of the functions of layers, which are `explained`; `burnpy.nn` itself has a few of them."""
    for path in sorted((ROOT / "burnpy/nn/layers").glob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        functions = [node for node in parsed(file).body if isinstance(node, ast.FunctionDef)]
        public = [node.name for node in functions if "explained" in map(ast.unparse, node.decorator_list)]
        yield from ((file, name) for name in public if name not in import_module("burnpy.nn").__all__)


def layers() -> Iterator[tuple[str, str]]:
    """The files and names of the modules in `burnpy/nn/layers` that are no base classes of others."""
    bases: dict[tuple[str, str], list[str]] = {}
    for path in sorted((ROOT / "burnpy/nn/layers").glob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        for node in parsed(file).body:
            if isinstance(node, ast.ClassDef):
                bases[file, node.name] = [ast.unparse(base).partition("[")[0] for base in node.bases]
    modules, inherited = {"Module", "Stateless"}, {base for names in bases.values() for base in names}
    for _ in bases:  # as deep as any chain of base classes
        modules |= {name for (_, name), names in bases.items() if modules & {*names}}
    yield from (place for place in bases if place[1] in modules - inherited)


def test_what_is_public_is_listed() -> None:
    missing = []
    for package, places in (("burnpy.nn.functional", public_functions()), ("burnpy.nn", layers())):
        listed = {name for names in vars(import_module(package))["_NAMES"].values() for name in names.split()}
        missing += [
            f"{file} defines {name}: list it in {package.replace('.', '/')}/__init__.py"
            for file, name in places
            if name not in listed
        ]
    assert not missing, "\n".join(["", *missing])
