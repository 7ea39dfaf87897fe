"""A plugin of pytest: the doctests of a module are one test, which imports the module when it runs.

Collecting imports no module. A doctest may use the common names without importing them, and write to
the current folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, DocTestFinder, DocTestRunner
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, ComplexTensor, Generator, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.tensor.generator import manual_seed

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT / "backends", ROOT / "burnpy")
NAMES: dict[str, Any] = {
    "Autodiff": Autodiff,
    "BoolTensor": BoolTensor,
    "ComplexTensor": ComplexTensor,
    "Generator": Generator,
    "IntTensor": IntTensor,
    "NumPy": NumPy,
    "Tensor": Tensor,
    "np": np,
}


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the modules of packages that have doctests."""
    if file_path.suffix != ".py" or not any(map(file_path.is_relative_to, PACKAGES)):
        return None
    return Doctests.from_parent(parent, path=file_path) if ">>> " in file_path.read_text(encoding="utf-8") else None


def module_of(file: Path) -> str:
    """Return the name of the module in a file of the packages."""
    path = file.relative_to(PACKAGES[0] if file.is_relative_to(PACKAGES[0]) else ROOT)
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


class Doctests(pytest.File):
    """A module with doctests."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the one test."""
        yield Examples.from_parent(self, name="doctests")


class Examples(pytest.Item):
    """The doctests of a module."""

    def runtest(self) -> None:
        """Run each docstring with the names, and with default generators in their first state."""
        module = import_module(module_of(self.path))
        # By default doctest itself reads -v from the command line, and would report examples that pass.
        runner = DocTestRunner(verbose=False, optionflags=ELLIPSIS | NORMALIZE_WHITESPACE)
        failures: list[str] = []
        with TemporaryDirectory() as folder, chdir(folder):
            for test in DocTestFinder().find(module, module.__name__, extraglobs=NAMES):
                manual_seed(0)
                runner.run(test, out=failures.append)
        if failures:
            raise DoctestFailure("".join(failures))

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the file and a line, which the report of a skipped test needs."""
        return self.path, 0, self.nodeid

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the file, line, expected and actual output of each example that failed."""
        return str(excinfo.value) if isinstance(excinfo.value, DoctestFailure) else super().repr_failure(excinfo, style)


class DoctestFailure(AssertionError):
    """The report of the examples that failed."""
