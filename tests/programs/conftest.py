"""Fixtures of the tests of programs: a cache folder of their own, and kernels that are off or on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burnpy.backend.runtime import executed


@pytest.fixture
def noted() -> Iterator[list[Any]]:
    """The kernels that run during a test, in order."""
    pytest.importorskip("llvmlite")
    found: list[Any] = []
    executed.append(found)
    yield found
    executed[:] = [other for other in executed if other is not found]


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cache folder; what this process knew of kernels is forgotten before and after."""
    pytest.importorskip("llvmlite")
    from burnpy_numpy.kernels import kernel

    kernel._entry_functions()  # which belong to no kernel
    folder = tmp_path / "kernels"
    monkeypatch.setenv("BURNPY_CACHE_DIR", str(folder))
    monkeypatch.setenv("BURNPY_COMPILE", "1")
    monkeypatch.setenv("BURNPY_MALLOPT", "0")  # else the handler of arrays' memory may be in the folder, too
    monkeypatch.setattr(kernel, "_failure", [])
    kernel._setting.cache_clear()
    kernel.forget()
    yield folder
    kernel._setting.cache_clear()
    kernel.forget()
