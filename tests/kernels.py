"""Marks for tests that need compiled kernels: they count launches, memory or Python calls, or multiply matrices."""

from __future__ import annotations

import pytest

from burnpy_numpy.kernels.kernel import kernels_enabled


def multiplies() -> bool:
    """Return whether the target has kernels of matrix products, which need instructions that multiply and add."""
    if not kernels_enabled():
        return False
    from burnpy_numpy.kernels.compiler.target import target

    return target().fuses


needs_kernels = pytest.mark.skipif(not kernels_enabled(), reason="kernels are off")
needs_products = pytest.mark.skipif(not multiplies(), reason="this target has no kernels of products")
