"""A third party's backend: the array API standard, as array-api-strict implements it, which refuses everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import array_api_strict as xp
import numpy as np
from array_api_strict import _array_object

from burnpy.backend import Backend
from burnpy.backend.dtypes import INTS, int64, kind_of
from burnpy.backend.errors import DTypeError

DTYPES = ("float32", "float64", *INTS, "bool")
THEIRS = {name: getattr(xp, name) for name in DTYPES}
_internals = vars(_array_object)
if isinstance(_internals.get("_all_dtypes"), tuple):  # each new array looks its dtype up; a set finds it at once
    _internals["_all_dtypes"] = frozenset(_internals["_all_dtypes"])
OURS = {theirs: np.dtype(name) for name, theirs in THEIRS.items()}


class Strict:
    """A primitive: the standard's array, with a shape and a dtype as burnpy knows them."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = OURS[array.dtype]


def their(dtype: Any) -> Any:
    """The standard's dtype."""
    if dtype.name not in DTYPES:
        raise DTypeError(f"array-api-strict has no dtype {dtype.name}; use one of {', '.join(DTYPES)}")
    return THEIRS[dtype.name]


def quiet(f: Callable[..., Any], *args: Any, **keywords: Any) -> Strict:
    with np.errstate(all="ignore"):
        return Strict(f(*args, **keywords))


def unary(f: Callable[..., Any]) -> Any:
    return lambda self, x: quiet(f, x.array)


def binary(f: Callable[..., Any]) -> Any:
    def method(self: ArrayApi, x: Strict, y: Any) -> Strict:
        x, y = self.promote(x, self._primitive(y, x))
        return quiet(f, x.array, y.array)

    return method


def order(f: Callable[..., Any]) -> Any:
    """The standard compares numbers only."""

    def numbers(a: Any) -> Any:
        return xp.astype(a, xp.int8) if a.dtype == xp.bool else a

    return binary(lambda x, y: f(numbers(x), numbers(y)))


def moving(f: Callable[..., Any]) -> Any:
    return lambda self, x, shape: Strict(f(x.array, shape))


def reduction(f: Callable[..., Any]) -> Any:
    return lambda self, x, dims, keepdim: quiet(f, x.array, axis=dims, keepdims=keepdim)


def accumulation(f: Callable[..., Any]) -> Any:
    """Ints and bools add up in int64."""

    def method(self: ArrayApi, x: Strict, dims: Any, keepdim: bool = False) -> Strict:
        wide = x if kind_of(x.dtype) == "float" else self.cast(x, int64)
        return quiet(f, wide.array, axis=dims, **({"keepdims": True} if keepdim else {}))

    return method


@lru_cache(maxsize=1024)
def constant(_: str, value: Any, dtype: Any) -> Strict:
    """A number as an operand, which nothing changes; its repr tells 0.0 from -0.0, and 1 from True."""
    return Strict(xp.full((), dtype.type(value).item(), dtype=their(dtype)))


class ArrayApi(Backend):
    def from_numpy(self, array: np.ndarray[Any, Any]) -> Strict:
        return Strict(xp.asarray(array.astype(array.dtype.newbyteorder("=")), dtype=their(array.dtype), copy=True))

    def to_numpy(self, x: Strict) -> np.ndarray[Any, Any]:
        return np.asarray(x.array)

    def full(self, shape: Any, value: Any, dtype: Any) -> Strict:
        return Strict(xp.full(shape, dtype.type(value).item(), dtype=their(dtype)))

    def _primitive(self, y: Any, x: Strict) -> Strict:
        return y if isinstance(y, Strict) else constant(repr(y), y, x.dtype)

    def arange(self, start: Any, stop: Any, step: Any, dtype: Any) -> Strict:
        return Strict(xp.arange(start, stop, step, dtype=their(dtype)))

    def cast(self, x: Strict, dtype: Any) -> Strict:
        return quiet(xp.astype, x.array, their(dtype))

    add, sub, mul, div = binary(xp.add), binary(xp.subtract), binary(xp.multiply), binary(xp.divide)
    pow, floor_divide, remainder = binary(xp.pow), binary(xp.floor_divide), binary(xp.remainder)
    maximum, minimum, eq, ne = binary(xp.maximum), binary(xp.minimum), binary(xp.equal), binary(xp.not_equal)
    lt, le, gt, ge = order(xp.less), order(xp.less_equal), order(xp.greater), order(xp.greater_equal)
    bitwise_and, bitwise_or = binary(xp.bitwise_and), binary(xp.bitwise_or)
    bitwise_xor, bitwise_not = binary(xp.bitwise_xor), unary(xp.bitwise_invert)
    neg, abs, sign, floor, ceil = map(unary, (xp.negative, xp.abs, xp.sign, xp.floor, xp.ceil))
    round, exp, expm1, log, log1p = map(unary, (xp.round, xp.exp, xp.expm1, xp.log, xp.log1p))
    sqrt, sin, cos, tanh = map(unary, (xp.sqrt, xp.sin, xp.cos, xp.tanh))
    sum, prod, cumsum = accumulation(xp.sum), accumulation(xp.prod), accumulation(xp.cumulative_sum)
    amax, amin, argmax, argmin, any, all = map(reduction, (xp.max, xp.min, xp.argmax, xp.argmin, xp.any, xp.all))

    def where(self, condition: Strict, x: Strict, y: Any) -> Strict:
        return quiet(xp.where, condition.array, x.array, self._primitive(y, x).array)

    def matmul(self, x: Strict, y: Strict) -> Strict:
        x, y = self.promote(x, y)
        return quiet(xp.matmul, x.array, y.array)

    reshape, permute, expand = moving(xp.reshape), moving(xp.permute_dims), moving(xp.broadcast_to)

    def slice(self, x: Strict, key: Any) -> Strict:
        return Strict(x.array[(*key, ...)])

    def slice_scatter(self, x: Strict, key: Any, src: Any) -> Strict:
        out, plain = xp.asarray(x.array, copy=True), tuple(k for k in key if k is not None)
        src = self.expand(self._primitive(src, x), self.slice(x, key).shape)
        out[(*plain, ...)] = self.reshape(src, self.slice(x, plain).shape).array
        return Strict(out)

    def cat(self, xs: Sequence[Strict], dim: int) -> Strict:
        return Strict(xp.concat([x.array for x in xs], axis=dim))

    def index_select(self, x: Strict, dim: int, index: Strict) -> Strict:
        return Strict(xp.take(x.array, index.array, axis=dim))

    def index_put(self, x: Strict, dim: int, index: Strict, src: Strict) -> Strict:
        writes = self._writes(x, dim, index)
        if not writes.size:
            return Strict(xp.asarray(x.array, copy=True))
        last = xp.max(xp.where(writes, xp.arange(1, index.shape[0] + 1), xp.asarray(0)), axis=1)
        new = xp.take(self._first(src, dim).array, xp.maximum(last - 1, xp.asarray(0)), axis=0)
        old = self._first(x, dim).array
        there = xp.reshape(last > 0, (-1, *(1,) * (old.ndim - 1)))
        out: Strict = self._back(Strict(xp.where(there, new, old)), dim)
        return out

    def index_add(self, x: Strict, dim: int, index: Strict, src: Strict) -> Strict:
        old, new = self._first(x, dim).array, self._first(src, dim).array
        writes = xp.reshape(self._writes(x, dim, index), (x.shape[dim], index.shape[0], *(1,) * (old.ndim - 1)))
        terms = xp.where(writes, xp.expand_dims(new, axis=0), xp.zeros((), dtype=new.dtype))
        out: Strict = self._back(quiet(lambda: xp.add(old, xp.sum(terms, axis=1, dtype=old.dtype))), dim)
        return out

    def _writes(self, x: Strict, dim: int, index: Strict) -> Any:
        """Which positions of the index (columns) name which of x along the dim (rows)."""
        return xp.expand_dims(xp.arange(x.shape[dim]), axis=1) == xp.expand_dims(index.array, axis=0)

    def _first(self, x: Strict, dim: int) -> Any:
        return self.permute(x, (dim, *(d for d in range(len(x.shape)) if d != dim)))

    def _back(self, x: Strict, dim: int) -> Any:
        return self.permute(x, (*range(1, dim + 1), 0, *range(dim + 1, len(x.shape))))

    def argsort(self, x: Strict, dim: int, descending: bool) -> Strict:
        return Strict(xp.argsort(x.array, axis=dim, descending=descending, stable=True))

    def nonzero(self, x: Strict) -> Strict:
        found = xp.nonzero(self.reshape(x, x.shape or (1,)).array)
        return Strict(xp.stack(found, axis=1)[:, : len(x.shape)])
