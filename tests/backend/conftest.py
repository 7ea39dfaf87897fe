"""Fixtures of the tests of backends."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.backend.recording_xp import Journal, fresh_devices, stand_ins, without_own_kernels


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    """A record of the calls of a stand-in for CuPy with two GPUs."""
    made = Journal()
    for name, module in stand_ins(made).items():
        monkeypatch.setitem(sys.modules, name, module)
    without_own_kernels(monkeypatch)
    with fresh_devices():
        yield made
