"""The functions of vectors that programs call, by the name of their operation."""

from __future__ import annotations

from collections.abc import Callable

from burnpy_numpy.kernels.compiler import error_functions, vector_functions
from burnpy_numpy.kernels.compiler.vectors import Vector, Writer

FUNCTIONS: dict[str, Callable[[Writer, Vector], Vector]] = {
    "exp": vector_functions.exp,
    "expm1": vector_functions.expm1,
    "log": vector_functions.log,
    "log1p": vector_functions.log1p,
    "tanh": vector_functions.tanh,
    "sigmoid": vector_functions.sigmoid,
    "erf": error_functions.erf,
    "erfc": error_functions.erfc,
    "erfinv": error_functions.erfinv,
    "sin": vector_functions.sin,
    "cos": vector_functions.cos,
}
"""The functions by the name of their operation."""


def definition(name: str, dtype: str, width: int, declared: set[str]) -> str:
    """Return a function of one vector as text, which programs call by the name ``@exp_float32``."""
    w = Writer(width, declared)
    out = FUNCTIONS[name](w, Vector("%x", dtype))
    kind = w.type(dtype)
    head = f"define internal {kind} @{name}_{dtype}({kind} %x) alwaysinline {{\nentry:"
    return "\n".join([head, *w.lines, f"  ret {kind} {out.text}", "}"])
