"""Epilogues: groups that follow an operation and are computed with it, before its result is written to memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from burnpy.backend.plans.executor import INDEXED, INTEGER_PRODUCTS, Executor, Launch, NodeLaunch
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
    values: Mapping[int, Any],
    bounds: Mapping[int, tuple[int, int]],
    executor: Executor,
) -> list[Any]:
    """Return the units, with operations and the groups that follow them as one unit where the executor can.

    The operation runs when the group does. Its result may be reshaped in between, and zeros around
    the images of a convolution are left to it.

    Args:
        units: the units, in the order in which they run.
        outputs: the outputs.
        launches: the launches of groups.
        values: the primitives that are the same in each replay, by the numbers of their values.
        bounds: the least and the largest possible element of ints that were checked, by number.
        executor: what computes them.
    """
    makers = _makers(units, values, executor)
    uses = Counter(ref.number for ref in outputs)
    for unit in units:
        if isinstance(unit, Group):
            signature = launches[id(unit)][1]
            uses.update(ref.number for ref in (*signature.arrays, *signature.numbers))
        else:
            uses.update(ref.number for ref in refs_in(unit.node.args))
    gone: set[int] = set()
    kept: list[Any] = []
    for unit in units:
        kept.append(unit)
        if not isinstance(unit, Group):
            continue
        signature = launches[id(unit)][1]
        for maker, replaced in _makers_read_by(signature, makers):
            read_once = all(uses[each.node.results.number] == 1 for each in replaced)
            launch = executor.finished(maker, signature, values, bounds) if read_once else None
            if launch is not None:
                gone.update(map(id, replaced))
                kept[-1] = Finished(maker, unit, signature, launch)
                break
    return [unit for unit in kept if id(unit) not in gone]


def _makers(units: Sequence[Any], values: Mapping[int, Any], executor: Executor) -> dict[int, list[_Maker]]:
    """Return the operations that may be computed with what follows, by the numbers of their results, the best first."""
    singles: dict[int, Single] = {}  # by the values that they make
    makers: dict[int, list[_Maker]] = {}
    for unit in units:
        if isinstance(unit, Group) or unit.node.results.__class__ is not Ref:
            continue
        node, result = unit.node, unit.node.results
        op = operations().get(node.name)
        if op is None:
            continue
        singles[result.number] = unit
        if op.product:
            bare = _unpadded(node, singles, values)
            makers[result.number] = [] if bare is None else [bare._replace(units=[*bare.units, unit])]
            makers[result.number].append(_Maker(node, [unit]))
        elif node.name in (*INDEXED, *INTEGER_PRODUCTS):
            makers[result.number] = [_Maker(node, [unit])]
        elif node.name == "reshape":  # the same memory, see `multiplied`
            makers[result.number] = [
                _Maker(Node(made.name, made.args, result, made.effect, made.line), [*replaced, unit])
                for made, replaced in makers.get(node.args[0].number, ())
                if made.name in (*INDEXED, *INTEGER_PRODUCTS) or (made.name == "matmul" and executor.multiplies_pixels)
            ]
    return makers


def _makers_read_by(signature: Signature, makers: Mapping[int, list[_Maker]]) -> Iterator[_Maker]:
    """Yield the makers of the values that a group reads, the last value first, as that needs no other order."""
    for ref in sorted(signature.arrays, key=lambda ref: -ref.number):
        if _fits(signature, ref):
            yield from makers.get(ref.number, ())


def _fits(signature: Signature, ref: Ref) -> bool:
    """Return whether a group computes one value of the shape of an array, without numbers."""
    alike = ref.shape == signature.group.domain == signature.outputs[0].shape
    return len(signature.outputs) == 1 and not signature.numbers and alike


class _Maker(NamedTuple):
    """An operation, and the units that it replaces."""

    node: Node
    units: list[Single]


def _unpadded(node: Node, singles: Mapping[int, Single], values: Mapping[int, Any]) -> _Maker | None:
    """Return a convolution that reads images without the zeros around them; None if it is none of such images.

    Its padding is before the images; the size of its result tells how many zeros are after them.
    """
    if node.name not in ("conv2d", "conv2d_bias"):
        return None
    (x, *rest), (stride, padding, *settings) = refs_in(node.args), node.args[-4:]
    placed = singles.get(x.number)
    if placed is None or placed.node.name != "slice_scatter" or any(padding):
        return None
    base, key, images = placed.node.args
    spread = singles.get(base.number)
    zero = None if spread is None or spread.node.name != "expand" else values.get(spread.node.args[0].number)
    if spread is None or zero is None or zero.shape != () or float(zero) != 0.0 or images.__class__ is not Ref:
        return None
    whole = [slice(None)] * (4 - len(key)) if len(key) < 4 else []
    ranges = [range(n)[part] for n, part in zip(x.shape, [*key, *whole], strict=True) if part.__class__ is slice]
    if [len(r) for r in ranges] != list(images.shape) or any(r.step != 1 for r in ranges):
        return None
    before = (ranges[2].start, ranges[3].start)
    args = (images, *rest, stride, before, *settings)
    return _Maker(Node(node.name, args, node.results, node.effect, node.line), [spread, placed])
