"""Gradients from GPU to GPU: CuPy's own wrapper of NCCL, on a library that sums in the memory of the host.

The ranks are threads, each with a device of the kit. It shows which functions are called with which arguments, and that
the results are those of the way through the host; not that NCCL gets along with them.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hostcuda import simulator

simulator.require()

from burnpy import Autodiff, Tensor  # noqa: E402  # the kit first
from burnpy.backend import CuPy, Mixed, errors  # noqa: E402
from burnpy.distributed import Group, transport  # noqa: E402
from burnpy.distributed.mpi_calls import Alone, Header  # noqa: E402
from burnpy.distributed.reduction import Reduction  # noqa: E402
from burnpy.nn import BatchNorm, Linear, Relu, Sequential  # noqa: E402
from burnpy.optim import AdamW, GradientsParams  # noqa: E402
from burnpy.optim.gradients import flat_buckets  # noqa: E402
from burnpy_cupy import nccl as module  # noqa: E402
from tests.distributed.threads import on_threads, paused  # noqa: E402

TURNS = threading.Lock()
"""Held by the rank that computes: the kit's kernels are not safe for threads."""


def on_ranks(size: int, function: Callable[[Group], Any]) -> list[Any]:
    return on_threads(size, function, TURNS)


def loaded() -> Any:
    """Load the stand-in for NCCL under its name, and return it."""
    source = Path(__file__).with_name("nccl.cpp")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "libnccl.so.2"
        options = ["-O1", "-std=c++17", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2"]
        subprocess.run(["g++", *options, str(source), "-o", str(out)], check=True)
        return ctypes.CDLL(str(out), mode=ctypes.RTLD_GLOBAL)


LIBRARY = loaded()
"""Loaded before any test runs, since CuPy's wrapper looks for NCCL once."""


@pytest.fixture(scope="module")
def library() -> Iterator[Any]:
    """The stand-in for NCCL, whose ranks take turns."""
    nccl = module.library()
    assert nccl is not None, "CuPy's wrapper did not find the library"

    class Pausing(nccl.NcclCommunicator):  # type: ignore[misc,name-defined]  # of a module that was imported by name
        """Lets the other ranks take their turns while it waits for them."""

        def allReduce(self, *args: Any) -> None:  # noqa: N802  # NCCL's name
            with paused(TURNS):
                super().allReduce(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nccl, "NcclCommunicator", Pausing)
        yield LIBRARY


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of 256 bytes, so that small models have several."""
    monkeypatch.setattr(flat_buckets.Layout.of, "__defaults__", (256,))


def network(device: Any, *, norm: bool) -> Any:
    norms: list[Any] = [BatchNorm(8, device=device)] if norm else []
    return Sequential(
        Linear(4, 8, device=device), *norms, Relu(), Linear(8, 8, device=device), Linear(8, 3, device=device)
    )


def loss_of(model: Any, rank: int, step: int) -> Any:
    rows = np.random.default_rng((rank, step)).normal(size=(3 + rank, 4)).astype("float32")
    return model(Tensor.from_data(rows, device=model.device)).square().mean()


def trained(group: Group, first: Any, how: Callable[..., Any], wrap: Callable[[Any], Any]) -> Any:
    model, optim = first.fork(Autodiff(wrap(CuPy(group.rank)))), AdamW()
    for step in range(3):
        loss = loss_of(model, group.rank, step)
        model = optim.step(0.1, model, how(group, loss, model, 3.0 + group.rank))
    return [variable.value.to_numpy() for variable in model._variables().values()]


def averaged(group: Group, loss: Any, model: Any, weight: float) -> GradientsParams[Any]:
    return group.mean(GradientsParams.from_grads(loss.backward(), model), weight=weight)


def overlapped(group: Group, loss: Any, model: Any, weight: float) -> GradientsParams[Any]:
    return group.backward(loss, model, weight=weight)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("how", [averaged, overlapped])
@pytest.mark.parametrize("wrap", [lambda device: device, Mixed], ids=["CuPy", "Mixed"])
def test_the_results_are_those_of_the_way_through_the_host(
    library: Any, how: Any, norm: bool, wrap: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = network(Autodiff[CuPy], norm=norm)
    before = library.fake_nccl_sums()
    direct = on_ranks(2, lambda group: trained(group, first, how, wrap))
    assert library.fake_nccl_sums() > before + 6, "nothing went by NCCL"
    between = library.fake_nccl_sums()
    monkeypatch.setattr(module, "library", lambda: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        staged = on_ranks(2, lambda group: trained(group, first, how, wrap))
    assert library.fake_nccl_sums() == between
    for one, two in zip(direct, staged, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(one, two, strict=True))
    assert all(np.array_equal(x, y) for x, y in zip(*direct, strict=True))


def test_gradients_are_not_written_to(library: Any) -> None:
    def rank(group: Group) -> Any:
        model = network(Autodiff(CuPy(group.rank)), norm=False)
        model = group.broadcast(model).to_device(Autodiff(CuPy(group.rank)))
        for step in range(2):
            grads = GradientsParams.from_grads(loss_of(model, group.rank, step).backward(), model)
            before = {key: value.to_numpy().copy() for key, value in grads.items()}
            mean = group.mean(grads)
            assert all(np.array_equal(value.to_numpy(), before[key]) for key, value in grads.items())
        return {mean._paths[key]: value.to_numpy() for key, value in mean.items()}

    one, two = on_ranks(2, rank)
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[key], two[key]) for key in one)


def test_a_rank_without_examples(library: Any) -> None:
    def idle(group: Group) -> Any:
        model = first.fork(Autodiff(CuPy(group.rank)))
        for step in range(2):
            has = group.rank == 0
            grads = group.backward(loss_of(model, 0, step) if has else None, model, weight=float(has))
        return [value.to_numpy() for value in grads.values()]

    first = network(Autodiff(CuPy(0)), norm=True)
    one, two = on_ranks(2, idle)
    assert all(np.array_equal(x, y) for x, y in zip(one, two, strict=True))


def test_where_there_is_no_way_it_says_why_once(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def mean(group: Group) -> float:
        model = first.fork(Autodiff(CuPy(0)))
        return float(averaged(group, loss_of(model, 0, 0), model, 1.0).norm().item())

    first = network(Autodiff[CuPy], norm=False)
    with pytest.warns(RuntimeWarning, match=r"ranks share a GPU; give each its own") as told:
        on_ranks(2, mean)
    assert len(told) == 1
    monkeypatch.setattr(module, "library", lambda: None)
    with pytest.warns(RuntimeWarning, match=r"rank 0 has no NCCL; install nvidia-nccl-cu13"):
        on_ranks(2, mean)


def test_an_error_of_nccl_names_the_rank(library: Any) -> None:
    nccl = module.library()
    seats = [module.Seat("a", "0", nccl.get_unique_id()), module.Seat("b", "1", None)]
    with pytest.raises(errors.GroupError, match=r"NCCL cannot join CuPy\(0\) of rank 5 to .* 2 ranks: .*NCCL_DEBUG"):
        CuPy(0).communicator(5, 2, lambda mine: seats)


class Doubled(Alone):
    """Two ranks that do the same: a sum is twice what one has."""

    size = 2

    def open(self, header: Header) -> list[Header]:
        return [header, header]

    def sum(self, array: Any) -> None:
        array *= 2


@pytest.mark.filterwarnings("ignore:gradients travel through the memory of the host")  # there is no NCCL here
@pytest.mark.parametrize("large", [4, 1 << 18])
def test_gradients_of_a_gpu_are_averaged_through_the_host(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = Linear(3, 2, device=Autodiff[CuPy])
    x = Tensor[Autodiff[CuPy]].from_data([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    grads = GradientsParams.from_grads(model(x).sum().backward(), model)
    monkeypatch.setattr(transport, "LARGE", large)
    transport.runs_of.cache_clear()
    mean = Reduction(Doubled()).mean(grads, 2.0)
    transport.runs_of.cache_clear()
    assert mean.device is grads.device
    assert mean["weight"].tolist() == grads["weight"].tolist() == [[5.0, 5.0], [7.0, 7.0], [9.0, 9.0]]
    buckets, layout = grads.flatten()
    assert layout.unflatten(buckets)["bias"].tolist() == [2.0, 2.0]
