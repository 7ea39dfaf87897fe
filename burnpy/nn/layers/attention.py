"""Multi-head attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.nn.functional.attention import scaled_dot_product_attention
from burnpy.nn.functional.checks import exact_dims, probability
from burnpy.nn.functional.dense import linear
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
    """Multi-head attention on projections of queries, keys and values, with an output projection.

    The batch dimension comes first. ``in_proj_weight`` is (size, 3 · size), for queries, keys and values in turn: the
    transpose of PyTorch's, as is ``out_proj.weight``. In masks, true means that a query may attend to a key; in
    PyTorch's layer it means the reverse.

    Args:
        size: the size of input and output vectors.
        heads: the number of heads; must divide ``size``.
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
        weight = (initializer or XavierUniform())((size, 3 * size), device=device, generator=generator)
        self.in_proj_weight = Param(weight)
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
        """Compute the attention output of each query.

        Args:
            query: shape (N, T, size).
            key: shape (N, S, size); ``query`` by default.
            value: shape (N, S, size); ``key`` by default.
            mask: (T, S), or broadcasts to (N, heads, T, S): true where a query may attend to a key, or floats added to
                the scores. For one mask per example, (N, T, S), pass ``mask[:, None]``.
            key_mask: shape (N, S), true for valid keys, false for padding.
            causal: whether query t attends only to the keys 0 … offset + t.
            offset: the position of the first query among the keys; 0 by default. Required with fewer queries than keys:
                see `burnpy.nn.functional.scaled_dot_product_attention`.

        Returns:
            Shape (N, T, size).

        Raises:
            ShapeError: the shapes do not match.
            ArgumentError: ``causal`` with fewer queries than keys and no offset.
            KindError: ``key_mask`` is not a `BoolTensor`.
        """
        size = self.size
        key = query if key is None else key
        value = key if value is None else value
        for name, x in (("query", query), ("key", key), ("value", value)):
            exact_dims("MultiHeadAttention", name, x.shape, 3, f"(N, length, {size})")
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
        """Project queries, keys and values; a single product if all three are the same tensor."""
        weight = self.in_proj_weight.value
        bias = None if self.in_proj_bias is None else self.in_proj_bias.value
        size = weight.shape[0]
        if query is key and key is value:
            return linear(query, weight, bias).split(size, 2)
        projections: list[Tensor[B]] = []
        for k, x in enumerate((query, key, value)):
            part = slice(k * size, (k + 1) * size)
            projections.append(linear(x, weight[:, part], None if bias is None else bias[part]))
        return tuple(projections)

    def _heads(self, x: Tensor[B]) -> Tensor[B]:
        """Reshape (N, length, size) to (N, heads, length, size / heads)."""
        n, length, size = x.shape
        return x.reshape(n, length, self.heads, size // self.heads).transpose(1, 2)

    def _joined(
        self, mask: BoolTensor[B] | Tensor[B] | None, key_mask: BoolTensor[B] | None
    ) -> BoolTensor[B] | Tensor[B] | None:
        """Combine ``mask`` and ``key_mask`` into one mask."""
        if mask is not None and mask.ndim == 3:
            raise ShapeError(
                f"MultiHeadAttention() was given a mask of shape {mask.shape}, which may be one for each example or "
                "for each head; say which: mask[:, None] or mask[None]"
            )
        if key_mask is None:
            return mask
        argument: Any = key_mask
        if not isinstance(argument, BoolTensor) or argument.ndim != 2:
            shape = f" of shape {key_mask.shape}" if hasattr(argument, "shape") else ""
            what = f"{a(type(argument).__name__)}{shape}"
            error = ShapeError if isinstance(argument, BoolTensor) else KindError
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
        """The size of input and output vectors."""
        return self.in_proj_weight.shape[0]

    @property
    def bias(self) -> bool:
        """Whether the projections have a bias."""
        return self.in_proj_bias is not None

    def torch_names(self) -> dict[str, str]:
        """Map paths to PyTorch's names where they differ: see `burnpy.record.torch_names`."""
        return {"in_proj_weight": "in_proj_weight.T"}

    def valid(self: MultiHeadAttention[Autodiff[I]]) -> MultiHeadAttention[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
