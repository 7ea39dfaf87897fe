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

BRIEF = replace(FAST, layouts=dict.fromkeys(("float32", "int64", "bool"), LAYOUTS) | {OTHERS: ()}, derived=False)
"""The ``fast_mode`` with all layouts in one dtype of each kind, where CuPy has a method of its own; in the others each
example has another layout."""
FOLDED = {"attention_backward", "normalize_backward", "lstm_backward", "gru_backward"}
"""Operations whose batches are one call with more rows, which takes the kit longest. Without ``_backward`` they run."""

TestCuPy: Any = suite_of(CuPy, ALL_DTYPES, FAST if LONG else BRIEF)
if not LONG:
    for test in (TestCuPy.test_derivatives, TestCuPy.test_promotion):
        restrict(test, lambda name: name not in LARGE)
    restrict(TestCuPy.test_batches, lambda name: name not in LARGE | FOLDED)
