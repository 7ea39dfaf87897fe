"""A family of operations has one name: in the contract, in `burnpy_array`, and in NumPy's and CuPy's files."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

from burnpy.backend import Backend, NumPy
from burnpy_cupy import CuPy

OPERATIONS = import_module("burnpy.backend.operations")
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
    contract = {module.name for module in iter_modules(OPERATIONS.__path__)}
    own = {"array_base", "backend", "burnpy_array", "foreach", "kernel"}
    found = {cls.__module__.rpartition(".")[2] for cls in families(backend)}
    assert {family for name in found - own for family in name.split("_and_")} <= contract


def test_templates_lie_in_files_named_as_those_of_the_methods_that_run_them() -> None:
    package = import_module("burnpy_numpy.kernels")
    files = Path(package.__path__[0]).parent.glob("*.py")
    methods = {family for path in files for family in path.stem.split("_and_")}
    machinery = {"compiler", "kernel", "launch", "packed_weights", "plans", "products"}
    found = {module.name for module in iter_modules(package.__path__)} - machinery
    assert {family for name in found for family in name.removesuffix("_by_vectors").split("_and_")} <= methods


def test_modules_of_kernels_that_are_loaded_by_name_exist() -> None:
    kernels = Path(import_module("burnpy_numpy.kernels").__path__[0])
    sources = "".join(path.read_text(encoding="utf-8") for path in kernels.parent.rglob("*.py"))
    names = set(re.findall(r'family_kernels\("([\w.]+)"\)', sources))
    assert len(names) > 10
    assert [name for name in names if not kernels.joinpath(*name.split(".")).with_suffix(".py").is_file()] == []


def test_gelu_comes_to_machine_code_by_three_stops() -> None:
    import burnpy_numpy.kernels.kernel as kernel

    root = Path(str(OPERATIONS.__file__)).parents[3]
    stops: list[Any] = [Backend.gelu, NumPy.gelu, kernel.elementwise_kernel]
    assert [Path(inspect.getfile(stop)).relative_to(root).as_posix() for stop in stops] == [
        "burnpy/backend/operations/activation.py",
        "backends/burnpy_numpy/activation.py",
        "backends/burnpy_numpy/kernels/kernel.py",
    ]
    assert {"operation_kernel", "formula_kernel", "program_kernel", "template_kernel"} <= vars(kernel).keys()
    (owner,) = [cls for cls in families(CuPy) if "gelu" in vars(cls) and cls.__module__.startswith("burnpy_cupy")]
    assert owner.__module__ == "burnpy_cupy.kernels.pointwise"
    assert {"_operation_kernel", "_program_kernel"} <= vars(
        import_module("burnpy_cupy.kernels.kernel").CuPyPrograms
    ).keys()
