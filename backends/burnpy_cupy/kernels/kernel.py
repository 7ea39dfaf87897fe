"""From an operation to its kernel: `Kernels` finds those written by hand, `CuPyPrograms` makes those of programs.

A program runs in one launch, or in three if it adds up rows.
Empty arrays, and layouts that no `Geometry` describes, use the methods of `burnpy_array`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import kind_of
from burnpy.backend.primitives import DType
from burnpy.backend.programs import Extent, Program, ProgramError
from burnpy_array import ArrayBackend
from burnpy_array.programs import operation_program
from burnpy_cupy.kernels.elementwise import C_NAMES, Elementwise, ElementwiseKernel, with_headers
from burnpy_cupy.kernels.launch import along, flat, matrix
from burnpy_cupy.kernels.programs import Kernel, kernels_enabled

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
_SHARED = 48 << 10
"""The bytes of shared memory that a block can have without asking for more."""


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
            names = {letter: C_NAMES.get(t.name, t.name) for letter, t in types.items()}
            source = self._raw[name].typed(constants, names)
            kernel = self._xp.RawKernel(source, name, _OPTIONS)
            if shared > _SHARED:
                kernel.max_dynamic_shared_size_bytes = shared
            self._typed[key] = kernel
        return kernel


class CuPyPrograms(ArrayBackend):
    """The kernels of programs, which are traced from the defaults of operations, and `run`."""

    _programs: dict[tuple[Any, ...], Kernel | None]

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

    def _elementwise_kernel(
        self, name: str, xs: Sequence[Any], rest: tuple[Any, ...], numbers: int = 0
    ) -> Kernel | None:
        """Return the kernel of an operation whose arrays have one shape and one dtype, and which takes numbers."""
        x = xs[0]
        if not x.size:
            return None
        for y in xs[1:]:
            if y.shape != x.shape or y.dtype is not x.dtype:
                return None
        return self._operation_kernel(name, ("full",) * len(xs) + ("scalar",) * numbers, x.dtype, rest)

    def _operation_kernel(
        self, name: str, extents: tuple[str, ...], dtype: DType, rest: tuple[Any, ...] = ()
    ) -> Kernel | None:
        """Return the kernel of an operation; None if it has none, or kernels are off. See `operation_program`."""
        key = (name, extents, dtype, *rest)
        try:
            return self._programs[key]
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
        return self._programs[key]

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

    Its program has the name of the operation, unless another one is given. The last parameters are so many numbers:
    one kernel serves all their values. The others are part of the program.
    """

    def method(self: CuPyPrograms, *args: Any) -> Any:
        last = len(args) - numbers
        xs = args[:arrays]
        kernel = self._elementwise_kernel(program or name, xs, args[arrays:last], numbers)
        if kernel is None:
            return getattr(ArrayBackend, name)(self, *args)
        return self._call(kernel, xs, args[last:], flat(xs[0].size), xs[0].shape, ())[0]

    return documented(method, name)


def broadcast_method(name: str) -> Callable[..., Any]:
    """Return the method of an elementwise operation of two operands, which are broadcast first."""
    alike = elementwise_method(name, 2)

    def method(self: CuPyPrograms, x: Any, y: Any) -> Any:
        return alike(self, *self._of_one_shape(x, y))

    return documented(method, name)


def along_method(name: str, arrays: int = 1) -> Callable[..., Any]:
    """Return the method of an operation of some arrays along a dimension."""

    def method(self: CuPyPrograms, *args: Any) -> Any:
        *xs, dim = args
        geometry = along(xs[0].shape, (dim,)) if xs[0].ndim else None
        kernel = None if geometry is None else self._elementwise_kernel(name, xs, (1,))
        if geometry is None or kernel is None:
            return getattr(ArrayBackend, name)(self, *args)
        return self._call(kernel, xs, (), geometry, xs[0].shape, ())[0]

    return documented(method, name)


def documented(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a method with the name and the docstring of an operation."""
    method.__name__, method.__doc__ = name, getattr(Backend, name).__doc__
    return method
