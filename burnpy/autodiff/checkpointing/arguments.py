"""Arguments of checkpointed functions: find the tensors in them and their arrays, and replace these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from burnpy.autodiff.graph import Leaf, mapped
from burnpy.autodiff.saved_tensors.slots import Saver, array_of, restored
from burnpy.tensor.tensor_base import TensorBase, new_tensor


def tensors_in(x: Any) -> Iterator[TensorBase[Any]]:
    """Yield the tensors in nested tuples, lists and dicts."""
    if isinstance(x, TensorBase):
        yield x
    elif isinstance(x, (tuple, list)):
        for member in x:
            yield from tensors_in(member)
    elif isinstance(x, Mapping):
        for member in x.values():
            yield from tensors_in(member)


def with_tensors(f: Callable[[TensorBase[Any]], Any], x: Any) -> Any:
    """Apply ``f`` to each tensor in nested tuples, lists and dicts; other values are returned unchanged."""
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
    """Return the innermost arrays, or deferred primitives, of a primitive."""
    if not hasattr(value, "mapped"):
        return (value,)
    arrays: list[Any] = []

    def collect(x: Any) -> Any:
        arrays.append(x)
        return x

    mapped(collect, value)
    return arrays


def arrays_in(arguments: Any) -> list[Any]:
    """Return the innermost arrays of all tensors in nested tuples, lists and dicts."""
    return [x for tensor in tensors_in(arguments) for x in innermost(tensor._primitive)]


def handing_to(outer: Saver) -> Callable[[TensorBase[Any]], TensorBase[Any]]:
    """Return a function that lets the saver around a section replace the arrays of the section's arguments."""

    def handed(x: TensorBase[Any]) -> TensorBase[Any]:
        if _is_leaf(x):
            return x  # the graph keeps it alive anyway
        return _with_arrays(x, lambda array: outer.handed(x.device, without_recipe(array)))

    return handed


def _is_leaf(x: TensorBase[Any]) -> bool:
    node = getattr(x._primitive, "node", None)
    return node is not None and node.target.__class__ is Leaf


def alone(x: TensorBase[Any]) -> TensorBase[Any]:
    """Return a section's argument without the recipe for recomputing it, for a section with no saver around it."""
    if _is_leaf(x):
        return x
    return _with_arrays(x, without_recipe)


def without_recipe(x: Any) -> Any:
    """Return a deferred primitive that has only its array and no recipe; arrays are returned unchanged."""
    return x.holding(array_of(x)) if hasattr(x, "holding") else x


def there_again(x: TensorBase[Any]) -> TensorBase[Any]:
    """Return a section's argument with its arrays restored."""
    return _with_arrays(x, restored)


def _with_arrays(x: TensorBase[Any], f: Callable[[Any], Any]) -> TensorBase[Any]:
    return new_tensor(type(x), x._device, mapped(f, x._primitive))  # type: ignore[no-any-return]  # of that class
