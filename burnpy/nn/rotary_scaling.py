"""Scalings of the frequencies of a rotary encoding, for contexts that are longer than those of the training.

Each is a plain value, passed to `burnpy.nn.RotaryEncoding`. The settings have the meaning of the entries of
``rope_parameters`` in a model's ``config.json``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.nn.argument_checks import above_zero, positive

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class RotaryScaling:
    """The base class of scalings, which itself changes nothing."""

    @property
    def amplitude(self) -> float:
        """The factor of cosines and sines."""
        return 1.0

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
