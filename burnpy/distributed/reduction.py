"""The weighted mean of gradients over ranks, by way of buckets in the memory of the host."""

from __future__ import annotations

import math
import pickle
from typing import Any, TypeAlias

from burnpy.backend.errors import ArgumentError
from burnpy.distributed.buffers import BufferPool
from burnpy.distributed.calls import Alone, Header
from burnpy.distributed.plans import described, joint_layout
from burnpy.optim.grads_params import GradientsParams
from burnpy.optim.layout import Layout
from burnpy.tensor.base import new_tensor
from burnpy.tensor.tensor import Tensor

Key: TypeAlias = tuple[object, ...]

_KEPT = 64
"""The number of layouts that are kept. Models in which parameters take turns have several."""


class Reduction:
    """Averages gradients; keeps the layouts that the ranks have agreed on, and memory for buckets.

    Before the buckets are summed, each rank tells its weight and the digest of its layout. Where all digests are known,
    nothing else is exchanged; otherwise the ranks tell each other their layouts once.
    """

    def __init__(self, calls: Alone) -> None:
        self._calls = calls
        self._pool = BufferPool()
        self._own: dict[Key, Layout[Any]] = {}
        self._joint: dict[tuple[bytes, ...], Layout[Any]] = {}
        self._device: Any = None

    def mean(self, grads: GradientsParams[Any] | None, weight: float) -> GradientsParams[Any]:
        """Return the mean over the ranks: see `burnpy.distributed.Group.mean`."""
        if self._calls.size == 1 and grads is not None:
            return grads
        own = None if grads is None or weight == 0.0 else self._layout(grads)
        headers = self._calls.open(Header("mean", weight, 0, b"\0" * 32 if own is None else own.digest))
        total = math.fsum(header.weight for header in headers)
        if not 0.0 < total < math.inf:
            raise ArgumentError(
                f"mean() was given the weights {[header.weight for header in headers]}; one is positive"
            )
        if own is not None:
            self._device = own.device
        layout = self._agreed(own, tuple(header.digest for header in headers))
        arrays = [self._pool.take(*spec) for spec in layout.buckets]
        for index, array in enumerate(arrays):
            layout.write_bucket(index, None if own is None else grads, array, weight / total)
            self._calls.sum(array)
        device: Any = layout.device
        return layout.unflatten([new_tensor(Tensor, device, device.adopt_numpy(array)) for array in arrays])

    def _layout(self, grads: GradientsParams[Any]) -> Layout[Any]:
        """Return the layout of gradients, the same object for the same parameters."""
        key: Key = (
            grads.device,
            grads.found_inf is None,
            *(
                (ident, value.shape, value.dtype)
                for held in (grads._values, grads._updates)
                for ident, value in held.items()
            ),
        )
        known = self._own.get(key)
        if known is None or known.paths != grads._paths:
            _make_room(self._own)
            known = self._own[key] = Layout.of(grads)
        return known

    def _agreed(self, own: Layout[Any] | None, digests: tuple[bytes, ...]) -> Layout[Any]:
        """Return the layout of what any rank has, on this rank's device."""
        joint = self._joint.get(digests)
        if joint is None:
            if own is not None and digests.count(own.digest) == len(digests):
                joint = own
            else:
                data = pickle.dumps(None if own is None else (own.device, described(own)))
                headers = self._calls.open(Header("mean", nbytes=len(data)))
                every = [pickle.loads(each) for each in self._calls.gather(data, [header.nbytes for header in headers])]
                if self._device is None:  # this rank never had gradients
                    self._device = next(each[0] for each in every if each is not None)
                joint = joint_layout(
                    [None if each is None else each[1] for each in every], self._device, GradientsParams
                )
            _make_room(self._joint)
            self._joint[digests] = joint
        return joint.on(self._device)


def _make_room(cache: dict[Any, Any]) -> None:
    if len(cache) >= _KEPT:
        cache.pop(next(iter(cache)))
