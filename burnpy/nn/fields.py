"""Validation of a module's fields, done once after its ``__init__``; every error names the path of the field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from burnpy.backend.errors import DeviceError, ModuleError, a
from burnpy.nn.tree import FrozenDict, TreeNode, joined, part_names, regrouped, walk
from burnpy.nn.variable import Variable
from burnpy.tensor.tensor_base import TensorBase

_ARRAYS = ("__array__", "__dlpack__", "__cuda_array_interface__")


def read_only_fields(module: TreeNode) -> tuple[str, ...]:
    """Make a module's fields read-only and return the names of those that contain parameters, buffers or modules.

    Raises:
        ModuleError: a field is, or contains, a value that a module cannot store.
    """
    name, fields = type(module).__name__, vars(module)
    parts = []
    for field, value in fields.items():
        stored, is_tree = _read_only(value, name, field)
        fields[field] = stored
        if is_tree:
            parts.append(field)
    return tuple(parts)


def check_variables(module: TreeNode) -> None:
    """Check that all variables of a module are on one device and that their ids are unique.

    Raises:
        DeviceError: variables are on different devices.
        ModuleError: two distinct variables have the same id.
    """
    name = type(module).__name__
    first: tuple[str, Any] | None = None
    ids: dict[str, tuple[str, Any]] = {}
    for path, item in walk(module):
        if not isinstance(item, Variable):
            continue
        device = item._value._device
        if first is None:
            first = path, device
        elif device is not first[1]:
            raise DeviceError(
                f"{name} holds {first[0]} on {first[1]} and {path} on {device}; a module is on one device: give all "
                "of its layers the same device, or move one with .to_device(device)"
            )
        known = ids.setdefault(item._id, (path, item))
        if known[1] is not item:
            raise ModuleError(
                f"{name} holds two {item.word}s of one id, {known[0]} and {path}, as copies of a module have; "
                "hold the same object in both places to share it, or give one of them .with_new_ids()"
            )


def _read_only(value: Any, name: str, path: str) -> tuple[Any, bool]:
    """Return the read-only form of a field's value, and whether it contains variables or modules.

    Lists become tuples and dicts become `FrozenDict`.

    Raises:
        ModuleError: a module cannot store it.
    """
    if isinstance(value, Variable):
        return value, True
    if isinstance(value, TreeNode):
        if not value._sealed:
            raise ModuleError(
                f"{name}.{path} holds {a(type(value).__name__)} whose __init__ is not done yet; a module cannot "
                "contain itself: let its parts be modules of their own"
            )
        return value, True
    if isinstance(value, TensorBase):
        _refuse_tensor(value, name, path)
    if isinstance(value, (str, bytes, int, float, type(None), type, np.generic)):
        return value, False
    if any(hasattr(value, attribute) for attribute in _ARRAYS):
        shape = f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else ""
        raise ModuleError(
            f"{name}.{path} is a {type(value).__module__}.{type(value).__name__}{shape}, and a module keeps arrays as "
            "tensors: write Param(Tensor.from_data(array, device=device)) for a tensor that it learns, Buffer(...) for "
            "any other"
        )
    if isinstance(value, (list, tuple)):
        parts = value if isinstance(value, tuple) else tuple(value)
        read_only_parts = [
            _read_only(part, name, joined(path, place)) for place, part in zip(part_names(parts), parts, strict=True)
        ]
        return regrouped(tuple([part for part, _ in read_only_parts]), parts), any(tree for _, tree in read_only_parts)
    if isinstance(value, Mapping):
        entries = {key: _read_only(part, name, joined(path, key)) for key, part in value.items()}
        is_tree = any(tree for _, tree in entries.values())
        for key in entries if is_tree else ():
            if not isinstance(key, str) or not key or "." in key:
                raise ModuleError(
                    f"{name}.{path} has the key {key!r}; where a dict holds parameters or modules, keys are parts of "
                    "their paths: non-empty strings without a dot"
                )
        return FrozenDict({key: part for key, (part, _) in entries.items()}), is_tree
    if isinstance(value, (set, frozenset)):
        for part in value:
            if _read_only(part, name, joined(path, "…"))[1]:
                raise ModuleError(
                    f"{name}.{path} is a set that holds {a(type(part).__name__)}, which has no path in it; "
                    "use a list, a tuple or a dict"
                )
        return frozenset(value), False
    refuse_hidden(value, name, path)
    return value, False


def _refuse_tensor(value: TensorBase[Any], name: str, path: str) -> NoReturn:
    buffer = {"float": "Buffer", "int": "IntBuffer", "bool": "BoolBuffer"}[value.kind]
    field = path.rpartition(".")[2]
    learned = (
        f"Param({field if field.isidentifier() else '...'}) for a tensor that it learns, "
        if value.kind == "float"
        else ""
    )
    raise ModuleError(
        f"{name}.{path} is a bare {type(value).__name__} of shape {value.shape}; wrap it: "
        f"{learned}{buffer}(...) for one that it does not learn"
    )


def refuse_hidden(value: Any, name: str, path: str) -> None:
    """Raise if an opaque value contains a tensor, variable or module, or if it is an iterator or mutable sequence.

    Parts inside such a value would not be moved, saved or trained. Inspected are the objects of bound methods, the
    arguments of `functools.partial`, closures of functions, and attributes of objects, one level deep.

    Raises:
        ModuleError: the value contains such a part, or can change or be exhausted.
    """
    what = f"{name}.{path} is {a(type(value).__name__)}"
    if isinstance(value, (Iterator, MutableSequence, memoryview)):
        raise ModuleError(
            f"{what}, which can change or be exhausted, and a module never changes; give "
            "it a list or a tuple, and of numbers a Buffer"
        )
    for where, part in _inside(value):
        if isinstance(part, (Variable, TensorBase, TreeNode)):
            raise ModuleError(
                f"{what} that keeps {a(type(part).__name__)}{where}, where it has no path and "
                "would stay as it is when the model is moved, saved or trained; make it a field of the module, in "
                "lists, tuples and dicts if need be, and use it in forward()"
            )


def _inside(value: Any) -> list[tuple[str, Any]]:
    """List the objects that a value refers to, one level deep, each with text that says where: " as attribute"."""
    if isinstance(value, partial):
        arguments: list[Any] = [value.func, *value.args, *value.keywords.values()]
        return [("", part) for each in arguments for part in (each, getattr(each, "__self__", None))]
    parts = [("", getattr(value, "__self__", None))]
    cells: Any = getattr(value, "__closure__", None) or ()
    parts += [("", getattr(cell, "cell_contents", None)) for cell in cells]
    names: Any = getattr(type(value), "__dataclass_fields__", None) or getattr(value, "__dict__", ())
    return parts + [(f" as {key}", getattr(value, key, None)) for key in names]
