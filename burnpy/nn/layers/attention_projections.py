"""The projections of queries, keys and values of attention: one matrix, or a linear layer for each."""

from __future__ import annotations

from typing import Any, TypeAlias

from burnpy.backend.primitives import DType
from burnpy.nn.functional.dense import linear
from burnpy.nn.layers.dense import linear_of
from burnpy.nn.module import Module
from burnpy.nn.tree import new_module
from burnpy.nn.variable import Param
from burnpy.tensor.joining import cat
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

Projection: TypeAlias = Any
"""A `Linear` layer, or the `QuantizedLinear` or `Lora` in its place."""
_PARTS = ("q_proj", "k_proj", "v_proj")


class AttentionProjections(Module[B]):
    """The base class of attention: ``in_proj_weight`` for queries, keys and values in turn, as in PyTorch.

    Where they are quantized or adapted, ``q_proj``, ``k_proj`` and ``v_proj`` are layers in its place.
    """

    heads: int
    key_heads: int | None
    head_size: int | None
    in_proj_weight: Param[B]  #: (size, (heads + 2 · key_heads) · head_size); missing where the parts are layers
    in_proj_bias: Param[B] | None
    q_proj: Projection
    k_proj: Projection
    v_proj: Projection

    def _join(self, weight: Param[B], bias: Param[B] | None) -> None:
        """Set the parameters of one matrix, in ``__init__``."""
        self.in_proj_weight, self.in_proj_bias = weight, bias
        self.q_proj = self.k_proj = self.v_proj = None

    def _in_parts(self) -> Any:
        """Return the same attention with a linear layer for each part; None if it has these already."""
        if self.q_proj is not None:
            return None
        weight, bias = self.in_proj_weight, self.in_proj_bias
        layers: dict[str, Any] = {}
        for name, (start, stop) in zip(_PARTS, self._ranges(), strict=True):
            columns = Param(weight.value.detach()[:, start:stop], frozen=weight.frozen)
            of_bias = None if bias is None else Param(bias.value.detach()[start:stop], frozen=bias.frozen)
            layers[name] = linear_of(columns, of_bias)
        fields = {name: x for name, x in vars(self).items() if not name.startswith("in_proj")}
        parts = (*(name for name in self._parts if name in fields), *_PARTS)
        return new_module(type(self), {**fields, **layers}, parts, self._override)

    def _ranges(self) -> list[tuple[int, int]]:
        """Return the columns of queries, keys and values."""
        wide, narrow = self.heads * self._head_size, self._key_heads * self._head_size
        return [(0, wide), (wide, wide + narrow), (wide + narrow, wide + 2 * narrow)]

    def _projected(self, x: Tensor[B], start: int = 0, end: int | None = None) -> Tensor[B]:
        """Project x by the columns of the weight from ``start`` to ``end``: for queries, keys and values in turn."""
        if self.q_proj is not None:
            inside = [start <= a and (end is None or b <= end) for a, b in self._ranges()]
            layers = [self.q_proj, self.k_proj, self.v_proj]
            parts: list[Tensor[B]] = [layer(x) for layer, wanted in zip(layers, inside, strict=True) if wanted]
            return parts[0] if len(parts) == 1 else cat(parts, dim=-1)
        weight = self.in_proj_weight.value
        bias = None if self.in_proj_bias is None else self.in_proj_bias.value
        if start or end is not None:
            part = slice(start, end)
            weight, bias = weight[:, part], None if bias is None else bias[part]
        return linear(x, weight, bias)

    def _keys_and_values(self, key: Tensor[B], value: Tensor[B]) -> tuple[Tensor[B], Tensor[B]]:
        """Project keys and values; a single product if both are the same tensor."""
        wide, narrow = self.heads * self._head_size, self._key_heads * self._head_size
        if key is value:
            both, count = self._heads(self._projected(key, wide)), self._key_heads
            return both[:, :count], both[:, count:]
        k, v = self._projected(key, wide, wide + narrow), self._projected(value, wide + narrow)
        return self._heads(k), self._heads(v)

    def _heads(self, x: Tensor[B]) -> Tensor[B]:
        """Reshape (N, length, heads · head_size) to (N, heads, length, head_size)."""
        (n, length, size), each = x.shape, self._head_size
        return x.reshape(n, length, size // each, each).transpose(1, 2)

    @property
    def _key_heads(self) -> int:
        """The number of heads of keys and values."""
        return self.heads if self.key_heads is None else self.key_heads

    @property
    def _head_size(self) -> int:
        """The size of the vectors of a head."""
        return self.size // self.heads if self.head_size is None else self.head_size

    @property
    def _dtype(self) -> DType:
        """The dtype of keys and values."""
        return next(x.dtype for x in self._variables().values() if x.kind == "float")

    @property
    def size(self) -> int:
        """The size of input and output vectors."""
        return self.in_proj_weight.shape[0] if self.q_proj is None else int(self.q_proj.in_features)

    @property
    def bias(self) -> bool:
        """True if the projections have a bias."""
        if self.q_proj is None:
            return self.in_proj_bias is not None
        return any(path.endswith("bias") for path in self.q_proj._variables())
