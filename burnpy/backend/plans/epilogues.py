"""Epilogues: groups that follow an operation and are computed with it, before its result is written to memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from burnpy.backend.plans.executor import Executor, Launch, NodeLaunch
from burnpy.backend.plans.grouping import Group, Single
from burnpy.backend.plans.recording import Node, Ref, operations, refs_in
from burnpy.backend.plans.signature import Signature


class Finished:
    """A unit of an operation and the group that follows it, which reads its result and which nothing else does."""

    __slots__ = ("group", "launch", "node", "signature")

    def __init__(self, node: Node, group: Group, signature: Signature, launch: NodeLaunch) -> None:
        self.node, self.group, self.signature, self.launch = node, group, signature, launch

    @property
    def nodes(self) -> list[Node]:
        """All nodes, in the order in which they run."""
        return [self.node, *self.group.nodes]


def finished(
    units: Sequence[Any],
    outputs: Sequence[Ref],
    launches: Mapping[int, tuple[Launch, Signature]],
    executor: Executor,
) -> list[Any]:
    """Return the units, with operations and the groups that follow them as one unit where the executor can.

    The operation runs when the group does. Its result may be reshaped in between.

    Args:
        units: the units, in the order in which they run.
        outputs: the outputs.
        launches: the launches of groups.
        executor: what computes them.
    """
    uses = Counter(ref.number for ref in outputs)
    makers: dict[int, tuple[Node, list[Single]]] = {}  # of values that an operation with products makes
    for unit in units:
        if isinstance(unit, Group):
            signature = launches[id(unit)][1]
            uses.update(ref.number for ref in (*signature.arrays, *signature.numbers))
            continue
        uses.update(ref.number for ref in refs_in(unit.node.args))
        op = operations().get(unit.node.name)
        if op is not None and op.product and unit.node.results.__class__ is Ref:
            makers[unit.node.results.number] = unit.node, [unit]
        elif unit.node.name == "reshape" and (made := makers.get(unit.node.args[0].number)):
            node, results = made[0], unit.node.results  # the same memory
            makers[results.number] = Node(node.name, node.args, results, node.effect, node.line), [*made[1], unit]
    gone: set[int] = set()
    kept: list[Any] = []
    for unit in units:
        kept.append(unit)
        if not isinstance(unit, Group):
            continue
        signature = launches[id(unit)][1]
        for ref in sorted(signature.arrays, key=lambda ref: -ref.number):  # the last one needs no other order
            maker, replaced = makers.get(ref.number, (None, []))
            read_once = all(uses[each.node.results.number] == 1 for each in replaced)
            if maker is None or not read_once or not _fits(signature, ref):
                continue
            launch = executor.finished(maker, signature)
            if launch is not None:
                gone.update(map(id, replaced))
                kept[-1] = Finished(maker, unit, signature, launch)
                break
    return [unit for unit in kept if id(unit) not in gone]


def _fits(signature: Signature, ref: Ref) -> bool:
    """Return whether a group computes one value of the shape of an array, without numbers."""
    alike = ref.shape == signature.group.domain == signature.outputs[0].shape
    return len(signature.outputs) == 1 and not signature.numbers and alike
