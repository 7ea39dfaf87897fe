"""`KeyValueCache`: the keys and values that an attention has seen, in memory of a fixed capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Self

from burnpy.backend.devices import innermost
from burnpy.backend.errors import KindError, ShapeError, a
from burnpy.tensor.call_errors import Explaining, explained
from burnpy.tensor.joining import cat
from burnpy.tensor.operand_checks import need_floats
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from typing import TypedDict

    from burnpy.backend.primitives import DType, Shape
    from burnpy.tensor.host_data import DTypeLike

    class CacheOptions(TypedDict, Generic[B], total=False):
        """The options of an empty cache, for type checkers: see `MultiHeadAttention.empty_cache`."""

        padding: IntTensor[B] | None
        dtype: DTypeLike | None
        compiled: bool


@dataclass(frozen=True, eq=False, repr=False)
class KeyValueCache(Generic[B], metaclass=Explaining):
    """The keys and values of the positions that a `MultiHeadAttention` has seen, for the positions that follow.

    `MultiHeadAttention.empty_cache` is the first one, and each call with ``cache=`` returns the next beside its output.
    A cache never changes, so that several continuations can begin from one. Its memory has room for ``capacity``
    positions. The first continuation is written behind the positions that are there, which are not copied; another one
    of the same cache copies them.

    In a function that is `burnpy.compiled`, each length that is an int makes a plan of its own. With the length as a
    tensor, one plan serves all lengths, and attends to the whole capacity; with ``donate=`` it writes in place.

    Attributes:
        length: the number of positions: an int, or an `IntTensor` of shape ().
        padding: shape (N,), the number of positions before the first word of each text, to which none attends; None if
            there are none.

    >>> from burnpy.nn import MultiHeadAttention
    >>> attention, x = MultiHeadAttention(8, 2, device=NumPy), Tensor[NumPy].ones((1, 3, 8))
    >>> prompt, cache = attention(x, causal=True, cache=attention.empty_cache(1, 5))
    >>> y, longer = attention(x[:, :1], causal=True, cache=cache)
    >>> cache.length, longer.length, longer.key.shape
    (3, 4, (1, 2, 4, 4))
    """

    # Both are (N, heads of keys, capacity, head size), with zeros from ``length`` on unless a longer cache is there.
    _keys: Tensor[B]
    _values: Tensor[B]
    length: int | IntTensor[B]
    padding: IntTensor[B] | None = None
    # The place in memory that no cache has yet, if there is one: shared by all caches in this memory.
    _free: list[int] = field(default_factory=list[int])

    @classmethod
    @explained
    def empty(
        cls,
        shape: Shape,
        *,
        padding: IntTensor[B] | None = None,
        dtype: DTypeLike,
        device: B | type[B],
        compiled: bool = False,
    ) -> KeyValueCache[B]:
        """Return a cache of no positions, of shape (N, heads of keys, capacity, head size)."""
        if len(shape) != 4:
            raise ShapeError(f"KeyValueCache.empty() got shape {shape}; expected (N, heads, capacity, size)")
        keys, values = [Tensor.zeros(shape, dtype=dtype, device=device) for _ in range(2)]
        if compiled:
            return cls(keys, values, IntTensor.zeros((), device=device), padding)
        return cls(keys, values, 0, padding, [0])

    @classmethod
    @explained
    def of(cls, key: Tensor[B], value: Tensor[B]) -> KeyValueCache[B]:
        """Return a cache that is full with these keys and values, (N, heads of keys, length, head size).

        Raises:
            ShapeError: the shapes differ, or are others.
        """
        _check_pair("KeyValueCache.of", key, value)
        return cls(key, value, key.shape[2])

    @property
    def key(self) -> Tensor[B]:
        """The keys, (N, heads of keys, length, head size); of the whole capacity if ``length`` is a tensor."""
        return self._filled(self._keys)

    @property
    def value(self) -> Tensor[B]:
        """The values, of the same shape."""
        return self._filled(self._values)

    @property
    def capacity(self) -> int:
        """The largest number of positions."""
        return self._keys.shape[2]

    @property
    def dtype(self) -> DType:
        """The dtype in which keys and values are stored."""
        return self._keys.dtype

    @property
    def shape(self) -> Shape:
        """The shape of keys and values with the whole capacity: (N, heads of keys, capacity, head size)."""
        return self._keys.shape

    @explained
    def extended(self, key: Tensor[B], value: Tensor[B]) -> KeyValueCache[B]:
        """Return the cache with more positions, (N, heads of keys, T, head size), which are cast to its dtype.

        Raises:
            ShapeError: there is no room for them, or the shapes are not those of the cache.
        """
        _check_pair("extended", key, value, self.shape)
        count = key.shape[2]
        self.refuse_more(count)
        new = [x.to_dtype(self.dtype) for x in (key, value)]
        rooms = [self._keys, self._values]
        if isinstance(self.length, IntTensor):
            places = self._places(self.length, count)
            keys, values = [_set_at(room, places, x) for room, x in zip(rooms, new, strict=True)]
            return KeyValueCache(keys, values, self.length + count, self.padding)
        end = self.length + count
        free = self._free
        if all(_plain(x, room) for x, room in zip(new, rooms, strict=True)) and self._taken():
            keys, values = [_add_slice(room, self.length, x) for room, x in zip(rooms, new, strict=True)]
            free = free if keys._primitive is self._keys._primitive else list[int]()
        else:
            keys, values = [_widened(self.capacity, self._filled(room), x) for room, x in zip(rooms, new, strict=True)]
            free = list[int]()
        free.append(end)
        return KeyValueCache(keys, values, end, self.padding, free)

    @explained
    def reordered(self, rows: IntTensor[B]) -> KeyValueCache[B]:
        """Return the cache of other examples, ``rows`` of this one's, as a beam search continues its best beams.

        Args:
            rows: shape (M,), the examples by index.

        >>> x = Tensor[NumPy].from_data([1.0, 2.0]).reshape(2, 1, 1, 1)
        >>> KeyValueCache.of(x, x).reordered(IntTensor[NumPy].from_data([1, 1, 0])).key.flatten().tolist()
        [2.0, 2.0, 1.0]
        """
        keys, values = [self._filled(room).index_select(0, rows) for room in (self._keys, self._values)]
        padding = None if self.padding is None else self.padding.index_select(0, rows)
        if isinstance(self.length, IntTensor):
            return KeyValueCache(keys, values, self.length, padding)
        keys, values = [_widened(self.capacity, x) for x in (keys, values)]
        return KeyValueCache(keys, values, self.length, padding, [self.length])

    def compiled(self) -> KeyValueCache[B]:
        """Return the cache with its length as a tensor, for a function that is `burnpy.compiled`.

        >>> x = Tensor[NumPy].ones((1, 1, 3, 2))
        >>> KeyValueCache.of(x, x).compiled().length.item()
        3
        """
        if isinstance(self.length, IntTensor):
            return self
        length = IntTensor.full((), self.length, device=self._keys.device)
        return KeyValueCache(self._keys, self._values, length, self.padding)

    def offset(self) -> int | IntTensor[B]:
        """Return the place of the next position in its text: the length; with padding, (N,), the length less that."""
        return self.length if self.padding is None else self.length - self.padding

    def longest(self, count: int) -> int:
        """Return the number of positions with ``count`` more, or the capacity if only the device knows the length."""
        return self.capacity if isinstance(self.length, IntTensor) else self.length + count

    def mask(self, queries: int, *, causal: bool, window: int | None = None) -> BoolTensor[B] | None:
        """Return the keys of `key`, of the last ``queries`` positions, that queries there may attend to.

        It leaves out padding, and, if ``length`` is a tensor, memory that is not filled yet; then ``causal`` and a
        ``window`` count too.

        Returns:
            It broadcasts to (N, heads, queries, keys); None for all.
        """
        if self.padding is None and not isinstance(self.length, IntTensor):
            return None
        keys = IntTensor.arange(0, self.key.shape[2], device=self._keys.device)
        mask = None if self.padding is None else (keys >= self.padding.unsqueeze(1))[:, None, None]
        if not isinstance(self.length, IntTensor):
            return mask
        last = IntTensor.arange(1 - queries, 1, device=keys.device).unsqueeze(1) + (self.length - 1)
        seen = keys <= last if causal else keys < self.length
        if causal and window is not None:
            seen = seen & (keys > last - window)
        return seen if mask is None else mask & seen

    def refuse_more(self, count: int) -> None:
        """Raise an error if there is no room for ``count`` more positions and the length is known.

        Raises:
            ShapeError: there is none.
        """
        if isinstance(self.length, IntTensor):
            if count <= self.capacity:
                return
            raise ShapeError(f"a cache of capacity {self.capacity} has no room for {count} positions")
        if self.length + count > self.capacity:
            raise ShapeError(
                f"a cache of capacity {self.capacity} that has {self.length} positions has no room for {count} more; "
                f"begin with empty_cache(batch, {self.length + count}) or a larger capacity"
            )

    def _filled(self, room: Tensor[B]) -> Tensor[B]:
        return room if isinstance(self.length, IntTensor) or self.length == self.capacity else room[:, :, : self.length]

    def _taken(self) -> bool:
        """Take the memory behind these positions, for one continuation; return whether it was free."""
        try:
            self._free.remove(self.length)  # type: ignore[arg-type]  # an int; atomic, unlike a test before it
        except ValueError:
            return False
        return True

    def _places(self, length: IntTensor[B], count: int) -> Any:
        """Return the positions of ``count`` new ones as a primitive, checked where that waits for nothing."""
        positions = IntTensor.arange(0, count, device=length.device) + length
        capacity = self.capacity

        def no_room(position: int) -> Exception:
            return ShapeError(f"a cache of capacity {capacity} has no room for a position {position}")

        return positions._backend.bounded(positions._primitive, 0, capacity - 1, no_room, None)

    def _flatten_tree(self) -> tuple[tuple[Any, ...], Any]:
        """Return keys, values and a length that is a tensor as children: see `burnpy.func.pytree`."""
        if isinstance(self.length, IntTensor):
            return (self._keys, self._values, self.padding, self.length), (KeyValueCache, None)
        return (self._keys, self._values, self.padding), (KeyValueCache, self.length)

    @staticmethod
    def _unflatten_tree(children: Sequence[Any], rest: Any) -> KeyValueCache[Any]:
        keys, values, padding, *length = children
        return KeyValueCache(keys, values, length[0] if length else rest[1], padding)

    def __copy__(self) -> Self:
        """Return the cache itself, as it never changes."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the cache itself."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the cache without its right to memory: the first continuation of a pickled one copies."""
        return KeyValueCache, (self._keys, self._values, self.length, self.padding)

    def __repr__(self) -> str:
        return f"KeyValueCache(shape={self.shape}, dtype={self.dtype}, length={self.length})"


def check_cache(cache: Any, queries: Shape, heads: int, size: int) -> None:
    """Check that a cache has room for these queries, and their batch, number of heads and size of keys."""
    if not isinstance(cache, KeyValueCache):
        raise KindError(
            f"MultiHeadAttention() takes as cache a KeyValueCache, not {a(type(cache).__name__)}; begin with "
            "attention.empty_cache(batch, capacity)"
        )
    check_kept("a cache", cache, queries, heads, size)
    cache.refuse_more(queries[1])


def check_kept(what: str, kept: KeyValueCache[Any], queries: Shape, heads: int, size: int) -> None:
    """Check that keys and values have the batch of queries, and so many heads of this size."""
    wanted = (queries[0], heads, kept.capacity, size)
    if kept.shape != wanted:
        raise ShapeError(
            f"MultiHeadAttention() got queries of shape {queries} and {what} of shape {kept.shape}, expected {wanted}"
        )


def _check_pair(operation: str, key: Tensor[Any], value: Tensor[Any], room: Shape | None = None) -> None:
    """Check that keys and values have one shape, (N, heads, T, size): those of ``room``, but for T, if there is one."""
    need_floats(operation, key)
    need_floats(operation, value)
    shape = key.shape
    if len(shape) != 4 or value.shape != shape or (room and shape != (*room[:2], shape[2], room[3])):
        wanted = f"({room[0]}, {room[1]}, T, {room[3]})" if room else "(N, heads, T, size)"
        raise ShapeError(
            f"{operation}() got keys of shape {shape} and values of shape {value.shape}; expected {wanted} for both"
        )


def _plain(new: Tensor[Any], room: Tensor[Any]) -> bool:
    """Return whether new positions can be written into memory: neither a derivative nor a plan needs what was there."""
    tracked = new.is_require_grad() or room.is_require_grad()
    return new.device is room.device and not tracked and not innermost(new.device).records


def _add_slice(room: Tensor[B], start: int, new: Tensor[B]) -> Tensor[B]:
    """Return zeroed memory with new positions added to it, in place where the backend can."""
    key = (slice(None), slice(None), slice(start, start + new.shape[2]))
    device: Any = room.device
    return room._like(device.accumulate_slice(room._primitive, key, new._primitive))


def _set_at(room: Tensor[B], places: Any, new: Tensor[B]) -> Tensor[B]:
    """Return a copy of memory with new positions at an index; a plan writes them into memory that is donated."""
    device: Any = room.device
    return room._like(device.index_put(room._primitive, 2, places, new._primitive))


def _widened(capacity: int, *parts: Tensor[B]) -> Tensor[B]:
    """Return new memory with positions one after the other, and zeros behind them up to a capacity."""
    batch, heads, _, size = parts[0].shape
    rest = (batch, heads, capacity - sum(part.shape[2] for part in parts), size)
    return cat([*parts, Tensor.zeros(rest, dtype=parts[0].dtype, device=parts[0].device)], 2)
