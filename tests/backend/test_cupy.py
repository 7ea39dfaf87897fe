"""The CuPy backend where there is no GPU: its code run on a stand-in, and what it asks held against the real CuPy.

These tests show that every name exists and every call binds, that operations run on their own GPU, and that results
are right given that CuPy's functions do what NumPy's do. What only a GPU can show is shown by the conformance suite.
"""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, fft, linalg
from burnpy.autodiff import Balanced, Forward
from burnpy.backend import CuPy, Profiled, device_of
from burnpy.backend.dtypes import bool_, float16, float32, float64, int8, int16, int32, int64
from burnpy.backend.errors import ArgumentError, BackendUnavailableError
from burnpy.testing.cases import ROWS
from burnpy.testing.checks import check_values
from burnpy.testing.conformance import every_case
from tests.backend.recording_xp import Journal, fresh_devices, mismatch, stand_ins, without_own_kernels
from tests.conformance.suites import LARGE, in_turn


def broken(monkeypatch: pytest.MonkeyPatch, **how: Any) -> None:
    for name, module in stand_ins(Journal(), **how).items():
        monkeypatch.setitem(sys.modules, name, module)


def run_small_examples(name: str) -> None:
    """Check an operation on the stand-in, with the examples that do not just have many elements."""
    for arguments in in_turn(name, ("float32", "float16", "int64", "bool")):
        if not arguments.example.startswith("large"):
            check_values(CuPy(), "plain", ROWS[name], arguments.example, arguments.dtype, arguments.layout, False)


@pytest.mark.slow
@pytest.mark.heavy("cupy")
def test_results_are_those_of_the_reference_and_all_that_is_asked_of_cupy_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = Journal()
    with monkeypatch.context() as patch, fresh_devices(), every_case() as case:
        for name, module in stand_ins(journal).items():
            patch.setitem(sys.modules, name, module)
        without_own_kernels(patch)
        for name in ROWS.keys() - LARGE:
            with case(name):
                run_small_examples(name)
        CuPy(1).transfer_from(CuPy().full((2,), 1.0, float32), CuPy())
        CuPy().defer_check((CuPy().all(CuPy().from_numpy(np.ones(2, np.bool_)), (0,), False),), lambda fine: None)
        CuPy().synchronize()
    assert len(journal.records) > 80, "the recorder has missed most of the backend"
    assert sorted(filter(None, map(mismatch, journal.records))) == []


@pytest.mark.heavy("cupy")
@pytest.mark.parametrize(
    "record",
    [
        ("vecdot", 2, ()),
        ("add", 5, ()),
        ("ndarray.sum", 2, ("where",)),
        ("ndarray.max", 4, ()),
        ("random.Generator.normal", 1, ()),
        ("multiply.at", 1, ()),
        ("matmul", 3, ()),
    ],
)
def test_the_comparison_can_fail(record: Any) -> None:
    assert mismatch(record) is not None


def test_operations_run_on_their_own_gpu(journal: Journal) -> None:
    zero, one = CuPy(0), CuPy(1)
    a = zero.from_numpy(np.ones(3, np.float32))
    zero.add(a, a)
    assert journal.switches == 0, "the device was current already"
    b = one.from_numpy(np.ones(3, np.float32))
    one.softmax(one.add(b, b), 0)
    assert journal.switches == 3
    assert journal.current == 0
    journal.current = 1
    one.exp(b)
    assert journal.switches == 3


def test_a_failing_operation_leaves_the_current_gpu(journal: Journal) -> None:
    one = CuPy(1)
    with pytest.raises(ValueError, match="broadcast"):
        one.add(one.full((2,), 1.0, float32), one.full((3,), 1.0, float32))
    assert journal.current == 0


def test_devices_are_singletons_and_travel(journal: Journal) -> None:
    assert CuPy() is CuPy(0) is CuPy(index=0) is CuPy.device()
    assert CuPy(1) is not CuPy(0)
    assert repr(CuPy(1)) == "CuPy(1)"
    assert pickle.loads(pickle.dumps(CuPy(1))) is CuPy(1)
    assert copy.deepcopy(CuPy(1)) is CuPy(1)
    assert CuPy.is_available()


@pytest.mark.parametrize("dtype", [int8, int16, int32, int64, float16, float32, float64])
def test_index_add_of_every_dtype(dtype: Any, journal: Journal) -> None:
    device = CuPy()
    x, src = device.full((3, 2), 1, dtype), device.full((4, 2), 2, dtype)
    out = device.index_add(x, 0, device.from_numpy(np.array([2, 0, 2, 2])), src)
    assert out.dtype == dtype
    assert device.to_numpy(out).tolist() == [[3, 3], [1, 1], [7, 7]]


@pytest.mark.parametrize("name", ["add", "mul", "min", "max"])
def test_changes_at_indices_wait_for_nothing(name: str, journal: Journal) -> None:
    x = Tensor[Autodiff[CuPy]].ones((3, 2)).require_grad()
    src = Tensor[Autodiff[CuPy]].full((4, 2), 2.0).require_grad()
    index = IntTensor[Autodiff[CuPy]].from_data([2, 0, 2, 2])
    before = journal.waits
    out = getattr(x.at[index], name)(src)
    grads = out.sum().backward()
    assert journal.waits == before
    assert out[2, 0].item() == {"add": 7.0, "mul": 8.0, "min": 1.0, "max": 2.0}[name]
    assert grads[src][3, 0].item() == pytest.approx({"add": 1.0, "mul": 4.0, "min": 0.0, "max": 1 / 3}[name])


def test_sums_are_not_written_into_views_by_expand(journal: Journal) -> None:
    """A view with several elements in one place in memory; CuPy does not mark it as read-only."""
    device = CuPy()
    row, grad = device.full((1, 3), 1.0, float32), device.full((2, 3), 2.0, float32)
    total, index = device.expand(row, (2, 3)), device.from_numpy(np.array([1]))
    for out in (
        device.accumulate(total, grad),
        device.accumulate_slice(total, (slice(0, 1, 1),), grad[:1]),
        device.accumulate_index(total, 0, index, grad[:1]),
    ):
        assert device.to_numpy(out).max() == 3
    assert device.to_numpy(row).tolist() == [[1, 1, 1]]
    assert device.to_numpy(device.accumulate(grad, grad)).max() == 4
    assert device.to_numpy(grad).max() == 4, "memory that is not a view is reused"


def test_a_thousand_late_checks_are_read_in_one_copy(journal: Journal) -> None:
    x, index = Tensor[CuPy].ones((4,)), IntTensor[CuPy].from_data([0])
    for _ in range(1000):
        x.index_select(0, index)
    waits, before = journal.waits, set(journal.records)
    CuPy().synchronize()
    assert journal.waits == waits + 2, "the device, and one copy"
    assert {name for name, _, _ in journal.records - before} <= {"cuda.Device.synchronize", "ndarray.get"}


@pytest.mark.parametrize("index", [2, -1, True, "0"])
def test_no_such_gpu(index: Any, journal: Journal) -> None:
    with pytest.raises(ArgumentError, match=r"there are 2, numbered from 0: use CuPy\(0\) to CuPy\(1\)"):
        CuPy(index)


def test_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, gpus=1)
    with fresh_devices(), pytest.raises(ArgumentError, match=r"there is 1, numbered from 0: use CuPy\(0\)"):
        CuPy(1)


def test_cupy_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with (
        fresh_devices(),
        pytest.raises(BackendUnavailableError, match=r'pip install "burnpy\[cuda13\]".*burnpy\[cuda12\]'),
    ):
        CuPy()
    with fresh_devices():
        assert not CuPy.is_available()
        assert not Autodiff[CuPy].is_available()


def test_a_folder_named_cupy_is_not_cupy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cupy").mkdir()
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(folder for folder in sys.path if not has_cupy(folder))])
    with fresh_devices(), pytest.raises(BackendUnavailableError, match=rf"imported \['{tmp_path}/cupy'\] in its place"):
        CuPy()
    assert not CuPy.is_available()
    del sys.modules["cupy"]


def has_cupy(folder: str) -> bool:
    return (Path(folder) / "cupy" / "__init__.py").exists()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"version": "13.6.0"}, r"cupy 14\.2 or newer, and found 13\.6\.0; install it with"),
        ({"version": "14.1.0rc1"}, r"and found 14\.1\.0rc1"),
        ({"status": 35}, "found no CUDA driver; install"),
        ({"status": 35, "driver": 12040}, r'supports CUDA 12\.4, and this CuPy needs 13\.2; .*"burnpy\[cuda12\]"'),
        (
            {"status": 35, "driver": 11080},
            r"supports CUDA 11\.8, and this CuPy needs 13\.2; install a newer driver, or use",
        ),
        ({"status": 803}, r"does not start \(CUDA error 803\); see that nvidia-smi"),
        ({"status": 100}, "found no GPU"),
        ({"gpus": 0}, "found no GPU"),
    ],
    ids=["old", "candidate", "driver", "old driver", "older driver", "start", "device", "none"],
)
def test_there_is_no_gpu(how: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, **how)
    with fresh_devices(), pytest.raises(BackendUnavailableError, match=message):
        CuPy()
    assert not CuPy.is_available()


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("NVRTC", "library NVRTC, which compiles its kernels"),
        ("cuBLAS", "library cuBLAS, which multiplies matrices"),
        ("headers", "headers, which its kernels include"),
    ],
)
def test_a_library_of_cuda_is_missing(missing: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, missing=missing)
    words = rf'found a GPU, but not CUDA\'s {said}; .*pip install "cupy-cuda13x\[ctk\]"'
    with fresh_devices(), pytest.raises(BackendUnavailableError, match=words):
        CuPy()
    assert not CuPy.is_available()


def test_a_default_stream_for_each_thread_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    monkeypatch.setenv("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "1")
    with (
        fresh_devices(),
        pytest.raises(BackendUnavailableError, match=r"PER_THREAD_DEFAULT_STREAM is set, .*; unset it"),
    ):
        CuPy()


def test_a_library_is_missed_when_it_is_needed(monkeypatch: pytest.MonkeyPatch, journal: Journal) -> None:
    def missing(*args: Any) -> Any:
        raise ImportError("libcusolver.so.12: cannot open shared object file")

    x = Tensor[CuPy].ones((2, 2))
    monkeypatch.setattr(CuPy().xp.linalg._source, "qr", missing, raising=True)
    with pytest.raises(BackendUnavailableError, match="CUDA's library cuSOLVER, which decomposes matrices"):
        linalg.qr(x)
    monkeypatch.setattr(CuPy().xp.fft._source, "rfft", missing, raising=True)
    with pytest.raises(BackendUnavailableError, match="CUDA's library cuFFT, which transforms signals"):
        fft.rfft(x)


def test_importing_the_backend_does_not_import_cupy() -> None:
    import subprocess

    code = "import sys, burnpy_cupy; sys.exit('cupy' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_bool_and_int_results(journal: Journal) -> None:
    device = CuPy()
    x = device.from_numpy(np.array([True, False, True]))
    assert device.sum(x, (0,), False).dtype == int64
    assert device.any(x, (0,), False).dtype == bool_
    assert device.to_numpy(device.nonzero(x)).tolist() == [[0], [2]]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (CuPy, Autodiff[CuPy]),
        (Autodiff[CuPy], CuPy),
        (Autodiff[Profiled[CuPy]], Autodiff[Autodiff[CuPy]]),
        (Autodiff[Balanced[CuPy]], Profiled[CuPy]),
        (CuPy, Autodiff[Balanced[CuPy]]),
        (CuPy, lambda: Forward(CuPy)),
        (CuPy, lambda: CuPy(1)),
    ],
    ids=range(7),
)
@pytest.mark.parametrize("kind", [Tensor, IntTensor, BoolTensor])
def test_what_is_on_gpus_stays_there(source: Any, target: Any, kind: Any, journal: Journal) -> None:
    x = kind.ones((2, 3), device=source)
    goal = target() if isinstance(target, FunctionType) else target
    before = journal.waits
    y = x.to_device(goal)
    assert journal.waits == before, "it went through the CPU"
    assert y.device is device_of(goal)
    assert (y.tolist(), y.dtype) == (x.tolist(), x.dtype)
    assert ("asarray", 1, ()) in journal.records or y.device is not CuPy(1)
    assert journal.current == 0
