"""Determinants, inverses, powers, products and ranks of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.linalg.equations import mirrored, tolerances
from burnpy.tensor.call_errors import explained
from burnpy.tensor.einsum import product_of
from burnpy.tensor.matrix_arguments import matrices
from burnpy.tensor.methods.linalg import SlogDet
from burnpy.tensor.operands import broadcast_shape
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B


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
    x: Tensor[B],
    *,
    atol: float | Tensor[B] | None = None,
    rtol: float | Tensor[B] | None = None,
    hermitian: bool = False,
) -> IntTensor[B]:
    """The number of singular values that are not 0, of the shape of the batch.

    Args:
        x: shape (…, m, n).
        atol: as for `pinv`, or a tensor whose shape broadcasts with the shape of the batch.
        rtol: likewise.
        hermitian: whether to take x as symmetric, and read its lower triangle only.

    Raises:
        ShapeError: the shapes do not broadcast.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> matrix_rank(Tensor[NumPy].ones((3, 2))).item()
    1
    """
    x = mirrored("matrix_rank", x) if hermitian else matrices("matrix_rank", x)
    given = [each for each in (atol, rtol) if isinstance(each, Tensor)]
    if broadcast_shape(x.shape[:-2], *[each.shape for each in given]) is None:
        shapes = " and ".join([str(each.shape) for each in given])
        raise ShapeError(
            f"matrix_rank(): tolerances of shape {shapes} do not broadcast with matrices of shape {x.shape}, whose "
            f"batch is {x.shape[:-2]}"
        )
    numbers = tolerances("matrix_rank", x, *[None if isinstance(each, Tensor) else each for each in (atol, rtol)])
    least, relative = (
        each.detach().unsqueeze(-1) if isinstance(each, Tensor) else number
        for each, number in zip((atol, rtol), numbers, strict=True)
    )
    if isinstance(least, Tensor) and rtol is None:
        relative = least.zeros_like().where(least > 0.0, numbers[1])
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
        raise ArgumentError(f"multi_dot() takes two tensors or more in a list, got {describe(tensors)}")
    return product_of("multi_dot", tensors, vectors=True)  # type: ignore[no-any-return]  # a Tensor
