"""The memory of this process: what Linux counts, what glibc's malloc keeps, and where NumPy's arrays start.

By default glibc returns every large block to the system and incurs page faults to get it again, which takes several
times as long as the arithmetic on it. The setting applies to the whole process. Without glibc (macOS, musl, Windows),
nothing happens.

NumPy's memory starts at a multiple of 16 bytes: most vectors of 64 bytes are in two cache lines then, and an operation
on arrays in the cache takes up to twice as long. Arrays get memory from the handler of a context
(https://numpy.org/doc/stable/reference/c-api/data_memory.html). The one here gets some bytes more from the handler
before it, starts large arrays at a cache line, and keeps the address of the whole in front of the data.

``BURNPY_MALLOPT=0`` in the environment leaves glibc's malloc and NumPy's handler alone.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from burnpy_numpy.numpy_calls import run

if TYPE_CHECKING:
    from burnpy.backend.device_memory import DeviceMemory

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # from glibc's <malloc.h>
_RETURNED_FROM = 256 << 20, 32 << 20
"""Candidates for the size from which blocks are returned to the system: the first that glibc accepts is used; older
versions accept no more than 32 MB."""

_PROCESS = "/proc/self"
_RESET_PEAK = "5"  # man 5 proc_pid_clear_refs


def keep_freed_memory() -> bool:
    """Apply the setting unless the user opted out; return whether glibc accepted it."""
    if os.environ.get("BURNPY_MALLOPT") == "0":
        return False
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  # musl has a mallopt in name only
        mallopt = libc.mallopt
    except (OSError, AttributeError, TypeError):
        return False
    accepted = any(
        mallopt(_MMAP_THRESHOLD, size) for size in _RETURNED_FROM
    )  # mallopt returns 0 for a value it rejects
    mallopt(_TRIM_THRESHOLD, 512 << 20)
    mallopt(_ARENA_MAX, 1)
    return accepted


def return_freed_memory() -> None:
    """Return to the system what glibc's malloc keeps of freed blocks; without glibc, nothing happens."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def measured() -> DeviceMemory:
    """Return the resident memory of the process, and what the system has left."""
    from burnpy.backend.device_memory import DeviceMemory

    process, system = _kibibytes(f"{_PROCESS}/status"), _kibibytes("/proc/meminfo")
    resident, peak = process["VmRSS"], process["VmHWM"]
    return DeviceMemory(
        resident, resident, system["MemAvailable"], system["MemTotal"], measured_peak=max(peak, resident)
    )


def reset_peak() -> None:
    """Have Linux count the peak of the process's resident memory from now on."""
    with open(f"{_PROCESS}/clear_refs", "w") as file:
        file.write(_RESET_PEAK)


def _kibibytes(path: str) -> dict[str, int]:
    """Return the entries of a file that are in kB, in bytes by name."""
    with open(path) as file:
        words = [line.split() for line in file]
    return {w[0].rstrip(":"): int(w[1]) * 1024 for w in words if len(w) == 3 and w[2] == "kB"}


_LINE, _LARGE, _ROOM = 64, 1024, 16
"""The bytes of a cache line; the bytes of the smallest arrays that start at one; the bytes in front of smaller ones."""
_SET, _GET, _NAME = 304, 305, b"mem_handler"
"""The places of ``PyDataMem_SetHandler`` and ``PyDataMem_GetHandler`` in NumPy's C interface; the name of capsules."""
_ALLOCATOR, _END = 128, 168
"""The places of the functions in NumPy's ``PyDataMem_Handler``, and of its end."""


@cache
def align_arrays(entry: Callable[[int], int]) -> None:
    """Have arrays of this context, and of burnpy's calls of NumPy, start at cache lines from now on.

    Args:
        entry: the function of the compiled `handler_text`.
    """
    before = _of_numpy(_GET)()
    _keep(before)
    address = entry(_python("PyCapsule_GetPointer", ctypes.c_void_p)(before, _NAME) + _ALLOCATOR)
    handler = _python("PyCapsule_New", ctypes.py_object)(address, address + _END, None)
    replace = _of_numpy(_SET, ctypes.py_object)
    replace(handler)
    with suppress(RuntimeError):  # this is amid such a call: its context is the current one
        run(replace, handler)


def _python(name: str, result: Any) -> Callable[..., Any]:
    """Return a function of Python's C interface for capsules."""
    kinds = {"PyCapsule_New": (ctypes.c_void_p,) * 3, "PyCapsule_GetPointer": (ctypes.py_object, ctypes.c_char_p)}
    return ctypes.PYFUNCTYPE(result, *kinds[name])((name, ctypes.pythonapi))


def _of_numpy(place: int, *kinds: Any) -> Callable[..., Any]:
    """Return a function of NumPy's C interface, which returns an object."""
    table = _python("PyCapsule_GetPointer", ctypes.c_void_p)(import_module("numpy._core.multiarray")._ARRAY_API, None)
    address: Any = ctypes.c_void_p.from_address(table + place * ctypes.sizeof(ctypes.c_void_p)).value
    return ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)(address)


def _keep(x: object) -> None:
    """Keep an object until the process ends, as arrays may be freed after all modules."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))


def handler_text() -> str:
    """Return the text of the handler. Its ``entry`` takes the address of the functions before it, and returns its own.
    It is a ``PyDataMem_Handler`` and the name of its capsule."""
    name, capsule = b"burnpy".ljust(_ALLOCATOR - 1, b"\0"), _NAME + b"\0"
    functions = ", ".join(["ptr null", *(f"ptr @{name}" for name in ("new", "zeroed", "resized", "freed"))])
    return f"""
%functions = type {{ ptr, ptr, ptr, ptr, ptr }}
@handler = global {{ [{len(name)} x i8], i8, %functions, [{len(capsule)} x i8] }} {{
  [{len(name)} x i8] c"{_escaped(name)}", i8 1,
  %functions {{ {functions} }}, [{len(capsule)} x i8] c"{_escaped(capsule)}"
}}
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
define ptr @entry(ptr %self, ptr %args, i64 %count) {{
  %given = load ptr, ptr %args
  %before = call i64 @PyLong_AsLongLong(ptr %given)
  %context = getelementptr i8, ptr @handler, i64 {_ALLOCATOR}
  store i64 %before, ptr %context
  %address = ptrtoint ptr @handler to i64
  %result = call ptr @PyLong_FromLongLong(i64 %address)
  ret ptr %result
}}
define private i64 @room(i64 %size) alwaysinline {{
  %small = icmp ult i64 %size, {_LARGE}
  %room = select i1 %small, i64 {_ROOM}, i64 {_LINE}
  ret i64 %room
}}
define private ptr @placed(ptr %base, i64 %size) alwaysinline {{
  %none = icmp eq ptr %base, null
  br i1 %none, label %failed, label %some
failed:
  ret ptr null
some:
  %room = call i64 @room(i64 %size)
  %base_number = ptrtoint ptr %base to i64
  %behind = add i64 %base_number, %room
  %mask = sub i64 0, %room
  %start = and i64 %behind, %mask
  %data = inttoptr i64 %start to ptr
  %note = getelementptr ptr, ptr %data, i64 -1
  store ptr %base, ptr %note
  ret ptr %data
}}
define private ptr @base_of(ptr %data) alwaysinline {{
  %note = getelementptr ptr, ptr %data, i64 -1
  %base = load ptr, ptr %note
  ret ptr %base
}}
define ptr @new(ptr %before, i64 %size) {{
{_before(1)}
  %room = call i64 @room(i64 %size)
  %whole = add i64 %size, %room
  %base = call ptr %function(ptr %context, i64 %whole)
  %data = call ptr @placed(ptr %base, i64 %size)
  ret ptr %data
}}
define ptr @zeroed(ptr %before, i64 %count, i64 %item) {{
{_before(2)}
  %size = mul i64 %count, %item
  %room = call i64 @room(i64 %size)
  %whole = add i64 %size, %room
  %base = call ptr %function(ptr %context, i64 1, i64 %whole)
  %data = call ptr @placed(ptr %base, i64 %size)
  ret ptr %data
}}
define ptr @resized(ptr %before, ptr %data, i64 %size) {{
  %none = icmp eq ptr %data, null
  br i1 %none, label %fresh, label %again
fresh:
  %first = call ptr @new(ptr %before, i64 %size)
  ret ptr %first
again:
{_before(3)}
  %old = call ptr @base_of(ptr %data)
  %data_number = ptrtoint ptr %data to i64
  %old_number = ptrtoint ptr %old to i64
  %distance = sub i64 %data_number, %old_number
  %whole = add i64 %size, {_LINE}
  %base = call ptr %function(ptr %context, ptr %old, i64 %whole)
  %missing = icmp eq ptr %base, null
  br i1 %missing, label %failed, label %some
failed:
  ret ptr null
some:
  %moved = getelementptr i8, ptr %base, i64 %distance
  %note = getelementptr ptr, ptr %moved, i64 -1
  store ptr %base, ptr %note
  ret ptr %moved
}}
define void @freed(ptr %before, ptr %data, i64 %size) {{
  %none = icmp eq ptr %data, null
  br i1 %none, label %done, label %some
some:
{_before(4)}
  %base = call ptr @base_of(ptr %data)
  %room = call i64 @room(i64 %size)
  %whole = add i64 %size, %room
  call void %function(ptr %context, ptr %base, i64 %whole)
  br label %done
done:
  ret void
}}
"""


def _before(place: int) -> str:
    """Return the lines that find a function of the handler before this one, and its context."""
    return f"""  %context = load ptr, ptr %before
  %at = getelementptr ptr, ptr %before, i64 {place}
  %function = load ptr, ptr %at"""


def _escaped(text: bytes) -> str:
    """Return bytes as LLVM writes them."""
    return "".join(f"\\{byte:02X}" for byte in text)
