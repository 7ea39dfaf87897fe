"""Residuals: the values that the forward rule of a `custom_vjp` passes to its backward rule, in nested containers."""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.custom.arguments import Kept, brought, kept_of, tensor
from burnpy.backend.errors import DeviceError
from burnpy.backend.primitives import Value
from burnpy.tensor.tensor_base import TensorBase


class Slot:
    """A placeholder for a tensor in the residuals."""

    __slots__ = ("index", "like")

    def __init__(self, index: int, like: Kept) -> None:
        self.index = index
        self.like = like


def packed(who: str, tree: Any, device: Any, values: list[Value]) -> Any:
    """Replace each tensor in a tree by a `Slot`; the primitives are appended to ``values``.

    Raises:
        DeviceError: a tensor is on another device than ``device``.
    """
    if isinstance(tree, TensorBase):
        x = brought(tree, device)
        like = kept_of(x)
        if x.device is not device or like is None:
            raise DeviceError(
                f"{who} returned a residual on {x.device}, but its arguments are on {device}; "
                "compute residuals from the arguments alone"
            )
        values.append(x._primitive)
        return Slot(len(values) - 1, like)
    if isinstance(tree, dict):
        return {key: packed(who, member, device, values) for key, member in tree.items()}
    if isinstance(tree, (tuple, list)):
        return _like(tree, [packed(who, member, device, values) for member in tree])
    return tree


def unpacked(tree: Any, device: Any, values: tuple[Value, ...]) -> Any:
    """Replace each slot in a tree by the tensor of its primitive in ``values``."""
    if isinstance(tree, Slot):
        return tensor(tree.like, device, values[tree.index])
    if isinstance(tree, dict):
        return {key: unpacked(member, device, values) for key, member in tree.items()}
    if isinstance(tree, (tuple, list)):
        return _like(tree, [unpacked(member, device, values) for member in tree])
    return tree


def tensors_in(tree: Any) -> list[TensorBase[Any]]:
    """Return the tensors in residuals, in order."""
    if isinstance(tree, TensorBase):
        return [tree]
    members = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (tuple, list)) else ()
    return [x for member in members for x in tensors_in(member)]


def _like(tree: Any, members: list[Any]) -> Any:
    """Return the members as a list, tuple or named tuple of the type of ``tree``."""
    if isinstance(tree, list):
        return members
    return tree._make(members) if hasattr(tree, "_make") else tuple(members)
