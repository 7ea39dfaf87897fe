"""`jvp`: the value of a function and its derivative in one direction, by forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, TypeVarTuple, overload

from burnpy.autodiff.forward.forward import Forward
from burnpy.backend.backend import Backend
from burnpy.func.arguments import Chosen, checked_function, flat_output, matching, outputs_of, select_arguments, several
from burnpy.func.levels import Level, base_for, lowered, primitive_on
from burnpy.func.pytree import Structure, map_tree, tensors_in
from burnpy.tensor.base import new_tensor
from burnpy.tensor.tensor import Tensor

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B", bound=Backend)


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
    f: Callable[[*Ts], R],
    primals: tuple[*Ts],
    tangents: tuple[*Ts],
    *,
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...
@overload
def jvp(
    f: Callable[[*Ts], tuple[R, A]],
    primals: tuple[*Ts],
    tangents: tuple[*Ts],
    *,
    has_aux: Literal[True],
) -> tuple[R, R, A]: ...
def jvp(f: Callable[..., Any], primals: Any, tangents: Any, *, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of ``f`` at ``primals`` and its derivative along ``tangents``: the product of the Jacobian with them.

    Nothing is recorded: memory is that of ``f``, twice.

    Args:
        f: from tensors, or trees of some, to a tensor or a tree of some, all float.
        primals: the tuple of the arguments, or the only one where that is a tensor.
        tangents: like the primals, with the same shapes and dtypes.
        has_aux: whether ``f`` returns a pair, of which the second is handed through.

    Returns:
        (output, tangent of the output), with ``has_aux`` (output, tangent, aux).

    Raises:
        ArgumentError, ShapeError: the tangents are not like the primals.
        KindError: a primal, a tangent or the output holds something else than float tensors.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x, t = Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([1.0, 0.0])
    >>> jvp(lambda x: (x * x).sum(), x, t)[1].item()
    2.0
    """
    checked_function("jvp", f)
    args, single = several("jvp", primals)
    found = pushed("jvp", f, args, (tangents,) if single else tangents, has_aux)
    out = (found.structure.unflatten(found.outputs), found.structure.unflatten(found.tangents))
    return (*out, found.aux) if has_aux else out


def pushed(api: str, f: Callable[..., Any], primals: tuple[Any, ...], tangents: Any, has_aux: bool) -> Pushed:
    """What a function computes of ``primals``, all of which move along ``tangents``, for the function ``api``."""
    picked = select_arguments(api, primals, tuple(range(len(primals))))
    directions = matching(api, "tangents", picked.structure, tangents, primals, "primals")
    return apply_jvp(api, f, picked, {}, directions, has_aux)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a function computed of some arguments, and the derivative of it, on the device beneath the level."""

    outputs: list[Tensor[Any]]
    tangents: list[Tensor[Any]]
    structure: Structure  #: of the output
    aux: Any


def apply_jvp(
    api: str,
    f: Callable[..., Any],
    picked: Chosen,
    kwargs: dict[str, Any],
    tangents: Sequence[Tensor[Any] | None],
    has_aux: bool,
) -> Pushed:
    """Run a function on a new level where each chosen argument's leaf moves along its tangent; None is constant."""
    moving = [t for t in tangents if t is not None]
    base = base_for(api, tensors_in((picked.args, kwargs, moving)))
    with Level(Forward, api, base) as level:
        duals = [
            level.lift(primitive_on(api, x, base))
            if t is None
            else level.dual(primitive_on(api, x, base), primitive_on(api, t, base))
            for x, t in zip(picked.leaves, tangents, strict=True)
        ]
        args = picked.replaced([new_tensor(Tensor, level, d) for d in duals])
        output, aux = outputs_of(api, f(*args, **kwargs), has_aux)
        outputs, structure = flat_output(api, output, (picked.args, kwargs))
        pushed = [primitive_on(api, out, level) for out in outputs]
        aux = map_tree(lambda leaf: lowered(leaf, level), aux)
    return Pushed(
        [new_tensor(Tensor, base, p.value) for p in pushed],
        [
            new_tensor(Tensor, base, base.full(p.shape, 0.0, p.dtype) if p.tangent is None else p.tangent)
            for p in pushed
        ],
        structure,
        aux,
    )
