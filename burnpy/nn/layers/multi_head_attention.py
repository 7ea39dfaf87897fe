"""`MultiHeadAttention`: queries, keys and values, projected by head; `burnpy.nn.layers.attention` combines them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import above_zero, exact_dims, positive, probability
from burnpy.nn.init import Initializer, XavierUniform
from burnpy.nn.layers.attention import AttentionProjections, both_allow, joined_masks, scaled_dot_product_attention
from burnpy.nn.layers.key_value_cache import KeyValueCache, check_cache, check_kept
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.positional_encoding import DynamicScaling
from burnpy.nn.module import rebound
from burnpy.nn.param import Param
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.nn.layers.attention import AttentionMasks
    from burnpy.nn.layers.positional_encoding import RotaryEncoding
    from burnpy.nn.module import called_as
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.host_data import DTypeLike
    from burnpy.tensor.tensor_types import Bools


class MultiHeadAttention(AttentionProjections[B]):
    """Multi-head attention on projections of queries, keys and values, with an output projection.

    The batch dimension comes first. ``in_proj_weight`` is (size, 3 · size), for queries, keys and values in turn: the
    transpose of PyTorch's, as is ``out_proj.weight``. With fewer heads of keys or another head size it is narrower or
    wider. In masks, true means that a query may attend to a key; in PyTorch's layer it means the reverse. Where the
    projections are quantized or adapted, ``q_proj``, ``k_proj`` and ``v_proj`` are layers in place of the matrix.

    Args:
        size: the size of input and output vectors.
        heads: the number of heads.
        head_size: the size of the vectors of a head; ``size / heads`` by default, which heads must divide.
        key_heads: the number of heads of keys and values; a group of heads shares each. It must divide ``heads``, which
            is the default.
        rotary: the rotary encoding of queries and keys; by default there is none.
        q_norm: a norm of the queries of each head, before the rotary encoding, such as ``RmsNorm(head_size)``; by
            default there is none.
        k_norm: a norm of the keys.
        scale: the factor of the scores; 1 / √head_size by default.
        softcap: a bound of the scores: see `burnpy.nn.functional.scaled_dot_product_attention`.
        window: the number of keys that a causal query attends to ("sliding window"); all by default.
        dropout: the probability that an attention weight is dropped in training.
        bias: whether the projections have a bias, initially zero.
        out_bias: whether the output projection has one too.
        device: the device of the layer.
        initializer: the initializer of ``in_proj_weight``; `burnpy.nn.init.XavierUniform` by default.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Vaswani et al., Attention Is All You Need, 2017.

    >>> x = Tensor[NumPy].ones((2, 5, 8))
    >>> attention = MultiHeadAttention(8, 2, device=NumPy)
    >>> attention(x, causal=True).shape
    (2, 5, 8)
    >>> cache = attention.empty_cache(2, 5)
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
        head_size: int | None = None,
        key_heads: int | None = None,
        rotary: RotaryEncoding | None = None,
        q_norm: Callable[[Tensor[B]], Tensor[B]] | None = None,
        k_norm: Callable[[Tensor[B]], Tensor[B]] | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        window: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        out_bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        name = "MultiHeadAttention"
        positive(name, size=size, heads=heads)
        if head_size is None and size % heads:
            raise ArgumentError(
                f"{name}() got {heads} heads for size {size}, which they must divide, or pass head_size="
            )
        each = size // heads if head_size is None else head_size
        shared = heads if key_heads is None else key_heads
        positive(name, key_heads=shared, head_size=each, **({} if window is None else {"window": window}))
        above_zero(name, **{key: x for key, x in (("scale", scale), ("softcap", softcap)) if x is not None})
        if heads % shared:
            raise ArgumentError(f"{name}() got key_heads={key_heads} for {heads} heads, which they must divide")
        if rotary is not None and each % 2:
            raise ArgumentError(f"{name}() got a rotary encoding for heads of size {each}; the size must be even")
        for key, part in (("rotary", rotary), ("q_norm", q_norm), ("k_norm", k_norm)):
            if part is not None and not callable(part):
                raise ArgumentError(f"{name}() got {key}={describe(part)}; expected a layer")
        self.heads, self.key_heads, self.head_size, self.rotary = heads, key_heads, head_size, rotary
        self.q_norm, self.k_norm = q_norm, k_norm
        self.scale, self.softcap, self.window, self.out_bias = scale, softcap, window, out_bias
        self.dropout = probability(name, dropout)
        shape = (size, (heads + 2 * shared) * each)
        weight = (initializer or XavierUniform())(shape, device=device, generator=generator)
        self._join(Param(weight), Param(Tensor.zeros(shape[1:], device=device)) if bias else None)
        projection = Linear(heads * each, size, bias=bias and out_bias, device=device, generator=generator)
        self.out_proj = projection.map(lambda b: b.zeros_like(), "bias") if bias and out_bias else projection

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
            ShapeError: the shapes do not match, or the cache has no room.
            ArgumentError: ``causal`` with fewer queries than keys and no offset; a cache, and a key or value; projected
                keys, and a value; a window without ``causal``.
            KindError: ``key_mask`` is not a `BoolTensor`, or ``cache`` not a `KeyValueCache`.
        """
        if self.window is not None and not causal:
            raise ArgumentError(
                f"MultiHeadAttention() with window={self.window} attends to earlier keys; pass causal=True"
            )
        if cache is not None:
            if key is not None or value is not None:
                raise ArgumentError(
                    "MultiHeadAttention() got a cache together with key or value; with a cache, pass the query alone"
                )
            self._check("query", query)
            check_cache(cache, query.shape, self._key_heads, self._head_size)
        q, k, v = self._projections(query, key, value, offset, cache)
        if cache is not None:
            cache = cache.extended(k, v)
            k, v = cache.key, cache.value
        masks = joined_masks(mask, key_mask, (*query.shape[:2], k.shape[2]))
        if cache is not None:
            if cache.dtype != q.dtype:
                k, v = k.to_dtype(q.dtype), v.to_dtype(q.dtype)
            masks = both_allow(masks, cache.mask(query.shape[1], causal=causal, window=self.window))
            if isinstance(cache.length, IntTensor):
                causal = False  # its mask is causal
            elif causal and offset is None:
                offset = cache.length - query.shape[1]
        dropout = self.dropout if self.dropout and self.trains_on(query) else 0.0
        attended = self._attended(q, k, v, masks, causal=causal, offset=offset, dropout_p=dropout)
        out = self.out_proj(attended.transpose(1, 2).reshape(*query.shape[:2], self.heads * self._head_size))
        return out if cache is None else (out, cache)

    if TYPE_CHECKING:

        @called_as(forward)
        def __call__(self, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Return the result of `forward`."""
            ...

    @explained
    def weights(
        self,
        query: Tensor[B],
        key: Tensor[B] | None = None,
        *,
        mask: Bools[B] | Tensor[B] | None = None,
        key_mask: Bools[B] | None = None,
        causal: bool = False,
        offset: int | None = None,
    ) -> Tensor[B]:
        """Compute the weights by which each query sums the values, (N, heads, T, S), without dropout.

        Arguments and errors are those of `forward`.

        >>> x = Tensor[NumPy].ones((1, 2, 8))
        >>> MultiHeadAttention(8, 1, device=NumPy).weights(x, causal=True).tolist()
        [[[[1.0, 0.0], [0.5, 0.5]]]]
        """
        q, k, _ = self._projections(query, key, None, offset, None)
        eye = Tensor.eye(k.shape[2], dtype=k.dtype, device=k.device).broadcast_to((*k.shape[:3], k.shape[2]))
        masks = joined_masks(mask, key_mask, (*query.shape[:2], k.shape[2]))
        return self._attended(q, k, eye, masks, causal=causal, offset=offset)

    @explained
    def empty_cache(
        self,
        batch: int,
        capacity: int,
        *,
        padding: IntTensor[B] | None = None,
        dtype: DTypeLike | None = None,
        compiled: bool = False,
    ) -> KeyValueCache[B]:
        """Return a cache of no positions, with which to begin.

        Args:
            batch: the number of texts.
            capacity: the largest number of positions, prompt included.
            padding: shape (batch,): the number of positions before the first word of each text, for prompts of
                different lengths, which end together. No query attends to them; a rotary encoding begins after them.
            dtype: the dtype in which keys and values are stored, such as "bfloat16"; the layer's by default.
            compiled: whether the length is a tensor, so that a function that is `burnpy.compiled` has one plan for all
                lengths.

        Raises:
            ArgumentError: a size is below 1; or ``compiled`` with a `DynamicScaling`.
            ShapeError: ``padding`` has another shape.
        """
        positive("empty_cache", batch=batch, capacity=capacity)
        if padding is not None and padding.shape != (batch,):
            raise ShapeError(
                f"empty_cache() got padding of shape {padding.shape} for {batch} texts; expected {(batch,)}"
            )
        if compiled and self.rotary is not None and isinstance(self.rotary.scaling, DynamicScaling):
            raise ArgumentError(
                "empty_cache(compiled=True) leaves the number of positions to the device, and a DynamicScaling depends "
                "on it; leave compiled= out, or take another scaling"
            )
        return KeyValueCache.empty(
            (batch, self._key_heads, capacity, self._head_size),
            padding=padding,
            dtype=self._dtype if dtype is None else dtype,
            device=self.device,
            compiled=compiled,
        )

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
        return KeyValueCache.of(self._placed(k, self.k_norm, 0), v)

    def _check(self, name: str, x: Tensor[B]) -> None:
        """Check the shape of queries, keys or values."""
        exact_dims("MultiHeadAttention", name, x.shape, 3, f"(N, length, {self.size})", last=self.size)

    def _projections(
        self,
        query: Tensor[B],
        key: Tensor[B] | KeyValueCache[B] | None,
        value: Tensor[B] | None,
        offset: int | None,
        cache: KeyValueCache[B] | None,
    ) -> tuple[Tensor[B], Tensor[B], Tensor[B]]:
        """Return queries, keys and values in heads, the first two normed and rotated by their positions."""
        wide = self.heads * self._head_size
        first: int | IntTensor[B] = 0 if cache is None else cache.offset()
        length = None if cache is None else cache.longest(query.shape[1])
        start = first if offset is None else offset
        self._check("query", query)
        if isinstance(key, KeyValueCache):
            if value is not None:
                raise ArgumentError("MultiHeadAttention() got values beside projected keys, which have their values")
            check_kept("projected keys", key, query.shape, self._key_heads, self._head_size)
            q = self._heads(self._projected(query, 0, wide))
            return self._placed(q, self.q_norm, start), key.key, key.value
        key = query if key is None else key
        value = key if value is None else value
        if query is key and key is value:
            every, both = self._heads(self._projected(query)), self.heads + self._key_heads
            v = every[:, both:]
            if self.rotary is not None and start is first and self.q_norm is None and self.k_norm is None:
                turned = self._placed(every[:, :both], None, first, length)
                return turned[:, : self.heads], turned[:, self.heads :], v
            q, k = every[:, : self.heads], every[:, self.heads : both]
        else:
            for name, x in (("key", key), ("value", value)):
                self._check(name, x)
            q = self._heads(self._projected(query, 0, wide))
            k, v = self._keys_and_values(key, value)
        return self._placed(q, self.q_norm, start, length), self._placed(k, self.k_norm, first, length), v

    def _placed(
        self,
        x: Tensor[B],
        norm: Callable[[Tensor[B]], Tensor[B]] | None,
        offset: int | IntTensor[B],
        length: int | None = None,
    ) -> Tensor[B]:
        """Return queries or keys in heads after the norm and the rotary encoding that they have."""
        x = x if norm is None else norm(x)
        return x if self.rotary is None else self.rotary(x, offset=offset, length=length)

    def _attended(
        self, q: Tensor[B], k: Tensor[B], v: Tensor[B], mask: Any, *, causal: bool, offset: int | None, **options: Any
    ) -> Tensor[B]:
        """Compute the attention of queries in heads."""
        return scaled_dot_product_attention(
            q,
            k,
            v,
            mask,
            causal=causal,
            offset=offset,
            scale=self.scale,
            softcap=self.softcap,
            window=self.window if causal else None,
            enable_gqa=self._key_heads != self.heads,
            **options,
        )

    def torch_names(self) -> dict[str, str]:
        """Map paths to PyTorch's names where they differ: see `burnpy.record.torch_weights`."""
        return {"in_proj_weight": "in_proj_weight.T"}

    def valid(self: MultiHeadAttention[Autodiff[I]]) -> MultiHeadAttention[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
