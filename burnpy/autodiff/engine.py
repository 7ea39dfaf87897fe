"""The backward pass: visits the nodes from one or more roots to the leaves, each once, newest first.

There is no recursion and no lock, and no node is consumed before all are known to be alive. A pass claims its nodes in
descending order of creation; of two passes that share a node, the first to reach the newest shared one wins, and the
other releases the nodes it had claimed and raises.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.autodiff.graph import Leaf, Node, absent, kept_of
from burnpy.backend.errors import GraphError
from burnpy.backend.primitives import Float
from burnpy.backend.rules import FACTOR_VJPS, LaterProducts, PartialGrad, Vjp, add_at_slice, add_product, is_large

if TYPE_CHECKING:
    from burnpy.autodiff.recording import Watcher
    from burnpy.backend.backend import Backend

_creation = attrgetter("seq")

Ready: TypeAlias = Callable[[Leaf, Float], None]
"""``(leaf, gradient)``: takes the gradient of a leaf, complete, while the pass goes on."""

Sums: TypeAlias = Callable[[Iterable[Node | Leaf | None]], tuple[dict[Any, Float], set[Any]]]
"""From the nodes that a pass visits, leaves among them, to sums of gradients of earlier passes by their leaves, and the
leaves of those whose memory nobody else sees."""


class LastUse:
    """An entry in the list of nodes of a pass: every node that adds to the gradient of a leaf has been visited."""

    __slots__ = ("leaf",)

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf


def propagate(
    inner: Backend,
    roots: Iterable[tuple[Node | Leaf, Float]],
    *,
    retain_graph: bool,
    targets: Collection[Node | Leaf] | None = None,
    unused: Callable[[Collection[Node | Leaf]], None] | None = None,
    watchers: tuple[Watcher, ...] = (),
    ready: Ready | None = None,
    sums: Sums | None = None,
) -> dict[Any, Float]:
    """Compute the gradients of all leaves that the roots depend on, or of ``targets``.

    Args:
        inner: the backend that computes the gradients.
        roots: pairs of a node and the gradient to start from; a node may occur twice.
        retain_graph: keep the nodes for another pass; otherwise their saved values are freed on the way.
        targets: leaves or interior nodes; only the paths between them and the roots are walked, and consumed.
        unused: called with the targets that no root depends on, if any, before anything is consumed; it may raise.
        watchers: wrappers called in place of each vjp, which they call in turn; the last one is outermost.
        ready: called with each leaf and its gradient as soon as no node is left that adds to it, once per leaf that
            the result has; leaves without any contribution are not reported.
        sums: called once all nodes are claimed. The result has the sums that it returns, with the gradients added to
            them, perhaps in their memory.
    """
    totals: dict[Any, Float] = {}
    owned: set[Any] = set()
    untouched: set[Any] = set()  # leaves whose sums of earlier passes have grown by no product yet
    for root, seed in roots:
        _add(inner, totals, owned, root, seed, untouched)
    nodes = _reachable(totals)
    watching = watchers or None
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
    if ready is not None:
        nodes = _with_last_uses(nodes, totals, targets)
    if sums is not None:
        seeds, (totals, owned) = totals, sums(chain(totals, _parents(nodes)))
        untouched.update(owned)
        for root, seed in seeds.items():
            _add(inner, totals, owned, root, seed, untouched)
    vjp1: Any = None
    saved1: Any = None
    while nodes:
        node: Any = nodes.pop()
        try:
            grad = totals.pop(node)
        except KeyError:  # every contribution to its gradient is `absent`, or it is no node
            if node.__class__ is LastUse:
                if ready is not None and node.leaf in totals:
                    _add_up(inner, totals, (node.leaf,))
                    ready(node.leaf, totals[node.leaf])
                continue
            if not retain_graph:
                node.parent0 = node.parent1 = None
                node.saved0 = node.saved1 = ()
            continue
        if grad.__class__ is PartialGrad:
            grad = grad.total(inner)
        parent, vjp, saved, second = node.parent0, node.vjp0, node.saved0, node.parent1
        if second is not None:
            vjp1, saved1 = node.vjp1, node.saved1
        if retain_graph:
            _check_alive((node,))  # checked after the edges were read, since another pass may have freed them
        else:
            node.parent0, node.saved0 = None, ()
            if second is not None:
                node.parent1, node.saved1 = None, ()
        if targets is not None:
            if node in targets:
                interior[node] = grad
            if second is not None and second not in on_path:
                second = saved1 = None
            if parent not in on_path:
                if second is None:
                    continue
                parent, vjp, saved, second, saved1 = second, vjp1, saved1, None, None
        # Once for each edge. Written out for each, a pass takes 2 % less in a chain of products and 2 % more in one of
        # sums; a loop over a tuple of the edges takes 100 to 160 ns more per node.
        while True:
            again = parent in totals
            if watching is not None:
                part = _through_watchers(watching, inner, node, vjp, grad, kept_of(saved))
            elif again and vjp in FACTOR_VJPS and is_large(totals[parent]):  # of one weight
                part = vjp(LaterProducts(inner, parent in owned), grad, *kept_of(saved))
            elif saved.__class__ is tuple:  # a call with unpacked arguments costs twice as much as one without
                part = vjp(inner, grad, *saved) if saved else vjp(inner, grad)
            else:
                part = vjp(inner, grad, saved)
            if part.__class__ is PartialGrad:
                _add(inner, totals, owned, parent, part, untouched)
            elif not again:
                totals[parent] = part
            elif parent in owned:
                totals[parent] = inner.accumulate(totals[parent], part)
            else:
                _add(inner, totals, owned, parent, part, untouched)
            if second is None:
                break
            # Nothing else may refer to the saved values: they are freed before the next vjp runs.
            parent, vjp, saved, second, saved1 = second, vjp1, saved1, None, None
    _add_up(inner, totals, totals)
    if targets is None:
        totals.pop(None, None)  # the results of nodes without parents
        return totals
    interior |= totals
    return {target: interior[target] for target in targets if target in interior}


def _through_watchers(
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


def _with_last_uses(
    nodes: list[Node], roots: Iterable[Node | Leaf], targets: Collection[Node | Leaf] | None
) -> list[Any]:
    """Return the nodes, oldest first, with the `LastUse` of each leaf before the oldest node that has it as a parent.

    A leaf that is only a root comes last, and is the first that the pass visits. Of targets, others are left out.
    """
    entries: list[Any] = []
    placed: set[Any] = set()
    for node in nodes:
        for parent in (node.parent0, node.parent1):
            if isinstance(parent, Leaf) and parent not in placed and (targets is None or parent in targets):
                placed.add(parent)
                entries.append(LastUse(parent))
        entries.append(node)
    for root in roots:
        if isinstance(root, Leaf) and root not in placed and (targets is None or root in targets):
            entries.append(LastUse(root))
    return entries


def _add_up(inner: Backend, totals: dict[Any, Any], nodes: Iterable[Node | Leaf]) -> None:
    """Replace totals that are not added up yet by their sums."""
    for node in nodes:
        if totals[node].__class__ is PartialGrad:
            totals[node] = totals[node].total(inner)


def _add(
    inner: Backend,
    totals: dict[Any, Float],
    owned: set[Any],
    at: Node | Leaf,
    part: Any,
    untouched: set[Any],
) -> None:
    """Add ``part`` to the total at a node.

    Only totals allocated here (``owned``) may be overwritten with the sum: the first part may be shared, since
    identity rules pass one array to two parents. The first product that is added to one in ``untouched`` does not wait
    for others, as there are none if the weight is used once.
    """
    total: Any = totals.get(at)
    if part.__class__ is PartialGrad:
        if part.add is absent:
            return
        if total.__class__ is PartialGrad:
            if total.join(part):
                return
            total = total.total(inner)
            owned.add(at)
        if part.add is add_product and (at not in owned or (at not in untouched and part.waits())):
            part.sum, part.owned, totals[at] = total, at in owned, part
            owned.discard(at)
            return
        if total is None and part.add is add_at_slice and inner.eager_checks:
            totals[at] = part  # for `join`; other backends, such as a recording, join slices themselves
            return
        if total is not None and at not in owned:
            total = inner.add(total, 0.0)
        totals[at] = part.add(inner, total, *part.arguments)
        owned.add(at)
        untouched.discard(at)
    elif total is None:
        totals[at] = part
    elif total.__class__ is PartialGrad:
        totals[at] = inner.accumulate(total.total(inner), part)
        owned.add(at)
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


def _parents(nodes: list[Node]) -> Iterator[Node | Leaf | None]:
    """Yield the parents of nodes, those of the newest first."""
    for node in reversed(nodes):
        yield node.parent0
        yield node.parent1


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
