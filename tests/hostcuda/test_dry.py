"""Every example of the conformance suite through the real CuPy, without computing: what it refuses, results' shapes and
dtypes, and that nothing waits for the device."""

from __future__ import annotations

import numpy as np
import pytest

from burnpy.testing.arguments import calls
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import LAYOUTS
from tests.hostcuda import simulator
from tests.hostcuda.dry import NOT_DRY, dry
from tests.interrupting import LONG

simulator.require()

WAITING = {"nonzero"}
"""Operations whose result's shape depends on values, which are not computed here."""


@pytest.mark.parametrize("name", [name for name in ROWS if name not in NOT_DRY])
def test_every_example_is_taken(name: str) -> None:
    for arguments in calls(name, layouts=LAYOUTS if LONG else LAYOUTS[:1]):
        found, journal = dry(name, arguments)
        waits = journal.counts["waits"] + journal.counts["to_host"]
        assert name in WAITING or not waits, f"{arguments.where}: it waits for the device, {waits} times"
        for out, want in zip(found, arguments.expected, strict=True):
            assert name in WAITING or out.shape == want.shape, f"{arguments.where}: {out.shape}, not {want.shape}"
            assert out.dtype is np.dtype(want.dtype.name), (
                f"{arguments.where}: {out.dtype!r}, not {want.dtype!r} itself"
            )
