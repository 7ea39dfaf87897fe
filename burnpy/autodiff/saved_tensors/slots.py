"""Replacing what nodes keep: how saved-tensor hooks and checkpointing get at a node's arrays.

A `Saver` is an observer (`burnpy.autodiff.modes.observing`): of every node just recorded it is shown each innermost
array, and may put something else in its place, a `Stored`. The node's vjps then have the arrays restored first. Of
several savers the innermost is first; what it stored is no array any more, and the others pass it by.

A strategy such as `Balanced` has primitives that can compute their array when it is asked for. Such a primitive has
``peek()``, which gives the array, and its class has ``holding(array)``, which makes one that has it already. One that
a node keeps has ``read()``, which gives the array to one of those that keep it; one that operations are done on has
``kept()``, which makes such a one of it, or an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from burnpy.autodiff.graph import Leaf, Relay, Vjp, is_array, mapped
from burnpy.autodiff.modes import current_mode
from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import SavedTensorsError
from burnpy.backend.primitives import Float
from burnpy.tensor.base import TensorBase, new_tensor


class Stored:
    """What stands in place of an array until a vjp wants it."""

    __slots__ = ()

    def restored(self) -> Any:
        """The array."""
        raise NotImplementedError


class Saver:
    """An observer that replaces the arrays of nodes."""

    __slots__ = ()

    leaves = True  #: whether arrays that the graph holds anyway, as those of its leaves, are replaced too

    def swapped(self, device: Any, operation: str, x: Any) -> Any:
        """What stands in place of an innermost array or deferred primitive, ``x``; ``x`` itself to leave it there."""
        raise NotImplementedError

    def of_leaf(self, x: Any) -> Any:
        """What stands in place of an array that a leaf of the graph holds, where those are not replaced."""
        return x

    def handed(self, device: Any, x: Any) -> Any:
        """What stands in place of an array of an argument of `checkpoint`, called where this is the innermost."""
        return self.swapped(device, "checkpoint", x)

    def __call__(self, device: Any, node: Any) -> None:
        """Replace the arrays of a node that was just recorded, and of the relays that it was made with."""
        operation = node.operation
        held = () if self.leaves else _arrays_of_leaves(node)
        for part in with_relays(node):
            part.vjp0, part.saved0 = self._replaced(device, operation, held, part.vjp0, part.saved0)
            if part.parent1 is not None:
                part.vjp1, part.saved1 = self._replaced(device, operation, held, part.vjp1, part.saved1)

    def _replaced(self, device: Any, operation: str, held: Sequence[Any], vjp: Vjp, kept: Any) -> tuple[Vjp, Any]:
        if kept.__class__ is not tuple:
            new = self._with(device, operation, held, kept)
            return (vjp, kept) if new is kept else (partial(_with_restored, vjp), new)
        changed = False
        members: list[Any] = []
        for x in kept:
            y = x if x.__class__ in _PLAIN else self._with(device, operation, held, x)
            changed = changed or y is not x
            members.append(y)
        return (partial(_with_restored, vjp), tuple(members)) if changed else (vjp, kept)

    def _with(self, device: Any, operation: str, held: Sequence[Any], x: Any) -> Any:
        """Something that is kept, with what stands in place of its arrays."""
        if hasattr(x, "mapped"):
            return x.mapped(partial(self._with, device, operation, held))
        if not is_array(x):
            return x
        for array in held:
            if x is array:
                return self.of_leaf(x)
        return self.swapped(device, operation, x)


def innermost_saver() -> Saver | None:
    """The saver whose turn is first in this context."""
    mode = current_mode()
    observers = () if mode is None else mode.observers
    return next((observer for observer in observers if isinstance(observer, Saver)), None)


def refuse_where_disabled(operation: str) -> None:
    """An error where `disable_saved_tensors_hooks` holds."""
    mode = current_mode()
    if mode is not None and mode.no_saving is not None:
        raise SavedTensorsError(f"{operation} is disabled here by disable_saved_tensors_hooks(): {mode.no_saving}")


def restored(x: Any) -> Any:
    """The array for whatever stands in its place."""
    return x.restored() if isinstance(x, Stored) else x


def array_of(x: Any) -> Any:
    """The array of a deferred primitive; an array itself."""
    return x.peek() if hasattr(x, "peek") else x


def tensor_around(device: Any, array: Any) -> TensorBase[Any]:
    """An innermost array as a tensor of its kind, on the innermost device beneath ``device``."""
    plain = device.discrete
    return new_tensor(TensorBase.kinds[kind_of(array.dtype)], plain, array)  # type: ignore[no-any-return]  # of that class


def with_relays(node: Any) -> Sequence[Any]:
    """A node, and the relays that it was made with."""
    if node.parent0.__class__ is not Relay and node.parent1.__class__ is not Relay:
        return (node,)
    found = [node]
    for part in found:
        found += [parent for parent in (part.parent0, part.parent1) if parent.__class__ is Relay]
    return found


def _arrays_of_leaves(node: Any) -> Sequence[Any]:
    found: list[Any] = []
    for part in with_relays(node):
        for parent in (part.parent0, part.parent1):
            leaf = parent if parent is None or isinstance(parent, Leaf) else parent.target
            if isinstance(leaf, Leaf):
                value = leaf.value
                if hasattr(value, "mapped"):
                    mapped(lambda x: found.append(array_of(x)), value)
                else:
                    found.append(array_of(value))
    return found


_PLAIN = frozenset({int, float, bool, tuple, slice, type(None)})
"""Classes, quickly told, of what rules keep besides arrays."""


def opened(vjp: Vjp, kept: tuple[Any, ...]) -> tuple[Vjp, tuple[Any, ...]]:
    """A vjp and what it keeps, without what savers put around and into them."""
    while isinstance(vjp, partial) and vjp.func is _with_restored:
        (vjp,), kept = vjp.args, tuple([mapped(restored, x) for x in kept])
    return vjp, kept


def _with_restored(vjp: Vjp, inner: Any, grad: Float, *kept: Any) -> Any:
    return vjp(
        inner,
        grad,
        *[x.restored() if isinstance(x, Stored) else x if x.__class__ in _PLAIN else mapped(restored, x) for x in kept],
    )
