"""`jacobian`, `jacrev`, `jacfwd`: Jacobians by rows in reverse mode, or by columns in forward mode.

Their blocks are many rows, or columns, at once, each an example of a batch: a chunk of unit cotangents goes through one
backward pass on a `Batched` level, and a chunk of unit tangents through one run of the function. A chunk of one is not
batched, so that the function may read values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from math import prod
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, overload

from burnpy.autodiff.graph import is_array, saved_tuple
from burnpy.autodiff.tools.backward import walked
from burnpy.autodiff.tools.graph_views import walk
from burnpy.backend.errors import ArgumentError, KindError
from burnpy.backend.primitives import DType, Float, Shape, Value
from burnpy.batching.batch_methods import BatchedValue
from burnpy.batching.batched import Batched
from burnpy.func.jacobian_products import PushedFunction, RecordedFunction, apply_jvp, on_base, record
from burnpy.func.pytree import Structure, map_tree, tensors_in
from burnpy.func.user_functions import (
    Argnums,
    ChosenArguments,
    DerivativeOfTensors,
    DerivativeOfTensorsWithAux,
    Lambda,
    LambdaWithAux,
    Level,
    base_for,
    checked_function,
    lowered,
    select_arguments,
)
from burnpy.tensor.call_errors import explained
from burnpy.tensor.generator import completed, replayed, states
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor, tensor_of
from burnpy.typevars import B

P = ParamSpec("P")
A = TypeVar("A")
JacobianMode = Literal["reverse", "forward"]


@overload
def jacobian(
    f: Lambda,
    argnums: Literal[0] = 0,
    *,
    mode: JacobianMode = "reverse",
    has_aux: Literal[False] = False,
    chunk_size: int | None = None,
) -> DerivativeOfTensors: ...
@overload
def jacobian(
    f: LambdaWithAux[A],
    argnums: Literal[0] = 0,
    *,
    mode: JacobianMode = "reverse",
    has_aux: Literal[True],
    chunk_size: int | None = None,
) -> DerivativeOfTensorsWithAux[A]: ...
@overload
def jacobian(
    f: Callable[Concatenate[Tensor[B], P], Tensor[B]],
    argnums: Literal[0] = 0,
    *,
    mode: JacobianMode = "reverse",
    has_aux: Literal[False] = False,
    chunk_size: int | None = None,
) -> Callable[Concatenate[Tensor[B], P], Tensor[B]]: ...
@overload
def jacobian(
    f: Callable[Concatenate[Tensor[B], P], tuple[Tensor[B], A]],
    argnums: Literal[0] = 0,
    *,
    mode: JacobianMode = "reverse",
    has_aux: Literal[True],
    chunk_size: int | None = None,
) -> Callable[Concatenate[Tensor[B], P], tuple[Tensor[B], A]]: ...
@overload
def jacobian(
    f: Callable[P, Any],
    argnums: Argnums = 0,
    *,
    mode: JacobianMode = "reverse",
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Any: ...
@explained
def jacobian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    mode: JacobianMode = "reverse",
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``f``: the derivatives of all output by all input elements.

    Args:
        f: a function of float tensors, or trees of them, that returns a float tensor or a tree of them.
        argnums: the position of the argument to differentiate with respect to, or a tuple of positions.
        mode: "reverse" computes a row for each output element by backward passes, best for few outputs and many
            inputs; "forward" computes a column for each input element with the values of ``f``, best for many outputs
            and few inputs.
        has_aux: whether ``f`` returns a pair (output, aux), where aux is not differentiated.
        chunk_size: the number of rows, or columns, that are computed at a time, as one batch of `vmap`. None takes as
            many as need about 256 MiB: a row is counted with what the graph of ``f`` saves, a column with 8 times the
            bytes of an input and of the outputs. 1 computes them one by one, also for rules that read values.

    Returns:
        A function of the same arguments. If input and output are tensors it returns a tensor of shape output.shape +
        input.shape; if they are trees, a tree like the output with each tensor replaced by a tree like the argument, or
        by a tuple of these for several ``argnums``. The dtype is the input's in reverse mode, the output's in forward
        mode. With ``has_aux`` it returns a pair (Jacobian, aux). Of complex numbers by complex ones it is the
        derivative of a holomorphic function; of floats by complex numbers, in reverse mode, each row is a gradient.

    Raises:
        ArgumentError: a position in ``argnums`` or the mode is invalid, or ``chunk_size`` is not positive.
        KindError: a leaf of a differentiated argument, or of the output, is not a float tensor.

    >>> jacobian(lambda x: x * x.sum())(Tensor[NumPy].from_data([1.0, 2.0])).tolist()
    [[4.0, 1.0], [2.0, 5.0]]
    """
    given: object = mode
    if not isinstance(given, str) or given not in ("reverse", "forward"):
        raise ArgumentError(f'jacobian() got mode={mode!r:.80}; expected "reverse" or "forward"')
    return jacobian_by("jacobian", f, argnums, mode, has_aux, chunk_size)


class JacobianInOneMode(Protocol):
    """The type of `jacrev` and `jacfwd`."""

    @overload
    def __call__(
        self, f: Lambda, argnums: Literal[0] = 0, *, has_aux: Literal[False] = False, chunk_size: int | None = None
    ) -> DerivativeOfTensors: ...
    @overload
    def __call__(
        self, f: LambdaWithAux[A], argnums: Literal[0] = 0, *, has_aux: Literal[True], chunk_size: int | None = None
    ) -> DerivativeOfTensorsWithAux[A]: ...
    @overload
    def __call__(
        self,
        f: Callable[Concatenate[Tensor[B], P], Tensor[B]],
        argnums: Literal[0] = 0,
        *,
        has_aux: Literal[False] = False,
        chunk_size: int | None = None,
    ) -> Callable[Concatenate[Tensor[B], P], Tensor[B]]: ...
    @overload
    def __call__(
        self,
        f: Callable[Concatenate[Tensor[B], P], tuple[Tensor[B], A]],
        argnums: Literal[0] = 0,
        *,
        has_aux: Literal[True],
        chunk_size: int | None = None,
    ) -> Callable[Concatenate[Tensor[B], P], tuple[Tensor[B], A]]: ...
    @overload
    def __call__(
        self, f: Callable[P, Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
    ) -> Any: ...


def _in_one_mode(f: Callable[..., Any]) -> JacobianInOneMode:
    return f


@_in_one_mode
@explained
def jacrev(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``f`` in reverse mode, see `jacobian`.

    >>> jacrev(lambda x: x * x)(Tensor[NumPy].from_data([1.0, 3.0])).tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    """
    return jacobian_by("jacrev", f, argnums, "reverse", has_aux, chunk_size)


@_in_one_mode
@explained
def jacfwd(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``f`` in forward mode, see `jacobian`.

    >>> jacfwd(lambda x: x * x)(Tensor[NumPy].from_data([1.0, 3.0])).tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    """
    return jacobian_by("jacfwd", f, argnums, "forward", has_aux, chunk_size)


def jacobian_by(
    api: str, f: Callable[..., Any], argnums: Argnums, mode: str, has_aux: bool = False, chunk_size: Any = None
) -> Callable[..., Any]:
    """Implement `jacobian`; ``api`` is the function named in messages."""
    checked_function(api, f, argnums)
    if chunk_size is not None and (type(chunk_size) is not int or chunk_size < 1):
        raise ArgumentError(f"{api}() got chunk_size={chunk_size!r:.80}; expected a positive int, or None")

    @functools.wraps(f)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        chosen = select_arguments(api, args, argnums)
        if api == "hessian" and any(x.dtype.kind == "c" for x in chosen.leaves):
            raise KindError(
                "hessian() got an argument with complex numbers, whose Hessian is one of their parts; take the real "
                "and the imaginary part as two arguments, or use hvp()"
            )
        compute = blocks_by_rows if mode == "reverse" else blocks_by_columns
        blocks = compute(api, f, chosen, kwargs, has_aux, chunk_size)
        result = blocks.structure.unflatten([chosen.structure.unflatten(row) for row in blocks.rows])
        return (result, blocks.aux) if has_aux else result

    return derivative


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

    def block(out: Tensor[Any], x: Tensor[Any], chunks: Sequence[Value]) -> Tensor[Any]:
        if out.dtype.kind == "c" and x.dtype.kind != "c":
            raise KindError(
                f"{api}() cannot differentiate complex numbers by floats in reverse mode; use jacfwd(), or return "
                "z.real and z.imag"
            )
        rows = _joined(base, chunks, out.shape + x.shape, x.dtype)
        holomorphic = (out.dtype.kind == "c") is (x.dtype.kind == "c")
        return rows if holomorphic else rows._like(base.conj(rows._primitive))

    rows = []
    for root, out in zip(recording.roots, recording.outputs, strict=True):
        by_chunk = list(_pulled_chunks(api, recording, root.node, out, chunk_size))
        by_input = zip(*by_chunk, strict=True) if by_chunk else [()] * len(inputs)
        rows.append([block(out, x, chunks) for x, chunks in zip(inputs, by_input, strict=True)])
    return Blocks(rows, recording.structure, recording.aux)


def _pulled_chunks(
    api: str, recording: RecordedFunction, node: Any, out: Tensor[Any], chunk_size: int | None
) -> Iterator[list[Value]]:
    """Yield the rows of an output's blocks, chunk by chunk; nothing for an output that depends on no input."""
    count = 0 if node is None else out.numel()
    chunk = chunk_size or (_rows_in_memory(recording, node) if count > 1 else 1)
    for start in range(0, count, chunk):
        units = _units(recording.base, start, min(chunk, count - start), out)
        yield list(_pulled(api, recording, node, units))


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
            arrays.update([(id(x), _bytes(x)) for x in saved_tuple(edge) if is_array(x)])
    return max(1, MEMORY // max(1, sum(arrays.values())))


def _bytes(x: Any) -> int:
    size: int = prod(x.shape) * x.dtype.itemsize
    return size


def blocks_by_columns(
    api: str, f: Callable[..., Any], chosen: ChosenArguments, kwargs: Any, has_aux: bool, chunk_size: int | None
) -> Blocks:
    """Compute the blocks in forward mode, by jvps of unit tangents."""
    forward = _ForwardMode(api, f, chosen, kwargs, has_aux)
    base, inputs = forward.base, forward.inputs

    def block(out: Tensor[Any], x: Tensor[Any], chunks: Sequence[Value]) -> Tensor[Any]:
        if x.dtype.kind == "c" and out.dtype.kind != "c":
            raise KindError(
                f"{api}() cannot differentiate floats by complex numbers in forward mode; use jacrev(), or take "
                "the real and the imaginary part as two arguments"
            )
        columns = _joined(base, chunks, (x.numel(), *out.shape), out.dtype)
        last = base.permute(columns._primitive, (*range(1, len(out.shape) + 1), 0))
        return columns._like(base.reshape(last, out.shape + x.shape))

    by_input = [list(forward.columns(k, chunk_size)) for k in range(len(inputs))]
    first = forward.first or forward.run([None] * len(inputs))  # no input has any elements
    rows = [
        [block(out, x, [columns[j] for columns in chunks]) for x, chunks in zip(inputs, by_input, strict=True)]
        for j, out in enumerate(first.outputs)
    ]
    return Blocks(rows, first.structure, first.aux)


class _ForwardMode:
    """A function that runs on several chunks of tangents, and draws the same numbers for each. On a level these are
    ``draws``; for a chunk of one, which is on no level, the caller's generators start from their first states."""

    def __init__(self, api: str, f: Callable[..., Any], chosen: ChosenArguments, kwargs: Any, has_aux: bool) -> None:
        self.api, self.base = api, base_for(api, tensors_in((chosen.args, kwargs)))
        self.inputs = [on_base(api, x, self.base) for x in chosen.leaves]
        self.run = functools.partial(apply_jvp, api, f, chosen, kwargs, has_aux=has_aux)
        self.first: PushedFunction | None = None  #: the result for the first chunk, without its tangents
        self._draws: list[Value] = []
        self._states = states()

    def columns(self, place: int, chunk_size: int | None) -> Iterator[list[Value]]:
        """Yield the columns of all outputs by the input at ``place``, each with the chunk's batch first."""
        x, start = self.inputs[place], 0
        count = x.numel()
        while start < count:
            chunk = chunk_size or _columns_in_memory(x, self.first)
            units = _units(self.base, start, min(chunk, count - start), x)
            with nullcontext() if self.first is None else replayed(self._states):
                result, columns = self._pushed(place, units)
            if self.first is None:
                self.first, self._states = result, completed(self._states)
            yield columns
            start += units.shape[0]

    def _pushed(self, place: int, units: Float) -> tuple[PushedFunction, list[Value]]:
        """Run the function with a batch of tangents of one input. Returns the outputs, and the tangents of each with
        the batch first."""
        base = self.base
        tangents: list[Tensor[Any] | None] = [None] * len(self.inputs)
        if units.shape[0] == 1:
            tangents[place] = tensor_of(base, base.reshape(units, units.shape[1:]))
            result = self.run(tangents)
            return result, [base.reshape(t._primitive, (1, *t.shape)) for t in result.tangents]
        with Level(Batched, self.api, base) as level:
            level.size, level.randomness, level.draws, level.drawn = units.shape[0], "same", self._draws, 0
            tangents[place] = tensor_of(level, BatchedValue(level, units, True))
            result = self.run(tangents)
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
        return tensor_of(base, base.full(shape, 0.0, dtype))  # type: ignore[no-any-return]  # of that class
    rows = parts[0] if len(parts) == 1 else base.cat(list(parts), 0)
    return tensor_of(base, base.reshape(rows, shape))  # type: ignore[no-any-return]  # of that class
