"""`trace`: making a `Program` from a function of a backend's operations, such as a default or a formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import lru_cache, wraps
from typing import Any, NamedTuple

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import HALVES, bool_, dtype_of, float32, int64, kind_of
from burnpy.backend.entries import operation
from burnpy.backend.operations.programs import Formula
from burnpy.backend.primitives import Dims, DType, Float, Scalar, Shape
from burnpy.backend.programs.program import UNARY, Extent, Input, Instruction, Program, ProgramError
from burnpy.backend.schema import declarations


def trace(f: Callable[..., Any], inputs: tuple[Input, ...], *rest: Any, name: str | None = None) -> Program:
    """Return the program that computes ``f(backend, *primitives, *rest)``.

    Args:
        f: a function of a backend, of primitives and of other values, which returns a primitive or a tuple of them. A
            declaration such as ``Backend.gelu`` is such a function: its default is traced.
        inputs: the extents and dtypes of the primitives. The function sees an input of extent SCALAR as 0-d primitive.
        rest: the other values, which become part of the program.
        name: the program's name; by default the function's name.

    Raises:
        ProgramError: f uses an operation that programs do not have, or its steps depend on a number of rows or columns.

    >>> from burnpy.backend.programs import Extent, Input
    >>> trace(lambda b, x: b.mul(b.sum(x, (1,), True), 2.0), (Input(Extent.FULL, "float32"),)).outputs
    (3,)
    """
    called = name or str(getattr(f, "__name__", "program"))
    programs = [_traced(f, inputs, rest, called, rows, columns) for rows, columns in _SIZES]
    if programs[0] != programs[1]:
        raise ProgramError(f"{called} computes with the number of rows or columns, which a program does not know")
    return programs[0]


_SIZES = ((7, 13), (11, 17))
"""The rows and columns of two traces: a number read from a shape makes them differ."""


def _traced(
    f: Callable[..., Any], inputs: tuple[Input, ...], rest: tuple[Any, ...], name: str, rows: int, columns: int
) -> Program:
    tracer = Tracer.unregistered(rows, columns)
    if hasattr(f, "__operation__"):
        f = getattr(Tracer, f.__name__)  # which may be an instruction of its own
    results = f(tracer, *[tracer.input(k, given) for k, given in enumerate(inputs)], *rest)
    outputs = tuple(
        [x.position for x in (results if type(results) is tuple else (results,))]
    )  # a Symbol is a tuple too
    return Program(name, inputs, tuple(tracer.instructions), outputs)


@lru_cache(256)
def formula_program(
    formula: Formula, dtype: str, arrays: int, numbers: int, flags: tuple[bool, ...] = (), extents: tuple[str, ...] = ()
) -> Program:
    """Return the program of a formula for primitives of a dtype and for flags; it serves all numbers. ``extents`` are
    those of the primitives: "full", "row" or "column", by default all full. Floats of 16 bits are computed in float32,
    and the results rounded."""
    inputs = [Input(Extent(extent), dtype) for extent in extents or ("full",) * arrays]
    inputs += [Input(Extent.SCALAR, "float32" if dtype in HALVES else dtype)] * numbers
    f = in_float32(formula, dtype) if dtype in HALVES else formula
    return Context().run(trace, f, tuple(inputs), *flags)  # no mode of the caller applies to traced operations


def in_float32(f: Callable[..., Any], dtype: str) -> Callable[..., Any]:
    """Return a function like f that computes floats of a 16-bit dtype in float32, and rounds the results once."""

    @wraps(f)
    def widened(b: Tracer, *given: Any) -> Any:
        wide = [b.cast(x, float32) if type(x) is Symbol and x.dtype.name == dtype else x for x in given]
        outs = f(b, *wide)
        results = outs if type(outs) is tuple else (outs,)  # a Symbol is a tuple too
        return tuple([b.cast(x, dtype_of(dtype)) if x.dtype is float32 else x for x in results])

    return widened


def run_formula(b: Any, formula: Formula, xs: Sequence[Float], numbers: Sequence[float]) -> tuple[Float, ...]:
    """Return the results of a formula as one program by ``b.run``. The primitives have one dtype, and one shape, or one
    element and no dimension beside others of one shape."""
    shape = max([x.shape for x in xs], key=math.prod)
    extents = tuple(["full" if x.shape == shape else "column" for x in xs])
    program = formula_program(formula, xs[0].dtype.name, len(xs), len(numbers), (), extents)
    rows = [b.reshape(x, (1, math.prod(x.shape))) for x in xs]
    outs = b.run(program, rows, tuple([float(number) for number in numbers]))
    made = [program.instructions[k].extent for k in program.outputs]
    return tuple([b.reshape(out, shape if extent.over_columns else ()) for out, extent in zip(outs, made, strict=True)])


class Symbol(NamedTuple):
    """A primitive of `Tracer`: the result of an instruction."""

    position: int
    shape: Shape
    dtype: DType


class Tracer(Backend):
    """A backend that computes nothing and records the instructions of a program.

    Required operations that programs do not have raise `ProgramError`; derived ones use their defaults.
    """

    eager_checks = False  # it has no values

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        self.instructions: list[Instruction] = []
        self._positions: dict[Instruction, int] = {}

    def extent_of(self, shape: Shape) -> Extent:
        """Return the extent of a shape: which of its dimensions are the rows and the columns."""
        if len(shape) in (1, 2):
            sizes = list(shape)
            over_rows, over_columns = sizes[0] == self.rows, sizes[-1] == self.columns
            if math.prod(shape) == (self.rows if over_rows else 1) * (self.columns if over_columns else 1):
                return Extent.of(over_rows, over_columns)
        if math.prod(shape) != 1:
            raise ProgramError(f"a program has no values of shape {shape}, but of its rows and columns alone")
        return Extent.SCALAR

    def emit(
        self, op: str, args: tuple[Symbol, ...], shape: Shape, dtype: DType, value: int | str | None = None
    ) -> Symbol:
        """Add an instruction, or find an equal one."""
        positions = tuple([a.position for a in args])
        instruction = Instruction(op, positions, self.extent_of(shape), dtype.name, value)
        position = self._positions.setdefault(instruction, len(self.instructions))
        if position == len(self.instructions):
            self.instructions.append(instruction)
        return Symbol(position, shape, dtype)

    def input(self, number: int, given: Input) -> Symbol:
        """Return the symbol of an input."""
        return self.emit("input", (), given.extent.shape(self.rows, self.columns), dtype_of(given.dtype), number)

    def full(self, shape: Shape, value: Scalar, dtype: DType) -> Any:
        """Return a constant."""
        number = float(value).hex() if kind_of(dtype) == "float" else str(int(value))
        constant = self.emit("constant", (), (), dtype, number)
        return self.expand(constant, shape)

    def arange(self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Any:
        """Return the positions of all rows, or of all columns, in a dimension."""
        if (start, step, dtype) != (0, 1, int64) or stop not in (self.rows, self.columns):
            raise ProgramError(f"programs have no arange from {start} to {stop}, but of all rows or columns")
        return self.emit("index", (), (int(stop),), int64, 0 if stop == self.rows else 1)

    def symbol(self, y: Any, dtype: DType) -> Symbol:
        """Return an operand as a symbol: a Python number becomes a constant of ``dtype``."""
        return y if isinstance(y, Symbol) else self.full((), y, dtype)

    def elementwise(self, name: str, args: tuple[Symbol, ...], dtype: DType) -> Symbol:
        """Add an elementwise instruction, whose result has the shape that the arguments broadcast to."""
        return self.emit(name, args, _broadcast([a.shape for a in args]), dtype)

    def cast(self, x: Any, dtype: DType) -> Any:
        """Convert to another dtype."""
        return x if x.dtype == dtype else self.emit("cast", (x,), x.shape, dtype)

    def to_float(self, x: Any, dtype: DType) -> Any:
        """Convert ints or bools to floats."""
        return self.cast(x, dtype)

    def to_int(self, x: Any, dtype: DType) -> Any:
        """Convert to ints."""
        return self.cast(x, dtype)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """Select elementwise."""
        return self.elementwise("where", (condition, x, self.symbol(y, x.dtype)), x.dtype)

    def pow(self, x: Any, y: Any) -> Any:
        """Raise to a few constant powers, as products, quotients and roots."""
        power = _POWERS.get(y) if type(y) in (int, float) else None
        if power is None or kind_of(x.dtype) != "float":
            raise ProgramError("programs have no powers but constant ones from -2 to 4")
        return power(self, x)

    def sum(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        """Sum over rows, over columns or over both."""
        x = x if kind_of(x.dtype) == "float" else self.cast(x, int64)
        return self._reduce("sum", x, dims, keepdim)

    def amax(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        """Maximum over rows, over columns or over both."""
        return self._reduce("amax", x, dims, keepdim)

    def mean(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        """Return the sum divided by a `length`."""
        total = self.sum(x, dims, keepdim)
        for dim in dims:
            if x.shape[dim] != 1:
                total = self.div(total, self.length(self._axis(x.shape, dim), x.dtype))
        return total

    def length(self, axis: int, dtype: DType) -> Any:
        """Return the number of rows, for axis 0, or of columns."""
        return self.emit("length", (), (), dtype, axis)

    def _axis(self, shape: Shape, dim: int) -> int:
        """Return 0 if a dimension counts the rows, 1 if it counts the columns. Its size is more than 1."""
        self.extent_of(shape)
        return 0 if shape[dim] == self.rows else 1

    def _reduce(self, op: str, x: Symbol, dims: Dims, keepdim: bool) -> Symbol:
        for dim in sorted(dims, reverse=True):  # columns first, so that rows are left
            shape = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
            if x.shape[dim] != 1:
                x = self.emit(op, (x,), shape, x.dtype, self._axis(x.shape, dim))
            x = x._replace(shape=shape)
        return x if keepdim else x._replace(shape=tuple([n for d, n in enumerate(x.shape) if d not in dims]))

    def gather(self, x: Any, dim: int, index: Any) -> Any:
        """Gather one element of each row."""
        if dim != 1 or index.shape != (x.shape[0], 1) or self.extent_of(x.shape) is not Extent.FULL:
            raise ProgramError("a program gathers one element of each row; this gather is another")
        return self.emit("gather", (x, index), index.shape, x.dtype)

    def reshape(self, x: Any, shape: Shape) -> Any:
        """Return x with another shape of the same extent."""
        if self.extent_of(x.shape) is not self.extent_of(shape) or math.prod(x.shape) != math.prod(shape):
            raise ProgramError(f"a program cannot reshape {x.shape} to {shape}")
        return x._replace(shape=shape)

    def expand(self, x: Any, shape: Shape) -> Any:
        """Return x, repeated over rows or columns."""
        if self.extent_of(shape) is self.extent_of(x.shape):
            return x._replace(shape=shape)
        zeros = [n if n in (self.rows, self.columns) else 1 for n in shape]
        return self.emit("expand", (x,), tuple(zeros), x.dtype)


def _inverse(t: Tracer, x: Symbol) -> Any:
    return t.div(t.full((), 1.0, x.dtype), x)


_POWERS: dict[float, Callable[[Tracer, Symbol], Any]] = {
    1: lambda t, x: x,
    2: lambda t, x: t.mul(x, x),
    3: lambda t, x: t.mul(t.mul(x, x), x),
    4: lambda t, x: t.mul(t.mul(x, x), t.mul(x, x)),
    -1: _inverse,
    -2: lambda t, x: _inverse(t, t.mul(x, x)),
    0.5: lambda t, x: t.sqrt(x),
    -0.5: lambda t, x: _inverse(t, t.sqrt(x)),
}
"""The powers that backends compute in this way, too."""


def _broadcast(shapes: list[Shape]) -> Shape:
    """Return the shape that shapes broadcast to."""
    length = max(map(len, shapes))
    padded = [(1,) * (length - len(shape)) + shape for shape in shapes]
    sizes = [{n for n in column if n != 1} for column in zip(*padded, strict=True)]
    if any(len(each) > 1 for each in sizes):
        raise ProgramError(f"the shapes {', '.join(map(str, shapes))} do not broadcast")
    return tuple([each.pop() if each else 1 for each in sizes])


def _unary(name: str) -> Callable[..., Any]:
    return lambda self, x: self.elementwise(name, (x,), x.dtype)


def _binary(name: str, compares: bool = False) -> Callable[..., Any]:
    def method(self: Tracer, x: Symbol, y: Any) -> Symbol:
        x, y = self.promote(x, self.symbol(y, x.dtype))
        return self.elementwise(name, (x, y), bool_ if compares else x.dtype)

    return method


def _refused(name: str) -> Callable[..., Any]:
    def method(self: Tracer, *args: Any, **keywords: Any) -> Any:
        raise ProgramError(f"programs have no operation {name}")

    return method


_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor")
_LONG_DEFAULTS = ("gamma_quantile_slope", "beta_quantile_slope")
"""Operations whose defaults are hundreds of instructions, which would take seconds to compile in each program."""
for _name, _function in declarations(Backend).items():
    if _name in UNARY:
        setattr(Tracer, _name, _unary(_name))
    elif _name in _BINARY:
        setattr(Tracer, _name, _binary(_name))
    elif _name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Tracer, _name, _binary(_name, compares=True))
    elif _name in _LONG_DEFAULTS or (_name not in vars(Tracer) and operation(_function).required):
        setattr(Tracer, _name, _refused(_name))
