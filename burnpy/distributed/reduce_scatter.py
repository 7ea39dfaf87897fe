"""The mean of gradients, where each rank gets its own part: a reduce-scatter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.layout import Entry, Layout
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor

if TYPE_CHECKING:
    from burnpy.distributed.calls import Alone
    from burnpy.distributed.wires import BufferPool

_AT_ONCE = 4
"""The number of buckets that are sent at the same time."""


class Parts:
    """A layout of gradients that is divided among ranks.

    Args:
        layout: of all gradients.
        owners: the rank of each parameter by id. Values without an owner, such as updates of buffers, go to all ranks.
        size: the number of ranks.
    """

    def __init__(self, layout: Layout[Any], owners: Mapping[str, int], size: int) -> None:
        rows: list[list[Entry]] = [[] for _ in range(size)]
        common: list[Entry] = []
        for entry in layout.entries:
            (rows[owners[entry.ident]] if entry.ident in owners else common).append(entry)
        self._common, *self._shares = (
            Layout(layout.device, row, layout.paths, GradientsParams, layout.bucket_bytes) for row in (common, *rows)
        )
        self._order = sorted(
            ((rank, index) for rank, share in enumerate(self._shares) for index in range(len(share.buckets))),
            key=lambda item: item[1],
        )
        """The rank and number of each bucket: the ranks take turns, so that all of them receive at once."""

    def mean(
        self, calls: Alone, pool: BufferPool, grads: GradientsParams[Any] | None, scale: float
    ) -> GradientsParams[Any]:
        """Return the sum over the ranks of scaled gradients, for this rank's parameters and those without an owner."""
        arrays = [pool.take(*spec) for spec in self._common.buckets]
        for index, array in enumerate(arrays):
            self._common.write_bucket(index, grads, array, scale)
            calls.sum(array)
        common = unflattened(self._common, arrays)
        kept: list[Any] = []
        for first in range(0, len(self._order), _AT_ONCE):
            requests: list[Any] = []
            try:
                for rank, index in self._order[first : first + _AT_ONCE]:
                    array = pool.take(*self._shares[rank].buckets[index])
                    self._shares[rank].write_bucket(index, grads, array, scale)
                    requests.append(calls.begin_reduce(array, rank))
                    if rank == calls.rank:
                        kept.append(array)
                for request in requests:
                    calls.wait(request)
            except BaseException:
                calls.abandon(requests)
                raise
        own = unflattened(self._shares[calls.rank], kept)
        return GradientsParams(
            own.device,
            own._values | common._values,
            paths=own._paths,
            updates=common._updates,
            found_inf=common._found_inf,
        )


def unflattened(layout: Layout[Any], arrays: list[Any]) -> GradientsParams[Any]:
    """Return the gradients in buckets in the memory of the host."""
    device: Any = layout.device
    return layout.unflatten([new_tensor(Tensor, device, device.adopt_numpy(array)) for array in arrays])
