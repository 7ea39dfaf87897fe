"""A program as LLVM's intermediate representation: one function, made of loops over rows and over columns.

The function is ``kernel(table, numbers, begin, end, rows, columns)``; see `call_of`:

- ``table``: addresses of NumPy arrays, as objects: the inputs that are arrays, the outputs and, if any are kept,
  memory for one row of `Layout.scratch` values;
- ``numbers``: the inputs that are numbers, as doubles;
- ``begin``, ``end``: the rows to compute; of an elementwise program, the elements.

In each row, there is a loop over its columns for each step from sums of the row to values that need them. What is
expensive and needed in several loops is kept in the scratch row. Sums over rows are added up for each `CHUNK` of rows
by itself, so that they do not depend on how rows are divided among threads; the caller adds up the chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from burnpy.backend.programs import Extent, Instruction, Program
from burnpy.backend.programs.program import Schedule
from burnpy_numpy.kernels.compiler.entry import Call
from burnpy_numpy.kernels.compiler.instructions import FUNCTIONS, applied, definition, in_table, number_in
from burnpy_numpy.kernels.compiler.vectors import Vector, Writer

CHUNK = 128
"""The number of rows whose sum is computed by one thread, a power of 2."""
_SHIFT = CHUNK.bit_length() - 1


@dataclass(frozen=True)
class Layout:
    """The interface of a kernel, as its caller must know it: see the module."""

    flat: bool  #: the program is elementwise, and the arrays are walked through as if they had one dimension
    partial: tuple[bool, ...]  #: for each output, whether it is a sum over rows, and given by chunk
    scratch: int  #: the number of values that a row of scratch memory holds for each column

    @property
    def sums(self) -> bool:
        """Return whether there are sums over rows."""
        return True in self.partial


@dataclass(frozen=True)
class _Place:
    """The place in a loop of computed values: the column and the mask of its vector; one column if ``one``."""

    index: str
    mask: str | None
    one: bool
    known: dict[int, Vector]


def layout_of(program: Program) -> Layout:
    """Return the layout of a program's kernel, without writing its text."""
    return _layout(Schedule(program))


def _layout(schedule: Schedule) -> Layout:
    program = schedule.program
    return Layout(program.elementwise, tuple(map(schedule.over_rows, program.outputs)), len(schedule.kept))


def emit(program: Program, vector_bytes: int) -> tuple[str, Layout]:
    """Return the text of a program's kernel, and its layout.

    Args:
        program: the program.
        vector_bytes: the size of the vectors that the text uses.
    """
    return _Emitter(program, vector_bytes).text()


def call_of(program: Program, layout: Layout) -> Call:
    """Return how Python calls a program's kernel."""
    arrays = sum(i.extent is not Extent.SCALAR for i in program.inputs)
    return Call("program", arrays + len(program.outputs) + (layout.scratch > 0), layout.flat)


class _Emitter:
    """The state of emitting one program."""

    def __init__(self, program: Program, vector_bytes: int) -> None:
        self.program, self.steps = program, program.instructions
        wide = any(i.dtype == "float64" for i in self.steps)
        self.width = vector_bytes // (8 if wide else 4)
        self.declared: set[str] = set()
        self.called: set[tuple[str, str]] = set()
        self.w = Writer(self.width, self.declared)
        self.flat = program.elementwise
        self.schedule = Schedule(program)
        self.fixed: dict[int, Vector] = {}
        """The values of extents SCALAR and COLUMN that are computed."""
        self.pointers: dict[str, str] = {}
        self.block = "entry"
        self.stage = 0
        """The number of the loop over columns that is written."""

    def text(self) -> tuple[str, Layout]:
        w = self.w
        self._entry()
        if self.flat:
            self._elements()
        else:
            self._rows()
        w.write("ret void")
        arguments = "ptr %table, ptr %numbers, i64 %begin, i64 %end, i64 %rows, i64 %columns"
        head = f"define void @kernel({arguments}) noinline {{\nentry:"
        body = "\n".join([head, *w.lines, "}"])
        functions = [definition(name, dtype, self.width, self.declared) for name, dtype in sorted(self.called)]
        return "\n".join([*sorted(self.declared), *functions, body]), _layout(self.schedule)

    def _entry(self) -> None:
        """Write the first block: the addresses, and the values of extent SCALAR."""
        w = self.w
        names = [f"in{k}" for k, i in enumerate(self.program.inputs) if i.extent is not Extent.SCALAR]
        names += [f"out{k}" for k in range(len(self.program.outputs))]
        for k, name in enumerate([*names, "scratch"] if self.schedule.kept else names):
            at = w.assign(f"getelementptr ptr, ptr %table, i64 {k}")
            array = w.assign(f"load ptr, ptr {at}")
            data = w.assign(f"getelementptr i8, ptr {array}, i64 {object.__basicsize__}")
            self.pointers[name] = w.assign(f"load ptr, ptr {data}")
        padded = w.assign(f"add i64 %columns, {self.width - 1}")
        self.stride = w.assign(f"and i64 {padded}, {-self.width}")
        number = 0
        for k, given in enumerate(self.program.inputs):
            if given.extent is Extent.SCALAR:
                at = w.assign(f"getelementptr double, ptr %numbers, i64 {number}")
                self.pointers[f"number{k}"] = w.assign(f"load double, ptr {at}")
                number += 1
        for k in self.schedule.live:
            if self.steps[k].extent is Extent.SCALAR and not self.schedule.over_rows(k):
                self.fixed[k] = self._computed(k, _Place("", None, True, {}))

    def _elements(self) -> None:
        """Write the loop of an elementwise program, in two turns: over whole vectors, and over one on the stack. That
        has the elements which fill no vector. So the body is written once, without masks, and compiles in half the time
        of two."""
        w, given, dtypes = self.w, {**self.pointers}, {f"in{i.value}": i.dtype for i in self.steps if i.op == "input"}
        dtypes |= {f"out{number}": self.steps[k].dtype for number, k in enumerate(self.program.outputs)}
        names = [name for name in given if name in dtypes]
        left = w.assign(f"and i64 {w.assign('sub i64 %end, %begin')}, {self.width - 1}")
        last = w.assign(f"sub i64 %end, {left}")
        beyond, back = w.assign(f"add i64 {last}, {self.width}"), w.assign(f"sub i64 0, {last}")
        rooms = {name: w.assign(f"alloca [{self.width} x i64], align 64") for name in names}
        moved = {name: w.element(room, back, dtypes[name]) for name, room in rooms.items()}
        w.write("br label %turn")
        w.label("turn")
        w.write(f"%first = phi i64 [%begin, %entry], [{last}, %rest]")
        w.write(f"%stop = phi i64 [{last}, %entry], [{beyond}, %rest]")
        for name in names:
            self.pointers[name] = f"%{name}_now"
            w.write(f"%{name}_now = phi ptr [{given[name]}, %entry], [{moved[name]}, %rest]")
        w.write("br label %head")
        w.label("head")
        w.write("%i = phi i64 [%first, %turn], [%next, %latch]")
        w.write(f"br i1 {w.assign('icmp slt i64 %i, %stop')}, label %body, label %turned")
        w.label("body")
        self._finish(_Place("%i", None, False, {}), [])
        w.write("br label %latch")
        w.label("latch")
        w.write(f"%next = add i64 %i, {self.width}")
        w.write("br label %head")
        w.label("turned")
        mask = self.w.below(left)
        w.write(f"br i1 {w.assign('icmp sgt i64 %stop, %end')}, label %computed, label %whole")
        w.label("whole")
        w.write(f"br i1 {w.assign(f'icmp ne i64 {left}, 0')}, label %rest, label %done")
        w.label("rest")
        for name in names:
            if name.startswith("in"):  # zeros beyond the last element
                w.store(w.load(w.element(given[name], last, dtypes[name]), dtypes[name], mask), rooms[name])
        w.write("br label %turn")
        w.label("computed")
        for name in names:
            if name.startswith("out"):
                x = w.load(rooms[name], dtypes[name])
                w.store(x, w.element(given[name], last, dtypes[name]), mask)
        w.write("br label %done")
        w.label("done")

    def _rows(self) -> None:
        """Write the loop over rows."""
        w = self.w
        w.write("br label %rows_head")
        w.label("rows_head")
        w.write("%row = phi i64 [%begin, %entry], [%row_next, %row_end]")
        w.write(f"br i1 {w.assign('icmp slt i64 %row, %end')}, label %row_body, label %rows_done")
        w.label("row_body")
        self.block = "row_body"
        w.write("%base = mul i64 %row, %columns")
        w.write(f"%chunk = lshr i64 %row, {_SHIFT}")
        w.write("%chunk_base = mul i64 %chunk, %columns")
        self._columns_of(0)
        for stage in range(self.schedule.stages - 1):
            self.stage = stage
            self._reduce(stage)
            self._columns_of(stage + 1)
        self.stage = self.schedule.stages - 1
        self._store_columns()
        if self.schedule.roots(self.schedule.stages - 1):
            self._loop("last", "0", "%columns", self._finish)
        w.write("br label %row_end")
        w.label("row_end")
        w.write("%row_next = add i64 %row, 1")
        w.write("br label %rows_head")
        w.label("rows_done")

    def _columns_of(self, depth: int) -> None:
        """Write the values of extent COLUMN that need as many loops as are done."""
        for k in self.schedule.live:
            if self.steps[k].extent is Extent.COLUMN and self.schedule.depth[k] == depth and k not in self.fixed:
                self.fixed[k] = self._computed(k, _Place("", None, True, {}))

    def _store_columns(self) -> None:
        """Write the stores of outputs that are one number for each row, and the sums of those over rows."""
        w = self.w
        for number, k in enumerate(self.program.outputs):
            pointer = self.pointers[f"out{number}"]
            if self.steps[k].extent is Extent.COLUMN:
                w.store_one(self.fixed[k], w.element(pointer, "%row", self.steps[k].dtype))
            elif self.schedule.over_rows(k) and self.steps[k].extent is Extent.SCALAR:
                at = w.element(pointer, "%chunk", self.steps[k].dtype)
                so_far = w.load_one(at, self.steps[k].dtype)
                w.store_one(w.add(so_far, self.fixed[self.steps[k].args[0]]), at)

    def _reduce(self, stage: int) -> None:
        """Write a loop over the columns that computes the sums and maxima of one depth."""
        w, reductions = self.w, self.schedule.reductions(stage)
        starts = [
            w.constant(0.0 if self.steps[k].op == "sum" else float("-inf"), self.steps[k].dtype) for k in reductions
        ]

        def body(place: _Place, so_far: list[Vector]) -> list[Vector]:
            totals = []
            for k, total, start in zip(reductions, so_far, starts, strict=True):
                x = self._value(self.steps[k].args[0], place)
                if place.mask is not None:
                    x = w.select(Vector(place.mask, "bool"), x, start)
                totals.append(w.add(total, x) if self.steps[k].op == "sum" else w.extreme("maximum", total, x))
            self._keep(place, stage)
            return totals

        totals = self._loop(f"stage{stage}", "0", "%columns", body, starts)
        for k, total in zip(reductions, totals, strict=True):
            self.fixed[k] = w.total(total) if self.steps[k].op == "sum" else w.largest(total)

    def _keep(self, place: _Place, stage: int) -> None:
        """Write the stores of values into the scratch row, in the first loop that computes them."""
        for k in place.known:
            if k in self.schedule.kept and self.schedule.first_stage(k) == stage:
                self.w.store(place.known[k], self._scratch(k, place.index))

    def _scratch(self, k: int, index: str) -> str:
        """Write the address of a kept value at a column."""
        w = self.w
        start = w.assign(f"mul i64 {self.stride}, {self.schedule.kept[k]}")
        row = w.assign(f"getelementptr double, ptr {self.pointers['scratch']}, i64 {start}")
        return w.element(row, index, self.steps[k].dtype)

    def _finish(self, place: _Place, _: list[Vector]) -> list[Vector]:
        """Write the last loop's body: the outputs that have a value for each element, and the sums over rows. All
        values are computed before one is stored, as an output may have the memory of an input."""
        w = self.w
        stores: list[tuple[Vector, str]] = []
        for number, k in enumerate(self.program.outputs):
            pointer, dtype = self.pointers[f"out{number}"], self.steps[k].dtype
            if self.schedule.over_rows(k) and self.steps[k].extent is Extent.ROW:
                x = self._value(self.steps[k].args[0], place)
                at = w.element(pointer, w.assign(f"add i64 %chunk_base, {place.index}"), dtype)
                stores.append((w.add(w.load(at, dtype, place.mask), x), at))
            elif self.steps[k].extent is Extent.FULL:
                x = self._value(k, place)
                stores.append((x, w.element(pointer, self._at(place.index), dtype)))
        for x, at in stores:
            w.store(x, at, place.mask)
        return []

    def _at(self, index: str) -> str:
        """Write the position of a column in the whole array."""
        return index if self.flat else self.w.assign(f"add i64 %base, {index}")

    def _loop(
        self, tag: str, start: str, stop: str, body: Callable[..., list[Vector]], totals: list[Vector] | None = None
    ) -> list[Vector]:
        """Write a loop by vectors, with a masked one at its end; return what ``totals`` became."""
        w, width = self.w, self.width
        totals = totals or []
        whole = w.assign(f"sub i64 {stop}, {start}")
        left = w.assign(f"and i64 {whole}, {width - 1}")
        last = w.assign(f"sub i64 {stop}, {left}")
        before = self.block
        w.write(f"br label %{tag}_head")
        w.label(f"{tag}_head")
        at = len(w.lines)
        w.write(f"br i1 {w.assign(f'icmp slt i64 %{tag}_i, {last}')}, label %{tag}_body, label %{tag}_tail")
        w.label(f"{tag}_body")
        names = [Vector(f"%{tag}_total{k}", total.dtype) for k, total in enumerate(totals)]
        after = body(_Place(f"%{tag}_i", None, False, {}), names)
        w.write(f"br label %{tag}_latch")
        w.label(f"{tag}_latch")
        w.write(f"%{tag}_next = add i64 %{tag}_i, {width}")
        w.write(f"br label %{tag}_head")
        phis = [f"  %{tag}_i = phi i64 [{start}, %{before}], [%{tag}_next, %{tag}_latch]"]
        for name, first, then in zip(names, totals, after, strict=True):
            phis.append(
                f"  {name.text} = phi {w.type(name.dtype)} [{first.text}, %{before}], [{then.text}, %{tag}_latch]"
            )
        w.lines[at:at] = phis
        w.label(f"{tag}_tail")
        w.write(f"br i1 {w.assign(f'icmp ne i64 {left}, 0')}, label %{tag}_rest, label %{tag}_end")
        w.label(f"{tag}_rest")
        ended = body(_Place(last, self.w.below(left), False, {}), names)
        w.write(f"br label %{tag}_rest_end")
        w.label(f"{tag}_rest_end")
        w.write(f"br label %{tag}_end")
        w.label(f"{tag}_end")
        out = []
        for name, then in zip(names, ended, strict=True):
            kind = w.type(name.dtype)
            text = w.assign(f"phi {kind} [{name.text}, %{tag}_tail], [{then.text}, %{tag}_rest_end]")
            out.append(Vector(text, name.dtype))
        self.block = f"{tag}_end"
        return out

    def _value(self, k: int, place: _Place) -> Vector:
        """Return the value of an instruction at a place, which is written if it is not known there."""
        for j in sorted(self._span(k)):  # no recursion, which would be too deep for long programs
            if j not in place.known:
                if j in self.schedule.kept and not place.one and self.schedule.first_stage(j) < self.stage:
                    place.known[j] = self.w.load(self._scratch(j, place.index), self.steps[j].dtype)
                else:
                    place.known[j] = self._computed(j, place)
        return self._operand(k, place)

    def _span(self, k: int) -> set[int]:
        """Return the instructions to compute at a column for one value, those before a kept value left out."""
        instructions: set[int] = set()
        stack = [k]
        while stack:
            j = stack.pop()
            if j not in instructions and self.steps[j].extent.over_columns:
                instructions.add(j)
                if not (j in self.schedule.kept and self.schedule.first_stage(j) < self.stage):
                    stack += self.steps[j].args
        return instructions

    def _operand(self, k: int, place: _Place) -> Vector:
        return self.fixed[k] if k in self.fixed else place.known[k]

    def _computed(self, k: int, place: _Place) -> Vector:
        """Write one instruction, whose arguments are known."""
        w = self.w
        op, args, _, dtype, value = self.steps[k]
        if op == "input":
            return self._input(self.steps[k], place)
        if op == "constant":
            return w.constant(number_in(value, dtype), dtype)
        if op == "length":
            size = "%rows" if value == 0 else "%columns"
            scalar = "float" if dtype == "float32" else "double"
            return w.splat(w.assign(f"sitofp i64 {size} to {scalar}"), dtype)
        if op == "index":
            first = w.splat(place.index, dtype)
            counts = ", ".join(f"i64 {k}" for k in range(self.width))
            return first if place.one else Vector(w.assign(f"add {w.type(dtype)} {first.text}, <{counts}>"), dtype)
        if op == "gather":
            return self._gathered(args, dtype)
        xs = [self._operand(a, place) for a in args]
        if op == "table":
            return in_table(w, xs[0], value)
        if op in FUNCTIONS:
            self.called.add((op, dtype))
        return applied(w, op, xs, dtype)

    def _input(self, step: Instruction, place: _Place) -> Vector:
        w, extent, dtype = self.w, step.extent, step.dtype
        if extent is Extent.SCALAR:
            number = self.pointers[f"number{step.value}"]
            text = number if dtype == "float64" else w.assign(f"fptrunc double {number} to float")
            return w.splat(text, dtype)
        pointer = self.pointers[f"in{step.value}"]
        if extent is Extent.COLUMN:
            return w.load_one(w.element(pointer, "%row", dtype), dtype)
        at = w.element(pointer, self._at(place.index) if extent is Extent.FULL else place.index, dtype)
        return w.load_one(at, dtype) if place.one else w.load(at, dtype, place.mask)

    def _gathered(self, args: tuple[int, ...], dtype: str) -> Vector:
        """Write the value of a full instruction at the one column that an int names; NaN if there is no such column."""
        w, index = self.w, self.fixed[args[1]]
        text = w.first(index)
        if index.dtype == "int32":
            text = w.assign(f"sext i32 {text} to i64")
        exists = w.icmp("ult", text, "%columns")
        text = w.assign(f"select i1 {exists}, i64 {text}, i64 0")  # reads nothing beyond the row
        stage, self.stage = self.stage, 0  # as if nothing were kept: all is computed from the inputs
        x = self._value(args[0], _Place(text, None, True, {}))
        self.stage = stage
        kind, nan = w.type(dtype), w.constant(math.nan, dtype).text
        return Vector(w.assign(f"select i1 {exists}, {kind} {x.text}, {kind} {nan}"), dtype)
