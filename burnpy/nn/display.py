"""The text representation of modules: the tree of a model, a line per part."""

from __future__ import annotations

from typing import Any

from burnpy.nn.base import ModuleBase
from burnpy.nn.settings import settings
from burnpy.nn.tree import TreeNode, children
from burnpy.nn.variable import Param, Variable
from burnpy.typevars import B


class Displayed(ModuleBase[B]):
    """The methods of a module that show it as text."""

    __slots__ = ()

    def extra_repr(self) -> str:
        """The settings shown in parentheses in the module's repr, written as the arguments of its class."""
        return settings(self)

    def __repr__(self) -> str:
        return render(self)


def render(module: Displayed[Any]) -> str:
    """Return the module tree as text, a line per part: shapes, counts, and marks such as "frozen" and "shared".

    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear, Relu, Sequential
    >>> print(render(Sequential(Linear(2, 8, device=NumPy), Relu(), Linear(8, 1, device=NumPy)).no_grad("0")))
    Sequential()  33 parameters, 24 of them frozen
      0  Linear(2, 8)  24 parameters, 24 of them frozen
        weight  (2, 8) frozen
        bias  (8,) frozen
      1  Relu()
      2  Linear(8, 1)  9 parameters
        weight  (8, 1)
        bias  (1,)
    """
    if not module._sealed:
        return f"<{type(module).__name__} under construction>"
    return "\n".join(_lines(module, "", {}, "", None))


def _lines(module: Displayed[Any], path: str, seen: dict[int, str], indent: str, override: bool | None) -> list[str]:
    """The lines of a module; ``override`` is the train/eval override of the enclosing module."""
    lines = [_headline(module, override)]
    for name, part in _flat(module):
        inside = f"{path}.{name}" if path else name
        start = f"{indent}  {name}  "
        known = seen.setdefault(id(part), inside)
        if known != inside and (isinstance(part, Variable) or part._variables()):
            lines.append(f"{start}is {known}")
        elif isinstance(part, Variable):
            word = "" if isinstance(part, Param) else " buffer"
            lines.append(f"{start}{part.shape}{word}{' frozen' if part.frozen else ''}")
        else:
            first, *rest = _lines(part, inside, seen, indent + "  ", module._override)
            lines += [start + first, *rest]
    return lines


def _flat(tree: Any) -> list[tuple[str, Any]]:
    """The direct parts of a module with their names, including those inside tuples and dicts."""
    parts: list[tuple[str, Any]] = []
    for name, part in children(tree):
        if isinstance(part, (tuple, dict)):
            parts += [(f"{name}.{inner}" if name != "" else inner, x) for inner, x in _flat(part)]
        elif isinstance(part, (TreeNode, Variable)):
            parts.append((name, part))
    return parts


def _headline(module: Displayed[Any], override: bool | None) -> str:
    """The first line of a module: its class and settings, parameter counts, and its mode if it is overridden."""
    notes: list[str] = []
    count = module.num_params
    if count:
        notes.append(f"{count:,} parameter{'s' if count != 1 else ''}")
        frozen = sum(p.numel() for p in module.params() if p.frozen)
        if frozen:
            notes.append(f"{frozen:,} of them frozen")
    if module._override is not override:
        notes.append({True: "training mode", False: "eval mode", None: "as the device says"}[module._override])
    return f"{type(module).__name__}({module.extra_repr()}){'  ' * bool(notes)}{', '.join(notes)}"
