"""Methods that repeat tensors as a whole, or each of their slices, for tensors of all kinds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, overload

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.primitives import Int, Shape, Value
from burnpy.tensor.dims import addressable, dim_of, integer, listed
from burnpy.tensor.operands import index_of, refuse_unless
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Ints


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
        """Each slice along ``dim`` repeated; for ``dim`` None, each element, in a vector.

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
        """Return the tensor repeated; ``counts`` are those of the last dimensions, or of these and leading ones.

        Raises:
            ShapeError: a count is negative.
        """
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
        """Return the index that repeats each of ``size`` slices as often as a tensor of repeats says.

        Raises:
            ShapeError: there is not a number for each slice.
            ArgumentError: a number is negative, or ``total`` is not their sum.
        """
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
