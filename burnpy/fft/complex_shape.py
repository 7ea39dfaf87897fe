"""Shapes of complex tensors: both parts are indexed, reshaped and moved in one way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from burnpy.fft.complex_base import ComplexBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.index_keys import Index


class ComplexShape(ComplexBase[B]):
    """Indexing and rearranging; see the methods of `Tensor` of the same names."""

    __slots__ = ()

    def __getitem__(self, key: Index[B]) -> Self:
        """Return the selected elements, by keys as of float tensors."""
        return self._each(lambda x: x[key])

    def __len__(self) -> int:
        return len(self._real)

    def __iter__(self) -> Iterator[Self]:
        for real, imag in zip(self._real, self._imag, strict=True):
            yield self._made(real, imag)

    def numel(self) -> int:
        """Return the number of elements."""
        return self._real.numel()

    def reshape(self, *sizes: int | Sequence[int]) -> Self:
        """Return the elements in another shape.

        >>> from burnpy.fft import ComplexTensor
        >>> ComplexTensor[NumPy].from_data([1j, 2, 3, 4]).reshape(2, 2).shape
        (2, 2)
        """
        return self._each(lambda x: x.reshape(*sizes))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Return the dimensions from ``start_dim`` to ``end_dim`` as one."""
        return self._each(lambda x: x.flatten(start_dim, end_dim))

    def permute(self, *order: int | Sequence[int]) -> Self:
        """Return the dimensions in another order."""
        return self._each(lambda x: x.permute(*order))

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Two dimensions swapped."""
        return self._each(lambda x: x.transpose(dim0, dim1))

    @property
    def mT(self) -> Self:  # noqa: N802  # PyTorch's and NumPy's name
        """The last two dimensions swapped, without conjugation."""
        return self._each(lambda x: x.mT)

    @property
    def mH(self) -> Self:  # noqa: N802  # PyTorch's name
        """The conjugate transpose of the last two dimensions."""
        return self._made(self._real.mT, -self._imag.mT)

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Self:
        """Without dimensions of size 1."""
        return self._each(lambda x: x.squeeze(dim))

    def unsqueeze(self, dim: int) -> Self:
        """With a new dimension of size 1."""
        return self._each(lambda x: x.unsqueeze(dim))

    def expand(self, *sizes: int | Sequence[int]) -> Self:
        """Dimensions of size 1 repeated."""
        return self._each(lambda x: x.expand(*sizes))

    def flip(self, *along: int | Sequence[int]) -> Self:
        """Return the order along some dimensions reversed."""
        return self._each(lambda x: x.flip(*along))

    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Self:
        """Return the elements shifted along ``dims``, those beyond the end put at the beginning."""
        return self._each(lambda x: x.roll(shifts, dims))
