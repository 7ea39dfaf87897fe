"""A few elements of whatever a function returned, by which a second result is told from the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from burnpy.autodiff.graph import mapped
from burnpy.autodiff.saving.keeping import array_of, tensor_around
from burnpy.backend.dtypes import kind_of
from burnpy.backend.primitives import Key, Shape
from burnpy.tensor.base import TensorBase

Fingerprint: TypeAlias = list[Any]
"""For each array its shape and dtype, and some elements, or None where those would have to be waited for."""

_ELEMENTS = 64


def fingerprint(results: Any) -> Fingerprint:
    """What is remembered of the tensors in ``results``."""
    found: Fingerprint = []
    for x in tensors_in(results):
        arrays: list[Any] = []
        mapped(arrays.append, x._primitive)
        for array in map(array_of, arrays):
            found.append((array.shape, array.dtype, _sample(tensor_around(x.device, array))))
    return found


def same(first: Fingerprint, second: Fingerprint) -> str | None:
    """How the second differs from the first by more than rounding, as the end of a sentence about it; or None."""
    if len(first) != len(second):
        return f"returned {len(second)} arrays, where the first returned {len(first)}"
    for k, (one, two) in enumerate(zip(first, second, strict=True)):
        if one[:2] != two[:2]:
            return (
                f"returned shape {two[0]} and dtype {two[1]} as result {k}, where the first returned "
                f"shape {one[0]} and dtype {one[1]}"
            )
        if one[2] is not None and two[2] is not None and not _close(one[2], two[2]):
            return f"returned other values as result {k}, of shape {one[0]} and dtype {one[1]}, than the first"
    return None


def tensors_in(x: Any) -> Iterator[TensorBase[Any]]:
    """The tensors in tuples, lists and dicts."""
    if isinstance(x, TensorBase):
        yield x
    elif isinstance(x, (tuple, list)):
        for member in x:
            yield from tensors_in(member)
    elif isinstance(x, Mapping):
        for member in x.values():
            yield from tensors_in(member)


def with_tensors(f: Callable[[TensorBase[Any]], Any], x: Any) -> Any:
    """``x`` with ``f`` of each tensor in it, in tuples, lists and dicts; what holds no tensor is handed on as it is."""
    if isinstance(x, TensorBase):
        return f(x)
    if type(x) is list:
        return [with_tensors(f, member) for member in x]
    if isinstance(x, tuple):
        members = [with_tensors(f, member) for member in x]
        make: Any = getattr(type(x), "_make", type(x))  # a named tuple has its members as arguments
        return make(members)
    if type(x) is dict:
        return {key: with_tensors(f, member) for key, member in x.items()}
    return x


def _sample(x: TensorBase[Any]) -> Any:
    """Up to 64 elements, evenly spaced along each dimension, in memory of their own."""
    device: Any = x.device
    if not device.eager_checks:
        return None
    return np.array(device.to_numpy(device.slice(x._primitive, _spaced(x.shape))))


def _spaced(shape: Shape) -> Key:
    key: list[slice] = []
    left = _ELEMENTS
    for n in reversed(shape):
        step = max(math.ceil(n / left), 1)
        left = max(left // max(math.ceil(n / step), 1), 1)
        key.insert(0, slice(0, n, step))
    return tuple(key)


def _close(one: Any, two: Any) -> bool:
    """Equal up to half of the digits: another order of summation is no difference, other random numbers are."""
    if kind_of(one.dtype) != "float":
        return bool((one == two).all())
    with np.errstate(all="ignore"):
        a, b = one.astype(np.float64), two.astype(np.float64)
        digits = 2.0 ** (-4 if one.dtype.itemsize == 2 else -11 if one.dtype.itemsize == 4 else -26)
        largest = np.nanmax(np.abs(np.where(np.isfinite(a), a, 0.0)), initial=0.0)
        differs = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= digits * (np.abs(a) + largest)))
    return not differs.any()
