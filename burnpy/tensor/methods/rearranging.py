"""Methods that rearrange elements: moving dims, reversing, rolling, triangles and parts, for tensors of all kinds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, overload

from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.dims import dim_of, dims_of, distinct, integer, integers, listed
from burnpy.tensor.shaping import Shaping
from burnpy.typevars import B


class Rearranging(Shaping[B]):
    """Methods built on `Shaping`. Dims may be negative; a dim that x does not have raises `DimError`."""

    __slots__ = ()

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """The tensor with dims ``source`` moved to the positions ``destination``; the others keep their order.

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
        """The tensor broadcast to ``shape``, as `expand`."""
        return self.expand(shape)

    def expand_as(self, other: TensorBase[B]) -> Self:
        """The tensor expanded to the shape of another tensor."""
        if not isinstance(other, TensorBase):
            raise KindError(f"expand_as() takes a tensor, got {describe(other)}; for a shape there is expand()")
        return self.expand(other.shape)

    @overload
    def flip(self, *along: int | Sequence[int]) -> Self: ...
    @overload
    def flip(self, *, dims: int | Sequence[int]) -> Self: ...
    def flip(self, *along: Any, dims: Any = None) -> Self:
        """The tensor with its elements reversed along some dims: ``x.flip(0, 1)`` or ``x.flip(dims=(0, 1))``.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].from_data([[1, 2], [3, 4]]).flip(1).tolist()
        [[2, 1], [4, 3]]
        """
        resolved = dims_of(listed(along, dims, "dims", "dim", "flip"), self.ndim, "flip")
        return self._like(self._backend.flip(self._primitive, resolved))

    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Self:
        """The tensor with its elements shifted by ``shifts`` along ``dims``, cyclically.

        With ``dims`` None, the elements are shifted in row-major order by a single shift, and the shape stays.

        Raises:
            ArgumentError: the numbers of shifts and of dims differ.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
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
            if cut:
                lead = (slice(None),) * dim
                ends = (slice(cut, shape[dim], 1), slice(0, cut, 1))
                value = backend.cat([backend.slice(value, (*lead, end)) for end in ends], dim)
        return self._like(value)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """A tuple of at most ``chunks`` parts along ``dim``, all of one size except the last, which may be smaller.

        Raises:
            ArgumentError: ``chunks`` is below 1.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> [part.tolist() for part in IntTensor[NumPy].arange(5).chunk(3)]
        [[0, 1], [2, 3], [4]]
        """
        if integer(chunks, "number of parts", "chunk") < 1:
            raise ArgumentError(f"chunk() got {chunks} parts; ask for 1 or more")
        size = self.shape[dim_of(dim, self.ndim, "chunk")]
        return self.split([0] * chunks, dim) if size == 0 else self.split(-(-size // chunks), dim)

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """A tuple of the slices along ``dim``, which is removed.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> [row.tolist() for row in IntTensor[NumPy].from_data([[1, 2], [3, 4]]).unbind(dim=1)]
        [[1, 3], [2, 4]]
        """
        shape = self.shape
        resolved = dim_of(dim, len(shape), "unbind")
        lead = (slice(None),) * resolved
        return tuple([self._like(self._backend.slice(self._primitive, (*lead, k))) for k in range(shape[resolved])])

    def tril(self, diagonal: int = 0) -> Self:
        """The lower triangle of the last two dims, with zeros elsewhere; ``diagonal`` 1 includes one diagonal above."""
        return self._like(self._backend.tril(self._primitive, self._diagonal("tril", diagonal)))

    def triu(self, diagonal: int = 0) -> Self:
        """The upper triangle of the last two dims, with zeros elsewhere; ``diagonal`` 1 starts one diagonal above."""
        return self._like(self._backend.triu(self._primitive, self._diagonal("triu", diagonal)))

    def _diagonal(self, operation: str, diagonal: int) -> int:
        """Return the offset of a diagonal, limited to the range in which it changes the result.

        Raises:
            ShapeError: the tensor has less than two dimensions.
        """
        shape, number = self.shape, integer(diagonal, "diagonal", operation)
        if len(shape) < 2:
            raise ShapeError(f"{operation}() got shape {shape}; it needs two dimensions or more")
        return max(-shape[-2], min(number, shape[-1]))
