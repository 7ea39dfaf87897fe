"""Guards: whether the arguments of a call are of the kind that a plan was made for, in as little time as possible.

A call compares its arguments with those of the last plan first, leaf by leaf. Only if they differ, a key is made of
them, by which the plan is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from burnpy.autodiff.autodiff import Autodiff
from burnpy.backend.plans.source import Source
from burnpy.tensor.generator import Generator
from burnpy.tensor.tensor_base import TensorBase

Guard: TypeAlias = Callable[[Sequence[Any]], "list[Any] | None"]
"""A function of the leaves of a call's arguments: the inputs of the plan, or None if the leaves are of another kind."""
_PLAIN = (int, bool, str, bytes, type(None))


def guard(leaves: Sequence[Any], inputs: Sequence[int], device: Any) -> Guard | None:
    """Return the guard of a plan; None if a leaf is on a device of several levels.

    Args:
        leaves: the leaves that the plan was made for.
        inputs: the numbers of those that are inputs of the plan.
        device: the device that computes, which makes primitives of numbers.
    """
    source = Source()
    values: dict[int, str] = {}
    for k, leaf in enumerate(leaves):
        name = f"x{k}"
        cls = source.bind(leaf.__class__)
        if isinstance(leaf, TensorBase):
            value = _tensor(source, name, cls, leaf)
            if value is None:
                return None
            values[k] = value
        elif leaf.__class__ is float or leaf.__class__ is Generator:
            _refuse(source, f"{name}.__class__ is not {cls}")
            values[k] = f"{source.bind(device.host_number)}({name})" if leaf.__class__ is float else f"{name}._numpy"
        elif isinstance(leaf, _PLAIN):
            _refuse(source, f"{name}.__class__ is not {cls} or {name} != {source.bind(leaf)}")
        else:
            _refuse(source, f"{name} is not {source.bind(leaf)}")
    names = "".join(f"x{k}, " for k in range(len(leaves)))
    source.lines.insert(0, f"({names}) = leaves")
    result = f"[{', '.join(values[k] for k in inputs)}]"
    made: Guard = source.definition(["leaves"], result, "guard", [])({})
    return made


def _tensor(source: Source, name: str, cls: str, leaf: TensorBase[Any]) -> str | None:
    """Write the comparisons of a tensor, and return the expression of its primitive; None if there is no fast way."""
    device: Any = leaf._device
    _refuse(source, f"{name}.__class__ is not {cls} or {name}._device is not {source.bind(device)}")
    primitive, array = f"p{name}", leaf._primitive
    source.write(f"{primitive} = {name}._primitive")
    if leaf.kind == "float" and device.differentiates:
        if device.__class__ is not Autodiff or device.computing is not device.inner or device.inner.differentiates:
            return None
        _refuse(source, f"({primitive}.node is not None) is not {array.node is not None}")
        primitive, array = f"a{name}", array.value
        source.write(f"{primitive} = p{name}.value")
    shape, dtype = source.bind(tuple(array.shape)), source.bind(array.dtype)
    _refuse(source, f"{primitive}.shape != {shape} or {primitive}.dtype is not {dtype}")
    return primitive


def _refuse(source: Source, condition: str) -> None:
    source.write(f"if {condition}: return None")
