"""CuPy passes the conformance suite, where there is a GPU to compute on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from burnpy.backend import CuPy, operations
from burnpy.testing.cases.table import ALL_DTYPES
from burnpy.testing.conformance import FAST, OTHERS, suite_of
from tests.conformance.suites import BRIEF, LARGE, restrict
from tests.hostcuda import simulator
from tests.interrupting import LONG

if not CuPy.is_available():
    pytest.skip("CuPy needs cupy and an NVIDIA GPU, and one of them is missing here", allow_module_level=True)

LINALG = {
    name
    for name, op in operations().items()
    if op.function.__module__.rpartition(".")[2] in ("linalg", "decompositions")
}
FOLDED = {"attention_backward", "normalize_backward", "lstm_backward", "gru_backward"}
"""Operations whose batches are one call with more rows, which takes the kit longest. Without ``_backward`` they run."""
COMPOSED = {"index_reduce", "ctc_loss", "ctc_loss_backward"}
"""Operations whose batches are many calls of others, which run: rules of batching know nothing of a backend."""

TestCuPy: Any = suite_of(CuPy, ALL_DTYPES, FAST if LONG else BRIEF)
if simulator.is_loaded():

    class _Kit:
        @pytest.fixture(autouse=True)
        def without_complex_matrices(self, monkeypatch: pytest.MonkeyPatch) -> None:
            """Leave out what the kit's cuSOLVER lacks."""
            monkeypatch.setattr(CuPy, "complex_arrays", False)

    TestLinalg: Any = suite_of(CuPy, ALL_DTYPES, FAST if LONG else BRIEF)
    TestLinalg.without_complex_matrices = _Kit.without_complex_matrices
    for suite, is_run in ((TestCuPy, lambda name: name not in LINALG), (TestLinalg, LINALG.__contains__)):
        for method in (suite.test_values, suite.test_derivatives, suite.test_batches):
            restrict(method, is_run)
    for name in [name for name in vars(TestLinalg) if name.startswith("test_")]:
        if name not in ("test_values", "test_derivatives", "test_batches"):
            delattr(TestLinalg, name)
if not LONG:
    restrict(TestCuPy.test_values, lambda name: name not in LARGE)
    for method in (TestCuPy.test_derivatives, TestCuPy.test_promotion):
        restrict(method, lambda name: name not in LARGE | {"zeta"})
    TestLarge: Any = suite_of(CuPy, ["float32"], replace(BRIEF, layouts={OTHERS: ()}, decorated={OTHERS: ()}))
    for name in [name for name in vars(TestLarge) if name.startswith("test_") and name != "test_values"]:
        delattr(TestLarge, name)
    restrict(TestLarge.test_values, LARGE.__contains__)
    restrict(TestCuPy.test_batches, lambda name: name not in LARGE | FOLDED | COMPOSED)
