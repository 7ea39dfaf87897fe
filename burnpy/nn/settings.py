"""The settings of a module, written as the call that makes it: ``Conv2d(3, 8, 3, padding=1)``.

They are read from the module: an argument of ``__init__`` is the field or property of its name. What has neither, as a
device or an initializer, is not shown; what is a part of the module is shown beneath, by `burnpy.nn.display`.
"""

from __future__ import annotations

from inspect import Parameter
from typing import TYPE_CHECKING, Any

from burnpy.nn.call_errors import signature_of
from burnpy.tensor.base import describe

if TYPE_CHECKING:
    from burnpy.nn.base import ModuleBase

_UNKNOWN: Any = Parameter.empty


def settings(module: ModuleBase[Any]) -> str:
    """What stands between the parentheses: by position what can be given so, by name what is not the default.

    >>> from burnpy.nn import Flatten, MaxPool2d
    >>> settings(MaxPool2d(3, stride=2)), settings(Flatten())
    ('3, stride=2', '1, -1')
    """
    told: list[str] = []
    by_position = True
    for p in signature_of(type(module)).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        value = _setting(module, p)
        by_position = by_position and p.kind is not p.KEYWORD_ONLY and value is not _UNKNOWN
        if by_position:
            told.append(describe(value))
        elif value is not _UNKNOWN and (p.default is p.empty or value != p.default):
            told.append(f"{p.name}={describe(value)}")
    return ", ".join(told)


def _setting(module: ModuleBase[Any], p: Parameter) -> Any:
    """What was given for a parameter of ``__init__``, as far as it can be told from the module."""
    fields, annotation = vars(module), str(p.annotation)
    if p.name in fields:
        value = fields[p.name]
    elif p.name != "device" and isinstance(getattr(type(module), p.name, None), property):
        try:
            value = getattr(module, p.name)
        except AttributeError:  # of a module whose parts were replaced by others
            return _UNKNOWN
    else:
        return _UNKNOWN
    if "bool" in annotation and (value is None or p.name in module._parts):
        return value is not None  # a bias, a norm: whether there is one
    return _UNKNOWN if p.name in module._parts else _short(value, annotation)


def _short(value: Any, annotation: str) -> Any:
    """Sizes that could have been given as one number, as one number."""
    if isinstance(value, tuple) and all(isinstance(size, int) for size in value):
        pair = "Pair" in annotation or "Padding" in annotation
        if (pair and len(value) == 2 and value[0] == value[1]) or (len(value) == 1 and "int" in annotation):
            return value[0]
    return value
