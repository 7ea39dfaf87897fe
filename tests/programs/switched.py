"""Kernels switched off for a while, so that NumPy computes what a kernel is compared with, and run block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from burnpy_numpy.kernels import kernel, launch


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


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have templates' kernels run for one block at a time, from the last on; return a list that gets their counts."""
    counts: list[int] = []

    def share(function: Any, table: Sequence[Any], sizes: Sequence[int], blocks: int, each: float, *room: int) -> None:
        counts.append(blocks)
        for k in reversed(range(blocks)):
            function(k, k + 1, len(table), *table, *sizes)

    monkeypatch.setattr(launch, "share", share)
    monkeypatch.setattr(launch, "COUNT", 2)
    monkeypatch.setattr(launch, "_SHARED", 0)
    return counts
