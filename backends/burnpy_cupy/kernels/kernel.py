"""From an operation to its kernel: `Kernels` finds those written by hand, `CuPyPrograms` makes those of programs.

A program runs in one launch, or in three if it adds up rows.
Empty arrays, and layouts that no `Geometry` describes, use the methods of `burnpy_array`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import FLOATS, kind_of
from burnpy.backend.primitives import DType
from burnpy.backend.programs import Extent, Program, ProgramError
from burnpy.backend.programs.program import Schedule
from burnpy.backend.runtime import executed
from burnpy_array import ArrayBackend
from burnpy_array.array_base import NUMBERS
from burnpy_array.programs import operation_program
from burnpy_cupy.kernels.elementwise_kernel import C_NAMES, REGISTER, Elementwise, ElementwiseKernel, with_headers
from burnpy_cupy.kernels.emitter import FUNCTIONS, expression
from burnpy_cupy.kernels.launch import along, flat, matrix
from burnpy_cupy.kernels.programs import Kernel, kernels_enabled, ran

MINUS_INFINITY = "#define MINUS_INFINITY __int_as_float(0xff800000)\n"
"""A part of the preamble; NVRTC does not know C's INFINITY."""

SUM = """
template <typename T> struct burnpy_sum { typedef float type; };
template <> struct burnpy_sum<double> { typedef double type; };
"""
"""A part of the preamble: the type in which sums of T are accumulated, float32 for 16-bit floats."""

SUM_TYPE = "typedef typename burnpy_sum<T>::type F;\n"


class Raw(NamedTuple):
    """The source of a `cupy.RawKernel` with one function, for types and constants that it names by capital letters."""

    source: str

    def typed(self, constants: Mapping[str, int], types: Mapping[str, str]) -> str:
        """Return the whole source for types of CUDA."""
        body = "".join(
            [
                *[f"typedef {t} {letter};\n" for letter, t in types.items()],
                *[f"#define {constant} {value}\n" for constant, value in constants.items()],
                MINUS_INFINITY,
                self.source,
            ]
        )
        return with_headers(body)


_OPTIONS = ("--fmad=false",)
"""Options of raw kernels: a score is rounded before its maximum is subtracted, as it was when the maximum was found."""
_NONE: Mapping[str, int] = {}


class Kernels(dict[str, ElementwiseKernel]):
    """The kernels by name, created on first access, and compiled for the dtypes they are called with.

    Args:
        xp: the module cupy.
        elementwise: the elementwise kernels of all families.
        raw: their raw kernels.
    """

    def __init__(self, xp: Any, elementwise: Mapping[str, Elementwise], raw: Mapping[str, Raw]) -> None:
        super().__init__()
        self._xp, self._elementwise, self._raw = xp, elementwise, raw
        self._typed: dict[tuple[Any, ...], Any] = {}
        self._shared: dict[tuple[Any, ...], int] = {}  # the bytes that launches of a kernel may ask for
        self._asking = threading.Lock()

    def __missing__(self, name: str) -> ElementwiseKernel:
        # two threads at once may create it twice, which is harmless: the kernels are equal
        kernel = self[name] = ElementwiseKernel(self._xp, name, self._elementwise[name])
        return kernel

    def typed(self, name: str, constants: Mapping[str, int] = _NONE, shared: int = 0, **types: DType) -> Any:
        """Return a raw kernel for the constants and dtypes that its source names.

        Args:
            name: the name of the kernel.
            constants: the values of the constants.
            shared: the bytes of shared memory that a launch asks for.
            types: the dtypes by letter.
        """
        key = (name, *types.values(), *constants.values())
        kernel = self._typed.get(key)
        if kernel is None:
            names = {letter: C_NAMES[t.name] for letter, t in types.items()}
            source = self._raw[name].typed(constants, names)
            kernel = self._typed[key] = self._xp.RawKernel(source, name, _OPTIONS)
        if shared > self._shared.get(key, 0):  # CUDA gives 48 KB at most unasked, the arrays of the source included
            with self._asking:  # so that no other thread asks for less afterwards
                self._shared[key] = max(shared, self._shared.get(key, 0))
                kernel.max_dynamic_shared_size_bytes = self._shared[key]
        return kernel


class Pointwise:
    """An elementwise program as a kernel, as `burnpy.backend.explain` lists it: its arrays are of any strides.

    Args:
        xp: the module cupy.
        program: the program, whose arrays are all FULL.

    Raises:
        ProgramError: kernels do not have the program's instructions.
    """

    def __init__(self, xp: Any, program: Program) -> None:
        schedule, lines = Schedule(program, FLOATS, ints=True), list[str]()
        for k in schedule.live:
            step = program.instructions[k]
            args = [f"v{a}" for a in step.args], [program.instructions[a].dtype for a in step.args]
            text = f"({REGISTER[step.dtype]})in{step.value}" if step.op == "input" else expression(step, *args)
            lines.append(f"const {REGISTER[step.dtype]} v{k} = {text};")
        inputs = [f"{'float64' if e is Extent.SCALAR else t} in{k}" for k, (e, t) in enumerate(program.inputs)]
        (out,) = program.outputs
        code = "\n      ".join([*lines, f"out = v{out}"])
        dtype = program.instructions[out].dtype
        declared = Elementwise(", ".join(inputs), f"{dtype} out", code, FUNCTIONS, exact=True)
        self.program, self.launch = program, ElementwiseKernel(xp, f"burnpy_{program.name}", declared)

    @property
    def text(self) -> str:
        """The sources for the layouts of arrays that it was called with."""
        return "\n".join(self.launch.sources)


class CuPyPrograms(ArrayBackend):
    """The kernels of programs, which are traced from the defaults of operations, and `run`."""

    _programs: dict[tuple[Any, ...], Any]  #: each a `Kernel`, a `Pointwise` or None

    def run(self, program: Program, xs: Sequence[Any], numbers: tuple[float, ...]) -> list[Any]:
        given, rows, columns = program.bind(xs, numbers)
        geometry = flat(rows * columns) if program.elementwise else matrix(rows, columns)
        kernel = None
        if rows * columns and (program.elementwise or geometry.occupies):
            kernel = self._program_kernel(program)
        if kernel is None:
            return super().run(program, xs, numbers)
        xs = self._checked(program, given, columns)
        return self._call(kernel, xs, numbers, geometry, (rows, columns), (rows, 1))  # type: ignore[no-any-return]  # as the kernel returns it

    def _pointwise(
        self,
        name: str,
        extents: tuple[str, ...],
        xs: Sequence[Any],
        numbers: Sequence[float],
        rest: tuple[Any, ...] = (),
    ) -> Any:
        """Return the result of an elementwise operation of arrays, most of one dtype; None if it has no kernel."""
        dtype = xs[0].dtype
        for y, extent in zip(xs, extents, strict=False):
            if y.dtype is not dtype and extent == "full":
                return None
        key = ("pointwise", name, extents, dtype, *rest)
        if key not in self._programs:
            self._programs[key] = self._pointwise_kernel(name, extents, dtype, rest)
        kernel = self._programs[key]
        if kernel is None:
            return None
        out = self._call(kernel.launch, *xs, *numbers)
        if executed:
            ran(kernel)
        return out

    def _pointwise_kernel(
        self, name: str, extents: tuple[str, ...], dtype: DType, rest: tuple[Any, ...]
    ) -> Pointwise | None:
        program = operation_program(name, extents, dtype.name, rest) if kind_of(dtype) == "float" else None
        try:
            return Pointwise(self.xp, program) if program is not None and kernels_enabled() else None
        except ProgramError:
            return None

    def _operation_kernel(
        self, name: str, extents: tuple[str, ...], dtype: DType, rest: tuple[Any, ...] = ()
    ) -> Kernel | None:
        """Return the kernel of an operation; None if it has none, or kernels are off. See `operation_program`."""
        key = (name, extents, dtype, *rest)
        try:
            return self._programs[key]  # type: ignore[no-any-return]  # as kernels of operations are kept
        except KeyError:
            program = operation_program(name, extents, dtype.name, rest) if kind_of(dtype) == "float" else None
            kernel = self._programs[key] = None if program is None else self._program_kernel(program)
            return kernel

    def _program_kernel(self, program: Program) -> Kernel | None:
        """Return the kernel of a program; None if it has none, or kernels are off."""
        key = (program.key,)
        if key not in self._programs:
            try:
                self._programs[key] = Kernel(self.xp, program) if kernels_enabled() else None
            except ProgramError:
                self._programs[key] = None
        return self._programs[key]  # type: ignore[no-any-return]  # as kernels of programs are kept

    def _checked(self, program: Program, given: list[Any], columns: int) -> list[Any]:
        """Return the inputs that are arrays, with indices of gathers within bounds; those beyond are a late error."""

        def refused(_: int) -> ProgramError:
            return ProgramError(f"program {program.name} got an index out of the range of its {columns} columns")

        for step in program.instructions:
            if step.op == "gather":
                source = program.instructions[step.args[1]]
                if source.op != "input" or not isinstance(source.value, int):
                    raise ProgramError(f"program {program.name} gathers by an index that is not one of its inputs")
                given[source.value] = self.bounded(given[source.value], 0, columns - 1, refused, None)
        return [x for x, (extent, _) in zip(given, program.inputs, strict=True) if extent is not Extent.SCALAR]


def elementwise_method(name: str, arrays: int = 1, program: str | None = None, numbers: int = 0) -> Callable[..., Any]:
    """Return the method of an elementwise operation of some arrays and of parameters.

    Its program has the name of the operation, unless another one is given. The last parameters are this many numbers:
    one kernel serves all their values. The others are part of the program.
    """
    extents = ("full",) * arrays + ("scalar",) * numbers

    def method(self: CuPyPrograms, *args: Any) -> Any:
        last = len(args) - numbers
        out = self._pointwise(program or name, extents, args[:arrays], args[last:], args[arrays:last])
        return getattr(ArrayBackend, name)(self, *args) if out is None else out

    return documented(method, name)


def broadcast_method(name: str) -> Callable[..., Any]:
    """Return the method of an elementwise operation of an array and another or a number."""
    alike = elementwise_method(name, 2)

    def method(self: CuPyPrograms, x: Any, y: Any) -> Any:
        return alike(self, x, self.full((), y, x.dtype) if type(y) in NUMBERS else y)

    return documented(method, name)


def along_method(name: str, arrays: int = 1) -> Callable[..., Any]:
    """Return the method of an operation of some arrays along a dimension."""

    def method(self: CuPyPrograms, *args: Any) -> Any:
        *xs, dim = args
        x = xs[0]
        geometry = along(x.shape, (dim,)) if x.ndim else None
        alike = all(y.shape == x.shape and y.dtype is x.dtype for y in xs)
        kernel = self._operation_kernel(name, ("full",) * arrays, x.dtype, (1,)) if geometry and alike else None
        if geometry is None or kernel is None:
            return getattr(ArrayBackend, name)(self, *args)
        return self._call(kernel, xs, (), geometry, x.shape, ())[0]

    return documented(method, name)


def documented(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a method with the name and the docstring of an operation."""
    method.__name__, method.__doc__ = name, getattr(Backend, name).__doc__
    return method
