"""The way from an operation to machine code, its third stop: which kernel runs an operation, and how it is made.

An operation is declared in `burnpy.backend.operations`, with a default; the method of the NumPy backend that overrides
it asks here for a kernel, and calls it::

    operation_kernel(name, …)  → operation_program, the default traced   ┐
    formula_kernel(formula, …) → formula_program, the formula traced     ├→ program_kernel ┐
    Backend.run(program, …)                                              ┘                 ├→ emit, `loaded` → Kernel
    template_kernel(template, …)                               (which writes its own text) ┘

Each is looked for once and kept. Whether a kernel is used depends on the program, on the machine and on settings alone,
so that a computation that is repeated or resumed gives the same bits. ``BURNPY_COMPILE=0`` turns kernels off. If
compiling fails, kernels are off from then on, with one warning.

This module is imported with the backend, and imports the others of the package with the first kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.runtime import CompileTimes
from burnpy_array.array_base import is_half

if TYPE_CHECKING:
    from burnpy.backend.operations.programs import Formula
    from burnpy.backend.programs import Program
    from burnpy_numpy.kernels.compiler.entry import Call, Entry
    from burnpy_numpy.kernels.compiler.target import Unsupported
    from burnpy_numpy.kernels.launch import Kernel, TemplateKernel

T = TypeVar("T")

LEAST = 2
"""The least number of elements for which kernels replace several calls of NumPy. A single element may be one of NumPy's
scalars, which kernels cannot read."""
MANY = 2048
"""The same for what is one call of NumPy, and for most kernels of templates, whose call takes longer."""
LONGEST = 1 << 16
"""The longest row that is summed by a kernel: longer sums would be less exact than NumPy's."""

_lookups: list[dict[Any, Any]] = []
_failure: list[str] = []
"""Why kernels are off, once compiling one has failed, or llvmlite was found to be too old."""
times = CompileTimes(
    "burnpy: compiling kernels for this machine, once; `python -m burnpy_numpy.warm` compiles the common ones ahead, "
    "and BURNPY_PROGRESS=0 hides this line"
)
"""The seconds of the kernels that this process compiled."""


def lookup() -> dict[Any, Any]:
    """Return a new dictionary of kernels, which `forget` empties."""
    made: dict[Any, Any] = {}
    _lookups.append(made)
    return made


def forget() -> None:
    """Empty all dictionaries, so that kernels are looked for anew, as they were turned on or off."""
    for made in _lookups:
        made.clear()


def described(kind: Callable[..., T], *shapes: Any) -> T:
    """Return ``kind(*shapes)``: how arrays of some shapes are computed. It is made once, as kernels are.

    Args:
        kind: a class or a function, which reads nothing else.
        shapes: shapes, dtypes and what else it depends on.
    """
    key = (kind, *shapes)
    try:
        found: T = _described[key]
    except KeyError:
        if len(_described) >= _MOST_DESCRIBED:
            _described.clear()
        found = _described.setdefault(key, kind(*shapes))
    return found


_described: dict[tuple[Any, ...], Any] = lookup()
_MOST_DESCRIBED = 1 << 10
_operations: dict[tuple[Any, ...], Kernel | None] = lookup()
used = _operations
"""Empty until this process looks for an operation's kernel, for which it loads the compiler."""
_formulas: dict[tuple[Any, ...], Kernel | None] = lookup()
_programs: dict[Program, Kernel | None] = lookup()
_families: dict[str, Any] = lookup()
_templates: dict[tuple[Any, ...], TemplateKernel | None] = lookup()
_entries: dict[tuple[Any, ...], Entry | None] = lookup()
_ONE, _TWO = ("full",), ("full", "full")
_AND_NUMBERS = tuple(("full", *["scalar"] * count) for count in range(4))


def has_kernels(dtype: Any) -> bool:
    """Return whether programs are compiled for a dtype: a float one. Those of 16 bits are computed in float32."""
    return dtype is float32 or dtype is float64 or is_half(dtype)


def elementwise_kernel(name: str, rest: tuple[Any, ...], x: Any, y: Any = None) -> Kernel | None:
    """Return the kernel of an elementwise operation, if the arrays are of one shape and a usual dtype."""
    dtype = x.dtype
    if x.size < LEAST or not (dtype is float32 or has_kernels(dtype)):
        return None
    if y is None:
        return operation_kernel(name, _ONE, dtype, rest)
    if y.dtype is not dtype or y.shape != x.shape:
        return None
    return operation_kernel(name, _TWO, dtype, rest)


def kernel_of_numbers(name: str, x: Any, count: int) -> Kernel | None:
    """Return the kernel of an elementwise operation of an array and of numbers, which may be others at each call."""
    dtype = x.dtype
    if x.size < LEAST or not (dtype is float32 or has_kernels(dtype)):
        return None
    return operation_kernel(name, _AND_NUMBERS[count], dtype, ())


def operation_kernel(name: str, extents: tuple[str, ...], dtype: Any, rest: tuple[Any, ...]) -> Kernel | None:
    """Return the kernel of an operation; None if it has none, or kernels are off.

    Args:
        name: the operation, or a function of `burnpy_array.programs`.
        extents: the extent of each of its arrays, see `burnpy.backend.programs.Extent`; "index" is a column of int64,
            "mask_full", "mask_row" and "mask_column" arrays of bools.
        dtype: the dtype of all of them.
        rest: its other arguments.
    """
    key = (name, extents, dtype, rest)
    try:
        return _operations[key]
    except KeyError:
        kernel = None
        if kernels_enabled():
            from burnpy_array.programs import operation_program

            program = operation_program(name, extents, dtype.name, rest)
            kernel = None if program is None else program_kernel(program)
        return _operations.setdefault(key, kernel)


def formula_kernel(formula: Formula, xs: Sequence[Any], numbers: int, extents: tuple[str, ...] = ()) -> Kernel | None:
    """Return the kernel of an elementwise formula of arrays of one dtype, and of numbers; None if kernels are off.
    ``extents`` are those of the arrays: "full", "row" or "column", by default all full."""
    key = (formula, len(xs), xs[0].dtype, numbers, extents)
    try:
        return _formulas[key]
    except KeyError:
        from burnpy.backend.programs.trace import formula_program

        program = formula_program(formula, xs[0].dtype.name, len(xs), numbers, (), extents)
        return _formulas.setdefault(key, program_kernel(program))


def program_kernel(program: Program) -> Kernel | None:
    """Return the kernel of a program; None if it has none, or kernels are off."""
    try:
        return _programs[program]
    except KeyError:
        return _programs.setdefault(program, _compiled(program) if kernels_enabled() else None)


def _compiled(program: Program) -> Kernel | None:
    """Compile a program; None if kernels cannot compute it."""
    from burnpy.backend.programs import ProgramError
    from burnpy_numpy.kernels.compiler.emitter import call_of, emit, layout_of
    from burnpy_numpy.kernels.compiler.instructions import tabulated
    from burnpy_numpy.kernels.compiler.llvm import vector_bytes
    from burnpy_numpy.kernels.compiler.target import target
    from burnpy_numpy.kernels.launch import Kernel

    if not target().fuses and any(step.dtype == "float16" for step in program.instructions):
        return None  # without an instruction LLVM converts by a function that no kernel may call
    program = tabulated(program, _numbers_of)

    def write() -> str:
        text, _ = emit(program, vector_bytes())
        return text

    try:
        layout = layout_of(program)
        function = loaded(program.name, program.key, write, call_of(program, layout))
    except ProgramError:
        return None
    return None if function is None else Kernel(program, write, layout, function)


def _numbers_of(program: Program, numbers: Sequence[float]) -> Sequence[float]:
    """Return what a program of one float32 array computes of numbers."""
    from burnpy.backend.programs.program import execute
    from burnpy_numpy.backend import NumPy

    with np.errstate(all="ignore"):
        (out,) = execute(NumPy(), program, [np.array([numbers], np.float32)], ())
    computed: list[float] = out.ravel().tolist()
    return computed


def family_kernels(name: str) -> Any:
    """Return the module of this package with a family's kernels, imported at its first use; None if kernels are off."""
    try:
        return _families[name]
    except KeyError:
        module = import_module(f"burnpy_numpy.kernels.{name}") if kernels_enabled() else None
        return _families.setdefault(name, module)


TRANSPOSED = 1 << 13
"""The least number of elements for which a copy of an array whose neighbours lie apart is a kernel's."""


def contiguous(x: Any) -> Any:
    """Return an array whose elements lie side by side in order: x itself, or a copy."""
    if x.flags.c_contiguous and x.ndim:  # of no dimension a copy has one
        return x
    x = untransposed(x)
    if x.dtype.kind == "V" and x.itemsize == 2:  # bfloat16, which NumPy copies one by one
        return np.ascontiguousarray(x.view(np.int16)).view(x.dtype)
    return np.ascontiguousarray(x)


def untransposed(x: Any) -> Any:
    """Return a C-contiguous copy of an array that a kernel transposes for it; other arrays as they are."""
    kernels = None if x.flags.c_contiguous or x.size < TRANSPOSED else family_kernels("shape")
    out = None if kernels is None else kernels.transposed(x)
    return x if out is None else out


def template_kernel(template: Callable[..., str], *parameters: Any) -> TemplateKernel | None:
    """Return the kernel of a template; None if kernels are off.

    Args:
        template: a function that returns the text of a kernel for parameters. Its name is the kernel's.
        parameters: its arguments: strings, numbers, and dtypes. It gets the names of dtypes; NumPy takes a microsecond
            to make one.
    """
    key = (template, *parameters)
    try:
        return _templates[key]
    except KeyError:
        named = tuple([p.name if isinstance(p, np.dtype) else p for p in parameters])
        return _templates.setdefault(key, _written(template, named) if kernels_enabled() else None)


def _written(template: Callable[..., str], parameters: tuple[Any, ...]) -> TemplateKernel | None:
    """Return the kernel of a template, whose text is compiled unless the disk has its code."""
    from burnpy_numpy.kernels.compiler.entry import TABLE
    from burnpy_numpy.kernels.launch import TemplateDescription, TemplateKernel

    def write() -> str:
        return template(*parameters)

    name = template.__name__
    function = loaded(name, repr((name, *parameters)), write, TABLE)
    sentence = f"a template of burnpy_numpy with the parameters {', '.join(map(str, parameters))}"
    return None if function is None else TemplateKernel(TemplateDescription(name, sentence), write, function)


def entry_kernel(template: Callable[..., str], *parameters: Any) -> Entry | None:
    """Return the function ``entry`` that a template writes for parameters; None if kernels are off."""
    key = (template, *parameters)
    try:
        return _entries[key]
    except KeyError:
        made = None
        if kernels_enabled():
            made = loaded(template.__name__, repr((template.__name__, *parameters)), lambda: template(*parameters))
        return _entries.setdefault(key, made)


def loaded(name: str, key: str, write: Callable[[], str], call: Call | None = None) -> Entry | None:
    """Return the built-in function of a kernel; None, with a warning, if compiling it fails.

    Args:
        name: the kernel's name, for the warning.
        key: what distinguishes its text from others that these sources write for this machine.
        write: a function that returns the text. It is called if the disk does not have the code.
        call: how Python calls the function ``kernel`` of the text; None if the text has a function ``entry``.
    """
    from burnpy_numpy.kernels.compiler.llvm import undisturbed

    found = undisturbed(lambda: _built(key, None, call))
    if found is None:
        start = perf_counter()
        text = write()
        found = undisturbed(lambda: _built(key, text, call))
        times.note(perf_counter() - start)
    if not isinstance(found, Exception):
        return found
    _turn_off(f"compiling {name} failed: {found}")
    return None


def _built(key: str, text: str | None, call: Call | None) -> Entry | Exception | None:
    """Return the function of a kernel, or the error, of any class, that llvmlite, LLVM or the loader raised. Without a
    text, the code is read from the disk; None if the disk does not have it. This must run `undisturbed`, since it
    cannot tell these errors from what a signal handler raises."""
    from burnpy_numpy.kernels.compiler.llvm import builtin, load

    try:
        code = _stored(key) if text is None else _compiled_text(key, text)
        if code is None:
            return None
        if call is None:
            return builtin(load(code, "entry")["entry"], None)
        return builtin(_entry_functions()[call.entry], call.record(load(code, "kernel")["kernel"]))
    except MemoryError:  # no fault of the kernel: the next attempt may succeed
        raise
    except Exception as error:
        return error.with_traceback(None)


@cache
def _entry_functions() -> dict[str, int]:
    """Return the addresses of the functions by which Python calls kernels."""
    from burnpy_numpy.kernels.compiler.entry import ENTRIES
    from burnpy_numpy.kernels.compiler.llvm import load

    return load(_stored(ENTRIES) or _compiled_text(ENTRIES, ENTRIES), "program", "table")


def _stored(key: str) -> bytes | None:
    """Return the machine code that the disk has."""
    from burnpy_numpy.kernels.compiler.target import read

    return read(_name(key))


def _compiled_text(key: str, text: str) -> bytes:
    """Return the machine code of a text, which is written to the disk."""
    from burnpy_numpy.kernels.compiler.llvm import compile_text
    from burnpy_numpy.kernels.compiler.target import write

    code = compile_text(text)
    write(_name(key), code)
    return code


def _name(key: str) -> str:
    import hashlib

    return hashlib.sha256(f"{key} {_environment()}".encode()).hexdigest()


@cache
def _environment() -> str:
    """Return all that a kernel's code depends on besides its program: machine, versions, and what writes it."""
    import hashlib
    from pathlib import Path

    import burnpy
    from burnpy_numpy.kernels.compiler.llvm import machine

    sources = sorted(Path(__file__).parent.rglob("*.py"))
    sources += sorted((Path(burnpy.__file__).parent / "backend" / "programs").glob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    return f"{burnpy.__version__} {digest} {object.__basicsize__} {machine()}"


def kernels_enabled() -> bool:
    """Return whether kernels are on: llvmlite is installed, the machine supported, and nothing turned them off."""
    return _setting() and not _failure


@cache
def _setting() -> bool:
    if os.environ.get("BURNPY_COMPILE", "1") == "0":
        return False
    from burnpy_numpy.kernels.compiler.llvm import undisturbed
    from burnpy_numpy.kernels.compiler.target import Outdated

    obstacle = undisturbed(_obstacle)
    if isinstance(obstacle, Outdated):  # somebody wanted kernels and installed it
        _turn_off(str(obstacle))
    if obstacle is None and os.environ.get("BURNPY_MALLOPT") != "0":
        from burnpy_numpy.allocator import align_arrays, handler_text

        entry = loaded("array_memory", "array_memory", handler_text)
        if entry is not None:
            align_arrays(entry)
    return obstacle is None


def _obstacle() -> Unsupported | None:
    """Return why kernels cannot be compiled and run here; None if they can."""
    from burnpy_numpy.kernels.compiler.llvm import llvm
    from burnpy_numpy.kernels.compiler.target import Unsupported, target
    from burnpy_numpy.kernels.launch import reads_arrays

    try:
        llvm()
        target()
    except Unsupported as error:
        return error
    return None if reads_arrays() else Unsupported("this Python does not keep arrays as CPython does")


def reason() -> str | None:
    """Return why kernels are off; None if they are on."""
    if kernels_enabled():
        return None
    if _failure:
        return _failure[0]
    return "BURNPY_COMPILE is 0" if os.environ.get("BURNPY_COMPILE") == "0" else str(_obstacle())


def failure() -> str | None:
    """Return why kernels are off for this process, although they could be used; None if they are not."""
    return _failure[0] if _failure else None


def _turn_off(reason: str) -> None:
    """Turn kernels off for this process, with one warning."""
    import warnings

    if not _failure:
        _failure.append(reason)
        forget()
        warnings.warn(
            f"burnpy does without compiled kernels in this process, as {reason}; "
            "BURNPY_COMPILE=0 turns them off without a warning",
            RuntimeWarning,
            stacklevel=3,
        )
