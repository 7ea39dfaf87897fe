"""The list ``public_api.txt`` of all public names and signatures: ``make generated`` writes it anew.

A change of the public API shows in its diff. A parameter with a default ends with "=". What a class inherits from
another public class is listed there, and operations of backends are in ``operations.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import EnumMeta
from importlib import import_module
from inspect import Parameter, isclass, isroutine, signature
from pathlib import Path
from typing import Any

from burnpy.backend import Backend, operations
from burnpy.tensor.tensor_base import Missing

PAGE = Path(__file__).with_name("public_api.txt")
PACKAGES = (
    "",
    ".array_api",
    ".autodiff",
    ".backend",
    ".data",
    ".distributed",
    ".distributions",
    ".distributions.bijections",
    ".einops",
    ".errors",
    ".fft",
    ".func",
    ".interop.onnx",
    ".linalg",
    ".metrics",
    ".models",
    ".nn",
    ".nn.functional",
    ".nn.init",
    ".optim",
    ".record",
    ".special",
    ".testing",
    ".train",
)


def page() -> str:
    """Return the text of the page."""
    names = {name: value for package in PACKAGES for name, value in _names(f"burnpy{package}")}
    classes = {value for value in names.values() if isclass(value)}
    lines: list[str] = []
    for name, value in names.items():
        lines.append(f"{name}{_signature(value)}")
        if isclass(value) and _is_ours(value):
            lines += sorted(set(_members(name, value, classes - {value})))
    return "\n".join(lines) + "\n"


def _names(package: str) -> Iterator[tuple[str, Any]]:
    module = import_module(package)
    for name in sorted(getattr(module, "__all__", None) or _defined(module)):
        yield f"{package}.{name}", getattr(module, name)


def _is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("burnpy")


def _defined(module: Any) -> list[str]:
    """Return the public names of a module without ``__all__`` that come from burnpy."""
    return [name for name, value in vars(module).items() if not name.startswith("_") and _is_ours(value)]


def _members(owner: str, cls: type, others: set[type]) -> Iterator[str]:
    """Yield the lines of a class's members that it does not inherit from other public classes."""
    listed = operations() if Backend in cls.__mro__ else {}
    inherited = {base for other in others.intersection(cls.__mro__) for base in other.__mro__}
    for base in cls.__mro__:
        if _is_ours(base) and base not in inherited:
            for name, value in vars(base).items():
                if not name.startswith("_") and name not in listed and not isinstance(value, Missing):
                    yield f"{owner}.{name}{_signature(getattr(cls, name, None))}"


def _signature(value: Any) -> str:
    """Return the parameters of a function or class, without annotations; nothing for other values."""
    if not (isroutine(value) or isclass(value)) or isinstance(value, EnumMeta):
        return ""
    try:
        parameters = signature(value).parameters.values()
    except (TypeError, ValueError):  # classes of C, and aliases
        return ""
    return f"({', '.join(_parameters(list(parameters)))})"


def _parameters(parameters: list[Parameter]) -> Iterator[str]:
    starred = False
    for k, p in enumerate(parameters):
        if p.kind is Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred = starred or p.kind is Parameter.VAR_POSITIONAL
        prefix = "*" if p.kind is Parameter.VAR_POSITIONAL else "**" if p.kind is Parameter.VAR_KEYWORD else ""
        yield f"{prefix}{p.name}{'' if p.default is Parameter.empty else '='}"
        last = k + 1 == len(parameters) or parameters[k + 1].kind is not Parameter.POSITIONAL_ONLY
        if p.kind is Parameter.POSITIONAL_ONLY and last:
            yield "/"
