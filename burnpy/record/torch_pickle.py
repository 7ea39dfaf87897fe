"""A restricted unpickler for PyTorch's files, which does not use the `pickle` module: it can create plain values and
tensors only.

A pickle is a program. This interpreter knows the few instructions that PyTorch writes; names and calls go through
`burnpy.record.torch_values`. There is no instruction for attributes, imports, classes or extensions.

Time and memory are bounded by the size of the pickle: an instruction allocates less than 100 bytes for each byte of
its own, and does not copy values that another one created. So a hostile pickle takes at most 100 times its size in
memory, and not much longer than a benign one of the same size.

Python's own unpickler, in C, takes a third of the time, but cannot be restricted in this way from outside: it accepts
dict keys of any type, although hashes can be chosen to make a dict slow; it sets attributes of any object on the stack;
and it allocates a memo as long as the largest index in the file. Scanning a pickle for all that first would cost half
of the time saved, and the scan does not know the types of values.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from functools import partial
from operator import methodcaller
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple, TypeAlias

from burnpy.backend.errors import RecordError, a, raised_by_other_code
from burnpy.record.safetensors_file import damaged
from burnpy.record.torch_values import LONGEST_KEY, Limits, TorchStorage, called, named, refused, storage_of


class Machine:
    """The stack and memo of one pickle.

    A mark moves the values on the stack to ``marks`` and starts an empty stack. So no instruction can reach a mark or
    the values beneath it: popping from the empty stack raises IndexError.
    """

    __slots__ = ("data", "limits", "marks", "memory", "stack", "storages")

    def __init__(self, data: bytes, source: str) -> None:
        self.data = data
        self.storages: dict[str, TorchStorage] = {}
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

_LONGEST_NAME = 1000
_uint32 = Struct("<I").unpack_from


class Unpickled(NamedTuple):
    """The value of a pickle: plain values, and a `TorchTensor` for each tensor."""

    value: Any
    end: int  #: the position behind the pickle
    storages: dict[str, TorchStorage]  #: by their keys


def unpickled(data: bytes, source: str, at: int = 0) -> Unpickled:
    """Read a pickle that PyTorch wrote, which begins at a position."""
    machine, run, following = Machine(data, source), _RUN, at
    try:
        while following >= 0:
            at = following
            following = run[data[at]](machine, at + 1)
        return Unpickled(machine.stack.pop(), at + 1, machine.storages)
    except RecordError:
        raise
    except (ValueError, TypeError, LookupError, struct_error) as error:
        if raised_by_other_code(error):
            raise
        what = "has no end" if at >= len(data) else "makes no sense"
        raise damaged(source, f"its list of tensors {what}") from error


def _stop(machine: Machine, at: int) -> int:
    return -1


def _proto(machine: Machine, at: int) -> int:
    return at + 1


def _frame(machine: Machine, at: int) -> int:
    return at + 8


def _mark(machine: Machine, at: int) -> int:
    machine.marks.append(machine.stack)
    machine.stack = []
    return at


def _pop(machine: Machine, at: int) -> int:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.marked()
    return at


def _byte_put(machine: Machine, at: int) -> int:
    memory, index = machine.memory, machine.data[at]
    if index == len(memory):  # the usual case: picklers number the memo consecutively
        memory.append(machine.stack[-1])
    else:
        memory[index] = machine.stack[-1]
    return at + 1


def _int_put(machine: Machine, at: int) -> int:
    machine.put(_uint32(machine.data, at)[0])
    return at + 4


def _line_put(machine: Machine, at: int) -> int:
    index, at = _index_line(machine, at)
    machine.put(index)
    return at


def _memoize(machine: Machine, at: int) -> int:
    machine.memory.append(machine.stack[-1])
    return at


def _byte_get(machine: Machine, at: int) -> int:
    machine.stack.append(machine.memory[machine.data[at]])
    return at + 1


def _int_get(machine: Machine, at: int) -> int:
    machine.stack.append(machine.memory[_uint32(machine.data, at)[0]])
    return at + 4


def _line_get(machine: Machine, at: int) -> int:
    index, at = _index_line(machine, at)
    machine.stack.append(machine.memory[index])
    return at


def _index_line(machine: Machine, at: int) -> tuple[int, int]:
    text, at = machine.line(at, _LONGEST_NAME)
    if not text.isdigit():
        raise ValueError("expected the index of a remembered object")
    return int(text), at


def _tuple(machine: Machine, at: int) -> int:
    values = machine.marked()
    machine.stack.append(tuple(values))
    return at


def _tuple1(machine: Machine, at: int) -> int:
    stack = machine.stack
    stack[-1] = (stack[-1],)
    return at


def _tuple2(machine: Machine, at: int) -> int:
    stack = machine.stack
    last = stack.pop()
    stack[-1] = (stack[-1], last)
    return at


def _tuple3(machine: Machine, at: int) -> int:
    stack = machine.stack
    last, second = stack.pop(), stack.pop()
    stack[-1] = (stack[-1], second, last)
    return at


def _empty_list(machine: Machine, at: int) -> int:
    machine.stack.append([])
    return at


def _list(machine: Machine, at: int) -> int:
    values = machine.marked()
    machine.stack.append(values)
    return at


def _append(machine: Machine, at: int) -> int:
    value = machine.stack.pop()
    machine.top(list).append(value)
    return at


def _appends(machine: Machine, at: int) -> int:
    values = machine.marked()
    machine.top(list).extend(values)
    return at


def _empty_dict(machine: Machine, at: int) -> int:
    machine.stack.append({})
    return at


def _dict(machine: Machine, at: int) -> int:
    values = machine.marked()
    machine.stack.append({})
    machine.enter(values)
    return at


def _setitem(machine: Machine, at: int) -> int:
    value, key = machine.stack.pop(), machine.stack.pop()
    machine.enter([key, value])
    return at


def _setitems(machine: Machine, at: int) -> int:
    machine.enter(machine.marked())
    return at


def _global(machine: Machine, at: int) -> int:
    module, at = machine.line(at, _LONGEST_NAME)
    name, at = machine.line(at, _LONGEST_NAME)
    machine.stack.append(named(module.decode(), name.decode(), machine.limits.source))
    return at


def _stack_global(machine: Machine, at: int) -> int:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(named(module, name, machine.limits.source))
    return at


def _reduce(machine: Machine, at: int) -> int:
    args, function = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(called(function, args, machine.limits))
    return at


def _build(machine: Machine, at: int) -> int:
    """Discard attributes set on a dict, such as the ``_metadata`` of a state dict; refuse them on anything else."""
    machine.stack.pop()
    if type(machine.stack[-1]) is not dict:
        raise refused("asks to set attributes", machine.limits.source)
    return at


def _persistent(machine: Machine, at: int) -> int:
    match machine.stack.pop():
        case ("storage", kind, key, _, size) | ("storage", kind, key, _, size, None):  # the latter before PyTorch 1.6
            storage = storage_of(kind, key, size)
            machine.storages.setdefault(storage.key, storage)
            machine.stack.append(storage)
        case _:
            raise TypeError("something other than a storage from outside")
    return at


def _unknown(machine: Machine, at: int) -> int:
    name = _CODES.get(machine.data[at - 1])
    if name is None:
        raise ValueError("no instruction")
    raise refused(f"has the instruction {name}", machine.limits.source)


_INSTRUCTIONS: Mapping[str, Instruction] = {
    **LITERALS,
    "STOP": _stop,
    "PROTO": _proto,
    "FRAME": _frame,
    "MARK": _mark,
    "POP": _pop,
    "PUT": _line_put,
    "BINPUT": _byte_put,
    "LONG_BINPUT": _int_put,
    "MEMOIZE": _memoize,
    "GET": _line_get,
    "BINGET": _byte_get,
    "LONG_BINGET": _int_get,
    "TUPLE": _tuple,
    "TUPLE1": _tuple1,
    "TUPLE2": _tuple2,
    "TUPLE3": _tuple3,
    "EMPTY_LIST": _empty_list,
    "LIST": _list,
    "APPEND": _append,
    "APPENDS": _appends,
    "EMPTY_SET": _empty_list,
    "ADDITEMS": _appends,
    "EMPTY_DICT": _empty_dict,
    "DICT": _dict,
    "SETITEM": _setitem,
    "SETITEMS": _setitems,
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _reduce,
    "BUILD": _build,
    "BINPERSID": _persistent,
}
_CODES = {ord(operation.code): operation.name for operation in pickletools.opcodes}
_RUN = [_INSTRUCTIONS.get(_CODES.get(code, ""), _unknown) for code in range(256)]
"""The instructions, by opcode."""
