"""The weighted mean of gradients over ranks, by way of flat buckets."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.backend.errors import ArgumentError
from burnpy.distributed.buffers import BufferPool
from burnpy.distributed.calls import Alone, Header
from burnpy.distributed.overlap import Overlap
from burnpy.distributed.parts import Parts
from burnpy.distributed.plans import described, joint_layout
from burnpy.distributed.wires import Wire, wire_of
from burnpy.optim.grads_params import GradientsParams
from burnpy.optim.layout import Layout
from burnpy.optim.matching import gradient_device

if TYPE_CHECKING:
    from burnpy.nn.module import Module
    from burnpy.tensor.tensor import Tensor

Key: TypeAlias = tuple[object, ...]

_NONE = b"\0" * 32
"""The digest of a rank without gradients, or without an expectation of them."""

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
        self._steady: dict[Key, tuple[Layout[Any], bool]] = {}
        """By model, the layout of the last `backward`, and whether it may be expected of the next."""
        self._wires: dict[Any, Wire] = {}
        self._parts: dict[Key, Parts] = {}

    def mean(self, grads: GradientsParams[Any] | None, weight: float) -> GradientsParams[Any]:
        """Return the mean over the ranks: see `burnpy.distributed.Group.mean`."""
        if self._calls.size == 1 and grads is not None:
            return grads
        own = None if grads is None or weight == 0.0 else self._layout(grads)
        digests, factors = self._opened("mean", weight, _NONE if own is None else own.digest)
        layout = self._agreed("mean", own, digests)
        wire, given = self._wire(layout.device), None if own is None else grads
        return layout.unflatten([wire.sum(layout, index, given, factors) for index in range(len(layout.buckets))])

    def backward(self, loss: Tensor[Any] | None, model: Module[Any], weight: float) -> GradientsParams[Any]:
        """Return the mean over the ranks of the gradients of a loss: see `burnpy.distributed.Group.backward`.

        The ranks first exchange their weights and the layout that they expect, from the last pass. If all expect the
        same layout, sums begin during the pass. After the pass they exchange the layouts they have. If these differ
        from the expected one, as by a parameter that had no gradient before, the sums are computed again.
        """
        params = [param for param in model.params() if not param.frozen]
        key: Key = (model.device, *((param.id, param.shape, param.dtype) for param in params))
        self._device = gradient_device(model)
        expected, steady = self._steady.get(key, (None, False))
        expectation = _NONE if expected is None or not steady else expected.digest
        digests, factors = self._opened("backward", weight, expectation)
        scale, overlap = factors[self._calls.rank], None
        if expected is not None and steady and digests.count(expected.digest) == len(digests):
            idents = {param.value._primitive.node: param.id for param in params}
            overlap = Overlap(self._wire(expected.device), expected, scale, idents)
        try:
            grads = None
            if loss is not None and weight > 0.0:
                grads = GradientsParams.from_grads(loss.backward(on_ready=overlap), model)
            if overlap is not None:
                overlap.flush(grads)
            own = None if grads is None else self._layout(grads)
            digests, _ = self._opened("backward", weight, _NONE if own is None else own.digest)
            layout = self._agreed("backward", own, digests)
            buckets = [] if overlap is None else overlap.wait()
            if overlap is None or layout != expected:
                overlap = Overlap(self._wire(layout.device), layout, scale, {})
                overlap.flush(grads)
                buckets = overlap.wait()
        except BaseException:
            if overlap is not None:
                overlap.abandon()
            raise
        _make_room(self._steady)
        self._steady[key] = layout, expected is None or layout == expected
        return layout.unflatten(buckets)

    def parts(
        self, grads: GradientsParams[Any] | None, weight: float, owners: Mapping[str, int]
    ) -> GradientsParams[Any]:
        """Return the mean over the ranks of the gradients that this rank owns.

        Args:
            grads: this rank's, or None.
            weight: of this rank.
            owners: the rank of each parameter by id; gradients of others are of all.
        """
        own = None if grads is None or weight == 0.0 else self._layout(grads)
        digests, factors = self._opened("mean of parts", weight, _NONE if own is None else own.digest)
        layout = self._agreed("mean of parts", own, digests)
        key: Key = (layout.device, layout.digest, *owners.items())
        parts = self._parts.get(key)
        if parts is None:
            _make_room(self._parts)
            parts = self._parts[key] = Parts(layout, owners, self._calls.size)
        return parts.mean(self._calls, self._pool, None if own is None else grads, factors[self._calls.rank])

    def exchange(self, operation: str, array: Any, sizes: Sequence[int], unit: int) -> None:
        """Fill in the bytes of the other ranks, in an array that has those of this one in its place: see `Calls`."""
        self._calls.open(Header(operation, nbytes=len(array)))
        self._calls.exchange(array, sizes, unit)

    def _wire(self, device: Any) -> Wire:
        """Return the way for the gradients of a device; the ranks agree on it at its first use."""
        wire = self._wires.get(device)
        if wire is None:
            wire = self._wires[device] = wire_of(self._calls, self._pool, device)
        return wire

    def _opened(self, operation: str, weight: float, digest: bytes) -> tuple[tuple[bytes, ...], list[float]]:
        """Return the digests of all ranks, and their shares of the sum of weights."""
        headers = self._calls.open(Header(operation, weight, 0, digest))
        total = math.fsum(header.weight for header in headers)
        if not 0.0 < total < math.inf:
            raise ArgumentError(
                f"{operation}() got the weights {[header.weight for header in headers]}; one is positive"
            )
        return tuple(header.digest for header in headers), [header.weight / total for header in headers]

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

    def _agreed(self, operation: str, own: Layout[Any] | None, digests: tuple[bytes, ...]) -> Layout[Any]:
        """Return the layout of the gradients of any rank, on this rank's device."""
        if own is not None:
            self._device = own.device
        joint = self._joint.get(digests)
        if joint is None:
            if own is not None and digests.count(own.digest) == len(digests):
                joint = own
            else:
                data = pickle.dumps(None if own is None else (own.device, described(own)))
                headers = self._calls.open(Header(operation, nbytes=len(data)))
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
