"""NumPy passes the conformance suite; tests/conformance/test_in_full.py has all of it."""

from __future__ import annotations

import pytest

from burnpy.backend import NumPy
from burnpy.testing.arguments import ALL_DTYPES
from burnpy.testing.conformance import USUAL, suite_of

pytestmark = pytest.mark.slow

TestNumPy = suite_of(NumPy, ALL_DTYPES, USUAL)
