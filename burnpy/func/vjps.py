"""`vjp`: the value of a function, and a function that computes vector-Jacobian products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, TypeVarTuple, overload

from burnpy.func.arguments import checked_function, matching, select_arguments
from burnpy.func.reverse import apply_vjp, record
from burnpy.typevars import R

Ts = TypeVarTuple("Ts")
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
    """Compute the value of ``f`` at ``primals``, and return a function that computes vector-Jacobian products.

    Args:
        f: a function of float tensors, or trees of them, that returns a float tensor or a tree of them.
        primals: the arguments of ``f``; all are differentiated.
        has_aux: whether ``f`` returns a pair (output, aux), where aux is not differentiated.

    Returns:
        (output, pullback), with ``has_aux`` (output, pullback, aux). The pullback takes a cotangent with the structure,
        shapes and dtypes of the output, and returns a tuple with a gradient for each primal. It may be called any
        number of times, from any thread, and differentiated; it keeps the graph alive.

    Raises:
        KindError: a leaf of the primals or of the output is not a float tensor.
        ArgumentError, ShapeError: (of the pullback) the cotangent differs from the output in structure, shape or dtype.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].from_data([1.0, 2.0])
    >>> out, pullback = vjp(lambda x: x * x, x)
    >>> pullback(Tensor[NumPy].from_data([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    checked_function("vjp", f)
    picked = select_arguments("vjp", primals, tuple(range(len(primals))))
    recording = record("vjp", f, picked, {}, has_aux)

    def pullback(cotangent: Any) -> Any:
        name = "the pullback of vjp"
        cotangents = matching(name, "a cotangent", recording.structure, cotangent, recording.output, "the output")
        gradients = apply_vjp(
            name, recording.base, recording.roots, recording.leaves, recording.inputs, cotangents, retain_graph=True
        )
        return picked.structure.unflatten(gradients)

    return (recording.output, pullback, recording.aux) if has_aux else (recording.output, pullback)
