"""`linearize`: the value of a function and its derivative as a function, for many directions at one point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

from burnpy.autodiff.autodiff import Autodiff
from burnpy.func.arguments import checked_function, matching, select_arguments
from burnpy.func.levels import Level
from burnpy.func.reverse import apply_vjp, leaf_of, record, walked

Ts = TypeVarTuple("Ts")
R = TypeVar("R")


def linearize(f: Callable[[*Ts], R], *primals: *Ts) -> tuple[R, Callable[[*Ts], R]]:
    """The value of ``f`` at ``primals``, and its derivative there, a linear function of tangents.

    ``f`` runs once; each call of the derivative costs about as much as a backward pass. For a single direction `jvp` is
    better, and needs less memory.

    The derivative is the transpose of the pullback, itself found by reverse mode: the pullback is linear, so it is
    recorded at a cotangent of zeros, and pulling a tangent back through that gives the product of the Jacobian with it.
    Source: J. Townsend, A new trick for calculating Jacobian vector products, 2017.

    Args:
        f: from tensors, or trees of some, to a tensor or a tree of some, all float.
        primals: the arguments, by all of which it is differentiated.

    Returns:
        (output, derivative). The derivative takes as many tangents as there are primals, of their structure, shapes and
        dtypes, and gives the tangent of the output. It may be called any number of times, and differentiated.

    Raises:
        KindError: a primal or the output holds something else than float tensors.
        ArgumentError, ShapeError: (of the derivative) the tangents are not like the primals.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> out, derivative = linearize(lambda x: x.square(), Tensor[NumPy].from_data([1.0, 2.0]))
    >>> derivative(Tensor[NumPy].from_data([1.0, 0.0])).tolist()
    [2.0, 0.0]
    """
    checked_function("linearize", f)
    picked = select_arguments("linearize", primals, tuple(range(len(primals))))
    found = record("linearize", f, picked, {}, False)
    base = found.base
    with Level(Autodiff, "linearize", base) as level:
        cotangents = [leaf_of(level, base.full(out.shape, 0.0, out.dtype)) for out in found.outputs]
        seeds: Any = [(root.node, c) for root, c in zip(found.roots, cotangents, strict=True) if root.node is not None]
        gradients = walked(level, base, seeds, retain_graph=False)
        roots = [
            gradients[leaf] if leaf in gradients else level.lift(x._primitive)
            for leaf, x in zip(found.leaves, found.inputs, strict=True)
        ]
    leaves: Any = [c.node for c in cotangents]

    def derivative(*tangents: *Ts) -> R:
        name = "the derivative of linearize"
        directions = matching(name, "tangents", picked.structure, tangents, primals, "primals")
        pushed = apply_vjp(name, base, roots, leaves, found.outputs, directions, retain_graph=True)
        out: R = found.structure.unflatten(pushed)
        return out

    return found.output, derivative
