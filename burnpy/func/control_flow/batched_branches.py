"""`cond` and `while_loop` whose condition differs between the examples of `burnpy.func.vmap`.

Each example keeps the values of its own branch, or of its own number of steps: all examples compute both branches, or
as many steps as one of them needs, and `where` chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burnpy.func.pytree import Structure
from burnpy.tensor.joining import where
from burnpy.tensor.levels import differs_between_examples, levels_of, raised
from burnpy.tensor.tensor import BoolTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, new_tensor


def is_under_vmap(x: TensorBase[Any]) -> bool:
    """Return whether a level of `vmap` is at or beneath the device of a tensor."""
    return any(level.lifts_discrete for level in levels_of(x._device))


def chosen_branches(
    predicate: BoolTensor[Any], branches: Sequence[Callable[..., list[Any]]], leaves: list[Any], structure: Structure
) -> list[Any]:
    """Call both branches, and return the leaves of the result that each example chooses.

    Args:
        predicate: a bool for each example.
        branches: the functions of the operands for True and for False, which return leaves of equal shapes and dtypes.
        leaves: the leaves of the operands, tensors or not.
        structure: their structure.
    """
    one, two = [
        branch(*structure.unflatten([_constant_unless(chosen, x) for x in leaves]))
        for branch, chosen in zip(branches, (predicate, ~predicate), strict=True)
    ]
    return [where(predicate, x, y) for x, y in zip(one, two, strict=True)]


def next_state(active: BoolTensor[Any], step: Callable[[list[Any]], list[Any]], leaves: list[Any]) -> list[Any] | None:
    """Return the leaves of a loop's state after one more step of the examples that are active; None if none is."""
    running: Any = active
    while differs_between_examples(running):
        device = running._device
        beneath = device if device.lifts_discrete else device.inner
        running = (
            new_tensor(BoolTensor, beneath, running._primitive)
            if beneath is not device
            else any_example(running, device)
        )
    return next_leaves(active, step, leaves) if running.item() else None


def next_leaves(active: BoolTensor[Any], step: Callable[[list[Any]], list[Any]], leaves: list[Any]) -> list[Any]:
    """Return the leaves of a loop's state after one more step; those of examples that are not active stay."""
    new = step([_constant_unless(active, x) for x in leaves])
    return [where(active, x, old) for x, old in zip(new, leaves, strict=True)]


def any_example(x: BoolTensor[Any], level: Any) -> BoolTensor[Any]:
    """Return whether a bool of a level of `vmap` is True for any of the examples, on the device beneath."""
    own, inner = level.own(raised(x, level)._primitive), level.inner.discrete
    value = inner.any(own.value, (0,), False) if own.batched else own.value
    return new_tensor(BoolTensor, level.inner, value)  # type: ignore[no-any-return]  # of that class


def _constant_unless(chosen: Any, x: Any) -> Any:
    """Return a tensor that is a constant for examples that are not chosen.

    So their gradients are 0 even where what they do not choose has none, as the root of a negative number.
    """
    if not isinstance(x, Tensor) or _is_plain(x._device):
        return x
    return where(chosen, x, x.detach())


def _is_plain(device: Any) -> bool:
    """Return whether only levels of `vmap` are at and beneath a device, so that nothing is differentiated."""
    while device.lifts_discrete:
        device = device.inner
    return not device.differentiates
