"""Calls of the conformance suite's examples that compute nothing."""

from __future__ import annotations

from typing import Any

from burnpy.backend import CuPy
from burnpy.backend.dtypes import dtype_of
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.checks import Arguments
from burnpy.testing.conformance import ALL_DTYPES, fits
from tests.hostcuda import simulator


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
    return tuple(x for _, x in ROWS[name].flat_results(found)), journal
