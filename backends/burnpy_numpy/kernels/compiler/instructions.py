"""The elementwise instructions of programs on vectors: arithmetic and roots rounded as IEEE 754 says, and functions."""

from __future__ import annotations

from collections.abc import Callable

from burnpy.backend.dtypes import HALVES
from burnpy.backend.programs import ProgramError
from burnpy_numpy.kernels.compiler import vector_functions, vector_trigonometry
from burnpy_numpy.kernels.compiler.vectors import Vector, Writer

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
