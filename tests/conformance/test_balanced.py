"""`Balanced` passes the conformance suite, by itself and inside of `Autodiff`, with a recipe for every array."""

from __future__ import annotations

from typing import Any

import pytest

from burnpy.autodiff import Balanced
from burnpy.backend import NumPy
from burnpy.testing import conformance_suite

pytestmark = pytest.mark.slow

_Suite: Any = conformance_suite(Balanced[NumPy], fast_mode=True)


class TestBalanced(_Suite):  # type: ignore[misc]  # made at run time
    @pytest.fixture(autouse=True)
    def _small_arrays_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Balanced, "smallest", 0)
