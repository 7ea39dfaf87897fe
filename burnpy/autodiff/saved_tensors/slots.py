"""Replacement of saved arrays, on which saved-tensor hooks and checkpointing are built.

A `Saver` is an observer (`burnpy.autodiff.current.observing`): for every recorded node it is called with each innermost
saved array, and may replace it by a placeholder, a `Stored`. The node's vjps then restore the arrays first. Of several
savers the innermost is called first; the others skip its placeholders, which are no arrays.

A strategy such as `Balanced` has deferred primitives, which can compute their array on demand. Such a primitive has
``peek()``, which returns the array, and its class has ``holding(array)``, which creates a primitive that has its array
already. A deferred primitive saved by a node has ``read()``, which returns the array and counts as one of its uses; one
that operations compute with has ``kept()``, which returns the deferred primitive, or the array, that a node saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from burnpy.autodiff.current import current_mode
from burnpy.autodiff.graph import Leaf, is_array, mapped, with_relays
from burnpy.backend.errors import SavedTensorsError
from burnpy.backend.primitives import Float
from burnpy.backend.rules import Vjp


class Stored:
    """A placeholder for a saved array until a vjp needs the array."""

    __slots__ = ()

    def restored(self) -> Any:
        """Return the array."""
        raise NotImplementedError


class Saver:
    """An observer that replaces the saved arrays of nodes."""

    __slots__ = ()

    leaves = True  #: whether the values of leaves, which the graph keeps alive anyway, are replaced too

    def swapped(self, device: Any, operation: str, x: Any) -> Any:
        """Return the placeholder for ``x``, an innermost array or deferred primitive; or ``x`` to leave it in place."""
        raise NotImplementedError

    def of_leaf(self, x: Any) -> Any:
        """Return the placeholder for the value of a leaf, if these are not replaced: by default the value itself."""
        return x

    def handed(self, device: Any, x: Any) -> Any:
        """Return the placeholder for an array of an argument of `checkpoint`; called on the innermost saver."""
        return self.swapped(device, "checkpoint", x)

    def __call__(self, device: Any, node: Any) -> None:
        """Replace the arrays of a node that was just recorded, and of its relays."""
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
        """Return a saved value with its arrays replaced."""
        if hasattr(x, "mapped"):
            return x.mapped(partial(self._with, device, operation, held))
        if not is_array(x):
            return x
        for array in held:
            if x is array:
                return self.of_leaf(x)
        return self.swapped(device, operation, x)


def innermost_saver() -> Saver | None:
    """Return the innermost saver of this context, or None."""
    mode = current_mode()
    observers = () if mode is None else mode.observers
    return next((observer for observer in observers if isinstance(observer, Saver)), None)


def refuse_where_disabled(operation: str) -> None:
    """Raise an error inside of `disable_saved_tensors_hooks`.

    Raises:
        SavedTensorsError: hooks are disabled here.
    """
    mode = current_mode()
    if mode is not None and mode.no_saving is not None:
        raise SavedTensorsError(f"{operation} is disabled here by disable_saved_tensors_hooks(): {mode.no_saving}")


def restored(x: Any) -> Any:
    """Return the array for a placeholder; other values are returned unchanged."""
    return x.restored() if isinstance(x, Stored) else x


def array_of(x: Any) -> Any:
    """Return the array of a deferred primitive; an array is returned unchanged."""
    return x.peek() if hasattr(x, "peek") else x


def _arrays_of_leaves(node: Any) -> Sequence[Any]:
    arrays: list[Any] = []
    for part in with_relays(node):
        for parent in (part.parent0, part.parent1):
            leaf = parent if parent is None or isinstance(parent, Leaf) else parent.target
            if isinstance(leaf, Leaf):
                value = leaf.value
                if hasattr(value, "mapped"):
                    mapped(lambda x: arrays.append(array_of(x)), value)
                else:
                    arrays.append(array_of(value))
    return arrays


_PLAIN = frozenset({int, float, bool, tuple, slice, type(None)})
"""Classes of saved values that are not arrays, for a fast check."""


def opened(vjp: Vjp, kept: tuple[Any, ...]) -> tuple[Vjp, tuple[Any, ...]]:
    """Return a vjp and its saved values without the wrappers and placeholders of savers."""
    while isinstance(vjp, partial) and vjp.func is _with_restored:
        (vjp,), kept = vjp.args, tuple([mapped(restored, x) for x in kept])
    return vjp, kept


def _with_restored(vjp: Vjp, inner: Any, grad: Float, *kept: Any) -> Any:
    return vjp(
        inner,
        grad,
        *[x.restored() if isinstance(x, Stored) else x if x.__class__ in _PLAIN else mapped(restored, x) for x in kept],
    )
