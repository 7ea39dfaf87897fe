"""`jacobian`: the Jacobian of a function, by rows in reverse mode or by columns in forward mode."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from burnpy.backend.errors import ArgumentError
from burnpy.func.derivatives.jacobian_blocks import blocks_by_columns, blocks_by_rows
from burnpy.func.user_functions import (
    Argnums,
    Derivative,
    DerivativeWithAux,
    OfOne,
    OfOneWithAux,
    checked_function,
    select_arguments,
)
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
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
        argnums: the position of the argument to differentiate by, or a tuple of positions.
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
        mode. With ``has_aux`` it returns a pair (Jacobian, aux).

    Raises:
        ArgumentError: a position in ``argnums`` or the mode is invalid, or ``chunk_size`` is not positive.
        KindError: a leaf of an argument to differentiate by, or of the output, is not a float tensor.

    >>> jacobian(lambda x: x * x.sum())(Tensor[NumPy].from_data([1.0, 2.0])).tolist()
    [[4.0, 1.0], [2.0, 5.0]]
    """
    if mode not in ("reverse", "forward"):
        raise ArgumentError(f'jacobian() got mode={mode!r:.80}; expected "reverse" or "forward"')
    return jacobian_by("jacobian", f, argnums, mode, has_aux, chunk_size)


@overload
def jacrev(
    f: OfOne, argnums: Literal[0] = 0, *, has_aux: Literal[False] = False, chunk_size: int | None = None
) -> Derivative: ...
@overload
def jacrev(
    f: OfOneWithAux[A], argnums: Literal[0] = 0, *, has_aux: Literal[True], chunk_size: int | None = None
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
@explained
def jacrev(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``f`` in reverse mode, see `jacobian`.

    >>> jacrev(lambda x: x * x)(Tensor[NumPy].from_data([1.0, 3.0])).tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    """
    return jacobian_by("jacrev", f, argnums, "reverse", has_aux, chunk_size)


@overload
def jacfwd(
    f: OfOne, argnums: Literal[0] = 0, *, has_aux: Literal[False] = False, chunk_size: int | None = None
) -> Derivative: ...
@overload
def jacfwd(
    f: OfOneWithAux[A], argnums: Literal[0] = 0, *, has_aux: Literal[True], chunk_size: int | None = None
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
        compute = blocks_by_rows if mode == "reverse" else blocks_by_columns
        blocks = compute(api, f, chosen, kwargs, has_aux, chunk_size)
        result = blocks.structure.unflatten([chosen.structure.unflatten(row) for row in blocks.rows])
        return (result, blocks.aux) if has_aux else result

    return derivative
