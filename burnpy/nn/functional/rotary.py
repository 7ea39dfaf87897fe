"""Rotary position encoding of queries and keys, and the sinusoidal one, whose tables are made once for all layers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.devices import innermost
from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.nn.argument_checks import above_zero, whole
from burnpy.nn.rotary_scaling import RotaryScaling
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import cat, stack
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType


@explained
def rotary_encoding(
    x: Tensor[B],
    *,
    offset: int | IntTensor[B] = 0,
    base: float = 10000.0,
    interleaved: bool = True,
    scaling: RotaryScaling | None = None,
    length: int | None = None,
) -> Tensor[B]:
    """Rotate the k-th pair of elements of the vector at position t by the angle ``t · base ** (-2 k / E)``.

    Products of rotated queries and keys depend on the difference of their positions alone.

    Args:
        x: shape (…, T, E), E even: queries or keys of each head.
        offset: the position of the first of the T vectors: with a cache of keys, the number of keys in it. An
            `IntTensor` has one for all, (), or is of shape (N,), one for each example of x, (N, …, T, E); then negative
            positions, as of padding before a prompt, count as 0.
        base: the base of the angles.
        interleaved: whether pairs are neighbours, (0, 1), (2, 3), …, as in the paper; otherwise the k-th element of the
            first half pairs with the k-th of the second, as in GPT-NeoX and Llama.
        scaling: the scaling of the frequencies for contexts longer than those of the training, such as
            `burnpy.nn.Llama3Scaling`.
        length: the number of positions in all, past ones and these: required if ``offset`` is a tensor, and then an
            upper bound.

    Returns:
        The shape and dtype of x. Angles are computed in float64.

    Raises:
        ShapeError: x has fewer than two dimensions, or E is odd; or an offset has another shape.
        KindError: x is not a float tensor.
        ArgumentError: ``base`` is not above 0; or an offset is a tensor, and ``length`` is missing.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.

    >>> x = Tensor[NumPy].from_data([[1.0, 0.0], [1.0, 0.0]])
    >>> rotary_encoding(x).tolist()
    [[1.0, 0.0], [0.540..., 0.841...]]
    """
    if not isinstance(x, Tensor):
        raise KindError(f"rotary_encoding() takes a float Tensor as x, got {a(type(x).__name__)}")
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ShapeError(f"rotary_encoding() takes x of shape (…, T, E) with E even, got shape {x.shape}")
    above_zero("rotary_encoding", base=base)
    size = x.shape[-1]
    if not size:
        return x
    cos, sin = _tables_of(x, offset, length, _Angles(size, float(base), interleaved, scaling))
    if interleaved:
        others = x.reshape(*x.shape[:-1], size // 2, 2).flip(-1).reshape(x.shape)
    else:
        others = cat([x[..., size // 2 :], x[..., : size // 2]], -1)
    return x * cos + others * sin


@explained
def positional_encoding(x: Tensor[B], *, offset: int = 0, base: float = 10000.0) -> Tensor[B]:
    """Add sines and cosines of the position: ``sin(t · base ** (-2 k / E))`` to element 2 k, the cosine to 2 k + 1.

    Args:
        x: shape (…, T, E), E even: the vectors of tokens.
        offset: the position of the first of the T vectors.
        base: the base of the angles.

    Raises:
        ShapeError: x has fewer than two dimensions, or E is odd.
        KindError: x is not a float tensor.
        ArgumentError: ``base`` is not above 0, or the offset is no int.

    Source: Vaswani et al., Attention is all you need, 2017.

    >>> positional_encoding(Tensor[NumPy].zeros((2, 4)))[0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    if not isinstance(x, Tensor):
        raise KindError(f"positional_encoding() takes a float Tensor as x, got {a(type(x).__name__)}")
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ShapeError(f"positional_encoding() takes x of shape (…, T, E) with E even, got shape {x.shape}")
    above_zero("positional_encoding", base=base)
    angles = _Angles(x.shape[-1], float(base), True, None)
    cos, sin = _tables_of(x, whole("positional_encoding", "offset", offset), None, angles)
    return x + stack([sin[:, 1::2], cos[:, 1::2]], -1).reshape(x.shape[-2:])


class _Angles(NamedTuple):
    """The settings of an encoding."""

    size: int  #: E
    base: float
    interleaved: bool
    scaling: RotaryScaling | None


def _tables_of(
    x: Tensor[B], offset: int | IntTensor[B], length: int | None, angles: _Angles
) -> tuple[Tensor[B], Tensor[B]]:
    """Return the factors of the elements of x and of their partners, (T, E) or (N, 1, …, T, E)."""
    count, size = x.shape[-2:]
    if isinstance(offset, IntTensor):
        if length is None:
            raise ArgumentError(
                "rotary_encoding() got a tensor of offsets without length=, the largest number of positions; pass the "
                "capacity of the cache"
            )
        if offset.ndim and (x.ndim < 3 or offset.shape != x.shape[:1]):
            raise ShapeError(
                f"rotary_encoding() got offsets of shape {offset.shape} for x of shape {x.shape}; expected () or "
                f"{x.shape[:1]}, one for each example"
            )
        tables = _tables(x, angles, length, 0, _room(length))
        steps = IntTensor.arange(0, count, device=offset.device)
        positions = (offset.unsqueeze(-1) + steps if offset.ndim else offset + steps).clamp(0, length - 1)
        form = (offset.shape[0], *(1,) * (x.ndim - 3), count, size) if offset.ndim else (count, size)
        cos, sin = [table[positions].reshape(form) for table in tables]
        return cos, sin
    first = whole("rotary_encoding", "offset", offset)
    known = first + count if length is None else length
    start = min(first, 0)
    tables = _tables(x, angles, known, start, _room(first + count))
    cos, sin = [table[first - start : first - start + count] for table in tables]
    return cos, sin


def _room(length: int) -> int:
    """Return the number of positions of a table: a power of 2, so that few are made while a text grows."""
    return max(64, 1 << (length - 1).bit_length())


def _tables(x: Tensor[B], angles: _Angles, length: int, start: int, stop: int) -> tuple[Tensor[B], Tensor[B]]:
    """Return the tables of the positions from ``start`` to ``stop`` on the device of x."""
    plain: Any = innermost(x.device)
    seen = 0 if angles.scaling is None else angles.scaling.seen(length)
    cos, sin = _made(plain.inner if plain.records else plain, x.dtype, angles, seen, start, stop)
    return cos.to_device(x.device), sin.to_device(x.device)


@lru_cache(64)
def _made(
    device: Any, dtype: DType, angles: _Angles, seen: int, start: int, stop: int
) -> tuple[Tensor[Any], Tensor[Any]]:
    """Make the tables, (stop - start, E), on a plain device, where all layers of a model find them again.

    The first of a pair, (x, y), becomes x cos - y sin, the second y cos + x sin: each is multiplied by the cosine, and
    its partner by the sine with the sign here.
    """
    scale = angles.scaling or RotaryScaling()
    turns = np.outer(np.arange(start, stop, dtype=np.float64), scale.frequencies(angles.size, angles.base, seen))
    cos, sin = np.cos(turns) * scale.amplitude, np.sin(turns) * scale.amplitude
    pairs = [np.stack(pair, -1 if angles.interleaved else 1) for pair in ((cos, cos), (-sin, sin))]
    first, second = [
        Tensor.from_data(pair.reshape(len(turns), angles.size).astype(dtype), device=device) for pair in pairs
    ]
    return first, second
