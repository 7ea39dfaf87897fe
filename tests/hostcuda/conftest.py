"""The tests of this folder need the kit: elsewhere they are skipped, with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostcuda import simulator


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = simulator.why_not()
    if reason is not None:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))
