"""Rotary position encoding."""

from __future__ import annotations

from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.nn.sizes import whole
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import cat, stack
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B


@explained
def rotary_encoding(x: Tensor[B], *, offset: int = 0, base: float = 10000.0, interleaved: bool = True) -> Tensor[B]:
    """Rotate the k-th pair of elements of the vector at position t by the angle ``t · base ** (-2 k / E)``.

    Products of rotated queries and keys depend on the difference of their positions alone.

    Args:
        x: shape (…, T, E), E even: queries or keys of each head.
        offset: the position of the first of the T vectors: with a cache of keys, the number of keys in it.
        base: the base of the angles.
        interleaved: whether pairs are neighbours, (0, 1), (2, 3), …, as in the paper; otherwise the k-th element of the
            first half pairs with the k-th of the second, as in GPT-NeoX and Llama.

    Returns:
        The shape and dtype of x. Angles are computed in float64.

    Raises:
        ShapeError: x has fewer than two dimensions, or E is odd.
        KindError: x is not a float tensor.
        ArgumentError: ``base`` is not above 0.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].from_data([[1.0, 0.0], [1.0, 0.0]])
    >>> rotary_encoding(x).tolist()
    [[1.0, 0.0], [0.540..., 0.841...]]
    """
    if not isinstance(x, Tensor):
        raise KindError(f"rotary_encoding() takes a float Tensor as x, got {a(type(x).__name__)}")
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ShapeError(f"rotary_encoding() takes x of shape (…, T, E) with E even, got shape {x.shape}")
    if not base > 0.0:
        raise ArgumentError(f"rotary_encoding() got base={base!r:.80}; expected a number above 0")
    first, (length, size) = whole("rotary_encoding", "offset", offset), x.shape[-2:]
    positions = Tensor.arange(first, first + length, dtype="float64", device=x.device).unsqueeze(1)
    exponents = Tensor.arange(0, size, 2, dtype="float64", device=x.device) * (-1.0 / max(size, 1))
    angles = positions * base**exponents
    cos, sin = angles.cos().to_dtype(x.dtype), angles.sin().to_dtype(x.dtype)
    if interleaved:
        even, odd = x.reshape(*x.shape[:-1], size // 2, 2).unbind(-1)
        return stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)
    low, high = x.chunk(2, -1) if size else (x, x)
    return cat([low * cos - high * sin, low * sin + high * cos], -1)
