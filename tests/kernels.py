"""A mark for tests that count what only compiled kernels do: launches, memory, Python calls."""

from __future__ import annotations

import pytest

from burnpy_numpy.kernels.kernel import kernels_enabled

needs_kernels = pytest.mark.skipif(not kernels_enabled(), reason="kernels are off")
