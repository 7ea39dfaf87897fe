"""The arguments of a checkpointed function: finding the tensors in them, and their arrays, and putting others there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from burnpy.autodiff.graph import Leaf, mapped
from burnpy.autodiff.saved_tensors.slots import Saver, array_of, restored
from burnpy.tensor.base import TensorBase, new_tensor


def tensors_in(x: Any) -> Iterator[TensorBase[Any]]:
    """The tensors in tuples, lists and dicts."""
    if isinstance(x, TensorBase):
        yield x
    elif isinstance(x, (tuple, list)):
        for member in x:
            yield from tensors_in(member)
    elif isinstance(x, Mapping):
        for member in x.values():
            yield from tensors_in(member)


def with_tensors(f: Callable[[TensorBase[Any]], Any], x: Any) -> Any:
    """``x`` with ``f`` of each tensor in it, in tuples, lists and dicts; what holds no tensor is handed on as it is."""
    if isinstance(x, TensorBase):
        return f(x)
    if type(x) is list:
        return [with_tensors(f, member) for member in x]
    if isinstance(x, tuple):
        members = [with_tensors(f, member) for member in x]
        make: Any = getattr(type(x), "_make", type(x))  # a named tuple has its members as arguments
        return make(members)
    if type(x) is dict:
        return {key: with_tensors(f, member) for key, member in x.items()}
    return x


def innermost(value: Any) -> Sequence[Any]:
    """The innermost arrays, or deferred primitives, of a primitive."""
    if not hasattr(value, "mapped"):
        return (value,)
    found: list[Any] = []

    def see(x: Any) -> Any:
        found.append(x)
        return x

    mapped(see, value)
    return found


def arrays_in(arguments: Any) -> list[Any]:
    """Those of all tensors in tuples, lists and dicts."""
    return [x for tensor in tensors_in(arguments) for x in innermost(tensor._primitive)]


def handing_to(outer: Saver) -> Callable[[TensorBase[Any]], TensorBase[Any]]:
    """What gives a section's argument to the saver around it, as it is given what nodes keep."""

    def handed(x: TensorBase[Any]) -> TensorBase[Any]:
        if _is_leaf(x):
            return x  # the graph holds it
        return _with_arrays(x, lambda array: outer.handed(x.device, without_recipe(array)))

    return handed


def _is_leaf(x: TensorBase[Any]) -> bool:
    node = getattr(x._primitive, "node", None)
    return node is not None and node.target.__class__ is Leaf


def alone(x: TensorBase[Any]) -> TensorBase[Any]:
    """A section's argument, without a recipe for it and what that is made of."""
    if _is_leaf(x):
        return x
    return _with_arrays(x, without_recipe)


def without_recipe(x: Any) -> Any:
    """A deferred primitive that has its array and nothing else; an array itself."""
    return x.holding(array_of(x)) if hasattr(x, "holding") else x


def there_again(x: TensorBase[Any]) -> TensorBase[Any]:
    """A section's argument, with its arrays for what stands in their place."""
    return _with_arrays(x, restored)


def _with_arrays(x: TensorBase[Any], f: Callable[[Any], Any]) -> TensorBase[Any]:
    return new_tensor(type(x), x._device, mapped(f, x._primitive))  # type: ignore[no-any-return]  # of that class
