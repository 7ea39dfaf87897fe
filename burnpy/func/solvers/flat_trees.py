"""`FlatTree`: a tree of float tensors as one vector, and functions of such trees as functions of vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.func.loop_trees import tensor_leaves
from burnpy.func.pytree import MismatchError, describe_tree, paths
from burnpy.tensor.joining import cat
from burnpy.tensor.tensor import Tensor

DTYPES = ("float32", "float64")


class FlatTree:
    """The structure and shapes of a tree of float tensors of one dtype, and its elements as one vector.

    Args:
        api: the solver, for messages.
        name: the name of the tree in messages.
        tree: the tree.

    Raises:
        KindError: a leaf is no float tensor, or there is none.
        DTypeError: the dtypes differ, or are neither float32 nor float64.
    """

    def __init__(self, api: str, name: str, tree: Any) -> None:
        leaves, self.structure = tensor_leaves(api, name, tree)
        self.api, self.name = api, name
        self.names = paths(self.structure, name)
        for leaf, path in zip(leaves, self.names, strict=True):
            if not isinstance(leaf, Tensor):
                raise KindError(f"{api}() takes float tensors, and {path} is {describe_tree(leaf)}; call .float()")
            if leaf.dtype != leaves[0].dtype or leaf.dtype.name not in DTYPES:
                raise DTypeError(
                    f"{api}() got {path} of dtype {leaf.dtype} and {self.names[0]} of dtype {leaves[0].dtype}; it "
                    "computes with one dtype, float32 or float64: convert with .to_dtype(...)"
                )
        if not leaves:
            raise KindError(f"{api}() got {name} without tensors; give it at least one")
        self.shapes = [leaf.shape for leaf in leaves]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.dtype = leaves[0].dtype
        self.vector: Any = _joined(leaves)

    def tree(self, vector: Any) -> Any:
        """Return the tree of a vector; leading dims that the vector has before its last one stay in front."""
        front = vector.shape[:-1]
        if len(self.shapes) == 1:
            return self.structure.unflatten([vector.reshape((*front, *self.shapes[0]))])
        parts = vector.split(self.sizes, -1)
        return self.structure.unflatten(
            [part.reshape((*front, *shape)) for part, shape in zip(parts, self.shapes, strict=True)]
        )

    def flat(self, tree: Any, of: str) -> Any:
        """Return the vector of another tree, which must have this one's structure, shapes and dtype.

        Args:
            tree: the tree.
            of: the words for it in messages.

        Raises:
            ArgumentError: the structures differ.
            KindError, ShapeError, DTypeError: a leaf is no float tensor, or has another shape or dtype.
        """
        try:
            leaves = self.structure.leaves_of(tree)
        except MismatchError:
            raise ArgumentError(
                f"{self.api}() got {of} of structure {describe_tree(tree)}, and {self.name} has structure "
                f"{describe_tree(self.tree(self.vector))}; both must be equal"
            ) from None
        for leaf, path, shape in zip(leaves, self.names, self.shapes, strict=True):
            if not isinstance(leaf, Tensor):
                raise KindError(f"{self.api}() got {of} with {describe_tree(leaf)} for {path}; expected a float tensor")
            if leaf.shape != shape:
                raise ShapeError(f"{self.api}() got {of} of shape {leaf.shape} for {path}, which has shape {shape}")
            if leaf.dtype != self.dtype:
                raise DTypeError(
                    f"{self.api}() got {of} of dtype {leaf.dtype} for {path}, which has dtype {self.dtype}; both must "
                    "be equal"
                )
        return _joined(leaves)

    def function(self, f: Callable[..., Any], of: str) -> Callable[..., Any]:
        """Return ``f``, whose last argument and result are trees like this one, as a function of vectors."""

        def flat(*args: Any) -> Any:
            return self.flat(f(*args[:-1], self.tree(args[-1])), of)

        return flat


def _joined(leaves: list[Any]) -> Any:
    """Return the elements of tensors as one vector."""
    flat = [leaf.reshape((-1,)) if len(leaf.shape) != 1 else leaf for leaf in leaves]
    return flat[0] if len(flat) == 1 else cat(flat, 0)
