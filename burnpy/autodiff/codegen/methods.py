"""The generated source of a method for each kind of operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from burnpy.autodiff.codegen.elementwise import elementwise
from burnpy.autodiff.codegen.expressions import (
    call_of,
    parameter,
    saved_by,
    saved_values,
    tracked_output,
    untracked_result,
    untracked_results,
    value_of,
)
from burnpy.autodiff.codegen.recording import SILENT, edge, edge_list, edges_of, one_edge, two_edges
from burnpy.backend.backend import Backend
from burnpy.backend.entries import Operation, operation

if TYPE_CHECKING:
    from burnpy.autodiff.rules import Rule
    from burnpy.backend.rules import Matrices


def source(name: str) -> str:
    """Return the source text of the method for one operation."""
    op = operation(getattr(Backend, name))
    rule = rule_of(name)
    lines = [f"def {name}({', '.join(['self', *map(parameter, op.arguments)])}):"]
    if (
        not op.float_arguments
        or not any(op.float_results)
        or (rule is None and op.algebra.value == "nondifferentiable")
    ):
        lines += _unrecorded(op)
    elif any(a.sequence for a in op.float_arguments):
        lines += _sequence(op) if rule else _sequence_default(op)
    elif rule is None:
        lines += _defaulted(op)
    elif rule.joint is not None:
        lines += _joint(op, rule.joint)
    elif op.elementwise and sum(a.elementwise for a in op.arguments) > 1:
        lines += elementwise(op, rule)
    elif len(rule.vjps) > 2:
        lines += _many(op, rule)
    else:
        lines += _recorded(op, rule)
    return "\n".join(lines)


def rule_of(name: str) -> Rule | None:
    """Return the rule of an operation, or None. The table is imported at first use, to keep ``import burnpy`` fast."""
    from burnpy.autodiff.rules import RULES

    return RULES.get(name)


def _unrecorded(op: Operation) -> list[str]:
    call = call_of(op, map(value_of, op.arguments))
    if not any(op.float_results):
        return [f"    return {call}"]
    if len(op.results) > 1:
        return [f"    results = {call}", f"    {untracked_results(op)}"]
    return [f"    return {untracked_result(op, call)}"]


def _defaulted(op: Operation) -> list[str]:
    """Generate a method without a rule: the inner backend's operation if nothing is tracked, else the default.

    The default is made of other operations, which are recorded.
    """
    untracked = [
        f"({a.name}.__class__ is not Tracked or {a.name}.node is None)" if a.scalar else f"{a.name}.node is None"
        for a in op.float_arguments
    ]
    lines = [f"    if {' and '.join(untracked)}:"]
    call = call_of(op, map(value_of, op.arguments))
    if len(op.results) == 1:
        lines.append(f"        return untracked({call})")
    else:
        lines += [f"        results = {call}", f"        {untracked_results(op)}"]
    return [*lines, f"    return default(self, {', '.join(a.name for a in op.arguments)})"]


def _recorded(op: Operation, rule: Rule) -> list[str]:
    """Generate a method with one float argument, or with two whose vjps undo broadcasting themselves."""
    first = op.float_arguments[0]
    meta = f"{first.name}.meta" if op.elementwise else "None"
    if len(rule.vjps) == 1:
        left = first.name
        values = [f"{left}_" if a is first else a.name for a in op.arguments]
        lines = [f"    {left}_ = {left}.value", f"    value = {call_of(op, values)}", *tracked_output(meta, "    ")]
        if f"{left}_" not in saved_by(op, rule.vjps[0]):
            lines = [f"    value = {call_of(op, map(value_of, op.arguments))}", *tracked_output(meta, "    ")]
        return [*lines, *one_edge(left, edge("vjp0", saved_by(op, rule.vjps[0])), "    ")]
    second = op.float_arguments[1]
    left, right = first.name, second.name
    values = [f"{a.name}_" if a.floats else a.name for a in op.arguments]
    lines = [f"    {left}_ = {left}.value"]
    if second.scalar:
        lines += [
            f"    if {right}.__class__ is not Tracked:",
            f"        {right}_ = {right}",
            f"        value = {call_of(op, values)}",
            *tracked_output(meta, "        "),
            *one_edge(left, edge("vjp0", saved_by(op, rule.vjps[0])), "        "),
        ]
    lines += [f"    {right}_ = {right}.value", f"    value = {call_of(op, values)}", *tracked_output(meta, "    ")]
    if rule.matrices is not None:
        lines += _matrices(op, rule.matrices, left, right)
    return [*lines, *two_edges(left, right, edges_of(op, rule), "    ")]


def _matrices(op: Operation, rule: Matrices, left: str, right: str) -> list[str]:
    """Generate the branch of a product for two matrices of one dtype, whose result's shape follows from theirs."""
    row, column = f"{left}_shape[{rule.dims[0]}]", f"{right}_shape[{rule.dims[1]}]"
    same = [f"{size} == {left}_shape[{k}]" for k, size in enumerate((row, column)) if size != f"{left}_shape[{k}]"]
    return [
        f"    {left}_shape, {left}_dtype = meta = {left}.meta or {left}.measured()",
        f"    {right}_shape, {right}_dtype = {right}.meta or {right}.measured()",
        f"    if {left}_dtype is {right}_dtype and len({left}_shape) == 2 == len({right}_shape):",
        f"        out.meta = meta if {' and '.join(same)} else (({row}, {column}), {left}_dtype)",
        *two_edges(left, right, edges_of(op, rule, "matrix_"), "        "),
    ]


def _many(op: Operation, rule: Rule) -> list[str]:
    """Generate a method with three float arguments or more: an edge for each that is tracked."""
    lines = [f"    {a.name}_ = {a.name}.value" for a in op.float_arguments]
    values = [f"{a.name}_" if a.floats else a.name for a in op.arguments]
    lines += [f"    value = {call_of(op, values)}", *tracked_output("None", "    "), "    edges = []"]
    for k, a in enumerate(op.float_arguments):
        lines += [
            f"    if {a.name}.node is not None:",
            f"        edges.append(({a.name}.node, vjp{k}, {saved_by(op, rule.vjps[k])}))",
        ]
    return [*lines, *("    " + line for line in edge_list())]


def _joint(op: Operation, vjp: Callable[..., Any]) -> list[str]:
    """Generate a method whose results' gradients go to all arguments through one joint vjp."""
    lines = [f"    {a.name}_ = {a.name}.value" for a in op.float_arguments]
    values = [f"{a.name}_" if a.floats else a.name for a in op.arguments]
    nodes = ", ".join(f"{a.name}.node" for a in op.float_arguments)
    floats = [k for k, is_float in enumerate(op.float_results) if is_float]
    outs = [f"outs[{floats.index(k)}]" if k in floats else f"results[{k}]" for k in range(len(op.results))]
    return [
        *lines,
        f"    results = {call_of(op, values)}" + ("," if len(op.results) == 1 else ""),
        f"    nodes = ({nodes},)",
        "    parents = [node for node in nodes if node is not None]",
        f"    if not parents or {SILENT}:",
        f"        {untracked_results(op)}",
        "    value = results[0]",
        "    needs = tuple([node is not None for node in nodes])",
        f"    values = [{', '.join(f'results[{k}]' for k in floats)}]",
        f"    saved = ({', '.join(['needs', *saved_values(op, vjp)])},)",
        "    outs = record_outputs(self, Kind, values, parents, joint, saved)",
        f"    return {', '.join(outs)}",
    ]


def _sequence(op: Operation) -> list[str]:
    """Generate the recording of ``cat``: an edge for each tracked member, whose vjp gets its shape and offset."""
    return [
        f"    value = {call_of(op, ['[x.value for x in xs]', 'dim'])}",
        *tracked_output("None", "    "),
        "    edges, start = [], 0",
        "    for x in xs:",
        "        shape = x.value.shape",
        "        if x.node is not None:",
        "            edges.append((x.node, vjp0, (shape, dim, start)))",
        "        start += shape[dim]",
        *("    " + line for line in edge_list()),
    ]


def _sequence_default(op: Operation) -> list[str]:
    """Generate a method without a rule with arguments that are sequences, in which ints and bools may be too."""
    values = [
        f"[x.value if x.__class__ is Tracked else x for x in {a.name}]" if a.sequence else value_of(a)
        for a in op.arguments
    ]
    xs = ", ".join(f"*{a.name}" if a.sequence else a.name for a in op.arguments if a.sequence or a.floats)
    return [
        f"    if all([x.__class__ is not Tracked or x.node is None for x in ({xs},)]):",
        f"        return {untracked_result(op, call_of(op, values))}",
        f"    return default(self, {', '.join(a.name for a in op.arguments)})",
    ]
