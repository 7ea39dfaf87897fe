"""The backward pass: visits the nodes from one or more roots to the leaves, each once, newest first.

There is no recursion and no lock, and no node is consumed before all are known to be alive. A pass claims its nodes in
descending order of creation; of two passes that share a node, the first to reach the newest shared one wins, and the
other releases the nodes it had claimed and raises.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from burnpy.autodiff.graph import Leaf, Node, absent, saved_tuple
from burnpy.backend.errors import GraphError
from burnpy.backend.primitives import Float
from burnpy.backend.rules import FACTOR_VJPS, LaterProducts, PartialGrad, add_at_slice, add_product, is_large

if TYPE_CHECKING:
    from burnpy.autodiff.recording import Interceptor
    from burnpy.backend.backend import Backend

_creation = attrgetter("seq")

Ready: TypeAlias = Callable[[Leaf, Float], None]
"""``(leaf, gradient)``: takes the gradient of a leaf, complete, while the pass goes on."""

Sums: TypeAlias = Callable[[Iterable[Node | Leaf | None]], tuple[dict[Any, Float], set[Any]]]
"""Takes the nodes and leaves that a pass visits. Returns the sums of earlier passes by leaf, and the leaves whose sums
are owned: nobody else sees their memory, so that the pass may overwrite it."""


class LastUse(NamedTuple):
    """An entry in a pass's list of nodes, where the gradient of a leaf is complete: no later node adds to it."""

    leaf: Leaf


class Totals:
    """The gradients of a pass so far: the sums at nodes that were not visited yet, and at leaves.

    Only a sum that is *owned*, since it was allocated here, may be overwritten: a single contribution may be an array
    that a rule passed to two parents, as the rule of an addition does.
    """

    __slots__ = ("at", "inner", "owned", "untouched")

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.at: dict[Any, Any] = {}  #: gradients, or `PartialGrad`, by their nodes and leaves
        self.owned: set[Any] = set()  #: the nodes and leaves whose sums were allocated here
        self.untouched: set[Any] = set()  #: the leaves whose sums of earlier passes have grown by no product yet

    def add(self, at: Node | Leaf, part: Any) -> None:
        """Add a gradient or a `PartialGrad` to the sum at a node."""
        total = self.at.get(at)
        if part.__class__ is PartialGrad:
            self._add_partial(at, total, part)
        elif total is None:
            self.at[at] = part
        elif total.__class__ is PartialGrad:
            self.at[at] = self.inner.accumulate(total.total(self.inner), part)
            self.owned.add(at)
        elif at in self.owned:
            self.at[at] = self.inner.accumulate(total, part)
        else:
            self.at[at] = self.inner.add(total, part)
            self.owned.add(at)

    def _add_partial(self, at: Node | Leaf, total: Any, part: PartialGrad) -> None:
        """Add a `PartialGrad` now, or keep it, so that the next ones can join it and all are added at once."""
        inner, owned = self.inner, self.owned
        if part.add is absent:
            return
        if total.__class__ is PartialGrad:  # one that was kept
            if total.join(part):
                return
            total = total.total(inner)
            owned.add(at)
        # Keep a product of matrices, with the sum so far. The first one for a sum of earlier passes is added at once:
        # a weight that is used once has no other.
        if part.add is add_product and (at not in owned or (at not in self.untouched and part.waits())):
            part.sum, part.owned, self.at[at] = total, at in owned, part
            owned.discard(at)
            return
        if total is None and part.add is add_at_slice and inner.eager_checks:
            self.at[at] = (
                part  # keep a slice; backends without eager checks, such as a recording, join slices themselves
            )
            return
        if total is not None and at not in owned:
            total = inner.add(total, 0.0)
        self.at[at] = part.add(inner, total, *part.arguments)
        owned.add(at)
        self.untouched.discard(at)

    def continue_from(self, sums: tuple[dict[Any, Float], set[Any]]) -> None:
        """Add all gradients to the sums of earlier passes, whose owned leaves are the second member."""
        seeds, (self.at, self.owned) = self.at, sums
        self.untouched.update(self.owned)
        for root, seed in seeds.items():
            self.add(root, seed)

    def complete(self, at: Node | Leaf) -> Float:
        """Return the gradient at a node, added up."""
        total = self.at[at]
        if total.__class__ is PartialGrad:
            total = self.at[at] = total.total(self.inner)
        return total


def propagate(
    inner: Backend,
    roots: Iterable[tuple[Node | Leaf, Float]],
    *,
    retain_graph: bool,
    targets: Collection[Node | Leaf] | None = None,
    unused: Callable[[Collection[Node | Leaf]], None] | None = None,
    intercept: Interceptor | None = None,
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
        intercept: called in place of each vjp, which it calls.
        ready: called with each leaf and its gradient as soon as no node is left that adds to it, once per leaf that
            the result has; leaves without any contribution are not reported.
        sums: called once all nodes are claimed. The result has the sums that it returns, with the gradients added to
            them, perhaps in their memory.
    """
    # 1. List the nodes, oldest first; with targets, only those on a path to a target.
    totals = Totals(inner)
    for root, seed in roots:
        totals.add(root, seed)
    nodes = _reachable(totals.at)
    on_path: Collection[Node | Leaf | None] = ()
    if targets is not None:
        _check_alive(nodes)
        on_path, nodes = _between(nodes, targets)
        if unused is not None:
            unreached = {target for target in targets if target not in totals.at}
            for walked in nodes:
                if not unreached:
                    break
                unreached.difference_update((walked.parent0, walked.parent1))
            if unreached:
                unused(unreached)
    # 2. Make sure that no other pass has freed the graph, or will.
    if not retain_graph:
        _claim(nodes)
    elif targets is None:
        _check_alive(nodes)
    # 3. Visit the nodes, newest first, so that the gradient of each is complete.
    if ready is not None:
        nodes = _with_last_uses(nodes, totals.at, targets)
    if sums is not None:
        totals.continue_from(sums(chain(totals.at, _parents(nodes))))
    interior = _visit(inner, nodes, totals, retain_graph, targets, on_path, intercept, ready)
    # 4. What is left are the gradients of leaves.
    for at, total in totals.at.items():
        if total.__class__ is PartialGrad:
            totals.complete(at)
    if targets is None:
        totals.at.pop(None, None)  # the results of nodes without parents
        return totals.at
    interior |= totals.at
    return {target: interior[target] for target in targets if target in interior}


def _visit(
    inner: Backend,
    nodes: list[Any],
    totals: Totals,
    retain_graph: bool,
    targets: Collection[Node | Leaf] | None,
    on_path: Collection[Node | Leaf | None],
    intercept: Interceptor | None,
    ready: Ready | None,
) -> dict[Any, Float]:
    """Visit the nodes, listed oldest first, and return the gradients of the targets that are no leaves. For each node:
    take its gradient, read its edges and free them, then call the vjp of each edge and add the result to the gradient
    of the edge's parent. ``totals.at`` holds the gradients of leaves at the end."""
    interior: dict[Any, Float] = {}
    at, owned, add = totals.at, totals.owned, totals.add
    vjp1: Any = None
    saved1: Any = None
    while nodes:
        node: Any = nodes.pop()
        try:
            grad = at.pop(node)
        except KeyError:  # every contribution to its gradient is `absent`, or it is not a node
            if node.__class__ is LastUse:
                if ready is not None and node.leaf in at:
                    ready(node.leaf, totals.complete(node.leaf))
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
            _check_alive((node,))  # after the edges were read, since another pass may have freed them before
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
        # Once for each of one or two edges; a loop over a tuple of them takes 100 to 160 ns more per node.
        while True:
            summed = parent in at
            if intercept is not None:
                part = intercept(inner, node, vjp, grad, saved_tuple(saved))
            elif summed and vjp in FACTOR_VJPS and is_large(at[parent]):  # another product for a large weight
                part = vjp(LaterProducts(inner, parent in owned), grad, *saved_tuple(saved))
            elif saved.__class__ is tuple:  # a call with unpacked arguments costs twice as much as one without
                part = vjp(inner, grad, *saved) if saved else vjp(inner, grad)
            else:
                part = vjp(inner, grad, saved)
            if part.__class__ is PartialGrad:
                add(parent, part)
            elif not summed:
                at[parent] = part
            elif parent in owned:  # as in `Totals.add`, without a call
                at[parent] = inner.accumulate(at[parent], part)
            else:
                add(parent, part)
            if second is None:
                break
            # Nothing else may refer to the saved values: they are freed before the next vjp runs.
            parent, vjp, saved, second, saved1 = second, vjp1, saved1, None, None
    return interior


def _between(nodes: list[Node], targets: Collection[Node | Leaf]) -> tuple[set[Any], list[Node]]:
    """Find the paths between the roots and the targets; ``nodes`` are all nodes, oldest first. Returns the set of nodes
    from which a target can be reached, targets included, and the list of the nodes whose vjps must run: those with a
    parent in that set. A node without parents is walked with its children."""
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
    """Return the nodes, oldest first, with the `LastUse` of each leaf before the oldest node that has it as a parent. A
    leaf that is only a root comes last, and is the first that the pass visits. With targets, there are entries for
    these leaves only."""
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
