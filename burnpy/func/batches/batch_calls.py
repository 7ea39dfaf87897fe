"""A call of a function on a batch of examples, at once or in chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from burnpy.autodiff.tools.custom.user_code import probable_cause
from burnpy.backend.errors import ArgumentError, BatchedError, KindError
from burnpy.batching.batched import Batched, Randomness
from burnpy.batching.batched_value import BatchedValue
from burnpy.func.batches.batch_dims import BatchDims, batch_at, dims_for
from burnpy.func.derivative_levels import Level, primitive_on
from burnpy.func.pytree import Structure, describe_tree, flatten
from burnpy.tensor.tensor_base import TensorBase, new_tensor


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
        return structure.unflatten(
            [x if dim is None else batch_at(x, self.base, dim) for x, dim in zip(outputs, dims, strict=True)]
        )

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
            owner = self.base if column[0].kind == "float" else self.base.discrete
            whole = column[0]._like(owner.cat([x._primitive for x in column], 0))
            results.append(batch_at(whole, self.base, dim))
        return structure.unflatten(results)

    def _outputs(
        self, leaves: Sequence[tuple[Any, bool]], size: int, draws: list[Any] | None
    ) -> tuple[list[TensorBase[Any]], list[int | None], Structure]:
        """Return the leaves of the result with the batch first, where it is to be, and their structure."""
        with Level(Batched, "vmap", self.base) as level:
            level.size, level.randomness, level.draws = size, self.randomness, draws
            args = self.structure.unflatten(
                [
                    new_tensor(type(x), level, BatchedValue(level, x._primitive, True)) if batched else x
                    for x, batched in leaves
                ]
            )
            output = self.f(*args, **self.kwargs)
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
