"""The blocks of a Jacobian: many rows, or columns, at once, each an example of a batch.

A chunk of unit cotangents goes through one backward pass on a `Batched` level, and a chunk of unit tangents through one
run of the function. A chunk of one is not batched, so that the function may read values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from burnpy.autodiff.graph import is_array, kept_of
from burnpy.autodiff.tools.backward import walked
from burnpy.autodiff.tools.inspection.graph_views import walk
from burnpy.backend.primitives import DType, Float, Shape, Value
from burnpy.batching.batched import Batched
from burnpy.batching.batched_value import BatchedValue
from burnpy.func.derivative_levels import Level, base_for, lowered
from burnpy.func.derivatives.jvps import PushedFunction, apply_jvp
from burnpy.func.derivatives.vjps import RecordedFunction, on_base, record
from burnpy.func.pytree import Structure, map_tree, tensors_in
from burnpy.func.user_functions import ChosenArguments
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor

MEMORY = 2**28
"""The bytes that the arrays of the rows of one chunk take, about, unless ``chunk_size`` is given: 256 MiB."""
FORWARD_COPIES = 8
"""The bytes that a column takes in forward mode, estimated in multiples of an input and the outputs."""


class Blocks(NamedTuple):
    """The blocks of a Jacobian, by output and by input tensor."""

    rows: list[list[Tensor[Any]]]
    structure: Structure  #: the structure of the output
    aux: Any


def blocks_by_rows(
    api: str, f: Callable[..., Any], chosen: ChosenArguments, kwargs: Any, has_aux: bool, chunk_size: int | None
) -> Blocks:
    """Compute the blocks in reverse mode, by vjps of unit cotangents."""
    recording = record(api, f, chosen, kwargs, has_aux)
    base, inputs = recording.base, recording.inputs
    rows = []
    for root, out in zip(recording.roots, recording.outputs, strict=True):
        count = out.numel()
        chunk = chunk_size or (_rows_in_memory(recording, root.node) if count > 1 else 1)
        parts: list[list[Value]] = [[] for _ in inputs]
        for start in range(0, count if root.node is not None else 0, chunk):
            units = _units(base, start, min(chunk, count - start), out)
            for part, rows_of_chunk in zip(parts, _pulled(api, recording, root.node, units), strict=True):
                part.append(rows_of_chunk)
        rows.append([_joined(base, part, out.shape + x.shape, x.dtype) for part, x in zip(parts, inputs, strict=True)])
    return Blocks(rows, recording.structure, recording.aux)


def _pulled(api: str, recording: RecordedFunction, node: Any, units: Float) -> Iterator[Value]:
    """Return the gradients of the inputs from a batch of cotangents, each with the batch first."""
    base, count = recording.base, units.shape[0]
    if count == 1:
        gradients = walked(base, base, [(node, base.reshape(units, units.shape[1:]))], retain_graph=True)
        rows = [gradients.get(leaf) for leaf in recording.leaves]
        return _with_zeros(recording, [x if x is None else base.reshape(x, (1, *x.shape)) for x in rows], count)
    with Level(Batched, api, base) as level:
        level.size, level.randomness = count, "same"
        gradients = walked(level, base, [(node, BatchedValue(level, units, True))], retain_graph=True)
        found = [gradients.get(leaf) for leaf in recording.leaves]
        return _with_zeros(recording, [x if x is None else level.spread(level.own(x)) for x in found], count)


def _with_zeros(recording: RecordedFunction, rows: Sequence[Value | None], count: int) -> Iterator[Value]:
    for x, row in zip(recording.inputs, rows, strict=True):
        yield recording.base.full((count, *x.shape), 0.0, x.dtype) if row is None else row


def _rows_in_memory(recording: RecordedFunction, node: Any) -> int:
    """Return how many rows of a Jacobian fit into `MEMORY`, if each takes what the graph of the function saves."""
    nodes, _ = walk([node])
    arrays: dict[int, int] = {id(x): _bytes(x) for x in recording.inputs}
    for each in nodes:
        for edge in (each.saved0, getattr(each, "saved1", ())):
            arrays.update([(id(x), _bytes(x)) for x in kept_of(edge) if is_array(x)])
    return max(1, MEMORY // max(1, sum(arrays.values())))


def _bytes(x: Any) -> int:
    size: int = prod(x.shape) * x.dtype.itemsize
    return size


def blocks_by_columns(
    api: str, f: Callable[..., Any], chosen: ChosenArguments, kwargs: Any, has_aux: bool, chunk_size: int | None
) -> Blocks:
    """Compute the blocks in forward mode, by jvps of unit tangents."""
    base = base_for(api, tensors_in((chosen.args, kwargs)))
    inputs = [on_base(api, x, base) for x in chosen.leaves]
    draws: list[Value] = []
    first: PushedFunction | None = None
    by_input: list[list[list[Value]]] = []
    for k, x in enumerate(inputs):
        count, start = x.numel(), 0
        chunks: list[list[Value]] = []
        while start < count:
            chunk = chunk_size or _columns_in_memory(x, first)
            units = _units(base, start, min(chunk, count - start), x)
            result, columns = _pushed(api, f, chosen, kwargs, has_aux, k, units, base, draws)
            first = first or result
            chunks.append(columns)
            start += units.shape[0]
        by_input.append([list(parts) for parts in zip(*chunks, strict=True)])
    if first is None:  # no input has any elements
        first = apply_jvp(api, f, chosen, kwargs, [None] * len(inputs), has_aux)
    rows = []
    for j, out in enumerate(first.outputs):
        row = []
        for x, parts in zip(inputs, by_input, strict=True):
            block = _joined(base, parts[j] if parts else [], (x.numel(), *out.shape), out.dtype)
            columns_last = base.permute(block._primitive, (*range(1, len(out.shape) + 1), 0))
            row.append(block._like(base.reshape(columns_last, out.shape + x.shape)))
        rows.append(row)
    return Blocks(rows, first.structure, first.aux)


def _pushed(
    api: str,
    f: Callable[..., Any],
    chosen: ChosenArguments,
    kwargs: Any,
    has_aux: bool,
    place: int,
    units: Float,
    base: Any,
    draws: list[Value],
) -> tuple[PushedFunction, list[Value]]:
    """Run a function with a batch of tangents of the input at ``place``.

    Returns the outputs, and the tangents of each with the batch first. Functions draw the same numbers in every chunk.
    """
    tangents: list[Tensor[Any] | None] = [None] * len(chosen.leaves)
    if units.shape[0] == 1:
        tangents[place] = new_tensor(Tensor, base, base.reshape(units, units.shape[1:]))
        result = apply_jvp(api, f, chosen, kwargs, tangents, has_aux)
        return result, [base.reshape(t._primitive, (1, *t.shape)) for t in result.tangents]
    with Level(Batched, api, base) as level:
        level.size, level.randomness, level.draws, level.drawn = units.shape[0], "same", draws, 0
        tangents[place] = new_tensor(Tensor, level, BatchedValue(level, units, True))
        result = apply_jvp(api, f, chosen, kwargs, tangents, has_aux)
        columns = [level.spread(level.own(t._primitive)) for t in result.tangents]
        outputs = [_same_for_all(x, level) for x in result.outputs]
        aux = map_tree(lambda leaf: _same_for_all(leaf, level), result.aux)
    return PushedFunction(outputs, [], result.structure, aux), columns


def _same_for_all(x: Any, level: Any) -> Any:
    """Lower a value that does not depend on the tangents; loops of compiled functions compute it for each of them."""
    primitive = getattr(x, "_primitive", None)
    if isinstance(primitive, BatchedValue) and x._device is level and primitive.batched:
        inner = level.inner_of(primitive)
        return new_tensor(type(x), level.inner, inner.slice(primitive.value, (0,)))
    return lowered(x, level)


def _columns_in_memory(x: Tensor[Any], known: PushedFunction | None) -> int:
    """Return how many columns of a Jacobian by x fit into `MEMORY`; at most 128 before the outputs are known."""
    outputs = 0 if known is None else sum([_bytes(out._primitive) for out in known.outputs])
    fitting = MEMORY // max(1, FORWARD_COPIES * (_bytes(x._primitive) + outputs))
    return max(1, fitting if known is not None else min(fitting, 128))


def _units(base: Any, start: int, count: int, x: Tensor[Any]) -> Float:
    """Return a batch of ``count`` tensors of x's shape: 1 at one element, from number ``start`` on, and 0 elsewhere."""
    size = x.numel()
    ones = slice(start, count * (size + 1), size + 1)  # of row k element start + k, as in the flattened matrix
    units = base.accumulate_slice(base.full((count * size,), 0.0, x.dtype), (ones,), base.full((count,), 1.0, x.dtype))
    return base.reshape(units, (count, *x.shape))


def _joined(base: Any, parts: Sequence[Value], shape: Shape, dtype: DType) -> Tensor[Any]:
    """Return a block from its chunks of rows, zeros if there are none."""
    if not parts:
        return new_tensor(Tensor, base, base.full(shape, 0.0, dtype))  # type: ignore[no-any-return]  # of that class
    rows = parts[0] if len(parts) == 1 else base.cat(list(parts), 0)
    return new_tensor(Tensor, base, base.reshape(rows, shape))  # type: ignore[no-any-return]  # of that class
