"""The reference of all public names: pages for Sphinx's autodoc, written to ``burnpy/docs/api`` when the book is built.

A package has a page, or several if it is large. The methods of tensors are divided into families.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from inspect import isclass, isdatadescriptor, ismodule, isroutine
from pathlib import Path
from typing import Any

from burnpy import BoolTensor, IntTensor, Tensor, nn
from burnpy.backend import Backend
from burnpy.docs import public_api
from burnpy.tensor.lazy_methods import METHODS
from burnpy.tensor.tensor_base import Missing

FOLDER = "api"
LARGE = 60
"""A package with more names has a page for each of its modules."""

FAMILIES = {
    "Creation": "factories creation random sampling",
    "Conversion and attributes": "tensor_base conversion protocols",
    "Gradients": "backward",
    "Shape": "shape shape_lazy diagonals",
    "Indexing and updates": "indexing gathering scattering at",
    "Arithmetic, comparison and logic": "arithmetic arithmetic_lazy comparison",
    "Elementwise functions": "pointwise pointwise_lazy pointwise_declared",
    "Reductions and statistics": "reduction statistics histograms distances calculus",
    "Ordering": "ordering unique",
    "Linear algebra": "linalg",
}
"""The modules in ``burnpy/tensor`` whose methods a page of the reference has."""


def pages() -> dict[str, str]:
    """Return the text of each page by its name, as reStructuredText."""
    texts = {"tensor": _heading("Tensors", "=") + _TENSORS, **_tensor_pages()}
    families = [f"tensor_{_slug(title)}" for title in FAMILIES]
    texts["tensor"] += "".join(f"- :doc:`{page}`\n" for page in families) + "\n" + _toctree(families)
    documented: dict[int, str] = {}
    for package in public_api.PACKAGES:
        texts |= _package_pages(f"burnpy{package}", documented)
    return texts


def contents() -> list[str]:
    """Return the names of the pages that the table of contents lists."""
    return ["tensor", *(f"burnpy{package}" for package in public_api.PACKAGES)]


_TENSOR_CLASSES = (Tensor, IntTensor, BoolTensor)
_TENSORS = """
The classes `burnpy.Tensor`, `burnpy.IntTensor` and `burnpy.BoolTensor` share most of their methods.

The examples in the reference begin after these lines::

    import numpy as np
    from burnpy import Autodiff, BoolTensor, Generator, IntTensor, Tensor
    from burnpy.backend import NumPy

"""


def _tensor_pages() -> dict[str, str]:
    family = {module: title for title, modules in FAMILIES.items() for module in modules.split()}
    found: dict[str, list[str]] = {title: [] for title in FAMILIES}
    for name, (owner, module) in sorted(tensor_methods().items()):
        kind = "property" if isdatadescriptor(getattr(owner, name)) else "method"
        found[family[module]].append(_entry(f"auto{kind}", f"burnpy.{owner.__name__}.{name}"))
    return {f"tensor_{_slug(title)}": _heading(title, "=") + "".join(found[title]) for title in FAMILIES}


def tensor_methods() -> dict[str, tuple[Any, str]]:
    """Return the public methods and properties of tensors: the first class that has each, and the module it is from."""
    lazy = {path.rpartition(".")[2]: path.partition(".")[0] for path in METHODS}
    table: dict[str, tuple[Any, str]] = {}
    for owner in _TENSOR_CLASSES:
        inherited = [base for base in owner.__mro__[1:] if base.__module__.startswith("burnpy.tensor")]
        for base in reversed(inherited):
            module = lazy.get(base.__name__, base.__module__.rpartition(".")[2])
            for name, value in vars(base).items():
                if not name.startswith("_") and not isinstance(value, Missing) and hasattr(owner, name):
                    table.setdefault(name, (owner, module))
    return {name: found for name, found in table.items() if _is_documented(getattr(found[0], name))}


def _is_documented(value: Any) -> bool:
    return (isroutine(value) or isdatadescriptor(value)) and bool(value.__doc__)


def _package_pages(package: str, documented: dict[int, str]) -> dict[str, str]:
    """Return the pages of a package; ``documented`` has the names of objects, by id, that other pages document."""
    names = {name: value for name, value in public_api._names(package) if not ismodule(value)}
    sections: dict[str, list[str]] = {}
    for name, value in names.items():
        first = documented.setdefault(id(value), name) if isclass(value) or isroutine(value) else name
        entry = _documented(name, value) if first == name else f".. py:attribute:: {name}\n\n   :py:obj:`{first}`\n\n"
        sections.setdefault(_section(package, value), []).append(entry)
    summary = (import_module(package).__doc__ or "").strip().partition("\n\n")[0]
    head = _heading(package, "=") + f".. currentmodule:: {package}\n\n{summary}\n\n"
    if len(names) > LARGE:
        texts = {
            f"{package}.{_slug(title)}": f"{_heading(title, '=')}.. currentmodule:: {package}\n\n{''.join(entries)}"
            for title, entries in sorted(sections.items())
        }
        names_of = {
            title: ", ".join(f":py:obj:`~{entry.split()[2]}`" for entry in entries)
            for title, entries in sections.items()
        }
        overview = "".join(f"- :doc:`{package}.{_slug(title)}`: {names_of[title]}\n" for title in sorted(sections))
        return {package: f"{head}{overview}\n{_toctree(texts)}", **texts}
    body = "".join(_heading(title, "-") + "".join(entries) for title, entries in sorted(sections.items()))
    return {package: head + (body if len(sections) > 1 else "".join(*sections.values()))}


def _section(package: str, value: Any) -> str:
    """Return the heading above a name, made from the name of its module."""
    module = str(getattr(value, "__module__", ""))
    if not module.startswith("burnpy") or package == "burnpy.errors":
        return "Other names"
    return module.rpartition(".")[2].replace("_", " ").capitalize()


def _documented(name: str, value: Any) -> str:
    if not isclass(value):
        return _entry("autofunction" if isroutine(value) else "autodata", name)
    members = _members(name, value) if public_api._is_ours(value) and value not in _TENSOR_CLASSES else []
    kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
    return _entry(kind, name, f"   :members: {', '.join(members)}\n" if members else "")


def _members(name: str, value: type) -> list[str]:
    """Return the members of a class that are documented there: those that `Module` has as well are documented once."""
    others = {nn.Module, Backend, *_public_classes()} - {value}
    lines = public_api._members(name, value, others)
    names = sorted({line.partition("(")[0].rpartition(".")[2] for line in lines})
    return [each for each in names if value is nn.Module or not _same_docstring(value, each)]


def _same_docstring(value: Any, name: str) -> bool:
    documentation = getattr(getattr(nn.Module, name, None), "__doc__", None)
    return documentation is not None and getattr(getattr(value, name), "__doc__", None) == documentation


@cache
def _public_classes() -> frozenset[type]:
    return frozenset(
        value for package in public_api.PACKAGES for _, value in public_api._names(f"burnpy{package}") if isclass(value)
    )


def _entry(directive: str, name: str, options: str = "") -> str:
    return f".. {directive}:: {name}\n{options}\n"


def _heading(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}\n\n"


def _toctree(names: Iterable[str]) -> str:
    return ".. toctree::\n   :hidden:\n\n" + "".join(f"   {name}\n" for name in names)


def _slug(title: str) -> str:
    return title.lower().replace(",", "").replace(" ", "_")


def _write(app: Any) -> None:
    folder = Path(app.srcdir, FOLDER)
    folder.mkdir(exist_ok=True)
    texts = {f"{name}.rst": text for name, text in pages().items()}
    for path in set(folder.iterdir()) - {folder / name for name in texts}:
        path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # what is unchanged is not read again
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Write the pages when a build begins."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
