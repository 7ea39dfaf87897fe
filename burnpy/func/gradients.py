"""`grad` and `value_and_grad`: the gradient of a scalar-valued function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from burnpy.func.jacobian_products import apply_vjp, record
from burnpy.func.user_functions import (
    Argnums,
    Derivative,
    DerivativeByBoth,
    DerivativeBySecond,
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
    select_arguments,
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
