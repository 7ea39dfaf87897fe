"""Backward passes with somebody looking on: watchers of the mode, and inner devices that ask which rule is at work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from burnpy.autodiff.engine import propagate
from burnpy.autodiff.inspect.nodes import operation_of, stack_of
from burnpy.backend.op_context import OpContext, op_context

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from burnpy.autodiff.graph import Leaf, Node, Vjp
    from burnpy.autodiff.modes import Watcher
    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import Float


def propagate_watched(
    inner: Backend,
    roots: Iterable[tuple[Node | Leaf, Float]],
    *,
    retain_graph: bool,
    targets: Collection[Node | Leaf] | None,
    unused: Callable[[Collection[Node | Leaf]], None] | None = None,
    watchers: tuple[Watcher, ...],
) -> dict[Any, Float]:
    """`propagate`, with the inner device told where it is, if it asks; watchers that have ``finish(inner, gradients)``
    are shown the result."""
    if not inner.wants_rule_context():
        found = propagate(inner, roots, retain_graph=retain_graph, targets=targets, unused=unused, watchers=watchers)
    else:
        before = op_context.set(OpContext("backward"))
        try:
            # Told innermost, so that each operation of the rule is known as the rule's.
            watchers_told = (tell, *watchers)
            found = propagate(
                inner, roots, retain_graph=retain_graph, targets=targets, unused=unused, watchers=watchers_told
            )
        finally:
            op_context.reset(before)
    for watcher in watchers:
        finish: Callable[..., None] | None = getattr(watcher, "finish", None)
        if finish is not None:
            finish(inner, found)
    return found


def tell(inner: Backend, node: Node, vjp: Vjp, grad: Float, kept: tuple[Any, ...]) -> Any:
    """The watcher that sets the place. It stays set while the engine adds up what the vjp gave."""
    op_context.set(OpContext("backward", operation_of(node, vjp), stack_of(node)))
    return vjp(inner, grad, *kept)
