"""The transport of gradient buckets between ranks: through the memory of the host, or from GPU to GPU."""

from __future__ import annotations

import pickle
import weakref
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from burnpy.distributed.mpi_calls import Alone, Header
from burnpy.optim.gradients.flat_buckets import Entry, Layout, Place, wire_dtype
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.primitives import DType
    from burnpy.backend.runtime import Communicator

_MAX_POOLED = 64
"""The number of memories that a pool keeps for one size."""


class BufferPool:
    """Lends arrays, and takes their memory back when the array and all views of it are gone.

    Gradients in a bucket are views of it. So memory that a gradient still refers to is never lent again, and in a loop
    that keeps the gradients of one step at a time, two sets of buckets take turns.

    >>> pool = BufferPool()
    >>> first = pool.take(np.dtype("float32"), 3)
    >>> view, address = first[1:], first.ctypes.data
    >>> del first
    >>> pool.take(np.dtype("float32"), 3).ctypes.data == address
    False
    >>> del view
    >>> pool.take(np.dtype("float32"), 3).ctypes.data == address
    True
    """

    def __init__(self) -> None:
        self._free: dict[int, deque[memoryview]] = {}

    def take(self, dtype: DType, size: int) -> NDArray[Any]:
        """Return a 1-d array of undefined values."""
        nbytes = dtype.itemsize * size
        free = self._free.setdefault(nbytes, deque(maxlen=_MAX_POOLED))
        try:
            memory = free.pop()
        except IndexError:
            owner: Any = np.empty(nbytes, np.uint8)
            memory = memoryview(owner)
        array = np.frombuffer(memory, dtype, size)  # views of it refer to it, as its own memory is not an array
        weakref.finalize(array, free.append, memory).atexit = False
        return array


LARGE = 1 << 18
"""The least number of bytes for which a gradient is summed by itself."""

_SEGMENT = 1 << 14
"""The smallest number of bytes of each rank's part of such a sum."""


class BucketRun(NamedTuple):
    """Neighbours in a bucket that are summed together: one large gradient, or small ones."""

    large: bool
    start: int
    stop: int
    entries: tuple[tuple[Entry, Place], ...]


@lru_cache(64)
def runs_of(layout: Layout[Any], size: int) -> tuple[tuple[BucketRun, ...], ...]:
    """Return the runs of each bucket, which depend on the layout and the number of ranks alone."""
    limit = max(LARGE, _SEGMENT * size)
    buckets: list[tuple[BucketRun, ...]] = []
    for row in layout.by_bucket:
        runs: list[BucketRun] = []
        for entry, place in row:
            nbytes = (place.stop - place.start) * entry.dtype.itemsize
            large = entry.kind == "gradient" and entry.dtype == wire_dtype(entry.dtype) and nbytes >= limit
            if runs and not large and not runs[-1].large:
                last = runs.pop()
                runs.append(BucketRun(False, last.start, place.stop, (*last.entries, (entry, place))))
            else:
                runs.append(BucketRun(large, place.start, place.stop, ((entry, place),)))
        buckets.append(tuple(runs))
    return tuple(buckets)


def sum_bucket(
    calls: Alone,
    layout: Layout[Any],
    index: int,
    grads: GradientsParams[Any] | None,
    array: NDArray[Any],
    factors: Sequence[float],
) -> None:
    """Fill an array with the sum over the ranks of a bucket of gradients, each multiplied by the rank's factor.

    Args:
        calls: of the group.
        layout: that all ranks have agreed on.
        index: of the bucket.
        grads: this rank's, or None.
        array: of the bucket's dtype and size.
        factors: of all ranks.
    """
    staged = layout.stage(index, grads, array)
    for large, start, stop, entries in runs_of(layout, calls.size)[index]:
        target = array[start:stop]
        if large:
            source = target if staged else layout.source(entries[0][0], grads, target.dtype)
            if source is None:
                target.fill(0)
                source = target
            calls.weighted_sum(source, target, factors)
            continue
        for entry, place in entries:
            part = array[place.start : place.stop]
            layout.write_entry(entry, grads, part, factors[calls.rank], staged=staged)
        calls.sum(target)


class Wire(Protocol):
    """A way to sum buckets over ranks."""

    def sum(
        self, layout: Layout[Any], index: int, grads: GradientsParams[Any] | None, factors: Sequence[float]
    ) -> Tensor[Any]:
        """Return the sum over the ranks of a bucket, with gradients multiplied by the factor of each rank."""
        ...

    def begin(self, layout: Layout[Any], index: int, grads: GradientsParams[Any] | None, scale: float) -> Any:
        """Begin such a sum, with this rank's gradients multiplied by ``scale``; return the request."""
        ...

    def progress(self, request: Any) -> None:
        """Let sums that have begun go on."""
        ...

    def wait(self, layout: Layout[Any], request: Any) -> Tensor[Any]:
        """Return the sum, once it is complete."""
        ...

    def abandon(self, requests: list[Any]) -> None:
        """Keep the memory of sums that will never be waited for."""
        ...


class _Sum(NamedTuple):
    request: Any
    array: Any


class HostWire:
    """Buckets in the memory of the host, which MPI sums.

    Args:
        calls: of the group.
        pool: memory for the buckets.
    """

    def __init__(self, calls: Alone, pool: BufferPool) -> None:
        self._calls, self._pool = calls, pool

    def sum(
        self, layout: Layout[Any], index: int, grads: GradientsParams[Any] | None, factors: Sequence[float]
    ) -> Tensor[Any]:
        """Return the sum over the ranks of a bucket."""
        array = self._pool.take(*layout.buckets[index])
        sum_bucket(self._calls, layout, index, grads, array, factors)
        return self._tensor(layout, array)

    def begin(self, layout: Layout[Any], index: int, grads: GradientsParams[Any] | None, scale: float) -> _Sum:
        """Begin the sum of a bucket."""
        array = self._pool.take(*layout.buckets[index])
        layout.write_bucket(index, grads, array, scale)
        return _Sum(self._calls.begin_sum(array), array)

    def progress(self, request: _Sum) -> None:
        """Let MPI move data, which it does while it is called."""
        self._calls.progress(request.request)

    def wait(self, layout: Layout[Any], request: _Sum) -> Tensor[Any]:
        """Return the sum, once it is complete."""
        self._calls.wait(request.request)
        return self._tensor(layout, request.array)

    def abandon(self, requests: list[_Sum]) -> None:
        """Keep the memory of sums that will never be waited for."""
        self._calls.abandon([request.request for request in requests])

    def _tensor(self, layout: Layout[Any], array: Any) -> Tensor[Any]:
        device: Any = layout.device
        return new_tensor(Tensor, device, device.adopt_numpy(array))  # type: ignore[no-any-return]  # of that class


class DeviceWire:
    """Buckets on the device, summed in place by its own communicator.

    Args:
        communicator: of the device.
        rank: of this process.
    """

    def __init__(self, communicator: Communicator, rank: int) -> None:
        self._communicator, self._rank = communicator, rank

    def sum(
        self, layout: Layout[Any], index: int, grads: GradientsParams[Any] | None, factors: Sequence[float]
    ) -> Tensor[Any]:
        """Return the sum over the ranks of a bucket."""
        return self.wait(layout, self.begin(layout, index, grads, factors[self._rank]))

    def begin(self, layout: Layout[Any], index: int, grads: GradientsParams[Any] | None, scale: float) -> Any:
        """Begin the sum of a bucket, which the multiplication has made in new memory."""
        held = GradientsParams(layout.device, {}, paths={}) if grads is None else grads
        return self._communicator.begin_sum(layout.flatten_bucket(index, held, scale)._primitive)

    def progress(self, request: Any) -> None:
        """Do nothing: the device goes on by itself."""

    def wait(self, layout: Layout[Any], request: Any) -> Tensor[Any]:
        """Return the sum; the device's next operations wait for it."""
        return new_tensor(Tensor, layout.device, self._communicator.wait(request))  # type: ignore[no-any-return]  # of that class

    def abandon(self, requests: list[Any]) -> None:
        """Keep the memory of sums that will never be waited for."""
        self._communicator.abandon(requests)


def wire_of(calls: Alone, pool: BufferPool, device: Any) -> Wire:
    """Return the way for the gradients of a device; all ranks call it, and agree on one of them."""
    if calls.tolerant:  # a sum on the device would wait for lost ranks for ever
        return HostWire(calls, pool)

    def share(value: Any) -> list[Any]:
        data = pickle.dumps(value)
        sizes = [header.nbytes for header in calls.open(Header("transport", nbytes=len(data)))]
        return [pickle.loads(each) for each in calls.gather(data, sizes)]

    communicator = device.communicator(calls.rank, calls.size, share)
    return HostWire(calls, pool) if communicator is None else DeviceWire(communicator, calls.rank)
