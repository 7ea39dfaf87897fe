"""`scan`, `cond` and `while_loop`: loops and choices that depend on values, in eager mode and in compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, TypeVar, TypeVarTuple

from burnpy.autodiff.tools.checkpoint import checkpoint
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.func.control_flow.batched_loops import chosen_branches, is_under_vmap, looped_scan, looped_while, next_state
from burnpy.func.control_flow.nested_calls import recorder_of
from burnpy.func.control_flow.recorded_branches import recorded_cond, refuse_draws
from burnpy.func.control_flow.recorded_scans import is_recorded
from burnpy.func.pytree import Structure, describe_tree, flatten, kept, loop_function, paths, tensor_leaves
from burnpy.func.user_functions import base_for
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import cat, stack
from burnpy.tensor.levels import differs_between_examples
from burnpy.tensor.tensor import BoolTensor
from burnpy.tensor.tensor_base import TensorBase

C = TypeVar("C")
X = TypeVar("X")
Y = TypeVar("Y")


@explained
def scan(
    f: Callable[[C, X], tuple[C, Y]],
    carry: C,
    xs: X,
    *,
    length: int | None = None,
    reverse: bool = False,
    every: int | None = None,
) -> tuple[C, Y]:
    """Call ``f(carry, x)`` for each slice ``x`` of ``xs`` along the first dim, each time with the carry of the last.

    As ``jax.lax.scan``. Results and derivatives are those of a Python loop. In a function that is `compiled` the loop
    is one operation, whose body is recorded once: compiling takes as long for 2,000 steps as for 20. Its gradient is a
    loop from the last step to the first. Differentiated twice, its steps are recorded one by one.

    Args:
        f: takes the carry and a slice; returns the new carry, of the same structure, shapes and dtypes, and a result.
        carry: the first carry, a tree of tensors; modules have all their tensors as leaves.
        xs: a tree of tensors whose first dims are equal, or None.
        length: the number of steps, which is needed if there are no ``xs``.
        reverse: whether to begin with the last slice. Results stay in the order of the slices.
        every: the number of steps of a section. The backward pass saves only the carry before each section; it runs
            the steps again. About the square root of the length needs the least memory. None saves all that it needs.

    Returns:
        The last carry, and the tree of the results, stacked along a new first dim.

    Raises:
        ArgumentError: the number of steps is unknown, two differ, or the structure of the carry changes.
        ShapeError, DTypeError, KindError: a leaf of the carry changes its shape, dtype or kind, or is not a tensor.

    >>> xs = Tensor[NumPy].from_data([1.0, 2.0, 3.0])
    >>> total, sums = scan(lambda c, x: (c + x, c + x), Tensor[NumPy].zeros(()), xs)
    >>> total.item(), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    """
    loop_function("scan", f, "of the carry and a slice")
    body = _Body(f, carry, xs, length)
    if every is not None and _count("every", every) < 1:
        raise ArgumentError(f"scan() got every={every}; expected at least 1 step")
    if not body.length:
        return _empty(body), body.results(None)
    leaves = body.carry_leaves
    if every is not None and every < body.length:
        last, stacks = _in_sections(body, leaves, reverse, every)
    else:
        last, stacks = _run(body, leaves, body.xs_leaves, reverse)
    return body.carry.unflatten(last), body.results(stacks)


class _Body:
    """The function of a scan, called with leaves, and the structures of its trees."""

    def __init__(self, f: Callable[..., Any], carry: Any, xs: Any, length: int | None) -> None:
        self.f = f
        self.carry_leaves: list[Any]
        self.xs_leaves: list[Any]
        self.carry_leaves, self.carry = tensor_leaves("scan", "carry", carry)
        self.xs_leaves, self.xs = tensor_leaves("scan", "xs", xs)
        self.of_no_step: list[Any] = []  #: the results of a scan without steps
        self.length = _length(self.xs_leaves, self.xs, length)
        self.ys: Structure | None = None

    def __call__(self, carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the leaves of the new carry and of the result."""
        returned = self.f(self.carry.unflatten(carry), self.xs.unflatten(x))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise ArgumentError(
                f"scan() takes a function that returns a pair (carry, result), and it returned "
                f"{describe_tree(returned)}; return None as the result if there is none"
            )
        new = kept("scan", "carry", self.carry_leaves, self.carry, returned[0])
        y, structure = tensor_leaves("scan", "the result", returned[1])
        if self.ys is None:
            self.ys = structure
        elif structure != self.ys:
            raise ArgumentError(
                f"scan() got {describe_tree(returned[1])} as the result of a step, and another structure in steps "
                "before; return the same structure in each step"
            )
        return new, y

    def results(self, stacks: Any) -> Any:
        if stacks is None:
            stacks = self.of_no_step
        return None if self.ys is None else self.ys.unflatten(stacks)


def _length(leaves: list[TensorBase[Any]], structure: Structure, length: int | None) -> int:
    """Return the number of steps."""
    count = None if length is None else _count("length", length)
    if count is not None and count < 0:
        raise ArgumentError(f"scan() got length={length}; expected 0 or more steps")
    if not leaves and count is None:
        raise ArgumentError("scan() got no xs and no length=; give the number of steps")
    for leaf, path in zip(leaves, paths(structure, "xs"), strict=True):
        if not leaf.shape:
            raise ShapeError(f"scan() got {path} without dims, which has no slices; let the function close over it")
        if count is None:
            count = leaf.shape[0]
        elif leaf.shape[0] != count:
            first = f"length={length}" if length is not None else f"{count} of {paths(structure, 'xs')[0]}"
            raise ShapeError(
                f"scan() got {leaf.shape[0]} slices of {path} (shape {leaf.shape}) and {first}; they must be equal"
            )
    return count or 0


def _count(name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise KindError(f"scan() takes an int as {name}, got {value!r:.60}") from None


def _run(body: _Body, carry: list[Any], xs: list[Any], reverse: bool, again: bool = False) -> tuple[Any, Any]:
    """Run the steps for all slices of xs; return the leaves of the last carry and of the stacked results."""
    if is_recorded((*carry, *xs)):
        found = looped_scan(body, carry, xs, xs[0].shape[0] if xs else body.length, reverse, again)
        if found is not None:
            return found
    slices = list(zip(*[x.unbind(0) for x in xs], strict=True)) if xs else [()] * body.length
    stacks: list[list[Any]] = []
    for x in reversed(slices) if reverse else slices:
        carry, y = body(carry, list(x))
        stacks.append(y)
    if reverse:
        stacks.reverse()
    return carry, [_stacked(list(leaves)) for leaves in zip(*stacks, strict=True)]


def _stacked(leaves: list[Any]) -> Any:
    """Return the results of all steps as one tensor."""
    for leaf in leaves:
        if leaf.shape != leaves[0].shape:
            raise ShapeError(
                f"scan() got results of shapes {leaves[0].shape} and {leaf.shape} from two steps; return the same "
                "shape in each step"
            )
    return stack(leaves)


def _in_sections(body: _Body, carry: list[Any], reverse: bool, every: int) -> tuple[list[Any], list[Any]]:
    """Run the steps in sections of ``every`` steps, which the backward pass runs again."""
    starts = range(0, body.length, every)
    parts: list[Any] = []
    for start in reversed(starts) if reverse else starts:
        stop = min(start + every, body.length)
        xs = [x[start:stop] for x in body.xs_leaves]
        carry, stacks = checkpoint(_section, body, carry, xs, stop - start, reverse)
        parts.append(stacks)
    if reverse:
        parts.reverse()
    return carry, [cat(list(stacks)) for stacks in zip(*parts, strict=True)]


def _section(body: _Body, carry: list[Any], xs: list[Any], length: int, reverse: bool) -> Any:
    part = object.__new__(_Body)
    part.__dict__.update(body.__dict__, length=length)
    out = _run(part, carry, xs, reverse)
    body.ys = part.ys
    return out


def _empty(body: _Body) -> Any:
    """Return the carry of a scan of no steps, after one call of the function with zeros for the shapes of results."""
    zeros = [type(x).zeros(x.shape[1:], dtype=x.dtype, device=x.device) for x in body.xs_leaves]
    _, y = body(body.carry_leaves, zeros)
    body.of_no_step = [leaf._like(leaf._backend.full((0, *leaf.shape), 0, leaf.dtype)) for leaf in y]
    return body.carry.unflatten(body.carry_leaves)


Ts = TypeVarTuple("Ts")
R = TypeVar("R")
S = TypeVar("S")


@explained
def cond(
    predicate: BoolTensor[Any] | bool, true_f: Callable[[*Ts], R], false_f: Callable[[*Ts], R], *operands: *Ts
) -> R:
    """Call ``true_f(*operands)`` if the predicate is True, else ``false_f(*operands)``.

    As ``jax.lax.cond``. In a function that is `compiled` both functions are recorded, and each replay runs one of them,
    by the value that the predicate has then; its gradient runs the chosen one again, and second derivatives run both.
    What an operation refuses for its values, such as a singular matrix, is an error only where the function runs.
    In eager mode only the chosen one is called, and the results are not compared: the other one may be invalid for
    these values, or call itself, and to record two operations takes eight times as long as the choice.

    Under `vmap`, with a predicate that differs between examples, both are called with all examples, and each example
    gets the result of its own; what the other one computes does not affect its gradient, by the operands and by tensors
    that the functions close over.

    Args:
        predicate: a bool, or a `BoolTensor` of shape ().
        true_f: a function of trees of tensors.
        false_f: a function of the same arguments, whose result has the same structure, shapes and dtypes.
        operands: the arguments. The functions may capture further tensors.

    Raises:
        KindError: the predicate is not a bool, or an argument is not a function.
        ShapeError: the predicate has several elements; or, where both are called, the results have other shapes.
        ArgumentError, DTypeError: where both are called, the results have other structures, or dtypes.
        RecordingError: in a compiled function, a branch of a cond that is differentiated draws random numbers.

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
    recorder = recorder_of(base_for("cond", (predicate, *tensors)))
    for_each = differs_between_examples(predicate) or (
        recorder is not None and any(map(is_under_vmap, (predicate, *tensors)))
    )
    if not for_each and recorder_of(predicate._device) is None:
        return (true_f if predicate.item() else false_f)(*operands)
    results: list[tuple[list[TensorBase[Any]], Structure]] = []

    def branch(f: Callable[..., Any]) -> Callable[..., list[Any]]:
        def flat(*given: Any) -> list[Any]:
            results.append(tensor_leaves("cond", "the result", f(*given)))
            if len(results) == 2:
                _same(results[0], results[1])
            return list(results[-1][0])

        return flat

    outs = None
    if not for_each:
        operand_leaves, of_operands = tensor_leaves("cond", "operands", operands)
        outs = recorded_cond(predicate, [branch(true_f), branch(false_f)], list(operand_leaves), of_operands)
    if outs is None:
        earlier = 0 if recorder is None else len(recorder.recording.nodes)
        outs = chosen_branches(predicate, branch, (true_f, false_f), leaves, structure)
        if recorder is not None and not for_each:
            refuse_draws(recorder.recording.nodes[earlier:])
    return results[0][1].unflatten(outs)  # type: ignore[no-any-return]  # of the functions' type


@explained
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
        ShapeError, DTypeError, KindError: a leaf changes its shape, dtype or kind, or is not a tensor; or the condition
            is not a single bool.
        RecordingError: a compiled function differentiates it again after reverse mode, or in reverse inside of `vmap`,
            or with steps that draw random numbers.

    >>> while_loop(lambda x: x < 100.0, lambda x: x * 2.0, Tensor[NumPy].from_data(3.0)).item()
    192.0
    """
    loop_function("while_loop", condition, "of the state as condition")
    loop_function("while_loop", body, "of the state as body")
    first = _FirstState(state)
    structure = first.structure

    def test(leaves: list[Any]) -> Any:
        answer = condition(structure.unflatten(leaves))
        _checked_bool("while_loop", "condition", answer)
        return answer

    def step(leaves: list[Any]) -> list[Any]:
        return first.leaves_like(body(structure.unflatten(leaves)))

    leaves: list[Any] = list(first.leaves)
    if recorder_of(base_for("while_loop", leaves)) is not None:
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


class _FirstState:
    """The first state of a `while_loop`, which the next ones must be like. Not a tree that its body closes over."""

    def __init__(self, state: Any) -> None:
        self.leaves, self.structure = tensor_leaves("while_loop", "state", state)
        if not self.leaves:
            raise ArgumentError("while_loop() got a state without tensors; give it at least one")

    def leaves_like(self, state: Any) -> list[Any]:
        return kept("while_loop", "state", self.leaves, self.structure, state)


def _checked_bool(api: str, name: str, value: Any) -> None:
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
