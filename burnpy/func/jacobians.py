"""`jacobian`: the Jacobian of a function, row by row in reverse mode or column by column in forward mode."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from burnpy.backend.errors import ArgumentError
from burnpy.backend.primitives import Float, Shape
from burnpy.func.derivative_levels import base_for
from burnpy.func.jvps import apply_jvp
from burnpy.func.pytree import tensors_in
from burnpy.func.user_functions import (
    Argnums,
    Derivative,
    DerivativeWithAux,
    OfOne,
    OfOneWithAux,
    checked_function,
    select_arguments,
)
from burnpy.func.vjps import apply_vjp, on_base, record
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor
from burnpy.typevars import B

P = ParamSpec("P")
A = TypeVar("A")
JacobianMode = Literal["reverse", "forward"]


@overload
def jacobian(
    f: OfOne,
    argnums: Literal[0] = 0,
    *,
    mode: JacobianMode = "reverse",
    has_aux: Literal[False] = False,
    chunk_size: int | None = None,
) -> Derivative: ...
@overload
def jacobian(
    f: OfOneWithAux[A],
    argnums: Literal[0] = 0,
    *,
    mode: JacobianMode = "reverse",
    has_aux: Literal[True],
    chunk_size: int | None = None,
) -> DerivativeWithAux[A]: ...
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
        argnums: the position of the argument to differentiate by, or a tuple of positions.
        mode: "reverse" runs ``f`` once and one backward pass per output element, best for few outputs and many inputs;
            "forward" runs ``f`` once per input element, best for many outputs and few inputs.
        has_aux: whether ``f`` returns a pair (output, aux), where aux is not differentiated.
        chunk_size: the number of rows, or columns, that are copied into the Jacobian at a time, and so the number that
            is stored besides it. None stores all of them, which is faster if the Jacobian is to be differentiated.

    Returns:
        A function of the same arguments. If input and output are tensors it returns a tensor of shape output.shape +
        input.shape; if they are trees, a tree like the output with each tensor replaced by a tree like the argument, or
        by a tuple of these for several ``argnums``. The dtype is the input's in reverse mode, the output's in forward
        mode. With ``has_aux`` it returns a pair (Jacobian, aux).

    Raises:
        ArgumentError: a position in ``argnums`` or the mode is invalid, or ``chunk_size`` is not positive.
        KindError: a leaf of an argument to differentiate by, or of the output, is not a float tensor.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> jacobian(lambda x: x * x.sum())(Tensor[NumPy].from_data([1.0, 2.0])).tolist()
    [[4.0, 1.0], [2.0, 5.0]]
    """
    if mode not in ("reverse", "forward"):
        raise ArgumentError(f'jacobian() got mode={mode!r:.80}; expected "reverse" or "forward"')
    return jacobian_by("jacobian", f, argnums, mode, has_aux, chunk_size)


@overload
def jacrev(
    f: OfOne,
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[False] = False,
    chunk_size: int | None = None,
) -> Derivative: ...
@overload
def jacrev(
    f: OfOneWithAux[A],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    chunk_size: int | None = None,
) -> DerivativeWithAux[A]: ...
@overload
def jacrev(
    f: Callable[Concatenate[Tensor[B], P], Tensor[B]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[False] = False,
    chunk_size: int | None = None,
) -> Callable[Concatenate[Tensor[B], P], Tensor[B]]: ...
@overload
def jacrev(
    f: Callable[Concatenate[Tensor[B], P], tuple[Tensor[B], A]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    chunk_size: int | None = None,
) -> Callable[Concatenate[Tensor[B], P], tuple[Tensor[B], A]]: ...
@overload
def jacrev(
    f: Callable[P, Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Any: ...
def jacrev(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``f`` in reverse mode, see `jacobian`."""
    return jacobian_by("jacrev", f, argnums, "reverse", has_aux, chunk_size)


@overload
def jacfwd(
    f: OfOne,
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[False] = False,
    chunk_size: int | None = None,
) -> Derivative: ...
@overload
def jacfwd(
    f: OfOneWithAux[A],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    chunk_size: int | None = None,
) -> DerivativeWithAux[A]: ...
@overload
def jacfwd(
    f: Callable[Concatenate[Tensor[B], P], Tensor[B]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[False] = False,
    chunk_size: int | None = None,
) -> Callable[Concatenate[Tensor[B], P], Tensor[B]]: ...
@overload
def jacfwd(
    f: Callable[Concatenate[Tensor[B], P], tuple[Tensor[B], A]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    chunk_size: int | None = None,
) -> Callable[Concatenate[Tensor[B], P], tuple[Tensor[B], A]]: ...
@overload
def jacfwd(
    f: Callable[P, Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Any: ...
def jacfwd(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``f`` in forward mode, see `jacobian`."""
    return jacobian_by("jacfwd", f, argnums, "forward", has_aux, chunk_size)


def jacobian_by(
    api: str, f: Callable[..., Any], argnums: Argnums, mode: str, has_aux: bool = False, chunk_size: Any = None
) -> Callable[..., Any]:
    """Implement `jacobian`; ``api`` is the function named in messages."""
    checked_function(api, f, argnums)
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise ArgumentError(f"{api}() got chunk_size={chunk_size!r:.80}; expected a positive int, or None")

    @functools.wraps(f)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        chosen = select_arguments(api, args, argnums)
        method = _by_rows if mode == "reverse" else _by_columns
        blocks, structure, aux = method(api, f, chosen, kwargs, has_aux, chunk_size)
        result = structure.unflatten([chosen.structure.unflatten(row) for row in blocks])
        return (result, aux) if has_aux else result

    return derivative


def _by_rows(api: str, f: Any, chosen: Any, kwargs: Any, has_aux: bool, chunk_size: int | None) -> Any:
    """Compute the block of each output and input tensor by the vjp of each unit cotangent."""
    recording = record(api, f, chosen, kwargs, has_aux)
    base, blocks = recording.base, []
    for root, out in zip(recording.roots, recording.outputs, strict=True):
        parts = [JacobianBlock(base, out.numel(), x.numel(), x.dtype, chunk_size) for x in recording.inputs]
        for unit in _units(base, out):
            rows = apply_vjp(api, base, [root], recording.leaves, recording.inputs, [unit], retain_graph=True)
            for part, row in zip(parts, rows, strict=True):
                part.append(row._primitive)
        shapes = [out.shape + x.shape for x in recording.inputs]
        blocks.append([part.tensor(shape, transposed=False) for part, shape in zip(parts, shapes, strict=True)])
    return blocks, recording.structure, recording.aux


def _by_columns(api: str, f: Any, chosen: Any, kwargs: Any, has_aux: bool, chunk_size: int | None) -> Any:
    """Compute the block of each output and input tensor by the jvp of each unit tangent."""
    base = base_for(api, tensors_in((chosen.args, kwargs)))
    inputs = [on_base(api, x, base) for x in chosen.leaves]
    first = None
    by_input: list[list[JacobianBlock]] = []
    for k, x in enumerate(inputs):
        parts: list[JacobianBlock] | None = None
        for unit in _units(base, x):
            result = apply_jvp(api, f, chosen, kwargs, [unit if j == k else None for j in range(len(inputs))], has_aux)
            first = first or result
            if parts is None:
                parts = [JacobianBlock(base, x.numel(), t.numel(), t.dtype, chunk_size) for t in result.tangents]
            for part, column in zip(parts, result.tangents, strict=True):
                part.append(column._primitive)
        by_input.append(parts or [])
    if first is None:  # no input has any elements
        first = apply_jvp(api, f, chosen, kwargs, [None] * len(inputs), has_aux)
    blocks = []
    for j, out in enumerate(first.outputs):
        row = []
        for x, parts in zip(inputs, by_input, strict=True):
            part = parts[j] if parts else JacobianBlock(base, 0, out.numel(), out.dtype, None)
            row.append(part.tensor(out.shape + x.shape, transposed=True))
        blocks.append(row)
    return blocks, first.structure, first.aux


def _units(base: Any, x: Tensor[Any]) -> Iterator[Tensor[Any]]:
    """Yield, for each element of x, the tensor of x's shape that is 1 there and 0 elsewhere."""
    shape, size = x.shape, x.numel()
    zeros = base.full((size,), 0.0, x.dtype)
    for k in range(size):
        yield new_tensor(Tensor, base, base.reshape(base.slice_scatter(zeros, (k,), 1.0), shape))


class JacobianBlock:
    """A matrix to which rows are appended; they are buffered, and copied in chunks."""

    def __init__(self, base: Any, count: int, width: int, dtype: Any, chunk_size: int | None) -> None:
        self.base, self.count, self.width, self.dtype = base, count, width, dtype
        self.chunk = chunk_size
        self.rows: list[Float] = []
        self.total: Float = None
        self.done = 0

    def append(self, row: Float) -> None:
        """Append a row, of any shape with ``width`` elements."""
        self.rows.append(self.base.reshape(row, (1, self.width)))
        if len(self.rows) == self.chunk:
            self._flush()

    def _flush(self) -> None:
        b, rows = self.base, self.rows
        if self.total is None:
            self.total = b.full((self.count, self.width), 0.0, self.dtype)
        stop = self.done + len(rows)
        key = (slice(self.done, stop, 1), slice(0, self.width, 1))
        self.total = b.accumulate_slice(self.total, key, b.cat(rows, 0))
        self.done = stop
        rows.clear()

    def tensor(self, shape: Shape, *, transposed: bool) -> Tensor[Any]:
        """Return the matrix, or its transpose, reshaped to ``shape``."""
        b = self.base
        if self.total is not None and self.rows:
            self._flush()
        if self.total is not None:
            matrix = self.total
        elif self.rows:
            matrix = b.cat(self.rows, 0)
        else:
            matrix = b.full((self.count, self.width), 0.0, self.dtype)
        if math.prod(shape) and transposed:
            matrix = b.mT(matrix)
        return new_tensor(Tensor, b, b.reshape(matrix, shape))  # type: ignore[no-any-return]  # of that class
