"""NumPy passes the conformance suite."""

from __future__ import annotations

from burnpy.backend import NumPy
from burnpy.testing import conformance_suite

TestNumPy = conformance_suite(NumPy)
