"""`stack_models`: several models as one, whose parameters have a first dimension that numbers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burnpy.backend.errors import ArgumentError, KindError
from burnpy.func.pytree import MismatchError, describe_tree, flatten
from burnpy.tensor.joining import stack
from burnpy.tensor.levels import constant
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import T


def stack_models(models: Sequence[T]) -> T:
    """Return one model whose parameters are those of several models, stacked along a new first dimension.

    With ``vmap(…, in_dims=(0, …))`` it is an ensemble, whose members compute at once: ``vmap(lambda model, x: model(x),
    in_dims=(0, None))(stack_models(models), x)`` has the results of all. Optimizers train it as any other model.

    Args:
        models: modules, or other trees of tensors, of one structure, at least one. Everything that is no parameter is
            the first model's.

    Raises:
        ArgumentError: there is no model, or their structures, shapes or buffers differ.
        KindError: a leaf is no tensor.

    >>> from burnpy.func import vmap
    >>> from burnpy.nn import Linear
    >>> models = [Linear(2, 1, device=NumPy) for _ in range(5)]
    >>> ensemble = stack_models(models)
    >>> ensemble.weight.shape
    (5, 2, 1)
    >>> vmap(lambda model, x: model(x), in_dims=(0, None))(ensemble, Tensor[NumPy].ones((3, 2))).shape
    (5, 3, 1)
    """
    if not models:
        raise ArgumentError("stack_models() got no models; give it at least one")
    leaves, structure = flatten(models[0])
    columns = [[leaf] for leaf in leaves]
    for position, model in enumerate(models[1:], 1):
        try:
            others = structure.leaves_of(model)
        except MismatchError:
            raise ArgumentError(
                f"stack_models() got models of different structures: {describe_tree(models[0])} first and "
                f"{describe_tree(model)} as number {position}; they must have the same layers and shapes"
            ) from None
        _check_buffers(models[0], model, position)
        for column, leaf in zip(columns, others, strict=True):
            column.append(leaf)
    return structure.unflatten([_stacked(column) for column in columns])  # type: ignore[no-any-return]  # a model


def _stacked(column: list[Any]) -> Any:
    first = column[0]
    for leaf in column:
        if not isinstance(leaf, TensorBase):
            raise KindError(f"stack_models() got {describe_tree(leaf)} in a model; it stacks tensors")
        if (leaf.shape, leaf.dtype) != (first.shape, first.dtype):
            raise ArgumentError(
                f"stack_models() got tensors of shapes {first.shape} and {leaf.shape}, dtypes {first.dtype} and "
                f"{leaf.dtype}, at the same place; the models must have equal shapes and dtypes"
            )
    joined: Any = stack([constant(leaf) if leaf.kind == "float" else leaf for leaf in column], dim=0)
    is_leaf = first.kind == "float" and first.is_require_grad() and not joined.is_require_grad()
    return joined.require_grad() if is_leaf else joined


def _check_buffers(first: Any, other: Any, position: int) -> None:
    """Check that the buffers of two modules are equal, as a stacked model has only one of each.

    Raises:
        ArgumentError: one differs.
    """
    if not hasattr(first, "named_buffers"):
        return
    theirs = other.named_buffers()
    for path, buffer in first.named_buffers().items():
        if not np.array_equal(buffer.value.to_numpy(), theirs[path].value.to_numpy()):
            raise ArgumentError(
                f"stack_models() got models whose buffer {path} differs (the first and number {position}), and members "
                "of an ensemble share buffers; use layers without running statistics, such as GroupNorm"
            )
