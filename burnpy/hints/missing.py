"""The errors that something has no such attribute, with what to write instead."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from burnpy.backend.errors import MissingNameError
from burnpy.hints import packages, torch_names
from burnpy.hints.modules import ATTRIBUTES
from burnpy.hints.spelling import meant
from burnpy.hints.table import advice, parsed, row_of, rows

_PACKAGES = {
    "burnpy.nn": (packages.NN, torch_names.NN),
    "burnpy.nn.functional": (packages.FUNCTIONAL, torch_names.FUNCTIONAL),
    "burnpy.nn.init": (packages.INIT, torch_names.INIT),
    "burnpy.optim": (packages.OPTIM, torch_names.OPTIM),
    "burnpy.func": (packages.FUNC, torch_names.FUNC),
    "burnpy.autodiff": (packages.AUTODIFF, ""),
}
"""By our package: the table of its names, and PyTorch's names in its own."""

_ROOMS = tuple(
    f"burnpy.{room}"
    for room in ("nn", "nn.functional", "nn.init", "optim", "func", "autodiff", "backend", "record", "testing")
)


def from_package(package: str, name: str) -> AttributeError:
    """The error that a package has no such name."""
    if name.startswith("__"):  # as Python's own modules ask for
        return AttributeError(f"module {package!r} has no attribute {name!r}")
    return MissingNameError(f"{package} has no {name}{_of_package(package, name)}")


def of_tensor(owner: str, name: str) -> MissingNameError:
    """The error that tensors of class ``owner`` have no such attribute, which is one of PyTorch's or NumPy's."""
    row = row_of(name)
    return MissingNameError(f"{owner} has no {name}{advice(row) if row else _THEIRS}")


def of_object(owner: object, kind: str, name: str) -> MissingNameError:
    """The error that a module, an optimizer or a parameter has no such attribute.

    Args:
        owner: what was asked.
        kind: the name that PyTorch's methods are known under: Module, Optimizer, Held.
        name: what was asked for.
    """
    return MissingNameError(f"{type(owner).__name__} has no {name}{_of_object(owner, kind, name)}")


_THEIRS = "; it is PyTorch's, and not here yet"


def _of_package(package: str, name: str) -> str:
    of_tensors = package in ("burnpy", "burnpy.tensor")
    table, theirs = _PACKAGES.get(package, ("", torch_names.TORCH))
    row = parsed(table).get(name) or parsed(table).get(name.removesuffix("_"))
    if row is not None:
        return advice(row)
    row = row_of(name, function=True) if of_tensors else None
    if row is not None and f"torch.{name}" in rows():
        return advice(row)
    has_methods = of_tensors or package == "burnpy.nn.functional"
    other = row is not None and f".{name}" not in row.ours  # as torch.inner, which x.inner() is not
    method = _method(name.removesuffix("_")) if has_methods and not other else ""
    if method:
        return method
    if row is not None:
        return advice(row)
    for room in _ROOMS:
        if room != package and name in _public(room):
            return f"; it is {room}.{name}"
    if any(name in each.split() for each in (theirs, *(each for _, each in _PACKAGES.values()))):
        return _THEIRS
    slip = meant(name, _public(package))
    if slip is None and has_methods:
        slip = meant(name, dir(_kinds()[0]))
        return f"; is it x.{slip}?" if slip else ""
    return f"; is it {slip}?" if slip else ""


def _kinds() -> tuple[Any, Any, Any]:
    from burnpy.tensor import BoolTensor, IntTensor, Tensor

    return Tensor, IntTensor, BoolTensor


def _method(name: str) -> str:
    """What is said of a function that is a method of tensors here; empty if it is none."""
    row = row_of(name)
    for cls, x in zip(_kinds(), "xib", strict=True):
        found: Any = getattr(cls, name, None)
        if isinstance(found, property):
            return f", which is an attribute: {x}.{name}"
        if hasattr(found, "__self__"):  # a classmethod
            return advice(row) if row else f"; write {cls.__name__}.{name}(..., device=device)"
        if found is not None:
            return f", which is a method: {row.ours if row and f'.{name}(' in row.ours else f'{x}.{name}(...)'}"
    return ""


def _public(package: str) -> list[str]:
    """The names that a package has for its users."""
    module = import_module(package)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == package]
    return list(getattr(module, "__all__", own))


def _of_object(owner: object, kind: str, name: str) -> str:
    hint = ATTRIBUTES[kind].get(name)
    if hint:
        return f"; {hint}"
    value = vars(type(owner)).get("value") or getattr(type(owner), "value", None)
    if value is not None and hasattr(type(getattr(owner, "value", None)), name):
        return f", but its tensor has: .value.{name}"
    known = [each for each in [*getattr(owner, "__dict__", ()), *dir(type(owner))] if not each.startswith("_")]
    slip = meant(name, known)
    return f"; is it {slip}?" if slip else ""
