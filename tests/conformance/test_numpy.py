"""NumPy passes the conformance suite."""

from __future__ import annotations

import pytest

from burnpy.backend import NumPy
from burnpy.testing import conformance_suite
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.checks import check_derivatives
from burnpy.testing.failures import every_case

pytestmark = pytest.mark.slow

TestNumPy = conformance_suite(NumPy)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.gradients])
def test_second_derivatives_element_by_element(name: str) -> None:
    row = ROWS[name]
    with every_case() as case:
        for k, (example, arguments) in enumerate(row.examples.items()):
            if row.smooth(arguments):
                with case(example):
                    check_derivatives(NumPy(), row, example, LAYOUTS[k % 2], 2, elements=32)
