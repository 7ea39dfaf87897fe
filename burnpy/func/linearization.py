"""`linearize`: the value of a function at a point, and its derivative there as a linear function of tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVarTuple

from burnpy.autodiff.autodiff import Autodiff
from burnpy.func.arguments import checked_function, matching, select_arguments
from burnpy.func.levels import Level
from burnpy.func.reverse import apply_vjp, leaf_of, record, walked
from burnpy.typevars import R

Ts = TypeVarTuple("Ts")


def linearize(f: Callable[[*Ts], R], *primals: *Ts) -> tuple[R, Callable[[*Ts], R]]:
    """Compute the value of ``f`` at ``primals``, and return its derivative there as a linear function of tangents.

    ``f`` runs once; each call of the derivative costs about as much as a backward pass. For a single tangent, `jvp` is
    faster and needs less memory.

    The derivative is computed as the transpose of the vjp: the vjp is linear in the cotangent, so it is recorded at a
    cotangent of zeros, and the vjp of that recording with a tangent is the Jacobian-vector product.
    Source: J. Townsend, A new trick for calculating Jacobian vector products, 2017.

    Args:
        f: a function of float tensors, or trees of them, that returns a float tensor or a tree of them.
        primals: the arguments of ``f``; all are differentiated.

    Returns:
        (output, derivative). The derivative takes one tangent per primal, of the same structure, shapes and dtypes, and
        returns the tangent of the output. It may be called any number of times, and differentiated.

    Raises:
        KindError: a leaf of the primals or the output is not a float tensor.
        ArgumentError, ShapeError: (of the derivative) a tangent differs from its primal in structure, shape or dtype.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> out, derivative = linearize(lambda x: x.square(), Tensor[NumPy].from_data([1.0, 2.0]))
    >>> derivative(Tensor[NumPy].from_data([1.0, 0.0])).tolist()
    [2.0, 0.0]
    """
    checked_function("linearize", f)
    picked = select_arguments("linearize", primals, tuple(range(len(primals))))
    recording = record("linearize", f, picked, {}, False)
    base = recording.base
    with Level(Autodiff, "linearize", base) as level:
        cotangents = [leaf_of(level, base.full(out.shape, 0.0, out.dtype)) for out in recording.outputs]
        seeds: Any = [
            (root.node, c) for root, c in zip(recording.roots, cotangents, strict=True) if root.node is not None
        ]
        gradients = walked(level, base, seeds, retain_graph=False)
        roots = [
            gradients[leaf] if leaf in gradients else level.lift(x._primitive)
            for leaf, x in zip(recording.leaves, recording.inputs, strict=True)
        ]
    leaves: Any = [c.node for c in cotangents]

    def derivative(*tangents: *Ts) -> R:
        name = "the derivative of linearize"
        directions = matching(name, "tangents", picked.structure, tangents, primals, "primals")
        pushed = apply_vjp(name, base, roots, leaves, recording.outputs, directions, retain_graph=True)
        out: R = recording.structure.unflatten(pushed)
        return out

    return recording.output, derivative
