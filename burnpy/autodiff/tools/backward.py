"""Backward passes from several tensors at once: `backward`, and `grad` with respect to selected tensors only.

`reporting` serves ``backward(on_ready=f)``: a function called with each leaf's gradient as soon as it is complete.
`walked` is a pass on a level above the graph's, for rules and `burnpy.func`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Never, NoReturn, overload

from burnpy.autodiff.engine import propagate
from burnpy.autodiff.graph import Leaf, conjugate, conjugated, is_array, untracked
from burnpy.autodiff.recording import Interceptor, current_mode, propagate_intercepted
from burnpy.autodiff.tools.saved_tensors import opened
from burnpy.autodiff.tools.user_code import call_user_code, probable_cause
from burnpy.backend.dtypes import is_inexact
from burnpy.backend.errors import ArgumentError, KindError, NotTrackedError
from burnpy.backend.primitives import Float, Value
from burnpy.backend.rules import Vjp
from burnpy.tensor.backward import inner_of, refuse_arguments, seed_of
from burnpy.tensor.call_errors import explained
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.levels import levels_between
from burnpy.tensor.operand_checks import same_device
from burnpy.tensor.tensor import DIFFERENTIABLE, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe, tensor_of
from burnpy.typevars import I

if TYPE_CHECKING:
    from burnpy.autodiff.engine import Ready, Sums
    from burnpy.tensor.tensor_types import TensorOnAutodiff


@explained
def backward(
    tensors: TensorOnAutodiff[I] | Sequence[TensorOnAutodiff[I]],
    gradients: Tensor[I] | Sequence[Tensor[I] | None] | None = None,
    *,
    retain_graph: bool = False,
    inputs: TensorOnAutodiff[I] | Sequence[TensorOnAutodiff[I]] | None = None,
    on_ready: Callable[[Tensor[Any], Tensor[I]], None] | None = None,
    **removed: Never,
) -> Gradients[I]:
    """Compute the gradients of the sum of several tensors in one backward pass.

    Args:
        tensors: one or several tensors of one device, each of one element or with a gradient to start from.
        gradients: the gradient to start from for each tensor, or None for 1.
        retain_graph: keep the graph for another pass.
        inputs: the leaves whose gradients are computed; others get no gradient, and only the paths to these are walked.
        on_ready: called with each leaf and its gradient as soon as it is complete: see `Tensor.backward`.
        **removed: not used; it catches arguments of PyTorch that do not exist here, to explain them.

    Raises:
        KindError: an argument is not a float tensor, or ``on_ready`` is not a function.
        ArgumentError: the number of gradients differs from the number of tensors. During the pass: ``on_ready``
            returned something.
        CallError: ``create_graph`` was passed.
        NotTrackedError: a tensor is on a plain backend or was computed from no leaf, or an input is not a leaf.
        ShapeError: a tensor of several elements has no gradient, or one of another shape.
        GraphError: the graph was consumed by another pass.

    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> backward([x.sum(), (x * x).sum()])[x].tolist()
    [3.0, 5.0]
    """
    if removed:
        refuse_arguments("backward", removed)
    outputs = float_tensors("backward", "tensors", tensors)
    device, roots = _roots("backward", outputs, "gradients", gradients)
    targets = None
    if inputs is not None:
        leaves = float_tensors("backward", "inputs", inputs)
        same_device("backward", outputs[0], *leaves)
        empty: Gradients[Any] = Gradients(device, {})
        targets = [empty.key(leaf) for leaf in leaves]
    ready = None if on_ready is None else reporting(device, on_ready)
    found = device.gradients(roots, retain_graph=retain_graph, targets=targets, ready=ready)
    return Gradients.found(device, found)


def added_to(sums: Sums, loss: TensorOnAutodiff[I], factor: float) -> Gradients[I]:
    """Return the gradients of a loss multiplied by a factor, added to sums of earlier passes: see `propagate`."""
    root: Any = loss
    device, seed = root._device, seed_of(root, None, "backward")
    if factor != 1:
        seed = device.inner.mul(seed, factor)
    return Gradients.found(device, device.gradients([(root._primitive, seed)], retain_graph=False, sums=sums))


@overload
def grad(
    outputs: TensorOnAutodiff[I] | Sequence[TensorOnAutodiff[I]],
    inputs: TensorOnAutodiff[I] | Sequence[TensorOnAutodiff[I]],
    grad_outputs: Tensor[I] | Sequence[Tensor[I] | None] | None = None,
    *,
    retain_graph: bool = False,
    allow_unused: Literal[False] = False,
    materialize_grads: bool = False,
) -> tuple[Tensor[I], ...]: ...
@overload
def grad(
    outputs: TensorOnAutodiff[I] | Sequence[TensorOnAutodiff[I]],
    inputs: TensorOnAutodiff[I] | Sequence[TensorOnAutodiff[I]],
    grad_outputs: Tensor[I] | Sequence[Tensor[I] | None] | None = None,
    *,
    retain_graph: bool = False,
    allow_unused: bool,
    materialize_grads: Literal[True],
) -> tuple[Tensor[I], ...]: ...
@overload
def grad(
    outputs: TensorOnAutodiff[I] | Sequence[TensorOnAutodiff[I]],
    inputs: TensorOnAutodiff[I] | Sequence[TensorOnAutodiff[I]],
    grad_outputs: Tensor[I] | Sequence[Tensor[I] | None] | None = None,
    *,
    retain_graph: bool = False,
    allow_unused: bool,
    materialize_grads: bool = False,
) -> tuple[Tensor[I] | None, ...]: ...
@explained
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    retain_graph: bool = False,
    allow_unused: bool = False,
    materialize_grads: bool = False,
    **removed: Any,
) -> tuple[Any, ...]:
    """Compute the gradients of ``outputs`` with respect to ``inputs``; only the paths between them are consumed.

    To differentiate the result again, compute on ``Autodiff[Autodiff[B]]``: its gradients are tensors on
    ``Autodiff[B]``. There is no ``create_graph``.

    Args:
        outputs: one or several tensors of one device, each of one element or with a gradient to start from.
        inputs: one or several tensors of that device, leaves or not; outputs and repeated tensors are allowed.
        grad_outputs: the gradient to start from for each output, or None for 1.
        retain_graph: keep the graph for another pass.
        allow_unused: return None instead of raising for an input that the outputs do not depend on, or for which the
            backward() of a `Function` returned None.
        materialize_grads: return zeros instead of None; implies ``allow_unused``.
        **removed: not used; it catches arguments of PyTorch that do not exist here, to explain them.

    Raises:
        ArgumentError: an output does not depend on an input, which the message names.
        NotTrackedError: an output or an input is not tracked.
        ShapeError: an output of several elements has no gradient, or one of another shape.
        CallError: ``create_graph`` was passed.

    >>> x = Tensor[Autodiff[Autodiff[NumPy]]].from_data(2.0).require_grad()
    >>> (first,) = grad(x * x * x, x)
    >>> (second,) = grad(first, x.inner())
    >>> first.item(), second.item()
    (12.0, 12.0)
    """
    if removed:
        refuse_arguments("grad", removed)
    results = float_tensors("grad", "outputs", outputs)
    sources = float_tensors("grad", "inputs", inputs)
    device, roots = _roots("grad", results, "grad_outputs", grad_outputs)
    same_device("grad", results[0], *sources)
    keys = [_node(k, source) for k, source in enumerate(sources)]

    def refuse(unused: Collection[Any]) -> None:
        _refuse_unused(
            [(k, source) for k, (source, key) in enumerate(zip(sources, keys, strict=True)) if key in unused]
        )

    allowed = allow_unused or materialize_grads
    grads = device.gradients(roots, retain_graph=retain_graph, targets=keys, unused=None if allowed else refuse)
    grads = conjugated(device.inner, grads)
    absent = [(k, source) for k, (source, key) in enumerate(zip(sources, keys, strict=True)) if key not in grads]
    if absent and not allowed:
        _refuse_unused(absent, "for which each backward() on the way returned None")
    return tuple(_result(source, grads.get(key), materialize_grads) for source, key in zip(sources, keys, strict=True))


def reporting(device: Any, on_ready: Any) -> Ready:
    """Return the function for the engine that calls ``on_ready`` with leaf and gradient as tensors. Updates of buffers
    are not reported, as they are not gradients."""
    if not callable(on_ready):
        raise KindError(f"backward(on_ready=…) takes a function of a leaf and its gradient, not {describe(on_ready)}")
    who = "the function given to backward(on_ready=…)"

    def ready(leaf: Leaf, gradient: Float) -> None:
        if leaf.buffer is not None:
            return
        primitive = untracked(leaf.value)
        primitive.node = leaf
        x, grad = tensor_of(device, primitive), tensor_of(device.inner, conjugate(device.inner, gradient))
        result = call_user_code(who, "a leaf and its gradient", on_ready, device.inner, x, grad)
        if result is not None:
            raise ArgumentError(
                f"{who} returned {result!r:.80}, and cannot replace gradients; use x.register_hook(f), or "
                "grads.map(f) after the pass"
            )

    return ready


def float_tensors(operation: str, argument: str, tensors: Any) -> list[Tensor[Any]]:
    """Return an argument that is one or several float tensors on `Autodiff` as a list."""
    sequence = [tensors] if isinstance(tensors, TensorBase) else tensors
    members: list[Any] = list(sequence) if isinstance(sequence, Iterable) else []
    if not members or not all(isinstance(t, DIFFERENTIABLE) for t in members):
        wrong = next((t for t in members if not isinstance(t, DIFFERENTIABLE)), tensors)
        raise KindError(
            f"{operation}({argument}=…) takes a float tensor or a sequence of them, got {describe(tensors)}"
            f"{probable_cause(wrong)}"
        )
    for t in members:
        inner_of(t, f"{operation}()")
    return members


def _roots(
    operation: str, tensors: list[Tensor[Any]], argument: str, gradients: Any
) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return the device of tensors, and the primitive of each with the gradient to start from."""
    same_device(operation, *tensors)
    if gradients is None:
        gradients = [None] * len(tensors)
    elif not isinstance(gradients, (list, tuple)):  # a single gradient, or a wrong argument, which seed_of reports
        gradients = [gradients]
    if len(gradients) != len(tensors):
        raise ArgumentError(
            f"{operation}() got {len(tensors)} tensor{'' if len(tensors) == 1 else 's'}, but {len(gradients)} in "
            f"{argument}; pass one for each"
        )
    roots = [(t._primitive, seed_of(t, g, operation, argument)) for t, g in zip(tensors, gradients, strict=True)]
    return tensors[0].device, roots


def _node(position: int, source: Tensor[Any]) -> Any:
    node = source._primitive.node
    if node is None:
        raise NotTrackedError(
            f"grad() got input {position}, of shape {source.shape}, which is not tracked; "
            "use the tensor that require_grad() returned"
        )
    return node.target


def _refuse_unused(unused: list[tuple[int, Tensor[Any]]], why: str = "on which no output depends") -> NoReturn:
    names = " and ".join(f"{position}, of shape {source.shape}" for position, source in unused)
    raise ArgumentError(
        f"grad() got input {names}, {why}; allow_unused=True gives None for it, materialize_grads=True zeros"
    )


def _result(source: Tensor[Any], value: Any, materialize: bool) -> Any:
    inner = source.device.inner
    if value is None:
        if not materialize:
            return None
        value = inner.full(source.shape, 0.0, source.dtype)
    return tensor_of(inner, value)


def walked(device: Any, base: Any, seeds: list[tuple[Any, Float]], retain_graph: bool) -> dict[Any, Float]:
    """Run a backward pass on ``device`` through a graph over ``base``, and return the gradients of all leaves."""
    mode = current_mode()
    interceptors = () if mode is None else mode.interceptors
    levels = levels_between(device, base) or []
    if not all(level.lifts_discrete for level in levels):  # those of `vmap` take primitives of devices beneath
        interceptors = (*interceptors, _lifting(levels))
    if not interceptors and not device.wants_rule_context():
        return propagate(device, seeds, retain_graph=retain_graph)
    return propagate_intercepted(device, seeds, retain_graph=retain_graph, targets=None, interceptors=interceptors)


def _lifting(levels: list[Any]) -> Interceptor:
    """Return an interceptor that runs vjps on levels above the one they were recorded on, with saved tensors lifted."""

    def lifted(saved: Value) -> Value:
        if is_array(saved):
            is_float = is_inexact(saved.dtype)
            for level in reversed(levels):
                if is_float or level.lifts_discrete:
                    saved = level.lift(saved)
        return saved

    def intercept(inner: Any, node: Any, vjp: Vjp, grad: Float, saved: tuple[Any, ...]) -> Any:
        vjp, saved = opened(vjp, saved)
        return vjp(inner, grad, *map(lifted, saved))

    return intercept
