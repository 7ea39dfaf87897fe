"""`CompiledChannels`: batch, group and instance norms, by kernels on groups of planes of the channels."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import Dims, Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.operations import LEAST, LONGEST

if TYPE_CHECKING:
    from burnpy_numpy.kernels.kernel import NamedKernel

_SHORTEST = 4
"""The size of a plane from which kernels are used."""


class CompiledChannels(ArrayBackend):
    """Batch norm of x (N, C, …), and group norm of x (N, groups, channels, …), forward and backward."""

    def _normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        groups = _groups_of(x, weight, dims) if bias.shape == weight.shape else None
        kernel = None if groups is None else _kernel("group_normalization", x.dtype, eps)
        if groups is None or kernel is None:
            return super()._normalize(x, weight, bias, dims, eps)
        small = tuple(1 if d in dims else k for d, k in enumerate(x.shape))
        out, mean, var = np.empty(x.shape, x.dtype), np.empty(small, x.dtype), np.empty(small, x.dtype)
        groups.run(kernel, (x, weight, bias, out, mean, var))
        return out, mean, var

    def _normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
    ) -> tuple[Any, Any, Any]:
        groups = _groups_of(x, weight, dims) if (grad.shape, grad.dtype) == (x.shape, x.dtype) else None
        kernel = None if groups is None else _kernel("group_normalization_backward", x.dtype, eps)
        if groups is None or kernel is None:
            return super()._normalize_backward(grad, x, weight, mean, var, dims, eps)
        out, parts = np.empty(x.shape, x.dtype), np.empty((2, len(x), weight.size), x.dtype)
        groups.run(kernel, (grad, x, weight, mean, var, out, parts[0], parts[1]))
        by_weight, by_bias = np.add.reduce(parts, 1)
        return out, by_weight.reshape(weight.shape), by_bias.reshape(weight.shape)


class _Groups:
    """The groups of planes that are normalized together.

    Args:
        lead: the dimensions of x before those of a plane: members and channels, or members, groups and their channels.
        size: the number of elements of a plane.
    """

    def __init__(self, lead: Shape, size: int) -> None:
        if len(lead) == 2:
            members, count = lead
            planes, weights, steps = np.arange(count), np.arange(count), (count, 0)
            each = members
        else:
            members, groups, each = lead
            planes = np.arange(members * groups) * each
            weights, steps = planes % (groups * each), (1, 1)
        self._tables, self._count = (planes, weights), len(planes)
        self._sizes, self._elements = (each, size, *steps), each * size

    def run(self, kernel: NamedKernel, arrays: tuple[Any, ...]) -> None:
        """Run a kernel for all groups."""
        used = [*map(np.ascontiguousarray, arrays), *self._tables]
        kernel.run(used, self._sizes, self._count, self._elements)


_groups = lru_cache(maxsize=256)(_Groups)


def _groups_of(x: Any, weight: Any, dims: Dims) -> _Groups | None:
    """Return the groups of x, if it is normalized over planes, with one weight for each channel."""
    if x.size < LEAST or x.ndim < 3 or not (x.dtype is float32 or x.dtype is float64) or weight.dtype is not x.dtype:
        return None
    if dims == (0, *range(2, x.ndim)):
        lead = x.shape[:2]
    elif x.ndim > 3 and dims == tuple(range(2, x.ndim)):
        lead = x.shape[:3]
    else:
        return None
    size = math.prod(x.shape[len(lead) :])
    if not _SHORTEST <= size <= LONGEST or weight.shape != (*lead[1:], *(1,) * (x.ndim - len(lead))):
        return None
    return _groups(lead, size)


def _kernel(name: str, dtype: Any, eps: Any) -> NamedKernel | None:
    """Return the kernel of a template of `normalization_kernels`; None if kernels are off."""
    from burnpy_numpy.kernels.kernel import enabled, named_kernel  # not imported before the first normalization

    return named_kernel(*_template(name, dtype), float(eps)) if enabled() else None


@cache
def _template(name: str, dtype: Any) -> tuple[Any, str, int]:
    """Return a template, and its parameters dtype and width."""
    from burnpy_numpy.kernels import normalization_kernels
    from burnpy_numpy.kernels.compiler import vector_bytes

    return getattr(normalization_kernels, name), dtype.name, vector_bytes() // dtype.itemsize
