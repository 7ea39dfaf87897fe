"""`jvp`: the value of a function and its directional derivative, in forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, TypeVarTuple, overload

from burnpy.autodiff.forward import Forward
from burnpy.func.derivative_levels import Level, base_for, lowered, primitive_on
from burnpy.func.pytree import Structure, map_tree, tensors_in
from burnpy.func.user_functions import (
    ChosenArguments,
    checked_function,
    flat_output,
    matching,
    outputs_of,
    select_arguments,
    several,
)
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor
from burnpy.typevars import B, R

Ts = TypeVarTuple("Ts")
A = TypeVar("A")


@overload
def jvp(
    f: Callable[[Tensor[B]], R], primals: Tensor[B], tangents: Tensor[B], *, has_aux: Literal[False] = False
) -> tuple[R, R]: ...
@overload
def jvp(
    f: Callable[[Tensor[B]], tuple[R, A]], primals: Tensor[B], tangents: Tensor[B], *, has_aux: Literal[True]
) -> tuple[R, R, A]: ...
@overload
def jvp(
    f: Callable[[*Ts], R], primals: tuple[*Ts], tangents: tuple[*Ts], *, has_aux: Literal[False] = False
) -> tuple[R, R]: ...
@overload
def jvp(
    f: Callable[[*Ts], tuple[R, A]], primals: tuple[*Ts], tangents: tuple[*Ts], *, has_aux: Literal[True]
) -> tuple[R, R, A]: ...
def jvp(f: Callable[..., Any], primals: Any, tangents: Any, *, has_aux: bool = False) -> tuple[Any, ...]:
    """Compute the value of ``f`` at ``primals``, and the Jacobian-vector product with ``tangents``.

    No graph is recorded: the memory is twice the memory of ``f``.

    Args:
        f: a function of float tensors, or trees of them, that returns a float tensor or a tree of them.
        primals: the tuple of arguments, or the argument itself if it is a single tensor.
        tangents: the vector, with the structure, shapes and dtypes of the primals.
        has_aux: whether ``f`` returns a pair (output, aux), where aux is not differentiated.

    Returns:
        (output, tangent of the output), with ``has_aux`` (output, tangent, aux).

    Raises:
        ArgumentError, ShapeError: the tangents differ from the primals in structure, shape or dtype.
        KindError: a leaf of the primals, the tangents or the output is not a float tensor.

    >>> x, t = Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([1.0, 0.0])
    >>> jvp(lambda x: (x * x).sum(), x, t)[1].item()
    2.0
    """
    checked_function("jvp", f)
    args, single = several("jvp", primals)
    result = pushed("jvp", f, args, (tangents,) if single else tangents, has_aux)
    out = (result.structure.unflatten(result.outputs), result.structure.unflatten(result.tangents))
    return (*out, result.aux) if has_aux else out


def pushed(api: str, f: Callable[..., Any], primals: tuple[Any, ...], tangents: Any, has_aux: bool) -> PushedFunction:
    """Run a function on ``primals`` with ``tangents``, in forward mode; ``api`` is the function named in messages."""
    chosen = select_arguments(api, primals, tuple(range(len(primals))))
    directions = matching(api, "tangents", chosen.structure, tangents, primals, "primals")
    return apply_jvp(api, f, chosen, {}, directions, has_aux)


@dataclass(frozen=True, slots=True)
class PushedFunction:
    """The outputs of a function and their tangents, on the device beneath the level."""

    outputs: list[Tensor[Any]]
    tangents: list[Tensor[Any]]
    structure: Structure  #: the structure of the output
    aux: Any


def apply_jvp(
    api: str,
    f: Callable[..., Any],
    chosen: ChosenArguments,
    kwargs: dict[str, Any],
    tangents: Sequence[Tensor[Any] | None],
    has_aux: bool,
) -> PushedFunction:
    """Run a function on a new level, with a tangent for each leaf of the selected arguments; None is a zero tangent."""
    nonzero = [t for t in tangents if t is not None]
    base = base_for(api, tensors_in((chosen.args, kwargs, nonzero)))
    with Level(Forward, api, base) as level:
        duals = [
            level.lift(primitive_on(api, x, base))
            if t is None
            else level.dual(primitive_on(api, x, base), primitive_on(api, t, base))
            for x, t in zip(chosen.leaves, tangents, strict=True)
        ]
        args = chosen.replaced([new_tensor(Tensor, level, d) for d in duals])
        output, aux = outputs_of(api, f(*args, **kwargs), has_aux)
        outputs, structure = flat_output(api, output, (chosen.args, kwargs))
        pushed = [primitive_on(api, out, level) for out in outputs]
        aux = map_tree(lambda leaf: lowered(leaf, level), aux)
    return PushedFunction(
        [new_tensor(Tensor, base, p.value) for p in pushed],
        [
            new_tensor(Tensor, base, base.full(p.shape, 0.0, p.dtype) if p.tangent is None else p.tangent)
            for p in pushed
        ],
        structure,
        aux,
    )
