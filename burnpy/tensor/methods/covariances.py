"""Sums that skip NaN, and covariances, of floats and ints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from burnpy.tensor.base import TensorBase
from burnpy.tensor.covariances import correlation, covariance
from burnpy.tensor.dims import DimsLike, dims_of, integer, need_bool
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.discrete import Ints
    from burnpy.tensor.tensor import Tensor


class Covariances(TensorBase[B]):
    """Statistics of floats and ints."""

    __slots__ = ()

    def nansum(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """The sum over ``dim`` of the elements that are not NaN, to which alone the gradient goes; of ints, of all.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([1.0, float("nan"), 2.0]).nansum().item()
        3.0
        """
        if self.kind == "int":
            return self.sum(dim, keepdim, dtype=dtype)  # type: ignore[attr-defined, no-any-return]  # NumberReductions'
        x: Any = self if dtype is None else self.to_dtype(dtype)  # type: ignore[attr-defined]  # Conversion's
        dims = dims_of(dim, x.ndim, "nansum")
        need_bool(keepdim, "nansum")
        return x._like(x._backend.nansum(x._primitive, dims, keepdim))  # type: ignore[no-any-return]  # of this class

    def cov(
        self, *, correction: int = 1, fweights: Ints[B] | None = None, aweights: Tensor[B] | None = None
    ) -> Tensor[B]:
        """The covariance matrix of the rows of x, of shape (variables, samples); of one variable its variance, 0-d.

        Ints are taken as float32.

        Args:
            correction: 1 for the unbiased estimate from a sample, 0 for the covariance of a population.
            fweights: how often each sample was observed, ints of shape (samples,).
            aweights: the weight of each sample, floats of shape (samples,), none of them negative.

        Raises:
            ShapeError: x has more than 2 dimensions, or weights another shape.

        Source: `numpy.cov`.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]).cov().tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
        """
        out: Tensor[B] = covariance(_floats(self), integer(correction, "correction", "cov"), fweights, aweights)
        return out

    def corrcoef(self) -> Tensor[B]:
        """The correlation coefficients of the rows of x, of shape (variables, samples), between -1 and 1.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]]).corrcoef().round(decimals=3).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
        """
        out: Tensor[B] = correlation(_floats(self))
        return out


def _floats(x: Any) -> Any:
    """Return ints as float32, floats as they are."""
    return x.float() if x.kind == "int" else x
