"""The weighted mean of gradients over ranks, in flat buckets that are sent while the backward pass still runs."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from burnpy.backend.errors import ArgumentError, GroupError
from burnpy.distributed.mpi_calls import Alone, Header
from burnpy.distributed.transport import BufferPool, Wire, wire_of
from burnpy.optim.gradients.flat_buckets import Entry, Layout
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.matching import gradient_device
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor

if TYPE_CHECKING:
    from burnpy.autodiff.graph import Leaf
    from burnpy.nn.module import Module

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


class Description(NamedTuple):
    """The description of a rank's gradients that it sends to the others."""

    paths: dict[str, str]
    entries: tuple[Entry, ...]
    bucket_bytes: int


Descriptions: TypeAlias = Sequence[Description | None]
"""One for each rank; None for a rank without gradients."""


def described(layout: Layout[Any]) -> Description:
    """Return the description of a rank's gradients' layout, for the other ranks."""
    return Description(layout.paths, layout.entries, layout.bucket_bytes)


def joint_layout(descriptions: Descriptions, device: Any, make: Any) -> Layout[Any]:
    """Return the layout of everything that any rank has, in the order of the model.

    Args:
        descriptions: at least one is not None.
        device: this rank's.
        make: `GradientsParams`.
    """
    given = {rank: each for rank, each in enumerate(descriptions) if each is not None}
    first, model = next(iter(given.items()))
    for rank, other in given.items():
        if other.paths != model.paths or list(other.paths) != list(model.paths):
            raise GroupError(_models_differ(first, model.paths, rank, other.paths), everywhere=True)
    merged: dict[str, tuple[int, Entry]] = {}
    for rank, each in given.items():
        for entry in each.entries:
            owner, known = merged.setdefault(entry.ident, (rank, entry))
            if (known.shape, known.dtype) != (entry.shape, entry.dtype) and entry.kind != "found_inf":
                raise GroupError(
                    f"mean() got gradients of {entry.path} of shape {known.shape} and dtype {known.dtype} on "
                    f"rank {owner}, and {entry.shape} and {entry.dtype} on rank {rank}; all "
                    "ranks must hold the same model: model = group.broadcast(model)",
                    everywhere=True,
                )
    position = {ident: place for place, ident in enumerate(model.paths)}
    kinds = {"gradient": 0, "update": 1, "found_inf": 2}
    entries = sorted(
        (entry for _, entry in merged.values()),
        key=lambda entry: (kinds[entry.kind], -position.get(entry.ident, -1), entry.ident),
    )
    return Layout(device, entries, model.paths, make, model.bucket_bytes)


def _models_differ(first: int, mine: Mapping[str, str], rank: int, theirs: Mapping[str, str]) -> str:
    """Return the message for ranks whose models have different parameters."""
    end = "; all ranks must hold the same model: model = group.broadcast(model) on all, before the first step"
    here, there = list(mine.values()), list(theirs.values())
    if here == there:
        return (
            f"mean() got gradients of parameters with other ids on rank {rank} than on rank {first}, such as "
            f"{here[0]}: each has made a model of its own{end}"
        )
    only = [path for path in here if path not in there], [path for path in there if path not in here]
    for owner, paths in ((first, only[0]), (rank, only[1])):
        if paths:
            other = rank if owner == first else first
            return f"mean() got gradients of {paths[0]} on rank {owner}, which the model of rank {other} lacks{end}"
    return f"mean() got gradients of models that order parameters differently on ranks {first} and {rank}{end}"


class Overlap:
    """The sums of the buckets of one backward pass.

    A bucket is written when the last of its gradients is complete. Its sum starts then, or after the sums of all
    earlier buckets: the layout gives the order, which is the same on all ranks whatever the order of their graphs.

    Args:
        wire: the transport of the buckets.
        layout: the layout that all ranks expect the gradients to have.
        scale: the factor of this rank's gradients.
        idents: the ids of parameters by their leaves.
    """

    def __init__(self, wire: Wire, layout: Layout[Any], scale: float, idents: Mapping[Leaf, str]) -> None:
        self.layout = layout
        self.requests: list[Any] = []
        """The requests of the buckets whose sums have started, from the first on."""
        self._wire, self._scale, self._idents = wire, scale, idents
        self._bucket = {entry.ident: place.bucket for entry, place in zip(layout.entries, layout.places, strict=True)}
        self._awaited = [len(row) for row in layout.by_bucket]
        self._ready: list[dict[str, Tensor[Any]]] = [{} for _ in layout.buckets]

    def __call__(self, leaf: Tensor[Any], gradient: Tensor[Any]) -> None:
        """Take a gradient that is complete: see `burnpy.Tensor.backward`."""
        ident = self._idents.get(leaf._primitive.node)
        bucket = None if ident is None else self._bucket.get(ident)
        if ident is None or bucket is None:  # of another model, or a gradient that no rank had before
            return
        self._ready[bucket][ident] = gradient
        self._awaited[bucket] -= 1
        while len(self.requests) < len(self._awaited) and not self._awaited[len(self.requests)]:
            self._start(self._held(len(self.requests)))
        if self.requests:
            self._wire.progress(self.requests[-1])

    def _held(self, bucket: int) -> GradientsParams[Any]:
        values, self._ready[bucket] = self._ready[bucket], {}
        return GradientsParams(self.layout.device, values, paths=self.layout.paths)

    def _start(self, grads: GradientsParams[Any] | None) -> None:
        self.requests.append(self._wire.begin(self.layout, len(self.requests), grads, self._scale))

    def flush(self, grads: GradientsParams[Any] | None) -> None:
        """Start the sums of all other buckets, with zeros where there is no gradient."""
        while len(self.requests) < len(self._awaited):
            self._start(grads)
        self._ready.clear()

    def abandon(self) -> None:
        """Give up, after an error: the sums that have begun keep their memory."""
        self._wire.abandon(self.requests)

    def wait(self) -> list[Tensor[Any]]:
        """Return the sums of all buckets."""
        return [self._wire.wait(self.layout, request) for request in self.requests]


Key: TypeAlias = tuple[object, ...]

_NONE = b"\0" * 32
"""The digest of a rank without gradients, or without an expectation of them."""

_MAX_LAYOUTS = 64
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
        """For each model, the layout of the last `backward`, and whether it may be expected of the next."""
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
    if len(cache) >= _MAX_LAYOUTS:
        cache.pop(next(iter(cache)))
