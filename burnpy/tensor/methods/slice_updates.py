"""Methods that write a whole slice, a range of slices, a diagonal, or elements by their place into a copy of a tensor.

`burnpy.tensor.methods.scattering` writes at indices along a dimension; ``x.at[key].set(v)`` writes at any key.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.primitives import Key, Shape, Value
from burnpy.tensor.dims import WHOLE, dim_of, distinct, integer, need_flag
from burnpy.tensor.methods.linalg import diagonal_places
from burnpy.tensor.operands import in_range, index_of, operands, out_of_range
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Ints


class SliceUpdates(TensorBase[B]):
    """Copies of x with a part replaced by a tensor ``src`` of x's kind and of the part's shape, cast to x's dtype.

    Gradients go to ``src`` for the part, and to x for the rest.
    """

    __slots__ = ()

    def select_scatter(self, src: Self, dim: int, index: int) -> Self:
        """Return a copy of x with the slice at ``index`` along ``dim`` replaced by ``src``, as
        ``x.at[index].set(src)``.

        Raises:
            ShapeError: ``src`` does not have the shape of ``x.select(dim, index)``.
            IndexRangeError: the index is out of range.

        >>> x = IntTensor[NumPy].zeros((2, 2))
        >>> x.select_scatter(IntTensor[NumPy].from_data([1, 2]), 1, -1).tolist()
        [[0, 1], [0, 2]]
        """
        shape = self.shape
        place, number = dim_of(dim, len(shape), "select_scatter"), integer(index, "index", "select_scatter")
        size = shape[place]
        if not -size <= number < size:
            raise out_of_range(number, size, True, "select_scatter()", place, shape)
        self, value = _part("select_scatter", self, src, (*shape[:place], *shape[place + 1 :]))
        key: Key = (*(WHOLE,) * place, number % size)
        return self._like(self._backend.slice_scatter(self._primitive, key, value))

    def slice_scatter(
        self, src: Self, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
    ) -> Self:
        """Return a copy of x with the slices ``start:end:step`` along ``dim`` replaced by ``src``.

        Args:
            src: the new slices.
            dim: the dimension.
            start: the first slice; None for 0. As in Python, negative numbers count from the end, and numbers beyond
                the ends are the ends.
            end: the slice after the last; None for the size.
            step: the distance of the slices, at least 1.

        Raises:
            ShapeError: ``src`` does not have the shape of these slices.
            ArgumentError: the step is below 1.

        >>> IntTensor[NumPy].zeros((4,)).slice_scatter(IntTensor[NumPy].from_data([1, 2]), start=1, step=2).tolist()
        [0, 1, 0, 2]
        """
        shape = self.shape
        place, every = dim_of(dim, len(shape), "slice_scatter"), integer(step, "step", "slice_scatter")
        if every < 1:
            raise ArgumentError(f"slice_scatter() got step={every}; give 1 or more")
        low, high = (
            None if each is None else integer(each, name, "slice_scatter")
            for name, each in (("start", start), ("end", end))
        )
        first, last, _ = slice(low, high, every).indices(shape[place])
        last = max(first, last)
        count = len(range(first, last, every))
        self, value = _part("slice_scatter", self, src, (*shape[:place], count, *shape[place + 1 :]))
        key: Key = (*(WHOLE,) * place, slice(first, last, every))
        return self._like(self._backend.slice_scatter(self._primitive, key, value))

    def diagonal_scatter(self, src: Self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """Return a copy of x with a diagonal of the matrices in dims ``dim1`` and ``dim2`` replaced by ``src``.

        Raises:
            ShapeError: ``src`` does not have the shape of ``x.diagonal(offset, dim1, dim2)``.
            ArgumentError: the dims are one.

        >>> x = IntTensor[NumPy].zeros((2, 3))
        >>> x.diagonal_scatter(IntTensor[NumPy].from_data([1, 2]), 1).tolist()
        [[0, 1, 0], [0, 0, 2]]
        """
        shape, above = self.shape, integer(offset, "offset", "diagonal_scatter")
        first, second = distinct((dim1, dim2), len(shape), "diagonal_scatter")
        order = (*[d for d in range(len(shape)) if d not in (first, second)], first, second)
        lead = tuple([shape[d] for d in order[:-2]])
        rows, columns = shape[first], shape[second]
        places = diagonal_places(above, rows, columns)
        count = len(range(places.start, places.stop, places.step))
        self, value = _part("diagonal_scatter", self, src, (*lead, count))
        b: Any = self._backend
        flat = b.reshape(b.permute(self._primitive, order), (*lead, rows * columns))
        flat = b.slice_scatter(flat, (*(WHOLE,) * len(lead), places), value)
        back = tuple([order.index(d) for d in range(len(shape))])
        return self._like(b.permute(b.reshape(flat, (*lead, rows, columns)), back))

    def put(self, index: Ints[B], source: Self, accumulate: bool = False) -> Self:
        """Return a copy of x with elements replaced by those of ``source``, at places in x flattened in row-major
        order.

        If a place repeats, the last element is written, and gets the gradient.

        Args:
            index: the places, of any shape; negative ones count from the end.
            source: as many elements as there are places, cast to x's dtype.
            accumulate: whether to add the elements instead, all those of a place.

        Raises:
            ShapeError: ``source`` has another number of elements.
            IndexRangeError: a place is out of range; on a GPU at the next synchronization.
            KindError: x is a `BoolTensor`, and elements are to be added.

        >>> x, index = Tensor[NumPy].zeros((2, 2)), IntTensor[NumPy].from_data([3, 0])
        >>> x.put(index, Tensor[NumPy].from_data([1.0, 2.0])).tolist()
        [[2.0, 0.0], [0.0, 1.0]]
        """
        need_flag(accumulate, "accumulate", "put")
        if accumulate and self.kind == "bool":
            raise KindError("put() got accumulate=True for a BoolTensor; it adds numbers: convert with x.int()")
        places = index_of(self, index, "put")
        shape, count = self.shape, math.prod(places.shape)
        if not isinstance(source, TensorBase):
            raise KindError(f"put() takes its elements as a tensor, got {describe(source)}")
        self, value = operands(self, source, "put")
        if math.prod(value.shape) != count:
            raise ShapeError(f"put() got a source of shape {value.shape} for an index of shape {places.shape}")
        b, size = self._backend, math.prod(shape)
        flat_places = self.device.discrete.reshape(places, (count,))
        flat_places = in_range(self.device, flat_places, size, True, "put()", 0, (size,))
        value = b.reshape(value if value.dtype == self.dtype else b.cast(value, self.dtype), (count,))
        write = b.index_add if accumulate else b.index_put
        return self._like(b.reshape(write(b.reshape(self._primitive, (size,)), 0, flat_places, value), shape))


def _part(operation: str, x: Any, src: Any, shape: Shape) -> tuple[Any, Value]:
    """Return x and the primitive of a part of the given shape, on one device and of one dtype.

    Raises:
        KindError: ``src`` is not a tensor of x's kind.
        ShapeError: it has another shape.
    """
    if not isinstance(src, TensorBase):
        raise KindError(f"{operation}() takes its part as a tensor, got {describe(src)}; of a number use x.at[…].set()")
    x, value = operands(x, src, operation)
    if value.shape != shape:
        raise ShapeError(f"{operation}() got src of shape {value.shape} for x of shape {x.shape}; expected {shape}")
    return x, value if value.dtype == x.dtype else x._backend.cast(value, x.dtype)
