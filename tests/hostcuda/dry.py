"""Calls of examples that compute nothing."""

from __future__ import annotations

from typing import Any

from burnpy.backend import CuPy, operations
from burnpy.testing.cases.table import Arguments
from tests.hostcuda import simulator

_MODULES = {name: op.function.__module__.rpartition(".")[2] for name, op in operations().items()}

NOT_EXECUTED = frozenset(
    name for name, module in _MODULES.items() if module == "fourier" and name not in ("frames", "overlap_add")
)
"""Operations that cuFFT computes, which the kit lacks; their calls are compared with CuPy's in tests/backend."""
NOT_DRY = NOT_EXECUTED | {name for name, module in _MODULES.items() if module in ("linalg", "decompositions")}
"""Operations that cannot run without computing: CuPy reads the status of a decomposition from the device."""


def dry(arguments: Arguments, device: CuPy | None = None) -> tuple[tuple[Any, ...], simulator.Journal]:
    """The results of a call, and its calls of the device."""
    device, row = device or CuPy(), arguments.row
    with simulator.dry_run():
        given = arguments.primitives(device, False)
        with simulator.watched() as journal:
            found = getattr(device, row.operation.name)(*given)
    device._late._waiting.clear()
    return tuple(x for _, x in row.flat_results(found)), journal
