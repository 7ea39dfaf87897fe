"""Decorators compute what the inner backend does: they pass its conformance suite, under `Autodiff` too.

`Balanced`, `Profiled` and `Checked` hand every operation on, so one stack of them shows it of each: what one gets
wrong, none of the others mends. `Balanced` keeps a recipe for every array. test_in_full.py has them alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from burnpy.autodiff import Balanced
from burnpy.backend import Checked, NumPy, Profiled
from tests.conformance.suites import suite_in

pytestmark = pytest.mark.slowest

suite = suite_in(Balanced(Profiled(Checked(NumPy, True))), ("float32", "int64", "bool"))
"""One float and one int are enough, as NumPy computes; tests/backend/test_checked.py looks for NaN in bfloat16."""


class TestStack(suite):  # type: ignore[misc,valid-type]  # made at run time
    @pytest.fixture(autouse=True)
    def _small_arrays_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Balanced, "smallest", 0)

    @pytest.fixture(autouse=True)
    def looking_on(self, request: pytest.FixtureRequest) -> Iterator[None]:
        """The device records, and its notes can be read. NaN and infinity pass in tests of values, which contain them.
        Derivatives are checked, except for the infinities that attention, max_pool2d and logcumsumexp make on purpose:
        of masked scores, of padding and of logarithms of 0."""
        name = request.node.name
        values = not name.startswith("test_derivatives")
        on_purpose = any(operation in name for operation in ("attention", "max_pool2d", "logcumsumexp"))
        masking = Checked.allow("inf") if on_purpose else nullcontext()
        with Profiled.record(lines=False) as p, Checked.allow() if values else masking:
            yield
        assert sum(row.calls for row in p.rows()) == len(p)
