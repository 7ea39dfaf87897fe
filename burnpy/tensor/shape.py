"""Methods that change shapes: reshaping, permuting, expanding and splitting, for tensors of all kinds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, overload

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.primitives import Shape
from burnpy.tensor.call_errors import refuse
from burnpy.tensor.dim_checks import addressable, dim_of, dims_of, distinct, integers, listed, new_dim_of, scalar_dim
from burnpy.tensor.tensor_base import TensorBase, blank, describe, owned
from burnpy.typevars import B


class Shaping(TensorBase[B]):
    """Methods that change shapes. Dims may be negative; a dim that x does not have raises `DimError`."""

    __slots__ = ()

    @overload
    def reshape(self, *sizes: int | Sequence[int]) -> Self: ...
    @overload
    def reshape(self, *, shape: int | Sequence[int]) -> Self: ...
    @owned
    def reshape(self, *sizes: Any, shape: Any = None, **unknown: Any) -> Self:
        """Return the same elements, in row-major order, in another shape; one size may be -1 and is inferred.

        Raises:
            ShapeError: the shape has another number of elements, or -1 cannot be inferred.

        >>> Tensor[NumPy].zeros((2, 6)).reshape(3, -1).shape
        (3, 4)
        """
        if unknown:
            refuse(self, "reshape", unknown)
        primitive = self._primitive
        sizes = (
            integers(sizes, "size", "reshape") if shape is None else listed(sizes, shape, "shape", "size", "reshape")
        )
        old = primitive.shape
        count = math.prod(old)
        if math.prod(sizes) != count or (sizes and min(sizes) < 0):
            sizes = inferred(old, sizes, "reshape")
        out: Self = blank()
        out._device = self._device
        try:
            out._primitive = self._backend.reshape(primitive, sizes)
        except ValueError:
            addressable(sizes, "reshape")  # raises an error if there are too many dimensions
            raise
        return out

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Return the tensor with dims ``start_dim`` to ``end_dim``, both included, flattened into one; 0-d becomes 1-d.

        Raises:
            ArgumentError: ``start_dim`` comes after ``end_dim``.

        >>> x = Tensor[NumPy].zeros((2, 3, 4))
        >>> x.flatten().shape, x.flatten(1).shape
        ((24,), (2, 12))
        """
        shape = self.shape
        if not shape:
            for dim in (start_dim, end_dim):
                scalar_dim(dim, "flatten")
            return self.reshape((1,))
        start, end = dim_of(start_dim, len(shape), "flatten"), dim_of(end_dim, len(shape), "flatten")
        if start > end:
            raise ArgumentError(f"flatten() got dims {start_dim} to {end_dim}; the first cannot come last")
        return self.reshape((*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))

    @overload
    def permute(self, *order: int | Sequence[int]) -> Self: ...
    @overload
    def permute(self, *, dims: Sequence[int]) -> Self: ...
    def permute(self, *order: Any, dims: Any = None) -> Self:
        """Return the tensor with its dimensions permuted: dimension i of the result is ``dims[i]`` of x.

        Raises:
            ArgumentError: a dimension is missing, or named twice.

        >>> Tensor[NumPy].zeros((2, 3, 4)).permute(2, 0, 1).shape
        (4, 2, 3)
        """
        ndim = self.ndim
        order = distinct(listed(order, dims, "dims", "dim", "permute"), ndim, "permute")
        if len(order) != ndim:
            raise ArgumentError(f"permute() got dims {order} for shape {self.shape}; name all {ndim} dims")
        return self._like(self._backend.permute(self._primitive, order))

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Return the tensor with dimensions ``dim0`` and ``dim1`` swapped.

        >>> Tensor[NumPy].zeros((2, 3, 4)).transpose(0, -1).shape
        (4, 3, 2)
        """
        ndim = self.ndim
        if not ndim:
            for dim in (dim0, dim1):
                scalar_dim(dim, "transpose")
            return self._like(self._backend.permute(self._primitive, ()))
        first, second = dim_of(dim0, ndim, "transpose"), dim_of(dim1, ndim, "transpose")
        order = list(range(ndim))
        order[first], order[second] = second, first
        return self._like(self._backend.permute(self._primitive, tuple(order)))

    @property
    def mT(self) -> Self:  # noqa: N802  # PyTorch's and NumPy's name
        """The tensor with its last two dimensions swapped; it needs at least two."""
        if self.ndim < 2:
            raise ShapeError(f"mT swaps the last two dimensions, and shape {self.shape} has fewer")
        return self._like(self._backend.mT(self._primitive))

    @property
    def T(self) -> Self:  # noqa: N802  # PyTorch's and NumPy's name
        """The transpose of a matrix; for more dimensions use `mT` or `permute`."""
        if self.ndim != 2:
            raise ShapeError(f"T is the transpose of a matrix, and this shape is {self.shape}; use mT or permute(...)")
        return self._like(self._backend.mT(self._primitive))

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Self:
        """Return the tensor without those of the dimensions ``dim`` that have size 1; for None, without all of size 1.

        >>> x = Tensor[NumPy].zeros((1, 3, 1))
        >>> x.squeeze().shape, x.squeeze(0).shape, x.squeeze(1).shape
        ((3,), (3, 1), (1, 3, 1))
        """
        shape = self.shape
        dims = dims_of(dim, len(shape), "squeeze")
        return self.reshape(tuple([n for d, n in enumerate(shape) if n != 1 or d not in dims]))

    def unsqueeze(self, dim: int) -> Self:
        """Return the tensor with a new dimension of size 1 at ``dim``; -1 means after the last.

        >>> x = Tensor[NumPy].zeros((3,))
        >>> x.unsqueeze(0).shape, x.unsqueeze(-1).shape
        ((1, 3), (3, 1))
        """
        shape = self.shape
        position = new_dim_of(dim, len(shape), "unsqueeze")
        return self._like(self._backend.reshape(self._primitive, (*shape[:position], 1, *shape[position:])))

    @overload
    def expand(self, *sizes: int | Sequence[int]) -> Self: ...
    @overload
    def expand(self, *, size: int | Sequence[int]) -> Self: ...
    def expand(self, *sizes: Any, size: Any = None) -> Self:
        """Return the tensor with dimensions of size 1 expanded to ``sizes``; sizes may add leading dims, and -1 keeps a
        size.

        Raises:
            ShapeError: a dimension whose size is not 1 would change, or there would be too many elements to address.

        >>> x = Tensor[NumPy].from_data([[1.0], [2.0]])
        >>> x.expand(-1, 3).tolist(), x.expand(4, 2, 1).shape
        ([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]], (4, 2, 1))
        """
        sizes = listed(sizes, size, "size", "size", "expand")
        old = self.shape
        lead = len(sizes) - len(old)
        full = tuple([old[d - lead] if n == -1 and d >= lead else n for d, n in enumerate(sizes)])
        if lead < 0 or any(n < 0 or (d >= lead and n != old[d - lead] != 1) for d, n in enumerate(full)):
            raise ShapeError(
                f"expand() cannot expand shape {old} to {describe(sizes)}; only dimensions of size 1 are repeated, "
                "new ones come first, and -1 keeps a size"
            )
        return self._like(self._backend.expand(self._primitive, addressable(full, "expand")))

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Return a tuple of parts along ``dim``: all of size ``split_size``, the last may be smaller, or of the sizes
        listed.

        Raises:
            ShapeError: the sizes do not add up to the size of the dimension.
            ArgumentError: a size is negative, or 0 where the dimension has elements.

        >>> [part.tolist() for part in Tensor[NumPy].from_data([1.0, 2.0, 3.0]).split(2)]
        [[1.0, 2.0], [3.0]]
        """
        shape = self.shape
        resolved = dim_of(dim, len(shape), "split")
        size = shape[resolved]
        sizes = integers((split_size,), "size", "split")
        if not isinstance(split_size, Sequence):
            part = sizes[0]
            if part < 0 or (part == 0 and size):
                raise ArgumentError(f"split() got parts of size {describe(part)}; expected an int of at least 1")
            sizes = (part,) * (size // part) + ((size % part,) if size % part else ()) if size else (0,)
        elif sum(sizes) != size or any(n < 0 for n in sizes):
            raise ShapeError(
                f"split() got sizes {describe(sizes)} along dim {resolved} of shape {shape}; none may be negative, "
                f"and together they must be {size}"
            )
        lead, start, parts = (slice(None),) * resolved, 0, []
        for n in sizes:
            parts.append(self._like(self._backend.slice(self._primitive, (*lead, slice(start, start + n, 1)))))
            start += n
        return tuple(parts)


def inferred(old: Shape, sizes: Shape, operation: str) -> Shape:
    """Return ``sizes`` with -1 replaced by the size that keeps the number of elements of shape ``old``."""
    count = math.prod(old)
    rest = math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) == 1 and rest > 0 and count % rest == 0 and min(sizes) == -1:
        return tuple([count // rest if n == -1 else n for n in sizes])
    request = f"{operation}() cannot change shape {old} to {describe(sizes)}"
    if sizes.count(-1) > 1 or any(n < -1 for n in sizes):
        raise ShapeError(f"{request}; one size may be -1, none else negative")
    if -1 in sizes and rest == 0:
        raise ShapeError(f"{request}; beside a size of 0, -1 could be anything: write the number")
    raise ShapeError(f"{request}: {count} elements are not {'a multiple of ' if -1 in sizes else ''}{describe(rest)}")
