"""A group of one, and the sentences for what goes wrong before ranks meet."""

from __future__ import annotations

import pickle
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import (
    ArgumentError,
    GroupError,
    ImmutableError,
    KindError,
    MissingPackageError,
    RanksLostError,
    WaitError,
)
from burnpy.distributed import Elastic, Group, mpi, transport
from burnpy.distributed.elastic import TolerantCalls
from burnpy.distributed.mpi_calls import Alone, Calls, Header, Watchdog
from burnpy.distributed.reduction import Reduction
from burnpy.distributed.transport import BufferPool
from burnpy.nn import BatchNorm, Linear, Sequential
from burnpy.optim import GradientsParams

Train = Autodiff[NumPy]
LAUNCHERS = (*mpi._SIZES, "PMIX_RANK", "SLURM_NTASKS", "WORLD_SIZE")


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)


def gradients(x: float = 1.0) -> GradientsParams[Any]:
    model = Sequential(Linear(3, 4, device=Train), BatchNorm(4, device=Train), Linear(4, 2, device=Train))
    data = Tensor[Train].from_data([[x, 2.0, 3.0], [-1.0, 0.5, 1.0]])
    return GradientsParams.from_grads(model(data).square().sum().backward(), model)


def test_alone() -> None:
    group = Group.world()
    grads = gradients()
    assert (group.rank, group.size, group.leads) == (0, 1, True)
    assert group.mean(grads, weight=3) is grads
    model = Linear(2, 1, device=Train)
    assert group.broadcast(model) is model
    group.check(model)
    group.barrier()
    assert group.gather(3) == [3]
    assert "alone" in repr(group)


def test_mistakes() -> None:
    group = Group.world()
    with pytest.raises(KindError, match=r"GradientsParams.from_grads\(loss.backward\(\), model\)"):
        group.mean({})  # type: ignore[arg-type]  # as a user might
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match=r"finite number of at least 0|NaN"):
            group.mean(gradients(), weight=weight)
    with pytest.raises(ArgumentError, match="ranks go from 0 to 0"):
        group.broadcast(3, root=1)
    with pytest.raises(KindError, match="takes a model"):
        group.check(3)  # type: ignore[arg-type]  # as a user might
    with pytest.raises(ArgumentError, match="positive"):
        Group.world(timeout=0.0)
    with pytest.raises(ImmutableError, match="never changes"):
        group.rank = 1
    with pytest.raises(ImmutableError, match="rank cannot be set or deleted"):
        del group.rank
    with pytest.raises(KindError, match=r"each process calls Group.world\(\)"):
        pickle.dumps(group)


def test_a_forgotten_launcher_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "8")
    with pytest.warns(RuntimeWarning, match="group of one, as no launcher .* Slurm has reserved 8 tasks; .*mpiexec"):
        assert Group.world().size == 1


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setitem(sys.modules, "mpi4py", None)  # an import of it fails, as if it were not installed
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    with pytest.raises(MissingPackageError, match=r"pip install .burnpy\[mpi\]"):
        Group.world()


def library(version: str, size: int = 1) -> Any:
    return SimpleNamespace(
        COMM_WORLD=SimpleNamespace(size=size, rank=0), Get_library_version=lambda: version, Exception=ValueError
    )


def test_a_launcher_of_another_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_SIZE", "4")
    monkeypatch.setattr("burnpy.distributed.group.import_mpi", lambda: library("Open MPI v5.0.11\nand more"))
    with pytest.raises(GroupError, match=r"started 4 processes, .* than mpi4py loads, Open MPI v5.0.11; install"):
        Group.world()


class OfTwo(Calls):
    """A group of two on a communicator that is not asked."""

    def __init__(self, mpi: Any) -> None:
        self.mpi, self.comm, self.timeout, self.hosts, self.rank, self.size = mpi, None, 1.0, ("a", "b"), 0, 2


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("MPICH Version: 5.0.1\nand more", "needs Open MPI, .* this program runs on MPICH Version: 5.0.1; install"),
        ("Open MPI v5.0.11, package: more", "needs fault tolerance, .* mpiexec --with-ft ulfm -n N"),
    ],
)
def test_elastic_is_refused_without_fault_tolerance(version: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMPI_MCA_mpi_ft_enable", raising=False)
    with pytest.raises(GroupError, match=wanted):
        Elastic(Group(OfTwo(library(version, 2))))


def test_what_mpi_reports_is_a_group_error() -> None:
    mpi = SimpleNamespace(ERR_PROC_FAILED=1, ERR_PROC_FAILED_PENDING=2, ERR_REVOKED=3)
    calls: Any = TolerantCalls.__new__(TolerantCalls)
    calls.mpi, calls.rank, calls.size, calls._operation = mpi, 0, 2, "mean"
    calls.waits = SimpleNamespace(name=str)
    error: Any = RuntimeError("out of buffers")
    error.Get_error_class = lambda: 17
    assert type(calls.error(error)) is GroupError
    assert "out of buffers" in str(calls.error(error))
    error.Get_error_class = lambda: 3
    assert type(calls.error(error)) is RanksLostError
    assert issubclass(WaitError, TimeoutError)


def test_a_blocking_call_has_a_limit() -> None:
    told: list[str] = []
    watchdog = Watchdog(0.2, told.append)
    with watchdog.limited("quick"):
        pass
    time.sleep(0.4)
    assert told == []
    with watchdog.limited("slow"):
        limit = time.monotonic() + 30.0
        while not told and time.monotonic() < limit:
            time.sleep(0.01)
    assert told == ["slow"]


class Doubled(Alone):
    """Two ranks that do the same: a sum is twice what one has."""

    size = 2

    def open(self, header: Header) -> list[Header]:
        return [header, header]

    def sum(self, array: Any) -> None:
        array *= 2


@pytest.mark.parametrize("large", [8, 1 << 18])
def test_an_asynchronous_device_is_read_once_for_each_bucket(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    grads = gradients()
    read: list[tuple[int, ...]] = []
    to_numpy = NumPy.to_numpy

    def noted(self: Any, x: Any) -> Any:
        read.append(x.shape)
        return to_numpy(self, x)

    monkeypatch.setattr(transport, "LARGE", large)
    transport.runs_of.cache_clear()
    monkeypatch.setattr(NumPy, "eager_checks", False)
    monkeypatch.setattr(NumPy, "to_numpy", noted)
    mean = Reduction(Doubled()).mean(grads, 2.0)
    transport.runs_of.cache_clear()
    assert read == [(44,)]
    monkeypatch.undo()
    for ident, grad in grads.items():
        np.testing.assert_allclose(mean[ident].to_numpy(), grad.to_numpy(), rtol=1e-6)
    for ident, update in grads.buffer_updates.items():
        np.testing.assert_allclose(mean.buffer_updates[ident].to_numpy(), 2.0 * update.to_numpy(), rtol=1e-6)


def test_memory_is_lent_again_when_nothing_refers_to_it() -> None:
    pool = BufferPool()
    reduction = Reduction(Doubled())
    assert pool.take(np.dtype("float64"), 0).size == 0
    grads, addresses = gradients(), set[int]()
    kept: list[Any] = []
    for _ in range(6):
        mean = reduction.mean(grads, 1.0)
        addresses.add(mean["0.weight"].to_numpy().ctypes.data)
        kept = [mean["0.weight"].to_numpy()]  # an array that outlives the gradients keeps the memory
    assert 2 <= len(addresses) <= 3
    before = kept[0].copy()
    for _ in range(3):
        reduction.mean(grads * 5.0, 1.0)
    assert (kept[0] == before).all()
