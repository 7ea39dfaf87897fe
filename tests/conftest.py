"""Collection of tests: those of a slow file are not imported when slow tests are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

SLOW_FILE = "\npytestmark = pytest.mark.slow\n"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip a file that is marked slow as a whole if the command line says ``-m "not slow"``."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return True if SLOW_FILE in collection_path.read_text(encoding="utf-8") else None
