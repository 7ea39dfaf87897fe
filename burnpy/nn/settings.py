"""The settings of a module, written as its constructor call: ``Conv2d(3, 8, 3, padding=1)``.

The value of an argument of ``__init__`` is read from the field or property of the same name. Arguments without one,
such as a device or an initializer, are not shown; submodules are shown as lines of their own by `burnpy.nn.display`.
"""

from __future__ import annotations

from inspect import Parameter
from typing import Any

from burnpy.nn.call_errors import signature_of
from burnpy.nn.tree import TreeNode
from burnpy.tensor.tensor_base import describe

_UNKNOWN: Any = Parameter.empty


def settings(module: TreeNode) -> str:
    """Return the arguments of the constructor call: the positional ones, then keyword arguments that are not defaults.

    >>> from burnpy.nn import Flatten, MaxPool2d
    >>> settings(MaxPool2d(3, stride=2)), settings(Flatten())
    ('3, stride=2', '1, -1')
    """
    arguments: list[str] = []
    by_position = True
    for p in signature_of(type(module)).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        value = _setting(module, p)
        by_position = by_position and p.kind is not p.KEYWORD_ONLY and value is not _UNKNOWN
        if by_position:
            arguments.append(describe(value))
        elif value is not _UNKNOWN and (p.default is p.empty or value != p.default):
            arguments.append(f"{p.name}={describe(value)}")
    return ", ".join(arguments)


def _setting(module: TreeNode, p: Parameter) -> Any:
    """The value of a parameter of ``__init__``, or ``_UNKNOWN`` if the module does not store it."""
    fields, annotation = vars(module), str(p.annotation)
    if p.name in fields:
        value = fields[p.name]
    elif p.name != "device" and isinstance(getattr(type(module), p.name, None), property):
        try:
            value = getattr(module, p.name)
        except AttributeError:  # the property reads a part that was replaced by another
            return _UNKNOWN
    else:
        return _UNKNOWN
    if "bool" in annotation and (value is None or p.name in module._parts):
        return value is not None  # a flag such as bias=True creates an optional part
    return _UNKNOWN if p.name in module._parts else _short(value, annotation)


def _short(value: Any, annotation: str) -> Any:
    """Shorten a tuple of equal sizes to one number where the parameter accepts one."""
    if isinstance(value, tuple) and all(isinstance(size, int) for size in value):
        pair = any(name in annotation for name in ("Pair", "Size", "Padding"))
        if (pair and len(value) == 2 and value[0] == value[1]) or (len(value) == 1 and "int" in annotation):
            return value[0]
    return value
