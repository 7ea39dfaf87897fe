"""A few elements of an array, by which what a second run computed is told from what the first did."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from burnpy.autodiff.saving.keeping import array_of
from burnpy.backend.dtypes import kind_of
from burnpy.backend.primitives import DType, Key, Shape
from burnpy.tensor.base import TensorBase

_ELEMENTS = 64


def sample(device: Any, x: Any) -> bytes | None:
    """Up to 64 elements of an innermost array, evenly spaced along each dimension, as bytes; None where the device
    would have to be waited for."""
    plain = device.discrete
    if not plain.eager_checks:
        return None
    return plain.to_numpy(plain.slice(array_of(x), _spaced(x.shape))).tobytes()  # type: ignore[no-any-return]  # NumPy's


def alike(one: bytes, two: bytes, dtype: DType) -> bool:
    """Equal up to half of the digits: another order of summation is no difference, other random numbers are."""
    if one == two:
        return True
    if kind_of(dtype) != "float":
        return False
    with np.errstate(all="ignore"):
        a, b = (np.frombuffer(x, dtype).astype(np.float64) for x in (one, two))
        digits = 2.0 ** (-4 if dtype.itemsize == 2 else -11 if dtype.itemsize == 4 else -26)
        largest = np.nanmax(np.abs(np.where(np.isfinite(a), a, 0.0)), initial=0.0)
        differs = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= digits * (np.abs(a) + largest)))
    return not differs.any()


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


@lru_cache(256)
def _spaced(shape: Shape) -> Key:
    key: list[slice] = []
    left = _ELEMENTS
    for n in reversed(shape):
        step = max(math.ceil(n / left), 1)
        left = max(left // max(math.ceil(n / step), 1), 1)
        key.insert(0, slice(0, n, step))
    return tuple(key)
