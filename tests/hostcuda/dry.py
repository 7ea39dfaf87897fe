"""Calls of examples that compute nothing."""

from __future__ import annotations

from typing import Any

from burnpy.backend import CuPy
from burnpy.testing.arguments import Arguments
from tests.hostcuda import simulator


def dry(name: str, arguments: Arguments) -> tuple[tuple[Any, ...], simulator.Journal]:
    """The results of a call, and what was asked of the device."""
    device = CuPy()
    with simulator.dry_run():
        given = arguments.primitives(device, False)
        with simulator.watched() as journal:
            found = getattr(device, name)(*given)
    return tuple(x for _, x in arguments.row.flat_results(found)), journal
