"""The compilation of LLVM's intermediate representation to machine code, and its loading, with llvmlite.

Code that was just compiled and code from the disk are loaded in the same way, as an object file.

`undisturbed` makes calls amid which no signal handler runs.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from burnpy.backend.errors import StateError, raised_by_other_code
from burnpy.typevars import T
from burnpy_numpy.kernels.compiler.entry import ARRAY_TYPE, SYMBOLS, Entry
from burnpy_numpy.kernels.compiler.target import Outdated, Target, Unsupported, target

_engines: list[Any] = []
"""The engines that hold the loaded code until the process ends."""
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_engines))  # and no earlier, with this module: arrays get memory by it

_FASTCALL = 0x80
_methods: dict[int, _Method] = {}
"""The definitions to which the built-in functions refer, until the process ends, by the address of their code."""

OLDEST = (0, 50)
"""The oldest version of llvmlite whose LLVM reads the text of kernels."""

_OF_C = {
    **{f"burnpy_{name}": name for name in ("sin", "cos", "tan")},
    **{name: name for name in ("memcpy", "memset", "memmove")},  # which LLVM may write in place of a loop
    **{name: name for name in ("fma", "fmaf", "floor", "floorf", "ceil", "ceilf")},
    "roundeven": "rint",  # the same while nobody changes how the processor rounds, and in every C library
    "roundevenf": "rintf",
}
"""Functions of the C library, by the name under which kernels call them; from ``fma`` on, where the processor that is
compiled for has no instruction for it."""
_OF_C_ON = {"darwin": {"bzero": "bzero"}, "win32": {"__chkstk": "__chkstk"}}
"""Those of one system: bzero is a memset of zeros, and __chkstk touches the pages of a large frame of the stack."""


def functions_of_c(system: str) -> dict[str, str]:
    """Return the functions of the C library of a system, as in `sys.platform`, that kernels call, by their names there.
    A kernel that calls any other function would end the process when it is loaded."""
    return _OF_C | _OF_C_ON.get(system, {})


@cache
def llvm() -> Any:
    """Import llvmlite and prepare it."""
    try:
        import llvmlite  # pyright: ignore[reportMissingTypeStubs]
        import llvmlite.binding as binding  # pyright: ignore[reportMissingTypeStubs]
    except (ImportError, OSError) as error:
        raise Unsupported(f"llvmlite cannot be imported ({error}); pip install 'burnpy[fast]' installs it") from error
    version = re.match(r"(\d+)\.(\d+)", llvmlite.__version__)
    if version is not None and tuple(map(int, version.groups())) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise Outdated(
            f"llvmlite {llvmlite.__version__} is installed and kernels need {needed} or newer, which "
            "pip install --upgrade 'burnpy[fast]' installs"
        )
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    for name, function in functions_of_c(sys.platform).items():
        binding.add_symbol(name, _address_in_c(function))
    for name in SYMBOLS:
        binding.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    binding.add_symbol(ARRAY_TYPE, id(np.ndarray))
    return binding


def _address_in_c(name: str) -> int:
    for library in (None, "ucrtbase", "ntdll", "libm.so.6"):
        try:
            return int(ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value or 0)
        except (OSError, AttributeError, TypeError):
            continue
    raise Unsupported(f"the C library has no {name}")


def vector_bytes() -> int:
    """Return the size of the vectors to compute with: two registers, so that one need not wait for the other."""
    return 2 * target().vector


def machine() -> str:
    """Return what compiled code depends on: the target, and the versions of LLVM."""
    import llvmlite  # pyright: ignore[reportMissingTypeStubs]

    return " ".join(map(str, (*target(), llvmlite.__version__, llvm().llvm_version_info)))


@cache
def generator(chosen: Target) -> Any:
    """Return LLVM's generator of machine code for a target."""
    return (
        llvm()
        .Target.from_triple(chosen.triple)
        .create_target_machine(cpu=chosen.cpu, features=chosen.features, opt=2, jit=True, codemodel="jitdefault")
    )


def optimized(text: str, chosen: Target) -> Any:
    """Return LLVM's module of a text, verified and optimized for a target. Three passes do, as the text decides which
    functions are inlined, has vectors and unrolled loops already, and no loop in it repeats what stays the same. Those
    of ``getFunctionPassManager`` take four times as long, and the kernels no less."""
    binding = llvm()
    module = binding.parse_assembly(text)
    module.verify()
    builder = binding.create_pass_builder(generator(chosen), binding.create_pipeline_tuning_options(speed_level=2))
    inlining, simplifying = binding.create_new_module_pass_manager(), binding.create_new_function_pass_manager()
    inlining.add_always_inliner_pass()
    inlining.add_global_dead_code_eliminate_pass()
    inlining.run(module, builder)
    simplifying.add_sroa_pass()
    simplifying.add_instruction_combine_pass()
    simplifying.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            simplifying.run(function, builder)
    return module


def compile_text(text: str) -> bytes:
    """Return the machine code of a module, as an object file."""
    return bytes(generator(target()).emit_object(optimized(text, target())))


def load(code: bytes, *names: str) -> dict[str, int]:
    """Load an object file until the process ends, and return the addresses of its functions of some names."""
    binding = llvm()
    module = binding.parse_assembly("")
    engine = binding.create_mcjit_compiler(module, generator(target()))
    engine.remove_module(module)  # which `finalize_object` would generate code for, in seven times the time
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    found: dict[str, int] = {name: engine.get_function_address(name) for name in names}
    if not all(found.values()):
        raise RuntimeError(f"compiled code lacks a function of {', '.join(names)}")
    _engines.append(engine)
    return found


class _Method(ctypes.Structure):
    """Python's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def builtin(address: int, record: bytes | None) -> Entry:
    """Return the built-in function of a function by the convention of ``METH_FASTCALL``.

    Args:
        address: the function's address.
        record: its ``self``: what a function of `ENTRIES` reads, see `Call.record`.
    """
    method = _methods.setdefault(address, _Method(b"kernel", address, _FASTCALL, None))
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    create: Any = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    function: Entry = create(ctypes.addressof(method), record, None)
    return function


def undisturbed(call: Callable[[], T]) -> T:
    """Return ``call()``, computed in a thread of its own, or raise what it raises.

    CPython runs signal handlers in the main thread, between any two bytecodes, and a handler may raise any class, such
    as TimeoutError, which is an OSError. burnpy's cache and llvmlite handle errors of the system and of libraries, and
    would take the handler's exception for one of them. Where llvmlite raises another in its place, no traceback tells
    the origin. In another thread no handler runs: it interrupts the wait alone. What it raises is raised when the call
    has ended, so that no thread is left that LLVM runs in when the process ends.

    `threading.Thread` is no help, as its ``start`` handles errors, too.
    """
    calls, results, errors = [call], list[T](), list[BaseException]()
    bell, process = allocate_lock(), os.getpid()
    bell.acquire()

    def run() -> None:
        try:
            taken = calls.pop()
        except IndexError:  # the caller was interrupted before
            return
        try:
            results.append(taken())
        except BaseException as error:  # raised again by the thread that waits
            errors.append(error)
        bell.release()

    def wait() -> None:
        while not (results or errors):
            bell.acquire(timeout=1)
            if os.getpid() != process:
                raise StateError(
                    "this process was forked while a kernel was compiled, by the handler of a signal; fork between "
                    "operations"
                )

    try:
        start_new_thread(run, ())
        wait()
    except BaseException as error:
        begun = False
        try:
            calls.pop()
        except IndexError:
            begun = True
        if begun:
            wait()
        elif isinstance(error, RuntimeError) and not raised_by_other_code(error, ()):
            return call()  # no thread can be started, as when the interpreter ends
        raise
    try:
        if errors:
            raise errors[0]
        return results[0]
    finally:
        errors.clear()  # whose traceback refers to this frame: a cycle that would stay until garbage collection
