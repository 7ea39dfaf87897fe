"""The memory of devices on the CPU, and the errors of those that measure none."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff
from burnpy.backend import Checked, NumPy, Profiled
from burnpy.backend.device_memory import DeviceMemory, full
from burnpy.errors import DeviceError, OutOfMemoryError

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what memory a process has")
MIB = 1 << 20


GROWTH = """
from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
before = NumPy().memory()
x = Tensor.full((16 << 20,), 1.5, device=NumPy)
after = Autodiff(NumPy).memory()
assert after.used - before.used >= 60 << 20
"""


@pytest.mark.slow
@on_linux
def test_on_the_cpu_it_grows_with_the_process() -> None:
    """In a process of its own, as the C library keeps what was freed before."""
    assert subprocess.run([sys.executable, "-c", GROWTH], check=False).returncode == 0


KEPT = """
import numpy as np
from burnpy import Tensor
from burnpy.backend import NumPy
from burnpy_numpy.kernels.packed_weights import PackedWeights
device = NumPy()
weight, store = np.ones((64, 64), np.float32), PackedWeights(1 << 20)
before = device.memory().used
parts = [Tensor.full((1 << 20,), float(k), device=device) for k in range(16)]
parts = parts[-1:]  # behind what is freed
kept = device.memory().used - before
store.add(weight, "a way", weight.copy())
assert kept < 48 << 20 or device.memory().used - before < 20 << 20
"""


@pytest.mark.slow
@on_linux
def test_what_making_a_model_freed_is_returned_when_the_first_weight_is_packed_to_stay() -> None:
    assert subprocess.run([sys.executable, "-c", KEPT], check=False).returncode == 0


RETURNED = """
from burnpy import Tensor
from burnpy.backend import NumPy
from burnpy_numpy.plans.executor import NumPyExecutor
device = NumPy()
executor, _ = NumPyExecutor(device), Tensor.full((4,), 1.0, device=device)
before = device.memory().used
parts = [Tensor.full((1 << 20,), float(k), device=device) for k in range(16)]
del parts
kept = device.memory().used - before
memory = executor.memory(1 << 20)
assert kept < 48 << 20 or device.memory().used - before < 16 << 20
"""


@pytest.mark.slow
@on_linux
def test_what_a_recording_freed_is_returned_before_the_memory_of_a_plan_is_made() -> None:
    """In a process of its own; where the C library keeps nothing, there is nothing to return."""
    assert subprocess.run([sys.executable, "-c", RETURNED], check=False).returncode == 0


@on_linux
@pytest.mark.parametrize("device", [NumPy, Autodiff[NumPy], Profiled[NumPy], Autodiff[Checked[NumPy]]], ids=str)
def test_on_the_cpu_it_is_that_of_the_process(device: Any) -> None:
    memory = device.device().memory()
    assert 0 < memory.used == memory.reserved < memory.total
    assert memory.free < memory.total
    assert memory.peak >= memory.used


@on_linux
def test_the_peak_begins_again() -> None:
    device = NumPy()
    np.ones(32 * MIB, np.float32)
    try:
        device.reset_peak_memory()
    except DeviceError:
        pytest.skip("this system forbids a process to begin its peak again")
    memory = device.memory()
    assert memory.peak - memory.used < 32 * MIB


def test_it_cannot_be_changed_and_says_its_numbers() -> None:
    memory = DeviceMemory(used=MIB, reserved=2 * MIB, free=3 * MIB, total=8 * MIB, measured_peak=MIB + 1)
    assert str(memory) == "1.00 MiB used, 1.00 MiB at most, 2.00 MiB reserved, 3.00 MiB free of 8.00 MiB"
    with pytest.raises(dataclasses.FrozenInstanceError):
        memory.used = 3  # type: ignore[misc]


def test_a_device_that_measures_nothing_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from burnpy_numpy import allocator

    monkeypatch.setattr(allocator, "_PROCESS", str(tmp_path / "none"))
    for ask in (NumPy().memory, NumPy().reset_peak_memory, Autodiff(NumPy).memory):
        with pytest.raises(DeviceError, match="NumPy does not measure its memory; CuPy does"):
            ask()


@on_linux
@pytest.mark.parametrize(
    ("asked", "words"), [(5 << 30, "cannot allocate 5.00 GiB"), (None, "cannot allocate more memory")]
)
def test_the_error_of_a_full_memory(asked: int | None, words: str) -> None:
    error = full(NumPy(), asked)
    assert isinstance(error, OutOfMemoryError)
    for part in (f"NumPy {words}", "in tensors", "free", "checkpoint", "device.empty_cache()"):
        assert part in str(error)


def test_nothing_happens_where_there_is_nothing_to_do() -> None:
    for device in (NumPy(), Autodiff(NumPy)):
        device.empty_cache()
        device.synchronize()
        with device.stream() as stream:
            assert stream is None
