"""`Loops`: a `Writer` for kernels that are no programs: counted loops, and variables that loops change."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self, SupportsIndex

from burnpy.backend.programs import Program
from burnpy_numpy.kernels.compiler.instructions import FUNCTIONS, applied, definition, in_table, number_in
from burnpy_numpy.kernels.compiler.vectors import Vector, Writer, bytes_of

WORDS = 4
"""The number of neighbouring words of each lane that `Loops.neighbouring_words` loads."""


_NAMES = re.compile(r"%\w+")
_REPEATABLE = re.compile(
    r"(add|sub|mul|and|or|xor|shl|lshr|ashr|icmp|select|getelementptr|insertelement|shufflevector|zext|sext|trunc) "
    r"|[su](div|rem) .*, [1-9]\d*$"
)
"""The instructions whose result depends on their operands alone, and which never fail."""


class Int(str):
    """A 64-bit int of a kernel, by the name of its value: arithmetic with it writes an instruction.

    The other operand is one, or a number.
    """

    __slots__ = ("_w",)
    _w: Loops

    def __new__(cls, name: str, w: Loops) -> Self:
        """Make an int of a name or a number, whose instructions are written to ``w``."""
        made = super().__new__(cls, name)
        made._w = w
        return made

    def _written(self, instruction: str, x: str | SupportsIndex, y: str | SupportsIndex) -> Int:
        return Int(self._w.assign(f"{instruction} i64 {x}, {y}"), self._w)

    def __add__(self, other: str | int) -> Int:
        """Add."""
        return self._written("add", self, other)

    def __radd__(self, other: str | int) -> Int:
        """Add."""
        return self._written("add", other, self)

    def __sub__(self, other: str | int) -> Int:
        """Subtract."""
        return self + -other if isinstance(other, int) else self._written("sub", self, other)

    def __rsub__(self, other: str | int) -> Int:
        """Subtract from another."""
        return self._written("sub", other, self)

    def __mul__(self, other: str | SupportsIndex) -> Int:
        """Multiply."""
        return self._written("mul", self, other)

    def __rmul__(self, other: str | SupportsIndex) -> Int:
        """Multiply."""
        return self._written("mul", other, self)

    def __floordiv__(self, other: str | int) -> Int:
        """Divide; neither may be negative."""
        return self._written("sdiv", self, other)

    def __mod__(self, other: str | int) -> Int:
        """Return the remainder; neither may be negative."""
        return self._written("srem", self, other)

    def __and__(self, other: str | int) -> Int:
        """Return the bits that both have."""
        return self._written("and", self, other)

    def __divmod__(self, other: str | int) -> tuple[Int, Int]:
        """Return quotient and remainder."""
        quotient = self // other
        return quotient, self - quotient * other


@dataclass
class _Block:
    """An open loop or branch."""

    loops: bool  #: whether it is a loop
    start: int  #: the position of the first of its lines
    known: dict[str, str] = field(default_factory=dict)  #: the results of its own instructions, by their text


class Loops(Writer):
    """The lines of a kernel ``kernel(table, sizes, begin, end)`` with loops.

    Variables are written as memory of the stack, which LLVM's optimization moves to registers. An instruction that a
    loop would repeat for the same operands is written before the loop, and no instruction is written twice where one
    result serves both. So LLVM has less to read, and needs no passes that look for them.

    Args:
        width: the number of elements of a vector.
        table: the number of addresses in the kernel's table.
        sizes: the number of 64-bit ints in its sizes.
    """

    def __init__(self, width: int, table: int, sizes: int) -> None:
        super().__init__(width, set())
        self._variables: list[str] = []
        self._blocks = [_Block(False, 0)]
        self._depths: dict[str, int] = {}  # for each result, the number of the open block that has it
        self._called: set[tuple[str, str]] = set()
        self._loops = 0
        self.table = [self._argument("ptr", "%table", k) for k in range(table)]
        self.sizes = [self.int_of(self._argument("i64", "%sizes", k)) for k in range(sizes)]
        self.begin, self.end = self.arguments("begin end")

    def assign(self, text: str) -> str:
        """Add an instruction that has a result, unless its result is known, and return the result's name."""
        blocks, depth = self._blocks, len(self._blocks) - 1
        repeatable = _REPEATABLE.match(text) is not None
        if repeatable:
            least = max([self._depths.get(name, 0) for name in _NAMES.findall(text)], default=0)
            for block in blocks[least:]:
                if text in block.known:
                    return block.known[text]
            while depth > least and blocks[depth].loops:
                depth -= 1
        name = self.name()
        self.write(f"{name} = {text}")
        if inside := blocks[depth + 1 :]:  # loops that it is written before
            self.lines.insert(inside[0].start, self.lines.pop())
            for block in inside:
                block.start += 1
        self._depths[name] = depth
        if repeatable:
            blocks[depth].known[text] = name
        return name

    def _argument(self, kind: str, source: str, position: int) -> str:
        at = self.assign(f"getelementptr i64, ptr {source}, i64 {position}")
        return self.assign(f"load {kind}, ptr {at}, align 8")

    def function(self, *others: str) -> str:
        """Return the text of the module, with the texts of other functions. Nothing can be added after it."""
        kernel = self.body("void @kernel(ptr %table, ptr %sizes, i64 %begin, i64 %end)")
        functions = [definition(name, dtype, self.width, self.declared) for name, dtype in sorted(self._called)]
        return "\n".join([*sorted(self.declared), *functions, *others, kernel])

    def body(self, head: str) -> str:
        """Return the text of the function alone, with a head such as ``void @name(i64 %count)``."""
        return "\n".join([f"define {head} {{", "entry:", *self._variables, *self.lines, "  ret void", "}", ""])

    def variable(self, start: Vector) -> str:
        """Return the address of a new variable that is set to a vector, for `get` and `set`."""
        name = self.name()
        self._variables.append(f"  {name} = alloca {self.type(start.dtype)}")
        self.set(name, start)
        return name

    def stack_memory(self, count: int, dtype: str) -> str:
        """Return the address of memory on the stack for this many elements of a dtype."""
        name = self.name()
        self._variables.append(f"  {name} = alloca [{count} x {self.scalar(dtype)}], align 64")
        return name

    def get(self, variable: str, dtype: str) -> Vector:
        """Return the value of a variable."""
        return Vector(self.assign(f"load {self.type(dtype)}, ptr {variable}"), dtype)

    def set(self, variable: str, x: Vector) -> None:
        """Change a variable."""
        self.write(f"store {self.type(x.dtype)} {x.text}, ptr {variable}")

    def count(self, start: str | int) -> str:
        """Return the address of a new 64-bit int that is set to ``start``, for `number` and `set_number`."""
        name = self.name()
        self._variables.append(f"  {name} = alloca i64")
        self.set_number(name, start)
        return name

    def set_number(self, pointer: str, x: str | int) -> None:
        """Store a 64-bit int."""
        self.write(f"store i64 {x}, ptr {pointer}")

    def number(self, pointer: str, index: str | int) -> Int:
        """Load one of an array of 64-bit ints."""
        return self.int_of(self.assign(f"load i64, ptr {self.element(pointer, index, 'int64')}, align 8"))

    def arguments(self, names: str) -> list[Int]:
        """Return 64-bit ints that the function takes, by their names, as in ``rows depth``."""
        return [self.int_of(f"%{name}") for name in names.split()]

    def int_of(self, x: str | int) -> Int:
        """Return the 64-bit int of a name or a number."""
        return Int(str(x), self)

    def ceil_div(self, x: Int, y: Int | int) -> Int:
        """Divide 64-bit ints, rounded up."""
        return (x + (y - 1)) // y

    def both(self, x: str, y: str) -> str:
        """Return whether two bits are set."""
        return self.assign(f"and i1 {x}, {y}")

    def any(self, x: str, y: str) -> str:
        """Return whether one of two bits is set."""
        return self.assign(f"or i1 {x}, {y}")

    def either(self, condition: str, x: str, y: str, kind: str = "ptr") -> str:
        """Return one of two addresses, or of two values of another kind, by a bit."""
        return self.assign(f"select i1 {condition}, {kind} {x}, {kind} {y}")

    def chosen(self, condition: str, x: Int | int, y: Int | int) -> Int:
        """Return one of two 64-bit ints, by a bit."""
        return self.int_of(self.assign(f"select i1 {condition}, i64 {x}, i64 {y}"))

    def smaller(self, x: Int | int, y: Int | int) -> Int:
        """Return the smaller of two 64-bit ints."""
        return self.chosen(self.icmp("slt", x, y), x, y)

    def larger(self, x: Int | int, y: Int | int) -> Int:
        """Return the larger of two 64-bit ints."""
        return self.chosen(self.icmp("slt", x, y), y, x)

    def program(self, program: Program, xs: list[Vector]) -> list[Vector]:
        """Write an elementwise program without numbers, and return its outputs."""
        values: list[Vector] = []
        for op, args, _, dtype, value in program.instructions:
            if op == "input":
                values.append(xs[int(str(value))])
            elif op == "constant":
                values.append(self.constant(number_in(value, dtype), dtype))
            elif op == "table":
                values.append(in_table(self, values[args[0]], value))
            elif op in FUNCTIONS:
                values.append(self.function_of(op, values[args[0]]))
            else:
                values.append(applied(self, op, [values[a] for a in args], dtype))
        return [values[k] for k in program.outputs]

    def function_of(self, name: str, x: Vector) -> Vector:
        """Call one of `FUNCTIONS`."""
        self._called.add((name, x.dtype))
        return applied(self, name, [x], x.dtype)

    @contextmanager
    def of_width(self, width: int) -> Generator[None]:
        """Write what is written meanwhile for vectors of another width."""
        self.width, before = width, self.width
        yield
        self.width = before

    def lanes(self, pointer: str, places: Sequence[str], dtype: str) -> list[str]:
        """Return the addresses of places in an array: one of a vector, or one for each element."""
        return [self.element(pointer, place, dtype) for place in places]

    def load_lanes(self, lanes: list[str], index: str | int, dtype: str) -> Vector:
        """Load a vector that lies together at one address, or apart at one for each element."""
        at = [self.element(lane, index, dtype) for lane in lanes]
        if len(at) == 1:
            return self.load(at[0], dtype)
        kind, scalar, text = self.type(dtype), self.scalar(dtype), "poison"
        for k, place in enumerate(at):
            one = self.assign(f"load {scalar}, ptr {place}")
            text = self.assign(f"insertelement {kind} {text}, {scalar} {one}, i32 {k}")
        return Vector(text, dtype)

    def store_lanes(self, x: Vector, lanes: list[str], index: str | int) -> None:
        """Store a vector as `load_lanes` loads one."""
        at = [self.element(lane, index, x.dtype) for lane in lanes]
        if len(at) == 1:
            self.store(x, at[0])
            return
        kind, scalar = self.type(x.dtype), self.scalar(x.dtype)
        for k, place in enumerate(at):
            one = self.assign(f"extractelement {kind} {x.text}, i32 {k}")
            self.write(f"store {scalar} {one}, ptr {place}")

    def load_tile(self, lanes: list[str], index: str, dtype: str) -> list[Vector]:
        """Load as many neighbours at each address as there are addresses: the first of each as a vector, and so on."""
        return self.transposed([self.load_at(lane, index, dtype) for lane in lanes])

    def store_tile(self, xs: list[Vector], lanes: list[str], index: str) -> None:
        """Store vectors as `load_tile` loads them."""
        for x, lane in zip(self.transposed(xs), lanes, strict=True):
            self.store_at(x, lane, index)

    def transposed(self, xs: Sequence[Vector]) -> list[Vector]:
        """Return the elements of vectors as a matrix, transposed, in as many vectors: a power of 2, up to the width. A
        square is transposed within parts of 16 bytes, and then by these parts: processors have instructions for both,
        which LLVM finds sooner than those for elements that move farther."""
        rows, width = [*xs], self.width
        if len(rows) < width:
            for _ in range(len(rows).bit_length() - 1):  # moves the second half of the rows between those of the first
                pairs = zip(rows[: len(rows) // 2], rows[len(rows) // 2 :], strict=True)
                rows = [merged for x, y in pairs for merged in (self.merged(x, y, 0), self.merged(x, y, width // 2))]
            return rows
        part = min(width, 16 // bytes_of(xs[0].dtype))
        turns = [k // part * part + k % part // 2 + k % 2 * width for k in range(width)]
        first = [2 * k - k % part for k in range(width)]
        distances = [1 << k for k in range(width.bit_length() - 1)]
        for distance in [d for d in reversed(distances) if d < part] + [d for d in distances if d >= part]:
            places, step = (turns, part // 2) if distance < part else (first, part)
            for k in range(width):
                if not k & distance:
                    x, y = rows[k], rows[k + distance]
                    rows[k] = self.shuffled(x, y, places)
                    rows[k + distance] = self.shuffled(x, y, [place + step for place in places])
        return rows

    def merged(self, x: Vector, y: Vector, start: int) -> Vector:
        """Return the elements of two vectors from ``start`` on, in turns."""
        return self.shuffled(x, y, [start + k // 2 + k % 2 * self.width for k in range(self.width)])

    def shuffled(self, x: Vector, y: Vector, places: Iterable[int]) -> Vector:
        """Return elements of two vectors, one after the other, by their places: as many as there are of these."""
        kind, chosen = self.type(x.dtype), [f"i32 {place}" for place in places]
        text = f"shufflevector {kind} {x.text}, {kind} {y.text}, <{len(chosen)} x i32> <{', '.join(chosen)}>"
        return Vector(self.assign(text), x.dtype)

    def picked(self, xs: Sequence[Vector], places: Sequence[tuple[int, int]]) -> Vector:
        """Return elements of vectors, one after the other, each by its vector and its place in it."""
        out, sources = None, sorted({source for source, _ in places})
        for pair in (sources[k : k + 2] for k in range(0, len(sources), 2)):
            chosen = [place + (source == pair[-1]) * self.width for source, place in places]
            both = self.shuffled(xs[pair[0]], xs[pair[-1]], chosen)
            mine = [k + (source in pair) * self.width for k, (source, _) in enumerate(places)]
            out = both if out is None else self.shuffled(out, both, mine)
        assert out is not None
        return out

    def neighbouring_words(self, lanes: list[str]) -> list[Vector]:
        """Load neighbouring words at each address: the first of each as a vector, and so on."""
        kind = f"<{WORDS} x i32>"
        rows = [self.assign(f"load {kind}, ptr {lane}, align 1") for lane in lanes]
        if len(rows) < WORDS:
            both = f"shufflevector {kind} {rows[0]}, {kind} {rows[1]}, <2 x i32>"
            return [Vector(self.assign(f"{both} <i32 {k}, i32 {k + WORDS}>"), "int32") for k in range(WORDS)]
        while len(rows) > WORDS:  # rows whose numbers differ by 4 into one vector
            length = WORDS * len(lanes) // len(rows)
            kind, all_of = f"<{length} x i32>", ", ".join(f"i32 {k}" for k in range(2 * length))
            rows = [
                self.assign(
                    f"shufflevector {kind} {rows[k]}, {kind} {rows[k + WORDS]}, <{2 * length} x i32> <{all_of}>"
                )
                for k in range(len(rows))
                if k // WORDS % 2 == 0
            ]
        a, b, c, d = [Vector(row, "int32") for row in rows]
        even = [self._turns(a, c, 0), self._turns(b, d, 0)], [self._turns(a, c, 2), self._turns(b, d, 2)]
        return [self._turns(x, y, start) for x, y in even for start in (0, 2)]

    def one_by_one(self, lanes: list[str], size: int) -> Vector:
        """Load units of this many bytes, each as the lowest bits of a word."""
        kind, text = self.type("int32"), "poison"
        for k, lane in enumerate(lanes):
            one = self.assign(f"load i{8 * size}, ptr {lane}, align 1")
            word = self.assign(f"zext i{8 * size} {one} to i32")
            text = self.assign(f"insertelement {kind} {text}, i32 {word}, i32 {k}")
        return Vector(text, "int32")

    def _turns(self, x: Vector, y: Vector, start: int) -> Vector:
        """Return two elements of each four of two vectors, from ``start`` on, in turns."""
        places = [
            first + start + k // 2 + k % 2 * self.width for first in range(0, self.width, WORDS) for k in range(WORDS)
        ]
        order, kind = ", ".join(f"i32 {place}" for place in places), self.type(x.dtype)
        text = f"shufflevector {kind} {x.text}, {kind} {y.text}, <{self.width} x i32> <{order}>"
        return Vector(self.assign(text), x.dtype)

    @contextmanager
    def loop(self, start: str | int, stop: str | int) -> Generator[Int]:
        """Write a loop around what is written meanwhile; gives its counter, from ``start`` to before ``stop``."""
        self._loops += 1
        tag = f"loop{self._loops}"
        counter = f"%{tag}_at"
        self._variables.append(f"  {counter} = alloca i64")
        self._blocks.append(_Block(True, len(self.lines)))
        self.write(f"store i64 {start}, ptr {counter}")
        self.write(f"br label %{tag}_head")
        self.label(f"{tag}_head")
        now = self.int_of(self.assign(f"load i64, ptr {counter}"))
        self.write(f"br i1 {self.assign(f'icmp slt i64 {now}, {stop}')}, label %{tag}_body, label %{tag}_end")
        self.label(f"{tag}_body")
        yield now
        self.write(f"store i64 {now + 1}, ptr {counter}")
        self.write(f"br label %{tag}_head")
        self._blocks.pop()
        self.label(f"{tag}_end")

    @contextmanager
    def when(self, comparison: str) -> Generator[None]:
        """Execute what is written meanwhile if ints compare, as in ``eq i64 %x, 0``."""
        self._loops += 1
        tag = f"when{self._loops}"
        self.write(f"br i1 {self.assign(f'icmp {comparison}')}, label %{tag}_body, label %{tag}_end")
        self.label(f"{tag}_body")
        self._blocks.append(_Block(False, len(self.lines)))
        yield
        self._blocks.pop()
        self.write(f"br label %{tag}_end")
        self.label(f"{tag}_end")

    @contextmanager
    def inside(self, position: int, count: str | None) -> Generator[None]:
        """Execute what is written meanwhile if a position is below a count; always if that is None."""
        if count is None:
            yield
            return
        with self.when(f"slt i64 {position}, {count}"):
            yield

    def in_two_ways(self, body: Callable[[bool], None], within: list[tuple[str, str]]) -> None:
        """Write a body for what lies within bounds, each a place and its end, and one with masks for what may not."""
        inside = "true"
        for beyond, end in within:
            inside = self.both(inside, self.icmp("sle", beyond, end))
        for masked in (False, True):
            with self.when(f"{'eq' if masked else 'ne'} i1 {inside}, 0"):
                body(masked)
