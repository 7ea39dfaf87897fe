"""Checks of the arguments of transforms: the dimensions, and their sizes, to which tensors are cut or padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.primitives import Shape
from burnpy.tensor.dim_checks import addressable, dim_of, distinct, integer, integers
from burnpy.tensor.linalg import floating
from burnpy.tensor.tensor import ComplexTensor
from burnpy.tensor.tensor_base import describe


def float_or_complex(operation: str, x: Any) -> Any:
    """Return a float or a complex tensor."""
    return x if isinstance(x, ComplexTensor) else single_or_double(floating(operation, x, "its argument"))


def single_or_double(x: Any) -> Any:
    """Return a float tensor, those of 16 bits as float32."""
    return x.float() if x.dtype.itemsize == 2 else x


def transform_dims(operation: str, shape: Shape, n: Any, dim: Any, *, halved: bool = False) -> tuple[Shape, Shape]:
    """Return the dimensions of a transform, and the size of the (real) signal along each.

    Args:
        operation: the function, for messages.
        shape: the shape of its argument.
        n: a size or several, or None.
        dim: the dimensions, or None for all, or for the last ones as many as n has.
        halved: whether the argument is half a spectrum along the last of ``dim``.
    """
    if not shape:
        raise ShapeError(f"{operation}() got a 0-d tensor; it transforms tensors of one dimension or more")
    if dim is not None and len(dim := integers((dim,), "dim", operation)) == 1:
        dims: Shape = (dim_of(dim[0], len(shape), operation),)
    else:
        dims = _several(operation, len(shape), n, dim)
    if n is None:
        given: Sequence[Any] = (-1,) * len(dims)
    else:
        given = n if isinstance(n, Sequence) else (n,)
    if len(given) != len(dims):
        raise ArgumentError(
            f"{operation}() got {len(given)} sizes {describe(n)} for {len(dims)} dims; give one for each"
        )
    sizes = []
    for k, (d, size) in enumerate(zip(dims, given, strict=True)):
        wanted = shape[d] if size is None else integer(size, "size", operation)
        if wanted == -1 and (n is None or isinstance(n, Sequence)):
            wanted = 2 * (shape[d] - 1) if halved and k == len(dims) - 1 else shape[d]
        if wanted < 1:
            raise _too_small(operation, shape, d, n, wanted)
        sizes.append(wanted)
    if not (halved and shape[dims[-1]] == 0):
        return dims, tuple(sizes)
    raise _too_small(operation, shape, dims[-1], n, 0)


def _several(operation: str, ndim: int, n: Any, dim: Any) -> Shape:
    """Return several dimensions, which ``dim`` names, or else the last ones, as many as n has."""
    if dim is not None:
        dims = distinct(dim, ndim, operation)
    else:
        count = ndim if n is None else len(n) if isinstance(n, Sequence) else 1
        if count > ndim:
            raise ArgumentError(f"{operation}() got {count} sizes {describe(n)} for a tensor of {ndim} dimensions")
        dims = tuple(range(ndim - count, ndim))
    if not dims:
        raise ArgumentError(f"{operation}() got no dims; name one or more")
    return dims


def _too_small(operation: str, shape: Shape, dim: int, n: Any, size: int) -> ShapeError:
    """Return the error for a transform of no elements."""
    asked = "" if n is None else f" with size {describe(n)}"
    return ShapeError(
        f"{operation}() got shape {shape}{asked}: {size} elements to transform along dim {dim}; it takes 1 or more"
    )


def resized(x: Any, dims: Shape, sizes: Shape) -> Any:
    """Return a float or complex tensor cut off, or padded with zeros, at the end of some dimensions."""
    shape = x.shape
    full = list(shape)
    for d, size in zip(dims, sizes, strict=True):
        full[d] = size
    if tuple(full) == shape:
        return x
    target = addressable(tuple(full), "fft")
    b, value = x._backend, x._primitive
    kept = tuple([slice(0, min(size, wanted), 1) for size, wanted in zip(shape, target, strict=True)])
    if any(size > wanted for size, wanted in zip(shape, target, strict=True)):
        value = b.slice(value, kept)
    if value.shape != target:
        value = b.slice_scatter(b.expand(b.full((), 0.0, x.dtype), target), kept, value)
    return x._like(value)
