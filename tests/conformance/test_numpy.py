"""NumPy passes the conformance suite; tests/conformance/test_in_full.py has all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from burnpy.backend import NumPy
from burnpy.testing.cases.table import ALL_DTYPES
from burnpy.testing.conformance import OTHERS, USUAL, Extent, suite_of
from tests.conformance.suites import LARGE, restrict
from tests.interrupting import LONG

pytestmark = pytest.mark.slow

FIRST = ("float32", "complex64", "int64", "bool")
"""The dtypes of each kind whose values `make test` tries."""


RULES = replace(USUAL, second=2)
"""Each smooth example has first derivatives, and every other one second derivatives, which are those of first ones."""
OTHER_DTYPES = replace(USUAL, in_turn=True, large=("bfloat16",))
"""Ints of other sizes are computed by the same loops of NumPy, and large arrays by kernels of a few dtypes."""


def suite_of_values(dtypes: tuple[str, ...], extent: Extent = USUAL) -> Any:
    """Return the part of the suite that compares values, in some dtypes."""
    suite: Any = suite_of(NumPy, dtypes, extent)
    for name in dir(suite):
        if name.startswith("test_") and name != "test_values":
            setattr(suite, name, None)
    restrict(suite.test_values, lambda name: name not in LARGE)
    return suite


TestNumPy: Any = suite_of(NumPy, ALL_DTYPES, RULES)
TestNumPy.test_values = None  # the two classes below
for _test in (TestNumPy.test_derivatives, TestNumPy.test_batches, TestNumPy.test_promotion):
    restrict(_test, lambda name: name not in LARGE)
for _name in ("test_batches", "test_derivatives"):
    setattr(TestNumPy, _name, pytest.mark.slowest(getattr(TestNumPy, _name)))
TestValues: Any = suite_of_values(FIRST)
TestValuesInOtherDtypes: Any = pytest.mark.slowest(
    suite_of_values(tuple(name for name in ALL_DTYPES if name not in FIRST), OTHER_DTYPES)
)

BRIEF = replace(USUAL, layouts={OTHERS: ()}, decorated={OTHERS: (("Autodiff", (True,)),)}, second=9, composed=9)
"""Each example has another layout, and the first one second derivatives."""


@pytest.mark.slowest
@pytest.mark.parametrize("name", sorted(LARGE))
def test_large_functions(name: str) -> None:
    suite: Any = suite_of(NumPy, ("float32", "float64", "bfloat16") if LONG else ("float32",), BRIEF)
    suite.setup_class()
    suite().test_values(name=name)
    suite().test_derivatives(name=name)
