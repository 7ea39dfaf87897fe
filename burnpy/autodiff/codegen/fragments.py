"""The fragments of generated source: arguments, calls, results, and the recording of a node with its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from burnpy.autodiff.rule_table import Rule
from burnpy.backend.entries import EMPTY, Argument, Operation
from burnpy.backend.functions import signature
from burnpy.backend.rules import Matrices, Vjp


def parameter(a: Argument) -> str:
    """Generate the parameter of a method for an argument."""
    return a.name if a.default is EMPTY else f"{a.name}=default_{a.name}"


def call_of(op: Operation, values: Iterable[str]) -> str:
    """Generate the call of the inner backend's operation."""
    return f"self.computing.{op.name}({', '.join(values)})"


def value_of(a: Argument) -> str:
    """Generate the primitive that the inner backend gets for an argument."""
    if not a.floats:
        return a.name
    if a.sequence:
        return f"[x.value for x in {a.name}]"
    return f"({a.name}.value if {a.name}.__class__ is Tracked else {a.name})" if a.scalar else f"{a.name}.value"


def call_on_values(op: Operation) -> str:
    """Generate the call of an operation with the float primitives in local variables, ``x_`` for ``x``."""
    return call_of(op, [f"{a.name}_" if a.floats else a.name for a in op.arguments])


def untracked_result(op: Operation, result: str) -> str:
    """Generate the wrapping of a result, or of each member of a list, as untracked."""
    return f"[untracked(x) for x in {result}]" if op.lists else f"untracked({result})"


def untracked_results(op: Operation) -> str:
    """Generate the return statement for several untracked results."""
    results = [(f"results[{k}]", is_float) for k, is_float in enumerate(op.float_results)]
    wraps = [untracked_result(op, result) if is_float else result for result, is_float in results]
    return f"return {', '.join(wraps)}"


def nested(lines: Iterable[str]) -> list[str]:
    """Indent lines, which are the body of the statement before them."""
    return ["    " + line for line in lines]


def tracked_output(meta: str) -> list[str]:
    """Generate the wrapping of ``value`` as a `Tracked` without a node yet."""
    return ["out = Tracked()", "out.value = value", f"out.meta = {meta}"]


def saved_by(op: Operation, vjp: Callable[..., Any], fit: str | None = None) -> str:
    """Generate the expression for the values that a node saves for a vjp, which `graph.saved_tuple` reads. ``fit`` is
    the expression for the argument's shape, saved first for a vjp that undoes broadcasting."""
    saved = [*([] if fit is None else [fit]), *saved_values(op, vjp)]
    if len(saved) == 1 and saved[0] in {"value", *(f"{a.name}_" for a in op.float_arguments)}:
        return saved[0]
    return f"({', '.join(saved)},)" if saved else "()"


def saved_names(vjp: Vjp) -> tuple[str, ...]:
    """Return the names of the values that a vjp needs saved: those of its parameters."""
    return tuple(name for name in list(signature(vjp).parameters)[2:] if name != "needs")


_RESULTS = ("out", "out1", "out2", "out3")


def saved_values(op: Operation, vjp: Callable[..., Any]) -> list[str]:
    """Return the expressions of the values that a vjp needs saved."""
    floats = {a.name for a in op.float_arguments}
    saved = []
    for name in saved_names(vjp):
        base = name.removesuffix("_shape").removesuffix("_dtype")
        if name == "out":
            saved.append("self.computing.product_operand(value)" if "out" in op.product else "value")
        elif name in _RESULTS:
            saved.append(f"results[{_RESULTS.index(name)}]")
        elif name in floats:
            saved.append(f"{name}_")
        elif base in floats and base != name:
            attribute = name.removeprefix(base + "_")
            saved.append(f"{base}.measured()[1]" if attribute == "dtype" else f"{base}_.{attribute}")
        else:
            saved.append(name)
    return saved


EdgeSource: TypeAlias = Callable[[int, str], list[str]]
"""``(slot, parent) -> lines``: generates the assignment of one edge to a slot of a node."""

SILENT = "((mode := self.mode()) is not None and mode.silences(self.level))"
"""The condition under which a mode such as `no_grad` turns recording off; it also sets ``mode``."""
_SHOW = ["if mode is not None:", "    mode.record(self, node, value)"]
CLOSE = ["node.alive = True", "node.seq = next_seq()", *_SHOW, "out.node = node", "return out"]
"""The end of the recording of a node."""


def edge(vjp: str, saved: str) -> EdgeSource:
    """Generate an edge of a vjp and its saved values."""
    return lambda k, parent: [f"node.parent{k} = {parent}", f"node.vjp{k} = {vjp}", f"node.saved{k} = {saved}"]


def fitted_edge(op: Operation, rule: Rule, k: int) -> EdgeSource:
    """Generate the edge of the k-th argument, which undoes broadcasting if its shape is not the result's, ``shape``."""
    meta = f"{op.float_arguments[k].name}_meta[0]"
    own, fitted = (saved_by(op, rule.vjps[k], fit) for fit in (None, meta))
    return lambda slot, parent: [
        f"node.parent{slot} = {parent}",
        f"if shape == {meta}:",
        f"    node.vjp{slot} = vjp{k}",
        f"    node.saved{slot} = {own}",
        "else:",
        f"    node.vjp{slot} = unbroadcast{k}",
        f"    node.saved{slot} = {fitted}",
    ]


def edges_of(op: Operation, rule: Rule | Matrices, prefix: str = "") -> tuple[EdgeSource, EdgeSource]:
    """Generate the two edges of a rule."""
    first, second = (edge(f"{prefix}vjp{k}", saved_by(op, vjp)) for k, vjp in enumerate(rule.vjps))
    return first, second


def one_edge(argument: str, edge: EdgeSource) -> list[str]:
    """Generate the recording of a node where only one float argument can be tracked."""
    return [
        f"parent = {argument}.node",
        f"if parent is None or {SILENT}:",
        "    out.node = None",
        "    return out",
        "node = Kind()",
        *edge(0, "parent"),
        "node.parent1 = None",
        *CLOSE,
    ]


def two_edges(left: str, right: str, edges: tuple[EdgeSource, EdgeSource]) -> list[str]:
    """Generate the recording of a node with two arguments: edges for tracked parents only."""
    return [
        f"parent = {left}.node",
        f"other = {right}.node",
        f"if parent is None and other is None or {SILENT}:",
        "    out.node = None",
        "    return out",
        "node = Kind()",
        "if parent is None:",
        *nested(edges[1](0, "other")),
        "    node.parent1 = None",
        "else:",
        *nested(edges[0](0, "parent")),
        "    if other is None:",
        "        node.parent1 = None",
        "    else:",
        *nested(nested(edges[1](1, "other"))),
        *CLOSE,
    ]


def edge_list() -> list[str]:
    """Generate the recording of a node with a list of edges."""
    return [
        f"if not edges or {SILENT}:",
        "    out.node = None",
        "    return out",
        "node = new_node(Kind, edges)",
        *_SHOW,
        "out.node = node",
        "return out",
    ]
