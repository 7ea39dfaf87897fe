"""Reading PyTorch's pickles without the `pickle` module: a small machine that can make plain values and tensors.

A pickle is a program. This machine knows the few instructions that PyTorch writes; names and calls go through
`burnpy.record.torch_values`. Attributes, imports, classes, extensions: there is no instruction for any of it.
"""

from __future__ import annotations

import pickletools
from typing import Any

from burnpy.backend.errors import RecordError, a
from burnpy.record.memory import damaged
from burnpy.record.torch_values import called, hashable, named, refused, storage_of

_PUSHED = frozenset(
    {
        *("INT", "LONG", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    }
)
"""Instructions that push their argument."""
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_MARK = object()


def unpickled(data: bytes, source: str) -> Any:
    """The value that a pickle of PyTorch's makes: plain values, and `TorchTensor` for its tensors.

    Raises:
        RecordError: it asks for anything else, or is damaged.
    """
    machine = _Machine(source)
    try:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name == "STOP":
                return machine.pop()
            machine.run(operation.name, argument)
    except RecordError:
        raise
    except Exception as error:
        raise damaged(source, "its list of tensors makes no sense") from error
    raise damaged(source, "its list of tensors has no end")


class _Machine:
    """The stack and memory of one pickle."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}

    def pop(self) -> Any:
        """Take the last value off the stack."""
        value = self.stack.pop()
        if value is _MARK:
            raise ValueError("a mark where a value should be")
        return value

    def marked(self) -> list[Any]:
        """Take everything after the last mark off the stack, and the mark."""
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise IndexError("no mark")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def run(self, name: str, argument: Any) -> None:
        """Run one instruction."""
        push = self.stack.append
        if name in _PUSHED:
            push(argument)
        elif name in _CONSTANTS:
            push(_CONSTANTS[name])
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memory[argument] = self.stack[-1]
        elif name == "MEMOIZE":
            self.memory[len(self.memory)] = self.stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            push(self.memory[argument])
        elif name in ("PROTO", "FRAME"):
            pass
        elif (make := getattr(self, f"_{name.lower()}", None)) is not None:
            make(argument)
        else:
            raise refused(f"has the instruction {name}", self.source)

    def _mark(self, argument: Any) -> None:
        self.stack.append(_MARK)

    def _pop(self, argument: Any) -> None:
        self.stack.pop()

    def _empty_list(self, argument: Any) -> None:
        self.stack.append([])

    def _list(self, argument: Any) -> None:
        self.stack.append(self.marked())

    def _append(self, argument: Any) -> None:
        value = self.pop()
        self._top(list).append(value)

    def _appends(self, argument: Any) -> None:
        values = self.marked()
        self._top(list).extend(values)

    def _tuple(self, argument: Any) -> None:
        self.stack.append(tuple(self.marked()))

    def _tuple1(self, argument: Any) -> None:
        self._last(1)

    def _tuple2(self, argument: Any) -> None:
        self._last(2)

    def _tuple3(self, argument: Any) -> None:
        self._last(3)

    def _last(self, count: int) -> None:
        self.stack.append(tuple([self.pop() for _ in range(count)][::-1]))

    def _empty_dict(self, argument: Any) -> None:
        self.stack.append({})

    def _dict(self, argument: Any) -> None:
        values = self.marked()
        self.stack.append({})
        self._enter(values)

    def _setitem(self, argument: Any) -> None:
        value, key = self.pop(), self.pop()
        self._enter([key, value])

    def _setitems(self, argument: Any) -> None:
        self._enter(self.marked())

    def _enter(self, values: list[Any]) -> None:
        target = self._top(dict)
        for key, value in zip(values[::2], values[1::2], strict=True):
            target[hashable(key)] = value

    def _top(self, kind: type) -> Any:
        value = self.stack[-1]
        if type(value) is not kind:
            raise TypeError(f"{a(type(value).__name__)} where a {kind.__name__} should be")
        return value

    def _empty_set(self, argument: Any) -> None:
        self.stack.append([])

    def _additems(self, argument: Any) -> None:
        self._appends(argument)

    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self.stack.append(named(module, name, self.source))

    def _stack_global(self, argument: Any) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise TypeError("a name that is no string")
        self.stack.append(named(module, name, self.source))

    def _reduce(self, argument: Any) -> None:
        args, function = self.pop(), self.pop()
        self.stack.append(called(function, args, self.source))

    def _build(self, argument: Any) -> None:
        """Attributes of a dict, as of a state dict the versions of its modules: left out."""
        self.pop()
        if type(self.stack[-1]) is not dict:
            raise refused("asks to set attributes", self.source)

    def _binpersid(self, argument: Any) -> None:
        match self.pop():
            case ("storage", kind, key, _, size):
                self.stack.append(storage_of(kind, key, size))
            case _:
                raise TypeError("something other than a storage from outside")
