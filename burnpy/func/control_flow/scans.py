"""`scan`: a loop over the slices of tensors that carries values from step to step."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, TypeVar

from burnpy.autodiff.tools.checkpoint import checkpoint
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.func.control_flow.batched_loops import looped_scan
from burnpy.func.control_flow.recorded_scans import is_recorded
from burnpy.func.pytree import Structure, describe_tree, kept, loop_function, paths, tensor_leaves
from burnpy.tensor.joining import cat, stack
from burnpy.tensor.tensor_base import TensorBase

C = TypeVar("C")
X = TypeVar("X")
Y = TypeVar("Y")


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
        ShapeError, DTypeError, KindError: a leaf of the carry changes its shape, dtype or kind, or is no tensor.

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
        """Return the tree of the stacked results."""
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
