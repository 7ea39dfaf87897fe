"""Fixtures of the tests of programs: a cache folder of their own, and kernels that are off or on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cache folder; what this process knew of kernels is forgotten before and after."""
    pytest.importorskip("llvmlite")
    from burnpy_numpy.compiled import kernel, operations

    folder = tmp_path / "kernels"
    monkeypatch.setenv("BURNPY_CACHE_DIR", str(folder))
    monkeypatch.setenv("BURNPY_COMPILE", "1")
    monkeypatch.setattr(kernel, "_kernels", {})
    monkeypatch.setattr(kernel, "_failure", [])
    kernel._setting.cache_clear()
    operations.forget()
    yield folder
    kernel._setting.cache_clear()
    operations.forget()
