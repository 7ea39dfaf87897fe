"""`Layout`: the places of gradients in flat buckets, which communication libraries move as a whole."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, final

import numpy as np

from burnpy.backend.dtypes import float32, part_dtype
from burnpy.backend.errors import DeviceError, ShapeError
from burnpy.backend.primitives import DType, Shape
from burnpy.optim.settings import count
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.complex_numbers_lazy import view_as_complex, view_as_real
from burnpy.tensor.joining import cat
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.optim.gradients.grads_params import GradientsParams

    Make: TypeAlias = Callable[..., GradientsParams[Any]]


BUCKET_BYTES = 4 << 20
"""The size at which a bucket is closed: large enough for the full speed of a network, small enough to overlap."""

FOUND_INF = "found_inf"
"""The id of the entry of `GradientsParams.found_inf`."""


class Entry(NamedTuple):
    """One tensor in the buckets. ``kind`` tells whether a weighted mean scales it: gradients only."""

    kind: Literal["gradient", "update", "found_inf"]
    ident: str
    path: str  #: of a parameter; the id of a buffer
    shape: Shape
    dtype: DType


class Place(NamedTuple):
    """The elements of a bucket that an entry takes."""

    bucket: int
    start: int
    stop: int


class BucketSpec(NamedTuple):
    """The dtype and the number of elements of a bucket."""

    dtype: DType
    size: int


@final
class Layout(Generic[B], metaclass=Explaining):
    """The places of gradients in flat buckets of one dtype each, which `GradientsParams.flatten` returns beside them.

    Gradients stand in the reverse order of the model's parameters, in which a backward pass finishes them; then the
    updates of buffers, by id, and `GradientsParams.found_inf`. So the layout depends on the model alone, and is the
    same in all processes that hold the same model. A bucket is closed when it reaches the given number of bytes; a
    larger parameter is not divided. 16-bit floats are stored as float32, so that sums of buckets are exact enough, and
    complex numbers as pairs of floats.

    Attributes:
        device: the device of the gradients.
        entries: the tensors in the buckets, in order.
        places: the place of each entry.
        buckets: the dtype and size of each bucket.
        digest: equal for equal entries and buckets, in all processes.

    >>> from burnpy.nn import Linear
    >>> from burnpy.optim import GradientsParams
    >>> model = Linear(2, 1, device=Autodiff[NumPy])
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[5.0, 6.0]])).sum()
    >>> grads = GradientsParams.from_grads(loss.backward(), model)
    >>> buckets, layout = grads.flatten()
    >>> [entry.path for entry in layout.entries], layout.places[1], layout.nbytes
    (['bias', 'weight'], Place(bucket=0, start=1, stop=3), 12)
    >>> layout.unflatten(buckets)["weight"].tolist()
    [[5.0], [6.0]]
    """

    def __init__(
        self,
        device: B,
        entries: Iterable[Entry],
        paths: Mapping[str, str],
        make: Make,
        bucket_bytes: int = BUCKET_BYTES,
    ) -> None:
        """Assign places to entries.

        Args:
            device: the device of the gradients.
            entries: in the order of the buckets.
            paths: the paths of all trainable parameters by id.
            make: `GradientsParams`, which this module cannot import.
            bucket_bytes: the size at which a bucket is closed.

        Raises:
            ArgumentError: ``bucket_bytes`` is not a positive int.
        """
        count(bucket_bytes, "flatten(bucket_bytes=)")
        self.device = device
        self.entries = tuple(entries)
        self.paths = dict(paths)
        self.bucket_bytes = bucket_bytes
        self._make = make
        self.places, self.buckets = _placed(self.entries, bucket_bytes)

    @staticmethod
    def of(grads: GradientsParams[Any], bucket_bytes: int = BUCKET_BYTES) -> Layout[Any]:
        """Return the layout of gradients; see `GradientsParams.flatten`."""
        return Layout(grads.device, entries_of(grads), grads._paths, type(grads), bucket_bytes)

    def on(self, device: Any) -> Layout[Any]:
        """Return the layout of gradients on another device."""
        if device is self.device:
            return self
        return Layout(device, self.entries, self.paths, self._make, self.bucket_bytes)

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that are equal for equal entries and buckets, in all processes."""
        entries = [(*entry[:4], entry.dtype.name) for entry in self.entries]
        words = repr((self.bucket_bytes, [*self.paths.items()], entries))
        return hashlib.sha256(words.encode()).digest()

    @cached_property
    def by_bucket(self) -> tuple[tuple[tuple[Entry, Place], ...], ...]:
        """The entries of each bucket with their places."""
        rows: list[list[tuple[Entry, Place]]] = [[] for _ in self.buckets]
        for entry, place in zip(self.entries, self.places, strict=True):
            rows[place.bucket].append((entry, place))
        return tuple(tuple(row) for row in rows)

    @property
    def nbytes(self) -> int:
        """The bytes of all buckets."""
        return sum(bucket.size * bucket.dtype.itemsize for bucket in self.buckets)

    def flatten(self, grads: GradientsParams[B]) -> tuple[Tensor[B], ...]:
        """Return the buckets of gradients, on their device; zeros where there is no gradient."""
        return tuple(self.flatten_bucket(index, grads) for index in range(len(self.buckets)))

    def write(self, grads: GradientsParams[B] | None, arrays: Sequence[NDArray[Any]], scale: float = 1.0) -> None:
        """Write the buckets of gradients into memory of the host, multiplied by ``scale``.

        Args:
            grads: with entries of this layout; those that are missing are written as zeros, and so is all of None.
            arrays: one for each bucket, of its dtype and size.
            scale: of gradients; updates of buffers and ``found_inf`` are not scaled.
        """
        for index in range(len(self.buckets)):
            self.write_bucket(index, grads, arrays[index], scale)

    def write_bucket(
        self, index: int, grads: GradientsParams[B] | None, array: NDArray[Any], scale: float = 1.0
    ) -> None:
        """Write one bucket into memory of the host: see `write`."""
        staged = self.stage(index, grads, array)
        for entry, place in self.by_bucket[index]:
            self.write_entry(entry, grads, array[place.start : place.stop], scale, staged=staged)

    def stage(self, index: int, grads: GradientsParams[B] | None, array: NDArray[Any]) -> bool:
        """Copy a bucket from an asynchronous device to the host, all at once; return whether that was done."""
        device: Any = self.device
        if grads is None or device.eager_checks:
            return False
        array[:] = device.to_numpy(self.flatten_bucket(index, grads)._primitive)
        return True

    def source(self, entry: Entry, grads: GradientsParams[B] | None, dtype: DType) -> NDArray[Any] | None:
        """Return the elements of an entry in the memory of the host, 1-d, or None."""
        value = None if grads is None else held(grads, entry)
        if value is None:
            return None
        if isinstance(value, Tensor) and value.dtype.itemsize < 4:  # NumPy cannot convert bfloat16
            value = value.to_dtype(dtype)
        flat: NDArray[Any] = value._backend.to_numpy(value._primitive).reshape(-1)
        return flat.view(dtype) if entry.dtype.kind == "c" else flat

    def write_entry(
        self, entry: Entry, grads: GradientsParams[B] | None, target: NDArray[Any], scale: float, *, staged: bool
    ) -> None:
        """Write one entry into its part of a bucket; ``staged`` if it is there already, and not scaled."""
        source = target if staged else self.source(entry, grads, target.dtype)
        if source is None:
            target.fill(0)
        elif entry.kind == "gradient" and scale != 1.0:
            np.multiply(source, target.dtype.type(scale), out=target)
        elif source is not target:
            target[:] = source

    def flatten_bucket(self, index: int, grads: GradientsParams[B], scale: float | None = None) -> Tensor[B]:
        """Return one bucket of gradients, on their device; with a ``scale``, multiplied by it, in new memory."""
        row = self.by_bucket[index]
        flats = [self._flat(grads, entry) for entry, _ in row]
        kinds = {entry.kind for entry, _ in row}
        if scale is not None and kinds != {"gradient"}:
            factors = [scale if entry.kind == "gradient" else 1.0 for entry, _ in row]
            flats, scale = [flat * factor for flat, factor in zip(flats, factors, strict=True)], None
        bucket: Tensor[B] = cat(flats, dim=0)
        return bucket if scale is None else bucket * scale

    def unflatten(self, buckets: Sequence[Tensor[B]]) -> GradientsParams[B]:
        """Return the gradients in buckets, which may be sums of several processes' buckets.

        Raises:
            ShapeError: the buckets are not of this layout.
            DeviceError: they are on another device.
        """
        self._check(buckets)
        device: Any = self.device
        primitives = [bucket._primitive for bucket in buckets]
        values: dict[str, dict[str, Any]] = {"gradient": {}, "update": {}, "found_inf": {}}
        for entry, place in zip(self.entries, self.places, strict=True):
            flat = device.slice(primitives[place.bucket], (slice(place.start, place.stop, 1),))
            value: Any = new_tensor(Tensor, device, device.reshape(flat, wire_shape(entry)))
            if entry.kind == "found_inf":
                value = value != 0.0
            elif entry.dtype.kind == "c":
                value = view_as_complex(value)
            elif value.dtype != entry.dtype:
                value = value.to_dtype(entry.dtype)
            values[entry.kind][entry.ident] = value
        ordered = {ident: values["gradient"][ident] for ident in self.paths if ident in values["gradient"]}
        return self._make(
            self.device,
            {**ordered, **values["gradient"]},
            paths=self.paths,
            updates=values["update"],
            found_inf=values["found_inf"].get(FOUND_INF),
        )

    def _flat(self, grads: GradientsParams[B], entry: Entry) -> Any:
        value = held(grads, entry)
        dtype = wire_dtype(entry.dtype)
        if value is None:
            return Tensor.zeros((math.prod(wire_shape(entry)),), dtype=dtype, device=self.device)
        flat = (view_as_real(value) if entry.dtype.kind == "c" else value).reshape((math.prod(wire_shape(entry)),))
        if not isinstance(flat, Tensor):
            flat = flat.float()
        return flat if flat.dtype == dtype else flat.to_dtype(dtype)

    def _check(self, buckets: Sequence[Tensor[B]]) -> None:
        given = [(bucket.dtype, *bucket.shape) for bucket in buckets]
        if given != [(spec.dtype, spec.size) for spec in self.buckets]:
            shown = ", ".join(f"{spec.dtype} of ({spec.size},)" for spec in self.buckets)
            raise ShapeError(f"unflatten() takes the {len(self.buckets)} buckets of this layout, {shown}; not {given}")
        for bucket in buckets:
            if bucket.device is not self.device:
                raise DeviceError(f"unflatten() got a bucket on {bucket.device}; the layout is of {self.device}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Layout({len(self.entries)} entries in {len(self.buckets)} buckets of {self.nbytes} bytes)"


def entries_of(grads: GradientsParams[Any]) -> tuple[Entry, ...]:
    """Return the entries of gradients, in the order of buckets."""
    ordered = [ident for ident in grads._paths if ident in grads._values]
    ordered += sorted(grads._values.keys() - grads._paths.keys())
    entries = [
        Entry("gradient", ident, grads._paths.get(ident, ident), value.shape, value.dtype)
        for ident, value in ((ident, grads._values[ident]) for ident in reversed(ordered))
    ]
    for ident, update in sorted(grads._updates.items()):
        entries.append(Entry("update", ident, ident, update.shape, update.dtype))
    if grads._found_inf is not None:
        entries.append(Entry("found_inf", FOUND_INF, FOUND_INF, (), entries[-1].dtype if entries else float32))
    return tuple(entries)


def held(grads: GradientsParams[Any], entry: Entry) -> Any:
    """Return the tensor of an entry, or None: a `Tensor`, or the `BoolTensor` of ``found_inf``."""
    if entry.kind == "found_inf":
        return grads._found_inf
    return (grads._values if entry.kind == "gradient" else grads._updates).get(entry.ident)


def wire_dtype(dtype: DType) -> DType:
    """Return the dtype of the buckets for a dtype: itself, float32 for 16 bits, the parts' dtype for complex."""
    return float32 if dtype.itemsize < 4 else part_dtype(dtype)


def wire_shape(entry: Entry) -> Shape:
    """Return the shape of an entry in a bucket, where complex numbers are pairs of floats."""
    return (*entry.shape, 2) if entry.dtype.kind == "c" else entry.shape


def _placed(entries: Sequence[Entry], limit: int) -> tuple[tuple[Place, ...], tuple[BucketSpec, ...]]:
    """Fill buckets in the order of the entries, one open for each dtype."""
    places: list[Place] = []
    sizes: list[int] = []
    dtypes: list[DType] = []
    current: dict[DType, int] = {}
    for entry in entries:
        dtype = wire_dtype(entry.dtype)
        index = current.get(dtype)
        if index is None:
            index = current[dtype] = len(sizes)
            sizes.append(0)
            dtypes.append(dtype)
        start = sizes[index]
        sizes[index] = start + math.prod(wire_shape(entry))
        places.append(Place(index, start, sizes[index]))
        if sizes[index] * dtype.itemsize >= limit:
            del current[dtype]
    return tuple(places), tuple(BucketSpec(dtype, size) for dtype, size in zip(dtypes, sizes, strict=True))
