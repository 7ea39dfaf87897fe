"""`vmap`: a function of one example for a batch, at once or in chunks; and models stacked to an ensemble."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NoReturn, ParamSpec, TypeAlias, get_args, overload

import numpy as np

from burnpy.autodiff.tools.user_code import probable_cause
from burnpy.backend.errors import ArgumentError, BatchedError, KindError, ShapeError, a
from burnpy.backend.primitives import INEXACT
from burnpy.batching.batch_methods import BatchedValue
from burnpy.batching.batched import Batched, Randomness
from burnpy.func.pytree import MismatchError, Structure, describe_tree, flatten, paths, tensors_in
from burnpy.func.user_functions import (
    Derivative,
    Level,
    OfOne,
    OfOneAndMore,
    OfTwo,
    OfTwoAndMore,
    base_for,
    checked_function,
    primitive_on,
)
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import stack
from burnpy.tensor.levels import constant, raised
from burnpy.tensor.tensor_base import TensorBase, new_tensor
from burnpy.typevars import T

P = ParamSpec("P")
MYPY = False  # True to mypy, by this name


@overload
def vmap(
    f: Derivative[P, T],
    in_dims: BatchDims = 0,
    out_dims: BatchDims = 0,
    *,
    randomness: Randomness = "error",
    chunk_size: int | None = None,
) -> Derivative[P, T]: ...


if not MYPY:  # which would choose these for gradients of functions of models, too, as in vmap(grad(loss))

    @overload
    def vmap(
        f: OfOne,
        in_dims: BatchDims = 0,
        out_dims: BatchDims = 0,
        *,
        randomness: Randomness = "error",
        chunk_size: int | None = None,
    ) -> OfOneAndMore: ...
    @overload
    def vmap(
        f: OfTwo,
        in_dims: BatchDims = 0,
        out_dims: BatchDims = 0,
        *,
        randomness: Randomness = "error",
        chunk_size: int | None = None,
    ) -> OfTwoAndMore: ...


@overload
def vmap(  # type: ignore[overload-overlap]  # for lambdas, whose result mypy then takes as Any
    f: Callable[P, T],
    in_dims: BatchDims = 0,
    out_dims: BatchDims = 0,
    *,
    randomness: Randomness = "error",
    chunk_size: int | None = None,
) -> Callable[P, T]: ...
@overload
def vmap(  # pyright: ignore[reportOverlappingOverload]  # as above
    f: OfTwo,
    in_dims: BatchDims = 0,
    out_dims: BatchDims = 0,
    *,
    randomness: Randomness = "error",
    chunk_size: int | None = None,
) -> OfTwoAndMore: ...
@explained
def vmap(
    f: Callable[..., Any],
    in_dims: BatchDims = 0,
    out_dims: BatchDims = 0,
    *,
    randomness: Randomness = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that computes ``f``, a function of one example, for a batch of examples at once.

    Within ``f`` tensors have the shapes of one example. Operations compute for all examples together, so that the call
    takes the time of a few large operations, not of many small ones. It nests with itself and with the derivatives of
    `burnpy.func` in any order: ``vmap(grad(loss), in_dims=(None, 0, 0))(model, x, y)`` are the gradients of each
    example.

    Args:
        f: a function of tensors, or trees of them, of any kinds, that returns tensors or a tree of them.
        in_dims: the dimension of each positional argument that is the batch, which ``f`` does not see; negative ones
            count from the end. None for an argument that all examples share. One for all, or a tuple with one for each
            argument, where a tree has one for all its tensors or a tree of them. Keyword arguments are shared.
        out_dims: where the batch is in the results: a dimension for all, or a tree of them like the result. None for a
            result that is the same for all examples.
        randomness: "different" draws random numbers for each example, "same" draws them once for all; by default
            drawing is an error.
        chunk_size: the number of examples to compute at a time, which bounds the memory; None computes all at once.

    Returns:
        A function of the same arguments. Each result has one more dimension, of the size of the batch.

    Raises:
        ArgumentError: ``in_dims`` or ``out_dims`` do not match the arguments or results, no argument has a batch, an
            option is unknown, or random numbers are drawn with ``randomness="error"``.
        ShapeError: the sizes of the batch differ, or a tensor does not have the dimension.
        BatchedError: ``f`` reads values that differ between examples, as by ``if x > 0`` or ``x.item()``, has results
            whose shape depends on values, or returns such a tensor where ``out_dims`` is None.
        KindError: ``f`` is not callable, an argument or result with a batch is not a tensor.

    >>> from burnpy.func import grad, vmap
    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> vmap(lambda row: row @ row)(x).tolist()
    [5.0, 25.0]
    >>> vmap(grad(lambda row: (row ** 3).sum()))(x).tolist()
    [[3.0, 12.0], [27.0, 48.0]]
    >>> w = Tensor[NumPy].from_data([1.0, 10.0])
    >>> vmap(lambda row, w: row @ w, in_dims=(0, None))(x, w).tolist()
    [21.0, 43.0]
    """
    checked_function("vmap", f)
    if randomness not in get_args(Randomness):
        raise ArgumentError(f'vmap() got randomness={randomness!r:.80}; expected "error", "same" or "different"')
    if chunk_size is not None and (type(chunk_size) is not int or chunk_size < 1):
        raise ArgumentError(f"vmap() got chunk_size={chunk_size!r:.80}; expected a positive int, or None")

    @functools.wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        batch = batch_of(args, in_dims)
        base = base_for("vmap", tensors_in((batch.leaves, kwargs)))
        call = BatchCall(base, f, kwargs, batch.structure, out_dims, randomness)
        if chunk_size is None or chunk_size >= batch.size:
            return call.result(batch.leaves_on(base), batch.size)
        return call.in_chunks(batch.leaves_on(base), batch.size, chunk_size)

    return mapped


@dataclass(frozen=True, slots=True)
class BatchCall:
    """A function with everything that its calls on parts of a batch have in common."""

    base: Any  #: the device beneath the level, on which arguments and results are
    f: Callable[..., Any]
    kwargs: dict[str, Any]
    structure: Structure  #: the structure of the positional arguments
    out_dims: BatchDims
    randomness: Randomness

    def result(self, leaves: Sequence[tuple[Any, bool]], size: int) -> Any:
        """Compute all examples at once: ``leaves`` are those of the arguments, and whether each has a batch."""
        outputs, dims, structure = self._outputs(leaves, size, None)
        placed = zip(outputs, dims, strict=True)
        return structure.unflatten([x if dim is None else batch_at(x, self.base, dim) for x, dim in placed])

    def in_chunks(self, leaves: Sequence[tuple[Any, bool]], size: int, chunk_size: int) -> Any:
        """Compute ``chunk_size`` examples at a time, and concatenate the results."""
        draws: list[Any] = []
        chunks = []
        for start in range(0, size, chunk_size):
            count = min(chunk_size, size - start)
            part = [(x[start : start + count] if batched else x, batched) for x, batched in leaves]
            chunks.append(self._outputs(part, count, draws))
        _, dims, structure = chunks[0]
        results = []
        for column, dim in zip(zip(*[outputs for outputs, _, _ in chunks], strict=True), dims, strict=True):
            if dim is None:
                results.append(column[0])
                continue
            owner = self.base if column[0].kind in INEXACT else self.base.discrete
            whole = column[0]._like(owner.cat([x._primitive for x in column], 0))
            results.append(batch_at(whole, self.base, dim))
        return structure.unflatten(results)

    def _outputs(
        self, leaves: Sequence[tuple[Any, bool]], size: int, draws: list[Any] | None
    ) -> tuple[list[TensorBase[Any]], list[int | None], Structure]:
        """Return the leaves of the result with the batch first, where it is to be, and their structure."""
        with Level(Batched, "vmap", self.base) as level:
            level.size, level.randomness, level.draws = size, self.randomness, draws
            lifted = [
                new_tensor(type(x), level, BatchedValue(level, x._primitive, True)) if batched else x
                for x, batched in leaves
            ]
            output = self.f(*self.structure.unflatten(lifted), **self.kwargs)
            outputs, structure = flatten(output)
            if not outputs or not all(isinstance(x, TensorBase) for x in outputs):
                _refuse_output(output, outputs)
            dims = dims_for("out_dims", self.out_dims, structure, output)
            primitives = [level.own(primitive_on("vmap", x, level)) for x in outputs]
            lowered, places = [], []
            for x, primitive, dim in zip(outputs, primitives, dims, strict=True):
                lowered.append(new_tensor(type(x), self.base, _value(level, primitive, dim)))
                places.append(None if dim is None else _checked_out_dim(dim, len(primitive.shape) + 1, x))
        return lowered, places, structure


def _value(level: Any, primitive: BatchedValue, dim: int | None) -> Any:
    """Return the inner primitive of a result, with the batch first unless ``dim`` is None."""
    if dim is not None:
        return level.spread(primitive)
    if primitive.batched:
        raise BatchedError(
            f"vmap() got out_dims=None for a result of shape {primitive.shape} that differs between the {level.size} "
            "examples; name the dimension that the batch is to have"
        )
    return primitive.value


def _checked_out_dim(dim: int, ndim: int, x: TensorBase[Any]) -> int:
    if not -ndim <= dim < ndim:
        raise ArgumentError(
            f"vmap() got out_dims={dim} for a result of shape {x.shape}, which has {ndim} dimensions with the batch; "
            f"it must be one of {-ndim} to {ndim - 1}"
        )
    return dim % ndim


def _refuse_output(output: Any, leaves: Sequence[Any]) -> NoReturn:
    """Raise an error that describes what a function returned, and the probable cause."""
    wrong = next((x for x in leaves if not isinstance(x, TensorBase)), None)
    raise KindError(
        f"vmap() takes a function that returns tensors, and it returned {describe_tree(output)}"
        f"{probable_cause(wrong) if leaves or output is None else ', which holds no tensor'}"
    )


BatchDims: TypeAlias = "int | tuple[BatchDims, ...] | list[BatchDims] | dict[Any, BatchDims] | None"
"""The dimension of each tensor of a tree that is the batch, None for none: for a subtree, or for each member."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The arguments of a function, and the dimension of each leaf that is the batch, None for a shared leaf."""

    leaves: list[Any]
    dims: list[int | None]
    structure: Structure  #: the structure of the arguments
    size: int  #: the number of examples

    def leaves_on(self, base: Any) -> list[tuple[Any, bool]]:
        """Return the leaves and whether each has the batch, which is then first and a primitive of ``base``."""
        return [
            (leaf, False) if dim is None else (batch_first(raised(leaf, base), base, dim), True)
            for leaf, dim in zip(self.leaves, self.dims, strict=True)
        ]


def batch_first(x: TensorBase[Any], base: Any, dim: int) -> TensorBase[Any]:
    """Return a tensor on ``base`` with dimension ``dim`` as the first."""
    return _moved(x, base, dim, 0)


def batch_at(x: TensorBase[Any], base: Any, dim: int) -> TensorBase[Any]:
    """Return a tensor on ``base`` with the first dimension as dimension ``dim``; the inverse of `batch_first`."""
    return _moved(x, base, 0, dim)


def _moved(x: TensorBase[Any], base: Any, dim: int, place: int) -> TensorBase[Any]:
    if dim == place:
        return x
    order = [k for k in range(len(x.shape)) if k != dim]
    order.insert(place, dim)
    return x._like((base if x.kind in INEXACT else base.discrete).permute(x._primitive, tuple(order)))


def batch_of(args: tuple[Any, ...], in_dims: BatchDims) -> Batch:
    """Return the arguments with their batch dimensions, after checking these."""
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


@explained
def stack_models(models: Sequence[T]) -> T:
    """Return one model whose parameters are those of several models, stacked along a new first dimension.

    With ``vmap(…, in_dims=(0, …))`` it is an ensemble, whose members compute at once: ``vmap(lambda model, x: model(x),
    in_dims=(0, None))(stack_models(models), x)`` has the results of all. Optimizers train it as any other model.

    Args:
        models: modules, or other trees of tensors, of one structure, at least one. Everything but parameters is the
            first model's.

    Raises:
        ArgumentError: there is no model, or their structures, shapes or buffers differ.
        KindError: a leaf is not a tensor.

    >>> from burnpy.nn import Linear
    >>> models = [Linear(2, 1, device=NumPy) for _ in range(5)]
    >>> ensemble = stack_models(models)
    >>> ensemble.weight.shape
    (5, 2, 1)
    >>> vmap(lambda model, x: model(x), in_dims=(0, None))(ensemble, Tensor[NumPy].ones((3, 2))).shape
    (5, 3, 1)
    """
    if not isinstance(models, (list, tuple)):
        raise KindError(f"stack_models() takes a list of models, got {describe_tree(models)}; write [*models]")
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
    joined: Any = stack([constant(leaf) if leaf.kind in INEXACT else leaf for leaf in column], dim=0)
    is_leaf = first.kind in INEXACT and first.is_require_grad() and not joined.is_require_grad()
    return joined.require_grad() if is_leaf else joined


def _check_buffers(first: Any, other: Any, position: int) -> None:
    """Check that the buffers of two modules are equal, as a stacked model has only one of each."""
    if not hasattr(first, "named_buffers"):
        return
    theirs = other.named_buffers()
    for path, buffer in first.named_buffers().items():
        if not np.array_equal(buffer.value.to_numpy(), theirs[path].value.to_numpy()):
            raise ArgumentError(
                f"stack_models() got models whose buffer {path} differs (the first and number {position}), and members "
                "of an ensemble share buffers; use layers without running statistics, such as GroupNorm"
            )
