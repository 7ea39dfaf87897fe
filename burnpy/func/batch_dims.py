"""The arguments of a call of `vmap`: which dimension of each tensor is the batch, and the size of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.func.pytree import Structure, describe_tree, flatten
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
            f"vmap() got in_dims={in_dims!r:.80} for {len(by_argument)} arguments, and the function was called with "
            f"{len(args)} by position; name a dimension, or None, for each"
        )
    leaves, structure = flatten(args)
    dims: list[int | None] = []
    sizes: dict[int, str] = {}
    members = iter(leaves)
    for position, (parts, prefix) in enumerate(zip(structure.children, by_argument, strict=True)):
        wanted = dims_for(f"in_dims of argument {position}", prefix, parts, args[position])
        for leaf, dim in zip(islice(members, len(wanted)), wanted, strict=True):
            if dim is None:
                dims.append(None)
                continue
            place = _checked_dim(position, leaf, dim)
            dims.append(place)
            size = leaf.shape[place]
            if size not in sizes:
                sizes[size] = f"{size} in dim {place} of argument {position}"
    if len(sizes) > 1:
        raise ShapeError(
            f"vmap() got batches of different sizes: {', '.join(sizes.values())}; they must be equal, and in_dims has "
            "None for an argument that all examples share"
        )
    if not sizes:
        raise ArgumentError(
            f"vmap() got no argument with a batch: in_dims={in_dims!r:.80} for {describe_tree(args)}; name the "
            "dimension of at least one tensor"
        )
    return Batch(leaves, dims, structure, next(iter(sizes)))


def dims_for(what: str, prefix: BatchDims, structure: Structure, tree: Any) -> list[int | None]:
    """Return a dimension for each leaf of a tree, from one for the tree or a tree of them with its structure.

    Raises:
        ArgumentError: ``prefix`` has another structure.
    """
    if prefix is None or (isinstance(prefix, int) and not isinstance(prefix, bool)):
        return [prefix] * structure.size
    members: list[BatchDims]
    if isinstance(prefix, dict) and isinstance(tree, dict) and prefix.keys() == tree.keys():
        members, parts = [prefix[key] for key in tree], list(tree.values())
    elif isinstance(prefix, (tuple, list)) and isinstance(tree, (tuple, list)) and len(prefix) == len(tree):
        members, parts = list(prefix), list(tree)
    else:
        raise ArgumentError(
            f"vmap() got {what} {prefix!r:.80} for {describe_tree(tree)}; write a dimension or None for all its "
            "tensors, or for each member in tuples, lists and dicts as in the tree"
        )
    return [
        dim
        for member, child, part in zip(members, structure.children, parts, strict=True)
        for dim in dims_for(what, member, child, part)
    ]


def _checked_dim(position: int, leaf: Any, dim: int) -> int:
    if not isinstance(leaf, TensorBase):
        raise KindError(
            f"vmap() got {describe_tree(leaf)} in argument {position}, which has no batch dimension {dim}; write None "
            f"for it in in_dims, or make it a tensor"
        )
    ndim = len(leaf.shape)
    if not -ndim <= dim < ndim:
        raise ShapeError(
            f"vmap() got in_dims={dim} for argument {position}, which holds {a(type(leaf).__name__)} of shape "
            f"{leaf.shape}; a batch dimension must be one of its {ndim} dimensions, or None to share the tensor"
        )
    return dim % ndim
