"""Instrumented backward passes: with watchers from the mode, or inner devices that need to know the running rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from burnpy.autodiff.engine import propagate
from burnpy.autodiff.graph import stack_of
from burnpy.backend.op_context import OpContext, op_context

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from burnpy.autodiff.current import Watcher
    from burnpy.autodiff.engine import Ready
    from burnpy.autodiff.graph import Leaf, Node
    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import Float
    from burnpy.backend.rules import Vjp


def propagate_watched(
    inner: Backend,
    roots: Iterable[tuple[Node | Leaf, Float]],
    *,
    retain_graph: bool,
    targets: Collection[Node | Leaf] | None,
    unused: Callable[[Collection[Node | Leaf]], None] | None = None,
    watchers: tuple[Watcher, ...],
    ready: Ready | None = None,
) -> dict[Any, Float]:
    """Run `propagate` and set the rule context for inner devices that want it.

    Watchers with a method ``finish(inner, gradients)`` are called with the result.
    """
    if not inner.wants_rule_context():
        gradients = propagate(
            inner, roots, retain_graph=retain_graph, targets=targets, unused=unused, watchers=watchers, ready=ready
        )
    else:
        before = op_context.set(OpContext("backward"))
        try:
            # Innermost, so that operations of the other watchers are not attributed to the rule.
            all_watchers = (tell, *watchers)
            gradients = propagate(
                inner,
                roots,
                retain_graph=retain_graph,
                targets=targets,
                unused=unused,
                watchers=all_watchers,
                ready=ready,
            )
        finally:
            op_context.reset(before)
    for watcher in watchers:
        finish: Callable[..., None] | None = getattr(watcher, "finish", None)
        if finish is not None:
            finish(inner, gradients)
    return gradients


def tell(inner: Backend, node: Node, vjp: Vjp, grad: Float, kept: tuple[Any, ...]) -> Any:
    """The watcher that sets the rule context. It stays set while the engine accumulates the vjp's result."""
    op_context.set(OpContext("backward", node.operation, stack_of(node)))
    return vjp(inner, grad, *kept)
