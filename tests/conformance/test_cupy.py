"""CuPy passes the conformance suite, where there is a GPU to compute on."""

from __future__ import annotations

import pytest

from burnpy.backend import CuPy
from burnpy.testing import conformance_suite

if not CuPy.is_available():
    pytest.skip("CuPy needs cupy and an NVIDIA GPU, and one of them is missing here", allow_module_level=True)

TestCuPy = conformance_suite(CuPy, fast_mode=True)
