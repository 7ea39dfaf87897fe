"""The stubs of packages that import their names on first use say what their tables say."""

from __future__ import annotations

import ast
from importlib import import_module

import pytest

from burnpy.docs import exports


@pytest.mark.parametrize("package", exports.PACKAGES)
def test_the_stub_is_up_to_date(package: str) -> None:
    path = exports.path_of(package)
    assert path.read_text(encoding="utf-8") == exports.stub(package), (
        f"{package.replace('.', '/')}/__init__.pyi is out of date: run python -m burnpy.docs.exports"
    )


@pytest.mark.parametrize("package", exports.PACKAGES)
def test_the_stub_imports_what_the_package_has(package: str) -> None:
    module = import_module(package)
    names: dict[str, object] = {}
    exec(compile(ast.parse(exports.stub(package)), "stub", "exec"), names)
    assert {name: getattr(module, name) for name in module.__all__} == {name: names[name] for name in module.__all__}
    assert sorted(module.__all__) == sorted({*names} - {"__all__", "__builtins__", "__doc__", "__name__"})
