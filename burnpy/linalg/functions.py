"""Determinants, inverses, powers, products and ranks of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.linalg.equations import mirrored, tolerances
from burnpy.tensor.base import describe
from burnpy.tensor.call_errors import explained
from burnpy.tensor.int_tensor import IntTensor
from burnpy.tensor.matrices import SlogDet, alike, matrices
from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


@explained
def det(x: Tensor[B]) -> Tensor[B]:
    """The determinants, ``x.det()``; differentiable at singular matrices too.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> det(Tensor[NumPy].eye(3)).item()
    1.0
    """
    return matrices("det", x, square=True).det()  # type: ignore[no-any-return]  # of a Tensor


@explained
def slogdet(x: Tensor[B]) -> SlogDet[Tensor[B]]:
    """The signs of the determinants and the logarithms of their magnitudes, ``x.slogdet()``.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> slogdet(-Tensor[NumPy].eye(3)).sign.item()
    -1.0
    """
    return matrices("slogdet", x, square=True).slogdet()  # type: ignore[no-any-return]  # of a Tensor


@explained
def inv(x: Tensor[B]) -> Tensor[B]:
    """The inverses, ``x.inverse()``.

    Raises:
        LinAlgError: a matrix is singular; the message names which of the batch.
        ShapeError: the matrices are not square.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> inv(Tensor[NumPy].from_data([[0.0, 2.0], [1.0, 0.0]])).tolist()
    [[0.0, 1.0], [0.5, 0.0]]
    """
    x = matrices("inv", x, square=True)
    return x._like(x._backend.inv(x._primitive))


@explained
def matrix_exp(x: Tensor[B]) -> Tensor[B]:
    """The matrix exponentials, ``x.matrix_exp()``.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> matrix_exp(Tensor[NumPy].zeros((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return matrices("matrix_exp", x, square=True).matrix_exp()  # type: ignore[no-any-return]  # of a Tensor


@explained
def matrix_power(x: Tensor[B], n: int) -> Tensor[B]:
    """The n-th powers, ``x.matrix_power(n)``; of negative n those of the inverse.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> matrix_power(Tensor[NumPy].from_data([[2.0]]), -2).tolist()
    [[0.25]]
    """
    return matrices("matrix_power", x, square=True).matrix_power(n)  # type: ignore[no-any-return]  # of a Tensor


@explained
def matrix_rank(
    x: Tensor[B], *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False
) -> IntTensor[B]:
    """The number of singular values that are not 0, of the shape of the batch; ``atol`` and ``rtol`` are `pinv`'s.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> matrix_rank(Tensor[NumPy].ones((3, 2))).item()
    1
    """
    x = mirrored("matrix_rank", x) if hermitian else matrices("matrix_rank", x)
    least, relative = tolerances("matrix_rank", x, atol, rtol)
    values = x._like(x._backend.svdvals(x._primitive)).detach()
    return (values > (values[..., :1] * relative).maximum(least)).sum(-1)


@explained
def multi_dot(tensors: Sequence[Tensor[B]]) -> Tensor[B]:
    """The product of matrices in the order of the fewest multiplications; the first and the last may be vectors.

    Raises:
        ArgumentError: there are fewer than two.
        ShapeError: the shapes do not match.

    Source: Cormen et al., Introduction to Algorithms, section 15.2.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].ones((2, 3))
    >>> multi_dot([x, x.T, x, Tensor[NumPy].ones((3,))]).tolist()
    [18.0, 18.0]
    """
    if not isinstance(tensors, (list, tuple)) or len(tensors) < 2:
        raise ArgumentError(f"multi_dot() takes two tensors or more in a list, and was given {describe(tensors)}")
    return product_of("multi_dot", tensors, vectors=True)


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
            raise ShapeError(f"{operation}() takes {kinds}, and was given shapes {', '.join(map(str, shapes))}")
    for left, right in zip(shapes, shapes[1:], strict=False):
        if left[-1] != right[0]:
            raise ShapeError(f"{operation}() was asked of shapes {left} and {right} in a row, which do not multiply")
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
