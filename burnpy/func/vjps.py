"""`vjp`: the value of a function, and a function that pulls cotangents back through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, TypeVarTuple, overload

from burnpy.func.arguments import checked_function, matching, select_arguments
from burnpy.func.reverse import apply_vjp, record

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
A = TypeVar("A")


@overload
def vjp(
    f: Callable[[*Ts], R], *primals: *Ts, has_aux: Literal[False] = False
) -> tuple[R, Callable[[R], tuple[*Ts]]]: ...
@overload
def vjp(
    f: Callable[[*Ts], tuple[R, A]], *primals: *Ts, has_aux: Literal[True]
) -> tuple[R, Callable[[R], tuple[*Ts]], A]: ...
def vjp(f: Callable[[*Ts], Any], *primals: *Ts, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of ``f`` at ``primals``, and its pullback: the product of a vector with the Jacobian.

    Args:
        f: from tensors, or trees of some, to a tensor or a tree of some, all float.
        primals: the arguments, by all of which it is differentiated.
        has_aux: whether ``f`` returns a pair, of which the second is handed through.

    Returns:
        (output, pullback), with ``has_aux`` (output, pullback, aux). The pullback takes a cotangent, a tree like the
        output with the same shapes and dtypes, and gives a tuple with a gradient for each of the primals. It may be
        called any number of times, from any thread, and differentiated; the graph lives as long as it does.

    Raises:
        KindError: a primal or the output holds something else than float tensors.
        ArgumentError, ShapeError: (of the pullback) the cotangent is not like the output.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].from_data([1.0, 2.0])
    >>> out, pullback = vjp(lambda x: x * x, x)
    >>> pullback(Tensor[NumPy].from_data([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    checked_function("vjp", f)
    picked = select_arguments("vjp", primals, tuple(range(len(primals))))
    found = record("vjp", f, picked, {}, has_aux)

    def pullback(cotangent: Any) -> Any:
        name = "the pullback of vjp"
        cotangents = matching(name, "a cotangent", found.structure, cotangent, found.output, "the output")
        gradients = apply_vjp(name, found.base, found.roots, found.leaves, found.inputs, cotangents, retain_graph=True)
        return picked.structure.unflatten(gradients)

    return (found.output, pullback, found.aux) if has_aux else (found.output, pullback)
