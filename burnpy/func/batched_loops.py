"""Loops of compiled functions under `burnpy.func.vmap`: recorded once, on the device beneath, for all examples.

The loop's function is called on a level of its own for each recording, which stands for the level outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from burnpy.backend.primitives import Value
from burnpy.batching.batched import Batched
from burnpy.batching.batched_value import BatchedValue
from burnpy.func.batch_dims import batch_at, batch_first
from burnpy.func.batched_branches import any_example, next_leaves
from burnpy.func.derivative_levels import Level, base_for
from burnpy.func.recorded_scans import recorded_scan
from burnpy.func.recorded_while_loops import recorded_while
from burnpy.tensor.levels import raised, working_on
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, new_tensor


def looped_while(condition: Callable[..., Any], step: Callable[..., list[Any]], state: list[Any]) -> list[Any]:
    """Record a `while_loop`, as `recorded_while`, on the device beneath the levels of `vmap` that are innermost."""
    level: Any = base_for("while_loop", state)
    if not level.lifts_discrete:
        return recorded_while(condition, step, state)
    batched = [True] * len(state)

    def test(leaves: list[Any]) -> Any:
        return _for_examples(level, leaves, batched, lambda own, xs: any_example(condition(xs), own))

    def advance(leaves: list[Any]) -> list[Any]:
        def all_examples(own: Any, xs: list[Any]) -> list[Any]:
            return [_beneath(own, x) for x in next_leaves(condition(xs), step, xs)]

        return _for_examples(level, leaves, batched, all_examples)  # type: ignore[no-any-return]  # as it returns

    lowered = [_beneath(level, x) for x in state]
    with working_on(level.inner):
        results = looped_while(test, advance, lowered)
    return [_on_level(level, x) for x in results]


def looped_scan(
    body: Any, carry: list[Any], xs: list[Any], length: int, reverse: bool, again: bool
) -> tuple[list[Any], list[Any]] | None:
    """Record a `scan`, as `recorded_scan`, on the device beneath the levels of `vmap` that are innermost."""
    level: Any = base_for("scan", (*carry, *xs))
    if not level.lifts_discrete:
        return recorded_scan(body, carry, xs, length, reverse, again)
    owned = [level.own(raised(x, level)._primitive) for x in xs]
    batched = [True] * len(carry) + [x.batched for x in owned]

    def all_examples(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        def of(own: Any, leaves: list[Any]) -> tuple[list[Any], list[Any]]:
            new, y = body(leaves[: len(carry)], leaves[len(carry) :])
            return [_beneath(own, leaf) for leaf in new], [_beneath(own, leaf) for leaf in y]

        return _for_examples(level, [*carry, *x], batched, of)  # type: ignore[no-any-return]  # as it returns

    lowered = [new_tensor(type(x), level.inner, own.value) for x, own in zip(xs, owned, strict=True)]
    slices = [
        batch_at(x, level.inner, 1) if own.batched else x for x, own in zip(lowered, owned, strict=True)
    ]  # the steps first, then the batch
    with working_on(level.inner):
        found = looped_scan(all_examples, [_beneath(level, x) for x in carry], slices, length, reverse, again)
    if found is None:
        return None
    last, stacks = found
    return [_on_level(level, x) for x in last], [_on_level(level, batch_first(y, level.inner, 1)) for y in stacks]


def _for_examples(
    level: Any, leaves: Sequence[Any], batched: Sequence[bool], f: Callable[[Any, list[Any]], Any]
) -> Any:
    """Call ``f`` with a level that stands for ``level`` in a nested recording, and with the leaves on it.

    Args:
        level: the level of `vmap` outside.
        leaves: tensors of the device beneath it in the nested recording.
        batched: whether each has the batch as its first dimension.
        f: the function.
    """
    with Level(Batched, level.api, leaves[0]._device) as own:
        own.size, own.randomness = level.size, level.randomness
        own.stands_for, own.entry = level, partial(_enter, own)
        return f(
            own,
            [
                new_tensor(type(x), own, BatchedValue(own, x._primitive, has_batch))
                for x, has_batch in zip(leaves, batched, strict=True)
            ],
        )


def _enter(own: Any, level: Any, primitive: BatchedValue) -> BatchedValue:
    """Return a primitive of the level outside, over which a function closes, on the level that stands for it."""
    value: Value = primitive.value
    if primitive.dtype.kind not in "iub":
        value = raised(new_tensor(Tensor, level.inner, value), own.inner)._primitive
    return BatchedValue(own, value, primitive.batched)


def _beneath(level: Any, x: TensorBase[Any]) -> TensorBase[Any]:
    """Return a tensor of the device beneath a level, with the batch as its first dimension."""
    return new_tensor(type(x), level.inner, level.spread(level.own(raised(x, level)._primitive)))  # type: ignore[no-any-return]  # of x's class


def _on_level(level: Any, x: TensorBase[Any]) -> TensorBase[Any]:
    """Return a tensor of the device beneath a level, whose first dimension is the batch, as one of the level."""
    return new_tensor(type(x), level, BatchedValue(level, x._primitive, True))  # type: ignore[no-any-return]  # of x's class
