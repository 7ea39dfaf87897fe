"""The kernels of compiled steps: `CallSequence`, calls one after the other as one call, and programs of numbers.

A table of kernels, products and formulas of lists is made once, with the addresses of arrays that stay where they are.
Arrays that differ each time are arguments of the call, which come into their places in the table first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.plans.executor import Moved
from burnpy.backend.primitives import DType
from burnpy.backend.programs import Program
from burnpy_numpy.kernels.compiler.entry import TABLE, Entry, code_of
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import entry_kernel, loaded
from burnpy_numpy.openblas import NO_TRANS, ROW_MAJOR, TRANS, Blas, cblas

if TYPE_CHECKING:
    from burnpy.backend.plans.loops import Place

NUMBER, PROGRAM, TEMPLATE, GEMM_32, GEMM_64, GEMV_32, GEMV_64, ZEROS, SUM_32, SUM_64 = range(10)
"""The kinds of calls."""
HEAD, WORDS, STAND_IN = 6, 16, 1 + object.__basicsize__ // 8
"""The words of a table before the places of arguments, those of each call, and those of an array's stand-in: an object
whose only field is the address of its data."""
STEPS, MOVED = 3, 4
"""The words of a table with the number of steps, and with the number of stand-ins that move with them."""


def sequence_entry() -> Entry | None:
    """Return the function that makes the calls of a table; None if kernels are off."""
    blas = cblas("gemm", True)
    return entry_kernel(sequence, blas is not None and blas.long)


def sequence(long: bool) -> str:
    """Return the text of the function ``entry`` that makes the calls of a table.

    Its arguments are the table and the arrays that differ each time: NumPy arrays, which is not checked. The table has
    whether Python's lock is released, the number of arguments to place and of calls, the number of steps, and of
    stand-ins that move; for each argument where it goes and its number; and then the calls, of `WORDS` words each. If
    stand-ins move, the arguments are the addresses of their data in each step, and the stand-ins.

    Args:
        long: whether sizes are 64-bit ints for OpenBLAS.
    """
    w = _Calls(long)
    patches, calls, steps, moved = (w.number(w.words, k) for k in (1, 2, STEPS, MOVED))
    places = w.element(w.words, HEAD, "int64")
    records = w.element(places, patches * 2, "int64")
    with w.loop(0, patches) as patch:
        pair = w.element(places, patch * 2, "int64")
        w.write(f"store ptr {w.pointer(w.given, w.number(pair, 1))}, ptr {w.pointer(pair, 0)}")
    with w.loop(0, steps) as step:
        with w.loop(0, moved) as move:
            address = w.number(w.data(w.given, 1), step * moved + move)
            field = move * STAND_IN + (STAND_IN - 1)
            w.set_number(w.element(w.data(w.given, 2), field, "int64"), address)
        with w.loop(0, calls) as k:
            w.record = w.element(records, k * WORDS, "int64")
            kind = w.number(w.record, 0)
            for number, write in _KINDS.items():
                with w.when(f"eq i64 {kind}, {number}"):
                    write(w)
    return (
        w.function()
        + f"""
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
define ptr @entry(ptr %self, ptr %args, i64 %count) {{
  %table = load ptr, ptr %args
  %data = getelementptr i8, ptr %table, i64 {object.__basicsize__}
  %words = load ptr, ptr %data
  %releases = load i64, ptr %words
  %holds = icmp eq i64 %releases, 0
  br i1 %holds, label %held, label %released
released:
  %state = call ptr @PyEval_SaveThread()
  call void @kernel(ptr %args, ptr %words, i64 0, i64 0)
  call void @PyEval_RestoreThread(ptr %state)
  br label %done
held:
  call void @kernel(ptr %args, ptr %words, i64 0, i64 0)
  br label %done
done:
  %result = call ptr @PyLong_FromLongLong(i64 0)
  ret ptr %result
}}
"""
    )


class _Calls(Loops):
    """The code of the calls, whose tables are the arguments of the function, as objects, and the words of the table."""

    given, words, record = "%table", "%sizes", ""

    def __init__(self, long: bool) -> None:
        super().__init__(1, 0, 0)
        self._size = "i64" if long else "i32"

    def data(self, objects: str, index: str | int) -> str:
        """Return the address of the data of one of several arrays."""
        return self.field(self.pointer(objects, index), object.__basicsize__, "ptr")

    def operands(self, first: int, *kinds: str) -> str:
        """Return words of the record from the first on as operands of some types."""
        found = []
        for k, kind in enumerate(kinds):
            word = self.number(self.record, first + k)
            found.append(f"{kind} {word if kind == 'i64' else self.assign(f'trunc i64 {word} to {kind}')}")
        return ", ".join(found)

    def store_number(self) -> None:
        """Store the only element of an array as a double, for programs."""
        place, x, wide = (
            self.pointer(self.record, 1),
            self.data(self.pointer(self.record, 2), 0),
            self.number(self.record, 3),
        )
        for how, load in (("ne", "load double, ptr"), ("eq", "load float, ptr")):
            with self.when(f"{how} i64 {wide}, 0"):
                value = self.assign(f"{load} {x}")
                value = value if how == "ne" else self.assign(f"fpext float {value} to double")
                self.write(f"store double {value}, ptr {place}")

    def run_program(self) -> None:
        """Call a program's kernel."""
        code, objects, numbers = (self.pointer(self.record, k) for k in (1, 2, 3))
        self.write(f"call void {code}(ptr {objects}, ptr {numbers}, {self.operands(4, *['i64'] * 4)})")

    def run_template(self) -> None:
        """Call a template's kernel, with the addresses of the data of its arrays."""
        code, objects, values, table = (self.pointer(self.record, k) for k in (1, 2, 3, 4))
        with self.loop(0, self.number(self.record, 5)) as k:
            self.write(f"store ptr {self.data(objects, k)}, ptr {self.element(values, k, 'int64')}")
        self.write(f"call void {code}(ptr {values}, ptr {table}, {self.operands(6, 'i64', 'i64')})")

    def multiply(self, dtype: str, vector: bool) -> None:
        """Call OpenBLAS's product of two matrices, or of a matrix and a vector."""
        code, objects, size = self.pointer(self.record, 1), self.pointer(self.record, 2), self._size
        x, y, out = (self.data(objects, k) for k in range(3))
        if vector:
            how, one = self.operands(4, "i32", size, size), f"{size} 1"
            arrays = f"ptr {x}, {self.operands(7, size)}, ptr {y}, {one}, {dtype} 0.0, ptr {out}, {one}"
        else:
            how = self.operands(4, "i32", "i32", size, size, size)
            lda, ldb, ldc = (self.operands(k, size) for k in (9, 10, 11))
            arrays = f"ptr {x}, {lda}, ptr {y}, {ldb}, {dtype} 0.0, ptr {out}, {ldc}"
        self.write(f"call void {code}(i32 {ROW_MAJOR}, {how}, {dtype} 1.0, {arrays})")

    def clear(self) -> None:
        """Fill an array with zeros."""
        self.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        x = self.data(self.pointer(self.record, 2), 0)
        self.write(f"call void @llvm.memset.p0.i64(ptr {x}, i8 0, {self.operands(4, 'i64')}, i1 false)")

    def add_rows(self, dtype: str) -> None:
        """Add up the rows of a matrix as `sum_of_rows` does."""
        objects, rows, columns = self.pointer(self.record, 2), self.number(self.record, 4), self.number(self.record, 5)
        x, out, count = self.data(objects, 0), self.data(objects, 1), self.count(rows)
        with self.when(f"sgt i64 {rows}, 1"), self.loop(0, _MOST_TURNS):
            left = self.number(count, 0)
            half = self.assign(f"lshr i64 {left + 1}, 1")
            above = half * columns
            with self.loop(0, (left - half) * columns) as at:
                total = self.add(self.load_at(x, at, dtype), self.load_at(x, above + at, dtype))
                self.store_at(total, x, at)
            self.set_number(count, half)
        with self.loop(0, columns) as column:
            self.store_at(self.load_at(x, column, dtype), out, column)


_MOST_TURNS = 40
"""The number of times that the rows of a matrix can be halved."""
_KINDS: dict[int, Callable[[_Calls], None]] = {
    NUMBER: _Calls.store_number,
    PROGRAM: _Calls.run_program,
    TEMPLATE: _Calls.run_template,
    GEMM_32: lambda w: w.multiply("float", vector=False),
    GEMM_64: lambda w: w.multiply("double", vector=False),
    GEMV_32: lambda w: w.multiply("float", vector=True),
    GEMV_64: lambda w: w.multiply("double", vector=True),
    ZEROS: _Calls.clear,
    SUM_32: lambda w: w.add_rows("float32"),
    SUM_64: lambda w: w.add_rows("float64"),
}
_MAX_UNDER_LOCK = 1 << 12
"""The number of elements above which Python's lock is released."""

Address: TypeAlias = Any
"""The name of an array, the array itself, or a tuple of names of arrays whose objects make up a table."""
Numbers: TypeAlias = Sequence[tuple[str | float, DType]]
"""Numbers, or names of arrays of one element, with their dtypes."""


class KernelCall(NamedTuple):
    """One call of a sequence."""

    kind: int
    code: int  #: the address of the function
    arrays: Sequence[Address]
    sizes: Sequence[int]
    numbers: Numbers = ()
    table: Sequence[int] = ()  #: the sizes that a template gets as an array
    work: float = 0.0  #: the number of elements


def program_call(function: Any, arrays: Sequence[str], numbers: Numbers, sizes: Sequence[int]) -> KernelCall:
    """Return the call of a program's kernel; sizes are the begin, the end, the rows and the columns."""
    return KernelCall(PROGRAM, code_of(function), arrays, sizes, numbers, work=(sizes[1] - sizes[0]) * sizes[3])


def template_call(
    function: Any,
    arrays: Sequence[Address],
    table: Sequence[int],
    begin: int,
    end: int,
    work: float,
    numbers: Numbers = (),
) -> KernelCall:
    """Return the call of a template's kernel for a range of its blocks; if it takes numbers, they end its table."""
    return KernelCall(TEMPLATE, code_of(function), arrays, (begin, end, bool(numbers)), numbers, table, work)


def gemm_call(
    blas: Blas, dtype: DType, arrays: Sequence[str], sizes: tuple[int, int, int], transposed: tuple[bool, bool]
) -> KernelCall:
    """Return the call that writes the product of two matrices into a third.

    Args:
        blas: OpenBLAS's product of matrices.
        dtype: the dtype of all.
        arrays: their names.
        sizes: the rows and columns of the product, and the number of products that each element sums.
        transposed: whether each of the two is stored transposed.
    """
    rows, columns, inner = sizes
    left, right = transposed
    strides = rows if left else inner, inner if right else columns, columns
    kind = GEMM_32 if dtype == float32 else GEMM_64
    how = [TRANS if flag else NO_TRANS for flag in transposed]
    return KernelCall(kind, blas.address, arrays, (*how, *sizes, *strides), work=rows * columns * inner / 16)


def gemv_call(blas: Blas, dtype: DType, arrays: Sequence[str], sizes: tuple[int, int], transposed: bool) -> KernelCall:
    """Return the call that writes the product of a matrix of this many rows and columns and a vector into a vector."""
    kind = GEMV_32 if dtype == float32 else GEMV_64
    how = TRANS if transposed else NO_TRANS
    return KernelCall(kind, blas.address, arrays, (how, *sizes, sizes[1]), work=sizes[0] * sizes[1] / 16)


def zeros_call(name: str, size: int) -> KernelCall:
    """Return the call that fills this many bytes of an array with zeros."""
    return KernelCall(ZEROS, 0, (name,), (size,))


def sum_call(partial_sums: str, out: str, dtype: DType, shape: tuple[int, int]) -> KernelCall:
    """Return the call that adds up the rows of a matrix."""
    return KernelCall(SUM_32 if dtype == float32 else SUM_64, 0, (partial_sums, out), shape)


class CallSequence:
    """Calls that are made one after the other.

    Args:
        entry: the function of `sequence_entry`.
        calls: the calls.
        given: the names of the arrays that each run is given.
    """

    def __init__(self, entry: Entry, calls: Sequence[KernelCall], given: Sequence[str]) -> None:
        self._entry, self._calls = entry, calls
        self._argument = {name: k + 1 for k, name in enumerate(given)}  # the table is the first one
        self._releases = sum(call.work for call in calls) > _MAX_UNDER_LOCK

    def bind(self, space: Mapping[str, Any]) -> Callable[..., Any]:
        """Return the function that makes the calls, given arrays of the names ``given``, which are not checked.

        Args:
            space: the other arrays, by name.
        """
        words, kept = self._table(space, {})
        run = partial(self._entry, words)
        vars(run)["kept"] = kept  # the memory whose addresses the table has
        return run

    def bind_steps(self, space: Mapping[str, Any]) -> Callable[[Mapping[str, Moved]], None]:
        """Return the function that makes the calls in each of many steps, given where the arrays ``given`` are.

        Args:
            space: the other arrays, by name.
        """
        names = list(self._argument)
        stand_ins = np.zeros((len(names), STAND_IN), np.int64)
        start, size = stand_ins.ctypes.data, STAND_IN * 8
        words, kept = self._table(space, {name: start + k * size for k, name in enumerate(names)})
        words[MOVED] = len(names)

        def run(places: Mapping[str, Moved]) -> None:
            moved = [places[name] for name in names]
            starts = np.array([place.array.ctypes.data for place in moved], np.int64)
            sizes = np.array([place.size * place.array.itemsize for place in moved], np.int64)
            addresses = np.stack([place.positions for place in moved], 1) * sizes + starts
            words[STEPS] = len(addresses)
            self._entry(words, addresses, stand_ins)

        vars(run)["kept"] = kept
        return run

    def _table(self, space: Mapping[str, Any], stand_ins: Mapping[str, int]) -> tuple[Any, list[Any]]:
        """Return a table of the calls, and the memory whose addresses it has. Arrays that stay where they are lie in
        ``space``; others have stand-ins, or are arguments."""
        table = _CallTable(space, stand_ins, self._argument)
        for call in self._calls:
            table.add(call)
        return table.words(self._releases), table.kept


class _CallTable:
    """The table of calls for `sequence_entry`, in the making."""

    def __init__(self, space: Mapping[str, Any], stand_ins: Mapping[str, int], arguments: Mapping[str, int]) -> None:
        self._space, self._stand_ins, self._arguments = space, stand_ins, arguments
        self._patches: list[int] = []  # where the addresses of arguments belong, each with the argument's number
        self._records: list[int] = []
        self.kept: list[Any] = []  #: the memory whose addresses the table has

    def words(self, releases: bool) -> Any:
        head = [int(releases), len(self._patches) // 2, len(self._records) // WORDS, 1, 0, 0]
        return np.array([*head, *self._patches, *self._records], np.int64)

    def add(self, call: KernelCall) -> None:
        """Add the records of a call: of the numbers that it reads, and of itself."""
        values, place = self._memory(len(call.numbers), np.float64)
        for k, (name, dtype) in enumerate(call.numbers):
            if isinstance(name, str):
                self._record(NUMBER, place + 8 * k, self._addresses((name,))[1], int(dtype != float32))
            else:
                values[k] = name
        if call.kind != TEMPLATE:
            self._record(call.kind, call.code, self._addresses(call.arrays)[1], place, *call.sizes)
            return
        begin, end, numbered = call.sizes
        slots, objects = self._addresses(call.arrays, numbered)
        if numbered:
            slots[-1] = id(values)
        sizes, sizes_at = self._memory(len(call.table), np.int64)
        sizes[: len(call.table)] = call.table
        pointers = self._memory(len(slots), np.int64)[1]
        self._record(call.kind, call.code, objects, pointers, sizes_at, len(slots), begin, end)

    def _record(self, *words: int) -> None:
        self._records += [*words, *[0] * (WORDS - len(words))]

    def _memory(self, count: int, dtype: Any) -> tuple[Any, int]:
        """Return new memory that is kept, and its address."""
        made = np.zeros(max(count, 1), dtype)
        self.kept.append(made)
        return made, made.ctypes.data

    def _addresses(self, places: Sequence[Address], more: int = 0) -> tuple[Any, int]:
        """Return memory with the addresses of objects, those of arguments to come and ``more``, and its address."""
        slots, start = self._memory(len(places) + more, np.int64)
        for k, place in enumerate(places):
            if isinstance(place, tuple):
                self.kept.append(self._addresses(place)[0])
                slots[k] = id(self.kept[-1])
            elif isinstance(place, str) and place in self._stand_ins:
                slots[k] = self._stand_ins[place]
            elif isinstance(place, str) and place in self._arguments:
                self._patches += (start + 8 * k, self._arguments[place])
            else:
                self.kept.append(self._space[place] if isinstance(place, str) else place)
                slots[k] = id(self.kept[-1])
        return slots, start


def unrolled_kernel(
    program: Program, inputs: Sequence[Place], outputs: Sequence[Place], arrays: tuple[int, int]
) -> Entry | None:
    """Return the function of the kernel, whose table has the arrays that it reads, and then those that it writes.

    All elements are read before one is written. None, with a warning, if compiling fails.

    Args:
        program: the program, with an input for each element.
        inputs: the places of its inputs.
        outputs: the places of its outputs.
        arrays: the numbers of arrays that it reads and writes.
    """
    key = f"{program.key} {[*map(tuple, inputs)]} {[*map(tuple, outputs)]} {arrays}"
    return loaded("unrolled", key, lambda: _text(program, inputs, outputs, arrays), TABLE)


def _text(program: Program, inputs: Sequence[Place], outputs: Sequence[Place], arrays: tuple[int, int]) -> str:
    w = Loops(1, sum(arrays), 0)
    xs: list[Vector] = []
    for place, given in zip(inputs, program.inputs, strict=True):
        xs.append(w.load_at(w.table[place.array], place.element, given.dtype))
    for place, x in zip(outputs, w.program(program, xs), strict=True):
        w.store_at(x, w.table[arrays[0] + place.array], place.element)
    return w.function()
