"""Diagonals and triangles of matrices: reading, building and replacing them."""

from __future__ import annotations

import math
from typing import Any, Self

from burnpy.backend.errors import KindError, ShapeError
from burnpy.tensor.at import checked_part
from burnpy.tensor.dim_checks import WHOLE, addressable, distinct, integer
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B


class Diagonals(TensorBase[B]):
    """Diagonals. Offset 0 is the main one, 1 the one above it, -1 the one below."""

    __slots__ = ()

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """Return a diagonal of the matrices in dims ``dim1`` (rows) and ``dim2`` (columns), as the last dimension.

        Raises:
            ArgumentError: the dims are one.

        >>> x = IntTensor[NumPy].from_data([[1, 2, 3], [4, 5, 6]])
        >>> x.diagonal().tolist(), x.diagonal(1).tolist(), x.diagonal(-5).tolist()
        ([1, 5], [2, 6], [])
        """
        b, shape = self._backend, self.shape
        first, second = distinct((dim1, dim2), len(shape), "diagonal")
        above = integer(offset, "offset", "diagonal")
        others = [dim for dim in range(len(shape)) if dim not in (first, second)]
        rows, columns = shape[first], shape[second]
        lead = tuple([shape[dim] for dim in others])
        flat = b.reshape(b.permute(self._primitive, (*others, first, second)), (*lead, rows * columns))
        return self._like(b.slice(flat, (*(WHOLE,) * len(lead), diagonal_places(above, rows, columns))))

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Self:
        """Square matrices whose diagonal is the last dimension of x, zeros (or False) elsewhere.

        The rows are dimension ``dim1`` of the result, and the columns ``dim2``.

        Raises:
            ShapeError: x is 0-d.
            ArgumentError: the dims are one.

        >>> IntTensor[NumPy].from_data([1, 2]).diag_embed(1).tolist()
        [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
        """
        b, shape = self._backend, self.shape
        if not shape:
            raise ShapeError("diag_embed() got a 0-d tensor; expected one dimension or more: x.reshape(1)")
        first, second = distinct((dim1, dim2), len(shape) + 1, "diag_embed")
        above = integer(offset, "offset", "diag_embed")
        lead, count = shape[:-1], shape[-1]
        side = count + abs(above)
        addressable((*lead, side, side), "diag_embed")
        zeros = b.full((*lead, side * side), False if self.kind == "bool" else 0, self.dtype)
        key = (*(WHOLE,) * len(lead), diagonal_places(above, side, side))
        square = b.reshape(b.slice_scatter(zeros, key, self._primitive), (*lead, side, side))
        place = iter(range(len(lead)))
        matrix = {first: len(lead), second: len(lead) + 1}
        return self._like(
            b.permute(square, tuple([matrix[dim] if dim in matrix else next(place) for dim in range(len(shape) + 1)]))
        )

    def diag(self, diagonal: int = 0) -> Self:
        """Return the matrix with a vector on a diagonal, as `diag_embed`, or the diagonal of a matrix, as `diagonal`.

        Raises:
            ShapeError: x is neither.

        >>> x = IntTensor[NumPy].from_data([1, 2]).diag()
        >>> x.tolist(), x.diag().tolist()
        ([[1, 0], [0, 2]], [1, 2])
        """
        if self.ndim == 1:
            return self.diag_embed(diagonal)
        if self.ndim == 2:
            return self.diagonal(diagonal)
        raise ShapeError(
            f"diag() got shape {self.shape}; expected a vector or a matrix: of more dimensions there are "
            "diagonal() and diag_embed()"
        )

    def diagflat(self, offset: int = 0) -> Self:
        """Return the square matrix with the elements of x, in row-major order, on a diagonal; see `diag_embed`.

        >>> IntTensor[NumPy].from_data([[1], [2]]).diagflat().tolist()
        [[1, 0], [0, 2]]
        """
        vector = self._like(self._backend.reshape(self._primitive, (math.prod(self.shape),)))
        return vector.diag_embed(integer(offset, "offset", "diagflat"))

    def trace(self) -> Self:
        """Return the sum of the main diagonal of a matrix; of ints in int64.

        Raises:
            ShapeError: x is not a matrix.
            KindError: x is a `BoolTensor`.

        >>> Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]]).trace().item()
        5.0
        """
        if self.kind == "bool":
            raise KindError("trace() got a BoolTensor; count with x.diagonal().sum()")
        if self.ndim != 2:
            raise ShapeError(
                f"trace() got shape {self.shape}; expected a matrix: of a batch x.diagonal(0, -2, -1).sum(-1)"
            )
        diagonal: Any = self.diagonal()
        return diagonal.sum()  # type: ignore[no-any-return]  # of x's class

    def tril(self, diagonal: int = 0) -> Self:
        """Return the lower triangle of the last two dims, with zeros elsewhere; ``diagonal`` 1 includes one diagonal
        above."""
        return self._like(self._backend.tril(self._primitive, self._diagonal("tril", diagonal)))

    def triu(self, diagonal: int = 0) -> Self:
        """Return the upper triangle of the last two dims, with zeros elsewhere; ``diagonal`` 1 starts one diagonal
        above."""
        return self._like(self._backend.triu(self._primitive, self._diagonal("triu", diagonal)))

    def _diagonal(self, operation: str, diagonal: int) -> int:
        """Return the offset of a diagonal, limited to the range in which it changes the result."""
        shape, number = self.shape, integer(diagonal, "diagonal", operation)
        if len(shape) < 2:
            raise ShapeError(f"{operation}() got shape {shape}; it needs two dimensions or more")
        return max(-shape[-2], min(number, shape[-1]))

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
        self, value = checked_part("diagonal_scatter", self, src, (*lead, count))
        b: Any = self._backend
        flat = b.reshape(b.permute(self._primitive, order), (*lead, rows * columns))
        flat = b.slice_scatter(flat, (*(WHOLE,) * len(lead), places), value)
        back = tuple([order.index(d) for d in range(len(shape))])
        return self._like(b.permute(b.reshape(flat, (*lead, rows, columns)), back))


def diagonal_places(above: int, rows: int, columns: int) -> slice:
    """Return the places of the elements of a diagonal in a flattened matrix."""
    count = max(min(rows + min(above, 0), columns - max(above, 0)), 0)
    if not count:
        return slice(0, 0, 1)
    start = above if above >= 0 else -above * columns
    return slice(start, start + (count - 1) * (columns + 1) + 1, columns + 1)
