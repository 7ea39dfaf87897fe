"""The generated source of a method for each kind of operation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from burnpy.autodiff.codegen.fragments import (
    CLOSE,
    SILENT,
    call_of,
    call_on_values,
    edge,
    edge_list,
    edges_of,
    fitted_edge,
    nested,
    one_edge,
    parameter,
    saved_by,
    saved_values,
    tracked_output,
    two_edges,
    untracked_result,
    untracked_results,
    value_of,
)
from burnpy.autodiff.rule_table import RULES, Rule
from burnpy.backend.backend import Backend
from burnpy.backend.entries import Operation, operation
from burnpy.backend.functions import signature

if TYPE_CHECKING:
    from burnpy.backend.rules import Matrices


def source(name: str, *, first: bool = False) -> str:
    """Return the source text of the method for one operation; with ``first``, of `Autodiff.first_result` of it."""
    op = operation(getattr(Backend, name))
    rule = RULES.get(name)
    if (
        not op.float_arguments
        or not any(op.float_results)
        or (rule is None and op.algebra.value == "nondifferentiable")
    ):
        body = _unrecorded(op)
    elif any(a.sequence for a in op.float_arguments):
        body = _sequence(op, rule) if rule else _sequence_default(op)
    elif rule is None:
        body = _defaulted(op)
    elif rule.joint is not None:
        body = _first_of_joint(op, rule.joint) if first else _joint(op, rule.joint)
    elif op.elementwise and sum(a.elementwise for a in op.arguments) > 1:
        body = _elementwise(op, rule)
    elif len(rule.vjps) > 2:
        body = _many(op, rule)
    else:
        body = _recorded(op, rule)
    return "\n".join([f"def {name}({', '.join(['self', *map(parameter, op.arguments)])}):", *nested(body)])


def _unrecorded(op: Operation) -> list[str]:
    call = call_of(op, map(value_of, op.arguments))
    if not any(op.float_results):
        return [f"return {call}"]
    if len(op.results) > 1:
        return [f"results = {call}", untracked_results(op)]
    return [f"return {untracked_result(op, call)}"]


def _defaulted(op: Operation) -> list[str]:
    """Generate a method without a rule: the inner backend's operation if nothing is tracked, else the default. The
    default is made of other operations, which are recorded."""
    untracked = [
        f"({a.name}.__class__ is not Tracked or {a.name}.node is None)" if a.scalar else f"{a.name}.node is None"
        for a in op.float_arguments
    ]
    lines = [f"if {' and '.join(untracked)}:"]
    call = call_of(op, map(value_of, op.arguments))
    if len(op.results) == 1:
        lines.append(f"    return untracked({call})")
    else:
        lines += [f"    results = {call}", f"    {untracked_results(op)}"]
    return [*lines, f"return default(self, {', '.join(a.name for a in op.arguments)})"]


def _recorded(op: Operation, rule: Rule) -> list[str]:
    """Generate a method with one float argument, or with two whose vjps undo broadcasting themselves."""
    first = op.float_arguments[0]
    left, meta = first.name, f"{first.name}.meta" if op.elementwise else "None"
    edge0 = edge("vjp0", saved_by(op, rule.vjps[0]))
    read, call = [f"{left}_ = {left}.value"], f"value = {call_on_values(op)}"
    if len(rule.vjps) == 1:
        if f"{left}_" not in saved_by(op, rule.vjps[0]):
            read, call = [], f"value = {call_of(op, map(value_of, op.arguments))}"
        return [*read, call, *tracked_output(meta), *one_edge(left, edge0)]
    second = op.float_arguments[1]
    right, lines = second.name, read
    if second.scalar:
        number = [f"{right}_ = {right}", call, *tracked_output(meta), *one_edge(left, edge0)]
        lines += [f"if {right}.__class__ is not Tracked:", *nested(number)]
    lines += [f"{right}_ = {right}.value", call, *tracked_output(meta)]
    if rule.matrices is not None:
        lines += _matrices(op, rule.matrices, left, right)
    return [*lines, *two_edges(left, right, edges_of(op, rule))]


def _matrices(op: Operation, rule: Matrices, left: str, right: str) -> list[str]:
    """Generate the branch of a product for two matrices of one dtype, whose result's shape follows from theirs."""
    row, column = f"{left}_shape[{rule.dims[0]}]", f"{right}_shape[{rule.dims[1]}]"
    same = [f"{size} == {left}_shape[{k}]" for k, size in enumerate((row, column)) if size != f"{left}_shape[{k}]"]
    return [
        f"{left}_shape, {left}_dtype = meta = {left}.meta or {left}.measured()",
        f"{right}_shape, {right}_dtype = {right}.meta or {right}.measured()",
        f"if {left}_dtype is {right}_dtype and len({left}_shape) == 2 == len({right}_shape):",
        f"    out.meta = meta if {' and '.join(same)} else (({row}, {column}), {left}_dtype)",
        *nested(two_edges(left, right, edges_of(op, rule, "matrix_"))),
    ]


def _many(op: Operation, rule: Rule) -> list[str]:
    """Generate a method with three float arguments or more: an edge for each that is tracked."""
    lines = [f"{a.name}_ = {a.name}.value" for a in op.float_arguments]
    lines += [f"value = {call_on_values(op)}", *tracked_output("None"), "edges = []"]
    edges = [_edge_of(op, rule, k) for k in range(len(op.float_arguments))]
    if rule.last_two is None:
        return [*lines, *chain(*edges), *edge_list()]
    one, two = (f"{a.name}.node" for a in op.float_arguments[1:])
    return [
        *lines,
        *edges[0],
        f"if {one} is not None and {two} is not None:",
        f"    both = relayed(({one}, {two}), Kind.relay, (first_vjp, second_vjp))",
        f"    edges.append((both, hand_on, {saved_by(op, rule.last_two)}))",
        "else:",
        *nested([*edges[1], *edges[2]]),
        *edge_list(),
    ]


def _edge_of(op: Operation, rule: Rule, k: int) -> list[str]:
    """Generate the edge of the k-th of many arguments, for a list of edges."""
    node = f"{op.float_arguments[k].name}.node"
    return [f"if {node} is not None:", f"    edges.append(({node}, vjp{k}, {saved_by(op, rule.vjps[k])}))"]


def _joint(op: Operation, vjp: Callable[..., Any]) -> list[str]:
    """Generate a method whose results' gradients go to all arguments through one joint vjp."""
    nodes = ", ".join(f"{a.name}.node" for a in op.float_arguments)
    floats = [k for k, is_float in enumerate(op.float_results) if is_float]
    outs = [f"outs[{floats.index(k)}]" if k in floats else f"results[{k}]" for k in range(len(op.results))]
    return [
        *[f"{a.name}_ = {a.name}.value" for a in op.float_arguments],
        f"results = {call_on_values(op)}" + ("," if len(op.results) == 1 else ""),
        f"needs = ({' '.join(f'{a.name}.node is not None,' for a in op.float_arguments)})",
        f"if True not in needs or {SILENT}:",
        f"    {untracked_results(op)}",
        "value = results[0]",
        f"parents = ({nodes},)",
        "if False in needs:",
        "    parents = [node for node in parents if node is not None]",
        f"values = ({' '.join(f'results[{k}],' for k in floats)})",
        f"saved = ({', '.join(['needs', *saved_values(op, vjp)])},)",
        "outs = record_outputs(self, Kind, values, parents, joint, saved)",
        f"return {', '.join(outs)}",
    ]


def _first_of_joint(op: Operation, vjp: Callable[..., Any]) -> list[str]:
    """Generate a method that returns the first result of an operation with a joint vjp, and records it alone."""
    needs = ", ".join(f"{a.name}.node is not None" for a in op.float_arguments)
    return [
        *[f"{a.name}_ = {a.name}.value" for a in op.float_arguments],
        f"results = {call_on_values(op)}",
        "value = results[0]",
        *tracked_output("None"),
        f"needs = ({needs},)",
        f"if True not in needs or {SILENT}:",
        "    out.node = None",
        "    return out",
        "node = Kind()",
        f"node.parent0 = joined(({', '.join(f'{a.name}.node' for a in op.float_arguments)},), needs)",
        "node.vjp0 = first_vjp",
        f"node.saved0 = ({', '.join(['needs', *saved_values(op, vjp)])},)",
        "node.parent1 = None",
        *CLOSE,
    ]


def _sequence(op: Operation, rule: Rule) -> list[str]:
    """Generate the recording of ``cat`` or ``stack``: an edge for each tracked member. Its vjp gets the member's shape
    and offset along ``dim``, or its place among the members."""
    saved = ", ".join(signature(rule.vjps[0]).parameters).removeprefix("i, g, ")
    offset = "start" in saved
    return [
        f"values, edges, {'start' if offset else 'place'} = [], [], 0",
        "for x in xs:",
        f"    values.append({'x_ := ' if offset else ''}x.value)",
        *(["    x_shape = x_.shape"] if offset else []),
        "    if x.node is not None:",
        f"        edges.append((x.node, vjp0, ({saved})))",
        f"    {'start += x_shape[dim]' if offset else 'place += 1'}",
        f"value = {call_of(op, ['values', 'dim'])}",
        *tracked_output("None"),
        *edge_list(),
    ]


def _sequence_default(op: Operation) -> list[str]:
    """Generate a method without a rule with arguments that are sequences, in which ints and bools may be too."""
    values = [
        f"[x.value if x.__class__ is Tracked else x for x in {a.name}]" if a.sequence else value_of(a)
        for a in op.arguments
    ]
    xs = ", ".join(f"*{a.name}" if a.sequence else a.name for a in op.arguments if a.sequence or a.floats)
    return [
        f"if all([x.__class__ is not Tracked or x.node is None for x in ({xs},)]):",
        f"    return {untracked_result(op, call_of(op, values))}",
        f"return default(self, {', '.join(a.name for a in op.arguments)})",
    ]


def _elementwise(op: Operation, rule: Rule) -> list[str]:
    """Generate a method with several arguments that broadcast; its float arguments promote. The adjoints of
    broadcasting and promotion are recorded only where shapes or dtypes differ."""
    floats = list(op.float_arguments)
    if len(floats) > 2:
        return _elementwise_many(op, rule)
    left, right = floats[0].name, floats[-1].name
    left_meta = f"{left}_meta = {left}.meta or {left}.measured()"
    lines = [f"{left}_ = {left}.value"]
    if len(floats) == 1:
        return [*lines, left_meta, *_broadcasting(op, rule, 1)]
    alone = sum(a.elementwise for a in op.arguments) == 2  # nothing else broadcasts
    value = f"value = {call_on_values(op)}"
    if floats[1].scalar:
        number = [left_meta, *_broadcasting(op, rule, 1)]
        if alone:
            output = tracked_output(f"{left}.meta")
            number = [value, *output, *one_edge(left, edge("vjp0", saved_by(op, rule.vjps[0])))]
        lines += [f"if {right}.__class__ is not Tracked:", *nested([f"{right}_ = {right}", *number])]
    lines.append(f"{right}_ = {right}.value")
    of_one_dtype = [
        left_meta,
        f"{right}_meta = {right}.meta or {right}.measured()",
        f"if {left}_meta[1] != {right}_meta[1]:",
        f"    {left}, {right} = self.promote({left}, {right})",
        f"    return self.{op.name}({', '.join(a.name for a in op.arguments)})",
    ]
    if not alone:
        return [*lines, *of_one_dtype, *_broadcasting(op, rule, 2)]
    return [
        *lines,
        f"meta = {left}.meta",
        f"if meta is not {right}.meta or meta is None:",
        *nested(of_one_dtype),
        f"    if {left}_meta[0] != {right}_meta[0]:",
        *nested(nested(_broadcasting(op, rule, 2))),
        f"    meta = {right}.meta = {left}_meta",
        value,
        *tracked_output("meta"),
        *two_edges(left, right, edges_of(op, rule)),
    ]


def _broadcasting(op: Operation, rule: Rule, count: int) -> list[str]:
    """Generate the call of an elementwise operation, and the recording of its ``count`` float arguments (one or two).
    Any of them may differ from the result in shape."""
    floats = [a.name for a in op.float_arguments[:count]]
    metas = " else ".join(f"{a}_meta if shape == {a}_meta[0]" for a in floats)
    edges = [fitted_edge(op, rule, k) for k in range(count)]
    return [
        f"value = {call_on_values(op)}",
        "shape = value.shape",
        *tracked_output(f"{metas} else (shape, {floats[0]}_meta[1])"),
        *(one_edge(floats[0], edges[0]) if count == 1 else two_edges(floats[0], floats[1], (edges[0], edges[1]))),
    ]


def _elementwise_many(op: Operation, rule: Rule) -> list[str]:
    """Generate a method with three float arguments or more that broadcast and promote, or are numbers. A number has no
    node, and the first argument's shape and dtype."""
    floats = [a.name for a in op.float_arguments]
    first, names = floats[0], ", ".join(floats)
    lines = []
    for a in op.float_arguments:
        read = f"{a.name}.value, {a.name}.meta or {a.name}.measured(), {a.name}.node"
        if a.scalar:
            read = f"({read}) if {a.name}.__class__ is Tracked else ({a.name}, {first}_meta, None)"
        lines.append(f"{a.name}_, {a.name}_meta, {a.name}_node = {read}")
    metas = " else ".join(f"{a}_meta if shape == {a}_meta[0]" for a in floats)
    lines += [
        f"if {' or '.join(f'{first}_meta[1] != {a}_meta[1]' for a in floats[1:])}:",
        f"    {names} = promoted(self, {names})",
        f"    return self.{op.name}({', '.join(a.name for a in op.arguments)})",
        f"value = {call_on_values(op)}",
        "shape = value.shape",
        *tracked_output(f"{metas} else (shape, {first}_meta[1])"),
        "edges = []",
    ]
    for k, (name, vjp) in enumerate(zip(floats, rule.vjps, strict=True)):
        saved, fitted = saved_by(op, vjp), saved_by(op, vjp, f"{name}_meta[0]")
        lines += [
            f"if {name}_node is not None:",
            f"    same = shape == {name}_meta[0]",
            f"    edges.append(({name}_node, *((vjp{k}, {saved}) if same else (unbroadcast{k}, {fitted}))))",
        ]
    return [*lines, *edge_list()]
