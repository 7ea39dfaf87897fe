"""Parts of a model where nobody would look for them: they would not be moved, saved or trained."""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence
from functools import partial
from typing import Any

from burnpy.backend.errors import ModuleError
from burnpy.nn.variable import Variable
from burnpy.tensor.base import TensorBase


def refuse_hidden(value: Any, name: str, path: str) -> None:
    """Refuse what a module would keep and not look into, if there is a part of a model in it, or what is used up.

    Looked at are methods, `functools.partial`, functions with what they close over, and the attributes of an object.

    Raises:
        ModuleError: it is such.
    """
    if isinstance(value, (Iterator, MutableSequence, memoryview)):
        raise ModuleError(
            f"{name}.{path} is {_article(value)}, which can change or is used up, and a module never changes; give "
            "it a list or a tuple, and of numbers a Buffer"
        )
    for where, part in _inside(value):
        if isinstance(part, (Variable, TensorBase)) or (hasattr(type(part), "forward") and hasattr(part, "_sealed")):
            raise ModuleError(
                f"{name}.{path} is {_article(value)} that keeps {_article(part)}{where}, where it has no path and "
                "would stay as it is when the model is moved, saved or trained; make it a field of the module, in "
                "lists, tuples and dicts if need be, and use it in forward()"
            )


def _inside(value: Any) -> list[tuple[str, Any]]:
    """What a value keeps, one level deep, with words for where."""
    if isinstance(value, partial):
        given: list[Any] = [value.func, *value.args, *value.keywords.values()]
        return [("", part) for each in given for part in (each, getattr(each, "__self__", None))]
    found = [("", getattr(value, "__self__", None))]
    cells: Any = getattr(value, "__closure__", None) or ()
    found += [("", getattr(cell, "cell_contents", None)) for cell in cells]
    names: Any = getattr(type(value), "__dataclass_fields__", None) or getattr(value, "__dict__", ())
    return found + [(f" as {key}", getattr(value, key, None)) for key in names]


def _article(value: Any) -> str:
    word = type(value).__name__
    return f"{'an' if word[0].lower() in 'aeiou' else 'a'} {word}"
