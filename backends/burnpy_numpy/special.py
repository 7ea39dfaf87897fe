"""Special functions, which NumPy lacks: kernels of their defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy.backend.backend import Backend
from burnpy_array import ArrayBackend
from burnpy_array.array_base import NUMBERS
from burnpy_numpy.kernels.kernel import elementwise_kernel


def _unary(name: str) -> Callable[..., Any]:
    """Return the method of a function of one array and of options, which are part of its program."""

    def method(self: NumPySpecial, x: Any, *options: Any) -> Any:
        kernel = elementwise_kernel(name, options, x)
        return getattr(ArrayBackend, name)(self, x, *options) if kernel is None else kernel.alike((x,))

    return _described(method, name)


def _binary(name: str) -> Callable[..., Any]:
    """Return the method of a function of two arrays, which are broadcast first; the second may be a number."""

    def method(self: NumPySpecial, x: Any, y: Any) -> Any:
        if type(y) in NUMBERS:
            y = np.full(x.shape, y, x.dtype)
        elif x.dtype is y.dtype and x.shape != y.shape:
            x, y = self._broadcast(x, y)
        kernel = elementwise_kernel(name, (), x, y)
        return getattr(ArrayBackend, name)(self, x, y) if kernel is None else kernel.alike((x, y))

    return _described(method, name)


def _described(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    method.__name__, method.__doc__ = name, getattr(Backend, name).__doc__
    return method


class NumPySpecial(ArrayBackend):
    """Special functions as kernels of their defaults."""

    erfc, erfinv, lgamma, digamma, sinc = map(_unary, ("erfc", "erfinv", "lgamma", "digamma", "sinc"))
    igamma, igammac, igamma_density = map(_binary, ("igamma", "igammac", "igamma_density"))

    def _broadcast(self, x: Any, y: Any) -> Any:
        """Return both in the shape that theirs broadcast to; as they are if they do not, which the default reports."""
        try:
            return np.broadcast_arrays(x, y)
        except ValueError:
            return x, y
