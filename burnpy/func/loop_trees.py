"""The trees of tensors that loops and solvers carry from step to step: their leaves, and the check that a step keeps
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.func.pytree import MismatchError, Structure, describe_tree, flatten, paths
from burnpy.tensor.tensor_base import TensorBase


def loop_function(api: str, f: Any, takes: str) -> None:
    """Check that an argument is a function.

    Raises:
        KindError: it is not callable.
    """
    if not callable(f):
        raise KindError(f"{api}() takes a function {takes}, got {describe_tree(f)}")


def tensor_leaves(api: str, name: str, tree: Any) -> tuple[list[TensorBase[Any]], Structure]:
    """Return the leaves of a tree, which must be tensors, and its structure.

    Raises:
        KindError: a leaf is no tensor.
    """
    leaves, structure = flatten(tree, whole=True)
    for path, leaf in zip(paths(structure, name), leaves, strict=True):
        if not isinstance(leaf, TensorBase):
            raise KindError(
                f"{api}() takes trees of tensors, and {path} is {leaf!r:.60}; make it a tensor, as with "
                "Tensor.from_data(...), or let the function close over it"
            )
    return leaves, structure


def kept(api: str, what: str, before: Sequence[TensorBase[Any]], structure: Structure, tree: Any) -> list[Any]:
    """Return the leaves of the tree that a step returned, which must be like those that it got.

    Args:
        api: the loop, for messages.
        what: the name of the tree, such as ``carry``.
        before: the leaves that the step got.
        structure: their structure.
        tree: what the step returned.

    Raises:
        ArgumentError: the structure changed.
        KindError, ShapeError, DTypeError: a leaf is of another kind, shape or dtype.
    """
    leaves, new = flatten(tree, whole=True)
    if new != structure:
        try:
            leaves = structure.leaves_of(tree)  # the entries of a dict may be in another order
        except MismatchError:
            raise ArgumentError(
                f"{api}() got {describe_tree(tree)} as the new {what}, which must have the structure of the first, "
                f"{describe_tree(structure.unflatten(before))}; return all of it in each step"
            ) from None
    for k, (old, leaf) in enumerate(zip(before, leaves, strict=True)):
        if not isinstance(leaf, TensorBase) or leaf.kind != old.kind:
            shown = type(leaf).__name__ if isinstance(leaf, TensorBase) else f"{leaf!r:.60}"
            raise KindError(
                f"{api}() got {shown} as the new {paths(structure, what)[k]}, which was {type(old).__name__}"
                f"{old.shape}; each step must return the kind that it got"
            )
        if leaf.shape != old.shape:
            raise ShapeError(
                f"{api}() got shape {leaf.shape} as the new {paths(structure, what)[k]}, which had shape {old.shape}; "
                "each step must keep it: start with that shape, or return it from each step as a result"
            )
        if leaf.dtype != old.dtype:
            raise DTypeError(
                f"{api}() got dtype {leaf.dtype} as the new {paths(structure, what)[k]}, which had dtype {old.dtype}; "
                f"start with that dtype, or convert it in each step with .to_dtype({str(old.dtype)!r})"
            )
    return leaves
