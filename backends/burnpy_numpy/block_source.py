"""`source`: a program as a Python function that computes a block of rows with calls of NumPy.

Intermediate results are written to the memory of results that are computed later, or to other memory of a block's
size, which is used again as soon as they are not needed::

    >>> from burnpy.backend import Backend
    >>> from burnpy.backend.program import Extent, Input, trace
    >>> print(source(trace(Backend.softmax, (Input(Extent.FULL, "float32"),), 1)).text)
    def prepare(rows, columns):
        def block(start, stop, x0, out0):
            value1 = amax(x0, 1, None, None, True)
            subtract(x0, value1, out=out0)
            exp(out0, out=out0)
            value4 = total(out0, (1,), True)
            divide(out0, value4, out=out0)
            return ()
        return block
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import dtype_of, kind_of
from burnpy.backend.primitives import DType
from burnpy.backend.program import Extent, Instruction, Program
from burnpy_array.base import is_half
from burnpy_array.pointwise import BINARY, UNARY, sigmoid
from burnpy_numpy.constants import constant
from burnpy_numpy.row_sums import dots, total
from burnpy_numpy.special import erf
from burnpy_numpy.where import select

_UFUNCS = {**UNARY, **BINARY}
"""NumPy's functions by the names of operations. Their result may be in the memory of an argument."""
_FUNCTIONS = {**_UFUNCS, "where": "select"}

NAMESPACE: dict[str, Any] = {
    **{name: getattr(np, name) for name in (*_UFUNCS.values(), "arange", "asarray", "broadcast_to", "copyto")},
    "take_along_axis": np.take_along_axis,
    "amax": np.maximum.reduce,
    "sigmoid": partial(sigmoid, np),
    **{f.__name__: f for f in (dots, erf, select, total)},
}
"""The names of the text of a `Source`."""


class Source(NamedTuple):
    """The text of the function ``prepare``, and what it is called with.

    ``prepare`` computes what is the same in all rows, of the numbers of rows and columns and the inputs that do not
    depend on the row, and returns the function ``block``. That is called with the first row of a block, the row after
    the last, the block's rows of all other inputs and of the results, and memory. It returns the sums over rows.
    """

    text: str
    constants: dict[str, Any]  #: the numbers of the text by name: 0-d arrays
    memory: tuple[DType, ...]  #: the dtypes of the arrays for intermediate results


def in_one_pass(program: Program) -> bool:
    """Return whether a program can be computed block by block: none of its instructions uses a sum over rows.

    Programs with 16-bit floats cannot: each intermediate result would be rounded.
    """
    steps = program.instructions
    if any(is_half(dtype_of(step.dtype)) for step in steps):
        return False
    return not any(over_rows(steps[a]) for step in steps for a in step.args)


def over_rows(step: Instruction) -> bool:
    """Return whether an instruction is a sum or a maximum over rows."""
    return step.op in ("sum", "amax") and step.value == 0


def source(program: Program, overwritten: Mapping[int, int] | None = None) -> Source:
    """Write a program that can be computed in one pass, see `in_one_pass`.

    Args:
        program: the program.
        overwritten: the results that may be in the memory of an input, by position, with the number of that input.
    """
    return _Writer(program, overwritten or {}).source()


class _Writer:
    """The names and the memory of the values of a program, while its source is written."""

    def __init__(self, program: Program, overwritten: Mapping[int, int]) -> None:
        self._program, self._steps, self._overwritten = program, program.instructions, overwritten
        self._names: dict[int, str] = {}
        self._constants: dict[str, Any] = {}
        self._memory: list[DType] = []
        self._free: dict[str, list[str]] = {}
        """Memory, by dtype, whose contents are not needed any more."""
        self._results = {k: f"out{program.outputs.index(k)}" for k in program.outputs if self._has_memory(k)}
        """The names of the memory of full results, by instruction."""
        self._idle = {name: k for k, name in self._results.items() if program.outputs.index(k) not in overwritten}
        """Memory of results that are computed later, with their instruction; intermediate results may be there."""
        self._users: dict[int, list[int]] = {k: [] for k in range(len(self._steps))}
        for k, step in enumerate(self._steps):
            for a in step.args:
                self._users[a].append(k)
        self._last_use = self._last_uses()

    def source(self) -> Source:
        fixed: list[str] = []
        blockwise: list[str] = []
        for k in sorted(self._last_use):
            step = self._steps[k]
            lines = blockwise if step.extent.over_rows or over_rows(step) else fixed
            lines += self._lines(k)
        outputs = [(f"out{n}", self._names[k], self._steps[k]) for n, k in enumerate(self._program.outputs)]
        blockwise += [f"copyto({out}, {name})" for out, name, s in outputs if not over_rows(s) and name != out]
        inputs = [(f"x{k}", extent.over_rows) for k, (extent, _) in enumerate(self._program.inputs)]
        before = ["rows", "columns", *[x for x, by_row in inputs if not by_row]]
        given = ["start", "stop", *[x for x, by_row in inputs if by_row]]
        given += [out for out, _, s in outputs if not over_rows(s)]
        given += [f"memory{k}" for k in range(len(self._memory))]
        sums = "".join(f"{name}, " for _, name, s in outputs if over_rows(s))
        lines = [
            f"def prepare({', '.join(before)}):",
            *[f"    {line}" for line in fixed],
            f"    def block({', '.join(given)}):",
            *[f"        {line}" for line in blockwise],
            f"        return ({sums.strip()})",
            "    return block",
        ]
        return Source("\n".join(lines), self._constants, tuple(self._memory))

    def _last_uses(self) -> dict[int, int]:
        """The instructions that the results need, with the last instruction that uses each."""
        last = dict.fromkeys(self._program.outputs, len(self._steps))
        for k in reversed(range(len(self._steps))):
            if k in last:
                use = last[k] if self._is_view(k) or self._is_factor(k) else k
                last |= {a: max(use, last.get(a, 0)) for a in self._steps[k].args}
        return last

    def _is_view(self, k: int) -> bool:
        """Return whether an instruction only broadcasts, which elementwise functions do by themselves."""
        users = [self._steps[user].op for user in self._users[k]]
        return self._steps[k].op == "expand" and not any(op in ("sum", "amax", "gather") for op in users)

    def _is_factor(self, k: int) -> bool:
        """Return whether an instruction is a product whose sum over columns is all that is needed, see `dots`."""
        users, args = self._users[k], self._steps[k].args
        return (
            self._steps[k].op == "mul"
            and k not in self._program.outputs
            and all(self._steps[a].extent is Extent.FULL and self._steps[a].op != "expand" for a in args)
            and len(users) == 1
            and (self._steps[users[0]].op, self._steps[users[0]].value) == ("sum", 1)
        )

    def _lines(self, k: int) -> list[str]:
        """Return the lines that compute an instruction, and note the name of its result."""
        op, _, _, dtype, value = self._steps[k]
        operands = [self._names[a] for a in self._steps[k].args]
        if op == "input" or self._is_view(k) or self._is_factor(k):
            self._names[k] = ", ".join(operands) or f"x{value}"
            return []
        if op == "constant":
            self._names[k] = name = f"number{k}"
            number = float.fromhex(str(value)) if kind_of(dtype_of(dtype)) == "float" else int(str(value))
            self._constants[name] = np.asarray(constant(number, dtype_of(dtype)))
            return []
        if self._has_memory(k):
            return [self._into_memory(k, operands)]
        self._release(k)
        self._names[k] = name = f"value{k}"
        return [f"{name} = {self._expression(k, operands)}"]

    def _expression(self, k: int, operands: list[str]) -> str:
        """Return the expression of a value that is not written to memory that is there."""
        op, args, extent, dtype, value = self._steps[k]
        if op == "length":
            return f'asarray({"columns" if value else "rows"}, "{dtype}")'
        if op == "index":
            return "arange(columns)" if value else "arange(start, stop).reshape(-1, 1)"
        if op == "cast":
            return f'{operands[0]}.astype("{dtype}")'
        if op == "expand":
            return f"broadcast_to({operands[0]}, ({'stop - start, ' if extent.over_rows else ''}columns,))"
        if op == "gather":
            return f"take_along_axis({operands[0]}, {operands[1]}, 1)"
        if op in ("sum", "amax"):
            if self._is_factor(args[0]):
                return f"dots({operands[0]})"
            axis, keepdim = (value, value == 1) if self._steps[args[0]].extent.over_rows else (0, False)
            if op == "amax":
                return f"amax({operands[0]}, {axis}, None, None, {keepdim})"
            return f"total({operands[0]}, ({axis},), {keepdim})"
        return f"{_FUNCTIONS.get(op, op)}({', '.join(operands)})"

    def _has_memory(self, k: int) -> bool:
        """Return whether the line of an instruction writes to memory that is there."""
        op, _, extent, _, _ = self._steps[k]
        return extent is Extent.FULL and op not in ("input", "constant", "expand", "gather")

    def _into_memory(self, k: int, operands: list[str]) -> str:
        """Return the line that writes a full value to memory: that of a result, of an argument, or other."""
        op = self._steps[k].op
        if op in _UFUNCS:  # before its own memory is chosen
            self._release(k)
        self._names[k] = name = self._memory_for(k)
        if op not in _UFUNCS:
            self._release(k)
        if op == "cast":
            return f'copyto({name}, {operands[0]}, "unsafe")'
        return f"{_FUNCTIONS.get(op, op)}({', '.join(operands)}, out={name})"

    def _memory_for(self, k: int) -> str:
        """Return the name of the memory for a full value, from now to its last use."""
        dtype, last = self._steps[k].dtype, self._last_use[k]
        if k in self._results and self._can_overwrite(k):
            return self._results[k]
        for name, result in self._idle.items():
            step = self._steps[result]
            if step.dtype == dtype and (last < result or (last == result and step.op in _UFUNCS)):
                del self._idle[name]
                return name
        if free := self._free.get(dtype):
            return free.pop()
        self._memory.append(dtype_of(dtype))
        return f"memory{len(self._memory) - 1}"

    def _can_overwrite(self, k: int) -> bool:
        """Return whether a result may be written to its memory: it is not that of an input that is read later."""
        which = self._overwritten.get(self._program.outputs.index(k))
        inputs = [n for n in self._last_use if self._steps[n].op == "input" and self._steps[n].value == which]
        return all(self._last_use[n] < k or (self._last_use[n] == k and self._steps[k].op in _UFUNCS) for n in inputs)

    def _release(self, k: int) -> None:
        """Note which memory of arguments no later instruction reads."""
        args = self._steps[k].args
        factors = [f for a in args if self._is_factor(a) for f in self._steps[a].args]
        ended = {self._names[a]: self._steps[a].dtype for a in (*args, *factors) if self._last_use[a] == k}
        later = {name: result for result, name in self._results.items() if result > k}
        for name, dtype in ended.items():
            if name in later:
                self._idle[name] = later[name]
            elif name.startswith("memory") and "," not in name:
                self._free.setdefault(dtype, []).append(name)
