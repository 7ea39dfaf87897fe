"""`split`: a recording of a function and its gradient, as one recording of the function and one of the gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from burnpy.backend.plans.graph import operations
from burnpy.backend.plans.recording import Node, Recording, Ref, refs_in


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
        results = list(refs_in(node.results))
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
