"""Methods that choose elements of numbers by their rank, or by how often they occur."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self, overload

from burnpy.tensor.along import along, need_flag, rank, shaped
from burnpy.tensor.dims import ALL, need_bool
from burnpy.tensor.ranks import median_index
from burnpy.tensor.reductions import NumberReductions, Selection
from burnpy.tensor.selections import chosen, element_at
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.int_tensor import IntTensor


class Ranking(NumberReductions[B]):
    """Methods by the rank of elements. NaN counts as the largest, and of equal elements the first comes first."""

    __slots__ = ()

    def topk(
        self,
        k: int,
        dim: int = -1,
        largest: bool = True,
        sorted: bool = True,  # PyTorch's name
    ) -> Selection[Self, IntTensor[B]]:
        """The ``k`` largest elements along ``dim``, the largest first, and their indices; NaN counts as the largest.

        Args:
            k: how many, from 0 to the size of the dimension.
            dim: the dimension along which elements are compared.
            largest: False for the smallest elements, the smallest first.
            sorted: accepted for compatibility with PyTorch: the elements are always sorted.

        Raises:
            ShapeError: the dimension has fewer elements.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> values, indices = Tensor[NumPy].from_data([1.0, 5.0, 3.0]).topk(2)
        >>> values.tolist(), indices.tolist()
        ([5.0, 3.0], [1, 2])
        """
        need_flag(largest, "largest", "topk")
        need_flag(sorted, "sorted", "topk")
        a = along(self, dim, "topk")
        count = rank(k, 0, a.size, "topk")
        values, index = self._backend.topk(a.primitive, a.dim, count, largest)
        shape = a.shape(count)
        return Selection(
            self._like(shaped(self._backend, values, shape)), self._int(shaped(self._device.discrete, index, shape))
        )

    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> Selection[Self, IntTensor[B]]:
        """The ``k``-th smallest element along ``dim``, counted from 1, and its index.

        Raises:
            ShapeError: the dimension has fewer elements, or k is less than 1.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([4.0, 2.0, 9.0]).kthvalue(2).values.item()
        4.0
        """
        need_bool(keepdim, "kthvalue")
        a = along(self, dim, "kthvalue")
        values, index = self._backend.kthvalue(a.primitive, a.dim, rank(k, 1, a.size, "kthvalue"), keepdim)
        return chosen(self, values, index)

    @overload
    def median(self) -> Self: ...
    @overload
    def median(self, dim: int, keepdim: bool = False) -> Selection[Self, IntTensor[B]]: ...
    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The median of all elements; with ``dim``, a named tuple of the medians along it and their indices.

        Of an even number of elements it is the lower of the two in the middle, as in PyTorch: use ``quantile(0.5)`` for
        their mean. It is NaN where an element is NaN, and of no floats. The gradient goes to the chosen element.

        Raises:
            ShapeError: there are no elements.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([4.0, 1.0, 3.0, 2.0]).median().item()
        2.0
        """
        return self._middle("median", dim, keepdim)

    @overload
    def nanmedian(self) -> Self: ...
    @overload
    def nanmedian(self, dim: int, keepdim: bool = False) -> Selection[Self, IntTensor[B]]: ...
    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The `median` of the elements that are not NaN; NaN where all are.

        Raises:
            ShapeError: there are no elements.
        """
        return self._middle("nanmedian", dim, keepdim)

    def cumprod(self, dim: int, *, dtype: Any = None) -> Self:
        """The cumulative product along ``dim``. Ints are multiplied in int64; ``dtype`` is as for `sum`.

        Gradients are exact where elements are 0.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([2.0, 3.0, 4.0]).cumprod(0).tolist()
        [2.0, 6.0, 24.0]
        """
        x = self if dtype is None else self.to_dtype(dtype)  # type: ignore[attr-defined]  # a method of both kinds
        a = along(x, dim, "cumprod")
        out = self._like(shaped(self._backend, self._backend.cumprod(a.primitive, a.dim), self.shape))
        return out if dtype is None else out.to_dtype(dtype)  # type: ignore[attr-defined]  # as above

    def _middle(self, operation: str, dim: int | None, keepdim: bool) -> Any:
        """Return the median, with or without NaN."""
        need_bool(keepdim, operation)
        b, x = self._backend, self._primitive
        if dim is None:
            if 0 in x.shape and self.kind == "float":
                return self._like(b.full((), math.nan, x.dtype))
            self._need_elements(ALL[self.ndim], operation)
            flat = b.reshape(x, (math.prod(x.shape),))
            index = median_index(b, flat, 0, operation == "nanmedian")
            return self._like(b.reshape(b.gather(flat, 0, index), ()))
        a = along(self, dim, operation)
        if self.ndim:
            self._need_elements((a.dim,), operation)
        index = median_index(b, a.primitive, a.dim, operation == "nanmedian")
        return element_at(self, a.primitive, a.dim, index, keepdim)
