"""Methods that repeat, rotate, cut and regroup elements, for tensors of all kinds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, overload

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.primitives import Int, Shape, Value
from burnpy.tensor.base import B, TensorBase, describe
from burnpy.tensor.dims import addressable, dim_of, distinct, integer, integers, listed
from burnpy.tensor.ranges import index_of, out_of_range, refuse_unless
from burnpy.tensor.shaping import inferred

if TYPE_CHECKING:
    from burnpy.tensor.int_tensor import IntTensor

_WHOLE = slice(None, None, 1)


class Rearranging(TensorBase[B]):
    """Repetition, rotation and parts of tensors. Dims may be negative; a dim that x does not have raises `DimError`."""

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
            raise ShapeError(f"unflatten() was asked to split dim {resolved} of shape {shape} into no sizes; give one")
        if math.prod(parts) != shape[resolved] or min(parts) < 0:
            parts = inferred((shape[resolved],), parts, "unflatten")
        return self._like(self._backend.reshape(self._primitive, (*shape[:resolved], *parts, *shape[resolved + 1 :])))

    @overload
    def repeat(self, *sizes: int | Sequence[int]) -> Self: ...
    @overload
    def repeat(self, *, repeats: int | Sequence[int]) -> Self: ...
    def repeat(self, *sizes: Any, repeats: Any = None) -> Self:
        """The tensor repeated as a whole along each dimension; there is a number for each, and more add leading dims.

        To repeat each element, as NumPy's ``repeat``, use `repeat_interleave`.

        Raises:
            ShapeError: there are fewer numbers than dimensions, or one is negative.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].from_data([1, 2]).repeat(2, 2).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
        """
        counts = listed(sizes, repeats, "repeats", "number of repeats", "repeat")
        if len(counts) < self.ndim:
            raise ShapeError(
                f"repeat() was asked for {counts} of shape {self.shape}; give a number for each dim, or use tile()"
            )
        return self._repeated(counts, "repeat")

    @overload
    def tile(self, *sizes: int | Sequence[int]) -> Self: ...
    @overload
    def tile(self, *, dims: int | Sequence[int]) -> Self: ...
    def tile(self, *sizes: Any, dims: Any = None) -> Self:
        """The tensor repeated as a whole along its last dimensions, a number for each; more numbers add leading dims.

        Raises:
            ShapeError: a number is negative.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].from_data([[1, 2]]).tile(2).tolist()
        [[1, 2, 1, 2]]
        """
        return self._repeated(listed(sizes, dims, "dims", "number of repeats", "tile"), "tile")

    def repeat_interleave(
        self, repeats: int | IntTensor[B], dim: int | None = None, *, output_size: int | None = None
    ) -> Self:
        """Each slice along ``dim`` repeated; for ``dim`` None, each element, in a vector.

        Args:
            repeats: how often; an int, or an `IntTensor`: 0-d, or 1-d with a number for each slice.
            dim: the dimension.
            output_size: the sum of a tensor of repeats, if it is known: a GPU is not waited for then.

        Raises:
            ShapeError: there is not a number for each slice.
            ArgumentError: a number is negative, or ``output_size`` is not their sum.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> x = IntTensor[NumPy].from_data([[1, 2], [3, 4]])
        >>> x.repeat_interleave(2).tolist(), x.repeat_interleave(IntTensor[NumPy].from_data([2, 1]), dim=0).tolist()
        ([1, 1, 2, 2, 3, 3, 4, 4], [[1, 2], [1, 2], [3, 4]])
        """
        if dim is None:
            return self.ravel().repeat_interleave(repeats, 0, output_size=output_size)
        b, shape = self._backend, self.shape or (1,)
        resolved = dim_of(dim, len(shape), "repeat_interleave")
        size = shape[resolved]
        before, after = shape[:resolved], shape[resolved + 1 :]
        if not isinstance(repeats, TensorBase):
            count = integer(repeats, "number of repeats", "repeat_interleave")
            if count < 0 or output_size not in (None, count * size):
                raise ArgumentError(
                    f"repeat_interleave() was asked for {count} repeats of {size} slices with output_size={output_size}"
                    "; repeats cannot be negative, and output_size is their sum"
                )
            raised = b.reshape(self._primitive, (*before, size, 1, *after))
            whole = addressable((*before, size * count, *after), "repeat_interleave")
            return self._like(b.reshape(b.expand(raised, (*before, size, count, *after)), whole))
        index = self._interleaved(index_of(self, repeats, "repeat_interleave"), size, output_size)
        return self._like(b.index_select(b.reshape(self._primitive, shape), resolved, index))

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
            raise ArgumentError(f"rot90() was asked to rotate dims {plane}; a plane has two")
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
                f"narrow() was asked for {count} slices from {first} along dim {resolved} of shape {shape}; "
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

    def tensor_split(self, indices_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """A tuple of parts along ``dim``: as many as an int says, the first ones larger by one if need be, or split
        before each of several indices, which may be negative and out of range, as in slices.

        Raises:
            ArgumentError: fewer than one part is asked for.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> x = IntTensor[NumPy].arange(5)
        >>> [part.tolist() for part in x.tensor_split(3)], [part.tolist() for part in x.tensor_split((1, 3))]
        ([[0, 1], [2, 3], [4]], [[0], [1, 2], [3, 4]])
        """
        shape = self.shape
        resolved = dim_of(dim, len(shape), "tensor_split")
        size, places = shape[resolved], integers((indices_or_sections,), "index", "tensor_split")
        if not isinstance(indices_or_sections, Sequence):
            parts = places[0]
            if parts < 1:
                raise ArgumentError(f"tensor_split() was asked for {parts} parts; ask for 1 or more")
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
                f"unfold() was asked for windows of size {width}, {apart} apart; give a size of 0 or more, a step of "
                "1 or more"
            )
        if width > shape[dim]:
            raise ShapeError(f"unfold() was asked for windows of size {width} along dim {dim} of shape {shape}")
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

    def _repeated(self, counts: Shape, operation: str) -> Self:
        """Return the tensor repeated; ``counts`` are those of the last dimensions, or of these and leading ones.

        Raises:
            ShapeError: a count is negative.
        """
        if any(count < 0 for count in counts):
            raise ShapeError(f"{operation}() was asked for {counts}; numbers of repeats cannot be negative")
        shape, value = self.shape, self._primitive
        ndim = max(len(shape), len(counts))
        old, times = ((1,) * (ndim - len(sizes)) + tuple(sizes) for sizes in (shape, counts))
        whole = addressable(tuple([n * m for n, m in zip(times, old, strict=True)]), operation)
        apart = [size for n, m in zip(times, old, strict=True) for size in (n, m)]
        ones = [size for m in old for size in (1, m)]
        b = self._backend
        return self._like(b.reshape(b.expand(b.reshape(value, tuple(ones)), tuple(apart)), whole))

    def _interleaved(self, repeats: Int, size: int, total: int | None) -> Int:
        """Return the index that repeats each of ``size`` slices as often as a tensor of repeats says.

        Raises:
            ShapeError: there is not a number for each slice.
            ArgumentError: a number is negative, or ``total`` is not their sum.
        """
        d: Any = self.device.discrete
        if repeats.shape not in ((), (1,), (size,)):
            raise ShapeError(
                f"repeat_interleave() was asked with repeats of shape {repeats.shape} for {size} slices; give a "
                "number, or one for each"
            )
        counts: Value = d.expand(d.cast(repeats, int64), (size,))
        refuse_unless(
            d, d.ge(counts, 0), ArgumentError("repeat_interleave() was asked for a negative number of repeats")
        )
        ends = d.cumsum(counts, 0)
        if not size:
            count = 0
        elif total is None:
            count = max(int(d.to_numpy(d.slice(ends, (size - 1,)))), 0)
        else:
            count = integer(total, "output_size", "repeat_interleave")
            wrong = (
                f"repeat_interleave() was asked with output_size={describe(total)}, which is not the sum of the repeats"
            )
            refuse_unless(d, d.eq(d.slice(ends, (size - 1,)), count), ArgumentError(wrong))
        # element k is a repeat of as many slices further as end at or before k; bounded if a late check will fail
        places = d.maximum(d.minimum(ends, count), 0)
        steps = d.index_add(d.full((count + 1,), 0, int64), 0, places, d.full((size,), 1, int64))
        index = d.cumsum(d.slice(steps, (slice(0, count, 1),)), 0)
        return d.minimum(index, size - 1) if size else index
