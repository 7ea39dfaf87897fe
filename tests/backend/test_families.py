"""Families of operations have one name: in the contract, in `burnpy_array`, and in NumPy's and CuPy's files and classes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

import burnpy.backend.operations
from burnpy.backend import NumPy
from burnpy_cupy import CuPy

NAMES = {"burnpy_array": "Array", "burnpy_numpy": "NumPy", "burnpy_cupy": "CuPy"}
"""The beginning of the names of a package's classes of operations."""


def families(backend: Any) -> list[type]:
    """The classes of operations that a backend is made of."""
    return [cls for cls in backend.__mro__[1:] if cls.__module__.partition(".")[0] in NAMES]


@pytest.mark.parametrize("backend", [NumPy, CuPy])
def test_classes_carry_the_backend_in_their_names(backend: Any) -> None:
    for cls in families(backend):
        assert cls.__name__.startswith(NAMES[cls.__module__.partition(".")[0]]), cls


@pytest.mark.parametrize("backend", [NumPy, CuPy])
def test_files_are_named_as_those_of_the_contract(backend: Any) -> None:
    contract = {module.name for module in iter_modules(burnpy.backend.operations.__path__)}
    own = {"array_base", "backend", "foreach", "kernel"}
    found = {cls.__module__.rpartition(".")[2] for cls in families(backend)}
    assert found - own <= contract


def test_templates_lie_in_files_named_as_those_of_the_methods_that_run_them() -> None:
    package = import_module("burnpy_numpy.kernels")
    methods = {path.stem for path in Path(package.__path__[0]).parent.glob("*.py")}
    parts = {"attention_backward": "attention", "convolution_tables": "convolution", "tiled_pooling": "pooling"}
    writing = {"cache", "compiler", "emitter", "entry", "instructions", "kernel", "launch", "loops", "target"}
    writing |= {"undisturbed", "vector_functions", "vectors"}
    found = {module.name for module in iter_modules(package.__path__)} - writing
    assert {parts.get(name, name) for name in found} <= methods
