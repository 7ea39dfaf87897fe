"""Determinants, inverses, powers and exponentials of square matrices."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Self

from burnpy.tensor.base import TensorBase
from burnpy.tensor.dims import integer
from burnpy.tensor.matrices import matrices
from burnpy.typevars import B, V


class SlogDet(NamedTuple, Generic[V]):
    """The result of ``x.slogdet()``: the determinant is sign · exp(logabsdet)."""

    sign: V
    """-1, 0 or 1."""
    logabsdet: V
    """The logarithm of the determinant's magnitude; -inf where it is 0."""


class Matrices(TensorBase[B]):
    """Functions of matrices (…, n, n), in batches; `burnpy.linalg` has more.

    Each raises a `ShapeError` for matrices that are not square. float16 and bfloat16 are computed in float32.
    """

    __slots__ = ()

    def det(self) -> Self:
        """The determinant, of the shape of the batch; its gradient is the adjugate's transpose, at singular x too.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> round(Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]]).det().item(), 4)
        -2.0
        """
        x = matrices("det", self, square=True)
        return self._like(x._backend.det(x._primitive))

    def slogdet(self) -> SlogDet[Self]:
        """The sign and the logarithm of the magnitude of the determinant, which itself may overflow.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> sign, logabsdet = (Tensor[NumPy].eye(3) * 10.0).slogdet()
        >>> sign.item(), round(logabsdet.item(), 4)
        (1.0, 6.9078)
        """
        x = matrices("slogdet", self, square=True)
        sign, logabsdet = x._backend.slogdet(x._primitive)
        return SlogDet(self._like(sign), self._like(logabsdet))

    def logdet(self) -> Self:
        """The logarithm of the determinant: -inf where that is 0, and NaN where it is negative.

        Of positive definite matrices, ``2 * linalg.cholesky(x).diagonal(dim1=-2, dim2=-1).log().sum(-1)`` is faster.
        """
        x = matrices("logdet", self, square=True)
        b: Any = x._backend
        sign, logabsdet = b.slogdet(x._primitive)
        return self._like(b.where(b.ge(sign, 0.0), logabsdet, float("nan")))

    def inverse(self) -> Self:
        """The inverse, so that ``x @ x.inverse()`` is the identity; to solve equations, `linalg.solve` is more exact.

        Raises:
            LinAlgError: a matrix is singular; the message names which of the batch.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[2.0, 0.0], [0.0, 4.0]]).inverse().tolist()
        [[0.5, 0.0], [0.0, 0.25]]
        """
        x = matrices("inverse", self, square=True)
        return self._like(x._backend.inv(x._primitive))

    def matrix_exp(self) -> Self:
        """The matrix exponential, Σ xᵏ / k!.

        Source: N. J. Higham, The Scaling and Squaring Method for the Matrix Exponential Revisited, 2005.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[0.0, 1.0], [0.0, 0.0]]).matrix_exp().tolist()
        [[1.0, 1.0], [0.0, 1.0]]
        """
        x = matrices("matrix_exp", self, square=True)
        return self._like(x._backend.matrix_exp(x._primitive))

    def matrix_power(self, n: int) -> Self:
        """Compute the n-th power of the matrices by repeated squaring; a negative n gives powers of the inverse.

        Raises:
            LinAlgError: n is negative, and a matrix is singular.
            ArgumentError: n is not an int.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[1.0, 1.0], [0.0, 1.0]]).matrix_power(5).tolist()
        [[1.0, 5.0], [0.0, 1.0]]
        """
        x = matrices("matrix_power", self, square=True)
        count = integer(n, "power", "matrix_power")
        b: Any = x._backend
        square = x._primitive
        if count < 0:
            square, count = b.inv(square), -count
        out = None
        while count:
            if count % 2:
                out = square if out is None else b.matmul(out, square)
            count //= 2
            square = b.matmul(square, square) if count else square
        if out is None:
            out = b.expand(b.eye(x.shape[-1], x.shape[-1], x.dtype), x.shape)
        return self._like(out)
