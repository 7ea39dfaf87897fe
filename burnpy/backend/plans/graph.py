"""Nodes and what needs them: `simplified` drops and merges nodes, `Sharing` finds shared memory, `split` the gradient.

A value may share memory with another: `Sharing` tells which, so that nothing overwrites what is still needed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import cache
from typing import Any

from burnpy.backend.backend import operations as schema
from burnpy.backend.plans.recording import Node, Recording, Ref, mapped, refs_in

operations = cache(schema)
REPEATED = ("accumulate", "accumulate_slice", "accumulate_index", "foreach", "full")
"""Operations whose results may be overwritten later, so that two equal ones are not computed as one."""


def simplified(recording: Recording) -> tuple[list[Node], list[Ref]]:
    """Return the nodes that the outputs and effects need, equal ones once, and the outputs.

    Effects, such as drawing random numbers and checks, stay in their order.
    """
    merged: dict[int, Ref] = {}
    seen: dict[Any, Node] = {}
    nodes: list[Node] = []

    def current(ref: Ref) -> Ref:
        return merged.get(ref.number, ref)

    for node in recording.nodes:
        args = mapped(node.args, current)
        new = Node(node.name, args, node.results, node.effect, node.line)
        if not node.effect and node.name not in REPEATED:
            earlier = seen.setdefault((node.name, _key(args)), new)
            if earlier is not new:
                for ref, same in zip(refs_in(node.results), refs_in(earlier.results), strict=True):
                    merged[ref.number] = same
                continue
        nodes.append(new)
    outputs = [current(ref) for ref in recording.outputs]
    return _live(nodes, outputs), outputs


def _live(nodes: Sequence[Node], outputs: Iterable[Ref]) -> list[Node]:
    """Return the nodes that outputs and effects need."""
    needed = {ref.number for ref in outputs}
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.effect or any(ref.number in needed for ref in refs_in(node.results)):
            kept.append(node)
            needed.update(ref.number for ref in refs_in(node.args))
    return kept[::-1]


def _key(x: Any) -> Any:
    """Return a hashable stand-in for arguments, equal only for equal ones: 1, 1.0 and True differ, as do 0 and -0."""
    kind = x.__class__
    if kind is Ref:
        return (Ref, x.number)
    if kind is tuple or kind is list:
        return (kind, *[_key(member) for member in x])
    if kind is float:
        return (float, x.hex())
    if kind is slice:
        return (slice, x.start, x.stop, x.step)
    if kind in (int, bool, str, type(None)):
        return (kind, x)
    return (kind, id(x))


class Sharing:
    """The values that may share memory, in groups: a view belongs to the group of its source.

    Args:
        nodes: the nodes, in the order in which they run.
        outputs: the outputs.
        fused: the ids of the nodes that are parts of programs, whose results are new memory.
    """

    def __init__(self, nodes: Sequence[Node], outputs: Iterable[Ref], fused: Container[int] = ()) -> None:
        self._root: dict[int, int] = {}
        self.last: dict[int, int] = {}
        """For each group, the position of the last node that uses it; len(nodes) for an output."""
        self.overwritten: set[int] = set()
        """The positions of the nodes that may overwrite the argument that they consume, as nothing uses it later."""
        self.own: dict[int, int] = {}
        """For each value, the position of the last node that uses the value itself, and no view of it."""
        for position, node in enumerate(nodes):
            shared = {} if id(node) in fused else _shared(node)
            for number, source in shared.items():
                self._root[number] = self.root(source)
            for ref in refs_in((node.args, node.results)):
                self.last[self.root(ref)] = self.own[ref.number] = position
        for ref in outputs:
            self.last[self.root(ref)] = self.own[ref.number] = len(nodes)
        made: dict[int, int] = {}  # for each group that a node made, the last use of its values so far
        for position, node in enumerate(nodes):
            consumed = None if id(node) in fused else _consumed(node)
            if consumed is not None and made.get(self.root(consumed), len(nodes)) <= position:
                self.overwritten.add(position)
            fresh = id(node) in fused or not _shared(node)
            for ref in refs_in(node.results):
                root = self.root(ref)
                if fresh or root in made:
                    made[root] = max(made.get(root, 0), self.own[ref.number])

    def root(self, ref: Ref) -> int:
        """Return the number of the value in whose memory a value may be."""
        return self._root.get(ref.number, ref.number)


RETURNED = frozenset(("sum_to", "foreach_clamp", "foreach_cast", "bounded", "bounded_and_counted"))
"""The methods that are no views and may return their first argument, or members of it, unchanged."""


def _shared(node: Node) -> dict[int, Ref]:
    """Return, by the number of a result, the argument whose memory it may share."""
    op = operations().get(node.name)
    name = None if op is None else op.view or next(iter(op.consumes), None)
    if node.name in RETURNED:
        source: Any = node.args[0]
    elif op is not None and name:
        source = node.args[[a.name for a in op.arguments].index(name)]
    else:
        return {}
    results = refs_in(node.results)
    sources = refs_in(source)
    return {ref.number: sources[min(k, len(sources) - 1)] for k, ref in enumerate(results)} if sources else {}


def _consumed(node: Node) -> Ref | None:
    """Return the argument that a node may overwrite."""
    op = operations().get(node.name)
    if op is None or not op.consumes:
        return None
    source = node.args[[a.name for a in op.arguments].index(op.consumes[0])]
    return source if source.__class__ is Ref else None


def part(whole: Recording, nodes: Sequence[Node], inputs: Iterable[Ref], outputs: Iterable[Ref]) -> Recording:
    """Return some nodes of a recording as a recording of their own, with other inputs and outputs."""
    own = Recording(whole)
    own.nodes, own.inputs, own.outputs, own.constants = list(nodes), list(inputs), list(outputs), whole.constants
    return own


def split(
    forward: Sequence[Node],
    backward: Sequence[Node],
    outputs: Iterable[Ref],
    fixed: Iterable[Ref],
    constants: Iterable[int],
    recompute: bool,
) -> tuple[list[Node], list[Ref]]:
    """Return the nodes of the gradient, and the values of the function that these nodes need, to be saved.

    Views, and values that depend on nothing but the fixed inputs, are computed again, as this takes next to no memory.

    Args:
        forward: the nodes of the function.
        backward: the nodes of its gradient.
        outputs: the results of the gradient.
        fixed: the inputs that are the same for all steps.
        constants: the numbers of constants.
        recompute: whether everything is computed again, so that nothing but inputs is saved.
    """
    made = {ref.number for node in forward for ref in refs_in(node.results)}
    still = {ref.number for ref in fixed} | set(constants)
    invariant: set[int] = set()  # the ids of nodes that compute the same in each step
    for node in forward:
        if not node.effect and all(ref.number in still for ref in refs_in(node.args)):
            invariant.add(id(node))
            still.update(ref.number for ref in refs_in(node.results))
    needed: dict[int, Ref] = {}
    for node in backward:
        needed.update({ref.number: ref for ref in refs_in(node.args)})
    needed.update({ref.number: ref for ref in outputs})
    again: list[Node] = []
    for node in reversed(forward):
        results = refs_in(node.results)
        op = operations().get(node.name)
        cheap = id(node) in invariant or (op is not None and op.view)
        if not any(ref.number in needed for ref in results) or not (recompute or cheap):
            continue
        again.append(node)
        for ref in results:
            needed.pop(ref.number, None)
        needed.update({ref.number: ref for ref in refs_in(node.args)})
    saved = [ref for number, ref in needed.items() if number in made]
    return [*again[::-1], *backward], saved
