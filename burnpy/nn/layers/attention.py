"""`MultiHeadAttention`: several attentions side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.nn.functional.attention import scaled_dot_product_attention
from burnpy.nn.functional.checks import exact_dims, probability
from burnpy.nn.functional.linear import linear
from burnpy.nn.init import Initializer, XavierUniform
from burnpy.nn.layers.linear import Linear
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import positive
from burnpy.nn.variable import Param
from burnpy.tensor.bool_tensor import BoolTensor
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class MultiHeadAttention(Module[B]):
    """Several attentions side by side, on projections of queries, keys and values; their results together projected.

    The batch comes first. ``in_proj_weight`` is (size, 3 · size), for queries, keys and values in turn: the transpose
    of PyTorch's, as is ``out_proj.weight``. In masks true is what may be attended to; in PyTorch's layer
    it is the reverse.

    Args:
        size: of the vectors that come in and go out.
        heads: how many attentions; must divide ``size``.
        dropout: how likely a weight is dropped in training.
        bias: whether something is added to the projections, zeros at first.
        device: where the layer is.
        initializer: of ``in_proj_weight``; Xavier's uniform one, unless given.
        generator: what to draw the first values from.

    Raises:
        ArgumentError: a setting makes no sense.

    Source: Vaswani et al., Attention Is All You Need, 2017.

    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].ones((2, 5, 8))
    >>> MultiHeadAttention(8, 2, device=NumPy)(x, causal=True).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        size: int,
        heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        positive("MultiHeadAttention", size=size, heads=heads)
        if size % heads:
            raise ArgumentError(f"MultiHeadAttention() was given {heads} heads for size {size}, which they must divide")
        self.heads = heads
        self.dropout = probability("MultiHeadAttention", dropout)
        first = (initializer or XavierUniform())((size, 3 * size), device=device, generator=generator)
        self.in_proj_weight = Param(first)
        self.in_proj_bias = Param(Tensor.zeros((3 * size,), device=device)) if bias else None
        projection = Linear(size, size, bias=bias, device=device, generator=generator)
        self.out_proj = projection.map(lambda b: b.zeros_like(), "bias") if bias else projection

    def forward(
        self,
        query: Tensor[B],
        key: Tensor[B] | None = None,
        value: Tensor[B] | None = None,
        *,
        mask: BoolTensor[B] | Tensor[B] | None = None,
        key_mask: BoolTensor[B] | None = None,
        causal: bool = False,
        offset: int | None = None,
    ) -> Tensor[B]:
        """What each query finds.

        Args:
            query: shape (N, T, size).
            key: shape (N, S, size); ``query``, unless given.
            value: shape (N, S, size); ``key``, unless given.
            mask: (T, S), or broadcasts to (N, heads, T, S): true where a query may attend to a key, or floats to be
                added. For one of each example, (N, T, S), write ``mask[:, None]``.
            key_mask: shape (N, S), true for the keys that are there, false for padding.
            causal: whether query t attends to the keys 0 … offset + t only.
            offset: where the first query stands among the keys; 0, unless given. Fewer queries than keys need it: see
                `burnpy.nn.functional.scaled_dot_product_attention`.

        Returns:
            Shape (N, T, size).

        Raises:
            ShapeError: the shapes do not belong together.
            ArgumentError: ``causal`` leaves open where the queries stand.
            KindError: ``key_mask`` is no `BoolTensor`.
        """
        size = self.size
        key = query if key is None else key
        value = key if value is None else value
        for name, x in (("query", query), ("key", key), ("value", value)):
            exact_dims("MultiHeadAttention", name, x, 3, f"(N, length, {size})")
        q, k, v = (self._heads(x) for x in self._projected(query, key, value))
        attended = scaled_dot_product_attention(
            q,
            k,
            v,
            self._joined(mask, key_mask),
            causal=causal,
            offset=offset,
            dropout_p=self.dropout if self.dropout and self.trains_on(query) else 0.0,
        )
        return self.out_proj(attended.transpose(1, 2).reshape(*query.shape[:2], size))

    def _projected(self, query: Tensor[B], key: Tensor[B], value: Tensor[B]) -> tuple[Tensor[B], ...]:
        """Queries, keys and values, with as few products as there are different tensors."""
        weight = self.in_proj_weight.value
        bias = None if self.in_proj_bias is None else self.in_proj_bias.value
        size = weight.shape[0]
        if query is key and key is value:
            return linear(query, weight, bias).split(size, 2)
        found: list[Tensor[B]] = []
        for k, x in enumerate((query, key, value)):
            part = slice(k * size, (k + 1) * size)
            found.append(linear(x, weight[:, part], None if bias is None else bias[part]))
        return tuple(found)

    def _heads(self, x: Tensor[B]) -> Tensor[B]:
        """From (N, length, size) to (N, heads, length, size / heads)."""
        n, length, size = x.shape
        return x.reshape(n, length, self.heads, size // self.heads).transpose(1, 2)

    def _joined(
        self, mask: BoolTensor[B] | Tensor[B] | None, key_mask: BoolTensor[B] | None
    ) -> BoolTensor[B] | Tensor[B] | None:
        """One mask of two."""
        if mask is not None and mask.ndim == 3:
            raise ShapeError(
                f"MultiHeadAttention() was given a mask of shape {mask.shape}, which may be one for each example or "
                "for each head; say which: mask[:, None] or mask[None]"
            )
        if key_mask is None:
            return mask
        given: Any = key_mask
        if not isinstance(given, BoolTensor) or given.ndim != 2:
            shape = f" of shape {key_mask.shape}" if hasattr(given, "shape") else ""
            what = f"{a(type(given).__name__)}{shape}"
            error = ShapeError if isinstance(given, BoolTensor) else KindError
            raise error(f"MultiHeadAttention() takes a BoolTensor of shape (N, S) as key_mask, and was given {what}")
        wide = key_mask[:, None, None, :]
        if mask is None:
            return wide
        if isinstance(mask, Tensor):
            return mask + Tensor.zeros(wide.shape, dtype=mask.dtype, device=mask.device).masked_fill(
                ~wide, -float("inf")
            )
        return mask & wide

    @property
    def size(self) -> int:
        """The size of the vectors that come in and go out."""
        return self.in_proj_weight.shape[0]

    @property
    def bias(self) -> bool:
        """Whether something is added to the projections."""
        return self.in_proj_bias is not None

    def torch_names(self) -> dict[str, str]:
        """PyTorch's names, where they differ: see `burnpy.record.torch_names`."""
        return {"in_proj_weight": "in_proj_weight.T"}

    def valid(self: MultiHeadAttention[Autodiff[I]]) -> MultiHeadAttention[I]:
        """The same layer on the inner backend."""
        return rebound(self)
