"""The pickle instructions that push a literal value: numbers, strings, bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import methodcaller
from struct import Struct
from typing import Any

from burnpy.record.torch_machine import Instruction, Machine

_LONGEST_NUMBER = 400

_BYTE, _UINT32, _INT32, _UINT64 = Struct("<B"), Struct("<I"), Struct("<i"), Struct("<Q")
_text = methodcaller("decode", "utf-8", "surrogatepass")
_latin: Callable[[bytes], Any] = methodcaller("decode", "latin-1")  # as Python 2 wrote strings
_int = partial(int.from_bytes, byteorder="little", signed=True)


def _constant(value: Any) -> Instruction:
    def run(machine: Machine, at: int) -> int:
        machine.stack.append(value)
        return at

    return run


def _fixed(form: Struct) -> Instruction:
    """An instruction that pushes a number of fixed size."""
    unpack, size = form.unpack_from, form.size

    def run(machine: Machine, at: int) -> int:
        machine.stack.append(unpack(machine.data, at)[0])
        return at + size

    return run


def _counted(length: Struct, convert: Callable[[bytes], Any]) -> Instruction:
    """An instruction that reads a length and that many bytes, and pushes ``convert`` of the bytes."""
    unpack, size = length.unpack_from, length.size

    def run(machine: Machine, at: int) -> int:
        start = at + size
        end: int = start + unpack(machine.data, at)[0]
        if end < start:
            raise ValueError("a negative length")
        machine.stack.append(convert(machine.data[start:end]))
        return end

    return run


def _byte(machine: Machine, at: int) -> int:
    machine.stack.append(machine.data[at])
    return at + 1


def _int_line(machine: Machine, at: int) -> int:
    text, at = machine.line(at, _LONGEST_NUMBER)
    machine.stack.append(text == b"01" if text in (b"00", b"01") else int(text.removesuffix(b"L")))
    return at


def _float_line(machine: Machine, at: int) -> int:
    text, at = machine.line(at, _LONGEST_NUMBER)
    machine.stack.append(float(text))
    return at


def _text_line(machine: Machine, at: int) -> int:
    text, at = machine.line(at)
    machine.stack.append(text.decode("raw-unicode-escape"))
    return at


LITERALS: Mapping[str, Instruction] = {
    "NONE": _constant(None),
    "NEWTRUE": _constant(True),
    "NEWFALSE": _constant(False),
    "EMPTY_TUPLE": _constant(()),
    "BININT1": _byte,
    "BININT2": _fixed(Struct("<H")),
    "BININT": _fixed(_INT32),
    "BINFLOAT": _fixed(Struct(">d")),
    "LONG1": _counted(_BYTE, _int),
    "LONG4": _counted(_INT32, _int),
    "INT": _int_line,
    "LONG": _int_line,
    "FLOAT": _float_line,
    "BINUNICODE": _counted(_UINT32, _text),
    "SHORT_BINUNICODE": _counted(_BYTE, _text),
    "BINUNICODE8": _counted(_UINT64, _text),
    "UNICODE": _text_line,
    "BINSTRING": _counted(_INT32, _latin),
    "SHORT_BINSTRING": _counted(_BYTE, _latin),
    "BINBYTES": _counted(_UINT32, bytes),
    "SHORT_BINBYTES": _counted(_BYTE, bytes),
    "BINBYTES8": _counted(_UINT64, bytes),
}
"""The instructions, by the names that `pickletools` uses."""
