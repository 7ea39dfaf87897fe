"""A backend that a third party might write passes the whole conformance suite."""

from __future__ import annotations

from burnpy.testing import conformance_suite
from tests.third_party.array_api_backend import DTYPES, ArrayApi

TestArrayApi = conformance_suite(ArrayApi, dtypes=DTYPES)
