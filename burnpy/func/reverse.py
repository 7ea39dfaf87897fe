"""Reverse mode: recording a function on a new level, and computing vjps of the recorded graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.engine import propagate
from burnpy.autodiff.graph import Leaf, Tracked
from burnpy.autodiff.instrumented import propagate_watched
from burnpy.autodiff.modes import Watcher, current_mode
from burnpy.autodiff.saved_tensors.slots import opened
from burnpy.backend.dtypes import kind_of
from burnpy.backend.primitives import Float, Value
from burnpy.backend.rules import Vjp
from burnpy.func.arguments import Chosen, flat_output, outputs_of
from burnpy.func.levels import Level, base_for, lowered, primitive_on
from burnpy.func.pytree import Structure, map_tree, tensors_in
from burnpy.tensor.levels import common_device, levels_between
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor


@dataclass(frozen=True, slots=True)
class Recording:
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
    picked: Chosen,
    kwargs: dict[str, Any],
    has_aux: bool,
    output_of: Callable[[str, Any, Any], tuple[list[Tensor[Any]], Structure]] = flat_output,
) -> Recording:
    """Run a function on a new level, with the arguments to differentiate by as leaves.

    Args:
        api: the function that is called, for messages.
        f: the function.
        picked: its positional arguments, and which of them are differentiated.
        kwargs: its keyword arguments.
        has_aux: whether it returns a pair (output, aux), where aux is not differentiated.
        output_of: checks and flattens the output; called with ``api``, the output and the arguments.
    """
    base = base_for(api, tensors_in((picked.args, kwargs)))
    inputs = [on_base(api, x, base) for x in picked.leaves]
    with Level(Autodiff, api, base) as level:
        tracked = [leaf_of(level, x._primitive) for x in inputs]
        args = picked.replaced([new_tensor(Tensor, level, t) for t in tracked])
        output, aux = outputs_of(api, f(*args, **kwargs), has_aux)
        outputs, structure = output_of(api, output, (picked.args, kwargs))
        roots = [primitive_on(api, out, level) for out in outputs]
        aux = map_tree(lambda leaf: lowered(leaf, level), aux)
        values = [new_tensor(Tensor, base, level.lower(root)) for root in roots]
    return Recording(base, [t.node for t in tracked], inputs, roots, values, structure, aux)  # type: ignore[misc]  # leaves


def on_base(api: str, x: Tensor[Any], base: Any) -> Tensor[Any]:
    """Lift a tensor to the device ``base``."""
    return x if x._device is base else new_tensor(Tensor, base, primitive_on(api, x, base))


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
) -> list[Tensor[Any]]:
    """Compute the gradients of the leaves from cotangents of the roots; zeros for a leaf that is not reached.

    The cotangents may be on a level above ``base``, when they are differentiated themselves: the backward pass then
    runs on that level, and the saved tensors are lifted to it.
    """
    device = common_device(api, [base, *[c._device for c in cotangents]])
    seeds: Any = [
        (root.node, primitive_on(api, c, device))
        for root, c in zip(roots, cotangents, strict=True)
        if root.node is not None
    ]
    gradients = walked(device, base, seeds, retain_graph)
    return [
        new_tensor(Tensor, device, gradients[leaf] if leaf in gradients else device.full(x.shape, 0.0, x.dtype))
        for leaf, x in zip(leaves, inputs, strict=True)
    ]


def walked(device: Any, base: Any, seeds: list[tuple[Any, Float]], retain_graph: bool) -> dict[Any, Float]:
    """Run a backward pass on ``device`` through a graph over ``base``, and return the gradients of all leaves."""
    mode = current_mode()
    watchers = () if mode is None else mode.watchers
    if device is not base:
        watchers = (*watchers, _lifting(levels_between(device, base) or []))
    if not watchers and not device.wants_rule_context():
        return propagate(device, seeds, retain_graph=retain_graph)
    return propagate_watched(device, seeds, retain_graph=retain_graph, targets=None, watchers=watchers)


def _lifting(levels: list[Any]) -> Watcher:
    """Return a watcher that runs vjps on levels above the one they were recorded on, with saved tensors lifted."""

    def lifted(saved: Value) -> Value:
        if hasattr(saved, "dtype") and hasattr(saved, "shape") and kind_of(saved.dtype) == "float":
            for level in reversed(levels):
                saved = level.lift(saved)
        return saved

    def watch(inner: Any, node: Any, vjp: Vjp, grad: Float, saved: tuple[Any, ...]) -> Any:
        vjp, saved = opened(vjp, saved)
        return vjp(inner, grad, *map(lifted, saved))

    return watch
