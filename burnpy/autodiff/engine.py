"""The backward pass: visits the nodes from one or more roots to the leaves, each once, newest first.

There is no recursion and no lock, and no node is consumed before all are known to be alive. A pass claims its nodes in
descending order of creation; of two passes that share a node, the first to reach the newest shared one wins, and the
other releases the nodes it had claimed and raises.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from burnpy.autodiff.graph import Leaf, Node, PartialGrad, Vjp, absent, kept_of
from burnpy.backend.errors import GraphError
from burnpy.backend.primitives import Float

if TYPE_CHECKING:
    from burnpy.autodiff.modes import Watcher
    from burnpy.backend.backend import Backend

_creation = attrgetter("seq")


def propagate(
    inner: Backend,
    roots: Iterable[tuple[Node | Leaf, Float]],
    *,
    retain_graph: bool,
    targets: Collection[Node | Leaf] | None = None,
    unused: Callable[[Collection[Node | Leaf]], None] | None = None,
    watchers: tuple[Watcher, ...] = (),
) -> dict[Any, Float]:
    """Compute the gradients of all leaves that the roots depend on, or of ``targets``.

    Args:
        inner: the backend that computes the gradients.
        roots: pairs of a node and the gradient to start from; a node may occur twice.
        retain_graph: keep the nodes for another pass; otherwise their saved values are freed on the way.
        targets: leaves or interior nodes; only the paths between them and the roots are walked, and consumed.
        unused: called with the targets that no root depends on, if any, before anything is consumed; it may raise.
        watchers: wrappers called in place of each vjp, which they call in turn; the last one is outermost.

    Raises:
        GraphError: a node was consumed by an earlier pass, or is being consumed by another thread's.
    """
    totals: dict[Any, Float] = {}
    owned: set[Any] = set()
    for root, seed in roots:
        _add(inner, totals, owned, root, seed)
    nodes = _reachable(totals)
    on_path: Collection[Node | Leaf | None] = ()
    interior: dict[Any, Float] = {}  # the gradients of targets that are no leaves
    if targets is not None:
        _check_alive(nodes)
        on_path, nodes = _between(nodes, targets)
        if unused is not None:
            missing = {target for target in targets if target not in totals}
            for walked in nodes:
                if not missing:
                    break
                missing.difference_update((walked.parent0, walked.parent1))
            if missing:
                unused(missing)
    if not retain_graph:
        _claim(nodes)
    elif targets is None:
        _check_alive(nodes)
    while nodes:
        node: Any = nodes.pop()
        try:
            grad = totals.pop(node)
        except KeyError:  # every contribution to its gradient is `absent`
            if not retain_graph:
                node.parent0 = node.parent1 = None
                node.saved0 = node.saved1 = ()
            continue
        parent0, saved0, vjp0, parent1 = node.parent0, node.saved0, node.vjp0, node.parent1
        saved1: Any = node.saved1 if parent1 is not None else ()
        if retain_graph:
            _check_alive((node,))  # checked after the edges were read, since another pass may have freed them
        else:
            node.parent0 = node.parent1 = None
            node.saved0 = node.saved1 = ()
        if targets is not None:
            if node in targets:
                interior[node] = grad
            if parent1 is not None and parent1 not in on_path:
                parent1 = None
        if targets is None or parent0 in on_path:
            if watchers:
                part = watched(watchers, inner, node, vjp0, grad, kept_of(saved0))
            elif saved0.__class__ is tuple:  # a call with unpacked arguments costs twice as much as one without
                part = vjp0(inner, grad, *saved0) if saved0 else vjp0(inner, grad)
            else:
                part = vjp0(inner, grad, saved0)
            if part.__class__ is PartialGrad:
                _add(inner, totals, owned, parent0, part)
            elif parent0 not in totals:
                totals[parent0] = part
            elif parent0 in owned:
                totals[parent0] = inner.accumulate(totals[parent0], part)
            else:
                _add(inner, totals, owned, parent0, part)
        if parent1 is not None:
            vjp1 = node.vjp1
            if watchers:
                part = watched(watchers, inner, node, vjp1, grad, kept_of(saved1))
            elif saved1.__class__ is tuple:
                part = vjp1(inner, grad, *saved1) if saved1 else vjp1(inner, grad)
            else:
                part = vjp1(inner, grad, saved1)
            if part.__class__ is PartialGrad:
                _add(inner, totals, owned, parent1, part)
            elif parent1 not in totals:
                totals[parent1] = part
            elif parent1 in owned:
                totals[parent1] = inner.accumulate(totals[parent1], part)
            else:
                _add(inner, totals, owned, parent1, part)
    if targets is None:
        totals.pop(None, None)  # the results of nodes without parents
        return totals
    interior |= totals
    return {target: interior[target] for target in targets if target in interior}


def watched(
    watchers: tuple[Watcher, ...], inner: Backend, node: Node, vjp: Vjp, grad: Float, kept: tuple[Any, ...]
) -> Any:
    """Call a vjp through the watchers, the last one outermost, and return its result."""
    for watch in watchers:
        vjp = partial(_call_watcher, watch, node, vjp)
    return vjp(inner, grad, *kept)


def _call_watcher(watch: Watcher, node: Node, vjp: Vjp, inner: Backend, grad: Float, *kept: Any) -> Any:
    return watch(inner, node, vjp, grad, kept)


def _between(nodes: list[Node], targets: Collection[Node | Leaf]) -> tuple[set[Any], list[Node]]:
    """Find the paths between the roots and the targets; ``nodes`` are all nodes, oldest first.

    Returns the set of nodes from which a target can be reached, targets included, and the list of nodes with a parent
    in that set, whose vjps must run. A node without parents is walked with its children.
    """
    on_path: set[Any] = set(targets)
    walked, ends = [], []
    for node in nodes:
        if node.parent0 in on_path or node.parent1 in on_path:
            on_path.add(node)
            walked.append(node)
        elif node.parent0 is None:
            ends.append(node)
    if ends:
        children = {node.parent1 for node in walked}
        ends = [end for end in ends if end in children]
        on_path.update(ends, (None,))
        walked = sorted([*ends, *walked], key=_creation)
    return on_path, walked


def _add(inner: Backend, totals: dict[Any, Float], owned: set[Any], at: Node | Leaf, part: Any) -> None:
    """Add ``part`` to the total at a node.

    Only totals allocated here (``owned``) may be overwritten with the sum: the first part may be shared, since
    identity rules pass one array to two parents.
    """
    total = totals.get(at)
    if part.__class__ is PartialGrad:
        if part.add is absent:
            return
        if total is not None and at not in owned:
            total = inner.add(total, 0.0)
        totals[at] = part.add(inner, total, *part.arguments)
        owned.add(at)
    elif total is None:
        totals[at] = part
    elif at in owned:
        totals[at] = inner.accumulate(total, part)
    else:
        totals[at] = inner.add(total, part)
        owned.add(at)


def _reachable(roots: Iterable[Node | Leaf]) -> list[Node]:
    """Return the nodes that the roots depend on, without leaves, oldest first."""
    stack = [root for root in roots if root.__class__ is not Leaf]
    seen: set[Any] = set(stack)
    nodes: list[Any] = []
    while stack:
        node: Any = stack.pop()
        nodes.append(node)
        parent = node.parent0
        if parent is not None and parent.__class__ is not Leaf and parent not in seen:
            seen.add(parent)
            stack.append(parent)
        parent = node.parent1
        if parent is not None and parent.__class__ is not Leaf and parent not in seen:
            seen.add(parent)
            stack.append(parent)
    nodes.sort(key=_creation)
    return nodes


def _claim(nodes: list[Node]) -> None:
    """Claim the nodes for this pass, or raise and leave every one as it was."""
    claimed = 0
    try:
        for node in reversed(nodes):
            del node.alive
            claimed += 1
    except AttributeError:
        for node in nodes[len(nodes) - claimed :]:
            node.alive = True
        raise _freed() from None


def _check_alive(nodes: Iterable[Node]) -> None:
    """Raise if a pass has claimed one of the nodes: a partly freed graph would give wrong gradients."""
    try:
        for node in nodes:
            node.alive  # noqa: B018  # reading it is the check
    except AttributeError:
        raise _freed() from None


def _freed() -> GraphError:
    return GraphError(
        "backward() or grad() would walk through a graph that another pass consumed, or is consuming; "
        "give the first one retain_graph=True, or compute the loss again"
    )
