"""The gradient of a convolution by its input, as convolutions of the gradient by the result: one for each phase.

Elements of the input whose places have the same rest when divided by the stride are reached by the same elements of the
weight. They are a phase, and their gradient is a convolution with the flipped part of the weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.primitives import Shape


def gradient_by_phases(
    grad: Any,
    weight: Any,
    shape: Shape,
    where: tuple[Shape, ...],
    groups: int,
    convolve: Callable[[Any, Any], Any],
) -> Any:
    """Return the gradient by the input as convolutions of the gradient; None if one of them is None.

    Args:
        grad: the gradient by the result.
        weight: the weight.
        shape: the shape of the input.
        where: stride, padding and dilation.
        groups: the number of groups.
        convolve: the convolution of ``grad`` with a part of the flipped weight, for stride, padding and dilation.
    """
    o, c, *kernel = weight.shape  # of each group, input and output channels are exchanged
    turned = weight.reshape((groups, o // groups, c, *kernel)).swapaxes(1, 2).reshape((-1, o // groups, *kernel))
    every, ones = slice(None), (1,) * len(kernel)
    total = None if where[0] == ones else np.zeros(shape, grad.dtype)
    for rests, part, padding, dilation, inside in _phases_of(shape, grad.shape, weight.shape, where):
        out = convolve(turned[(every, every, *part)], (ones, padding, dilation))
        if out is None:
            return None
        out = out[(every, every, *inside)]
        if total is None:
            return out
        total[(every, every, *map(slice, rests, [None] * len(kernel), where[0]))] = out
    return total


def _phases_of(shape: Shape, result: Shape, weight: Shape, where: tuple[Shape, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the convolutions of a gradient that give the gradient by the input, for each rest of its places.

    Args:
        shape: the shape of the input.
        result: the shape of the gradient.
        weight: the shape of the weight.
        where: stride, padding and dilation.

    Yields:
        The rests, the elements of the weight in the order in which they are used, padding and dilation, and the
        elements of the convolution's result that belong to the input; each for all dimensions.
    """
    sizes = zip(shape[2:], result[2:], weight[2:], *where, strict=True)
    for phases in product(*[_phases(*size).items() for size in sizes]):
        rests, each = zip(*phases, strict=True)
        yield rests, *zip(*each, strict=True)


class _Phase(NamedTuple):
    """The elements of an input along a dimension that have the same rest, as a convolution of the gradient."""

    part: slice  #: the elements of the weight, turned round
    padding: int
    dilation: int
    inside: slice  #: the elements of the convolution's result


def _phases(n: int, count: int, size: int, stride: int, padding: int, dilation: int) -> dict[int, _Phase]:
    """Return the phases of an input of length n by rest, without those that no window reaches.

    Args:
        n: the length of the input.
        count: the number of windows.
        size: the length of a window.
        stride: the distance of windows.
        padding: the zeros before and after the input.
        dilation: the distance of elements of a window.
    """
    phases: dict[int, _Phase] = {}
    common = math.gcd(stride, dilation)
    for rest in range(min(stride, n)):
        taken = [k for k in range(size) if (rest + padding - k * dilation) % stride == 0]
        if taken:
            part = slice(taken[-1], taken[0] - 1 if taken[0] else None, -(stride // common))
            start, length = (rest + padding - taken[-1] * dilation) // stride, -(-(n - rest) // stride)
            reach = dilation // common * (len(taken) - 1)
            zeros = max(0, -start, start + length + reach - count)
            inside = slice(start + zeros, start + zeros + length)
            phases[rest] = _Phase(part, zeros, dilation // common, inside)
    return phases
