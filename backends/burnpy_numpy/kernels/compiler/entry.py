"""Kernels as built-in functions of Python: a call takes a tenth of the time of one through ctypes.

Python calls a function of `ENTRIES`, by the convention of CPython's ``METH_FASTCALL``: it gets an array of objects, and
calls the function ``kernel`` of the module whose address is in the built-in function's ``__self__``. Handlers of memory
and plans have a function ``entry`` of their own, which Python calls.

`undisturbed` makes calls amid which no signal handler runs.
"""

from __future__ import annotations

import ctypes
import os
import struct
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from typing import Any, NamedTuple

from burnpy.backend.errors import StateError, raised_by_other_code
from burnpy.typevars import T


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
_methods: dict[int, _Method] = {}
"""The definitions to which the built-in functions refer, until the process ends, by the address of their code."""


_RECORD = bytes.__basicsize__ - 1
"""The offset of the content of bytes."""


class Call(NamedTuple):
    """How Python calls the function ``kernel`` of a module: a function of `ENTRIES`, and what that reads."""

    entry: str  #: the function's name
    arrays: int = 0  #: of a program: the number of arrays
    flat: bool = False  #: of a program: whether ``begin`` and ``end`` count elements, and not rows

    def record(self, kernel: int) -> bytes:
        """Return what the function reads as its ``self``: the address of ``kernel``, and the numbers."""
        return struct.pack("@Nqq", kernel, self.arrays, self.flat)


TABLE = Call("table")
"""How a template's kernel is called."""
ENTRIES = f"""
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
@PyLong_Type = external global i8
@{ARRAY_TYPE} = external global i8
define ptr @program(ptr %self, ptr %args, i64 %count) {{
entry:
  %record = getelementptr i8, ptr %self, i64 {_RECORD}
  %arrays_at = getelementptr i64, ptr %record, i64 1
  %flat_at = getelementptr i64, ptr %record, i64 2
  %kernel = load ptr, ptr %record
  %arrays = load i64, ptr %arrays_at
  %flat = load i64, ptr %flat_at
  %sizes = sub i64 %count, 4
  %numbers = sub i64 %sizes, %arrays
  %values = alloca double, i64 %numbers
  br label %arrays_head
arrays_head:
  %k = phi i64 [0, %entry], [%k_next, %contiguous]
  %k_more = icmp slt i64 %k, %arrays
  br i1 %k_more, label %array, label %numbers_head
array:
  %array_at = getelementptr ptr, ptr %args, i64 %k
  %x = load ptr, ptr %array_at
  %type_at = getelementptr i8, ptr %x, i64 {object.__basicsize__ - _POINTER}
  %type = load ptr, ptr %type_at
  %is_array = icmp eq ptr %type, @{ARRAY_TYPE}
  br i1 %is_array, label %flags, label %refused
flags:
  %flags_at = getelementptr i8, ptr %x, i64 {FLAGS}
  %bits = load i32, ptr %flags_at
  %is_contiguous = trunc i32 %bits to i1
  br i1 %is_contiguous, label %contiguous, label %refused
contiguous:
  %k_next = add i64 %k, 1
  br label %arrays_head
numbers_head:
  %j = phi i64 [%arrays, %arrays_head], [%j_next, %number]
  %j_more = icmp slt i64 %j, %sizes
  br i1 %j_more, label %number, label %read
number:
  %number_at = getelementptr ptr, ptr %args, i64 %j
  %float = load ptr, ptr %number_at
  %double = call double @PyFloat_AsDouble(ptr %float)
  %position = sub i64 %j, %arrays
  %place = getelementptr double, ptr %values, i64 %position
  store double %double, ptr %place
  %j_next = add i64 %j, 1
  br label %numbers_head
read:
  %begin_at = getelementptr ptr, ptr %args, i64 %sizes
  %end_at = getelementptr ptr, ptr %begin_at, i64 1
  %rows_at = getelementptr ptr, ptr %begin_at, i64 2
  %columns_at = getelementptr ptr, ptr %begin_at, i64 3
  %begin_object = load ptr, ptr %begin_at
  %end_object = load ptr, ptr %end_at
  %rows_object = load ptr, ptr %rows_at
  %columns_object = load ptr, ptr %columns_at
  %begin = call i64 @PyLong_AsLongLong(ptr %begin_object)
  %end = call i64 @PyLong_AsLongLong(ptr %end_object)
  %rows = call i64 @PyLong_AsLongLong(ptr %rows_object)
  %columns = call i64 @PyLong_AsLongLong(ptr %columns_object)
  %range = sub i64 %end, %begin
  %is_flat = icmp ne i64 %flat, 0
  %each = select i1 %is_flat, i64 1, i64 %columns
  %work = mul i64 %range, %each
  %long = icmp sgt i64 %work, {_LONG}
  br i1 %long, label %released, label %held
released:
  %state = call ptr @PyEval_SaveThread()
  call void %kernel(ptr %args, ptr %values, i64 %begin, i64 %end, i64 %rows, i64 %columns)
  call void @PyEval_RestoreThread(ptr %state)
  br label %done
held:
  call void %kernel(ptr %args, ptr %values, i64 %begin, i64 %end, i64 %rows, i64 %columns)
  br label %done
refused:
  br label %done
done:
  %outcome = phi i64 [0, %released], [0, %held], [1, %refused]
  %result = call ptr @PyLong_FromLongLong(i64 %outcome)
  ret ptr %result
}}
define ptr @table(ptr %self, ptr %args, i64 %count) {{
entry:
  %record = getelementptr i8, ptr %self, i64 {_RECORD}
  %kernel = load ptr, ptr %record
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
  %type_at = getelementptr i8, ptr %object, i64 {object.__basicsize__ - _POINTER}
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
  call void %kernel(ptr %values, ptr %sizes, i64 %begin, i64 %end)
  call void @PyEval_RestoreThread(ptr %state)
  %result = call ptr @PyLong_FromLongLong(i64 0)
  ret ptr %result
}}
"""
"""The text of the functions by which Python calls kernels, a module that is compiled once for all of them.

``program`` is for programs. Its arguments are the arrays of the table, which come first so that nothing has to be
copied, the numbers as floats, ``begin``, ``end``, ``rows`` and ``columns``. It computes nothing and returns 1 unless
all arrays are C-contiguous and no scalars; nothing else is checked. Python's lock is released if there is much to do.

``table`` is for templates. Its arguments are ``begin``, ``end``, the length of the table, the table, which are NumPy
arrays or addresses as ints, and the sizes. They are not checked, but that sizes are ints. Python's lock is released.
"""


class _Method(ctypes.Structure):
    """Python's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def builtin(address: int, record: bytes | None) -> Entry:
    """Return the built-in function of a function by the convention of ``METH_FASTCALL``.

    Args:
        address: the function's address.
        record: its ``self``: what a function of `ENTRIES` reads, see `Call.record`.
    """
    method = _methods.setdefault(address, _Method(b"kernel", address, _FASTCALL, None))
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    create: Any = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    function: Entry = create(ctypes.addressof(method), record, None)
    return function


def code_of(function: Any) -> int:
    """Return the address of the function ``kernel`` that a built-in function calls."""
    address: int = struct.unpack_from("@N", function.__self__)[0]
    return address
