"""Multi-head attention, its cache of keys and values, and rotary position encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, overload

from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.nn.argument_checks import above_zero, exact_dims, positive, probability
from burnpy.nn.functional.attention import rotary_encoding, scaled_dot_product_attention
from burnpy.nn.functional.dense import linear
from burnpy.nn.init import Initializer, XavierUniform
from burnpy.nn.layers.dense import Linear
from burnpy.nn.module import Module, Unplaced, rebound
from burnpy.nn.variable import Param
from burnpy.tensor.call_errors import explained, inherit_methods
from burnpy.tensor.joining import cat
from burnpy.tensor.tensor import BoolTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.nn.module import called_as
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor_types import Bools

    class AttentionMasks(TypedDict, Generic[B], total=False):
        """The masks that a call of an attention takes as keyword arguments, for type checkers."""

        mask: Bools[B] | Tensor[B] | None
        key_mask: Bools[B] | None
        causal: bool


class MultiHeadAttention(Module[B]):
    """Multi-head attention on projections of queries, keys and values, with an output projection.

    The batch dimension comes first. ``in_proj_weight`` is (size, 3 · size), for queries, keys and values in turn: the
    transpose of PyTorch's, as is ``out_proj.weight``. With fewer heads of keys it is narrower. In masks,
    true means that a query may attend to a key; in PyTorch's layer it means the reverse.

    Args:
        size: the size of input and output vectors.
        heads: the number of heads; must divide ``size``.
        key_heads: the number of heads of keys and values; a group of heads shares each. It must divide ``heads``, which
            is the default.
        rotary_base: the base of a rotary encoding of queries and keys: see `burnpy.nn.functional.rotary_encoding`; by
            default there is none.
        dropout: the probability that an attention weight is dropped in training.
        bias: whether the projections have a bias, initially zero.
        device: the device of the layer.
        initializer: the initializer of ``in_proj_weight``; `burnpy.nn.init.XavierUniform` by default.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Vaswani et al., Attention Is All You Need, 2017.

    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].ones((2, 5, 8))
    >>> attention = MultiHeadAttention(8, 2, device=NumPy)
    >>> attention(x, causal=True).shape
    (2, 5, 8)
    >>> cache = attention.empty_cache(2)
    >>> for t in range(3):
    ...     y, cache = attention(x[:, t : t + 1], causal=True, cache=cache)
    >>> y.shape, cache.length
    ((2, 1, 8), 3)
    """

    def __init__(
        self,
        size: int,
        heads: int,
        *,
        key_heads: int | None = None,
        rotary_base: float | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        positive("MultiHeadAttention", size=size, heads=heads)
        if size % heads:
            raise ArgumentError(f"MultiHeadAttention() got {heads} heads for size {size}, which they must divide")
        shared = heads if key_heads is None else key_heads
        positive("MultiHeadAttention", key_heads=shared)
        if heads % shared:
            raise ArgumentError(
                f"MultiHeadAttention() got key_heads={key_heads} for {heads} heads, which they must divide"
            )
        if rotary_base is not None and (not rotary_base > 0.0 or size // heads % 2):
            raise ArgumentError(
                f"MultiHeadAttention() got rotary_base={rotary_base!r:.80} for heads of size {size // heads}; the "
                "base is above 0, and the size even"
            )
        self.heads, self.key_heads, self.rotary_base = heads, key_heads, rotary_base
        self.dropout = probability("MultiHeadAttention", dropout)
        shape = (size, size + 2 * (size // heads * shared))
        weight = (initializer or XavierUniform())(shape, device=device, generator=generator)
        self.in_proj_weight = Param(weight)
        self.in_proj_bias = Param(Tensor.zeros(shape[1:], device=device)) if bias else None
        projection = Linear(size, size, bias=bias, device=device, generator=generator)
        self.out_proj = projection.map(lambda b: b.zeros_like(), "bias") if bias else projection

    @overload
    def forward(
        self,
        query: Tensor[B],
        key: Tensor[B] | KeyValueCache[B] | None = None,
        value: Tensor[B] | None = None,
        *,
        offset: int | None = None,
        cache: None = None,
        **masks: Unpack[AttentionMasks[B]],
    ) -> Tensor[B]: ...
    @overload
    def forward(
        self,
        query: Tensor[B],
        *,
        offset: int | None = None,
        cache: KeyValueCache[B],
        **masks: Unpack[AttentionMasks[B]],
    ) -> tuple[Tensor[B], KeyValueCache[B]]: ...
    def forward(
        self,
        query: Tensor[B],
        key: Tensor[B] | KeyValueCache[B] | None = None,
        value: Tensor[B] | None = None,
        *,
        mask: Bools[B] | Tensor[B] | None = None,
        key_mask: Bools[B] | None = None,
        causal: bool = False,
        offset: int | None = None,
        cache: KeyValueCache[B] | None = None,
    ) -> Tensor[B] | tuple[Tensor[B], KeyValueCache[B]]:
        """Compute the attention output of each query.

        Args:
            query: shape (N, T, size).
            key: shape (N, S, size); ``query`` by default. Or the projections that `project` returned.
            value: shape (N, S, size); ``key`` by default.
            mask: (T, S), or broadcasts to (N, heads, T, S): true where a query may attend to a key, or floats added to
                the scores. For one mask per example, (N, T, S), pass ``mask[:, None]``.
            key_mask: shape (N, S), true for valid keys, false for padding.
            causal: whether query t attends only to the keys 0 … offset + t.
            offset: the position of the first query among the keys; 0 by default. Required with fewer queries than keys:
                see `burnpy.nn.functional.scaled_dot_product_attention`. With a cache it is the length of the cache.
            cache: the keys and values of earlier positions, which queries attend to as well: what the call before
                returned, or `empty_cache` for the first.

        Returns:
            Shape (N, T, size); with a cache, a pair of this and of the cache with these T positions added.

        Raises:
            ShapeError: the shapes do not match.
            ArgumentError: ``causal`` with fewer queries than keys and no offset; a cache, and a key or value; projected
                keys, and a value.
            KindError: ``key_mask`` is not a `BoolTensor`, or ``cache`` not a `KeyValueCache`.
        """
        size = self.size
        past = 0 if cache is None else self._past(cache, query, key, value)
        if isinstance(key, KeyValueCache):
            self._check("query", query)
            if value is not None:
                raise ArgumentError("MultiHeadAttention() got values beside projected keys, which have their values")
            self._check_kept("projected keys", key, query)
            q, (k, v) = self._heads(self._projected(query, 0, size)), key
        else:
            key = query if key is None else key
            value = key if value is None else value
            for name, x in (("query", query), ("key", key), ("value", value)):
                self._check(name, x)
            if query is key and key is value:
                q, k, v = self._split(self._projected(query), size)
            else:
                q = self._heads(self._projected(query, 0, size))
                k, v = self._keys_and_values(key, value)
            if self.rotary_base is not None:
                k = rotary_encoding(k, offset=past, base=self.rotary_base)
        if self.rotary_base is not None:
            q = rotary_encoding(q, offset=past if offset is None else offset, base=self.rotary_base)
        if cache is not None:
            k, v = cat([cache.key, k], 2), cat([cache.value, v], 2)
            offset = past if causal and offset is None else offset
        attended = scaled_dot_product_attention(
            q,
            k,
            v,
            self._joined(mask, key_mask),
            causal=causal,
            offset=offset,
            dropout_p=self.dropout if self.dropout and self.trains_on(query) else 0.0,
            enable_gqa=self._key_heads != self.heads,
        )
        out = self.out_proj(attended.transpose(1, 2).reshape(*query.shape[:2], size))
        return out if cache is None else (out, KeyValueCache(k, v))

    if TYPE_CHECKING:

        @called_as(forward)
        def __call__(self, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Return the result of `forward`."""
            ...

    @explained
    def empty_cache(self, batch: int) -> KeyValueCache[B]:
        """Return a cache of no positions for ``batch`` sequences, with which to begin."""
        positive("empty_cache", batch=batch)
        weight = self.in_proj_weight.value
        shape = (batch, self._key_heads, 0, self.size // self.heads)
        empty = Tensor.zeros(shape, dtype=weight.dtype, device=weight.device)
        return KeyValueCache(empty, empty)

    @explained
    def project(self, key: Tensor[B], value: Tensor[B] | None = None) -> KeyValueCache[B]:
        """Project keys and values once, for several calls that attend to them.

        Args:
            key: shape (N, S, size).
            value: shape (N, S, size); ``key`` by default.

        Returns:
            A call takes it in place of ``key``.

        Raises:
            ShapeError: the shapes do not match.

        >>> from burnpy.backend import NumPy
        >>> attention, memory = MultiHeadAttention(8, 2, device=NumPy), Tensor[NumPy].ones((1, 3, 8))
        >>> keys = attention.project(memory)
        >>> for t in range(3):
        ...     y = attention(Tensor[NumPy].ones((1, 1, 8)), keys)
        >>> y.shape, keys.length
        ((1, 1, 8), 3)
        """
        value = key if value is None else value
        for name, x in (("key", key), ("value", value)):
            self._check(name, x)
        k, v = self._keys_and_values(key, value)
        if self.rotary_base is not None:
            k = rotary_encoding(k, base=self.rotary_base)
        return KeyValueCache(k, v)

    def _past(self, cache: KeyValueCache[B], query: Tensor[B], key: object, value: object) -> int:
        """Return the number of positions in a cache, checked to be of these queries."""
        argument: Any = cache
        if not isinstance(argument, KeyValueCache):
            raise KindError(
                f"MultiHeadAttention() takes as cache a KeyValueCache, not {a(type(argument).__name__)}; begin with "
                "attention.empty_cache(batch)"
            )
        if key is not None or value is not None:
            raise ArgumentError(
                "MultiHeadAttention() got a cache together with key or value; with a cache, pass the query alone"
            )
        self._check_kept("a cache", cache, query)
        return cache.length

    def _check(self, name: str, x: Tensor[B]) -> None:
        """Check the shape of queries, keys or values."""
        exact_dims("MultiHeadAttention", name, x.shape, 3, f"(N, length, {self.size})", last=self.size)

    def _check_kept(self, what: str, kept: KeyValueCache[B], query: Tensor[B]) -> None:
        """Check that the keys and values that a call kept have the batch, heads and sizes of these queries."""
        wanted = (query.shape[0] if query.ndim else 0, self._key_heads, kept.length, self.size // self.heads)
        if kept.key.shape != wanted or kept.value.shape != wanted:
            raise ShapeError(
                f"MultiHeadAttention() got queries of shape {query.shape} and {what} of shape {kept.key.shape}, "
                f"expected {wanted}"
            )

    def _projected(self, x: Tensor[B], start: int = 0, end: int | None = None) -> Tensor[B]:
        """Project x by the columns of the weight from ``start`` to ``end``: for queries, keys and values in turn."""
        weight = self.in_proj_weight.value
        bias = None if self.in_proj_bias is None else self.in_proj_bias.value
        if start or end is not None:
            part = slice(start, end)
            weight, bias = weight[:, part], None if bias is None else bias[part]
        return linear(x, weight, bias)

    def _keys_and_values(self, key: Tensor[B], value: Tensor[B]) -> tuple[Tensor[B], Tensor[B]]:
        """Project keys and values; a single product if both are the same tensor."""
        size, narrow = self.size, self._narrow
        if key is value:
            k, v = self._split(self._projected(key, size))
            return k, v
        k, v = self._projected(key, size, size + narrow), self._projected(value, size + narrow)
        return self._heads(k), self._heads(v)

    def _split(self, projections: Tensor[B], *first: int) -> list[Tensor[B]]:
        """Split projections into parts of ``first`` sizes, keys and values, each in heads."""
        return [self._heads(x) for x in projections.split([*first, self._narrow, self._narrow], 2)]

    def _heads(self, x: Tensor[B]) -> Tensor[B]:
        """Reshape (N, length, heads · E) to (N, heads, length, E), E = size / heads."""
        n, length, size = x.shape
        each = self.size // self.heads
        return x.reshape(n, length, size // each, each).transpose(1, 2)

    def _joined(self, mask: Any, key_mask: Any) -> Any:
        """Combine ``mask`` and ``key_mask`` into one mask."""
        if mask is not None and mask.ndim == 3:
            raise ShapeError(
                f"MultiHeadAttention() got a mask of shape {mask.shape}, which may be one for each example or "
                "for each head; say which: mask[:, None] or mask[None]"
            )
        if key_mask is None:
            return mask
        if not isinstance(key_mask, BoolTensor) or key_mask.ndim != 2:
            error = ShapeError if isinstance(key_mask, BoolTensor) else KindError
            raise error(
                f"MultiHeadAttention() takes a BoolTensor of shape (N, S) as key_mask, got {describe(key_mask)}"
            )
        wide = key_mask[:, None, None, :]
        if mask is None:
            return wide
        if isinstance(mask, Tensor):
            zeros = Tensor.zeros(wide.shape, dtype=mask.dtype, device=mask.device)
            return mask + zeros.masked_fill(~wide, -float("inf"))
        return mask & wide

    @property
    def _narrow(self) -> int:
        """The size of the projections of keys and of values."""
        return self.size // self.heads * self._key_heads

    @property
    def _key_heads(self) -> int:
        """The number of heads of keys and values."""
        return self.heads if self.key_heads is None else self.key_heads

    @property
    def size(self) -> int:
        """The size of input and output vectors."""
        return self.in_proj_weight.shape[0]

    @property
    def bias(self) -> bool:
        """True if the projections have a bias."""
        return self.in_proj_bias is not None

    def torch_names(self) -> dict[str, str]:
        """Map paths to PyTorch's names where they differ: see `burnpy.record.torch_weights`."""
        return {"in_proj_weight": "in_proj_weight.T"}

    def valid(self: MultiHeadAttention[Autodiff[I]]) -> MultiHeadAttention[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class KeyValueCache(NamedTuple, Generic[B]):
    """The keys and values of the S positions that a `MultiHeadAttention` has seen, for the positions that follow.

    `MultiHeadAttention.empty_cache` is the first one, and each call with ``cache=`` returns the next beside its output.
    A cache never changes, so that several continuations can begin from one.

    Attributes:
        key: shape (N, heads of keys, S, size / heads).
        value: of the same shape.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import MultiHeadAttention
    >>> attention, x = MultiHeadAttention(8, 2, device=NumPy), Tensor[NumPy].ones((1, 3, 8))
    >>> prompt, cache = attention(x, causal=True, cache=attention.empty_cache(1))
    >>> y, longer = attention(x[:, :1], causal=True, cache=cache)
    >>> cache.length, longer.length, longer.key.shape
    (3, 4, (1, 2, 4, 4))
    """

    key: Tensor[B]  #: shape (N, heads of keys, S, size / heads)
    value: Tensor[B]  #: of the same shape

    @property
    def length(self) -> int:
        """The number of positions, S."""
        return self.key.shape[-2]


@inherit_methods
class RotaryEncoding(Unplaced):
    """Rotary position encoding of queries and keys: see `burnpy.nn.functional.rotary_encoding`.

    Args:
        base: the base of the angles.
        interleaved: whether pairs are neighbours, as in the paper, or consist of an element of either half.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> RotaryEncoding()(Tensor[NumPy].ones((2, 5, 8)), offset=3).shape
    (2, 5, 8)
    """

    def __init__(self, *, base: float = 10000.0, interleaved: bool = True) -> None:
        above_zero("RotaryEncoding", base=base)
        self.base, self.interleaved = base, interleaved

    def forward(self, x: Tensor[B], *, offset: int = 0) -> Tensor[B]:
        """Return x (…, T, E), rotated by its positions. The first position is ``offset``."""
        return rotary_encoding(x, offset=offset, base=self.base, interleaved=self.interleaved)

    if TYPE_CHECKING:

        def __call__(self, x: Tensor[B], *, offset: int = 0) -> Tensor[B]:
            """Return the result of `forward`."""
            ...
