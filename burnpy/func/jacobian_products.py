"""Products with Jacobians: `vjp` and `linearize` record a function on a new level, `jvp` runs it with tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, TypeVarTuple, overload

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.forward import Forward
from burnpy.autodiff.graph import Leaf, Tracked, conjugate, conjugated
from burnpy.autodiff.tools.backward import walked
from burnpy.backend.primitives import Float
from burnpy.func.pytree import Structure, map_tree, tensors_in
from burnpy.func.user_functions import (
    ChosenArguments,
    Level,
    base_for,
    checked_function,
    flat_output,
    lowered,
    matching,
    outputs_of,
    primitive_on,
    select_arguments,
    several,
)
from burnpy.tensor.call_errors import explained
from burnpy.tensor.levels import common_device
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import tensor_of
from burnpy.typevars import B, R

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
@explained
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

    >>> x = Tensor[NumPy].from_data([1.0, 2.0])
    >>> out, pullback = vjp(lambda x: x * x, x)
    >>> pullback(Tensor[NumPy].from_data([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    checked_function("vjp", f)
    chosen = select_arguments("vjp", primals, tuple(range(len(primals))))
    recording = record("vjp", f, chosen, {}, has_aux)

    def pullback(cotangent: Any) -> Any:
        name = "the pullback of vjp"
        cotangents = matching(name, "a cotangent", recording.structure, cotangent, recording.output, "the output")
        gradients = apply_vjp(
            name, recording.base, recording.roots, recording.leaves, recording.inputs, cotangents, retain_graph=True
        )
        return chosen.structure.unflatten(gradients)

    return (recording.output, pullback, recording.aux) if has_aux else (recording.output, pullback)


@explained
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

    >>> out, derivative = linearize(lambda x: x.square(), Tensor[NumPy].from_data([1.0, 2.0]))
    >>> derivative(Tensor[NumPy].from_data([1.0, 0.0])).tolist()
    [2.0, 0.0]
    """
    checked_function("linearize", f)
    chosen = select_arguments("linearize", primals, tuple(range(len(primals))))
    recording = record("linearize", f, chosen, {}, False)
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
        directions = matching(name, "tangents", chosen.structure, tangents, primals, "primals")
        pushed = apply_vjp(name, base, roots, leaves, recording.outputs, directions, retain_graph=True, users=False)
        out: R = recording.structure.unflatten(pushed)
        return out

    return recording.output, derivative


@dataclass(frozen=True, slots=True)
class RecordedFunction:
    """The outputs of a function, and its recorded graph."""

    base: Any  #: the device beneath the level, on which inputs and outputs are
    leaves: list[Leaf]  #: the graph's nodes of the differentiated inputs
    inputs: list[Tensor[Any]]  #: the values of the differentiated inputs
    roots: list[Tracked]  #: the outputs on the level
    outputs: list[Tensor[Any]]
    structure: Structure  #: the structure of the output
    aux: Any

    @property
    def output(self) -> Any:
        """The function's output as a tree, on the device beneath the level."""
        return self.structure.unflatten(self.outputs)


def record(
    api: str,
    f: Callable[..., Any],
    chosen: ChosenArguments,
    kwargs: dict[str, Any],
    has_aux: bool,
    output_of: Callable[[str, Any, Any], tuple[list[Tensor[Any]], Structure]] = flat_output,
) -> RecordedFunction:
    """Run a function on a new level, with the differentiated arguments as leaves.

    Args:
        api: the function that is called, for messages.
        f: the function.
        chosen: its positional arguments, and which of them are differentiated.
        kwargs: its keyword arguments.
        has_aux: whether it returns a pair (output, aux), where aux is not differentiated.
        output_of: checks and flattens the output; called with ``api``, the output and the arguments.
    """
    base = base_for(api, tensors_in((chosen.args, kwargs)))
    inputs = [on_base(api, x, base) for x in chosen.leaves]
    with Level(Autodiff, api, base) as level:
        tracked = [leaf_of(level, x._primitive) for x in inputs]
        args = chosen.replaced([tensor_of(level, t) for t in tracked])
        output, aux = outputs_of(api, f(*args, **kwargs), has_aux)
        outputs, structure = output_of(api, output, (chosen.args, kwargs))
        roots = [primitive_on(api, out, level) for out in outputs]
        aux = map_tree(lambda leaf: lowered(leaf, level), aux)
        values = [tensor_of(base, level.lower(root)) for root in roots]
    return RecordedFunction(base, [t.node for t in tracked], inputs, roots, values, structure, aux)  # type: ignore[misc]  # leaves


def on_base(api: str, x: Tensor[Any], base: Any) -> Tensor[Any]:
    """Lift a tensor to the device ``base``."""
    return x if x._device is base else tensor_of(base, primitive_on(api, x, base))


def leaf_of(level: Any, primitive: Float) -> Tracked:
    """Create a leaf for an inner primitive. Unlike ``require_grad`` this does not track the levels beneath."""
    tracked: Tracked = level.lift(primitive)
    tracked.node = Leaf(tracked.value)
    return tracked


def apply_vjp(
    api: str,
    base: Any,
    roots: Sequence[Tracked],
    leaves: Sequence[Leaf],
    inputs: Sequence[Tensor[Any]],
    cotangents: Sequence[Tensor[Any]],
    *,
    retain_graph: bool,
    users: bool = True,
) -> list[Tensor[Any]]:
    """Compute the gradients of the leaves from cotangents of the roots; zeros for a leaf that is not reached.

    Both are a user's if complex, see `burnpy.autodiff.graph`, unless ``users`` is False.

    The cotangents may be on a level above ``base``, when they are differentiated themselves: the backward pass then
    runs on that level, and the saved tensors are lifted to it.
    """
    device = common_device(api, [base, *[c._device for c in cotangents]])
    seeds: Any = [
        (root.node, conjugate(device, primitive_on(api, c, device)) if users else primitive_on(api, c, device))
        for root, c in zip(roots, cotangents, strict=True)
        if root.node is not None
    ]
    gradients = walked(device, base, seeds, retain_graph)
    if users:
        gradients = conjugated(device, gradients)
    return [
        tensor_of(device, gradients[leaf] if leaf in gradients else device.full(x.shape, 0.0, x.dtype))
        for leaf, x in zip(leaves, inputs, strict=True)
    ]


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
@explained
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
        args = chosen.replaced([tensor_of(level, d) for d in duals])
        output, aux = outputs_of(api, f(*args, **kwargs), has_aux)
        outputs, structure = flat_output(api, output, (chosen.args, kwargs))
        pushed = [primitive_on(api, out, level) for out in outputs]
        aux = map_tree(lambda leaf: lowered(leaf, level), aux)
    return PushedFunction(
        [tensor_of(base, p.value) for p in pushed],
        [tensor_of(base, base.full(p.shape, 0.0, p.dtype) if p.tangent is None else p.tangent) for p in pushed],
        structure,
        aux,
    )
