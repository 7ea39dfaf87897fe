"""`parts_of`: the parts of a plan for its explanation, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from burnpy.backend.call_origin import Line, lines_of
from burnpy.backend.plans.explain import OperationPart, PlanExplanation, ProgramPart
from burnpy.backend.plans.finishing import Finished
from burnpy.backend.plans.fusing import DTYPES, step_of
from burnpy.backend.plans.graph import operations
from burnpy.backend.plans.grouping import Group
from burnpy.backend.plans.recording import Node, refs_in

_VIEWS = ("reshape", "permute", "slice", "expand", "detach")
_HELPERS = {
    "on_host": "arithmetic of a few numbers, in Python",
    "foreach": "a formula for all parameters, which has a kernel of its own",
    "defer_check": "a check of values",
    "bounded": "a check of indices",
    "bounded_and_counted": "a check of indices, and a mask of those that count",
    "unrolled": "operations on few elements, one number at a time",
    "statistics_update": "counts the updates, and updates averages",
}
"""Why some calls are no parts of programs."""


def parts_of(writer: Any) -> Iterator[ProgramPart | OperationPart]:
    """Yield the parts of a plan, given its `burnpy.backend.plans.writer.Writer`."""
    for unit in writer.units:
        if isinstance(unit, (Group, Finished)):
            group = unit.group if isinstance(unit, Finished) else unit
            program = writer.launches[id(group)][1].program
            names = tuple([node.name for node in unit.nodes])
            yield ProgramPart(program.name, names, group.domain, group.split, _line(unit.nodes[-1]), program.text)
        else:
            yield _operation(writer, unit.node)


def _operation(writer: Any, node: Node) -> OperationPart:
    name, inside = node.name, tuple[PlanExplanation, ...]()
    if name == "nested":
        block = node.args[0]
        name, inside = block.description, tuple([plan.explanation() for plan in block.plans(writer.device)])
    elif name in ("foreach", "on_host"):
        name = f"{name} {getattr(node.args[0], '__name__', '').strip('_')}".strip()
    shapes = tuple([ref.shape for ref in refs_in(node.results)])
    return OperationPart(name, shapes, _line(node), _reason(writer, node), inside)


def _line(node: Node) -> Line | None:
    lines = lines_of(node.line)
    return lines[-1] if lines else None


def _reason(writer: Any, node: Node) -> str:
    """Return why a node is no part of a program."""
    op = operations().get(node.name)
    if node.name in _HELPERS:
        return _HELPERS[node.name]
    if node.name == "nested":
        return "plans of their own"
    if node.effect:
        return "draws random numbers" if node.name.startswith("random") else "is done for more than its result"
    if node.name in _VIEWS:
        return "a view or a copy"
    if op is not None and op.product:
        return "a product"
    if id(node) in writer.launched:
        return "a kernel of its own"
    if writer.executor is None:
        return "this device runs plans operation by operation"
    if step_of(node) is None and not (op is not None and op.elementwise):
        return "plans have no such step in a kernel"
    other = next((ref for ref in refs_in((node.args, node.results)) if ref.dtype not in DTYPES), None)
    if other is not None:
        return f"kernels of plans do not compute with {other.dtype}"
    if writer.grouping is None or not writer.launches:
        return "kernels are off, or too small for one"
    return "its shapes are not rows and columns of one array"
