"""Second derivatives: the Hessian, and its products with vectors from the right and from the left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVarTuple, get_args, overload

from burnpy.backend.errors import ArgumentError
from burnpy.func.gradients import gradient_of
from burnpy.func.jacobian_products import pushed, vjp
from burnpy.func.jacobians import jacobian_by
from burnpy.func.user_functions import (
    Argnums,
    DerivativeOfTensors,
    Lambda,
    checked_function,
    matching,
    select_arguments,
    several,
)
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

P = ParamSpec("P")
Ts = TypeVarTuple("Ts")
HessianMode: TypeAlias = Literal[
    "forward-over-reverse", "reverse-over-reverse", "forward-over-forward", "reverse-over-forward"
]


@overload
def hessian(
    f: Lambda, argnums: Literal[0] = 0, *, mode: HessianMode = "forward-over-reverse"
) -> DerivativeOfTensors: ...
@overload
def hessian(
    f: Callable[Concatenate[Tensor[B], P], Tensor[B]],
    argnums: Literal[0] = 0,
    *,
    mode: HessianMode = "forward-over-reverse",
) -> Callable[Concatenate[Tensor[B], P], Tensor[B]]: ...
@overload
def hessian(f: Callable[P, Any], argnums: Argnums = 0, *, mode: HessianMode = "forward-over-reverse") -> Any: ...
@explained
def hessian(
    f: Callable[..., Any], argnums: Argnums = 0, *, mode: HessianMode = "forward-over-reverse"
) -> Callable[..., Any]:
    """Return a function that computes the Hessian of ``f``: the Jacobian of its Jacobian.

    Args:
        f: a function of tensors, or trees of tensors, that returns a tensor, usually with one element, or a tree.
        argnums: the position of the argument to differentiate with respect to, or a tuple of positions.
        mode: the modes of the outer and the inner derivative. "forward-over-reverse", which is ``jacfwd(jacrev(f))``,
            is best for one output and many inputs; "reverse-over-reverse" takes more memory, and supports functions
            that contain an operation without a forward rule; "forward-over-forward" and "reverse-over-forward" are for
            many outputs and few inputs.

    Returns:
        A function of the same arguments. If input and output are tensors it returns a tensor of shape output.shape +
        input.shape + input.shape; if they are trees, nested trees like those of `jacobian` applied twice.

    Raises:
        ArgumentError: the mode is unknown, or as for `jacobian`.
        KindError: as for `jacobian`.

    >>> x = Tensor[NumPy].from_data([3.0, 5.0])
    >>> hessian(lambda x: x[0] ** 2 * x[1])(x).tolist()
    [[10.0, 6.0], [6.0, 0.0]]
    >>> hessian(lambda x: x[0] ** 2 * x[1], mode="reverse-over-reverse")(x).tolist()
    [[10.0, 6.0], [6.0, 0.0]]
    """
    checked_function("hessian", f, argnums)
    if mode not in get_args(HessianMode):
        names = ", ".join(f'"{name}"' for name in get_args(HessianMode))
        raise ArgumentError(f"hessian() got mode={mode!r:.80}; expected one of {names}")
    outer, inner = mode.split("-over-")
    second: Callable[..., Any] = jacobian_by("hessian", jacobian_by("hessian", f, argnums, inner), argnums, outer)
    return second


@overload
def hvp(
    f: Callable[[Tensor[B]], Tensor[B]], primals: Tensor[B], tangents: Tensor[B]
) -> tuple[Tensor[B], Tensor[B]]: ...
@overload
def hvp(f: Callable[[*Ts], Tensor[B]], primals: tuple[*Ts], tangents: tuple[*Ts]) -> tuple[Tensor[B], tuple[*Ts]]: ...
@explained
def hvp(f: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Compute the value of ``f`` and its Hessian-vector product with ``tangents``, in forward-over-reverse mode.

    The cost is a small multiple of the cost of ``f``, whatever the size of the Hessian, which is never formed.

    Args:
        f: a function of tensors, or trees of tensors, that returns a tensor with one element.
        primals: the tuple of arguments, or the argument itself if it is a single tensor.
        tangents: the vector, with the structure, shapes and dtypes of the primals.

    Returns:
        (value, product), where the product has the structure of the primals.

    Raises:
        ShapeError: ``f`` returns several elements, or a tangent differs from its primal in shape or dtype.
        ArgumentError, KindError: the structures of tangents and primals differ, or a leaf is not a float tensor.

    >>> x, v = Tensor[NumPy].from_data([3.0, 5.0]), Tensor[NumPy].from_data([1.0, 0.0])
    >>> hvp(lambda x: x[0] ** 2 * x[1], x, v)[1].tolist()
    [10.0, 6.0]
    """
    args, single = _checked("hvp", f, primals, tangents)

    def both(*args: Any) -> Any:
        value, _, gradient = gradient_of("hvp", f, args, {}, tuple(range(len(args))), False)
        return value, gradient

    result = pushed("hvp", both, args, (tangents,) if single else tangents, False)
    value, _ = result.structure.unflatten(result.outputs)
    _, product = result.structure.unflatten(result.tangents)
    return value, product[0] if single else product


@overload
def vhp(f: Callable[[Tensor[B]], Tensor[B]], primals: Tensor[B], vector: Tensor[B]) -> tuple[Tensor[B], Tensor[B]]: ...
@overload
def vhp(f: Callable[[*Ts], Tensor[B]], primals: tuple[*Ts], vector: tuple[*Ts]) -> tuple[Tensor[B], tuple[*Ts]]: ...
@explained
def vhp(f: Callable[..., Any], primals: Any, vector: Any) -> tuple[Any, Any]:
    """Compute the value of ``f`` and the vector-Hessian product with ``vector``, in reverse-over-reverse mode.

    The result equals `hvp`'s, since the Hessian is symmetric, but takes more memory; use it for functions that contain
    an operation without a forward rule. For arguments, result and errors, see `hvp`.

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
    """Check primals and tangents; return the arguments as a tuple, and whether a single tensor was passed instead."""
    checked_function(api, f)
    args, single = several(api, primals)
    chosen = select_arguments(api, args, tuple(range(len(args))))
    matching(
        api,
        "tangents" if api == "hvp" else "a vector",
        chosen.structure,
        (tangents,) if single else tangents,
        args,
        "primals",
    )
    return args, single
