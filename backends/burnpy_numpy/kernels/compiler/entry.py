"""Kernels as built-in functions of Python: a call takes a tenth of the time of one through ctypes.

Python calls a function of `ENTRIES`, by the convention of CPython's ``METH_FASTCALL``: it gets an array of objects, and
calls the function ``kernel`` of the module whose address is in the built-in function's ``__self__``. Handlers of memory
and plans have a function ``entry`` of their own, which Python calls.

`SHARE` and `SERVE` are the code of several threads that run a kernel.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from burnpy_numpy.cpu_threads import EVENT, FIRST_EVENT, GATE, RANGE_WORDS, RANGES

Entry = Callable[..., Any]
SYMBOLS = (
    "PyLong_AsLongLong",
    "PyFloat_AsDouble",
    "PyLong_FromLongLong",
    "PyErr_Occurred",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyThread_acquire_lock",
    "PyThread_release_lock",
    "PyLong_Type",
)
"""The functions and types of Python's C interface to which the code refers."""
ARRAY_TYPE = "burnpy_ndarray"
"""The name under which the code refers to the class of NumPy's arrays."""
_POINTER = ctypes.sizeof(ctypes.c_void_p)
FLAGS = object.__basicsize__ + 6 * _POINTER
"""The offset of an array's flags: data, dimensions, shape, strides, base and dtype come before. Bit 0: C-contiguous."""
_RELEASES_LOCK = 1 << 12
"""The number of elements above which Python's lock is released."""
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


def _words(base: str, **places: int) -> str:
    """Return code that loads words from memory: their names and places."""
    return "".join(
        f"  %{name}_at = getelementptr i64, ptr %{base}, i64 {place}\n  %{name} = load i64, ptr %{name}_at\n"
        for name, place in places.items()
    )


def _ints(base: str, first: str, *names: str) -> str:
    """Return code that converts objects of Python to ints: their names and the place of the first."""
    return "".join(
        f"""  %{name}_place = add i64 {first}, {k}
  %{name}_at = getelementptr ptr, ptr %{base}, i64 %{name}_place
  %{name}_object = load ptr, ptr %{name}_at
  %{name} = call i64 @PyLong_AsLongLong(ptr %{name}_object)
"""
        for k, name in enumerate(names)
    )


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
  %kernel = load ptr, ptr %record
{_words("record", arrays=1, flat=2)}
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
{_ints("args", "%sizes", "begin", "end", "rows", "columns")}
  %range = sub i64 %end, %begin
  %is_flat = icmp ne i64 %flat, 0
  %each = select i1 %is_flat, i64 1, i64 %columns
  %work = mul i64 %range, %each
  %long = icmp sgt i64 %work, {_RELEASES_LOCK}
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
  %given = getelementptr ptr, ptr %args, i64 3
{_ints("args", "0", "begin", "end", "length")}
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


JOB = 12
"""The words of a job before its table."""
_SPINS = 1 << 13
"""How often a caller looks whether all have left before it sleeps: for some 20 µs, as long as it takes to wake it."""


_SHARING = f"""
declare i32 @PyThread_acquire_lock(ptr, i32)
declare void @PyThread_release_lock(ptr)
define internal void @set_event(ptr %lock_at) {{
  %lock = load ptr, ptr %lock_at
  %held = call i32 @PyThread_acquire_lock(ptr %lock, i32 0)
  call void @PyThread_release_lock(ptr %lock)
  ret void
}}
define internal i64 @edge(i64 %size, i64 %part, i64 %parts) {{
  %product = mul i64 %size, %part
  %edge = sdiv i64 %product, %parts
  ret i64 %edge
}}
declare ptr @memcpy(ptr, ptr, i64)
define internal void @part(ptr %job, i64 %part, i64 %thread) {{
entry:
{_words("job", address=1, parts=2, units=3, unit=4, limit=5, rows=6, columns=7, length=8, place=9, room=10)}
  %code = inttoptr i64 %address to ptr
  %table = getelementptr i64, ptr %job, i64 {JOB}
  %sizes = getelementptr i64, ptr %table, i64 %length
  %after = add i64 %part, 1
  %first = call i64 @edge(i64 %units, i64 %part, i64 %parts)
  %last = call i64 @edge(i64 %units, i64 %after, i64 %parts)
  %begin = mul i64 %first, %unit
  %whole = mul i64 %last, %unit
  %beyond = icmp sgt i64 %whole, %limit
  %end = select i1 %beyond, i64 %limit, i64 %whole
  %is_program = icmp sge i64 %rows, 0
  %is_worker = icmp sgt i64 %thread, 0
  %needs_room = icmp sge i64 %place, 0
  %copies = and i1 %is_worker, %needs_room
  br i1 %copies, label %copy, label %run
copy:
  %own = alloca i64, i64 %length
  %stand_in = alloca i8, i64 {object.__basicsize__ + _POINTER}
  %field = getelementptr i8, ptr %stand_in, i64 {object.__basicsize__}
  %bytes = mul i64 %length, 8
  %copied = call ptr @memcpy(ptr %own, ptr %table, i64 %bytes)
  %slot = getelementptr ptr, ptr %own, i64 %place
  %given_room = load ptr, ptr %slot
  %data_at = getelementptr i8, ptr %given_room, i64 {object.__basicsize__}
  %holder = select i1 %is_program, ptr %data_at, ptr %slot
  %rooms = load ptr, ptr %holder
  %offset = mul i64 %room, %thread
  %memory = getelementptr i8, ptr %rooms, i64 %offset
  store ptr %memory, ptr %field
  %entered = select i1 %is_program, ptr %stand_in, ptr %memory
  store ptr %entered, ptr %slot
  br label %run
run:
  %arrays = phi ptr [%table, %entry], [%own, %copy]
  br i1 %is_program, label %program, label %template
program:
  %numbers = load ptr, ptr %sizes
  call void %code(ptr %arrays, ptr %numbers, i64 %begin, i64 %end, i64 %rows, i64 %columns)
  ret void
template:
  call void %code(ptr %arrays, ptr %sizes, i64 %begin, i64 %end)
  ret void
}}
define internal void @take(ptr %pool, i64 %thread) {{
entry:
  %job_at = getelementptr ptr, ptr %pool, i64 2
  %job = load ptr, ptr %job_at
{_words("job", team=11)}
  %belongs = icmp slt i64 %thread, %team
  br i1 %belongs, label %visit, label %done
visit:
  %distance = phi i64 [0, %entry], [%farther, %next]
  %sum = add i64 %thread, %distance
  %owner = srem i64 %sum, %team
  %offset = mul i64 %owner, {RANGE_WORDS}
  %place = add i64 %offset, {RANGES}
  %range_at = getelementptr i64, ptr %pool, i64 %place
  %is_own = icmp eq i64 %distance, 0
  %step = select i1 %is_own, i64 1, i64 {-(1 << 32)}
  br label %look
look:
  %range = load atomic i64, ptr %range_at seq_cst, align 8
  %first = and i64 %range, {(1 << 32) - 1}
  %end = lshr i64 %range, 32
  %left = icmp slt i64 %first, %end
  br i1 %left, label %try, label %next
try:
  %without = add i64 %range, %step
  %tried = cmpxchg ptr %range_at, i64 %range, i64 %without seq_cst seq_cst
  %taken = extractvalue {{i64, i1}} %tried, 1
  br i1 %taken, label %body, label %look
body:
  %last = sub i64 %end, 1
  %part = select i1 %is_own, i64 %first, i64 %last
  call void @part(ptr %job, i64 %part, i64 %thread)
  br label %look
next:
  %farther = add i64 %distance, 1
  %others = icmp slt i64 %farther, %team
  br i1 %others, label %visit, label %done
done:
  ret void
}}
"""
SHARE = f"""{_SHARING}
define void @kernel(ptr %job, ptr %sizes, i64 %begin, i64 %end) {{
entry:
  %pool = load ptr, ptr %job
{_words("job", parts=2, team=11)}
  %gate_at = getelementptr i64, ptr %pool, i64 {GATE}
  %job_at = getelementptr ptr, ptr %pool, i64 2
  %event_at = getelementptr ptr, ptr %pool, i64 {EVENT}
  %ranges = getelementptr i64, ptr %pool, i64 {RANGES}
  %taken = cmpxchg ptr %pool, i64 0, i64 1 seq_cst seq_cst
  %free = extractvalue {{i64, i1}} %taken, 1
  br i1 %free, label %open, label %alone
alone:
  %part = phi i64 [0, %entry], [%part_next, %alone]
  call void @part(ptr %job, i64 %part, i64 0)
  %part_next = add i64 %part, 1
  %more = icmp slt i64 %part_next, %parts
  br i1 %more, label %alone, label %done
open:
  store ptr %job, ptr %job_at
  br label %divide
divide:
  %owner = phi i64 [0, %open], [%owner_next, %divide]
  %owner_next = add i64 %owner, 1
  %first = call i64 @edge(i64 %parts, i64 %owner, i64 %team)
  %range_end = call i64 @edge(i64 %parts, i64 %owner_next, i64 %team)
  %high = shl i64 %range_end, 32
  %range = or i64 %high, %first
  %offset = mul i64 %owner, {RANGE_WORDS}
  %range_at = getelementptr i64, ptr %ranges, i64 %offset
  store i64 %range, ptr %range_at
  %divides = icmp slt i64 %owner_next, %team
  br i1 %divides, label %divide, label %opened
opened:
  %was_closed = atomicrmw and ptr %gate_at, i64 -2 seq_cst
  br label %call
call:
  %worker = phi i64 [1, %opened], [%worker_next, %call]
  %place = add i64 %worker, {FIRST_EVENT - 1}
  %call_at = getelementptr ptr, ptr %pool, i64 %place
  call void @set_event(ptr %call_at)
  %worker_next = add i64 %worker, 1
  %calls = icmp slt i64 %worker_next, %team
  br i1 %calls, label %call, label %help
help:
  call void @take(ptr %pool, i64 0)
  %was_open = atomicrmw or ptr %gate_at, i64 1 seq_cst
  br label %look
look:
  %looks = phi i64 [0, %help], [%looks_next, %stay], [{_SPINS}, %wait]
  %gate = load atomic i64, ptr %gate_at seq_cst, align 8
  %empty = icmp eq i64 %gate, 1
  br i1 %empty, label %leave, label %stay
stay:
  %looks_next = add i64 %looks, 1
  %looks_on = icmp slt i64 %looks, {_SPINS}
  br i1 %looks_on, label %look, label %wait
wait:
  %event = load ptr, ptr %event_at
  %is_set = call i32 @PyThread_acquire_lock(ptr %event, i32 1)
  br label %look
leave:
  store atomic i64 0, ptr %pool seq_cst, align 8
  br label %done
done:
  ret void
}}
"""
SERVE = f"""{_SHARING}
define void @kernel(ptr %table, ptr %sizes, i64 %begin, i64 %end) {{
entry:
{_words("table", thread=1)}
  %lock_at = getelementptr ptr, ptr %table, i64 2
  %called_at_at = getelementptr ptr, ptr %table, i64 3
  %pool = load ptr, ptr %table
  %lock = load ptr, ptr %lock_at
  %called_at = load ptr, ptr %called_at_at
  %gate_at = getelementptr i64, ptr %pool, i64 {GATE}
  %event_at = getelementptr ptr, ptr %pool, i64 {EVENT}
  br label %enter
enter:
  %gate = load atomic i64, ptr %gate_at seq_cst, align 8
  %closed = trunc i64 %gate to i1
  br i1 %closed, label %look, label %try
try:
  %with_this = add i64 %gate, 2
  %tried = cmpxchg ptr %gate_at, i64 %gate, i64 %with_this seq_cst seq_cst
  %entered = extractvalue {{i64, i1}} %tried, 1
  br i1 %entered, label %help, label %enter
help:
  call void @take(ptr %pool, i64 %thread)
  %before = atomicrmw sub ptr %gate_at, i64 2 seq_cst
  %is_last = icmp eq i64 %before, 3
  br i1 %is_last, label %tell, label %look
tell:
  call void @set_event(ptr %event_at)
  br label %look
look:
  %called = atomicrmw xchg ptr %called_at, i64 0 seq_cst
  %has_job = icmp ne i64 %called, 0
  br i1 %has_job, label %leave, label %sleep
sleep:
  %awake = call i32 @PyThread_acquire_lock(ptr %lock, i32 1)
  br label %enter
leave:
  ret void
}}
"""
"""How several threads run a kernel without Python: the caller runs `SHARE`, and each worker `SERVE`, until it has to
return to Python. Each is a kernel that Python calls by ``table``.

The words of a pool, see `burnpy_numpy.cpu_threads.ThreadPool`: 0 is 1 while a caller has it; 1, the gate, is twice the
number of workers inside, plus 1 while it is closed; 2 is the caller's job, 3 the event that the last worker to leave
sets; then the events of the workers, and of each thread the range of parts that nobody has taken, the first in the low
half, the end in the high half. A thread begins with its own first part, and ends with the last ones of others: it has
in its cache what it wrote in the job before. A caller opens the gate, sets the workers' events, takes parts until none
is left, closes the gate, and waits for those inside, not for late ones. One that finds another there does all parts.

The words of a job: 0 is the pool's address, 1 the kernel's; 2 the number of parts, 3 of units, which the parts divide,
4 the blocks of a unit, 5 the number of blocks; 6 and 7 the rows and columns of a program, -1 rows for a template; 8 the
length of the table, 9 the place in it of the threads' scratch memory, or -1, 10 the bytes of each; 11 the number
of threads, with the caller, whose scratch memory is the first. A worker beyond that number takes no part. There follow
the table and the sizes, or the address of a program's numbers.
"""


def code_of(function: Any) -> int:
    """Return the address of the function ``kernel`` that a built-in function calls."""
    address: int = struct.unpack_from("@N", function.__self__)[0]
    return address
