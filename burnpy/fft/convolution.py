"""Convolution by the product of spectra, for kernels of many elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any, Literal, overload

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.fft.sizes import float_or_complex
from burnpy.fft.transforms import fftn, ifftn, irfftn, rfftn
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import distinct
from burnpy.tensor.operands import broadcast_shape, together
from burnpy.tensor.tensor import ComplexTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

Mode = Literal["full", "same", "valid"]


@overload
def fftconvolve(
    x: Tensor[B], y: Tensor[B], mode: Mode = "full", dim: int | Sequence[int] | None = None
) -> Tensor[B]: ...
@overload
def fftconvolve(
    x: Tensor[B] | ComplexTensor[B], y: ComplexTensor[B], mode: Mode = "full", dim: int | Sequence[int] | None = None
) -> ComplexTensor[B]: ...
@overload
def fftconvolve(
    x: ComplexTensor[B], y: Tensor[B] | ComplexTensor[B], mode: Mode = "full", dim: int | Sequence[int] | None = None
) -> ComplexTensor[B]: ...
@explained
def fftconvolve(x: Any, y: Any, mode: Any = "full", dim: Any = None) -> Any:
    """Convolve two tensors, Σ x[j] y[k - j], in n log n steps; it is not the correlation that layers compute.

    Args:
        x: a float or complex tensor.
        y: another one, of as many dimensions; the other dimensions broadcast.
        mode: "full", all n + m - 1 elements; "same", the n of the middle, as many as x has; "valid", those that no
            missing element is part of, max(n, m) - min(n, m) + 1.
        dim: the dimension or dimensions, by default all.

    Raises:
        ShapeError: the tensors differ in their number of dimensions, or the others do not broadcast; one is empty; or,
            for "valid", neither is the larger one along all of ``dim``.
        ArgumentError: ``mode`` is something else.

    >>> x, y = Tensor[NumPy].from_data([1.0, 2.0, 3.0]), Tensor[NumPy].from_data([0.0, 1.0, 0.5])
    >>> fftconvolve(x, y).round(decimals=3).tolist()
    [0.0, 1.0, 2.5, 4.0, 1.5]
    """
    x, y = float_or_complex("fftconvolve", x), float_or_complex("fftconvolve", y)
    x, y = together("fftconvolve", x, y)
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(f'fftconvolve() got mode={describe(mode)}; expected "full", "same" or "valid"')
    if x.ndim != y.ndim or not x.ndim:
        raise ShapeError(
            f"fftconvolve() got shapes {x.shape} and {y.shape}; give two tensors of as many dimensions, 1 or more"
        )
    named = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = distinct(tuple(named), x.ndim, "fftconvolve")
    if not dims or any(not z.shape[d] for z in (x, y) for d in dims):
        raise ShapeError(f"fftconvolve() got shapes {x.shape} and {y.shape}, which are empty along dims {dims}")
    others = [tuple([size for d, size in enumerate(z.shape) if d not in dims]) for z in (x, y)]
    if broadcast_shape(*others) is None:
        raise ShapeError(
            f"fftconvolve() got shapes {x.shape} and {y.shape}, whose dimensions other than {dims} do not broadcast"
        )
    full = [x.shape[d] + y.shape[d] - 1 for d in dims]
    sizes = [quick_size(size) for size in full]
    out: Any
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        out = irfftn(rfftn(x, sizes, dims) * rfftn(y, sizes, dims), sizes, dims)
    else:
        out = ifftn(fftn(x, sizes, dims) * fftn(y, sizes, dims), None, dims)
    return out[_kept(mode, x.shape, y.shape, dims, full)]


def _kept(mode: str, x: Any, y: Any, dims: Any, full: Any) -> tuple[slice, ...]:
    """Return the key of the elements of a full convolution that a mode has."""
    if mode == "valid" and not (all(x[d] >= y[d] for d in dims) or all(x[d] <= y[d] for d in dims)):
        raise ShapeError(
            f"fftconvolve() got shapes {x} and {y}, and mode 'valid' needs one to be the larger along all dims"
        )
    key = [slice(None)] * len(x)
    for d, size in zip(dims, full, strict=True):
        count = {"full": size, "same": x[d], "valid": abs(x[d] - y[d]) + 1}[mode]
        start = (size - count) // 2
        key[d] = slice(start, start + count)
    return tuple(key)


def quick_size(size: int) -> int:
    """Return the least size from ``size`` on that is a product of 2, 3 and 5, whose transforms take little time.

    >>> quick_size(1021), quick_size(17)
    (1024, 18)
    """
    best = 1 << max(size - 1, 0).bit_length()
    for fives in range(int(log2(size) / log2(5)) + 2):
        for threes in range(int(log2(size) / log2(3)) + 2):
            odd: int = 5**fives * 3**threes
            best = min(best, odd << max(-(-size // odd) - 1, 0).bit_length())
    return best
