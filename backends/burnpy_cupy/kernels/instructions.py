"""Instructions of programs as C++ expressions, and the types that hold their results."""

from __future__ import annotations

import math

from burnpy.backend.program import Instruction, ProgramError

MEMORY = {
    "float64": "double",
    "float32": "float",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "bool": "bool",
    "int64": "long long",
    "int32": "int",
}
"""The types of arrays by their dtype; the 16-bit ones are classes of CuPy's headers."""
REGISTER = MEMORY | {"float16": "float", "bfloat16": "float"}
"""The types of computed values by their dtype: 16-bit floats are computed in float32, and rounded when stored."""
HEADERS = {"float16": "cupy/float16.cuh", "bfloat16": "cupy/bfloat16.cuh"}

FUNCTIONS = """
#define BURNPY_INFINITY __longlong_as_double(0x7ff0000000000000LL)
#define BURNPY_NAN __longlong_as_double(0x7ff8000000000000LL)
template <class T> __device__ inline T maximum_of(T a, T b) { return a > b || a != a ? a : b; }
template <class T> __device__ inline T minimum_of(T a, T b) { return a < b || a != a ? a : b; }
template <class T> __device__ inline T sign_of(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x != x ? x : T(0); }
template <class T> __device__ inline T sigmoid_of(T x) {
  const T e = exp(-fabs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}
"""
"""Functions that CUDA lacks: extrema that are NaN where an argument is, signs, and a sigmoid that does not overflow."""

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/",
          "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
          "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}  # fmt: skip
_CALLS = {
    **{name: name for name in ("floor", "ceil", "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "erf")},
    **{name: f"{name}_of" for name in ("maximum", "minimum", "sign", "sigmoid")},
    "abs": "fabs",
    "round": "rint",
}


def expression(step: Instruction, args: list[str], dtypes: list[str]) -> str:
    """Return an instruction as an expression of its arguments.

    Args:
        step: the instruction: an elementwise one, a constant, a conversion or ``expand``.
        args: the names of its arguments.
        dtypes: their dtypes.

    Raises:
        ProgramError: there is no such expression.
    """
    op, _, _, dtype, value = step
    kind = REGISTER[dtype]
    if op == "constant":
        return f"({kind}){_number(str(value), dtype)}"
    if op == "cast":
        converted = f"({kind}){args[0]}" if dtype != "bool" else f"{args[0]} != 0"
        narrows = dtype in HEADERS and dtypes[0] != dtype
        return f"(float){dtype}((float){args[0]})" if narrows else converted
    if op in _INFIX:
        return f"{args[0]} {_INFIX[op]} {args[1]}"
    if op in _CALLS:
        return f"{_CALLS[op]}({', '.join(args)})"
    if op == "where":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    if op == "neg":
        return f"-{args[0]}"
    if op == "bitwise_not" and dtype == "bool":
        return f"!{args[0]}"
    if op == "expand":
        return args[0]
    raise ProgramError(f"CUDA kernels do not compute {op} of {dtype}")


def _number(value: str, dtype: str) -> str:
    """Return a constant of a program as a literal of C++."""
    if "float" not in dtype:
        return f"{value}LL"
    number = float.fromhex(value)
    if math.isnan(number):
        return "BURNPY_NAN"
    if math.isinf(number):
        return "BURNPY_INFINITY" if number > 0 else "-BURNPY_INFINITY"
    return repr(number)
