"""Fixtures of several files of this folder."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Graphs are freed by reference counting alone."""
    gc.disable()
    yield
    gc.enable()
