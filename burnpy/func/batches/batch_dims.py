"""The arguments of a call of `vmap`: which dimension of each tensor is the batch, and the size of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.func.pytree import Structure, describe_tree, flatten, paths
from burnpy.tensor.levels import raised
from burnpy.tensor.tensor_base import TensorBase

BatchDims: TypeAlias = "int | tuple[BatchDims, ...] | list[BatchDims] | dict[Any, BatchDims] | None"
"""The dimension of each tensor of a tree that is the batch, None for none: for a subtree, or for each member."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The arguments of a function, and the dimension of each leaf that is the batch, None for a shared leaf."""

    leaves: list[Any]
    dims: list[int | None]
    structure: Structure  #: the structure of the arguments
    size: int  #: the number of examples

    @property
    def tensors(self) -> list[TensorBase[Any]]:
        """The tensors among the leaves."""
        return [leaf for leaf in self.leaves if isinstance(leaf, TensorBase)]

    def leaves_on(self, base: Any) -> list[tuple[Any, bool]]:
        """Return the leaves and whether each has the batch, which is then first and a primitive of ``base``."""
        return [
            (leaf, False) if dim is None else (batch_first(raised(leaf, base), base, dim), True)
            for leaf, dim in zip(self.leaves, self.dims, strict=True)
        ]


def batch_first(x: TensorBase[Any], base: Any, dim: int) -> TensorBase[Any]:
    """Return a tensor on ``base`` with dimension ``dim`` as the first."""
    return x if dim == 0 else _permuted(x, base, (dim, *[k for k in range(len(x.shape)) if k != dim]))


def batch_at(x: TensorBase[Any], base: Any, dim: int) -> TensorBase[Any]:
    """Return a tensor on ``base`` with the first dimension as dimension ``dim``; the inverse of `batch_first`."""
    if dim == 0:
        return x
    order = list(range(1, len(x.shape)))
    order.insert(dim, 0)
    return _permuted(x, base, tuple(order))


def _permuted(x: TensorBase[Any], base: Any, order: tuple[int, ...]) -> TensorBase[Any]:
    return x._like((base if x.kind == "float" else base.discrete).permute(x._primitive, order))


def batch_of(args: tuple[Any, ...], in_dims: BatchDims) -> Batch:
    """Return the arguments with their batch dimensions, after checking these.

    Raises:
        ArgumentError: ``in_dims`` do not match the arguments, or no argument has a batch.
        KindError: an argument with a batch is no tensor.
        ShapeError: the sizes of the batch differ, or a tensor does not have the dimension.
    """
    by_argument = list(in_dims) if isinstance(in_dims, (tuple, list)) else [in_dims] * len(args)
    if len(by_argument) != len(args):
        raise ArgumentError(
            f"vmap() got in_dims={in_dims!r:.80} of length {len(by_argument)}, and the function was called with "
            f"{len(args)} by position; name a dimension, or None, for each argument"
        )
    leaves, structure = flatten(args)
    dims: list[int | None] = []
    sizes: dict[int, int] = {}  # the number of the first leaf with a size of the batch
    members = iter(leaves)
    for position, (parts, prefix) in enumerate(zip(structure.children, by_argument, strict=True)):
        wanted = dims_for("in_dims", prefix, parts, args[position], f" in argument {position}")
        for leaf, dim in zip(islice(members, len(wanted)), wanted, strict=True):
            place = None if dim is None else _checked_dim(position, leaf, dim)
            if place is not None:
                sizes.setdefault(leaf.shape[place], len(dims))
            dims.append(place)
    if len(sizes) > 1:
        names = paths(structure, "argument ")
        found = ", ".join([f"{size} in dim {dims[k]} of {_name(names[k])}" for size, k in sizes.items()])
        raise ShapeError(
            f"vmap() got batches of different sizes: {found}; they must be equal, and in_dims has None for an argument "
            "that all examples share"
        )
    if not sizes:
        raise ArgumentError(
            f"vmap() got no argument with a batch: in_dims={in_dims!r:.80} for {describe_tree(args)}; name the "
            "dimension of at least one tensor, and pass it by position, as arguments by keyword are shared"
        )
    return Batch(leaves, dims, structure, next(iter(sizes)))


def _name(path: str) -> str:
    """Return the name of a leaf of the arguments in messages.

    >>> _name("argument [1]['a']")
    "argument 1, ['a']"
    """
    number, rest = path.removeprefix("argument [").split("]", 1)
    return f"argument {number}, {rest}" if rest else f"argument {number}"


def dims_for(option: str, prefix: BatchDims, structure: Structure, tree: Any, where: str = "") -> list[int | None]:
    """Return a dimension for each leaf of a tree, from one for the tree or a tree of them with its structure.

    Args:
        option: the name of the option, for messages.
        prefix: the dimension, or the tree of dimensions.
        structure: the structure of the tree.
        tree: the tree.
        where: where the tree is, for messages.

    Raises:
        ArgumentError: ``prefix`` has another structure.
    """
    if prefix is None:
        return [None] * structure.size
    if isinstance(prefix, (int, np.integer)) and not isinstance(prefix, bool):
        return [int(prefix)] * structure.size
    members: list[BatchDims]
    if isinstance(prefix, dict) and isinstance(tree, dict) and prefix.keys() == tree.keys():
        members, parts = [prefix[key] for key in tree], list(tree.values())
    elif isinstance(prefix, (tuple, list)) and isinstance(tree, (tuple, list)) and len(prefix) == len(tree):
        members, parts = list(prefix), list(tree)
    else:
        raise ArgumentError(
            f"vmap() got {option}={prefix!r:.80} for {describe_tree(tree)}{where}; write an int or None for all its "
            "tensors, or for each member in tuples, lists and dicts as in the tree"
        )
    return [
        dim
        for member, child, part in zip(members, structure.children, parts, strict=True)
        for dim in dims_for(option, member, child, part, where)
    ]


def _checked_dim(position: int, leaf: Any, dim: int) -> int:
    if not isinstance(leaf, TensorBase):
        raise KindError(
            f"vmap() got {describe_tree(leaf)} in argument {position}, which has no batch dimension {dim}; write None "
            "for it in in_dims, or make it a tensor with Tensor.from_data(...)"
        )
    ndim = len(leaf.shape)
    if not ndim:
        raise ShapeError(
            f"vmap() got in_dims={dim} for argument {position}, which holds {a(type(leaf).__name__)} of shape (), "
            "without a dimension for the batch; write None in in_dims to share it"
        )
    if not -ndim <= dim < ndim:
        raise ShapeError(
            f"vmap() got in_dims={dim} for argument {position}, which holds {a(type(leaf).__name__)} of shape "
            f"{leaf.shape}; a batch dimension must be one of its {ndim} dimensions, or None to share the tensor"
        )
    return dim % ndim
