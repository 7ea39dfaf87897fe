"""Reductions that only float tensors have: means, deviations and softmax."""

from __future__ import annotations

from typing import Self

from burnpy.tensor.base import B
from burnpy.tensor.dims import DimsLike, dim_of, dims_of, need_bool
from burnpy.tensor.reductions import NumberReductions
from burnpy.tensor.template import reduction


class FloatReductions(NumberReductions[B]):
    """Reductions of floats; ``dim`` and ``keepdim`` are as in `NumberReductions`."""

    __slots__ = ()

    @reduction
    def mean(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """The mean over ``dim``; NaN of nothing.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 6.0]]).mean(dim=1).tolist()
        [1.5, 4.5]
        """
        ...

    def var(self, dim: DimsLike = None, keepdim: bool = False, *, correction: float = 1) -> Self:
        """The variance over ``dim``: squared deviations from the mean, over (count - ``correction``).

        Args:
            dim: an int, several, or None for all.
            keepdim: whether reduced dimensions stay, of size 1.
            correction: 1 estimates the variance of what x is a sample of (Bessel), 0 is the variance of x itself.
        """
        dims = dims_of(dim, self.ndim, "var")
        need_bool(keepdim, "var")
        return self._like(self._backend.var(self._primitive, dims, keepdim, correction))

    def std(self, dim: DimsLike = None, keepdim: bool = False, *, correction: float = 1) -> Self:
        """The standard deviation over ``dim``, the root of `var`. Where it is 0, so is its gradient."""
        dims = dims_of(dim, self.ndim, "std")
        need_bool(keepdim, "std")
        return self._like(self._backend.std(self._primitive, dims, keepdim, correction))

    def logsumexp(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """log(sum(exp(x))) over ``dim``, without overflow; -inf of nothing."""
        dims = dims_of(dim, self.ndim, "logsumexp")
        need_bool(keepdim, "logsumexp")
        return self._like(self._backend.logsumexp(self._primitive, dims, keepdim))

    def softmax(self, dim: int) -> Self:
        """exp(x) over its sum along ``dim``, without overflow; NaN where all is -inf.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[1.0, 1.0], [1000.0, 0.0]]).softmax(dim=1).tolist()
        [[0.5, 0.5], [1.0, 0.0]]
        """
        return self._like(self._backend.softmax(self._primitive, dim_of(dim, self.ndim, "softmax")))

    def log_softmax(self, dim: int) -> Self:
        """log(softmax(x)) along ``dim``, exact where softmax underflows."""
        return self._like(self._backend.log_softmax(self._primitive, dim_of(dim, self.ndim, "log_softmax")))
