"""Memory of NumPy's arrays that ends where a page begins that nothing can access: a read beyond an array's end ends the
process. For Linux.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections import defaultdict
from typing import Any

from burnpy_numpy.allocator import _NAME, _SET, _of_numpy, _python
from burnpy_numpy.numpy_calls import run

_PAGE, _PRIVATE, _USABLE = mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE
_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_LIBRARY = ctypes.CDLL(None)
_mapped = ctypes.CFUNCTYPE(_POINTER, _POINTER, _SIZE, *[ctypes.c_int] * 3, ctypes.c_long)(("mmap", _LIBRARY))
_protect = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _SIZE, ctypes.c_int)(("mprotect", _LIBRARY))
_sizes: dict[int, int] = {}
"""The bytes of each array, by its address."""
_unused: defaultdict[int, list[int]] = defaultdict(list)
"""The addresses of memory to use again, by its bytes."""


def _whole(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _new(context: None, size: int) -> int:
    size, whole = max(size, 1), _whole(max(size, 1))
    if _unused[whole]:
        start = _unused[whole].pop()
    else:
        start = _mapped(None, whole + _PAGE, _USABLE, _PRIVATE, -1, 0)
        assert _protect(start + whole, _PAGE, 0) == 0
    place = start + whole - size
    _sizes[place] = size
    return place


def _zeros(context: None, count: int, size: int) -> int:
    return ctypes.memset(_new(context, count * size), 0, count * size)


def _resized(context: None, place: int, size: int) -> int:
    new = _new(context, size)
    ctypes.memmove(new, place, min(size, _sizes[place]))
    _free(context, place, size)
    return new


def _free(context: None, place: int | None, _: int) -> None:
    if place is None:
        return
    size = _sizes.pop(place)
    _unused[_whole(size)].append(place + size - _whole(size))


class _Handler(ctypes.Structure):
    """NumPy's ``PyDataMem_Handler``."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", _POINTER),
        ("new", ctypes.PYFUNCTYPE(_POINTER, _POINTER, _SIZE)),
        ("zeros", ctypes.PYFUNCTYPE(_POINTER, _POINTER, _SIZE, _SIZE)),
        ("resized", ctypes.PYFUNCTYPE(_POINTER, _POINTER, _POINTER, _SIZE)),
        ("free", ctypes.PYFUNCTYPE(None, _POINTER, _POINTER, _SIZE)),
    )


def guard_arrays() -> None:
    """Have arrays of this context, and of burnpy's calls of NumPy, guarded from now on."""
    os.environ["BURNPY_MALLOPT"] = "0"  # burnpy's own handler would round sizes up
    kinds: dict[str, Any] = dict(_Handler._fields_)
    given = (kinds[f.__name__.strip("_")](f) for f in (_new, _zeros, _resized, _free))
    handler, name = _Handler(b"guarded", 1, None, *given), ctypes.c_char_p(_NAME)
    capsule = _python("PyCapsule_New", ctypes.py_object)(ctypes.addressof(handler), name, None)
    for needed in (handler, name, _sizes, _unused):  # arrays may be the last objects of all
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(needed))
    replace = _of_numpy(_SET, ctypes.py_object)
    replace(capsule)
    run(replace, capsule)
