"""Sobol points: sequences that fill the unit cube more evenly than random numbers do.

Each dimension of point n is the sum (by xor) of direction numbers, one for each bit of n's Gray code. Direction numbers
follow from a primitive polynomial over the integers modulo 2 and a few initial numbers, by a recurrence.

Source: Bratley and Fox, Algorithm 659: Implementing Sobol's Quasirandom Sequence Generator, 1988. The initial numbers
are those of Joe and Kuo, Constructing Sobol Sequences with Better Two-Dimensional Projections, 2008. Points are
scrambled as by Matoušek, On the L2-Discrepancy for Anchored Boxes, 1998.
"""

from __future__ import annotations

from functools import cache
from operator import index
from typing import Any

import numpy as np

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.tensor.creation import Factory, Size, factory_shape
from burnpy.tensor.tensor_base import describe

_INITIAL = """
1 0 1|2 1 1 3|3 1 1 3 1|3 2 1 1 1|4 1 1 1 3 3|4 4 1 3 5 13|5 2 1 1 5 5 17|5 4 1 1 5 5 5|5 7 1 1 7 11 19|5 11 1 1 5 1 1
5 13 1 1 1 3 11|5 14 1 3 5 5 31|6 1 1 3 3 9 7 49|6 13 1 1 1 15 21 21|6 16 1 3 1 13 27 49|6 19 1 1 1 15 7 5
6 22 1 3 1 15 13 25|6 25 1 1 5 5 19 61|7 1 1 3 7 11 23 15 103|7 4 1 3 7 13 13 15 69|7 7 1 1 3 13 7 35 63
7 8 1 3 5 9 1 25 53|7 14 1 3 1 13 9 35 107|7 19 1 3 1 5 27 61 31|7 21 1 1 5 11 19 41 61|7 28 1 3 5 3 3 13 69
7 31 1 1 7 13 1 19 1|7 32 1 3 7 5 13 19 59|7 37 1 1 3 9 25 29 41|7 41 1 3 5 13 23 1 55|7 42 1 3 7 3 13 59 17
7 50 1 3 1 3 5 53 69|7 55 1 1 5 5 23 33 13|7 56 1 1 7 7 1 61 123|7 59 1 1 7 9 13 61 49|7 62 1 3 3 5 3 55 33
8 14 1 3 1 15 31 13 49 245|8 21 1 3 5 15 31 59 63 97|8 22 1 3 1 11 11 11 77 249
"""
"""For each dimension after the first: the degree of its polynomial, the coefficients between the first and the last one
as the bits of a number, and the initial direction numbers."""
MOST_DIMS = 2 + _INITIAL.count("|") + _INITIAL.strip().count("\n")
"""The number of dimensions."""
_BITS = 32
_KEPT = {"float64": 32, "float32": 24, "float16": 11, "bfloat16": 8}
"""The bits of a point that a dtype represents: rounding must not reach 1."""
_LOW = 10
_BLOCK = 1 << _LOW
"""The number of consecutive points that are computed from one table, and the number of its bits."""


def sobol(cls: Any, shape: Size, start: int, seed: int | None, dtype: Any, device: Any) -> Any:
    """Implement ``Tensor.sobol``."""
    target = Factory(cls, device, "sobol")
    target_dtype, sizes = target.dtype(dtype), factory_shape(shape, target.factory)
    if len(sizes) != 2 or sizes[1] > MOST_DIMS:
        raise ShapeError(
            f"{target.factory}() got shape {sizes}; expected (points, dims), with at most {MOST_DIMS} dims"
        )
    try:
        first = index(start)
    except TypeError:
        first = -1
    if not 0 <= first <= (1 << _BITS) - sizes[0]:
        raise ArgumentError(
            f"{target.factory}() got start={describe(start)} for {sizes[0]} points; expected an int from 0, and "
            f"at most 2**{_BITS} points"
        )
    bits = points(first, *sizes, seed, target.factory)
    kept = _KEPT[target_dtype.name]
    wide = target_dtype if target_dtype.itemsize >= 4 else np.dtype(np.float32)
    values = (bits >> np.uint32(_BITS - kept)).astype(wide) * wide.type(2.0**-kept)
    return target.wrap(target.backend.from_numpy(values.astype(target_dtype, copy=False)))


def points(first: int, count: int, dims: int, seed: int | None, operation: str) -> Any:
    """Return points of shape (count, dims), as uint32 numbers of 1 / 2³²; scrambled, if there is a seed.

    Raises:
        ArgumentError: the seed is neither None nor an int that is not negative.
    """
    directions = _directions()[:, :dims]
    shift = np.zeros((dims,), np.uint32)
    if seed is not None:
        directions, shift = _scrambled(directions, _generator(seed, operation))
    order = np.arange(_BLOCK)
    order ^= order >> 1
    low = _sums(order, directions[:_LOW], np.zeros((dims,), np.uint32))
    pair = np.stack((low, low ^ directions[_LOW - 1]))  # of blocks with an even and with an odd number
    blocks = np.arange(first >> _LOW, ((first + count - 1) >> _LOW) + 1)
    out = pair[blocks & 1]
    out ^= _sums(blocks ^ (blocks >> 1), directions[_LOW:], shift)[:, None, :]
    skipped = first % _BLOCK
    return out.reshape(-1, dims)[skipped : skipped + count]


def _sums(chosen: Any, directions: Any, start: Any) -> Any:
    """Return the xor of ``start`` and of the direction numbers whose bits are set in each of the numbers ``chosen``."""
    out = np.broadcast_to(start, (len(chosen), len(start))).copy()
    for bit, numbers in enumerate(directions):
        out ^= ((chosen >> bit) & 1).astype(np.uint32)[:, None] * numbers
    return out


@cache
def _directions() -> Any:
    """Return the direction numbers of all dimensions, of shape (32, `MOST_DIMS`)."""
    out = np.zeros((_BITS, MOST_DIMS), np.uint32)
    out[:, 0] = [1 << (_BITS - 1 - k) for k in range(_BITS)]
    for dim, row in enumerate(_INITIAL.replace("|", "\n").split("\n")[1:-1], 1):
        degree, coefficients, *initial = map(int, row.split())
        numbers = [m << (_BITS - 1 - k) for k, m in enumerate(initial)]
        for k in range(degree, _BITS):
            number = numbers[k - degree] ^ (numbers[k - degree] >> degree)
            for j in range(1, degree):
                if (coefficients >> (degree - 1 - j)) & 1:
                    number ^= numbers[k - j]
            numbers.append(number)
        out[:, dim] = numbers
    out.setflags(write=False)
    return out


def _scrambled(directions: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return the products of random lower triangular matrices, modulo 2, with direction numbers, and a random shift.

    A dimension has one matrix, whose diagonal is 1, so that each bit depends on itself and on higher ones.
    """
    dims = directions.shape[1]
    lower = rng.integers(0, 1 << _BITS, (_BITS, dims), np.uint32)
    out = np.zeros_like(directions)
    for row in range(_BITS):  # from the highest bit on
        own = np.uint32(1 << (_BITS - 1 - row))
        higher = np.uint32(((1 << row) - 1) << (_BITS - row))
        parity = np.bitwise_count(directions & ((lower[row] & higher) | own)) & np.uint8(1)
        out |= parity.astype(np.uint32) * own
    return out, rng.integers(0, 1 << _BITS, (dims,), np.uint32)


def _generator(seed: Any, operation: str) -> np.random.Generator:
    try:
        number = index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise ArgumentError(f"{operation}() got the seed {describe(seed)}; a seed is a non-negative int")
    return np.random.Generator(np.random.PCG64(number))
