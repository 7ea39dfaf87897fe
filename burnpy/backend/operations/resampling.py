"""Resampling: each element of the result is a weighted sum of few elements of x, its taps.

Along one dimension, the taps follow from sizes; in general, their places and weights are arguments. Interpolation of
images is resampling along one dimension after another. The places and weights are constants then, made on the CPU from
sizes alone, and cached. The transpose is of the same form, with other taps.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Bool, Dim, Float, Int, Shape
from burnpy.backend.rules import SHIFTED, Folded
from burnpy.backend.schema import BILINEAR, LINEAR, derived

_CUBIC = -0.75
"""The parameter of the cubic kernel, as PyTorch's."""
_CUBIC_ANTIALIASED = -0.5
"""The parameter of the cubic kernel with antialiasing, as Pillow's and PyTorch's."""


class Sampling(NamedTuple):
    """The mapping from elements of a result to elements of x, and the interpolation between those."""

    mode: str  #: "nearest", "nearest-exact", "linear" or "cubic"
    align_corners: bool  #: whether the first and last elements lie at the first and last of x
    step: float  #: the distance of two elements of the result, in elements of x
    antialias: bool = False  #: whether a kernel, linear or cubic, is as wide as ``step`` where that is more than 1


class Taps(NamedTuple):
    """The places and weights of a resampling; both of shape (taps, size), and constant."""

    places: Any  #: int64
    weights: Any  #: float64, or None if there is one tap of weight 1


class Resampling(OperationsBase):
    """Resampling along a dimension and at given places, and the transposes."""

    @derived(
        LINEAR,
        flops=lambda out: 4 * prod(out),
        vjp=lambda i, g, x_shape, dim, how: i.resample_backward(g, dim, x_shape[dim], how),
        batch=SHIFTED,
        onnx="images_and_signals.resample",
    )
    def resample(self, x: Float, dim: Dim, size: int, how: Sampling) -> Float:
        """Resample x along ``dim`` to ``size`` elements: the nearest, linear or cubic interpolation of its elements.

        Source of the cubic kernel: Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981.
        """
        return _weighted(self, x, dim, taps(x.shape[dim], size, how))

    @derived(
        LINEAR,
        flops=lambda grad: 4 * prod(grad),
        vjp=lambda i, g, grad_shape, dim, how: i.resample(g, dim, grad_shape[dim], how),
        batch=SHIFTED,
    )
    def resample_backward(self, grad: Float, dim: Dim, size: int, how: Sampling) -> Float:
        """Gradient of `resample` with respect to x, which has ``size`` elements along ``dim``."""
        return _weighted(self, grad, dim, transposed_taps(size, grad.shape[dim], how))

    @derived(
        BILINEAR,
        flops=lambda x, weights: 2 * prod(weights) * x[1],
        vjp=(
            lambda i, g, places, weights, x_shape: i.weighted_scatter(g, places, weights, x_shape[2]),
            lambda i, g, x, places: i.gathered_products(g, x, places),
        ),
        batch=Folded(("x", "places", "weights")),
    )
    def weighted_gather(self, x: Float, places: Int, weights: Float) -> Float:
        """Return the sum over t of ``x[n, c, places[n, t, p]] · weights[n, t, p]``, of shape (n, c, p).

        ``places``, int64, and ``weights`` are of one shape. A negative place stands for an element 0.
        """
        total = None
        for t in range(places.shape[1]):
            there, index = _taps_of(self, x.shape, places, t)
            value = self.where(there, self.gather(x, 2, index), 0.0)
            part = self.mul(value, _slice_of(self, weights, t))
            total = part if total is None else self.add(total, part)
        shape = (*x.shape[:2], places.shape[2])
        return self.full(shape, 0.0, x.dtype) if total is None else total

    @derived(
        BILINEAR,
        flops=lambda grad, weights: 2 * prod(weights) * grad[1],
        vjp=(
            lambda i, g, places, weights: i.weighted_gather(g, places, weights),
            lambda i, g, grad, places: i.gathered_products(grad, g, places),
        ),
        batch=Folded(("grad", "places", "weights")),
    )
    def weighted_scatter(self, grad: Float, places: Int, weights: Float, size: int) -> Float:
        """Gradient of `weighted_gather` with respect to x, which has ``size`` elements along its last dimension."""
        total = self.full((*grad.shape[:2], size), 0.0, grad.dtype)
        for t in range(places.shape[1]):
            there, index = _taps_of(self, grad.shape, places, t)
            part = self.where(there, self.mul(grad, _slice_of(self, weights, t)), 0.0)
            total = self.scatter_add(total, 2, index, part)
        return total

    @derived(
        BILINEAR,
        flops=lambda x, out: 2 * prod(out) * x[1],
        vjp=(
            lambda i, g, x, places: i.weighted_gather(x, places, g),
            lambda i, g, grad, places, x_shape: i.weighted_scatter(grad, places, g, x_shape[2]),
        ),
        batch=Folded(("grad", "x", "places")),
    )
    def gathered_products(self, grad: Float, x: Float, places: Int) -> Float:
        """Gradient of `weighted_gather` with respect to the weights: the sum over c of ``grad[n, c, p]`` times x."""
        parts = []
        for t in range(places.shape[1]):
            there, index = _taps_of(self, x.shape, places, t)
            value = self.where(there, self.gather(x, 2, index), 0.0)
            parts.append(self.sum(self.mul(grad, value), (1,), True))
        return self.cat(parts, 1) if parts else self.full(places.shape, 0.0, grad.dtype)


def _taps_of(b: Resampling, shape: Shape, places: Int, t: int) -> tuple[Bool, Int]:
    """Return which of the t-th places are not negative, (n, 1, p), and the places as an index, (n, c, p), 0 for
    negative ones."""
    d = b.discrete
    place = d.slice(places, (slice(None), slice(t, t + 1, 1)))
    there = d.ge(place, 0)
    return there, d.expand(d.maximum(place, 0), (*shape[:2], places.shape[2]))


def _slice_of(b: Resampling, weights: Float, t: int) -> Float:
    """Return the t-th weights, (n, 1, p)."""
    return b.slice(weights, (slice(None), slice(t, t + 1, 1)))


def _weighted(b: Resampling, x: Float, dim: int, table: Taps) -> Float:
    """Return the sum over the taps of the elements at their places along ``dim`` times their weights."""
    total = None
    for k, places in enumerate(table.places):
        part = b.index_select(x, dim, b.discrete.from_numpy(places))
        if table.weights is not None:
            weights = table.weights[k].astype(x.dtype).reshape((-1, *(1,) * (len(x.shape) - dim - 1)))
            part = b.mul(part, b.from_numpy(weights))
        total = part if total is None else b.add(total, part)
    return total


@lru_cache(maxsize=256)
def taps(source: int, size: int, how: Sampling) -> Taps:
    """Return the taps of a resampling from ``source`` to ``size`` elements.

    >>> taps(2, 4, Sampling("linear", False, 0.5)).weights.tolist()
    [[1.0, 0.75, 0.25, 1.0], [0.0, 0.25, 0.75, 0.0]]
    """
    positions = np.arange(size)
    if how.mode.startswith("nearest"):
        offset = 0.5 if how.mode == "nearest-exact" else 0.0
        at = (positions + offset).astype(np.float32) * np.float32(how.step)  # rounded as PyTorch does
        return Taps(np.minimum(at.astype(np.int64), source - 1)[None], None)
    if how.antialias:
        return _antialiased(source, size, how)
    at = positions * how.step if how.align_corners else (positions + 0.5) * how.step - 0.5
    if how.mode == "linear":
        at = np.clip(at, 0.0, None)
        low = np.minimum(np.floor(at).astype(np.int64), source - 1)
        share = np.clip(at - low, 0.0, 1.0)
        share[low == source - 1] = 0.0
        return Taps(np.stack([low, np.minimum(low + 1, source - 1)]), np.stack([1.0 - share, share]))
    low = np.floor(at).astype(np.int64)
    places = np.clip(low + np.arange(-1, 3)[:, None], 0, source - 1)
    return Taps(places, _cubic(np.abs(at - low - np.arange(-1, 3)[:, None])))


def _antialiased(source: int, size: int, how: Sampling) -> Taps:
    """Return the taps of a resampling whose kernel is stretched by ``how.step``, as Pillow's and PyTorch's. The weights
    of an element add up to 1. Where an element has fewer taps than others, those that are left have weight 0, at its
    last place."""
    stretch = max(how.step, 1.0)
    reach = stretch * (1.0 if how.mode == "linear" else 2.0)
    centre = (np.arange(size) + 0.5) * how.step
    first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + reach + 0.5).astype(np.int64), source) - 1
    places = first + np.arange(int((last - first).max(initial=0)) + 1)[:, None]
    distance = np.abs(places - centre + 0.5) / stretch
    weights = np.maximum(1.0 - distance, 0.0) if how.mode == "linear" else _cubic(distance, _CUBIC_ANTIALIASED)
    weights = np.where(places <= last, weights, 0.0)
    return Taps(np.minimum(places, last), weights / weights.sum(0) if source else weights)


def _cubic(distance: Any, a: float = _CUBIC) -> Any:
    """Return the cubic kernel with the parameter ``a``; it is 0 from the distance 2 on."""
    d = np.minimum(distance, 2.0)
    near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    far = ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    return np.where(d <= 1.0, near, far)


@lru_cache(maxsize=256)
def transposed_taps(source: int, size: int, how: Sampling) -> Taps:
    """Return the taps of the transpose of a resampling from ``source`` to ``size`` elements. Each element of x has as
    many as the one that the most elements of the result depend on; the others are of weight 0 at the same place as
    another of theirs, so that no infinity or NaN of elsewhere comes in."""
    places, weights = taps(source, size, how)
    weights = np.ones(places.shape) if weights is None else weights
    order = np.argsort(places.reshape(-1), kind="stable")
    targets = places.reshape(-1)[order]
    results = np.tile(np.arange(size), len(places))[order]
    kept = (weights.reshape(-1)[order] != 0.0) & (targets >= 0)  # none of no elements
    targets, results, values = targets[kept], results[kept], weights.reshape(-1)[order][kept]
    counts = np.bincount(targets, minlength=source)
    starts = np.cumsum(counts) - counts
    rank = np.arange(len(targets)) - starts[targets]
    first = np.zeros(source, np.int64)
    first[targets[rank == 0]] = results[rank == 0]
    most = max(int(counts.max(initial=0)), 1)
    table, shares = np.tile(first, (most, 1)), np.zeros((most, source))
    table[rank, targets] = results
    shares[rank, targets] = values
    return Taps(table, None if most == 1 and (shares == 1.0).all() else shares)
