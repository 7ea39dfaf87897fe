"""`Balanced` passes the conformance suite, by itself and inside of `Autodiff`, with a recipe for every array."""

from __future__ import annotations

import pytest

from burnpy.autodiff import Balanced
from burnpy.backend import NumPy
from tests.conformance.suites import suite_in

pytestmark = pytest.mark.slowest

_Suite = suite_in(Balanced[NumPy], ("float32", "int64", "bool"))
"""The dtypes to try: one int and bools are enough, as NumPy computes with them."""


class TestBalanced(_Suite):  # type: ignore[misc,valid-type]  # made at run time
    @pytest.fixture(autouse=True)
    def _small_arrays_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Balanced, "smallest", 0)
