"""Reductions that only float tensors have: means, deviations and softmax."""

from __future__ import annotations

from typing import Any, Self

from burnpy.tensor.dims import DimsLike, dims_of, need_bool
from burnpy.tensor.reductions import NumberReductions
from burnpy.tensor.template import accumulation, along
from burnpy.typevars import B


class FloatReductions(NumberReductions[B]):
    """Reductions of floats; ``dim`` and ``keepdim`` are as in `NumberReductions`."""

    __slots__ = ()

    @accumulation
    def mean(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """The mean over ``dim``; NaN if there are no elements. ``dtype`` is as for `sum`.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 6.0]]).mean(dim=1).tolist()
        [1.5, 4.5]
        """
        ...

    def var(self, dim: DimsLike = None, keepdim: bool = False, *, correction: float = 1) -> Self:
        """The variance over ``dim``: the sum of squared deviations from the mean, divided by (count - ``correction``).

        Args:
            dim: an int, several ints, or None for all dimensions.
            keepdim: whether reduced dimensions stay, with size 1.
            correction: 1 for the unbiased estimate from a sample (Bessel's correction), 0 for the population variance.
        """
        dims = dims_of(dim, self.ndim, "var")
        need_bool(keepdim, "var")
        return self._like(self._backend.var(self._primitive, dims, keepdim, correction))

    def std(self, dim: DimsLike = None, keepdim: bool = False, *, correction: float = 1) -> Self:
        """The standard deviation over ``dim``, the square root of `var`. Its gradient is 0 where it is 0.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([1.0, 2.0, 3.0])
        >>> x.std().item(), round(x.std(correction=0).item(), 4)
        (1.0, 0.8165)
        """
        dims = dims_of(dim, self.ndim, "std")
        need_bool(keepdim, "std")
        return self._like(self._backend.std(self._primitive, dims, keepdim, correction))

    def logsumexp(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """The function log(sum(exp(x))) over ``dim``, without overflow; -inf if there are no elements.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[1000.0, 1000.0], [0.0, -1000.0]]).logsumexp(dim=1).tolist()
        [1000.6931762695312, 0.0]
        """
        dims = dims_of(dim, self.ndim, "logsumexp")
        need_bool(keepdim, "logsumexp")
        return self._like(self._backend.logsumexp(self._primitive, dims, keepdim))

    @along
    def softmax(self, dim: int) -> Self:
        """The softmax along ``dim``: exp(x) divided by its sum, without overflow; NaN where all elements are -inf.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[1.0, 1.0], [1000.0, 0.0]]).softmax(dim=1).tolist()
        [[0.5, 0.5], [1.0, 0.0]]
        """
        ...

    @along
    def log_softmax(self, dim: int) -> Self:
        """The logarithm of the softmax along ``dim``, accurate where softmax underflows.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([0.0, 1000.0]).log_softmax(dim=0).tolist()
        [-1000.0, 0.0]
        """
        ...
