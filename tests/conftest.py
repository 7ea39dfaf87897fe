"""Collection of tests: slow files are not imported when slow tests are left out, and no file is read for doctests."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pytest

SLOW_FILE = "\npytestmark = pytest.mark.slow\n"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip a file that is marked slow as a whole if the command line says ``-m "not slow"``."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return True if SLOW_FILE in collection_path.read_text(encoding="utf-8") else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leave doctests to the packages: looking for them here imports what tests share, and finds none."""
    return [collector for collector in (yield) if type(collector) is pytest.Module]


def pytest_collection_finish() -> None:
    """Put the tests out of the garbage collector's sight, which would look through all of them again and again."""
    gc.collect()
    gc.freeze()
