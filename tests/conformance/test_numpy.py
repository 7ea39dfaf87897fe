"""NumPy passes the conformance suite."""

from __future__ import annotations

import pytest

from burnpy.backend import NumPy
from burnpy.testing import conformance_suite

pytestmark = pytest.mark.slow

TestNumPy = conformance_suite(NumPy)
