"""Dropout of elements and of whole channels, and dropout that preserves mean and variance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.nn.argument_checks import check_form, dims_at_least, floats, probability, window_dims
from burnpy.nn.module import FunctionLayer, Stateless
from burnpy.tensor.call_errors import explained
from burnpy.tensor.generator import drawn_from
from burnpy.tensor.levels import drawing
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.primitives import Bool, Shape
    from burnpy.tensor.generator import Generator

_SATURATED = -1.7580993408473766
"""The value of `selu` for large negative numbers: -scale · alpha."""


@explained
def dropout(x: Tensor[B], p: float = 0.5, *, training: bool = True, generator: Generator | None = None) -> Tensor[B]:
    """Set each element of x to zero with probability ``p``, and scale the others by 1 / (1 - p).

    Args:
        x: of any shape.
        p: the probability that an element is zeroed.
        training: if False, return x unchanged.
        generator: the source of random numbers; by default `burnpy.default_generator` of the device.

    Raises:
        ArgumentError: ``p`` is not a probability.

    Source: Srivastava et al., Dropout, 2014.

    >>> dropout(Tensor[NumPy].ones((4,)), 0.5, generator=Generator(1)).tolist() in [[a, b, c, d]
    ...     for a in (0, 2) for b in (0, 2) for c in (0, 2) for d in (0, 2)]
    True
    """
    (x,) = floats("dropout", 1, x=x)
    if not training or probability("dropout", p) == 0.0:
        return x
    return _dropped(*_drawn("dropout", x, p, x.shape, generator), p)


@explained
def dropout1d(x: Tensor[B], p: float = 0.5, *, training: bool = True, generator: Generator | None = None) -> Tensor[B]:
    """Set each channel of sequences to zero with probability ``p``, as `dropout2d` those of images.

    x has shape (N, channels, length), or (channels, length) for a single sequence.

    >>> kept = dropout1d(Tensor[NumPy].ones((1, 4, 2)), 0.5)
    >>> {*kept.flatten().tolist()} <= {0.0, 2.0}
    True
    """
    return _channels_dropped("dropout1d", x, p, training, generator)


@explained
def dropout2d(x: Tensor[B], p: float = 0.5, *, training: bool = True, generator: Generator | None = None) -> Tensor[B]:
    """Set each channel of images to zero with probability ``p``, and scale the others by 1 / (1 - p).

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        p: the probability that a channel is zeroed.
        training: if False, return x unchanged.
        generator: the source of random numbers; by default `burnpy.default_generator` of the device.

    Raises:
        ShapeError: x has another number of dimensions.
        ArgumentError: ``p`` is not a probability.

    Source: Tompson et al., Efficient Object Localization Using Convolutional Networks, 2015.

    >>> kept = dropout2d(Tensor[NumPy].ones((1, 4, 2, 2)), 0.5)
    >>> {*kept.flatten().tolist()} <= {0.0, 2.0}
    True
    """
    return _channels_dropped("dropout2d", x, p, training, generator)


@explained
def dropout3d(x: Tensor[B], p: float = 0.5, *, training: bool = True, generator: Generator | None = None) -> Tensor[B]:
    """Set each channel of volumes to zero with probability ``p``, as `dropout2d` those of images.

    x has shape (N, channels, depth, height, width), or without N for a single volume.

    >>> kept = dropout3d(Tensor[NumPy].ones((1, 4, 2, 2, 2)), 0.5)
    >>> {*kept.flatten().tolist()} <= {0.0, 2.0}
    True
    """
    return _channels_dropped("dropout3d", x, p, training, generator)


@explained
def alpha_dropout(
    x: Tensor[B], p: float = 0.5, *, training: bool = True, generator: Generator | None = None
) -> Tensor[B]:
    """Set each element of x to the saturation value of `selu` with probability ``p``, and rescale all elements.

    Numbers with mean 0 and variance 1 keep both.

    Args:
        x: of any shape.
        p: the probability that an element is dropped; with 1 the result is 0.
        training: if False, return x unchanged.
        generator: the source of random numbers; by default `burnpy.default_generator` of the device.

    Raises:
        ArgumentError: ``p`` is not a probability.

    Source: Klambauer et al., Self-Normalizing Neural Networks, 2017.

    >>> x = alpha_dropout(Tensor[NumPy].zeros((10000,)), 0.25)
    >>> sorted({round(v, 4) for v in x.tolist()})
    [-1.1435, 0.3812]
    """
    (x,) = floats("alpha_dropout", 1, x=x)
    if not training or probability("alpha_dropout", p) == 0.0:
        return x
    return _saturated(*_drawn("alpha_dropout", x, p, x.shape, generator), p)


@explained
def feature_alpha_dropout(
    x: Tensor[B], p: float = 0.5, *, training: bool = True, generator: Generator | None = None
) -> Tensor[B]:
    """Drop each channel of x as `alpha_dropout` drops elements.

    Args:
        x: shape (N, channels, …).
        p: the probability that a channel is dropped; with 1 the result is 0.
        training: if False, return x unchanged.
        generator: the source of random numbers; by default `burnpy.default_generator` of the device.

    Raises:
        ShapeError: x has fewer than two dimensions.
        ArgumentError: ``p`` is not a probability.

    >>> feature_alpha_dropout(Tensor[NumPy].ones((1, 4, 2)), 0.5, training=False).sum().item()
    8.0
    """
    (x,) = floats("feature_alpha_dropout", 1, x=x)
    if not training or probability("feature_alpha_dropout", p) == 0.0:
        return x
    dims_at_least("feature_alpha_dropout", "x", x.shape, 2, "(N, channels, …)")
    shape = (*x.shape[:2], *(1,) * (x.ndim - 2))
    return _saturated(*_drawn("feature_alpha_dropout", x, p, shape, generator), p)


def _channels_dropped(operation: str, x: Tensor[B], p: float, training: bool, generator: Generator | None) -> Tensor[B]:
    (x,) = floats(operation, 1, x=x)
    dims = window_dims(operation)
    check_form(operation, x.shape, dims)
    if not training or probability(operation, p) == 0.0:
        return x
    return _dropped(*_drawn(operation, x, p, (*x.shape[:-dims], *(1,) * dims), generator), p)


def _drawn(operation: str, x: Tensor[B], p: float, shape: Shape, generator: Generator | None) -> tuple[Tensor[B], Bool]:
    """Return x on the device that draws, and a mask of the kept elements, drawn in ``shape`` and expanded to x's."""
    x = drawing(x)
    device: Any = x.device
    mask = device.random_mask(drawn_from(generator, device, operation), shape, 1.0 - p)
    return x, mask if shape == x.shape else device.discrete.expand(mask, x.shape)


def _dropped(x: Tensor[B], kept: Bool, p: float) -> Tensor[B]:
    """Return the elements that are kept, scaled, among zeros."""
    device: Any = x.device
    return x._like(device.masked_scale(x._primitive, kept, 1.0 / (1.0 - p) if p < 1.0 else 1.0))


def _saturated(x: Tensor[B], kept: Bool, p: float) -> Tensor[B]:
    """Return the elements that are kept among those of `selu`'s saturation, all moved and scaled alike."""
    if p == 1.0:
        return x * 0.0
    device: Any = x.device
    scale = 1.0 / math.sqrt((_SATURATED * _SATURATED * p + 1.0) * (1.0 - p))
    out = device.where(kept, x._primitive, _SATURATED)
    return x._like(out) * scale - _SATURATED * scale * p


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

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply dropout; the output has the shape of x."""
        if x.__class__ is Tensor and not (self.p and self.trains_on(x)):  # without calls that do nothing
            return x
        return super().forward(x)


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
