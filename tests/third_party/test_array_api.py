"""A backend that a third party might write passes the whole conformance suite."""

from __future__ import annotations

import pytest

from burnpy.testing.conformance import LIGHT
from tests.conformance.suites import suite_in
from tests.third_party.array_api_backend import DTYPES, ArrayApi

pytestmark = pytest.mark.slowest

TestArrayApi = suite_in(ArrayApi, ("float32", "int64", "bool"), DTYPES, LIGHT)
"""Values in one float and one int; promotion in every dtype of the standard."""
