"""CuPy passes the conformance suite, where there is a GPU to compute on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from burnpy.backend import CuPy
from burnpy.testing.arguments import ALL_DTYPES
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.conformance import FAST, OTHERS, suite_of
from tests.conformance.suites import LARGE, restrict
from tests.interrupting import LONG

if not CuPy.is_available():
    pytest.skip("CuPy needs cupy and an NVIDIA GPU, and one of them is missing here", allow_module_level=True)

BRIEF = replace(FAST, layouts=dict.fromkeys(("float32", "int64", "bool"), LAYOUTS) | {OTHERS: ()})
"""The ``fast_mode`` with all layouts in one dtype of each kind; in the others each example has another layout."""

TestCuPy: Any = suite_of(CuPy, ALL_DTYPES, FAST if LONG else BRIEF)
if not LONG:
    restrict(TestCuPy.test_derivatives, lambda name: name not in LARGE)
