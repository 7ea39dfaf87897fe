"""Kernels switched off for a while, so that NumPy computes what a kernel is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from burnpy_numpy.kernels import kernel


@contextmanager
def without_kernels() -> Iterator[None]:
    """Turn kernels off, as if compiling one had failed; those that were made are there again afterwards."""
    made = [(found, found.copy()) for found in kernel._lookups]
    kernel.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "_failure", ["off for this test"])
        try:
            yield
        finally:
            for found, before in made:
                found.clear()
                found.update(before)
