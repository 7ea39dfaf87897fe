"""`cond` and `while_loop`: a choice and a loop that depend on values, in eager mode and in compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.func.control_flow.batched_loops import chosen_branches, is_under_vmap, looped_while, next_state
from burnpy.func.control_flow.nested_calls import recorder_of
from burnpy.func.control_flow.recorded_branches import recorded_cond
from burnpy.func.pytree import Structure, describe_tree, flatten, kept, loop_function, paths, tensor_leaves
from burnpy.func.user_functions import base_for
from burnpy.tensor.levels import differs_between_examples
from burnpy.tensor.tensor import BoolTensor
from burnpy.tensor.tensor_base import TensorBase

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
S = TypeVar("S")


def cond(
    predicate: BoolTensor[Any] | bool, true_f: Callable[[*Ts], R], false_f: Callable[[*Ts], R], *operands: *Ts
) -> R:
    """Call ``true_f(*operands)`` if the predicate is True, else ``false_f(*operands)``.

    As ``jax.lax.cond``. In a function that is `compiled` both functions are recorded, and each replay runs one of them,
    by the value that the predicate has then; its gradient runs the chosen one again. Otherwise only the chosen one is
    called, and the results are not compared: the other one may be invalid for these values, or call itself, and to
    record two operations takes eight times as long as the choice. Compile the function to compare both.

    Under `vmap`, with a predicate that differs between examples, both are called with all examples, and each example
    gets the result of its own; what the other one computes does not affect its gradient by the operands.

    Args:
        predicate: a bool, or a `BoolTensor` of shape ().
        true_f: a function of trees of tensors.
        false_f: a function of the same arguments, whose result has the same structure, shapes and dtypes.
        operands: the arguments.

    Raises:
        KindError: the predicate is no bool, or an argument is no function.
        ShapeError: the predicate has several elements; or, where both are called, the results have other shapes.
        ArgumentError, DTypeError: where both are called, the results have other structures, or dtypes.
        RecordingError: in a compiled function, it is differentiated twice, or a branch draws random numbers.

    >>> from burnpy import compiled
    >>> @compiled
    ... def root(x: Tensor[NumPy]) -> Tensor[NumPy]:
    ...     return cond(x > 0.0, lambda x: x.sqrt(), lambda x: -x, x)
    >>> root(Tensor[NumPy].from_data(4.0)).item(), root(Tensor[NumPy].from_data(-3.0)).item()
    (2.0, 3.0)
    """
    loop_function("cond", true_f, "for each case")
    loop_function("cond", false_f, "for each case")
    if isinstance(predicate, bool):
        return (true_f if predicate else false_f)(*operands)
    _checked_bool("cond", "predicate", predicate)
    leaves, structure = flatten(operands, whole=True)
    tensors = [leaf for leaf in leaves if isinstance(leaf, TensorBase)]
    is_recorded = recorder_of(base_for("cond", (predicate, *tensors))) is not None
    for_each = differs_between_examples(predicate) or (is_recorded and any(map(is_under_vmap, (predicate, *tensors))))
    if not is_recorded and not for_each:
        return (true_f if predicate.item() else false_f)(*operands)
    results: list[tuple[list[TensorBase[Any]], Structure]] = []

    def branch(f: Callable[..., Any]) -> Callable[..., list[Any]]:
        def flat(*given: Any) -> list[Any]:
            results.append(tensor_leaves("cond", "the result", f(*given)))
            if len(results) == 2:
                _same(results[0], results[1])
            return list(results[-1][0])

        return flat

    branches = [branch(true_f), branch(false_f)]
    if for_each:
        outs = chosen_branches(predicate, branches, leaves, structure)
    else:
        operand_leaves, structure = tensor_leaves("cond", "operands", operands)
        outs = recorded_cond(predicate, branches, list(operand_leaves), structure)
    return results[0][1].unflatten(outs)  # type: ignore[no-any-return]  # of the functions' type


def while_loop(condition: Callable[[S], BoolTensor[Any]], body: Callable[[S], S], state: S) -> S:
    """Return the state after ``state = body(state)`` was repeated for as long as ``condition(state)`` is True.

    As ``jax.lax.while_loop``. In a function that is `compiled` both functions are recorded once, and each replay runs
    as many steps as its values need; its gradient runs the steps again, and then from the last to the first. In eager
    mode it is a Python loop, and differentiated as one.

    Under `vmap`, with a condition that differs between examples, it runs until the condition is False for all of them;
    the state of an example no longer changes once its own condition is False.

    Args:
        condition: takes the state and returns a `BoolTensor` of shape ().
        body: takes the state and returns the next one, of the same structure, shapes and dtypes.
        state: a tree of tensors.

    Raises:
        ArgumentError: the structure of the state changes.
        ShapeError, DTypeError, KindError: a leaf changes its shape, dtype or kind, or is no tensor; or the condition is
            no single bool.
        RecordingError: a compiled function differentiates it again after reverse mode, or in reverse inside of `vmap`,
            or with steps that draw random numbers.

    >>> while_loop(lambda x: x < 100.0, lambda x: x * 2.0, Tensor[NumPy].from_data(3.0)).item()
    192.0
    """
    loop_function("while_loop", condition, "of the state as condition")
    loop_function("while_loop", body, "of the state as body")
    first, structure = tensor_leaves("while_loop", "state", state)
    if not first:
        raise ArgumentError("while_loop() got a state without tensors; give it at least one")

    def test(leaves: list[Any]) -> Any:
        answer = condition(structure.unflatten(leaves))
        _checked_bool("while_loop", "condition", answer)
        return answer

    def step(leaves: list[Any]) -> list[Any]:
        return kept("while_loop", "state", first, structure, body(structure.unflatten(leaves)))

    leaves: list[Any] = list(first)
    if recorder_of(base_for("while_loop", first)) is not None:
        return structure.unflatten(looped_while(test, step, leaves))  # type: ignore[no-any-return]  # of S
    while True:
        active = test(leaves)
        if differs_between_examples(active):
            new = next_state(active, step, leaves)
        else:
            new = step(leaves) if active.item() else None
        if new is None:
            return structure.unflatten(leaves)  # type: ignore[no-any-return]  # of S
        leaves = new


def _checked_bool(api: str, name: str, value: Any) -> None:
    """Check that a value is a single bool on a device."""
    if not isinstance(value, BoolTensor):
        raise KindError(
            f"{api}() takes a BoolTensor of shape () as {name}, got {describe_tree(value)}; compare, as in x > 0"
        )
    if value.shape:
        raise ShapeError(
            f"{api}() takes a BoolTensor of shape () as {name}, got shape {value.shape}; reduce it by .any()"
        )


def _same(one: tuple[list[TensorBase[Any]], Structure], two: tuple[list[TensorBase[Any]], Structure]) -> None:
    """Check that two branches return the same structure, shapes and dtypes."""
    (leaves, structure), (others, other) = one, two
    if structure != other:
        raise ArgumentError(
            f"cond() got {describe_tree(structure.unflatten(leaves))} from the first function and "
            f"{describe_tree(other.unflatten(others))} from the second; both must return the same structure"
        )
    for a, b, path in zip(leaves, others, paths(structure, "the result"), strict=True):
        for error, x, y in (
            (KindError, type(a).__name__, type(b).__name__),
            (ShapeError, f"shape {a.shape}", f"shape {b.shape}"),
            (DTypeError, f"dtype {a.dtype}", f"dtype {b.dtype}"),
        ):
            if x != y:
                raise error(f"cond() got {x} as {path} of the first function and {y} of the second; they must be equal")
