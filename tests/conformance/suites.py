"""The conformance suite for backends that hand most of the work to another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from burnpy.testing import conformance_suite
from burnpy.testing.arguments import ALL_DTYPES


def suite_in(device: Any, dtypes: Iterable[str], supported: Iterable[str] = ALL_DTYPES) -> Any:
    """The suite in fast mode, with values in some of the dtypes that the backend supports, and promotion in all."""
    suite: Any = conformance_suite(device, dtypes=dtypes, fast_mode=True)
    everywhere: Any = conformance_suite(device, dtypes=supported)
    suite.test_refuses_the_dtypes_that_it_lacks = everywhere.test_refuses_the_dtypes_that_it_lacks
    suite.test_promotion = everywhere.test_promotion
    return suite
