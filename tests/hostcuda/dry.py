"""Calls of examples that compute nothing."""

from __future__ import annotations

from typing import Any

from burnpy.backend import CuPy, operations
from burnpy.testing.arguments import Arguments
from tests.hostcuda import simulator

NOT_EXECUTED = frozenset(
    name
    for name, op in operations().items()
    if op.function.__module__.rpartition(".")[2] in ("linalg", "decompositions", "fourier")
    and name not in ("frames", "overlap_add")
)
"""Operations that cuSOLVER and cuFFT compute, which the kit lacks; their calls are compared with CuPy's in
tests/backend."""


def dry(name: str, arguments: Arguments) -> tuple[tuple[Any, ...], simulator.Journal]:
    """The results of a call, and its calls of the device."""
    device = CuPy()
    with simulator.dry_run():
        given = arguments.primitives(device, False)
        with simulator.watched() as journal:
            found = getattr(device, name)(*given)
    return tuple(x for _, x in arguments.row.flat_results(found)), journal
