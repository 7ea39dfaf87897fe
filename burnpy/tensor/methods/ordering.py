"""Methods that sort elements, find unique ones, and choose by order, for tensors of all kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, overload

from burnpy.backend.dtypes import uint8
from burnpy.backend.primitives import Number
from burnpy.tensor.along import along, need_flag, shaped
from burnpy.tensor.base import TensorBase
from burnpy.tensor.dims import ALL, dim_of, need_bool, scalar_dim
from burnpy.tensor.ranks import Extremes, mode_index
from burnpy.tensor.reductions import Selection
from burnpy.tensor.selections import as_numbers, chosen, element_at, in_kind_of
from burnpy.tensor.uniqueness import unique_elements, unique_slices
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.int_tensor import IntTensor


class Ordering(TensorBase[B]):
    """Methods by the order of elements: False comes before True, and NaN after all other numbers."""

    __slots__ = ()

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Selection[Self, IntTensor[B]]:
        """The elements sorted along ``dim``, and their indices in x. NaN counts as the largest.

        The gradient goes to the elements where they come from.

        Args:
            dim: the dimension to sort along.
            descending: whether the largest element comes first.
            stable: accepted for compatibility with PyTorch: equal elements always keep their order.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> values, indices = Tensor[NumPy].from_data([[3.0, 1.0, 2.0]]).sort()
        >>> values.tolist(), indices.tolist()
        ([[1.0, 2.0, 3.0]], [[1, 2, 0]])
        """
        need_flag(descending, "descending", "sort")
        need_flag(stable, "stable", "sort")
        a = along(self, dim, "sort")
        b = self._backend
        if self.kind == "bool":
            index = b.argsort(b.to_int(a.primitive, uint8), a.dim, descending)
            values = b.gather(a.primitive, a.dim, index)
        else:
            values, index = b.sort(a.primitive, a.dim, descending)
        d = self._device.discrete
        return Selection(self._like(shaped(b, values, self.shape)), self._int(shaped(d, index, self.shape)))

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> IntTensor[B]:
        """The indices that sort x along ``dim``, int64; the arguments are those of `sort`.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].from_data([3, 1, 3, 2]).argsort(descending=True).tolist()
        [0, 2, 3, 1]
        """
        need_flag(descending, "descending", "argsort")
        need_flag(stable, "stable", "argsort")
        a = along(self, dim, "argsort")
        index = self._backend.argsort(self._comparable(a.primitive), a.dim, descending)
        return self._int(shaped(self._device.discrete, index, self.shape))

    def msort(self) -> Self:
        """The elements sorted along the first dimension: ``x.sort(dim=0).values``."""
        return self.sort(0).values

    @overload
    def unique(
        self,
        sorted: bool = True,  # PyTorch's name
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: int | None = None,
    ) -> Self: ...
    @overload
    def unique(
        self,
        sorted: bool = True,  # PyTorch's name
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any: ...
    def unique(
        self,
        sorted: bool = True,  # PyTorch's name
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """The different elements in ascending order; with ``dim``, the different slices along it.

        The number of elements of the result depends on the values, so that a GPU is waited for. Every NaN differs from
        every other. The gradient goes to the first of equal elements.

        Args:
            sorted: accepted for compatibility with PyTorch: the result is always sorted, slices by their first
                element that differs.
            return_inverse: whether to return also the index in the result of each element (or slice) of x.
            return_counts: whether to return also how often each one occurs.
            dim: the dimension along which slices are compared; None to compare all elements.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> values, counts = IntTensor[NumPy].from_data([3, 1, 3]).unique(return_counts=True)
        >>> values.tolist(), counts.tolist()
        ([1, 3], [1, 2])
        """
        for name, flag in (("sorted", sorted), ("return_inverse", return_inverse), ("return_counts", return_counts)):
            need_flag(flag, name, "unique")
        if dim is None:
            values, inverse, counts = unique_elements(self._backend, self._comparable(self._primitive), self._primitive)
        else:
            resolved = dim_of(dim, self.ndim, "unique")
            values, inverse, counts = unique_slices(
                self._backend, self._comparable(self._primitive), self._primitive, resolved
            )
        first = self._like(values)
        others = [self._int(index) for index, asked in ((inverse, return_inverse), (counts, return_counts)) if asked]
        return (first, *others) if others else first

    def _comparable(self, primitive: Any) -> Number:
        """Return a primitive of x's kind as numbers in the same order: truth values as 0 and 1."""
        return self._backend.to_int(primitive, uint8) if self.kind == "bool" else primitive

    def mode(self, dim: int = -1, keepdim: bool = False) -> Selection[Self, IntTensor[B]]:
        """The most frequent element along ``dim``, the smallest of several, and the index of its last occurrence.

        Raises:
            ShapeError: there are no elements.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> values, indices = IntTensor[NumPy].from_data([3, 7, 7, 3, 9]).mode()
        >>> values.item(), indices.item()
        (3, 3)
        """
        need_bool(keepdim, "mode")
        x = as_numbers(self)
        a = along(x, dim, "mode")
        if x.ndim:
            x._need_elements((a.dim,), "mode")
        index = mode_index(x._backend, a.primitive, a.dim)
        values, indices = element_at(x, a.primitive, a.dim, index, keepdim)
        return Selection(in_kind_of(self, values), indices)

    def cummax(self, dim: int) -> Selection[Self, IntTensor[B]]:
        """The largest element along ``dim`` up to each one, and its index: of equal ones the last. NaN propagates.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> values, indices = Tensor[NumPy].from_data([1.0, 3.0, 2.0]).cummax(0)
        >>> values.tolist(), indices.tolist()
        ([1.0, 3.0, 3.0], [0, 1, 1])
        """
        x = as_numbers(self)
        a = along(x, dim, "cummax")
        values, indices = chosen(x, *x._backend.cummax(a.primitive, a.dim))
        return Selection(in_kind_of(self, values), indices)

    def cummin(self, dim: int) -> Selection[Self, IntTensor[B]]:
        """The smallest element along ``dim`` up to each one, and its index: of equal ones the last. NaN propagates."""
        x = as_numbers(self)
        a = along(x, dim, "cummin")
        values, indices = chosen(x, *x._backend.cummin(a.primitive, a.dim))
        return Selection(in_kind_of(self, values), indices)

    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> Extremes[Self]:
        """A named tuple of the minimum and the maximum, as by `amin` and `amax`.

        Raises:
            ShapeError: there are no elements.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> low, high = Tensor[NumPy].from_data([3.0, 1.0, 2.0]).aminmax()
        >>> low.item(), high.item()
        (1.0, 3.0)
        """
        need_bool(keepdim, "aminmax")
        if dim is None or not self.ndim:
            if dim is not None:
                scalar_dim(dim, "aminmax")
            dims = ALL[self.ndim]
        else:
            dims = (dim_of(dim, self.ndim, "aminmax"),)
        x = as_numbers(self)
        x._need_elements(dims, "aminmax")
        return Extremes(in_kind_of(self, x.amin(dims, keepdim)), in_kind_of(self, x.amax(dims, keepdim)))
