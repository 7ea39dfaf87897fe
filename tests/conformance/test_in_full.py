"""The long form of the conformance suites of this folder and of tests/third_party: all that they leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from burnpy.autodiff import Balanced
from burnpy.backend import Checked, NumPy, Profiled
from burnpy.backend.dtypes import dtype_of
from burnpy.testing import conformance_suite
from burnpy.testing.batching_rules import batched_operations
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.cases.table import ALL_DTYPES, fits
from burnpy.testing.checks import check_derivatives, promoting
from burnpy.testing.conformance import every_case

pytestmark = [pytest.mark.slow, pytest.mark.long]

DIFFERENTIABLE = [name for name, row in ROWS.items() if row.gradients]
CHECKS: dict[str, Iterable[str]] = {
    "values": ROWS,
    "derivatives": DIFFERENTIABLE,
    "batches": batched_operations({name: dtype_of(name) for name in ALL_DTYPES}),
    "promotion": promoting(),
}


def array_api() -> Any:
    from tests.third_party.array_api_backend import DTYPES, ArrayApi

    return conformance_suite(ArrayApi, dtypes=DTYPES, fast_mode=True)


SUITES: dict[str, Callable[[], Any]] = {
    "NumPy": lambda: conformance_suite(NumPy),
    "Balanced": lambda: conformance_suite(Balanced[NumPy], fast_mode=True),
    "Profiled and Checked": lambda: conformance_suite(Profiled(Checked(NumPy, True)), fast_mode=True),
    "array API": array_api,
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("suite", SUITES)
def test_every_dtype_level_and_layout(suite: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Balanced, "smallest", 0)
    tests = SUITES[suite]()
    tests.setup_class()
    with Checked.allow(), every_case() as case:
        for name in CHECKS[check]:
            with case(name):
                getattr(tests(), f"test_{check}")(name=name)


def test_second_derivatives_element_by_element() -> None:
    with every_case() as case:
        for operation in DIFFERENTIABLE:
            row = ROWS[operation]
            for k, (example, arguments) in enumerate(row.examples.items()):
                for dtype in map(dtype_of, ("float64", "complex128")):
                    if row.smooth(arguments) and fits(row, dtype):
                        with case(f"{operation}, {dtype}, {example}"):
                            check_derivatives(NumPy(), row, example, dtype, LAYOUTS[k % 2], 2)
