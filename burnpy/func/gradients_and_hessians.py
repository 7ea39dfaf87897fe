"""Derivatives of scalar-valued functions: `grad` and `value_and_grad`; the Hessian, and its products with vectors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, TypeVarTuple, get_args, overload

from burnpy.backend.errors import ArgumentError
from burnpy.func.jacobian_products import apply_vjp, pushed, record, vjp
from burnpy.func.jacobians import jacobian_by
from burnpy.func.user_functions import (
    Argnums,
    Derivative,
    DerivativeByBoth,
    DerivativeBySecond,
    DerivativeOfTensors,
    DerivativeWithAux,
    Lambda,
    LambdaOfTwo,
    LambdaWithAux,
    Unknown,
    ValueAndDerivative,
    ValueAndDerivativeByBoth,
    ValueAndDerivativeBySecond,
    ValueAndDerivativeWithAux,
    checked_function,
    matching,
    select_arguments,
    several,
    single_output,
)
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import tensor_of
from burnpy.typevars import B

P = ParamSpec("P")
A = TypeVar("A")
MYPY = False  # True to mypy, by this name
X = TypeVar("X", bound=Any)  # so that checkers take the arguments of a lambda for Any
Y = TypeVar("Y", bound=Any)


if not MYPY:  # which would choose this for methods that return Self, too, as in grad(Tensor.square)

    @overload
    def grad(f: Lambda, argnums: Literal[0] = 0, *, has_aux: Literal[False] = False) -> Derivative[..., Unknown]: ...


@overload
def grad(f: LambdaOfTwo, argnums: Literal[1], *, has_aux: Literal[False] = False) -> DerivativeBySecond: ...
@overload
def grad(
    f: LambdaOfTwo, argnums: tuple[Literal[0], Literal[1]], *, has_aux: Literal[False] = False
) -> DerivativeByBoth: ...
@overload
def grad(f: LambdaWithAux[A], argnums: Literal[0] = 0, *, has_aux: Literal[True]) -> DerivativeWithAux[A]: ...
@overload
def grad(
    f: Callable[Concatenate[X, P], Tensor[B]], argnums: Literal[0] = 0, *, has_aux: Literal[False] = False
) -> Derivative[Concatenate[X, P], X]: ...
@overload
def grad(
    f: Callable[Concatenate[X, P], tuple[Tensor[B], A]], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> Callable[Concatenate[X, P], tuple[X, A]]: ...
@overload
def grad(
    f: Callable[Concatenate[X, Y, P], Tensor[B]], argnums: Literal[1], *, has_aux: Literal[False] = False
) -> Callable[Concatenate[X, Y, P], Y]: ...
@overload
def grad(
    f: Callable[Concatenate[X, Y, P], Tensor[B]],
    argnums: tuple[Literal[0], Literal[1]],
    *,
    has_aux: Literal[False] = False,
) -> Callable[Concatenate[X, Y, P], tuple[X, Y]]: ...
@overload
def grad(
    f: Callable[Concatenate[X, Y, P], tuple[Tensor[B], A]], argnums: Literal[1], *, has_aux: Literal[True]
) -> Callable[Concatenate[X, Y, P], tuple[Y, A]]: ...
@overload
def grad(
    f: Callable[Concatenate[X, Y, P], tuple[Tensor[B], A]],
    argnums: tuple[Literal[0], Literal[1]],
    *,
    has_aux: Literal[True],
) -> Callable[Concatenate[X, Y, P], tuple[tuple[X, Y], A]]: ...
@overload
def grad(f: Callable[P, Tensor[Any]]) -> Derivative[P, Any]: ...
@overload
def grad(  # pyright: ignore[reportOverlappingOverload]  # as above
    f: Lambda, argnums: Literal[0] = 0, *, has_aux: Literal[False] = False
) -> Derivative[..., Unknown]: ...
@overload
def grad(f: Callable[P, Tensor[Any] | tuple[Tensor[Any], Any]], argnums: Argnums, *, has_aux: bool = False) -> Any: ...
@overload
def grad(f: Callable[P, Tensor[Any] | tuple[Tensor[Any], Any]], argnums: Argnums = 0, *, has_aux: bool) -> Any: ...
@explained
def grad(f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of ``f``.

    Args:
        f: a function of tensors, or nested tuples, lists and dicts of them, that returns a tensor with one element.
        argnums: the position of the argument to differentiate with respect to, or a tuple of positions. Others, and
            keyword arguments, may be anything.
        has_aux: whether ``f`` returns a pair (output, aux), where aux, any tree of tensors, is not differentiated.

    Returns:
        A function of the same arguments that returns a tensor of the argument's shape and dtype, or a tree of its
        structure; a tuple of these for several ``argnums``; with ``has_aux``, a pair (gradient, aux). The tensors are
        on the device of the arguments, and plain if those are plain. The function can be differentiated again, to any
        depth, and ``f`` may close over tensors of enclosing functions.

    Raises:
        ShapeError: ``f`` returns several elements.
        KindError: ``f`` does not return a float tensor, or a leaf of a differentiated argument is not one.
        ArgumentError: a position in ``argnums`` is out of range or repeated.

    Type checkers infer the types of named functions, trees included. The arguments of a lambda are Any to them, and its
    gradient has the type of the argument in the call. With a lambda and ``argnums`` or ``has_aux``, mypy infers Any:
    write a ``def``, or assign the lambda to a variable of a ``Callable`` type.

    >>> x = Tensor[NumPy].from_data(3.0)
    >>> grad(lambda x: x * grad(lambda y: x * y)(x))(x).item()  # d/dx [x · d/dy (x · y)] = d/dx x²
    6.0
    >>> grad(lambda p: (p["w"] * x).sum())({"w": x})["w"].item()
    3.0
    """
    checked_function("grad", f, argnums)

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        _, aux, gradients = gradient_of("grad", f, args, kwargs, argnums, has_aux)
        return (gradients, aux) if has_aux else gradients

    return gradient


if not MYPY:  # which would choose this for methods that return Self, too, as in grad(Tensor.square)

    @overload
    def value_and_grad(
        f: Lambda, argnums: Literal[0] = 0, *, has_aux: Literal[False] = False
    ) -> ValueAndDerivative[..., Unknown]: ...


@overload
def value_and_grad(
    f: LambdaOfTwo, argnums: Literal[1], *, has_aux: Literal[False] = False
) -> ValueAndDerivativeBySecond: ...
@overload
def value_and_grad(
    f: LambdaOfTwo, argnums: tuple[Literal[0], Literal[1]], *, has_aux: Literal[False] = False
) -> ValueAndDerivativeByBoth: ...
@overload
def value_and_grad(
    f: LambdaWithAux[A], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> ValueAndDerivativeWithAux[A]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[X, P], Tensor[B]], argnums: Literal[0] = 0, *, has_aux: Literal[False] = False
) -> ValueAndDerivative[Concatenate[X, P], tuple[Tensor[B], X]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[X, P], tuple[Tensor[B], A]], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> Callable[Concatenate[X, P], tuple[tuple[Tensor[B], A], X]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[X, Y, P], Tensor[B]], argnums: Literal[1], *, has_aux: Literal[False] = False
) -> Callable[Concatenate[X, Y, P], tuple[Tensor[B], Y]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[X, Y, P], Tensor[B]],
    argnums: tuple[Literal[0], Literal[1]],
    *,
    has_aux: Literal[False] = False,
) -> Callable[Concatenate[X, Y, P], tuple[Tensor[B], tuple[X, Y]]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[X, Y, P], tuple[Tensor[B], A]], argnums: Literal[1], *, has_aux: Literal[True]
) -> Callable[Concatenate[X, Y, P], tuple[tuple[Tensor[B], A], Y]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[X, Y, P], tuple[Tensor[B], A]],
    argnums: tuple[Literal[0], Literal[1]],
    *,
    has_aux: Literal[True],
) -> Callable[Concatenate[X, Y, P], tuple[tuple[Tensor[B], A], tuple[X, Y]]]: ...
@overload
def value_and_grad(f: Callable[P, Tensor[Any]]) -> ValueAndDerivative[P, Any]: ...
@overload
def value_and_grad(  # pyright: ignore[reportOverlappingOverload]  # as above
    f: Lambda, argnums: Literal[0] = 0, *, has_aux: Literal[False] = False
) -> ValueAndDerivative[..., Unknown]: ...
@overload
def value_and_grad(
    f: Callable[P, Tensor[Any] | tuple[Tensor[Any], Any]], argnums: Argnums, *, has_aux: bool = False
) -> Any: ...
@overload
def value_and_grad(
    f: Callable[P, Tensor[Any] | tuple[Tensor[Any], Any]], argnums: Argnums = 0, *, has_aux: bool
) -> Any: ...
@explained
def value_and_grad(f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes both the value of ``f`` and its gradient.

    Arguments and errors are those of `grad`.

    Returns:
        A function that returns the pair (value, gradient); with ``has_aux``, ((value, aux), gradient). To type
        checkers the value of a lambda is a ``Tensor[Any]``.

    >>> value, gradient = value_and_grad(lambda x: x.square().sum())(Tensor[NumPy].from_data([1.0, 2.0]))
    >>> value.item(), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    checked_function("value_and_grad", f, argnums)

    @functools.wraps(f)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        value, aux, gradients = gradient_of("value_and_grad", f, args, kwargs, argnums, has_aux)
        return ((value, aux) if has_aux else value), gradients

    return value_and_gradient


def gradient_of(
    api: str, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Argnums, has_aux: bool
) -> tuple[Tensor[Any], Any, Any]:
    """Return value, aux and gradients of ``f``; ``api`` is the function named in messages."""
    chosen = select_arguments(api, args, argnums)
    recording = record(api, f, chosen, kwargs, has_aux, single_output)
    base, value = recording.base, recording.outputs[0]
    seed = tensor_of(base, base.full(value.shape, 1.0, value.dtype))
    gradients = apply_vjp(api, base, recording.roots, recording.leaves, recording.inputs, [seed], retain_graph=False)
    return value, recording.aux, chosen.structure.unflatten(gradients)


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
