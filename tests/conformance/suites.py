"""The conformance suite for backends that hand most of the work to another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from burnpy.testing.arguments import ALL_DTYPES
from burnpy.testing.conformance import DECORATED, Extent, suite_of


def suite_in(
    device: Any, dtypes: Iterable[str], supported: Iterable[str] = ALL_DTYPES, extent: Extent = DECORATED
) -> Any:
    """The suite in an extent, with values in some of the dtypes that the backend supports, and promotion in all."""
    suite: Any = suite_of(device, dtypes, extent)
    everywhere: Any = suite_of(device, supported, extent)
    suite.test_refuses_the_dtypes_that_it_lacks = everywhere.test_refuses_the_dtypes_that_it_lacks
    suite.test_promotion = everywhere.test_promotion
    return suite
