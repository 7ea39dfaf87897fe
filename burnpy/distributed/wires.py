"""The ways on which buckets of gradients travel between ranks: through the memory of the host, or from GPU to GPU."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from burnpy.distributed.buffers import BufferPool
from burnpy.distributed.calls import Alone, Header
from burnpy.distributed.sums import sum_bucket
from burnpy.optim.grads_params import GradientsParams
from burnpy.optim.layout import Layout
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor

if TYPE_CHECKING:
    from burnpy.backend.runtime import Communicator


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
        """Return the sum; what is asked of the device next waits for it."""
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
