"""Products of several matrices, in the order that takes the fewest multiplications."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.tensor.call_errors import explained
from burnpy.tensor.matrices import alike
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

__all__ = ["chain_matmul"]


@explained
def chain_matmul(*matrices: Tensor[B]) -> Tensor[B]:
    """The product of matrices, in the order of the fewest multiplications; `linalg.multi_dot` takes vectors too.

    Raises:
        ArgumentError: there are none.
        ShapeError: one is no matrix, or they do not multiply.

    >>> from burnpy import Tensor, chain_matmul
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].ones((2, 3))
    >>> chain_matmul(x, x.T, x).shape
    (2, 3)
    """
    if not matrices:
        raise ArgumentError("chain_matmul() got no matrices; pass one or more")
    return product_of("chain_matmul", matrices, vectors=False)  # type: ignore[no-any-return]  # a Tensor


def product_of(operation: str, tensors: Sequence[Any], *, vectors: bool) -> Any:
    """Return the product of matrices; with ``vectors``, the first and the last may be vectors.

    Raises:
        ShapeError: one is no matrix, or they do not multiply.
    """
    members = alike(operation, *tensors)
    last = len(members) - 1
    shapes = [x.shape for x in members]
    for k, shape in enumerate(shapes):
        if len(shape) != 2 and not (vectors and len(shape) == 1 and k in (0, last)):
            kinds = "matrices, and vectors as the first and the last" if vectors else "matrices"
            raise ShapeError(f"{operation}() takes {kinds}, got shapes {', '.join(map(str, shapes))}")
    for left, right in pairwise(shapes):
        if left[-1] != right[0]:
            raise ShapeError(f"{operation}() got shapes {left} and {right} in a row, which do not multiply")
    sizes = [1 if len(shapes[0]) == 1 else shapes[0][0], *[shape[0] for shape in shapes[1:]]]
    sizes.append(1 if len(shapes[-1]) == 1 else shapes[-1][1])
    if len(shapes[0]) == 2:
        sizes[1] = shapes[0][1]
    splits = _splits(sizes)

    def product(first: int, end: int) -> Any:
        if end - first == 1:
            return members[first]
        middle = splits[first, end]
        return product(first, middle) @ product(middle, end)

    return product(0, len(members))


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return where the product of the factors from ``first`` to ``end`` is best divided; factor k is (sizes[k],
    sizes[k + 1])."""
    count = len(sizes) - 1
    costs: dict[tuple[int, int], int] = {(k, k + 1): 0 for k in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for first in range(count - length + 1):
            end = first + length
            cost, middle = min(
                (costs[first, m] + costs[m, end] + sizes[first] * sizes[m] * sizes[end], m)
                for m in range(first + 1, end)
            )
            costs[first, end], splits[first, end] = cost, middle
    return splits
