"""The errors for missing attributes of packages, tensors and other objects, with what to write instead."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from burnpy.backend.errors import MissingNameError
from burnpy.hints import packages, torch_names
from burnpy.hints.modules import ATTRIBUTES
from burnpy.hints.spelling import meant
from burnpy.hints.table import advice, parsed, row_of, rows

_PACKAGES = {
    "burnpy": (packages.BURNPY, torch_names.TORCH),
    "burnpy.nn": (packages.NN, torch_names.NN),
    "burnpy.nn.functional": (packages.FUNCTIONAL, torch_names.FUNCTIONAL),
    "burnpy.nn.init": (packages.INIT, torch_names.INIT),
    "burnpy.optim": (packages.OPTIM, torch_names.OPTIM),
    "burnpy.func": (packages.FUNC, torch_names.FUNC),
    "burnpy.linalg": (packages.LINALG, torch_names.LINALG),
    "burnpy.autodiff": (packages.AUTODIFF, ""),
    "burnpy.data": (packages.DATA, ""),
    "burnpy.distributed": (packages.DISTRIBUTED, ""),
}
"""For each package of burnpy: the table of suggestions, and the names that PyTorch has in the corresponding package."""

_ROOMS = tuple(
    f"burnpy.{room}"
    for room in (
        *("nn", "nn.functional", "nn.init", "optim", "func", "linalg", "autodiff", "backend", "record", "testing"),
    )
)


def from_package(package: str, name: str) -> AttributeError:
    """Return the error for a name that a package does not have."""
    if name.startswith("__"):  # Python's own modules probe for such names
        return AttributeError(f"module {package!r} has no attribute {name!r}")
    return MissingNameError(lambda: f"{package} has no {name}{_of_package(package, name)}")


def of_tensor(owner: str, name: str) -> MissingNameError:
    """Return the error for an attribute of PyTorch or NumPy that tensors of class ``owner`` do not have."""

    def message() -> str:
        row = row_of(name)
        return f"{owner} has no {name}{advice(row) if row else _THEIRS}"

    return MissingNameError(message)


def of_object(owner: object, kind: str, name: str) -> MissingNameError:
    """Return the error for an attribute that a module, an optimizer or a parameter does not have.

    Args:
        owner: the object.
        kind: the key of `ATTRIBUTES` for the object: Module, Optimizer, Variable.
        name: the name of the attribute.
    """
    return MissingNameError(lambda: f"{type(owner).__name__} has no {name}{_of_object(owner, kind, name)}")


_THEIRS = "; it is PyTorch's, and not here yet"


def _of_package(package: str, name: str) -> str:
    of_tensors = package in ("burnpy", "burnpy.tensor")
    table, pytorch_names = _PACKAGES.get(package, ("", torch_names.TORCH))
    row = parsed(table).get(name) or parsed(table).get(name.removesuffix("_"))
    if row is not None:
        return advice(row)
    row = row_of(name, function=True) if of_tensors else None
    if row is not None and f"torch.{name}" in rows():
        return advice(row)
    has_methods = of_tensors or package == "burnpy.nn.functional"
    different = row is not None and f".{name}" not in row.ours  # such as torch.inner, which is not x.inner()
    method = _method(name.removesuffix("_")) if has_methods and not different else ""
    if method:
        return method
    row = row or row_of(name)
    if row is not None:
        return advice(row)
    for room in _ROOMS:
        if room != package and name in _public(room):
            return f"; use {room}.{name}"
    if any(name in each.split() for each in (pytorch_names, *(each for _, each in _PACKAGES.values()))):
        return _THEIRS
    suggestion = meant(name, _public(package))
    if suggestion is None and has_methods:
        suggestion = meant(name, [each for each in dir(_kinds()[0]) if not each.startswith("_")])
        return f"; did you mean x.{suggestion}?" if suggestion else ""
    return f"; did you mean {suggestion}?" if suggestion else ""


def _kinds() -> tuple[Any, Any, Any]:
    tensor: Any = import_module("burnpy.tensor")
    return tensor.Tensor, tensor.IntTensor, tensor.BoolTensor


def _method(name: str) -> str:
    """Return the suggestion for a function that is a method of tensors here; an empty string if it is not one."""
    row = row_of(name)
    for cls, x in zip(_kinds(), "xib", strict=True):
        attribute: Any = getattr(cls, name, None)
        if isinstance(attribute, property):
            return f", which is an attribute: {x}.{name}"
        if hasattr(attribute, "__self__"):  # a classmethod
            return advice(row) if row else f"; write {cls.__name__}.{name}(..., device=device)"
        if attribute is not None:
            return f", which is a method: {row.ours if row and f'.{name}(' in row.ours else f'{x}.{name}(...)'}"
    return ""


def _public(package: str) -> list[str]:
    """Return the public names of a package."""
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
    suggestion = meant(name, known)
    return f"; did you mean {suggestion}?" if suggestion else ""
