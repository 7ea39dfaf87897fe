"""The elementwise instructions of programs on vectors: arithmetic and roots rounded as IEEE 754 says, and functions.

Functions of quantized numbers are tables: see `tabulated`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from burnpy.backend.dtypes import HALVES
from burnpy.backend.programs import Extent, Input, Instruction, Program, ProgramError
from burnpy.backend.programs.program import ELEMENTWISE
from burnpy_numpy.kernels.compiler import vector_functions, vector_trigonometry
from burnpy_numpy.kernels.compiler.vectors import Vector, Writer, literal

FUNCTIONS: dict[str, Callable[[Writer, Vector], Vector]] = {
    "exp": vector_functions.exp,
    "expm1": vector_functions.expm1,
    "log": vector_functions.log,
    "log1p": vector_functions.log1p,
    "sinh": vector_functions.sinh,
    "cosh": vector_functions.cosh,
    "tanh": vector_functions.tanh,
    "sigmoid": vector_functions.sigmoid,
    "erf": vector_functions.erf,
    "erfc": vector_functions.erfc,
    "erfinv": vector_functions.erfinv,
    "sin": vector_trigonometry.sin,
    "cos": vector_trigonometry.cos,
    "tan": vector_trigonometry.tan,
    "asin": vector_trigonometry.asin,
    "acos": vector_trigonometry.acos,
    "atan": vector_trigonometry.atan,
}
"""The functions by the name of their operation."""


def definition(name: str, dtype: str, width: int, declared: set[str]) -> str:
    """Return a function of one vector as text, which programs call by the name ``@exp_float32``."""
    w = Writer(width, declared)
    out = FUNCTIONS[name](w, Vector("%x", dtype))
    kind = w.type(dtype)
    head = f"define internal {kind} @{name}_{dtype}({kind} %x) alwaysinline {{\nentry:"
    return "\n".join([head, *w.lines, f"  ret {kind} {out.text}", "}"])


_COMPARISONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_LOGIC = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_CALLS = {"abs": "fabs", "floor": "floor", "ceil": "ceil", "round": "roundeven", "sqrt": "sqrt"}


def applied(w: Writer, op: str, xs: list[Vector], dtype: str) -> Vector:
    """Write an elementwise instruction of arguments ``xs``, whose result has a dtype.

    Raises:
        ProgramError: there is no such instruction.
    """
    x = xs[0]
    if op in _ARITHMETIC:
        return w.binary(_ARITHMETIC[op] if dtype.startswith("float") else op, x, xs[1])
    if op in _LOGIC:
        return w.binary(_LOGIC[op], x, xs[1])
    if op in _COMPARISONS:
        return _compared(w, op, x, xs[1])
    if op in _CALLS:
        return w.call(_CALLS[op], *xs)
    if op in ("maximum", "minimum"):
        return w.extreme(op, x, xs[1])
    if op in FUNCTIONS:
        kind = w.type(dtype)
        return Vector(w.assign(f"call {kind} @{op}_{dtype}({kind} {x.text})"), dtype)
    if op == "where":
        return w.select(x, xs[1], xs[2])
    if op == "neg":
        return w.neg(x)
    if op == "bitwise_not":
        return w.binary("xor", x, w.constant(1, "bool"))
    if op == "expand":
        return x
    if op == "sign":
        zero, one = w.constant(0.0, dtype), w.constant(1.0, dtype)
        y = w.select(w.compare("olt", x, zero), w.constant(-1.0, dtype), zero)
        y = w.select(w.compare("ogt", x, zero), one, y)
        return w.select(w.compare("uno", x, x), x, y)
    if op == "cast":
        return _cast(w, x, dtype)
    raise ProgramError(f"kernels do not compute {op} of {dtype}")


def number_in(value: int | str | None, dtype: str) -> float:
    """Return the number of a constant."""
    return float.fromhex(str(value)) if dtype.startswith("float") else int(str(value))


_LEVELS = 256
"""The most numbers that the argument of a table has."""
_SLOWNESS = {**dict.fromkeys(FUNCTIONS, 2), "div": 1, "sqrt": 1}
"""How long instructions take: 1 is half of the time in which a table is read."""


class _Range(NamedTuple):
    """The bounds of a value that is a whole number or NaN."""

    low: float = -math.inf
    high: float = math.inf
    signed: bool = False  #: whether it may be -0.0, which is none of a table's numbers


def tabulated(program: Program, run: Callable[[Program, Sequence[float]], Sequence[float]]) -> Program:
    """Return a program whose functions of quantized numbers are tables; the program itself if it has none.

    What depends on a number of at most 8 bits, and on constants, has a value for each of these numbers. The ``value``
    of a ``table`` is the first number, the values from there on, and what NaN becomes.

    Args:
        program: the program.
        run: a function that computes a program of one float32 array for some numbers.
    """
    steps = program.instructions
    ranges: dict[int, _Range] = {}
    sources: dict[int, int] = {}
    slowness: dict[int, int] = {}
    for k, step in enumerate(steps):
        if step.dtype.startswith("float") and (known := _range(steps, k, ranges)) is not None:
            ranges[k] = known
        given = {sources.get(a, -1): a for a in step.args if steps[a].op != "constant"}
        if len(given) == 1 and -1 not in given and (step.op == "cast" or step.op in ELEMENTWISE):
            sources[k] = next(iter(given))
            slowness[k] = _SLOWNESS.get(step.op, 0) + max(slowness.get(a, 0) for a in step.args)
        elif k in ranges and step.extent is Extent.FULL and step.dtype == "float32":
            low, high, signed = ranges[k]
            if high - low < _LEVELS and not signed:
                sources[k] = k
    needed, tables = set(program.outputs), dict[int, int]()
    for k in reversed(range(len(steps))):
        if k in needed and slowness.get(k, 0) > 1 and steps[k].dtype == "float32":
            tables[k] = sources[k]
            needed.add(sources[k])
        elif k in needed:
            needed.update(steps[k].args)
    if not tables:
        return program
    made: list[Instruction] = []
    places: dict[int, int] = {}
    for k in sorted(needed):
        step = steps[k]
        if (source := tables.get(k)) is not None:
            low, high, _ = ranges[source]
            values = run(_from(steps, source, k), [*map(float, range(int(low), int(high) + 1)), math.nan])
            text = " ".join([str(int(low)), *map(float.hex, values)])
            step = Instruction("table", (source,), step.extent, step.dtype, text)
        places[k] = len(made)
        made.append(step._replace(args=tuple([places[a] for a in step.args])))
    return Program(program.name, program.inputs, tuple(made), tuple([places[k] for k in program.outputs]))


_BOUNDS = {"uint8": (0.0, 255.0), "int8": (-128.0, 127.0), "int32": (-math.inf, math.inf)}


def _range(steps: Sequence[Instruction], k: int, ranges: dict[int, _Range]) -> _Range | None:
    """Return the bounds of a float, given those of earlier ones by instruction; None if it may be no whole number."""
    op, args, _, dtype, value = steps[k]
    if op == "round":
        return _Range(signed=True)
    if op == "cast":
        bounds = _BOUNDS.get(steps[args[0]].dtype)
        return None if bounds is None else _Range(*bounds)
    if op == "constant":
        number = number_in(value, dtype)
        return _Range(number, number, math.copysign(1.0, number) < 0 == number) if number % 1.0 == 0 else None
    if op not in ("add", "sub", "maximum", "minimum") or not ranges.keys() >= {*args}:
        return None
    x, y = (ranges[a] for a in args)
    if op == "add":
        return _Range(x.low + y.low, x.high + y.high, x.signed and y.signed)
    if op == "sub":
        return _Range(x.low - y.high, x.high - y.low, x.signed)
    chosen = max if op == "maximum" else min
    return _Range(chosen(x.low, y.low), chosen(x.high, y.high), x.signed or y.signed)


def _from(steps: Sequence[Instruction], source: int, k: int) -> Program:
    """Return the program that computes an instruction from another one."""
    needed = {k}
    for j in range(k, source, -1):
        if j in needed:
            needed.update(steps[j].args)
    made, places = [Instruction("input", (), Extent.FULL, "float32", 0)], {source: 0}
    for j in sorted(needed - {source}):
        places[j] = len(made)
        made.append(steps[j]._replace(args=tuple([places[a] for a in steps[j].args])))
    return Program("table", (Input(Extent.FULL, "float32"),), tuple(made), (places[k],))


def in_table(w: Writer, x: Vector, value: int | str | None) -> Vector:
    """Write the number of a table at the place of a whole number, one of those that it has, or NaN; see `tabulated`."""
    first, *texts = str(value).split()
    *numbers, of_nan = map(float.fromhex, texts)
    name, scalar, kind = f"@numbers{len(w.declared)}", w.scalar(x.dtype), w.type(x.dtype)
    rows = ", ".join(f"{scalar} {literal(number, x.dtype)}" for number in numbers)
    pointers, mask = f"<{w.width} x ptr>", w.type("bool")
    gather = f"@llvm.masked.gather.v{w.width}f32.v{w.width}p0"
    w.declared |= {
        f"{name} = private constant [{len(numbers)} x {scalar}] [{rows}], align 64",
        f"declare {kind} {gather}({pointers}, i32, {mask}, {kind})",
    }
    none = w.compare("uno", x, x)
    whole = w.convert("fptosi", w.select(none, w.constant(float(first), x.dtype), x), "int32")
    place = w.binary("sub", whole, w.constant(int(first), "int32"))
    at = w.assign(f"getelementptr {scalar}, ptr {name}, {w.type('int32')} {place.text}")
    found = w.assign(f"call {kind} {gather}({pointers} {at}, i32 4, {mask} splat (i1 true), {kind} poison)")
    return w.select(none, w.constant(of_nan, x.dtype), Vector(found, x.dtype))


def _compared(w: Writer, op: str, x: Vector, y: Vector) -> Vector:
    if x.dtype.startswith("float"):
        return w.compare(_COMPARISONS[op], x, y)
    how = op if op in ("eq", "ne") else f"u{op}"  # ints are only compared for equality
    return Vector(w.assign(f"icmp {how} {w.type(x.dtype)} {x.text}, {y.text}"), "bool")


def _cast(w: Writer, x: Vector, dtype: str) -> Vector:
    if dtype == x.dtype:
        return x
    if dtype in HALVES:
        return w.to_half(x, dtype)
    if x.dtype in HALVES:
        return w.from_half(x)
    if dtype == "bool":
        return w.compare("une", x, w.constant(0.0, x.dtype))
    if x.dtype == "bool":
        return w.convert("uitofp", x, dtype)
    if not x.dtype.startswith("float"):
        return w.convert("uitofp" if x.dtype == "uint8" else "sitofp", x, dtype)
    if not dtype.startswith("float"):  # as NumPy, whose ints of 8 bits are the last bits of others
        whole = w.convert("fptosi", x, "int32")
        return whole if dtype == "int32" else w.convert("trunc", whole, dtype)
    return w.convert("fpext" if dtype == "float64" else "fptrunc", x, dtype)
