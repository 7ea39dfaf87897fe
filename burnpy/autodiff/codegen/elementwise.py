"""The generated source of elementwise operations, whose operands broadcast and promote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.autodiff.codegen.expressions import call_on_values, saved_by, tracked_output
from burnpy.autodiff.codegen.recording import edge, edge_list, edges_of, fitted_edge, one_edge, two_edges
from burnpy.backend.entries import Operation

if TYPE_CHECKING:
    from burnpy.autodiff.rules import Rule


def elementwise(op: Operation, rule: Rule) -> list[str]:
    """Generate a method with several arguments that broadcast; its float arguments promote.

    The adjoints of broadcasting and promotion are recorded only where shapes or dtypes differ.
    """
    floats = list(op.float_arguments)
    if len(floats) > 2:
        return _elementwise_many(op, rule)
    left, right = floats[0].name, floats[-1].name
    alone = sum(a.elementwise for a in op.arguments) == 2 == len(floats)  # nothing else broadcasts
    lines = [f"    {left}_ = {left}.value"]
    if len(floats) == 1:
        return [*lines, f"    {left}_meta = {left}.meta or {left}.measured()", *_broadcasting(op, rule, 1, "    ")]
    if floats[1].scalar:
        lines += [f"    if {right}.__class__ is not Tracked:", f"        {right}_ = {right}"]
        if alone:
            lines += [
                f"        value = {call_on_values(op)}",
                *tracked_output(f"{left}.meta", "        "),
                *one_edge(left, edge("vjp0", saved_by(op, rule.vjps[0])), "        "),
            ]
        else:
            lines += [
                f"        {left}_meta = {left}.meta or {left}.measured()",
                *_broadcasting(op, rule, 1, "        "),
            ]
    indent = "    " if not alone else "        "
    lines.append(f"    {right}_ = {right}.value")
    if alone:
        lines += [f"    meta = {left}.meta", f"    if meta is not {right}.meta or meta is None:"]
    lines += [
        f"{indent}{left}_meta = {left}.meta or {left}.measured()",
        f"{indent}{right}_meta = {right}.meta or {right}.measured()",
        f"{indent}if {left}_meta[1] != {right}_meta[1]:",
        f"{indent}    {left}, {right} = self.promote({left}, {right})",
        f"{indent}    return self.{op.name}({', '.join(a.name for a in op.arguments)})",
    ]
    if not alone:
        return [*lines, *_broadcasting(op, rule, 2, "    ")]
    return [
        *lines,
        f"        if {left}_meta[0] != {right}_meta[0]:",
        *_broadcasting(op, rule, 2, "            "),
        f"        meta = {right}.meta = {left}_meta",
        f"    value = {call_on_values(op)}",
        *tracked_output("meta", "    "),
        *two_edges(left, right, edges_of(op, rule), "    "),
    ]


def _broadcasting(op: Operation, rule: Rule, count: int, indent: str) -> list[str]:
    """Generate the call of an elementwise operation, and the recording of its ``count`` float arguments (one or two).

    Any of them may differ from the result in shape.
    """
    floats = [a.name for a in op.float_arguments[:count]]
    metas = " else ".join(f"{a}_meta if shape == {a}_meta[0]" for a in floats)
    edges = [fitted_edge(op, rule, k) for k in range(count)]
    return [
        f"{indent}value = {call_on_values(op)}",
        f"{indent}shape = value.shape",
        *tracked_output(f"{metas} else (shape, {floats[0]}_meta[1])", indent),
        *(
            one_edge(floats[0], edges[0], indent)
            if count == 1
            else two_edges(floats[0], floats[1], (edges[0], edges[1]), indent)
        ),
    ]


def _elementwise_many(op: Operation, rule: Rule) -> list[str]:
    """Generate a method with three float arguments or more that broadcast and promote, or are numbers.

    A number has no node, and the first argument's shape and dtype.
    """
    floats = [a.name for a in op.float_arguments]
    first, names = floats[0], ", ".join(floats)
    lines = []
    for a in op.float_arguments:
        read = f"{a.name}.value, {a.name}.meta or {a.name}.measured(), {a.name}.node"
        if a.scalar:
            read = f"({read}) if {a.name}.__class__ is Tracked else ({a.name}, {first}_meta, None)"
        lines.append(f"    {a.name}_, {a.name}_meta, {a.name}_node = {read}")
    metas = " else ".join(f"{a}_meta if shape == {a}_meta[0]" for a in floats)
    lines += [
        f"    if {' or '.join(f'{first}_meta[1] != {a}_meta[1]' for a in floats[1:])}:",
        f"        {names} = promoted(self, {names})",
        f"        return self.{op.name}({', '.join(a.name for a in op.arguments)})",
        f"    value = {call_on_values(op)}",
        "    shape = value.shape",
        *tracked_output(f"{metas} else (shape, {first}_meta[1])", "    "),
        "    edges = []",
    ]
    for k, (name, vjp) in enumerate(zip(floats, rule.vjps, strict=True)):
        saved, fitted = saved_by(op, vjp), saved_by(op, vjp, f"{name}_meta[0]")
        lines += [
            f"    if {name}_node is not None:",
            f"        same = shape == {name}_meta[0]",
            f"        edges.append(({name}_node, *((vjp{k}, {saved}) if same else (unbroadcast{k}, {fitted}))))",
        ]
    return [*lines, *("    " + line for line in edge_list())]
