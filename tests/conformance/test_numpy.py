"""NumPy passes the conformance suite; tests/conformance/test_in_full.py has all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from burnpy.backend import NumPy
from burnpy.testing.arguments import ALL_DTYPES
from burnpy.testing.conformance import OTHERS, USUAL, suite_of
from tests.conformance.suites import LARGE, restrict

pytestmark = pytest.mark.slow

TestNumPy: Any = suite_of(NumPy, ALL_DTYPES, USUAL)
for _test in (TestNumPy.test_values, TestNumPy.test_derivatives, TestNumPy.test_batches, TestNumPy.test_promotion):
    restrict(_test, lambda name: name not in LARGE)
TestNumPy.test_batches = pytest.mark.slowest(TestNumPy.test_batches)

BRIEF = replace(USUAL, layouts={OTHERS: ()}, decorated={OTHERS: (("Autodiff", (True,)),)}, second=9, composed=9)
"""Each example has another layout, and the first one second derivatives."""


@pytest.mark.slowest
@pytest.mark.parametrize("name", sorted(LARGE))
def test_large_functions(name: str) -> None:
    suite: Any = suite_of(NumPy, ("float32", "float64", "bfloat16"), BRIEF)
    suite.setup_class()
    suite().test_values(name=name)
    suite().test_derivatives(name=name)
