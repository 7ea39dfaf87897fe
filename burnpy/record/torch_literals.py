"""The pickle interpreter's stack and memo, and the instructions that push literal values: numbers, strings, bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import methodcaller
from struct import Struct
from typing import Any, TypeAlias

from burnpy.backend.errors import a
from burnpy.record.torch_values import LONGEST_KEY, Limits


class Machine:
    """The stack and memo of one pickle.

    A mark moves the values on the stack to ``marks`` and starts an empty stack. So no instruction can reach a mark or
    the values beneath it: popping from the empty stack raises IndexError.
    """

    __slots__ = ("data", "limits", "marks", "memory", "stack")

    def __init__(self, data: bytes, source: str) -> None:
        self.data = data
        self.limits = Limits(len(data), source)
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memory: list[Any] = []

    def marked(self) -> list[Any]:
        """Pop the last mark and return the values that were pushed after it."""
        values, self.stack = self.stack, self.marks.pop()
        return values

    def top(self, kind: type) -> Any:
        """Return the value on top of the stack, which must be exactly of type ``kind``."""
        value = self.stack[-1]
        if type(value) is not kind:
            raise TypeError(f"{a(type(value).__name__)} where {a(kind.__name__)} should be")
        return value

    def line(self, at: int, longest: int | None = None) -> tuple[bytes, int]:
        """Return the bytes from ``at`` to the end of the line, and the position of the next line."""
        end = self.data.index(b"\n", at, None if longest is None else at + longest)
        return self.data[at:end], end + 1

    def put(self, index: int) -> None:
        """Note the value on top of the stack under an index of the memo."""
        if index == len(self.memory):  # the usual case: picklers number the memo consecutively
            self.memory.append(self.stack[-1])
        else:
            self.memory[index] = self.stack[-1]

    def enter(self, values: list[Any]) -> None:
        """Add alternating keys and values to the dict on top of the stack."""
        target, check = self.top(dict), self.limits.key
        for key, value in zip(values[::2], values[1::2], strict=True):
            if type(key) is not str or len(key) > LONGEST_KEY:
                check(key)
            target[key] = value


Instruction: TypeAlias = Callable[[Machine, int], int]
"""A function that runs one instruction: it takes its argument's position and returns the next instruction's.

It does not check that the argument ends before the file does: if it does not, there is no next instruction to run."""


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
    """Return an instruction that pushes a number of fixed size."""
    unpack, size = form.unpack_from, form.size

    def run(machine: Machine, at: int) -> int:
        machine.stack.append(unpack(machine.data, at)[0])
        return at + size

    return run


def _counted(length: Struct, convert: Callable[[bytes], Any]) -> Instruction:
    """Return an instruction that reads a length and that many bytes, and pushes ``convert`` of the bytes."""
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
