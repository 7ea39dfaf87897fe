"""A backend that a third party might write passes the whole conformance suite."""

from __future__ import annotations

import pytest

from burnpy.testing import conformance_suite
from tests.third_party.array_api_backend import DTYPES, ArrayApi

pytestmark = pytest.mark.slow

TestArrayApi = conformance_suite(ArrayApi, dtypes=DTYPES, fast_mode=True)
