"""OpenBLAS, the library behind NumPy's matrix products in most installations: its number of threads, and products that
are added to a matrix."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

_NAMES = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")


class Threads(NamedTuple):
    """OpenBLAS's functions that get and set its number of threads. They hold the interpreter's lock."""

    get: Any
    set: Any


@cache
def openblas() -> Threads | None:
    """Return the thread functions of NumPy's OpenBLAS; None if NumPy uses another library, or they cannot be found."""
    try:
        library = ctypes.PyDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    except (AttributeError, OSError, TypeError):
        return None
    for name in _NAMES:
        try:
            return Threads(library[name.format("get_num_threads")], library[name.format("set_num_threads")])
        except AttributeError:
            continue
    return None


ROW_MAJOR, NO_TRANS, TRANS = 101, 111, 112  # CBLAS's constants


class Blas(NamedTuple):
    """A function of CBLAS for a dtype, in OpenBLAS."""

    function: Any  #: it releases the interpreter's lock
    long: bool  #: whether its sizes are 64-bit ints, not 32-bit ones

    @property
    def address(self) -> int:
        """The address of its code."""
        return ctypes.cast(self.function, ctypes.c_void_p).value or 0


@cache
def cblas(name: str, single: bool) -> Blas | None:
    """Return a function, such as "gemm", for float32 if ``single``, else for float64; None as for `openblas`."""
    if openblas() is None:
        return None
    library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    for pattern in _NAMES:  # CBLAS's names have OpenBLAS's prefixes and suffixes
        try:
            function = library[pattern.format(f"{'s' if single else 'd'}{name}").replace("openblas_", "cblas_")]
        except AttributeError:
            continue
        return Blas(function, pattern.endswith("64_"))
    return None


def cblas_gemm(single: bool) -> Blas | None:
    """Return the product of matrices for float32 if ``single``, else for float64; None as for `openblas`."""
    return cblas("gemm", single)


@cache
def gemm(dtype: Any) -> Any:
    """Return the function that adds the product of two matrices of float32 or float64 to a third; None as for
    `openblas`.

    It takes the number of rows, of columns and of products to add up for each element; and for the matrices the address
    and the distance of rows, of the second one also whether it is transposed. The interpreter's lock is released.
    """
    single = dtype == np.float32
    found = cblas_gemm(single)
    if found is None:
        return None
    function, size = found.function, ctypes.c_int64 if found.long else ctypes.c_int32
    number = ctypes.c_float if single else ctypes.c_double
    matrix = (ctypes.c_void_p, size)
    function.argtypes = (*(ctypes.c_int,) * 3, size, size, size, number, *matrix, *matrix, number, *matrix)
    function.restype = None

    def add(sizes: tuple[int, int, int], x: Any, y: Any, transposed: bool, out: Any) -> None:
        function(ROW_MAJOR, NO_TRANS, TRANS if transposed else NO_TRANS, *sizes, 1.0, *x, *y, 1.0, *out)

    return add


# No lock is taken below, as signal handlers, which may raise and may multiply matrices too, can run between any two
# calls. Code without calls is not interrupted by them.

_within: list[ref[Any]] = []
"""The owners for which OpenBLAS is limited to one thread."""
_usual: int | None = None
"""The number of threads before the limit; None while there is no limit."""


def limit(owner: Any) -> None:
    """Limit OpenBLAS, if NumPy uses it, to one thread per product in the whole process. The limit ends when each
    ``owner`` that this was called for is gone, or `unlimit` has been called for it."""
    global _usual
    threads = openblas()
    if threads is None:
        return
    _within.append(ref(owner, _left))
    if _usual is None:
        _usual = threads.get()
    threads.set(1)


def unlimit(owner: Any) -> None:
    """Remove an owner's limit; the last one restores OpenBLAS's threads. If interrupted, it has to be called again."""
    _left(ref(owner))


def _left(gone: ref[Any]) -> None:
    global _usual
    threads = openblas()
    if threads is None:
        return
    for owner in [*_within]:
        if owner == gone or owner() is None:
            try:  # each small convolution comes here, and `suppress` would be three calls
                _within.remove(owner)
            except ValueError:  # another thread has removed it
                continue
    if _usual is not None and not _within:
        threads.set(_usual)
        if not _within:
            _usual = None


class OneThread:
    """A context manager in which OpenBLAS uses one thread."""

    __slots__ = ("__weakref__",)

    def __enter__(self) -> None:
        try:
            limit(self)
        except BaseException:
            unlimit(self)
            raise

    def __exit__(self, *raised: object) -> None:
        try:
            unlimit(self)
        except BaseException:
            unlimit(self)
            raise


def _forget() -> None:
    """Restore the number of threads in a forked child, in which no owner's thread exists."""
    global _usual
    threads = openblas()
    _within.clear()
    if threads is not None and _usual is not None:
        threads.set(_usual)
        _usual = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
