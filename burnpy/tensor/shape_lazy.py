"""Moving, reversing, cutting out and repeating, loaded at first use; `burnpy.tensor.shape` has the rest of shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, overload

from burnpy.backend.devices import innermost
from burnpy.backend.dtypes import int64
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.primitives import Int, Shape, Value
from burnpy.tensor.dim_checks import WHOLE, addressable, dim_of, dims_of, distinct, integer, integers, listed
from burnpy.tensor.operand_checks import index_of, out_of_range, refuse_unless
from burnpy.tensor.shape import Shaping, inferred
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor
    from burnpy.tensor.tensor_types import Ints


class Rearranging(Shaping[B]):
    """Other arrangements, groupings and parts. Dims may be negative; a dim that x does not have raises `DimError`."""

    __slots__ = ()

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Return the tensor with dims ``source`` moved to the positions ``destination``; the others keep their order.

        Raises:
            ArgumentError: the numbers of dims and of positions differ.
        """
        ndim = self.ndim or 1  # a 0-d tensor is treated as a vector
        sources = distinct(integers((source,), "dim", "movedim"), ndim, "movedim")
        places = distinct(integers((destination,), "dim", "movedim"), ndim, "movedim")
        if len(sources) != len(places):
            raise ArgumentError(f"movedim() cannot move dims {sources} to {places}; give as many places as dims")
        if not self.ndim:
            return self._like(self._backend.permute(self._primitive, ()))
        source_at = dict(zip(places, sources, strict=True))
        others = iter([d for d in range(ndim) if d not in sources])
        order = tuple([source_at[d] if d in source_at else next(others) for d in range(ndim)])
        return self._like(self._backend.permute(self._primitive, order))

    def broadcast_to(self, shape: Sequence[int]) -> Self:
        """Return the tensor broadcast to ``shape``, as `expand`."""
        return self.expand(shape)

    def expand_as(self, other: TensorBase[B]) -> Self:
        """Return the tensor expanded to the shape of another tensor."""
        if not isinstance(other, TensorBase):
            raise KindError(f"expand_as() takes a tensor, got {describe(other)}; for a shape there is expand()")
        return self.expand(other.shape)

    @overload
    def flip(self, *along: int | Sequence[int]) -> Self: ...
    @overload
    def flip(self, *, dims: int | Sequence[int]) -> Self: ...
    def flip(self, *along: Any, dims: Any = None) -> Self:
        """Return the tensor with its elements reversed along some dims: ``x.flip(0, 1)`` or ``x.flip(dims=(0, 1))``.

        >>> IntTensor[NumPy].from_data([[1, 2], [3, 4]]).flip(1).tolist()
        [[2, 1], [4, 3]]
        """
        resolved = dims_of(listed(along, dims, "dims", "dim", "flip"), self.ndim, "flip")
        return self._like(self._backend.flip(self._primitive, resolved))

    def fliplr(self) -> Self:
        """Return the tensor with its columns, dimension 1, reversed.

        Raises:
            ShapeError: the tensor has less than two dimensions.

        >>> IntTensor[NumPy].from_data([[1, 2], [3, 4]]).fliplr().tolist()
        [[2, 1], [4, 3]]
        """
        if self.ndim < 2:
            raise ShapeError(f"fliplr() got shape {self.shape}; it needs two dimensions or more")
        return self._like(self._backend.flip(self._primitive, (1,)))

    def flipud(self) -> Self:
        """Return the tensor with its rows, dimension 0, reversed.

        Raises:
            ShapeError: the tensor is 0-d.

        >>> IntTensor[NumPy].from_data([[1, 2], [3, 4]]).flipud().tolist()
        [[3, 4], [1, 2]]
        """
        if not self.ndim:
            raise ShapeError("flipud() got a 0-d tensor; it needs one dimension or more")
        return self._like(self._backend.flip(self._primitive, (0,)))

    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Self:
        """Return the tensor with its elements shifted by ``shifts`` along ``dims``, cyclically.

        With ``dims`` None, the elements are shifted in row-major order by a single shift, and the shape stays.

        Raises:
            ArgumentError: the numbers of shifts and of dims differ.

        >>> x = IntTensor[NumPy].from_data([[1, 2], [3, 4]])
        >>> x.roll(1, 0).tolist(), x.roll(1).tolist()
        ([[3, 4], [1, 2]], [[4, 1], [2, 3]])
        """
        backend, value, shape = self._backend, self._primitive, self.shape
        if dims is None:
            return self.reshape((math.prod(shape),)).roll(shifts, (0,)).reshape(shape)
        places = integers((dims,), "dim", "roll")
        steps = integers((shifts,), "shift", "roll")
        if len(places) != len(steps):
            raise ArgumentError(f"roll() got shifts {describe(steps)} along dims {describe(places)}; give one for each")
        for place, step in zip(places, steps, strict=True):
            dim = dim_of(place, len(shape), "roll")
            cut = -step % shape[dim] if shape[dim] else 0
            if cut or innermost(backend).sizes_vary:
                lead = (WHOLE,) * dim
                ends = (slice(cut, shape[dim], 1), slice(0, cut, 1))
                value = backend.cat([backend.slice(value, (*lead, end)) for end in ends], dim)
        return self._like(value)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """Return a tuple of at most ``chunks`` parts along ``dim``, all of one size except the last, which may be
        smaller.

        Raises:
            ArgumentError: ``chunks`` is below 1.

        >>> [part.tolist() for part in IntTensor[NumPy].arange(5).chunk(3)]
        [[0, 1], [2, 3], [4]]
        """
        if integer(chunks, "number of parts", "chunk") < 1:
            raise ArgumentError(f"chunk() got {chunks} parts; expected 1 or more")
        size = self.shape[dim_of(dim, self.ndim, "chunk")]
        return self.split([0] * chunks, dim) if size == 0 else self.split(-(-size // chunks), dim)

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """Return a tuple of the slices along ``dim``, which is removed.

        >>> [row.tolist() for row in IntTensor[NumPy].from_data([[1, 2], [3, 4]]).unbind(dim=1)]
        [[1, 3], [2, 4]]
        """
        shape = self.shape
        resolved = dim_of(dim, len(shape), "unbind")
        lead = (WHOLE,) * resolved
        return tuple([self._like(self._backend.slice(self._primitive, (*lead, k))) for k in range(shape[resolved])])

    def ravel(self) -> Self:
        """Return the elements in row-major order, as a vector.

        >>> Tensor[NumPy].zeros((2, 3)).ravel().shape
        (6,)
        """
        return self._like(self._backend.reshape(self._primitive, (math.prod(self.shape),)))

    def swapaxes(self, axis0: int, axis1: int) -> Self:
        """Return the tensor with dimensions ``axis0`` and ``axis1`` swapped, as ``transpose``."""
        ndim = self.ndim
        first, second = (dim_of(axis, ndim or 1, "swapaxes") for axis in (axis0, axis1))
        order = list(range(ndim))
        if ndim:
            order[first], order[second] = second, first
        return self._like(self._backend.permute(self._primitive, tuple(order)))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """Return the tensor with dimension ``dim`` split into dimensions of ``sizes``; one of them may be -1 and is
        inferred.

        Raises:
            ShapeError: the sizes do not multiply to the size of the dimension, or there are none.

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
        """Return the tensor rotated by 90° ``k`` times in the plane of two dims, from the first towards the second.

        Raises:
            ArgumentError: ``dims`` are not two.

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
        """Return ``length`` slices along ``dim`` from ``start`` on, which counts from the end if it is negative.

        Raises:
            IndexRangeError: ``start`` is out of range.
            ShapeError: fewer slices follow ``start``.

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
        return self._like(self._backend.slice(self._primitive, (*(WHOLE,) * resolved, slice(first, first + count, 1))))

    def select(self, dim: int, index: int) -> Self:
        """Return the slice at ``index`` along ``dim``, which is removed.

        Raises:
            IndexRangeError: the index is out of range.

        >>> Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]]).select(1, -1).tolist()
        [2.0, 4.0]
        """
        shape = self.shape
        resolved, place = dim_of(dim, len(shape), "select"), integer(index, "index", "select")
        size = shape[resolved]
        if not -size <= place < size:
            raise out_of_range(place, size, True, "select()", resolved, shape)
        return self._like(self._backend.slice(self._primitive, (*(WHOLE,) * resolved, place % size)))

    def tensor_split(self, indices_or_sections: int | Sequence[int] | IntTensor[B], dim: int = 0) -> tuple[Self, ...]:
        """Return a tuple of parts along ``dim``: their number, the first ones larger by one if need be; or split
        before each of several indices, which may be negative and out of range, as in slices.

        A 0-d `IntTensor` is the number of parts, a 1-d one the indices; a GPU is synchronized for its values.

        Raises:
            ArgumentError: the number of parts is below 1.
            ShapeError: the tensor of indices has more than one dimension.

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
        b, lead = self._backend, (WHOLE,) * resolved
        ends = zip((0, *places), (*places, size), strict=True)
        bounds = [slice(start, stop).indices(size)[:2] for start, stop in ends]
        return tuple(
            [self._like(b.slice(self._primitive, (*lead, slice(first, max(first, last), 1)))) for first, last in bounds]
        )

    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """Return all windows of ``size`` slices along ``dim``, ``step`` apart: ``dim`` has the number of windows, and
        a new last dimension ``size``. A 0-d tensor is treated as a vector of one element.

        Raises:
            ShapeError: no window fits.
            ArgumentError: ``size`` is negative, or ``step`` is below 1.

        >>> IntTensor[NumPy].arange(5).unfold(0, 3, 1).tolist()
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        """
        b, shape = self._backend, self.shape or (1,)
        dim = dim_of(dimension, len(shape), "unfold")
        width, apart = integer(size, "size", "unfold"), integer(step, "step", "unfold")
        if width < 0 or apart < 1:
            raise ArgumentError(
                f"unfold() got windows of size {width}, {apart} apart; give a size of 0 or more, a step of 1 or more"
            )
        if width > shape[dim]:
            raise ShapeError(f"unfold() got windows of size {width}, more than shape {shape} has along dim {dim}")
        if not self.ndim:
            count = (1 - width) // apart + 1
            value = b.frames(b.reshape(self._primitive, shape), width, apart)
            return self._like(b.reshape(value, (width,) if count == 1 else (count, width)))
        last = len(shape) - 1
        order = [d for d in range(last + 1) if d != dim]
        value = b.frames(b.permute(self._primitive, (*order, dim)), width, apart)
        order = [*range(dim), last, *range(dim, last), last + 1]
        return self._like(b.permute(value, tuple(order)))


def _split_points(indices: TensorBase[Any]) -> Any:
    """Return the values of a tensor of indices, or of a number of parts, for `Rearranging.tensor_split`."""
    if indices.kind != "int":
        raise KindError(f"tensor_split() takes its indices as ints or an IntTensor, got {describe(indices)}")
    if indices.ndim > 1:
        raise ShapeError(f"tensor_split() takes a 0-d or 1-d IntTensor of indices, got shape {indices.shape}")
    values: Any = indices
    return values.tolist()


class Repeating(TensorBase[B]):
    """Repetition. Dims may be negative; a dim that x does not have raises `DimError`."""

    __slots__ = ()

    @overload
    def repeat(self, *sizes: int | Sequence[int]) -> Self: ...
    @overload
    def repeat(self, *, repeats: int | Sequence[int]) -> Self: ...
    def repeat(self, *sizes: Any, repeats: Any = None) -> Self:
        """Return the tensor repeated as a whole along each dimension; there is a number for each, and more add leading
        dims.

        To repeat each element, as NumPy's ``repeat``, use `repeat_interleave`.

        Raises:
            ShapeError: there are fewer numbers than dimensions, or one is negative.

        >>> IntTensor[NumPy].from_data([1, 2]).repeat(2, 2).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
        """
        counts = listed(sizes, repeats, "repeats", "number of repeats", "repeat")
        if len(counts) < self.ndim:
            raise ShapeError(
                f"repeat() got {describe(counts)} of shape {self.shape}; give a number for each dim, or use tile()"
            )
        return self._repeated(counts, "repeat")

    @overload
    def tile(self, *sizes: int | Sequence[int]) -> Self: ...
    @overload
    def tile(self, *, dims: int | Sequence[int]) -> Self: ...
    def tile(self, *sizes: Any, dims: Any = None) -> Self:
        """Return the tensor repeated as a whole along its last dimensions, a number for each; more numbers add leading
        dims.

        Raises:
            ShapeError: a number is negative.

        >>> IntTensor[NumPy].from_data([[1, 2]]).tile(2).tolist()
        [[1, 2, 1, 2]]
        """
        return self._repeated(listed(sizes, dims, "dims", "number of repeats", "tile"), "tile")

    def repeat_interleave(
        self, repeats: int | Ints[B], dim: int | None = None, *, output_size: int | None = None
    ) -> Self:
        """Return each slice along ``dim`` repeated; for ``dim`` None, each element, in a vector.

        Args:
            repeats: how often; an int, or an `IntTensor`: 0-d, or 1-d with a number for each slice.
            dim: the dimension.
            output_size: the sum of a tensor of repeats, if it is known: a GPU is not waited for then.

        Raises:
            ShapeError: there is not a number for each slice.
            ArgumentError: a number is negative, or ``output_size`` is not their sum.

        >>> x = IntTensor[NumPy].from_data([[1, 2], [3, 4]])
        >>> x.repeat_interleave(2).tolist(), x.repeat_interleave(IntTensor[NumPy].from_data([2, 1]), dim=0).tolist()
        ([1, 1, 2, 2, 3, 3, 4, 4], [[1, 2], [1, 2], [3, 4]])
        """
        if dim is None:
            flat = self._like(self._backend.reshape(self._primitive, (math.prod(self.shape),)))
            return flat.repeat_interleave(repeats, 0, output_size=output_size)
        b, shape = self._backend, self.shape or (1,)
        resolved = dim_of(dim, len(shape), "repeat_interleave")
        size = shape[resolved]
        before, after = shape[:resolved], shape[resolved + 1 :]
        if not isinstance(repeats, TensorBase):
            count = integer(repeats, "number of repeats", "repeat_interleave")
            if count < 0 or output_size not in (None, count * size):
                raise ArgumentError(
                    f"repeat_interleave() got {count} repeats of {size} slices with output_size={output_size}"
                    "; repeats cannot be negative, and output_size is their sum"
                )
            raised = b.reshape(self._primitive, (*before, size, 1, *after))
            whole = addressable((*before, size * count, *after), "repeat_interleave")
            return self._like(b.reshape(b.expand(raised, (*before, size, count, *after)), whole))
        index = self._interleaved(index_of(self, repeats, "repeat_interleave"), size, output_size)
        return self._like(b.index_select(b.reshape(self._primitive, shape), resolved, index))

    def _repeated(self, counts: Shape, operation: str) -> Self:
        """Return the tensor repeated; ``counts`` are those of the last dimensions, or of these and leading ones."""
        if any(count < 0 for count in counts):
            raise ShapeError(f"{operation}() got {describe(counts)}; numbers of repeats cannot be negative")
        shape, value = self.shape, self._primitive
        ndim = max(len(shape), len(counts))
        old, times = ((1,) * (ndim - len(sizes)) + tuple(sizes) for sizes in (shape, counts))
        whole = addressable(tuple([n * m for n, m in zip(times, old, strict=True)]), operation)
        pairs = [*zip(times, old, strict=True)]  # a dimension of size 1 is expanded as it is
        apart = [size for n, m in pairs for size in ((m,) if n == 1 else (n,) if m == 1 else (n, m))]
        ones = [size for n, m in pairs for size in ((m,) if 1 in (n, m) else (1, m))]
        b = self._backend
        return self._like(b.reshape(b.expand(b.reshape(value, tuple(ones)), tuple(apart)), whole))

    def _interleaved(self, repeats: Int, size: int, total: int | None) -> Int:
        """Return the index that repeats each of ``size`` slices as often as a tensor of repeats says."""
        d: Any = self.device.discrete
        if repeats.shape not in ((), (1,), (size,)):
            raise ShapeError(
                f"repeat_interleave() got repeats of shape {repeats.shape} for {size} slices; give a "
                "number, or one for each"
            )
        counts: Value = d.expand(d.cast(repeats, int64), (size,))
        refuse_unless(d, d.ge(counts, 0), ArgumentError("repeat_interleave() got a negative number of repeats"))
        ends = d.cumsum(counts, 0)
        if not size:
            count = 0
        elif total is None:
            count = max(int(d.to_numpy(d.slice(ends, (size - 1,)))), 0)
        else:
            count = integer(total, "output_size", "repeat_interleave")
            wrong = f"repeat_interleave() got output_size={describe(total)}, which is not the sum of the repeats"
            refuse_unless(d, d.eq(d.slice(ends, (size - 1,)), count), ArgumentError(wrong))
        # element k is a repeat of as many slices further as end at or before k; bounded if a late check will fail
        places = d.maximum(d.minimum(ends, count), 0)
        steps = d.index_add(d.full((count + 1,), 0, int64), 0, places, d.full((size,), 1, int64))
        index = d.cumsum(d.slice(steps, (slice(0, count, 1),)), 0)
        return d.minimum(index, size - 1) if size else index
