"""Functions to differentiate: their arguments and outputs, and the levels that they run on, one for each derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, NoReturn, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from burnpy.autodiff.recording import new_level
from burnpy.autodiff.tools.user_code import probable_cause
from burnpy.backend.backend import Backend
from burnpy.backend.devices import Itself, Subscriptable
from burnpy.backend.errors import ArgumentError, EscapedError, KindError, ShapeError
from burnpy.backend.primitives import INEXACT, Value
from burnpy.backend.schema import declarations
from burnpy.func.pytree import LEAF, MismatchError, Structure, describe_tree, flatten, holds_none
from burnpy.tensor.generator import recorders
from burnpy.tensor.levels import UseCount, common_device, levels_between, open_levels, raised, refuse_mixed
from burnpy.tensor.tensor import DIFFERENTIABLE, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe, new_tensor
from burnpy.typevars import B, T, U


class Level:
    """A context manager that creates an `Autodiff` or `Forward` device on ``base``, and closes it on exit."""

    __slots__ = ("_before", "device")

    def __init__(self, kind: Any, api: str, base: Any) -> None:
        self.device: Any = new_level(kind, base, api)
        self.device.uses = UseCount(kind, ClosedLevel)

    def __enter__(self) -> Any:
        self._before = open_levels.get()
        open_levels.set((*self._before, self.device))
        self.device.uses.open(self.device)
        return self.device

    def __exit__(self, *exception: object) -> None:
        open_levels.set(self._before)
        self.device.uses.close(self.device)


class ClosedLevel(
    Subscriptable, Backend
):  # same bases as `Autodiff` and `Forward`, so that `__class__` can be assigned
    """The class of a level once the function that ran on it has returned.

    Tensors that escaped from the function can be displayed, but not computed with: the results could not be
    differentiated.
    """

    differentiates = True
    eager_checks = False  # as on the level: the values of a batch are not compared
    discrete: Any = Itself()  # of a level of `vmap`; a level that differentiates stores its own
    inner: Any
    api: str

    @property
    def name(self) -> str:
        """The name in messages, which contains the derivative's name."""
        return f"the closed level of {self.api}()"

    def refuse(self, operation: str) -> NoReturn:
        """Raise the error for an operation on an escaped tensor."""
        beside = "" if self.api == "vmap" else " or beside it (has_aux=True)"
        raise EscapedError(
            f"{operation}() got a tensor from inside of a function that {self.api}() called and that "
            f"has returned; return it from the function, as part of its result{beside}"
        )

    def __reduce__(self) -> NoReturn:
        self.refuse("pickle.dumps")

    def lift(self, value: Value) -> NoReturn:
        """Raise an error: nothing can be lifted to a closed level."""
        self.refuse("lift")

    def lower(self, x: Any) -> Value:
        """Return the primitive of the device beneath."""
        return x.value

    def to_numpy(self, x: Any) -> Any:
        """Return the values, so that the tensor can be displayed."""
        return self.inner.to_numpy(x.value)


def _refusal(operation: str) -> Any:
    def refuse(self: ClosedLevel, *args: Any, **kwargs: Any) -> NoReturn:
        self.refuse(operation)

    refuse.__name__ = operation
    return refuse


for _name in declarations(Backend):
    if _name != "to_numpy":
        setattr(ClosedLevel, _name, _refusal(_name))


def base_for(api: str, tensors: Iterable[TensorBase[Any]]) -> Any:
    """Return the device on which to differentiate functions of ``tensors``. It is the innermost open level above all of
    them, or else the highest of their devices. While a loop's body or a branch is recorded, it is the device of the
    body that stands for that one. ``api`` is the function that is called, for messages."""
    floats: list[Any] = []
    discrete: list[Any] = []
    for x in tensors:
        (floats if x.kind in INEXACT else discrete).append(x._device)
    if not floats and not discrete:
        raise KindError(f"{api}() got no tensor to work with; pass at least one as an argument of the function")
    top = common_device(api, floats, discrete)
    base = next((level for level in reversed(open_levels.get()) if levels_between(level, top) is not None), top)
    for recorder in recorders.get():
        base = recorder.inside.get(base, base)
    return base


def lowered(value: Any, level: Any) -> Any:
    """Lower a tensor from a level to the device beneath; return anything else unchanged."""
    if not isinstance(value, TensorBase) or value._device is not level:
        return value
    inner = level.inner
    if value.kind in INEXACT or level.lifts_discrete:
        return new_tensor(type(value), inner, level.lower(value._primitive))
    return new_tensor(type(value), inner, value._primitive)


def primitive_on(api: str, x: TensorBase[Any], device: Any) -> Value:
    """Return a float tensor's primitive, lifted to a device above its own."""
    if x._device is not device and common_device(api, (device, x._device)) is not device:
        refuse_mixed(api, device, x._device)
    return raised(x, device)._primitive


Argnums: TypeAlias = "int | tuple[int, ...]"
"""The position of the argument to differentiate with respect to, or a tuple of positions."""


@dataclass(frozen=True, slots=True)
class ChosenArguments:
    """The arguments of a call that are differentiated, as one tree: a single argument, or a tuple of several."""

    args: tuple[Any, ...]
    positions: tuple[int, ...]
    single: bool
    leaves: list[Tensor[Any]]
    structure: Structure

    def replaced(self, leaves: Sequence[Any]) -> list[Any]:
        """Return all arguments, with the leaves of the differentiated ones replaced."""
        tree = self.structure.unflatten(leaves)
        args = list(self.args)
        for position, argument in zip(self.positions, [tree] if self.single else tree, strict=True):
            args[position] = argument
        return args


def checked_function(api: str, f: Any, argnums: Any = 0) -> None:
    """Check that ``f`` is callable, and that ``argnums`` are not the arguments that it is to be called with."""
    numbers = argnums if isinstance(argnums, (tuple, list)) else [argnums]
    if any(isinstance(each, TensorBase) or hasattr(each, "named_params") for each in numbers):
        raise KindError(
            f"{api}() got {describe_tree(argnums)} as argnums, which are positions of arguments; it returns a "
            f"function, which takes the arguments themselves: {api}(f)(x)"
        )
    if not callable(f):
        other = "; of tensors, burnpy.autodiff.grad(outputs, inputs) takes them" if isinstance(f, TensorBase) else ""
        shown = describe(f) if isinstance(f, TensorBase) else describe_tree(f)
        purpose = "of one example" if api == "vmap" else "to differentiate"
        raise KindError(f"{api}() takes a function {purpose}, got {shown}{other if api != 'vmap' else ''}")


def select_arguments(api: str, args: tuple[Any, ...], argnums: Argnums) -> ChosenArguments:
    """Return the arguments at the positions ``argnums``, after checking that their leaves are float tensors."""
    single = not isinstance(argnums, (tuple, list))
    numbers: Any = (argnums,) if single else argnums
    positions = []
    for number in numbers:
        try:
            position = index(number)
        except TypeError:
            raise ArgumentError(f"{api}() got argnums={argnums!r:.80}; expected an int or a tuple of ints") from None
        if not -len(args) <= position < len(args):
            raise ArgumentError(
                f"{api}() cannot differentiate argument {position} (argnums={argnums!r}) of a function that "
                f"was called with {len(args)} by position; they count from 0, without those given by keyword"
            )
        positions.append(position % len(args))
    if not positions and not args:
        raise ArgumentError(f"{api}() got no argument to differentiate; give the function at least one tensor")
    if not positions or len(set(positions)) < len(positions):
        raise ArgumentError(f"{api}() got argnums={argnums!r:.80}; name each argument once, and at least one")
    tree = args[positions[0]] if single else tuple([args[p] for p in positions])
    leaves, structure = flatten(tree)
    for leaf in leaves:
        _need_float(api, leaf)
    return ChosenArguments(args, tuple(positions), single, leaves, structure)


def _need_float(api: str, leaf: Any) -> None:
    if isinstance(leaf, DIFFERENTIABLE):
        return
    by_number = api in ("grad", "value_and_grad", "jacobian", "jacrev", "jacfwd", "hessian")
    where = " of argnums" if by_number else " and let the function close over it"
    if isinstance(leaf, TensorBase):
        raise KindError(
            f"{api}() cannot differentiate an argument that holds {type(leaf).__name__}{leaf.shape} of dtype "
            f"{leaf.dtype}; only float tensors have derivatives: convert it with .float(), or leave it out{where}"
        )
    raise KindError(
        f"{api}() cannot differentiate an argument that holds {leaf!r}; only float tensors have derivatives: "
        f"make one with Tensor.from_data(...), or leave it out{where}"
    )


def outputs_of(api: str, returned: Any, has_aux: bool) -> tuple[Any, Any]:
    """Split the return value of a function into the output and, with ``has_aux``, the auxiliary data, else None."""
    if not has_aux:
        return returned, None
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise ArgumentError(
            f"{api}(..., has_aux=True) takes a function that returns a pair (output, aux), and it returned "
            f"{describe_tree(returned)}{probable_cause(returned)}"
        )
    return returned


def flat_output(api: str, output: Any, given: Any) -> tuple[list[Tensor[Any]], Structure]:
    """Flatten a function's output, which must be a tree of float tensors, at least one. A None in the output, as a
    function without a return statement returns, is refused unless the tree of arguments ``given`` contains None too:
    the gradient with respect to parameters that are None in places has None there."""
    leaves, structure = flatten(output)
    missing = not leaves or (holds_none(structure) and not holds_none(flatten(given)[1]))
    if missing or not all(isinstance(leaf, DIFFERENTIABLE) for leaf in leaves):
        _refuse_output(api, "float tensors", output)
    return leaves, structure


def single_output(api: str, output: Any, given: Any) -> tuple[list[Any], Structure]:
    """Flatten a function's output, which must be a float tensor with one element, as a gradient requires."""
    if not isinstance(output, DIFFERENTIABLE):
        _refuse_output(api, "a float tensor of one element", output)
    if output.kind == "complex":
        raise KindError(
            f"{api}() takes a function that returns a real loss, and it returned a ComplexTensor; return its .real or "
            ".abs(), or use vjp() or jacobian()"
        )
    if output.numel() != 1:
        raise ShapeError(
            f"{api}() takes a function that returns one element, and it returned a tensor of shape {output.shape}; "
            "reduce it, as with .sum(), or use vjp() or jacobian()"
        )
    return [output], LEAF


_WITH_AUX = ("grad", "value_and_grad", "vjp", "jvp", "jacobian", "jacrev", "jacfwd")


def _refuse_output(api: str, expected: str, output: Any) -> NoReturn:
    """Raise an error that describes what a function returned, and the probable cause."""
    leaves, structure = flatten(output)
    wrong = [leaf for leaf in leaves if not isinstance(leaf, DIFFERENTIABLE)]
    if wrong or holds_none(structure):
        cause = probable_cause(wrong[0] if wrong else None)
    else:
        cause = "" if leaves else ", which holds no tensor"
    has_more = structure.children and api in _WITH_AUX
    hint = "; to return more beside the output, return a pair and say has_aux=True" if has_more else ""
    raise KindError(
        f"{api}() takes a function that returns {expected}, and it returned {describe_tree(output)}{cause}{hint}"
    )


def matching(api: str, what: str, structure: Structure, tree: Any, like: Any, of: str) -> list[Tensor[Any]]:
    """Return the leaves of ``tree``, which must be float tensors in the structure, shapes and dtypes of ``like``.

    Args:
        api: the function that is called, for messages.
        what: the name of the tree in messages, such as "tangents".
        structure: the structure of ``like``.
        tree: the tree to check.
        like: the tree with the expected structure, shapes and dtypes.
        of: the name of ``like`` in messages.
    """
    try:
        leaves = structure.leaves_of(tree)
    except MismatchError:
        raise ArgumentError(
            f"{api}() got {what} of structure {describe_tree(tree)} for {of} of structure {describe_tree(like)}; "
            "they must be nested in the same way"
        ) from None
    for k, (leaf, original) in enumerate(zip(leaves, structure.leaves_of(like), strict=True)):
        if not isinstance(leaf, DIFFERENTIABLE):
            raise KindError(f"{api}() got {what} {describe_tree(tree)}; leaf {k} is not a float tensor")
        if (leaf.shape, leaf.dtype) != (original.shape, original.dtype):
            raise ShapeError(
                f"{api}() got {what} whose leaf {k} has shape {leaf.shape} and dtype {leaf.dtype}, expected "
                f"shape {original.shape} and dtype {original.dtype}, as in {of}"
            )
    return leaves


def several(api: str, primals: Any, what: str = "primals") -> tuple[tuple[Any, ...], bool]:
    """Return the arguments as a tuple, and whether a single tensor was passed in place of the tuple."""
    if isinstance(primals, TensorBase):
        return (primals,), True
    if not isinstance(primals, tuple):
        raise ArgumentError(
            f"{api}() takes {what} as the tuple of the function's arguments, or as its only one where that is a "
            f"tensor, got {describe_tree(primals)}; write ({what},)"
        )
    return primals, False


# ruff: noqa: D102  # the docstring of the class documents ``__call__``


P = ParamSpec("P")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)


class Unknown:
    """The type of the result of a lambda, as nothing says what its arguments are.

    Only Any can be passed for it, so a function whose result has a type is no `Lambda`. There are no instances.
    """


Lambda: TypeAlias = "Callable[[Any], Unknown] | Callable[[Any, Any], Unknown] | Callable[[Any, Any, Any], Unknown]"
LambdaOfTwo: TypeAlias = Callable[[Any, Any], Unknown]
LambdaWithAux: TypeAlias = "Callable[[Any], tuple[Unknown, A]] | Callable[[Any, Any], tuple[Unknown, A]]"


class Derivative(Protocol[P, R_co]):
    """The derivative of a function with respect to its first argument, with that argument's type."""

    __name__: str
    __wrapped__: Callable[..., Any]
    """The function, which tells a derivative from other functions."""

    @overload
    def __call__(self: Derivative[..., Unknown], x: T, /, *args: Any, **kwargs: Any) -> T: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class ValueAndDerivative(Protocol[P, R_co]):
    """The value of a function, of any backend for a lambda, and its derivative with respect to its first argument."""

    @overload
    def __call__(
        self: ValueAndDerivative[..., Unknown], x: T, /, *args: Any, **kwargs: Any
    ) -> tuple[Tensor[Any], T]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class DerivativeWithAux(Protocol[A_co]):
    """The derivative of a lambda with respect to its first argument, and its auxiliary data."""

    def __call__(self, x: T, /, *args: Any, **kwargs: Any) -> tuple[T, A_co]: ...


class DerivativeBySecond(Protocol):
    """The derivative of a lambda with respect to its second argument."""

    def __call__(self, x: Any, y: T, /, *args: Any, **kwargs: Any) -> T: ...


class DerivativeByBoth(Protocol):
    """The derivative of a lambda with respect to its first two arguments."""

    def __call__(self, x: T, y: U, /, *args: Any, **kwargs: Any) -> tuple[T, U]: ...


class ValueAndDerivativeWithAux(Protocol[A_co]):
    """The value of a lambda, its auxiliary data, and its derivative with respect to its first argument."""

    def __call__(self, x: T, /, *args: Any, **kwargs: Any) -> tuple[tuple[Tensor[Any], A_co], T]: ...


class ValueAndDerivativeBySecond(Protocol):
    """The value of a lambda and its derivative with respect to its second argument."""

    def __call__(self, x: Any, y: T, /, *args: Any, **kwargs: Any) -> tuple[Tensor[Any], T]: ...


class ValueAndDerivativeByBoth(Protocol):
    """The value of a lambda and its derivative with respect to its first two arguments."""

    def __call__(self, x: T, y: U, /, *args: Any, **kwargs: Any) -> tuple[Tensor[Any], tuple[T, U]]: ...


class DerivativeOfTensors(Protocol):
    """The Jacobian or Hessian of a lambda: a tensor for a tensor, else a tree whose type follows from both trees."""

    @overload
    def __call__(self, x: Tensor[B], /, *args: Any, **kwargs: Any) -> Tensor[B]: ...
    @overload
    def __call__(self, x: Any, /, *args: Any, **kwargs: Any) -> Any: ...


class DerivativeOfTensorsWithAux(Protocol[A_co]):
    """The Jacobian of a lambda, and its auxiliary data."""

    @overload
    def __call__(self, x: Tensor[B], /, *args: Any, **kwargs: Any) -> tuple[Tensor[B], A_co]: ...
    @overload
    def __call__(self, x: Any, /, *args: Any, **kwargs: Any) -> tuple[Any, A_co]: ...


class OfOne(Protocol):
    """A function of one tensor."""

    def __call__(self, x: Tensor[B], /) -> Tensor[B]: ...


class OfTwo(Protocol):
    """A function of two tensors."""

    def __call__(self, x: Tensor[B], y: Tensor[B], /) -> Tensor[B]: ...


class OfOneAndMore(Protocol):
    """A function of a tensor, and of anything."""

    def __call__(self, x: Tensor[B], /, *args: Any, **kwargs: Any) -> Tensor[B]: ...


class OfTwoAndMore(Protocol):
    """A function of two tensors, and of anything."""

    def __call__(self, x: Tensor[B], y: Tensor[B], /, *args: Any, **kwargs: Any) -> Tensor[B]: ...
