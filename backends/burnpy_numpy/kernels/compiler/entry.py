"""Kernels as built-in functions of Python: a call takes a tenth of the time of one through ctypes.

The code of a kernel has a function ``entry`` besides, by the convention of CPython's ``METH_FASTCALL``: it is given an
array of Python objects.

`undisturbed` makes calls amid which no signal handler runs.
"""

from __future__ import annotations

import ctypes
import os
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

from burnpy.backend.errors import StateError, raised_by_other_code
from burnpy.typevars import T
from burnpy_numpy.kernels.compiler.vectors import Writer


def undisturbed(call: Callable[[], T]) -> T:
    """Return ``call()``, computed in a thread of its own, or raise what it raises.

    CPython runs signal handlers in the main thread, between any two bytecodes, and a handler may raise any class, such
    as TimeoutError, which is an OSError. Code that handles errors of the system and of libraries, as burnpy's cache
    and llvmlite do, takes it for one of these, and where llvmlite raises another in its place, no traceback tells the
    origin. In another thread no handler runs: it interrupts the wait alone. What it raises is raised when the call has
    ended, so that no thread is left that LLVM runs in when the process ends.

    `threading.Thread` is no help, as its ``start`` handles errors, too.
    """
    calls, results, errors = [call], list[T](), list[BaseException]()
    bell, process = allocate_lock(), os.getpid()
    bell.acquire()

    def run() -> None:
        try:
            taken = calls.pop()
        except IndexError:  # the caller was interrupted before
            return
        try:
            results.append(taken())
        except BaseException as error:  # raised again by the thread that waits
            errors.append(error)
        bell.release()

    def wait() -> None:
        while not (results or errors):
            bell.acquire(timeout=1)
            if os.getpid() != process:
                raise StateError(
                    "this process was forked while a kernel was compiled, by the handler of a signal; fork between "
                    "operations"
                )

    try:
        start_new_thread(run, ())
        wait()
    except BaseException as error:
        begun = False
        try:
            calls.pop()
        except IndexError:
            begun = True
        if begun:
            wait()
        elif isinstance(error, RuntimeError) and not raised_by_other_code(error, ()):
            return call()  # no thread can be started, as when the interpreter ends
        raise
    try:
        if errors:
            raise errors[0]
        return results[0]
    finally:
        errors.clear()  # whose traceback refers to this frame: a cycle that would stay until garbage collection


Entry = Callable[..., Any]
SYMBOLS = (
    "PyLong_AsLongLong",
    "PyFloat_AsDouble",
    "PyLong_FromLongLong",
    "PyErr_Occurred",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyLong_Type",
)
"""The functions and types of Python's C interface to which the code refers."""
ARRAY_TYPE = "burnpy_ndarray"
"""The name under which the code refers to the class of NumPy's arrays."""
_POINTER = ctypes.sizeof(ctypes.c_void_p)
FLAGS = object.__basicsize__ + 6 * _POINTER
"""The offset of an array's flags: data, dimensions, shape, strides, base and dtype come before. Bit 0: C-contiguous."""
_LONG = 1 << 12
"""The number of elements above which Python's lock is released."""
_FASTCALL = 0x80
_methods: list[_Method] = []
"""The definitions to which the built-in functions refer, until the process ends."""
_codes: WeakKeyDictionary[Entry, int] = WeakKeyDictionary()
"""The addresses of the functions ``kernel``, by the built-in function of their ``entry``."""


def program_entry(arrays: int, numbers: int, flat: bool) -> str:
    """Return the text of ``entry``, for a module that defines the ``kernel`` of a program.

    Its arguments are the arrays of the table, which come first so that nothing has to be copied, the numbers as floats,
    ``begin``, ``end``, ``rows`` and ``columns``. It computes nothing and returns 1 unless all arrays are C-contiguous
    and no scalars; nothing else is checked. Python's lock is released if there is much to do.

    Args:
        arrays: the number of arrays.
        numbers: the number of numbers.
        flat: whether ``begin`` and ``end`` count elements, and not rows.
    """
    w = Writer(1, {"declare i64 @PyLong_AsLongLong(ptr)", "declare double @PyFloat_AsDouble(ptr)"})
    w.declared.add(f"@{ARRAY_TYPE} = external global i8")
    places = w.assign(f"alloca [{max(numbers, 1)} x double]")
    objects = [w.pointer("%args", k) for k in range(arrays + numbers + 4)]
    types = [w.field(x, object.__basicsize__ - _POINTER, "ptr") for x in objects[:arrays]]
    _go_on(w, "flags", [w.assign(f"icmp eq ptr {x}, @{ARRAY_TYPE}") for x in types])
    flags = [w.field(x, FLAGS, "i32") for x in objects[:arrays]]
    _go_on(w, "read", [w.assign(f"trunc i32 {x} to i1") for x in flags])
    for k, number in enumerate(objects[arrays:-4]):
        value = w.assign(f"call double @PyFloat_AsDouble(ptr {number})")
        w.write(f"store double {value}, ptr {w.element(places, str(k), 'float64')}")
    begin, end, rows, columns = (w.assign(f"call i64 @PyLong_AsLongLong(ptr {x})") for x in objects[-4:])
    work = w.assign(f"mul i64 {w.assign(f'sub i64 {end}, {begin}')}, {1 if flat else columns}")
    long = w.assign(f"icmp sgt i64 {work}, {_LONG}")
    return entry_text(w, f"ptr %args, ptr {places}, i64 {begin}, i64 {end}, i64 {rows}, i64 {columns}", long)


def _go_on(w: Writer, label: str, conditions: list[str]) -> None:
    """Write the branch to what follows, or to the end of ``entry`` where it returns 1, by conditions that all hold."""
    w.write(f"br i1 {reduce(lambda x, y: w.assign(f'and i1 {x}, {y}'), conditions)}, label %{label}, label %refused")
    w.label(label)


def entry_text(w: Writer, arguments: str, releases: str) -> str:
    """Return the text of a function ``entry`` that calls ``kernel`` and returns 0.

    Args:
        w: the lines before the call.
        arguments: the arguments of ``kernel``, with their types.
        releases: whether to release Python's lock meanwhile, a bit.
    """
    w.declared |= {
        "declare ptr @PyLong_FromLongLong(i64)",
        "declare ptr @PyEval_SaveThread()",
        "declare void @PyEval_RestoreThread(ptr)",
    }
    return "\n".join(
        [
            *sorted(w.declared),
            "define ptr @entry(ptr %self, ptr %args, i64 %count) {",
            *w.lines,
            f"  br i1 {releases}, label %released, label %held",
            "released:",
            "  %state = call ptr @PyEval_SaveThread()",
            f"  call void @kernel({arguments})",
            "  call void @PyEval_RestoreThread(ptr %state)",
            "  br label %done",
            "held:",
            f"  call void @kernel({arguments})",
            "  br label %done",
            "refused:",
            "  br label %done",
            "done:",
            "  %outcome = phi i64 [0, %released], [0, %held], [1, %refused]",
            "  %result = call ptr @PyLong_FromLongLong(i64 %outcome)",
            "  ret ptr %result",
            "}",
            "",
        ]
    )


TABLE_ENTRY = f"""
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
@PyLong_Type = external global i8
define ptr @entry(ptr %self, ptr %args, i64 %count) {{
entry:
  %end_at = getelementptr ptr, ptr %args, i64 1
  %length_at = getelementptr ptr, ptr %args, i64 2
  %given = getelementptr ptr, ptr %args, i64 3
  %begin_object = load ptr, ptr %args
  %end_object = load ptr, ptr %end_at
  %length_object = load ptr, ptr %length_at
  %begin = call i64 @PyLong_AsLongLong(ptr %begin_object)
  %end = call i64 @PyLong_AsLongLong(ptr %end_object)
  %length = call i64 @PyLong_AsLongLong(ptr %length_object)
  %left = sub i64 %count, 3
  %values = alloca i64, i64 %left
  br label %head
head:
  %k = phi i64 [0, %entry], [%next, %stored]
  %more = icmp slt i64 %k, %left
  br i1 %more, label %body, label %converted
body:
  %at = getelementptr ptr, ptr %given, i64 %k
  %object = load ptr, ptr %at
  %type_at = getelementptr i8, ptr %object, i64 {object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)}
  %type = load ptr, ptr %type_at
  %is_int = icmp eq ptr %type, @PyLong_Type
  %is_size = icmp sge i64 %k, %length
  %converts = or i1 %is_int, %is_size
  br i1 %converts, label %number, label %array
number:
  %number_value = call i64 @PyLong_AsLongLong(ptr %object)
  br label %stored
array:
  %data_at = getelementptr i8, ptr %object, i64 {object.__basicsize__}
  %data = load i64, ptr %data_at
  br label %stored
stored:
  %value = phi i64 [%number_value, %number], [%data, %array]
  %place = getelementptr i64, ptr %values, i64 %k
  store i64 %value, ptr %place
  %next = add i64 %k, 1
  br label %head
converted:
  %error = call ptr @PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  br i1 %failed, label %refused, label %run
refused:
  ret ptr null
run:
  %sizes = getelementptr i64, ptr %values, i64 %length
  %state = call ptr @PyEval_SaveThread()
  call void @kernel(ptr %values, ptr %sizes, i64 %begin, i64 %end)
  call void @PyEval_RestoreThread(ptr %state)
  %result = call ptr @PyLong_FromLongLong(i64 0)
  ret ptr %result
}}
"""
"""The text of ``entry``, for a module that defines the ``kernel`` of a template.

Its arguments are ``begin``, ``end``, the length of the table, the table, which are NumPy arrays or addresses as ints,
and the sizes. They are not checked, but that sizes are ints. Python's lock is released.
"""


class _Method(ctypes.Structure):
    """Python's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def builtin(address: int, kernel: int) -> Entry:
    """Return the built-in function of the code of an ``entry``.

    Args:
        address: the code's address.
        kernel: the address of the function ``kernel`` that it calls; 0 if there is none.
    """
    method = _Method(b"kernel", address, _FASTCALL, None)
    _methods.append(method)
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    create: Any = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    function: Entry = create(ctypes.addressof(method), None, None)
    _codes[function] = kernel
    return function


def code_of(function: Entry) -> int:
    """Return the address of the function ``kernel`` that a built-in function calls."""
    return _codes[function]
