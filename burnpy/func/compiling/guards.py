"""The guard of a plan: what is compared at each call of a compiled function, leaf by leaf of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from burnpy.autodiff.autodiff import Autodiff
from burnpy.backend.plans.source import Source
from burnpy.backend.primitives import INEXACT
from burnpy.func.compiling.recorded_calls import NUMPY_FLOATS, STATIC, Call
from burnpy.func.pytree import Structure, handler_of
from burnpy.tensor.generator import Generator
from burnpy.tensor.tensor_base import TensorBase

ArgumentGuard: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], "tuple[list[Any], list[Any]] | None"]
"""A function of the arguments of a call: their leaves and the inputs of a plan, or None if they are of another kind.

It is written for each plan, and compares the arguments with those of the plan, leaf by leaf: only if they differ, a key
is made of them, by which another plan is looked up.
"""


def guard_of(call: Call, inputs: Sequence[int], device: Any) -> ArgumentGuard:
    """Return the guard of a plan.

    Args:
        call: the call that the plan was made for.
        inputs: the numbers of the leaves of its arguments that are inputs of the plan.
        device: the device that computes, which makes primitives of numbers.
    """
    source, names = Source(), list[str]()
    for name, tree, structure in zip(
        ("args", "kwargs"), (call.args, call.kwargs), call.structure.children, strict=True
    ):
        _unpack(source, name, tree, structure, names)
    values: dict[int, str] = {}
    nodes: dict[int, int] = {}  # the first leaf with a node
    for k, (name, leaf) in enumerate(zip(names, call.leaves, strict=True)):
        cls = source.bind(leaf.__class__)
        if isinstance(leaf, TensorBase):
            value = _own(source, name, leaf) if k < call.own else _tensor(source, name, cls, leaf)
            if value is None:
                return lambda args, kwargs: None
            values[k] = value
            node = getattr(leaf._primitive, "node", None)
            if node is not None and nodes.setdefault(id(node), k) != k:
                _refuse(source, f"p{names[nodes[id(node)]]}.node is not p{name}.node")
        elif leaf.__class__ is float:
            _refuse(source, f"{name}.__class__ is not {cls} and not isinstance({name}, {source.bind(NUMPY_FLOATS)})")
            values[k] = f"{source.bind(device.host_number)}({name})"
        elif leaf.__class__ is Generator:
            _refuse(source, f"{name}.__class__ is not {cls}")
            values[k] = f"{name}._numpy"
        elif isinstance(leaf, STATIC):
            _refuse(source, f"{name}.__class__ is not {cls} or {name} != {source.bind(leaf)}")
        else:
            _refuse(source, f"{name} is not {source.bind(leaf)} or {source.bind(handler_of)}({name}) is not None")
    if len(nodes) > 1:
        _refuse(source, f"len({{{', '.join(f'p{names[k]}.node' for k in nodes.values())}}}) != {len(nodes)}")
    result = f"[{', '.join(names)}], [{', '.join(values[k] for k in inputs)}]"
    made: ArgumentGuard = source.definition(["args", "kwargs"], result, "guard", [])({})
    return made


def _unpack(source: Source, name: str, tree: Any, structure: Structure, leaves: list[str]) -> None:
    """Write the comparison of a tree with the structure of one like it, and name its leaves."""
    handler, rest = structure.handler, source.bind(structure.rest)
    if handler is None:
        leaves.append(name)
        return
    cls, count = tree.__class__, len(structure.children)
    members = f"m{len(source.lines)}"
    if cls is tuple or cls is list:
        _refuse(source, f"{name}.__class__ is not {source.bind(cls)} or len({name}) != {count}")
        members = name
    elif cls is dict and not count:
        _refuse(source, f"{name}.__class__ is not {source.bind(cls)} or {name}")
    else:
        own = f"{source.bind(handler_of)}({name}) is not {source.bind(handler)}"
        _refuse(source, f"{name}.__class__ is not {source.bind(cls)} and {own}")
        source.write(f"{members}, rest = {source.bind(handler.flatten)}({name})")
        _refuse(source, f"rest is not {rest} and rest != {rest}")
        source.write(f"{members} = [*{members}]")
        _refuse(source, f"len({members}) != {count}")
    parts = [f"x{len(source.lines)}_{k}" for k in range(count)]
    if parts:
        source.write(f"({', '.join(parts)},) = {members}")
    children = [*handler.flatten(tree)[0]]
    for part, child, inside in zip(parts, children, structure.children, strict=True):
        _unpack(source, part, child, inside, leaves)


def _own(source: Source, name: str, leaf: TensorBase[Any]) -> str | None:
    """Write that a compiled module's own tensor is the plan's, and return the expression of its primitive."""
    primitive = source.bind(leaf._primitive)
    _refuse(source, f"{name}._primitive is not {primitive}")
    return (
        primitive
        if leaf.kind not in INEXACT or not leaf._device.differentiates
        else _tensor(source, name, source.bind(leaf.__class__), leaf)
    )


def _tensor(source: Source, name: str, cls: str, leaf: TensorBase[Any]) -> str | None:
    """Write the comparisons of a tensor, and return the expression of its primitive; None if there is no fast way, as
    it is on a device of several levels.
    """
    device: Any = leaf._device
    _refuse(source, f"{name}.__class__ is not {cls} or {name}._device is not {source.bind(device)}")
    primitive, array = f"p{name}", leaf._primitive
    source.write(f"{primitive} = {name}._primitive")
    if leaf.kind in INEXACT and device.differentiates:
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
