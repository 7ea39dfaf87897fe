"""Methods that count elements, and differences of neighbours, for tensors of all kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.operations.scans import part
from burnpy.tensor.base import TensorBase
from burnpy.tensor.dims import DimsLike, dim_of, dims_of, integer
from burnpy.tensor.joining import cat
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.int_tensor import IntTensor


class Counting(TensorBase[B]):
    """Counts and differences."""

    __slots__ = ()

    def count_nonzero(self, dim: DimsLike = None) -> IntTensor[B]:
        """The number of elements over ``dim`` that are not 0 (or False), int64; NaN is not 0.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[0.0, 2.0], [3.0, 4.0]]).count_nonzero(dim=1).tolist()
        [1, 2]
        """
        dims = dims_of(dim, self.ndim, "count_nonzero")
        truth = self._primitive if self.kind == "bool" else self._backend.to_bool(self._primitive)
        return self._int(self._device.discrete.sum(truth, dims, False))

    def diff(self, n: int = 1, dim: int = -1, prepend: Self | None = None, append: Self | None = None) -> Self:
        """The differences of neighbours along ``dim``, taken ``n`` times; of bools, whether they differ.

        Args:
            n: how often.
            dim: the dimension along which each element is subtracted from the next one.
            prepend: a tensor of x's kind to put before x, of its shape but for ``dim``; unused if n is 0.
            append: a tensor to put after x, likewise.

        Raises:
            ArgumentError: n is negative.
            ShapeError: x is 0-d, or the shapes do not fit.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([1.0, 4.0, 9.0, 16.0]).diff(2).tolist()
        [2.0, 2.0]
        """
        times = integer(n, "n", "diff")
        if times < 0:
            raise ArgumentError(f"diff() got n={times} differences; n can be 0 or more")
        if not self.ndim:
            raise ShapeError("diff() got a 0-d tensor, which has no neighbours; it needs at least 1 dimension")
        resolved = dim_of(dim, self.ndim, "diff")
        pieces: list[Any] = [each for each in (prepend, self, append) if each is not None]
        joined: Any = cat(pieces, resolved) if len(pieces) > 1 else self
        x = joined if times else self
        b, out = x._backend, x._primitive
        subtract = b.ne if self.kind == "bool" else b.sub
        for _ in range(min(times, out.shape[resolved])):
            size = out.shape[resolved]
            out = subtract(part(b, out, resolved, 1, size), part(b, out, resolved, 0, max(size - 1, 0)))
        return x._like(out)
