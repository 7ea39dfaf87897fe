"""Dropout layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.argument_checks import probability
from burnpy.nn.functional.dropping import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from burnpy.nn.module import FunctionLayer, Stateless
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor


class Dropping(FunctionLayer, Stateless):
    """The base class of the dropout layers."""

    _settings = ("p", "generator")

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        self.p = probability(type(self).__name__, p)
        self.generator = generator

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply dropout; the output has the shape of x."""
        return self._result(x, training=self.trains_on(x))


class Dropout(Dropping):
    """Dropout: in training mode, zeroes each element with probability ``p`` and scales the others by 1 / (1 - p).

    In eval mode the input is returned unchanged. The mode is set by ``train()`` and ``eval()``; by default it is
    training mode if the input's device differentiates.

    Args:
        p: the probability that an element is zeroed.
        generator: the source of random numbers; by default `burnpy.default_generator`, one per thread.

    Raises:
        ArgumentError: ``p`` is not a probability.

    Source: Srivastava et al., Dropout, 2014.

    >>> Dropout(0.5)(Tensor[NumPy].ones((3,))).tolist()
    [1.0, 1.0, 1.0]
    """

    _function = staticmethod(dropout)


class Dropout1d(Dropping):
    """Dropout of channels of sequences: see `burnpy.nn.functional.dropout1d`.

    Its arguments and mode are those of `Dropout`.
    """

    _function = staticmethod(dropout1d)


class Dropout2d(Dropping):
    """Dropout of channels of images: see `burnpy.nn.functional.dropout2d`.

    Its arguments and mode are those of `Dropout`.
    """

    _function = staticmethod(dropout2d)


class Dropout3d(Dropping):
    """Dropout of channels of volumes: see `burnpy.nn.functional.dropout3d`.

    Its arguments and mode are those of `Dropout`.
    """

    _function = staticmethod(dropout3d)


class AlphaDropout(Dropping):
    """Dropout that preserves mean and variance, for `Selu`: see `burnpy.nn.functional.alpha_dropout`.

    Its arguments and mode are those of `Dropout`.
    """

    _function = staticmethod(alpha_dropout)


class FeatureAlphaDropout(Dropping):
    """`AlphaDropout` of whole channels: see `burnpy.nn.functional.feature_alpha_dropout`.

    Its arguments and mode are those of `Dropout`.
    """

    _function = staticmethod(feature_alpha_dropout)
