"""Second derivatives: the Hessian, and its product with a vector, from either side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, TypeVarTuple, get_args, overload

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError
from burnpy.func.arguments import Argnums, checked_function, matching, select_arguments, several
from burnpy.func.gradients import gradient_of
from burnpy.func.jacobians import jacobian_by
from burnpy.func.jvps import pushed
from burnpy.func.signatures import Derivative, OfOne
from burnpy.func.vjps import vjp
from burnpy.tensor.tensor import Tensor

P = ParamSpec("P")
Ts = TypeVarTuple("Ts")
B = TypeVar("B", bound=Backend)
HessianMode: TypeAlias = Literal[
    "forward-over-reverse", "reverse-over-reverse", "forward-over-forward", "reverse-over-forward"
]


@overload
def hessian(f: OfOne, argnums: Literal[0] = 0, *, mode: HessianMode = "forward-over-reverse") -> Derivative: ...
@overload
def hessian(
    f: Callable[Concatenate[Tensor[B], P], Tensor[B]],
    argnums: Literal[0] = 0,
    *,
    mode: HessianMode = "forward-over-reverse",
) -> Callable[Concatenate[Tensor[B], P], Tensor[B]]: ...
@overload
def hessian(f: Callable[P, Any], argnums: Argnums = 0, *, mode: HessianMode = "forward-over-reverse") -> Any: ...
def hessian(
    f: Callable[..., Any], argnums: Argnums = 0, *, mode: HessianMode = "forward-over-reverse"
) -> Callable[..., Any]:
    """The function that computes the Hessian of ``f``: the Jacobian of its Jacobian.

    Args:
        f: from tensors, or trees of some, to a tensor, usually of one element, or a tree of some.
        argnums: the position of the argument to differentiate by, or a tuple of positions.
        mode: how the outer derivative is taken, over how the inner one is. "forward-over-reverse", which is
            ``jacfwd(jacrev(f))``, is best for one output of many inputs; "reverse-over-reverse" takes more memory, and
            serves functions of which a step has no forward rule; "forward-over-forward" and "reverse-over-forward" are
            for many outputs of few inputs.

    Returns:
        A function of the same arguments. For a tensor of a tensor it gives a tensor of shape output.shape + input.shape
        + input.shape; for trees, trees in trees as `jacobian` does, twice.

    Raises:
        ArgumentError: there is no such mode; otherwise as of `jacobian`.
        KindError: as of `jacobian`.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].from_data([3.0, 5.0])
    >>> hessian(lambda x: x[0] ** 2 * x[1])(x).tolist()
    [[10.0, 6.0], [6.0, 0.0]]
    >>> hessian(lambda x: x[0] ** 2 * x[1], mode="reverse-over-reverse")(x).tolist()
    [[10.0, 6.0], [6.0, 0.0]]
    """
    checked_function("hessian", f)
    if mode not in get_args(HessianMode):
        names = ", ".join(f'"{name}"' for name in get_args(HessianMode))
        raise ArgumentError(f"hessian() was given mode={mode!r}; it is one of {names}")
    outer, inner = mode.split("-over-")
    second: Callable[..., Any] = jacobian_by("hessian", jacobian_by("hessian", f, argnums, inner), argnums, outer)
    return second


@overload
def hvp(
    f: Callable[[Tensor[B]], Tensor[B]], primals: Tensor[B], tangents: Tensor[B]
) -> tuple[Tensor[B], Tensor[B]]: ...
@overload
def hvp(f: Callable[[*Ts], Tensor[B]], primals: tuple[*Ts], tangents: tuple[*Ts]) -> tuple[Tensor[B], tuple[*Ts]]: ...
def hvp(f: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The value of ``f`` and the product of its Hessian with ``tangents``, by forward over reverse mode.

    It costs a few times what ``f`` does, whatever the size of the Hessian, which is never made.

    Args:
        f: from tensors, or trees of some, to a tensor of one element.
        primals: the tuple of the arguments, or the only one where that is a tensor.
        tangents: like the primals, with the same shapes and dtypes.

    Returns:
        (value, product), the product like the primals.

    Raises:
        ShapeError: ``f`` returns several elements, or a tangent is not of its primal's shape and dtype.
        ArgumentError, KindError: the tangents are not like the primals, or these not of float tensors.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x, v = Tensor[NumPy].from_data([3.0, 5.0]), Tensor[NumPy].from_data([1.0, 0.0])
    >>> hvp(lambda x: x[0] ** 2 * x[1], x, v)[1].tolist()
    [10.0, 6.0]
    """
    args, single = _checked("hvp", f, primals, tangents)

    def both(*args: Any) -> Any:
        value, _, gradient = gradient_of("hvp", f, args, {}, tuple(range(len(args))), False)
        return value, gradient

    found = pushed("hvp", both, args, (tangents,) if single else tangents, False)
    value, _ = found.structure.unflatten(found.outputs)
    _, product = found.structure.unflatten(found.tangents)
    return value, product[0] if single else product


@overload
def vhp(f: Callable[[Tensor[B]], Tensor[B]], primals: Tensor[B], vector: Tensor[B]) -> tuple[Tensor[B], Tensor[B]]: ...
@overload
def vhp(f: Callable[[*Ts], Tensor[B]], primals: tuple[*Ts], vector: tuple[*Ts]) -> tuple[Tensor[B], tuple[*Ts]]: ...
def vhp(f: Callable[..., Any], primals: Any, vector: Any) -> tuple[Any, Any]:
    """The value of ``f`` and the product of ``vector`` with its Hessian, by reverse over reverse mode.

    It is what `hvp` gives, the Hessian being symmetric, at more memory; for functions of which a step has no forward
    rule.

    Arguments, result and errors are those of `hvp`.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x, v = Tensor[NumPy].from_data([3.0, 5.0]), Tensor[NumPy].from_data([1.0, 0.0])
    >>> vhp(lambda x: x[0] ** 2 * x[1], x, v)[1].tolist()
    [10.0, 6.0]
    """
    args, single = _checked("vhp", f, primals, vector)

    def gradient_and_value(*args: Any) -> Any:
        value, _, gradient = gradient_of("vhp", f, args, {}, tuple(range(len(args))), False)
        return gradient, value

    _, pullback, value = vjp(gradient_and_value, *args, has_aux=True)
    product = pullback((vector,) if single else vector)
    return value, product[0] if single else product


def _checked(api: str, f: Any, primals: Any, tangents: Any) -> tuple[tuple[Any, ...], bool]:
    """The arguments, and whether there was one tensor in their place."""
    checked_function(api, f)
    args, single = several(api, primals)
    picked = select_arguments(api, args, tuple(range(len(args))))
    matching(
        api,
        "tangents" if api == "hvp" else "a vector",
        picked.structure,
        (tangents,) if single else tangents,
        args,
        "primals",
    )
    return args, single
