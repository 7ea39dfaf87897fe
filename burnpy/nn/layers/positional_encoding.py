"""Encodings of positions: sinusoidal and rotary, and the scaling of rotary angles for long contexts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.devices import innermost
from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.nn.argument_checks import above_zero, positive, whole
from burnpy.nn.module import Unplaced
from burnpy.tensor.call_errors import Explaining, explained, inherit_methods
from burnpy.tensor.joining import cat, stack
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import describe, made_of
from burnpy.typevars import B

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.primitives import DType


@dataclass(frozen=True)
class RotaryScaling(metaclass=Explaining):
    """The base class of scalings, which itself changes nothing."""

    @property
    def amplitude(self) -> float:
        """The factor of cosines and sines."""
        return 1.0

    @explained
    def frequencies(self, size: int, base: float, length: int) -> NDArray[Any]:
        """Return the angles per position of each pair of elements, (size / 2,) in float64.

        Args:
            size: the size of the vectors.
            base: the base of the angles.
            length: the number of positions, as `seen` returns it.
        """
        return base ** (np.arange(0, size, 2) / -max(size, 1))

    def seen(self, length: int) -> int:
        """Return the part of the number of positions that the frequencies depend on: 0 unless they do."""
        return 0


@dataclass(frozen=True)
class LinearScaling(RotaryScaling):
    """Positions divided by ``factor``: "linear" in ``config.json``.

    Source: Chen et al., Extending Context Window of Large Language Models via Positional Interpolation, 2023.

    >>> LinearScaling(4.0).frequencies(4, 10000.0, 0).tolist()
    [0.25, 0.0025]
    """

    factor: float

    def __post_init__(self) -> None:
        above_zero("LinearScaling", factor=self.factor)

    def frequencies(self, size: int, base: float, length: int) -> NDArray[Any]:
        """Return the frequencies: see `RotaryScaling`."""
        return super().frequencies(size, base, length) / self.factor


@dataclass(frozen=True)
class DynamicScaling(RotaryScaling):
    """A base that grows with the number of positions beyond ``original_length``: "dynamic" in ``config.json``.

    Keys in a cache keep the rotation by the base of their time.

    Source: emozilla, Dynamically Scaled RoPE further increases performance of long context LLaMA, 2023.
    """

    factor: float
    original_length: int  #: the number of positions in training: ``max_position_embeddings``

    def __post_init__(self) -> None:
        above_zero("DynamicScaling", factor=self.factor)
        positive("DynamicScaling", original_length=self.original_length)

    def frequencies(self, size: int, base: float, length: int) -> NDArray[Any]:
        """Return the frequencies: see `RotaryScaling`."""
        stretch = self.factor * max(length, self.original_length) / self.original_length - (self.factor - 1.0)
        if size > 2:  # a single pair turns by 1 whatever the base
            base = base * stretch ** (size / (size - 2))
        return super().frequencies(size, base, length)

    def seen(self, length: int) -> int:
        """Return the number of positions, at least ``original_length``."""
        return max(length, self.original_length)


@dataclass(frozen=True)
class YarnScaling(RotaryScaling):
    """Slow pairs divided by ``factor``, fast ones as they are, a ramp between them: "yarn" in ``config.json``.

    Source: Peng et al., YaRN: Efficient Context Window Extension of Large Language Models, 2024.
    """

    factor: float
    original_length: int  #: the number of positions in training: ``original_max_position_embeddings``
    beta_fast: float = 32.0  #: pairs that turn more often than this in the original length keep their frequency
    beta_slow: float = 1.0  #: pairs that turn less often than this are divided by ``factor``
    attention_factor: float | None = None  #: the `amplitude`; 0.1 · log(factor) + 1 by default
    truncate: bool = True  #: whether the ramp begins and ends at whole pairs

    def __post_init__(self) -> None:
        above_zero("YarnScaling", factor=self.factor, beta_fast=self.beta_fast, beta_slow=self.beta_slow)
        positive("YarnScaling", original_length=self.original_length)

    @property
    def amplitude(self) -> float:
        """The factor of cosines and sines."""
        if self.attention_factor is not None:
            return self.attention_factor
        return 1.0 if self.factor <= 1.0 else 0.1 * math.log(self.factor) + 1.0

    def frequencies(self, size: int, base: float, length: int) -> NDArray[Any]:
        """Return the frequencies: see `RotaryScaling`."""
        plain = super().frequencies(size, base, length)
        low, high = [
            size * math.log(self.original_length / (turns * 2.0 * math.pi)) / (2.0 * math.log(base))
            for turns in (self.beta_fast, self.beta_slow)
        ]
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, size - 1)
        slow = np.clip((np.arange(size // 2) - low) / ((high - low) or 0.001), 0.0, 1.0)
        mixed: NDArray[Any] = plain / self.factor * slow + plain * (1.0 - slow)
        return mixed


@dataclass(frozen=True)
class Llama3Scaling(RotaryScaling):
    """Long waves divided by ``factor``, short ones as they are, a ramp between them: "llama3" in ``config.json``.

    Source: Llama Team, The Llama 3 Herd of Models, 2024, by the formula in the published code.
    """

    factor: float
    original_length: int  #: the number of positions in training: ``original_max_position_embeddings``
    low_frequency_factor: float = 1.0  #: waves longer than ``original_length`` / this are divided
    high_frequency_factor: float = 4.0  #: waves shorter than ``original_length`` / this keep their frequency

    def __post_init__(self) -> None:
        low, high = self.low_frequency_factor, self.high_frequency_factor
        above_zero("Llama3Scaling", factor=self.factor, low_frequency_factor=low, high_frequency_factor=high)
        positive("Llama3Scaling", original_length=self.original_length)

    def frequencies(self, size: int, base: float, length: int) -> NDArray[Any]:
        """Return the frequencies: see `RotaryScaling`."""
        plain = super().frequencies(size, base, length)
        low, high = self.low_frequency_factor, self.high_frequency_factor
        waves = self.original_length * plain / (2.0 * math.pi)  # in the original length
        fast = np.clip((waves - low) / ((high - low) or 0.001), 0.0, 1.0)
        mixed: NDArray[Any] = plain / self.factor * (1.0 - fast) + plain * fast
        return mixed


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
            positions, such as those of padding before a prompt, count as 0.
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
        raise KindError(f"rotary_encoding() takes a float Tensor as x, got {describe(x)}{made_of(x, 'Tensor')}")
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
        ArgumentError: ``base`` is not above 0, or the offset is not an int.

    Source: Vaswani et al., Attention is all you need, 2017.

    >>> positional_encoding(Tensor[NumPy].zeros((2, 4)))[0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    if not isinstance(x, Tensor):
        raise KindError(f"positional_encoding() takes a float Tensor as x, got {describe(x)}{made_of(x, 'Tensor')}")
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ShapeError(f"positional_encoding() takes x of shape (…, T, E) with E even, got shape {x.shape}")
    above_zero("positional_encoding", base=base)
    angles = _Angles(x.shape[-1], float(base), True, None)
    cos, sin = _tables_of(x, whole("positional_encoding", "offset", offset), None, angles)
    return x + stack([sin[:, 1::2], cos[:, 1::2]], -1).reshape(x.shape[-2:])


class _Angles(NamedTuple):
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
    if innermost(x.device).sizes_vary:
        return _computed(x, angles, known, first)
    start = min(first, 0)
    tables = _tables(x, angles, known, start, _room(first + count))
    cos, sin = [table[first - start : first - start + count] for table in tables]
    return cos, sin


def _computed(x: Tensor[B], angles: _Angles, length: int, first: int) -> tuple[Tensor[B], Tensor[B]]:
    """Return the tables of x's positions as operations of a recording, which hold for other lengths as well."""
    scale, count = angles.scaling or RotaryScaling(), x.shape[-2]
    frequencies = scale.frequencies(angles.size, angles.base, scale.seen(length) if angles.scaling else 0)
    places = IntTensor.arange(first, first + count, device=x.device).float("float64").unsqueeze(1)
    turns = places * Tensor.from_data(np.asarray(frequencies, np.float64), dtype="float64", device=x.device)
    cos, sin = turns.cos() * scale.amplitude, turns.sin() * scale.amplitude
    dim = -1 if angles.interleaved else 1
    both = [stack(pair, dim=dim).reshape(count, angles.size).to_dtype(x.dtype) for pair in ((cos, cos), (-sin, sin))]
    return both[0], both[1]


def _room(length: int) -> int:
    """Return the number of positions of a table: a power of 2, so that a growing text needs few tables."""
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
    """Make the tables, (stop - start, E), on a plain device, where all layers of a model find them again. The first of
    a pair, (x, y), becomes x cos - y sin, the second y cos + x sin: each is multiplied by the cosine, and its partner
    by the sine with the sign here."""
    scale = angles.scaling or RotaryScaling()
    turns = np.outer(np.arange(start, stop, dtype=np.float64), scale.frequencies(angles.size, angles.base, seen))
    cos, sin = np.cos(turns) * scale.amplitude, np.sin(turns) * scale.amplitude
    pairs = [np.stack(pair, -1 if angles.interleaved else 1) for pair in ((cos, cos), (-sin, sin))]
    first, second = [
        Tensor.from_data(pair.reshape(len(turns), angles.size).astype(dtype), device=device) for pair in pairs
    ]
    return first, second


@inherit_methods
class RotaryEncoding(Unplaced):
    """Rotary position encoding of queries and keys: see `burnpy.nn.functional.rotary_encoding`.

    Args:
        base: the base of the angles.
        interleaved: whether pairs are neighbours, as in the paper, or an element of either half, as in Llama.
        scaling: the scaling for contexts longer than those of the training: `LinearScaling`, `DynamicScaling`,
            `YarnScaling` or `Llama3Scaling`.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.

    >>> RotaryEncoding()(Tensor[NumPy].ones((2, 5, 8)), offset=3).shape
    (2, 5, 8)
    """

    def __init__(
        self, *, base: float = 10000.0, interleaved: bool = True, scaling: RotaryScaling | None = None
    ) -> None:
        above_zero("RotaryEncoding", base=base)
        if scaling is not None and not isinstance(scaling, RotaryScaling):  # pyright: ignore[reportUnnecessaryIsInstance]  # as untyped code passes
            raise KindError(
                f"RotaryEncoding() takes as scaling a value such as Llama3Scaling(...), got {a(type(scaling).__name__)}"
            )
        self.base, self.interleaved, self.scaling = base, interleaved, scaling

    def forward(self, x: Tensor[B], *, offset: int | IntTensor[B] = 0, length: int | None = None) -> Tensor[B]:
        """Return x (…, T, E), rotated by its positions. The first is ``offset``: see `functional.rotary_encoding`."""
        return rotary_encoding(
            x, offset=offset, base=self.base, interleaved=self.interleaved, scaling=self.scaling, length=length
        )

    if TYPE_CHECKING:

        def __call__(self, x: Tensor[B], *, offset: int | IntTensor[B] = 0, length: int | None = None) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@inherit_methods
class PositionalEncoding(Unplaced):
    """Sinusoidal position encoding of tokens: see `burnpy.nn.functional.positional_encoding`.

    Args:
        base: the base of the angles.

    Raises:
        ArgumentError: ``base`` is not above 0.

    Source: Vaswani et al., Attention is all you need, 2017.

    >>> PositionalEncoding()(Tensor[NumPy].zeros((3, 5, 8)), offset=2).shape
    (3, 5, 8)
    """

    def __init__(self, *, base: float = 10000.0) -> None:
        above_zero("PositionalEncoding", base=base)
        self.base = base

    def forward(self, x: Tensor[B], *, offset: int = 0) -> Tensor[B]:
        """Return x (…, T, E) plus the sines and cosines of its positions. The first one is ``offset``."""
        return positional_encoding(x, offset=offset, base=self.base)

    if TYPE_CHECKING:

        def __call__(self, x: Tensor[B], *, offset: int = 0) -> Tensor[B]:
            """Return the result of `forward`."""
            ...
