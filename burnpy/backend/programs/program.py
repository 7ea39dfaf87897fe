"""`Program`: an immutable, hashable list of typed instructions on the rows of matrices of one shape (rows, columns)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import ArgumentError
from burnpy.backend.primitives import DType


class ProgramError(ArgumentError):
    """A computation cannot be written as a program, or a program got inputs that it does not take."""


class Extent(Enum):
    """The dims of (rows, columns) along which a value varies, and the shape of the primitive that holds it."""

    FULL = "full"  #: a value for each element: (rows, columns)
    ROW = "row"  #: a value for each column, the same in all rows: (columns,)
    COLUMN = "column"  #: a value for each row, the same in all columns: (rows, 1)
    SCALAR = "scalar"  #: one value: ()

    __hash__ = object.__hash__  # members are unique; the hash of `Enum` is a call of a Python function

    @classmethod
    def of(cls, over_rows: bool, over_columns: bool) -> Extent:
        """Return the extent of a value that depends on its row, on its column, on both, or on neither."""
        if over_rows:
            return cls.FULL if over_columns else cls.COLUMN
        return cls.ROW if over_columns else cls.SCALAR

    @property
    def over_rows(self) -> bool:
        """True if the value depends on its row."""
        return self in (Extent.FULL, Extent.COLUMN)

    @property
    def over_columns(self) -> bool:
        """True if the value depends on its column."""
        return self in (Extent.FULL, Extent.ROW)

    def shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """Return the shape of a primitive of this extent."""
        if self is Extent.FULL:
            return (rows, columns)
        if self is Extent.ROW:
            return (columns,)
        return (rows, 1) if self is Extent.COLUMN else ()


class Input(NamedTuple):
    """The description of one input of a program.

    An input of extent `Extent.SCALAR` is a Python number, so that a number that changes with each call, such as a
    learning rate, does not change the program.
    """

    extent: Extent
    dtype: str


class Instruction(NamedTuple):
    """One step: an operation on the results of earlier steps.

    ``op`` is the name of an elementwise operation of `burnpy.backend.Backend`, or one of these:

    - ``input``: the input number ``value``;
    - ``constant``: the number ``value``, a hexadecimal float or an int as text, so that -0.0 is not 0.0;
    - ``cast``: conversion to ``dtype``, of any kind to any kind;
    - ``sum``, ``amax``: over all columns of each row (``value`` 1), or over all rows (``value`` 0);
    - ``length``: the number of rows (``value`` 0) or of columns (1);
    - ``index``: the position of each row (``value`` 0) or of each column (1), an int64 from 0;
    - ``gather``: of its first argument, in each row the element at the column that its second argument, an int, names.
    """

    op: str
    args: tuple[int, ...]
    extent: Extent
    dtype: str
    value: int | str | None = None


ELEMENTWISE = frozenset(
    (
        *("add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "where"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "neg", "abs", "sign", "floor", "ceil", "round"),
        *("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "sigmoid", "erf", "erfc", "erfinv"),
    )
)
"""The elementwise operations of programs: those of `Backend` with the same name."""
FUNCTIONS = frozenset(("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "erfc", "erfinv", "sin", "cos"))
"""Those of them that take many instructions of a machine."""
REDUCTIONS = frozenset(("sum", "amax"))


@dataclass(frozen=True)
class Program:
    """A computation on matrices of (rows, columns), for any number of rows and columns.

    >>> from burnpy.backend import Backend
    >>> from burnpy.backend.programs import Extent, Input, trace
    >>> print(trace(Backend.silu, (Input(Extent.FULL, "float32"),)))
    %0 = input 0 : full float32
    %1 = sigmoid %0 : full float32
    %2 = mul %0 %1 : full float32
    return %2
    """

    name: str  #: for messages and profiles; two programs that differ in their name alone are equal
    inputs: tuple[Input, ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]  #: the instructions whose results are returned

    @cached_property
    def text(self) -> str:
        """The instructions as text, one per line; programs are equal if their texts are."""
        lines = []
        for k, (op, args, extent, dtype, value) in enumerate(self.instructions):
            operands = " ".join([f"%{a}" for a in args] + ([] if value is None else [str(value)]))
            lines.append(f"%{k} = {op} {operands} : {extent.value} {dtype}")
        return "\n".join([*lines, f"return {' '.join(f'%{k}' for k in self.outputs)}"])

    @cached_property
    def key(self) -> str:
        """The SHA-256 digest of the text, in hexadecimal digits."""
        inputs = ", ".join(f"{i.extent.value} {i.dtype}" for i in self.inputs)
        return hashlib.sha256(f"{inputs}\n{self.text}".encode()).hexdigest()

    @cached_property
    def elementwise(self) -> bool:
        """True if each element of each result depends on the same element of the inputs, and on numbers, alone."""
        return all(i.op in ("input", "constant", "cast") or i.op in ELEMENTWISE for i in self.instructions) and all(
            i.extent in (Extent.FULL, Extent.SCALAR) for i in self.instructions
        )

    @cached_property
    def _dtypes(self) -> list[DType]:
        """The dtypes of the inputs that are primitives."""
        return [dtype_of(dtype) for extent, dtype in self.inputs if extent is not Extent.SCALAR]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.text

    def bind(self, xs: Sequence[Any], numbers: Sequence[float]) -> tuple[list[Any], int, int]:
        """Return the inputs in order, and the numbers of rows and columns that their shapes say.

        Args:
            xs: the primitives.
            numbers: the numbers.
        """
        scalars = len(self.inputs) - len(self._dtypes)
        if len(xs) != len(self.inputs) - scalars or len(numbers) != scalars:
            raise ProgramError(
                f"program {self.name} takes {len(self.inputs) - scalars} primitives and {scalars} numbers, "
                f"got {len(xs)} and {len(numbers)}"
            )
        if any(x.dtype is not dtype and x.dtype != dtype for x, dtype in zip(xs, self._dtypes, strict=True)):
            raise ProgramError(
                f"program {self.name} takes primitives of the dtypes {', '.join(d.name for d in self._dtypes)}, "
                f"got {', '.join(x.dtype.name for x in xs)}"
            )
        arrays, given = iter(xs), iter(numbers)
        inputs = [next(arrays if ndim else given) for ndim, *_ in self._forms]
        rows, columns = self._measure([getattr(x, "shape", None) for x in inputs])
        return inputs, rows, columns

    def _measure(self, inputs: list[tuple[int, ...] | None]) -> tuple[int, int]:
        """Return the numbers of rows and columns, from the inputs' shapes; the shape of a number is None."""
        rows = columns = -1
        for shape, (ndim, by_row, by_column) in zip(inputs, self._forms, strict=True):
            if shape is None:
                continue
            if len(shape) != ndim or (by_row and rows not in (-1, shape[0])):
                raise self._misfit(inputs)
            if by_row:
                rows = shape[0]
            if by_column:
                if columns not in (-1, shape[-1]):
                    raise self._misfit(inputs)
                columns = shape[-1]
            elif ndim == 2 and shape[1] != 1:
                raise self._misfit(inputs)
        return 1 if rows < 0 else rows, 1 if columns < 0 else columns

    @cached_property
    def _forms(self) -> list[tuple[int, bool, bool]]:
        """The number of dims of each input, and whether these are the rows and the columns."""
        return [(len(i.extent.shape(1, 1)), i.extent.over_rows, i.extent.over_columns) for i in self.inputs]

    def _misfit(self, inputs: list[tuple[int, ...] | None]) -> ProgramError:
        wanted = ", ".join(
            {
                Extent.FULL: "(rows, columns)",
                Extent.ROW: "(columns,)",
                Extent.COLUMN: "(rows, 1)",
                Extent.SCALAR: "a number",
            }[extent]
            for extent, _ in self.inputs
        )
        given = ", ".join("a number" if shape is None else str(shape) for shape in inputs)
        return ProgramError(f"program {self.name} takes {wanted}, got {given}")
