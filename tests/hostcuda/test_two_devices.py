"""Every operation runs on the device of its arguments, whichever is CUDA's current one.

Nothing is computed. CuPy warns when a kernel is given arrays of another device than the current one, and allocates on
the current one, so what an operation asks outside of its guard shows.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import pytest

from burnpy.backend import CuPy
from burnpy.testing.arguments import calls
from burnpy.testing.cases import ROWS
from tests.hostcuda import simulator
from tests.hostcuda.dry import NOT_DRY

simulator.require()

cupy: Any = import_module("cupy")


@pytest.mark.parametrize("name", [name for name in ROWS if name not in NOT_DRY and ROWS[name].kinds != ("complex",)])
def test_operations_stay_on_their_device(name: str) -> None:
    device, seen = CuPy(1), 0
    for arguments in calls(name, ("float32", "bfloat16", "int64", "bool"), ("contiguous",)):
        if arguments.example.startswith("large"):
            continue
        with simulator.dry_run(), warnings.catch_warnings():
            warnings.simplefilter("error")
            given = arguments.primitives(device, False)
            found = getattr(device, name)(*given)
        device._late._waiting.clear()
        for _, x in arguments.row.flat_results(found):
            if isinstance(x, cupy.ndarray):
                assert x.device.id == 1, arguments
                seen += 1
        assert cupy.cuda.runtime.getDevice() == 0
    assert seen, "no result was looked at"
