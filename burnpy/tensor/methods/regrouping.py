"""Methods that regroup, rotate and cut out elements, for tensors of all kinds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.dims import dim_of, distinct, integer, integers
from burnpy.tensor.index_checks import out_of_range
from burnpy.tensor.shaping import inferred
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.int_tensor import IntTensor

_WHOLE = slice(None, None, 1)


class Regrouping(TensorBase[B]):
    """Other groupings, and parts, of the elements. Dims may be negative; one that x does not have raises `DimError`."""

    __slots__ = ()

    def ravel(self) -> Self:
        """The elements in row-major order, as a vector.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].zeros((2, 3)).ravel().shape
        (6,)
        """
        return self._like(self._backend.reshape(self._primitive, (math.prod(self.shape),)))

    def swapaxes(self, axis0: int, axis1: int) -> Self:
        """The tensor with dimensions ``axis0`` and ``axis1`` swapped, as ``transpose``."""
        ndim = self.ndim
        first, second = (dim_of(axis, ndim or 1, "swapaxes") for axis in (axis0, axis1))
        order = list(range(ndim))
        if ndim:
            order[first], order[second] = second, first
        return self._like(self._backend.permute(self._primitive, tuple(order)))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """The tensor with dimension ``dim`` split into dimensions of ``sizes``; one of them may be -1 and is inferred.

        Raises:
            ShapeError: the sizes do not multiply to the size of the dimension, or there are none.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].zeros((2, 6)).unflatten(1, (3, -1)).shape
        (2, 3, 2)
        """
        shape = self.shape
        resolved = dim_of(dim, len(shape), "unflatten")
        parts = integers((sizes,), "size", "unflatten")
        if not parts:
            raise ShapeError(f"unflatten() cannot split dim {resolved} of shape {shape} into no sizes; give one")
        if math.prod(parts) != shape[resolved] or min(parts) < 0:
            parts = inferred((shape[resolved],), parts, "unflatten")
        return self._like(self._backend.reshape(self._primitive, (*shape[:resolved], *parts, *shape[resolved + 1 :])))

    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Self:
        """The tensor rotated by 90° ``k`` times in the plane of two dims, from the first towards the second.

        Raises:
            ArgumentError: ``dims`` are not two.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].from_data([[1, 2], [3, 4]]).rot90().tolist()
        [[2, 4], [1, 3]]
        """
        ndim, turns = self.ndim, integer(k, "number of rotations", "rot90") % 4
        plane = distinct(integers((dims,), "dim", "rot90"), ndim, "rot90")
        if len(plane) != 2:
            raise ArgumentError(f"rot90() cannot rotate dims {plane}; a plane has two")
        b, value = self._backend, self._primitive
        order = list(range(ndim))
        order[plane[0]], order[plane[1]] = plane[1], plane[0]
        reverse = ((), (plane[1],), tuple(sorted(plane)), (plane[0],))[turns]
        value = b.flip(value, reverse)
        return self._like(b.permute(value, tuple(order)) if turns % 2 else value)

    def narrow(self, dim: int, start: int, length: int) -> Self:
        """The slices from ``start`` to ``start + length - 1`` along ``dim``; a negative start counts from the end.

        Raises:
            IndexRangeError: ``start`` is out of range.
            ShapeError: there are not so many slices.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([1.0, 2.0, 3.0]).narrow(0, 1, 2).tolist()
        [2.0, 3.0]
        """
        shape = self.shape
        resolved = dim_of(dim, len(shape), "narrow")
        size, first, count = shape[resolved], integer(start, "start", "narrow"), integer(length, "length", "narrow")
        if not -size <= first <= size:
            raise out_of_range(first, size, True, "narrow()", resolved, shape)
        first += size if first < 0 else 0
        if not 0 <= count <= size - first:
            raise ShapeError(
                f"narrow() got {count} slices from {first} along dim {resolved} of shape {shape}; "
                f"there are {size - first}"
            )
        return self._like(self._backend.slice(self._primitive, (*(_WHOLE,) * resolved, slice(first, first + count, 1))))

    def select(self, dim: int, index: int) -> Self:
        """The slice at ``index`` along ``dim``, which is removed.

        Raises:
            IndexRangeError: the index is out of range.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]]).select(1, -1).tolist()
        [2.0, 4.0]
        """
        shape = self.shape
        resolved, place = dim_of(dim, len(shape), "select"), integer(index, "index", "select")
        size = shape[resolved]
        if not -size <= place < size:
            raise out_of_range(place, size, True, "select()", resolved, shape)
        return self._like(self._backend.slice(self._primitive, (*(_WHOLE,) * resolved, place % size)))

    def tensor_split(self, indices_or_sections: int | Sequence[int] | IntTensor[B], dim: int = 0) -> tuple[Self, ...]:
        """A tuple of parts along ``dim``: as many as an int says, the first ones larger by one if need be, or split
        before each of several indices, which may be negative and out of range, as in slices.

        A 0-d `IntTensor` is the number of parts, a 1-d one the indices; a GPU is synchronized for its values.

        Raises:
            ArgumentError: fewer than one part is asked for.
            ShapeError: the tensor of indices has more than one dimension.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> x = IntTensor[NumPy].arange(5)
        >>> [part.tolist() for part in x.tensor_split(3)], [part.tolist() for part in x.tensor_split((1, 3))]
        ([[0, 1], [2, 3], [4]], [[0], [1, 2], [3, 4]])
        """
        shape = self.shape
        resolved = dim_of(dim, len(shape), "tensor_split")
        if isinstance(indices_or_sections, TensorBase):
            indices_or_sections = _split_points(indices_or_sections)
        size, places = shape[resolved], integers((indices_or_sections,), "index", "tensor_split")
        if not isinstance(indices_or_sections, Sequence):
            parts = integer(places[0], "number of parts", "tensor_split")
            if parts < 1:
                raise ArgumentError(f"tensor_split() got {parts} parts; ask for 1 or more")
            part, larger = divmod(size, parts)
            places = tuple([k * part + min(k, larger) for k in range(1, parts)])
        b, lead = self._backend, (_WHOLE,) * resolved
        ends = zip((0, *places), (*places, size), strict=True)
        bounds = [slice(start, stop).indices(size)[:2] for start, stop in ends]
        return tuple(
            [self._like(b.slice(self._primitive, (*lead, slice(first, max(first, last), 1)))) for first, last in bounds]
        )

    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """All windows of ``size`` slices along a dimension, ``step`` apart: in its place the number of windows, and a
        new last dimension of ``size``. A 0-d tensor is treated as a vector of one element.

        Raises:
            ShapeError: no window fits.
            ArgumentError: ``size`` is negative, or ``step`` is below 1.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].arange(5).unfold(0, 3, 1).tolist()
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        """
        b, d, shape = self._backend, self.device.discrete, self.shape or (1,)
        dim = dim_of(dimension, len(shape), "unfold")
        width, apart = integer(size, "size", "unfold"), integer(step, "step", "unfold")
        if width < 0 or apart < 1:
            raise ArgumentError(
                f"unfold() got windows of size {width}, {apart} apart; give a size of 0 or more, a step of 1 or more"
            )
        if width > shape[dim]:
            raise ShapeError(f"unfold() got windows of size {width} along dim {dim} of shape {shape}")
        count = (shape[dim] - width) // apart + 1
        value = b.reshape(self._primitive, shape) if not self.ndim else self._primitive
        if width == apart:  # side by side: a view will do
            value = b.slice(value, (*(_WHOLE,) * dim, slice(0, count * width, 1)))
        else:
            first = d.reshape(d.arange(0, count * apart, apart, int64), (count, 1))
            index = d.add(first, d.arange(0, width, 1, int64))
            value = b.index_select(value, dim, d.reshape(index, (count * width,)))
        value = b.reshape(value, (*shape[:dim], count, width, *shape[dim + 1 :]))
        if not self.ndim:
            return self._like(b.reshape(value, (width,) if count == 1 else (count, width)))
        order = [*range(dim + 1), *range(dim + 2, len(shape) + 1), dim + 1]
        return self._like(b.permute(value, tuple(order)))


def _split_points(indices: TensorBase[Any]) -> Any:
    """Return the values of a tensor of indices, or of a number of parts, for `Regrouping.tensor_split`.

    Raises:
        KindError: it is not an int tensor.
        ShapeError: it has more than one dimension.
    """
    if indices.kind != "int":
        raise KindError(f"tensor_split() takes its indices as ints or an IntTensor, got {describe(indices)}")
    if indices.ndim > 1:
        raise ShapeError(f"tensor_split() takes a 0-d or 1-d IntTensor of indices, got shape {indices.shape}")
    values: Any = indices
    return values.tolist()
