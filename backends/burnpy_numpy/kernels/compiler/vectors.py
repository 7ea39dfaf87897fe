"""Writing LLVM's intermediate representation as text, one instruction at a time, on vectors of one width."""

from __future__ import annotations

import struct
from typing import NamedTuple

from burnpy.backend.dtypes import HALVES, is_upper_half
from burnpy_numpy.kernels.compiler.target import target

_INTEGERS = {"int8": "i8", "uint8": "i8", "int32": "i32", "int64": "i64"}
_BITS = dict.fromkeys(HALVES, "i16")
"""Floats of 16 bits are only loaded, stored and converted, and are ints to LLVM."""
_SCALARS = {"float32": "float", "float64": "double", "bool": "i1", **_INTEGERS, **_BITS}
_SUFFIXES = {"float32": "f32", "float64": "f64", "bool": "i1", **_INTEGERS, **_BITS}
_PAIR_PRODUCTS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
"""LLVM's names of the instruction that adds two products of ints of 16 bits, by the words of a vector on x86."""

INTS = {"float32": "int32", "float64": "int64"}
"""The int dtype as wide as a float dtype, for work on its bits."""


class Vector(NamedTuple):
    """A value of the text: its name or a constant, and the dtype of its elements."""

    text: str
    dtype: str


class Writer:
    """The lines of one function, and what it declares. No instruction has a flag that allows another result than IEEE
    754's. Only the last step of a sum, from one vector to one number, may be ordered as LLVM likes; what it chooses
    depends on nothing but the program and the machine."""

    def __init__(self, width: int, declared: set[str], prefix: str = "v") -> None:
        self.width, self.declared, self.prefix = width, declared, prefix
        self.lines: list[str] = []
        self._count = 0

    def type(self, dtype: str) -> str:
        """Return the text of the type of a vector."""
        return f"<{self.width} x {_SCALARS[dtype]}>"

    def scalar(self, dtype: str) -> str:
        """Return the text of the type of an element."""
        return _SCALARS[dtype]

    def write(self, line: str) -> None:
        """Add a line."""
        self.lines.append(f"  {line}")

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")

    def name(self) -> str:
        """Return a new name."""
        self._count += 1
        return f"%{self.prefix}{self._count}"

    def assign(self, text: str) -> str:
        """Add an instruction that has a result, and return the result's name."""
        name = self.name()
        self.write(f"{name} = {text}")
        return name

    def constant(self, value: float, dtype: str) -> Vector:
        """Return a vector with one number in all elements, rounded to the dtype."""
        return Vector(f"splat ({_SCALARS[dtype]} {literal(value, dtype)})", dtype)

    def splat(self, text: str, dtype: str) -> Vector:
        """Repeat a scalar in all elements."""
        one = self.assign(f"insertelement {self.type(dtype)} poison, {_SCALARS[dtype]} {text}, i32 0")
        kind = self.type(dtype)
        return Vector(
            self.assign(f"shufflevector {kind} {one}, {kind} poison, <{self.width} x i32> zeroinitializer"), dtype
        )

    def first(self, x: Vector) -> str:
        """Return the first element as a scalar."""
        return self.assign(f"extractelement {self.type(x.dtype)} {x.text}, i32 0")

    def binary(self, op: str, x: Vector, y: Vector) -> Vector:
        """Add an instruction of two vectors: fadd, fmul, add, and, …"""
        return Vector(self.assign(f"{op} {self.type(x.dtype)} {x.text}, {y.text}"), x.dtype)

    def add(self, x: Vector, y: Vector) -> Vector:
        """x + y."""
        return self.binary("fadd", x, y)

    def sub(self, x: Vector, y: Vector) -> Vector:
        """x - y."""
        return self.binary("fsub", x, y)

    def mul(self, x: Vector, y: Vector) -> Vector:
        """x · y."""
        return self.binary("fmul", x, y)

    def div(self, x: Vector, y: Vector) -> Vector:
        """x / y."""
        return self.binary("fdiv", x, y)

    def neg(self, x: Vector) -> Vector:
        """-x."""
        return Vector(self.assign(f"fneg {self.type(x.dtype)} {x.text}"), x.dtype)

    def compare(self, how: str, x: Vector, y: Vector) -> Vector:
        """Compare floats: oeq, olt, une, …"""
        return Vector(self.assign(f"fcmp {how} {self.type(x.dtype)} {x.text}, {y.text}"), "bool")

    def icmp(self, how: str, x: str | int, y: str | int) -> str:
        """Compare 64-bit ints: slt, eq, …; returns a bit."""
        return self.assign(f"icmp {how} i64 {x}, {y}")

    def lanes_where(self, how: str, number: str) -> str:
        """Return the mask of the elements whose position compares so with an int, for `load` and `store`."""
        counts = ", ".join(f"i64 {k}" for k in range(self.width))
        return self.assign(f"icmp {how} <{self.width} x i64> <{counts}>, {self.splat(number, 'int64').text}")

    def below(self, count: str) -> str:
        """Return the mask of the elements before a count, none if it is negative."""
        return self.lanes_where("slt", count)

    def select(self, condition: Vector, x: Vector, y: Vector) -> Vector:
        """x where the condition is true, y elsewhere."""
        kind = self.type(x.dtype)
        return Vector(
            self.assign(f"select {self.type('bool')} {condition.text}, {kind} {x.text}, {kind} {y.text}"), x.dtype
        )

    def bits(self, x: Vector, dtype: str) -> Vector:
        """Return the same bits as another dtype."""
        return Vector(self.assign(f"bitcast {self.type(x.dtype)} {x.text} to {self.type(dtype)}"), dtype)

    def convert(self, op: str, x: Vector, dtype: str) -> Vector:
        """Convert: fpext, fptrunc, uitofp, …"""
        return Vector(self.assign(f"{op} {self.type(x.dtype)} {x.text} to {self.type(dtype)}"), dtype)

    def call(self, function: str, *xs: Vector) -> Vector:
        """Call one of LLVM's functions of floats: fma, sqrt, floor, …"""
        kind, full = self.type(xs[0].dtype), f"@llvm.{function}.v{self.width}{_SUFFIXES[xs[0].dtype]}"
        self.declared.add(f"declare {kind} {full}({', '.join([kind] * len(xs))})")
        return Vector(self.assign(f"call {kind} {full}({', '.join(f'{kind} {x.text}' for x in xs)})"), xs[0].dtype)

    def extreme(self, name: str, x: Vector, y: Vector) -> Vector:
        """Return the "maximum" or "minimum": NaN if one is NaN, and y if both are zero, as NumPy's. Most processors
        have it as one instruction but for x that is NaN. LLVM's own functions are six."""
        chosen = self.select(self.compare({"maximum": "ogt", "minimum": "olt"}[name], x, y), x, y)
        return self.select(self.compare("uno", x, x), x, chosen)

    def fma(self, x: Vector, y: Vector, z: Vector) -> Vector:
        """x · y + z, rounded once."""
        return self.call("fma", x, y, z)

    def has_scaling(self) -> bool:
        """Return whether the processor has the instruction of `scaled`, AVX-512's, for vectors of this width."""
        chosen = target()
        return chosen.vector == 64 and chosen.registers >= 32 and self.width >= 4

    def scaled(self, x: Vector, power: Vector) -> Vector:
        """Return x · 2 to the power of whole numbers, rounded once."""
        size, kind, scalar = bytes_of(x.dtype), self.type(x.dtype), self.scalar(x.dtype)
        lanes = min(self.width, 64 // size)
        part, suffix = f"<{lanes} x {scalar}>", _SUFFIXES[x.dtype]
        scales = f"@llvm.x86.avx512.mask.scalef.p{'s' if size == 4 else 'd'}.{8 * lanes * size}"
        mask, rounds = f"i{max(8, lanes)}", lanes * size == 64
        extracts, inserts = (
            f"@llvm.vector.{name}.v{one}{suffix}.v{other}{suffix}"
            for name, one, other in (("extract", lanes, self.width), ("insert", self.width, lanes))
        )
        self.declared |= {
            f"declare {part} {scales}({part}, {part}, {part}, {mask}{', i32' * rounds})",
            f"declare {part} {extracts}({kind}, i64)",
            f"declare {kind} {inserts}({kind}, {part}, i64)",
        }
        out = "poison"
        for first in range(0, self.width, lanes):
            one, other = (self.assign(f"call {part} {extracts}({kind} {y.text}, i64 {first})") for y in (x, power))
            given = f"{part} {one}, {part} {other}, {part} zeroinitializer, {mask} -1{', i32 4' * rounds}"
            scaled = self.assign(f"call {part} {scales}({given})")
            out = self.assign(f"call {kind} {inserts}({kind} {out}, {part} {scaled}, i64 {first})")
        return Vector(out, x.dtype)

    def pair_products(self, x: Vector, y: Vector) -> Vector:
        """Return x₀ · y₀ + x₁ · y₁ of words of two ints of 16 bits each."""
        length, kind = 2 * self.width, self.type("int32")
        halves = [self.assign(f"bitcast {kind} {each.text} to <{length} x i16>") for each in (x, y)]
        if name := _PAIR_PRODUCTS.get(self.width) if target().triple.startswith(("x86_64", "amd64")) else None:
            self.declared.add(f"declare {kind} @llvm.x86.{name}(<{length} x i16>, <{length} x i16>)")
            given = ", ".join(f"<{length} x i16> {half}" for half in halves)
            return Vector(self.assign(f"call {kind} @llvm.x86.{name}({given})"), "int32")
        left, right = (self.assign(f"sext <{length} x i16> {half} to <{length} x i32>") for half in halves)
        both, parts = self.assign(f"mul <{length} x i32> {left}, {right}"), list[Vector]()
        for first in range(2):
            order = ", ".join(f"i32 {k}" for k in range(first, length, 2))
            chosen = f"<{length} x i32> {both}, <{length} x i32> poison, <{self.width} x i32> <{order}>"
            parts.append(Vector(self.assign(f"shufflevector {chosen}"), "int32"))
        return self.binary("add", *parts)

    def polynomial(self, x: Vector, coefficients: tuple[float, ...]) -> Vector:
        """Return a polynomial by Horner's scheme; the coefficient of the highest power is first."""
        total = self.constant(coefficients[0], x.dtype)
        for c in coefficients[1:]:
            total = self.fma(total, x, self.constant(c, x.dtype))
        return total

    def load(self, pointer: str, dtype: str, mask: str | None = None) -> Vector:
        """Load a vector; elements that a mask excludes are not read, and are 0."""
        stored, size = ("i8", 1) if dtype == "bool" else (_SCALARS[dtype], bytes_of(dtype))
        kind = f"<{self.width} x {stored}>"
        if mask is None:
            text = self.assign(f"load {kind}, ptr {pointer}, align {size}")
        else:
            suffix = f"v{self.width}{'i8' if dtype == 'bool' else _SUFFIXES[dtype]}"
            full, masks = f"@llvm.masked.load.{suffix}.p0", self.type("bool")
            self.declared.add(f"declare {kind} {full}(ptr, i32, {masks}, {kind})")
            text = self.assign(f"call {kind} {full}(ptr {pointer}, i32 {size}, {masks} {mask}, {kind} zeroinitializer)")
        if dtype == "bool":
            text = self.assign(f"icmp ne {kind} {text}, zeroinitializer")
        return Vector(text, dtype)

    def from_half(self, x: Vector) -> Vector:
        """Convert floats of 16 bits to float32, exactly."""
        if is_upper_half(x.dtype):
            wide = self.convert("zext", x, "int32")
            return self.bits(self.binary("shl", wide, self.constant(16, "int32")), "float32")
        halves = self.assign(f"bitcast {self.type(x.dtype)} {x.text} to <{self.width} x half>")
        return Vector(self.assign(f"fpext <{self.width} x half> {halves} to {self.type('float32')}"), "float32")

    def to_half(self, x: Vector, dtype: str) -> Vector:
        """Round float32 to the nearest floats of 16 bits, ties to even."""
        if not is_upper_half(dtype):
            halves = self.assign(f"fptrunc {self.type(x.dtype)} {x.text} to <{self.width} x half>")
            return Vector(self.assign(f"bitcast <{self.width} x half> {halves} to {self.type(dtype)}"), dtype)
        bits, one, high = self.bits(x, "int32"), self.constant(1, "int32"), self.constant(16, "int32")
        odd = self.binary("and", self.binary("lshr", bits, high), one)
        nearest = self.binary("add", bits, self.binary("add", odd, self.constant(0x7FFF, "int32")))
        quiet = self.binary("or", bits, self.constant(1 << 22, "int32"))
        chosen = self.select(self.compare("uno", x, x), quiet, nearest)
        return self.convert("trunc", self.binary("lshr", chosen, high), dtype)

    def to_odd(self, x: Vector) -> Vector:
        """Round float64 to float32 so that rounding the result to 16 bits gives what rounding x once would give. Of the
        two float32 numbers around x this is the one whose last bit is 1, which is between the same two floats of 16
        bits as x is."""
        near = self.convert("fptrunc", x, "float32")
        again = self.convert("fpext", near, "float64")
        bits, one = self.bits(near, "int32"), self.constant(1, "int32")
        beyond = self.compare("ogt", self.call("fabs", again), self.call("fabs", x))
        toward_zero = self.select(beyond, self.binary("sub", bits, one), bits)
        odd = self.binary("or", toward_zero, one)
        return self.bits(self.select(self.compare("one", again, x), odd, bits), "float32")

    def load_one(self, pointer: str, dtype: str) -> Vector:
        """Load one element and repeat it in all elements."""
        stored, size = ("i8", 1) if dtype == "bool" else (_SCALARS[dtype], bytes_of(dtype))
        text = self.assign(f"load {stored}, ptr {pointer}, align {size}")
        if dtype == "bool":
            text = self.assign(f"icmp ne i8 {text}, 0")
        return self.splat(text, dtype)

    def store(self, x: Vector, pointer: str, mask: str | None = None) -> None:
        """Store a vector, but for the elements that a mask excludes."""
        text, kind, suffix, size = x.text, self.type(x.dtype), _SUFFIXES[x.dtype], bytes_of(x.dtype)
        if x.dtype == "bool":
            text, kind, suffix = self.assign(f"zext {kind} {text} to <{self.width} x i8>"), f"<{self.width} x i8>", "i8"
        if mask is None:
            self.write(f"store {kind} {text}, ptr {pointer}, align {size}")
            return
        full, masks = f"@llvm.masked.store.v{self.width}{suffix}.p0", self.type("bool")
        self.declared.add(f"declare void {full}({kind}, ptr, i32, {masks})")
        self.write(f"call void {full}({kind} {text}, ptr {pointer}, i32 {size}, {masks} {mask})")

    def store_one(self, x: Vector, pointer: str) -> None:
        """Store the first element."""
        text, kind = self.first(x), _SCALARS[x.dtype]
        if x.dtype == "bool":
            text, kind = self.assign(f"zext i1 {text} to i8"), "i8"
        self.write(f"store {kind} {text}, ptr {pointer}, align {bytes_of(x.dtype)}")

    def total(self, x: Vector) -> Vector:
        """Return the sum of the elements, repeated in all elements."""
        return self._combined("fadd", -0.0, x)

    def product(self, x: Vector) -> Vector:
        """Return the product of the elements, repeated in all elements."""
        return self._combined("fmul", 1.0, x)

    def _combined(self, op: str, start: float, x: Vector) -> Vector:
        scalar, full = _SCALARS[x.dtype], f"@llvm.vector.reduce.{op}.v{self.width}{_SUFFIXES[x.dtype]}"
        self.declared.add(f"declare {scalar} {full}({scalar}, {self.type(x.dtype)})")
        first = literal(start, x.dtype)
        return self.splat(
            self.assign(f"call reassoc {scalar} {full}({scalar} {first}, {self.type(x.dtype)} {x.text})"), x.dtype
        )

    def largest(self, x: Vector) -> Vector:
        """Return the maximum of the elements, NaN if one is NaN, repeated in all elements.

        The instruction may assume that there is no NaN, which is looked for apart: it takes half of the time.
        """
        scalar, kind, bits = _SCALARS[x.dtype], self.type(x.dtype), self.type("bool")
        full, some = (
            f"@llvm.vector.reduce.fmax.v{self.width}{_SUFFIXES[x.dtype]}",
            f"@llvm.vector.reduce.or.v{self.width}i1",
        )
        self.declared |= {f"declare {scalar} {full}({kind})", f"declare i1 {some}({bits})"}
        undefined = self.assign(f"call i1 {some}({bits} {self.compare('uno', x, x).text})")
        most = self.assign(f"call nnan {scalar} {full}({kind} {x.text})")
        nan = literal(float("nan"), x.dtype)
        return self.splat(self.assign(f"select i1 {undefined}, {scalar} {nan}, {scalar} {most}"), x.dtype)

    def prefetch(self, pointer: str, level: int = 1) -> None:
        """Have the processor load a cache line into a cache soon; the address may lie outside of all arrays."""
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.write(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 {4 - level}, i32 1)")

    def pointer(self, array: str, index: str | int) -> str:
        """Load one of an array of addresses."""
        return self.assign(f"load ptr, ptr {self.assign(f'getelementptr ptr, ptr {array}, i64 {index}')}")

    def field(self, base: str, offset: int, kind: str) -> str:
        """Load a value at an offset in bytes."""
        return self.assign(f"load {kind}, ptr {self.assign(f'getelementptr i8, ptr {base}, i64 {offset}')}")

    def load_at(self, array: str, index: str | int, dtype: str) -> Vector:
        """Load a vector that begins at an element of an array."""
        return self.load(self.element(array, index, dtype), dtype)

    def load_one_at(self, array: str, index: str | int, dtype: str) -> Vector:
        """Load one element of an array and repeat it in all elements."""
        return self.load_one(self.element(array, index, dtype), dtype)

    def store_at(self, x: Vector, array: str, index: str | int) -> None:
        """Store a vector that begins at an element of an array."""
        self.store(x, self.element(array, index, x.dtype))

    def element(self, pointer: str, index: str | int, dtype: str) -> str:
        """Return the address of an element."""
        stored = "i8" if dtype == "bool" else _SCALARS[dtype]
        return self.assign(f"getelementptr {stored}, ptr {pointer}, i64 {index}")


def literal(value: float, dtype: str) -> str:
    """Return a number as LLVM writes it, rounded to the dtype: floats as the bits of a double, exactly.

    >>> literal(0.1, "float32")
    '0x3FB99999A0000000'
    """
    if dtype == "bool":
        return "true" if value else "false"
    if dtype.startswith("int"):
        return str(int(value))
    if dtype == "float32":
        value = rounded(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def rounded(value: float) -> float:
    """Return a number rounded to float32; infinity above its range."""
    try:
        result: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return result


def bits_of(value: float, dtype: str) -> int:
    """Return the bits of a float as an int."""
    form = ("<f", "<i") if dtype == "float32" else ("<d", "<q")
    result: int = struct.unpack(form[1], struct.pack(form[0], value))[0]
    return result


def bytes_of(dtype: str) -> int:
    """Return the size of an element in memory."""
    return 2 if dtype in HALVES else {"float64": 8, "int64": 8, "float32": 4, "int32": 4}.get(dtype, 1)
