"""Kernels of programs as built-in functions of Python: a call takes a tenth of the time of one through ctypes.

The code of a kernel has a function ``entry`` besides, by the convention of CPython's ``METH_FASTCALL``: it is given an
array of Python objects. Those of a kernel's table are NumPy arrays, and come first, so that nothing has to be copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

Entry = Callable[..., int]
SYMBOLS = (
    "PyLong_AsLongLong",
    "PyFloat_AsDouble",
    "PyLong_FromLongLong",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
)
"""The functions of Python's C interface that the code calls."""
_LONG = 1 << 12
"""The number of elements above which Python's lock is released."""
_FASTCALL = 0x80
_methods: list[_Method] = []
"""The definitions to which the built-in functions refer, until the process ends."""


def entry_text(arrays: int, numbers: int, flat: bool) -> str:
    """Return the text of ``entry``, for a module that defines ``kernel``.

    Its arguments are the arrays of the table, the numbers as floats, ``begin``, ``end``, ``rows`` and ``columns``. They
    are not checked. Python's lock is released if there is much to do.

    Args:
        arrays: the number of arrays.
        numbers: the number of numbers.
        flat: whether ``begin`` and ``end`` count elements, and not rows.
    """
    lines = [
        "declare i64 @PyLong_AsLongLong(ptr)",
        "declare double @PyFloat_AsDouble(ptr)",
        "declare ptr @PyLong_FromLongLong(i64)",
        "declare ptr @PyEval_SaveThread()",
        "declare void @PyEval_RestoreThread(ptr)",
        "define ptr @entry(ptr %self, ptr %args, i64 %count) {",
        f"  %numbers = alloca [{max(numbers, 1)} x double]",
    ]
    for k in range(arrays, arrays + numbers + 4):
        number = k < arrays + numbers
        lines += [f"  %at{k} = getelementptr ptr, ptr %args, i64 {k}", f"  %object{k} = load ptr, ptr %at{k}"]
        kind, function = ("double", "PyFloat_AsDouble") if number else ("i64", "PyLong_AsLongLong")
        lines.append(f"  %value{k} = call {kind} @{function}(ptr %object{k})")
        if number:
            lines.append(f"  %place{k} = getelementptr double, ptr %numbers, i64 {k - arrays}")
            lines.append(f"  store double %value{k}, ptr %place{k}")
    begin, end, rows, columns = (f"%value{k}" for k in range(arrays + numbers, arrays + numbers + 4))
    call = f"  call void @kernel(ptr %args, ptr %numbers, i64 {begin}, i64 {end}, i64 {rows}, i64 {columns})"
    lines += [
        f"  %blocks = sub i64 {end}, {begin}",
        f"  %work = mul i64 %blocks, {1 if flat else columns}",
        f"  %long = icmp sgt i64 %work, {_LONG}",
        "  br i1 %long, label %released, label %held",
        "released:",
        "  %state = call ptr @PyEval_SaveThread()",
        call,
        "  call void @PyEval_RestoreThread(ptr %state)",
        "  br label %done",
        "held:",
        call,
        "  br label %done",
        "done:",
        "  %result = call ptr @PyLong_FromLongLong(i64 0)",
        "  ret ptr %result",
        "}",
        "",
    ]
    return "\n".join(lines)


class _Method(ctypes.Structure):
    """Python's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def builtin(address: int) -> Entry:
    """Return the built-in function of the code of an ``entry``."""
    method = _Method(b"kernel", address, _FASTCALL, None)
    _methods.append(method)
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    create: Any = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    function: Entry = create(ctypes.addressof(method), None, None)
    return function
