"""The backends that burnpy brings along pass the conformance suite."""

from __future__ import annotations

import pytest

from burnpy.backend import NumPy
from burnpy.backend.registry import load
from burnpy.testing import conformance_suite

TestNumPy = conformance_suite(NumPy)
