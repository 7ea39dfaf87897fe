"""`Nccl`: sums of arrays over the GPUs of several processes, by NVIDIA's NCCL.

It has not run on GPUs yet: `tests/hostcuda/test_distributed.py` runs it on CuPy's own wrapper of NCCL, with a library
beneath that sums in the memory of the host.
"""

from __future__ import annotations

import socket
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from burnpy.backend.errors import GroupError


class Seat(NamedTuple):
    """The message of a rank to the others before they join."""

    host: str
    gpu: str  #: its address on the host's bus: two ranks cannot share a GPU
    unique_id: Any  #: of the communicator, on rank 0


def joined(device: Any, rank: int, size: int, share: Callable[[Any], list[Any]]) -> Nccl | None:
    """Return the communicator of all ranks; None if one of them has no NCCL or no GPU of its own.

    Args:
        device: a `CuPy` device, as the current one.
        rank: of this process.
        size: the number of ranks.
        share: returns the value of each rank.
    """
    nccl = library()
    mine = None
    if nccl is not None:
        mine = Seat(socket.gethostname(), place(device), nccl.get_unique_id() if rank == 0 else None)
    every = share(mine)
    if nccl is None or None in every or len({seat[:2] for seat in every}) < size:
        if rank == 0:
            lacking = [number for number, seat in enumerate(every) if seat is None]
            why = (
                f"rank {lacking[0]} has no NCCL; install nvidia-nccl-cu13, or -cu12 as CuPy's version of CUDA is"
                if lacking
                else "ranks share a GPU; give each its own, as with CuPy(group.rank)"
            )
            warnings.warn(f"gradients travel through the memory of the host, since {why}", RuntimeWarning, stacklevel=2)
        return None
    try:
        return Nccl(device, nccl, nccl.NcclCommunicator(size, every[0].unique_id, rank))
    except nccl.NcclError as error:
        raise GroupError(
            f"NCCL cannot join {device.name} of rank {rank} to the GPUs of {size} ranks: {error}; NCCL_DEBUG=INFO in "
            "the environment says more"
        ) from error


def library() -> Any:
    """Return CuPy's wrapper of NCCL; None where the library is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CuPy warns of a missing library
        nccl = import_module("cupy.cuda.nccl")
    return nccl if nccl.available else None


def place(device: Any) -> str:
    """Return the address of a device on the bus of its host."""
    return str(device.xp.cuda.Device(device.index).pci_bus_id)


class Nccl:
    """Sums over the ranks of a group, on a stream of their own, so that the GPU computes meanwhile.

    No call waits for the GPU. Sums begin when the arrays are computed, in the order of the calls, which is the same on
    all ranks; work queued after `wait` begins when the sum is complete.

    Args:
        device: a `CuPy` device.
        nccl: ``cupy.cuda.nccl``.
        communicator: an ``NcclCommunicator``.
    """

    def __init__(self, device: Any, nccl: Any, communicator: Any) -> None:
        self._device, self._nccl, self._communicator = device, nccl, communicator
        self._dtypes = {"float32": nccl.NCCL_FLOAT32, "float64": nccl.NCCL_FLOAT64}
        self._stream = device.xp.cuda.Stream(non_blocking=True)  # one that the default stream does not wait for
        self._abandoned: list[Any] = []

    def begin_sum(self, x: Any) -> Any:
        """Begin to replace an array of float32 or float64 by the sum over the ranks; return the request."""
        return self._device._call(self._begin, x)

    def _begin(self, x: Any) -> Any:
        event = self._device.xp.cuda.Event
        computed, done = event(disable_timing=True), event(disable_timing=True)
        computed.record(self._device._streams.current())
        self._stream.wait_event(computed)
        kind = self._dtypes[x.dtype.name]
        self._communicator.allReduce(x.data.ptr, x.data.ptr, x.size, kind, self._nccl.NCCL_SUM, self._stream.ptr)
        done.record(self._stream)
        return done, x

    def wait(self, request: Any) -> Any:
        """Let all later work wait for a sum; return the array."""
        done, x = request
        self._device._call(lambda: self._device._streams.current().wait_event(done))
        return x

    def abandon(self, requests: list[Any]) -> None:
        """Keep the memory of sums that will never be waited for."""
        self._abandoned += requests
