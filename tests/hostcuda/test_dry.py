"""Every example of the conformance suite through the real CuPy, without computing: what it refuses, results' shapes and
dtypes, and that nothing waits for the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy
from burnpy.backend.dtypes import dtype_of
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.checks import Arguments
from burnpy.testing.conformance import ALL_DTYPES, fits
from tests.hostcuda import simulator

WAITING = {"nonzero"}
"""Operations of which the result's shape depends on values, which are not computed here."""


def calls(name: str) -> list[Arguments]:
    """The arguments of every example of an operation, in every dtype and layout."""
    row = ROWS[name]
    dtypes = [dtype for dtype in map(dtype_of, ALL_DTYPES) if fits(row, dtype)]
    return [Arguments(row, e, dtype, layout) for dtype in dtypes for layout in LAYOUTS for e in row.examples]


def dry(name: str, arguments: Arguments) -> tuple[tuple[Any, ...], simulator.Journal]:
    """The results of a call, and what was asked of the device."""
    device = CuPy()
    with simulator.dry_run():
        given = arguments.primitives(device, False)
        with simulator.watched() as journal:
            found = getattr(device, name)(*given)
    return found if isinstance(found, tuple) else (found,), journal


@pytest.mark.parametrize("name", ROWS)
def test_every_example_is_taken(name: str) -> None:
    for arguments in calls(name):
        found, journal = dry(name, arguments)
        waits = journal.counts["waits"] + journal.counts["to_host"]
        assert name in WAITING or not waits, f"{arguments.where}: it waits for the device, {waits} times"
        for out, want in zip(found, arguments.expected(), strict=True):
            assert name in WAITING or out.shape == want.shape, f"{arguments.where}: {out.shape}, not {want.shape}"
            assert out.dtype is np.dtype(want.dtype.name), (
                f"{arguments.where}: {out.dtype!r}, not {want.dtype!r} itself"
            )
