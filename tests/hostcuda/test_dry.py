"""Every example of the conformance suite through the real CuPy, without computing: what it refuses, results' shapes and
dtypes, that nothing waits for the device, and that all runs on the device of the arguments.

That device is not CUDA's current one. CuPy warns when a kernel is given arrays of another device than the current one,
and allocates on the current one, so what an operation asks outside of its guard shows.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy
from burnpy.backend.dtypes import dtype_of
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.table import ALL_DTYPES, calls
from tests.conformance.suites import BRIEF, LARGE, in_turn
from tests.hostcuda import simulator
from tests.hostcuda.dry import NOT_DRY, dry
from tests.interrupting import LONG

simulator.require()

cupy: Any = import_module("cupy")
WAITING = {"nonzero"}
"""Operations whose result's shape depends on values, which are not computed here."""
OF_EACH_KIND = ("float32", "bfloat16", "bool", "complex64")


def dtypes(name: str) -> tuple[str, ...]:
    """The dtypes of the short form: those that `tests.conformance.test_cupy` leaves out, and some of each kind."""
    if name in LARGE or ROWS[name].int64_only:
        return ("float32", "int64")
    with_values = BRIEF.dtypes(ROWS[name], {dtype: dtype_of(dtype) for dtype in ALL_DTYPES})
    return tuple(dtype for dtype in ALL_DTYPES if dtype in OF_EACH_KIND or dtype not in with_values)


@pytest.mark.parametrize("name", [name for name in ROWS if name not in NOT_DRY])
def test_every_example_is_taken(name: str) -> None:
    device, looked_at = CuPy(1), 0
    for arguments in calls(name) if LONG else in_turn(name, dtypes(name)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found, journal = dry(arguments, device)
        waits = journal.counts["waits"] + journal.counts["to_host"]
        assert name in WAITING or not waits, f"{arguments.where}: it waits for the device, {waits} times"
        for out, want in zip(found, arguments.expected, strict=True):
            assert name in WAITING or out.shape == want.shape, f"{arguments.where}: {out.shape}, not {want.shape}"
            assert out.dtype is np.dtype(want.dtype.name), (
                f"{arguments.where}: {out.dtype!r}, not {want.dtype!r} itself"
            )
            if isinstance(out, cupy.ndarray):
                assert out.device.id == device.index, f"{arguments.where}: a result on device {out.device.id}"
                looked_at += 1
        assert cupy.cuda.runtime.getDevice() == 0, f"{arguments.where}: the current device is changed"
    assert looked_at, "no result was looked at"
