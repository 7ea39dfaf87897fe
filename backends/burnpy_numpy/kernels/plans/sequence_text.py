"""The code of `burnpy_numpy.kernels.plans.sequence`: a function that makes the calls of a table."""

from __future__ import annotations

from collections.abc import Callable

from burnpy_numpy.kernels.compiler.entry import Entry, entry_text
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Writer
from burnpy_numpy.kernels.kernel import entry_kernel
from burnpy_numpy.openblas import ROW_MAJOR, cblas

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
    places = w.element(w.words, str(HEAD), "int64")
    records = w.element(places, w.times(patches, 2), "int64")
    with w.loop("0", patches) as patch:
        pair = w.element(places, w.times(patch, 2), "int64")
        w.write(f"store ptr {w.pointer(w.given, w.number(pair, 1))}, ptr {w.pointer(pair, 0)}")
    with w.loop("0", steps) as step:
        with w.loop("0", moved) as move:
            address = w.number(w.data(w.given, 1), w.plus(w.times(step, moved), move))
            field = w.plus(w.times(move, STAND_IN), STAND_IN - 1)
            w.set_number(w.element(w.data(w.given, 2), field, "int64"), address)
        with w.loop("0", calls) as k:
            w.record = w.element(records, w.times(k, WORDS), "int64")
            kind = w.number(w.record, 0)
            for number, write in _KINDS.items():
                with w.when(f"eq i64 {kind}, {number}"):
                    write(w)
    entry = Writer(1, set())
    words = entry.field(entry.pointer("%args", 0), object.__basicsize__, "ptr")
    releases = entry.assign(f"icmp ne i64 {entry.field(words, 0, 'i64')}, 0")
    return w.function() + entry_text(entry, f"ptr %args, ptr {words}, i64 0, i64 0", releases)


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
        with self.loop("0", self.number(self.record, 5)) as k:
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
        """Add up the rows of a matrix, one after the other."""
        objects, rows, columns = self.pointer(self.record, 2), self.number(self.record, 4), self.number(self.record, 5)
        x, out = self.data(objects, 0), self.data(objects, 1)
        with self.loop("0", rows) as row, self.loop("0", columns) as column:
            value = self.load(self.element(x, self.plus(self.times(row, columns), column), dtype), dtype, None)
            target = self.element(out, column, dtype)
            total = self.add(self.load(target, dtype, None), value).text
            kind = self.type(dtype)
            first = self.assign(f"icmp eq i64 {row}, 0")
            self.write(f"store {kind} {self.either(first, value.text, total, kind)}, ptr {target}")


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
