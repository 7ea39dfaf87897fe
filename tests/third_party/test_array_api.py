"""A backend that a third party might write passes the whole conformance suite."""

from __future__ import annotations

import pytest

from tests.conformance.suites import suite_in
from tests.third_party.array_api_backend import DTYPES, ArrayApi

pytestmark = pytest.mark.slow

TestArrayApi = suite_in(ArrayApi, ("float32", "float64", "int8", "int64", "uint64", "bool"), DTYPES)
"""The narrowest and the widest int, and the one that has no common dtype with the others."""
