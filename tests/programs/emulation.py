"""Kernels for AArch64, run on another processor by an emulator: ``pip install unicorn``.

LLVM writes the code and links it, as it does on that processor. The emulator sees the memory of this process, at the
same addresses, so that the code reads Python's objects and the data of arrays where they are, and an access to a page
without permission ends the process. The functions of Python and of the C library that the code calls are called here.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import unicorn
from llvmlite import binding
from unicorn import arm64_const as registers

from burnpy_numpy.kernels.compiler import llvm, target

AARCH64 = target.target_of("baseline", target.Target("aarch64-unknown-linux-gnu", "generic", "", 0, 0), {})
_RETURN = b"\xc0\x03\x5f\xd6"
"""The instruction ``ret``."""
_WITH_VECTORS = 3 << 20
"""The bits that allow programs to use vector registers."""
_STACK, _MEMORY = 1 << 23, 1 << 47
"""The size of the stack, and the end of the addresses that a process can have."""
_INTS = registers.UC_ARM64_REG_X0, registers.UC_ARM64_REG_X1, registers.UC_ARM64_REG_X2
_FLOAT = registers.UC_ARM64_REG_D0
_DOUBLES = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)


class _Called(NamedTuple):
    """A function that the code calls."""

    function: Callable[..., Any]
    arity: int  #: the number of its arguments
    takes: tuple[int, ...] = _INTS  #: the registers with its arguments
    gives: int = _INTS[0]  #: the register for its result


def _of_python(name: str, result: Any, argument: Any) -> Callable[..., Any]:
    return ctypes.PYFUNCTYPE(result, argument)((name, ctypes.pythonapi))


_CALLED = {
    "PyLong_AsLongLong": _Called(_of_python("PyLong_AsLongLong", ctypes.c_int64, ctypes.c_void_p), 1),
    "PyLong_FromLongLong": _Called(_of_python("PyLong_FromLongLong", ctypes.c_void_p, ctypes.c_int64), 1),
    "PyFloat_AsDouble": _Called(_of_python("PyFloat_AsDouble", ctypes.c_double, ctypes.c_void_p), 1, _INTS, _FLOAT),
    "PyErr_Occurred": _Called(lambda: 0, 0),  # `_call` has raised the error
    "PyEval_SaveThread": _Called(lambda: 0, 0),
    "PyEval_RestoreThread": _Called(lambda state: 0, 1),
    "memcpy": _Called(ctypes.memmove, 3),
    "memmove": _Called(ctypes.memmove, 3),
    "memset": _Called(ctypes.memset, 3),
    "burnpy_sin": _Called(_DOUBLES(llvm._address_in_c("sin")), 1, (_FLOAT,), _FLOAT),
    "burnpy_cos": _Called(_DOUBLES(llvm._address_in_c("cos")), 1, (_FLOAT,), _FLOAT),
}


class Emulator:
    """A processor whose memory is this process's."""

    def __init__(self) -> None:
        self._turn = Lock()
        self._machine = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self._machine.reg_write(registers.UC_ARM64_REG_CPACR_EL1, _WITH_VECTORS)
        self._machine.mem_map_ptr(mmap.PAGESIZE, _MEMORY - mmap.PAGESIZE, unicorn.UC_PROT_ALL, mmap.PAGESIZE)
        self._pages = [mmap.mmap(-1, size) for size in (_STACK, mmap.PAGESIZE)]
        self._stack, first = (ctypes.addressof(ctypes.c_char.from_buffer(memory)) for memory in self._pages)
        places = range(first, first + 4 * len(_CALLED), 4)
        self.addresses = dict(zip(_CALLED, places, strict=True))
        """The addresses of the functions that the code calls: each returns at once, after `_call`."""
        self._called, self._end = dict(zip(places, _CALLED.values(), strict=True)), places.stop
        self._pages[1][:] = _RETURN * (mmap.PAGESIZE // 4)
        self._machine.hook_add(unicorn.UC_HOOK_CODE, self._call, None, first, self._end - 1)

    def builtin(self, address: int, record: bytes | None) -> Callable[..., Any]:
        """Return the function at an address; see `burnpy_numpy.kernels.compiler.llvm.builtin`."""

        def function(*args: Any) -> Any:
            given = (ctypes.c_void_p * len(args))(*map(id, args))
            with self._turn:  # of threads
                self._machine.reg_write(registers.UC_ARM64_REG_SP, self._stack + _STACK)
                self._machine.reg_write(registers.UC_ARM64_REG_LR, self._end)
                for register, value in zip(_INTS, (id(record), ctypes.addressof(given), len(args)), strict=True):
                    self._machine.reg_write(register, value)
                self._machine.emu_start(address, self._end)
                result = self._machine.reg_read(_INTS[0])
            return ctypes.cast(result, ctypes.py_object).value

        vars(function)["__self__"] = record  # for `code_of`
        return function

    def _call(self, machine: Any, address: int, size: int, data: Any) -> None:
        """Compute a function that the code calls."""
        function, arity, takes, gives = self._called[address]
        given = [machine.reg_read(register) for register in takes[:arity]]
        if takes[0] == _FLOAT:
            given = [struct.unpack("<d", struct.pack("<Q", given[0]))[0]]
        result = function(*given) or 0
        machine.reg_write(gives, struct.unpack("<q", struct.pack("<d", result))[0] if gives == _FLOAT else result)


def emulate() -> None:
    """Have this process compile all kernels for AArch64, and run them by an emulator, from now on."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target.target_of = lambda *args: AARCH64  # every module asks for the target through it
    assert target.target() is AARCH64
    os.environ["BURNPY_MALLOPT"] = "0"  # NumPy would call code of the emulator
    emulator = Emulator()
    for name, address in emulator.addresses.items():
        llvm.llvm().add_symbol(name, address)
    vars(llvm)["builtin"] = emulator.builtin
