"""The conformance suite for backends that hand most of the work to another one. Its long form is test_in_full.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from burnpy.backend.dtypes import HALVES, dtype_of
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.cases.table import ALL_DTYPES, Arguments, arguments_of, fits
from burnpy.testing.conformance import DECORATED, FAST, OTHERS, Extent, suite_of
from tests.interrupting import LONG

BRIEF = replace(
    FAST,
    layouts=dict.fromkeys(("float32", "int64", "bool"), LAYOUTS) | {OTHERS: ()},
    decorated={"float32": (("Autodiff", (True,)), ("Forward", (True,))), OTHERS: ()},
    derived=False,
    step=3,
    large=("float32", *HALVES, "int64", "bool"),
    in_turn=True,
)
"""The ``fast_mode`` with all layouts in one dtype of each kind, where a backend has a method of its own; in the others,
and with large arrays, each example has another layout.

Dtypes take turns, as kernels have one source for all ints, and one for both 16-bit floats, which compute in float32:
for CuPy, `tests.hostcuda.test_dry` tries the others. Levels take turns, as they hand operations on to the same methods
of the backend, and a third of the derivatives is tried, whose rules know no backend. The tests of NumPy try all."""
LARGE = {
    *("betainc", "betainc_density", "beta_quantile_slope", "igamma", "igamma_density", "igamma_slope", "igammac"),
    *("gamma_quantile_slope", "zeta_slope"),
}
"""Operations whose defaults are thousands of calls. zeta, which is shorter, stands for them."""
BATCHED = {"matmul", "sum", "gather", "conv2d", "sort"}
"""Operations that are run in batches: rules of batching and defaults know nothing of a backend."""


def suite_in(
    device: Any, dtypes: Iterable[str], supported: Iterable[str] = ALL_DTYPES, extent: Extent = DECORATED
) -> Any:
    """The suite in an extent, with values in some of the dtypes that the backend supports, and promotion in all."""
    suite: Any = suite_of(device, dtypes, extent)
    everywhere: Any = suite_of(device, supported, extent)
    suite.test_refuses_the_dtypes_that_it_lacks = everywhere.test_refuses_the_dtypes_that_it_lacks
    suite.test_promotion = everywhere.test_promotion
    for test in (suite.test_values, suite.test_derivatives, suite.test_promotion):
        restrict(test, lambda name: name not in LARGE)
    restrict(suite.test_batches, BATCHED.__contains__)
    return suite


def in_turn(name: str, dtypes: Iterable[str]) -> Iterator[Arguments]:
    """Yield the calls of an operation whose dtype matters little: the first example in each of the dtypes in which it
    is run, and the others in these by turns; in the long form, all."""
    row = ROWS[name]
    run = [dtype for dtype in map(dtype_of, dtypes) if fits(row, dtype)]
    for (k, example), (n, dtype) in product(enumerate(row.examples), enumerate(run)):
        if LONG or k == 0 or k % len(run) == n:
            yield arguments_of(name, example, dtype, "contiguous")


def restrict(test: Any, is_run: Callable[[str], bool]) -> None:
    """Run a test of the suite for some of its operations."""
    (mark,) = test.pytestmark
    argument, names = mark.args
    test.pytestmark = [pytest.mark.parametrize(argument, [name for name in names if is_run(name)]).mark]
