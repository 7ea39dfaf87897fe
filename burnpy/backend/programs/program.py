"""`Program`: an immutable, hashable list of typed instructions on the rows of matrices of one shape (rows, columns).

Its schedule has the loops over the columns of a row; `execute` runs it with the operations of a backend.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

from burnpy.backend.dtypes import HALVES, dtype_of, kind_of
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

    An input of extent `Extent.SCALAR` is a Python number. So a number that changes with each call, such as a learning
    rate, does not change the program.
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
    - ``gather``: of its first argument, in each row the element at the column that its second argument, an int, names;
    - ``table``: a number of the list ``value``, which kernels write in place of functions of few numbers.
    """

    op: str
    args: tuple[int, ...]
    extent: Extent
    dtype: str
    value: int | str | None = None


FUNCTIONS = frozenset(
    (
        *("exp", "expm1", "log", "log1p", "sinh", "cosh", "tanh", "sigmoid", "erf", "erfc", "erfinv"),
        *("sin", "cos", "tan", "asin", "acos", "atan"),
    )
)
"""The elementwise operations of one argument that take many instructions of a machine."""
UNARY = FUNCTIONS | {"neg", "abs", "sign", "floor", "ceil", "round", "sqrt", "bitwise_not"}
"""Those of one argument, whose result has its dtype."""
ELEMENTWISE = UNARY | frozenset(
    (
        *("add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "where"),
        *("bitwise_and", "bitwise_or", "bitwise_xor"),
    )
)
"""The elementwise operations of programs: those of `Backend` with the same name."""
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
        return all(
            i.op in ("input", "constant", "cast", "table") or i.op in ELEMENTWISE for i in self.instructions
        ) and all(i.extent in (Extent.FULL, Extent.SCALAR) for i in self.instructions)

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
        names = {Extent.FULL: "(rows, columns)", Extent.ROW: "(columns,)", Extent.COLUMN: "(rows, 1)"}
        wanted = ", ".join(names.get(extent, "a number") for extent, _ in self.inputs)
        given = ", ".join("a number" if shape is None else str(shape) for shape in inputs)
        return ProgramError(f"program {self.name} takes {wanted}, got {given}")


_EXPENSIVE = frozenset((*FUNCTIONS, "div", "sqrt", "table"))
_INTS = ("int64", "int32")
_INT_STEPS = frozenset(("input", "constant", "index", "expand", "cast"))
_INDICES = (("input", Extent.COLUMN), ("index", Extent.ROW))
_OF_INTS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "expand", "cast"))
_STORED = frozenset(("input", "expand", "cast"))
"""The instructions of floats of 16 bits that kernels only convert, from float32 and to it."""
_QUANTIZED: dict[str, frozenset[str]] = {
    "int8": _STORED,
    "uint8": _STORED,
    "int32": frozenset(("input", "constant", "expand", "cast", "add", "sub", "mul")),
}
"""The instructions of quantized numbers and of sums of their products, by dtype; all can be converted to floats."""


class Schedule:
    """The order in which a program's instructions are computed for a row.

    In each row, a first loop over the columns computes the sums and maxima that need no others, a second loop those
    that need the first ones, and so on; the last loop computes the outputs.

    Args:
        program: the program.
        floats: the float dtypes that the kernels of a backend have.
        ints: whether they compare and convert all ints; otherwise an int is an index for each row, which a gather takes
            or which is compared with the positions of the columns, or a number of 8 or 32 bits that becomes a float.

    Raises:
        ProgramError: the program needs dtypes that kernels do not have, or several passes over the rows.
    """

    def __init__(self, program: Program, floats: tuple[str, ...] = ("float32", "float64"), ints: bool = False) -> None:
        self.program, self.steps = program, program.instructions
        self._floats, self._ints = floats, ints
        self.live = self._live()
        """The instructions that the outputs need, in order."""
        self._refuse()
        self.depth = self._depths()
        """For each instruction, the number of loops that come before it can be computed."""
        self.stages = max(self.depth.values(), default=0) + 1
        """The number of loops."""
        self.kept = self._kept()
        """The values that are kept for later loops, with their places: expensive ones that several loops need."""

    def _live(self) -> list[int]:
        """Return the instructions that the outputs need, in order."""
        needed = set(self.program.outputs)
        for k in reversed(range(len(self.steps))):
            if k in needed:
                needed.update(self.steps[k].args)
        return sorted(needed)

    def _refuse(self) -> None:
        """Refuse a program that one pass over the rows cannot compute."""
        for k in self.live:
            step = self.steps[k]
            if not self._computes(step):
                raise ProgramError(f"kernels do not compute {step.op} of {step.dtype}")
            if any(self.over_rows(a) for a in step.args):
                raise ProgramError("a kernel cannot use a sum over rows, as it is known after the last row")
            if step.op == "amax" and step.value == 0:
                raise ProgramError("kernels have no maximum over rows")
            if self.over_columns(k) and self.steps[step.args[0]].extent is not Extent.FULL:
                raise ProgramError("kernels reduce columns of full values only")
        for k in self.program.outputs:
            if self.steps[k].extent in (Extent.ROW, Extent.SCALAR) and not self.over_rows(k):
                raise ProgramError("kernels return no value that is the same in all rows")

    def _computes(self, step: Instruction) -> bool:
        """Return whether kernels have an instruction for its dtype and those of its arguments."""
        op, args, extent, dtype, _ = step
        given = {self.steps[a].dtype for a in args}
        halves = {dtype, *given}.intersection(HALVES).difference(self._floats)
        if halves:
            return op in _STORED and len(halves) == 1 and {dtype, *given} <= {*halves, "float32"}
        if not self._ints and dtype in _QUANTIZED:
            return op in _QUANTIZED[dtype] and given <= {dtype, *(self._floats if op == "cast" else ())}
        if not self._ints and op == "cast" and given <= _QUANTIZED.keys():
            return dtype in self._floats
        if dtype in _INTS:
            if not (op in _INT_STEPS if self._ints else (op, extent) in _INDICES):
                return False
        elif dtype not in (*self._floats, "bool"):
            return False
        if dtype == "bool" and op in ("sum", "amax", "maximum", "minimum", "add", "mul", "sub"):
            return False
        of_ints = not given.isdisjoint(_INTS)
        return not of_ints or op in ("gather", "eq") or (self._ints and op in _OF_INTS)

    def over_rows(self, k: int) -> bool:
        """Return whether an instruction is a sum over rows."""
        return self.steps[k].op in ("sum", "amax") and self.steps[k].value == 0

    def over_columns(self, k: int) -> bool:
        """Return whether an instruction is a sum or a maximum over columns."""
        return self.steps[k].op in ("sum", "amax") and self.steps[k].value == 1

    def _depths(self) -> dict[int, int]:
        """For each instruction, the number of loops over columns that come before it can be computed."""
        depth: dict[int, int] = {}
        for k in self.live:
            depth[k] = max((depth[a] for a in self.steps[k].args), default=0) + self.over_columns(k)
        return depth

    def needed(self, roots: list[int]) -> set[int]:
        """Return the instructions that the values of ``roots`` at one column are computed of, those roots included."""
        instructions: set[int] = set()
        stack = list(roots)
        while stack:
            k = stack.pop()
            if k not in instructions and self.steps[k].extent.over_columns:
                instructions.add(k)
                stack += self.steps[k].args
        return instructions

    def roots(self, stage: int) -> list[int]:
        """Return the values that a loop over columns computes: arguments of reductions, and in the last one, of
        outputs."""
        if stage < self.stages - 1:
            return [self.steps[k].args[0] for k in self.reductions(stage)]
        roots = []
        for k in self.program.outputs:
            if self.over_rows(k):
                roots.append(self.steps[k].args[0])
            elif self.steps[k].extent is Extent.FULL:
                roots.append(k)
        return [k for k in roots if self.steps[k].extent.over_columns]

    def reductions(self, stage: int) -> list[int]:
        """Return the sums and maxima over columns that a loop computes."""
        return [k for k in self.live if self.over_columns(k) and self.depth[k] == stage + 1]

    def _kept(self) -> dict[int, int]:
        """Return the values that are kept in the scratch row, with their place: expensive ones that several loops need,
        but for those that only kept values need."""
        needed, kept = [{*self.roots(stage)} for stage in range(self.stages)], list[int]()
        for k in reversed(self.live):
            loops = [some for some in needed if k in some and self.steps[k].extent.over_columns]
            if len(loops) > 1 and self.steps[k].op in _EXPENSIVE:
                kept.append(k)
                del loops[1:]
            for some in loops:
                some.update(self.steps[k].args)
        return {k: place for place, k in enumerate(reversed(kept))}

    def first_stage(self, k: int) -> int:
        """Return the first loop that computes a value."""
        return next(stage for stage in range(self.stages) if k in self.needed(self.roots(stage)))


def execute(b: Any, program: Program, xs: Sequence[Any], numbers: Sequence[float]) -> tuple[Any, ...]:
    """Return the results of a program; it is differentiable wherever the operations of ``b`` are.

    Args:
        b: the backend.
        program: the program.
        xs: the primitives of the inputs, in order.
        numbers: the numbers of the inputs of extent SCALAR, in order.
    """
    given, rows, columns = program.bind(xs, numbers)
    values: list[Any] = []
    for instruction in program.instructions:
        values.append(_step(b, instruction, [values[a] for a in instruction.args], given, (rows, columns), program))
    return tuple([fresh(b, values[k], program, k, (rows, columns)) for k in program.outputs])


def fresh(b: Any, x: Any, program: Program, k: int, sizes: tuple[int, int]) -> Any:
    """Return a result as new memory in its extent's shape, where an instruction gave a number or an input."""
    op, _, extent, dtype, _ = program.instructions[k]
    on = b if kind_of(dtype_of(dtype)) == "float" else b.discrete
    if op in ("input", "constant", "length"):
        x = on.full((), x, dtype_of(dtype)) if extent is Extent.SCALAR else x
        return on.where(b.discrete.full((), True, dtype_of("bool")), x, x)
    return x if x.shape == extent.shape(*sizes) else on.reshape(x, extent.shape(*sizes))


def _step(
    b: Any, instruction: Instruction, args: list[Any], given: list[Any], sizes: tuple[int, int], program: Program
) -> Any:
    op, positions, extent, name, value = instruction
    dtype = dtype_of(name)
    if op == "input":
        assert isinstance(value, int)
        return given[value]
    if op == "constant":
        return float.fromhex(str(value)) if kind_of(dtype) == "float" else int(str(value))
    if op == "length":
        assert isinstance(value, int)
        return float(sizes[value])
    if op == "index":
        assert isinstance(value, int)
        return b.discrete.reshape(b.discrete.arange(0, sizes[value], 1, dtype), extent.shape(*sizes))
    dtypes = [dtype_of(program.instructions[a].dtype) for a in positions]
    on = b if any(kind_of(d) == "float" for d in dtypes) else b.discrete
    if op == "cast":
        return _cast(b, on, _primitive(on, args[0], dtypes[0]), dtype)
    if op == "expand":
        return on.expand(_primitive(on, args[0], dtypes[0]), extent.shape(*sizes))
    if op in ("sum", "amax"):
        reduce: Callable[..., Any] = getattr(on, op)
        source = program.instructions[positions[0]].extent
        if source is Extent.FULL:
            return reduce(args[0], (value,), value == 1)
        return reduce(args[0], tuple(range(len(args[0].shape))), False)
    if op == "gather":
        return b.gather(args[0], 1, args[1])
    if op == "where":
        choice, x, y = args
        on = b if kind_of(dtype) == "float" else b.discrete
        return on.where(_primitive(b.discrete, choice, dtypes[0]), _primitive(on, x, dtype), y)
    operate: Callable[..., Any] = getattr(on, op)
    return operate(_primitive(on, args[0], dtypes[0]), *args[1:])


def _cast(b: Any, on: Any, x: Any, dtype: DType) -> Any:
    """Convert a primitive to a dtype of any kind, on the device that such a primitive belongs to."""
    if kind_of(x.dtype) == kind_of(dtype):
        return on.cast(x, dtype)
    if kind_of(dtype) == "float":
        return b.to_float(x, dtype)
    return on.to_int(x, dtype) if kind_of(dtype) == "int" else on.to_bool(x)


def _primitive(on: Any, x: Any, dtype: DType) -> Any:
    """Return an operand as a primitive: a Python number becomes a 0-d one."""
    return x if hasattr(x, "dtype") else on.full((), x, dtype)
