"""Methods of `Autodiff`, one for each operation, made of the operation's schema and rule.

A method is written as source text and compiled at its first use, as `dataclasses` does: against closures over a rule
that saves 75 to 150 ns of a tiny operation's 900, and importing burnpy compiles nothing. `source` shows what is made::

    >>> print(source("exp"))
    def exp(self, x):
        value = self.computing.exp(x.value)
        out = Tracked()
        out.value = value
        out.meta = x.meta
        parent = x.node
        if parent is None or ((mode := self.mode()) is not None and mode.silences(self.level)):
            out.node = None
            return out
        node = Kind()
        node.parent0 = parent
        node.vjp0 = vjp0
        node.saved0 = value
        node.parent1 = None
        node.alive = True
        node.seq = next_seq()
        if mode is not None:
            mode.record(self, node, value)
        out.node = node
        return out
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import signature
from typing import TYPE_CHECKING, Any

from burnpy.autodiff.graph import Node, Tracked, new_node, next_seq, untracked
from burnpy.backend.backend import Backend
from burnpy.backend.entries import EMPTY, Argument, Operation, operation
from burnpy.backend.primitives import Float, Shape

if TYPE_CHECKING:
    from burnpy.autodiff.rules import Rule
    from burnpy.autodiff.rules.algebra import Matrices


def compiled(name: str) -> Callable[..., Any]:
    """The method of `Autodiff` for one operation."""
    op = operation(getattr(Backend, name))
    rule = rule_of(name)
    names: dict[str, Any] = {
        "Tracked": Tracked,
        "next_seq": next_seq,
        "untracked": untracked,
        "new_node": new_node,
        "default": op.function,
        "Kind": type(name, (Node,), {"__slots__": (), "operation": name}),
    }
    names |= {f"default_{a.name}": a.default for a in op.arguments if a.default is not EMPTY}
    for k, vjp in enumerate(rule.vjps if rule else ()):
        names[f"vjp{k}"] = vjp
        names[f"unbroadcast{k}"] = unbroadcast(vjp)
    if rule and rule.matrices:
        names["matrix_vjp0"], names["matrix_vjp1"] = rule.matrices.vjps
    if rule and rule.joint:
        from burnpy.autodiff.multi_output import record_outputs

        names |= {"record_outputs": record_outputs, "joint": select_needed(rule.joint)}
    exec(compile(source(name), f"<Autodiff.{name}>", "exec"), names)
    method: Callable[..., Any] = names[name]
    method.__doc__ = op.function.__doc__
    method.__qualname__ = f"Autodiff.{name}"
    method.__module__ = __name__
    return method


def rule_of(name: str) -> Rule | None:
    """The rule of an operation. The table is made at first use: importing burnpy should not wait for it."""
    from burnpy.autodiff.rules import RULES

    return RULES.get(name)


def unbroadcast(vjp: Callable[..., Any]) -> Callable[..., Any]:
    """The adjoint of broadcasting, for any vjp: used only where an argument's shape is not the result's."""

    def vjp_and_sum(inner: Any, grad: Float, shape: Shape, *kept: Any) -> Float:
        part = vjp(inner, grad, *kept)
        return part if part.shape == shape else inner.sum_to(part, shape)

    vjp_and_sum.unbroadcasts = vjp  # type: ignore[attr-defined]  # for those who look at graphs
    return vjp_and_sum


def select_needed(vjp: Callable[..., Any]) -> Callable[..., Any]:
    """A joint vjp that gives the gradients of the tracked arguments alone."""

    def vjp_and_select(inner: Any, grads: Any, needs: tuple[bool, ...], *kept: Any) -> tuple[Float, ...]:
        parts = vjp(inner, grads, needs, *kept)
        return tuple([part for part, needed in zip(parts, needs, strict=True) if needed])

    return vjp_and_select


def source(name: str) -> str:
    """The source text of the method for one operation."""
    op = operation(getattr(Backend, name))
    rule = rule_of(name)
    lines = [f"def {name}({', '.join(['self', *map(_parameter, op.arguments)])}):"]
    if any(a.sequence for a in op.float_arguments):
        lines += _of_a_sequence(op)
    elif (
        not op.float_arguments
        or not any(op.float_results)
        or (rule is None and op.algebra.value == "nondifferentiable")
    ):
        lines += _unrecorded(op)
    elif rule is None:
        lines += _defaulted(op)
    elif rule.joint is not None:
        lines += _joint(op, rule.joint)
    elif len(rule.vjps) > 2:
        lines += _many(op, rule)
    elif op.elementwise and len(rule.vjps) == 2:
        lines += _elementwise_binary(op, rule)
    else:
        lines += _recorded(op, rule)
    return "\n".join(lines)


def _parameter(a: Argument) -> str:
    return a.name if a.default is EMPTY else f"{a.name}=default_{a.name}"


def _call(op: Operation, values: Iterable[str]) -> str:
    return f"self.computing.{op.name}({', '.join(values)})"


def _value(a: Argument) -> str:
    if not a.floats:
        return a.name
    return f"({a.name}.value if {a.name}.__class__ is Tracked else {a.name})" if a.scalar else f"{a.name}.value"


def _unrecorded(op: Operation) -> list[str]:
    call = _call(op, map(_value, op.arguments))
    if not any(op.float_results):
        return [f"    return {call}"]
    if len(op.results) > 1:
        return [f"    results = {call}", f"    {_wrapped_results(op)}"]
    return [f"    return untracked({call})"]


def _wrapped_results(op: Operation) -> str:
    """Several results, untracked."""
    wraps = [f"untracked(results[{k}])" if is_float else f"results[{k}]" for k, is_float in enumerate(op.float_results)]
    return f"return {', '.join(wraps)}"


def _defaulted(op: Operation) -> list[str]:
    """No rule: the inner backend's own operation where nothing is tracked, else the default, which is recorded."""
    untracked = [
        f"({a.name}.__class__ is not Tracked or {a.name}.node is None)" if a.scalar else f"{a.name}.node is None"
        for a in op.float_arguments
    ]
    lines = [f"    if {' and '.join(untracked)}:"]
    call = _call(op, map(_value, op.arguments))
    if len(op.results) == 1:
        lines.append(f"        return untracked({call})")
    else:
        lines += [f"        results = {call}", f"        {_wrapped_results(op)}"]
    return [*lines, f"    return default(self, {', '.join(a.name for a in op.arguments)})"]


def _kept(op: Operation, vjp: Callable[..., Any], fit: str | None = None) -> str:
    """What a node keeps for a vjp: one primitive, or a tuple; see `burnpy.autodiff.graph.kept_of`."""
    kept = [*([] if fit is None else [fit]), *_all_kept(op, vjp)]
    if len(kept) == 1 and kept[0] in {"value", *(f"{a.name}_" for a in op.float_arguments)}:
        return kept[0]
    return f"({', '.join(kept)},)" if kept else "()"


def _all_kept(op: Operation, vjp: Callable[..., Any]) -> list[str]:
    """What a vjp keeps, read off the names of its parameters."""
    floats = {a.name for a in op.float_arguments}
    kept = []
    for name in list(signature(vjp).parameters)[2:]:
        if name == "needs":
            continue
        base = name.removesuffix("_shape").removesuffix("_dtype")
        if name == "out":
            kept.append("value")
        elif name in _RESULTS:
            kept.append(f"results[{_RESULTS.index(name)}]")
        elif name in floats:
            kept.append(f"{name}_")
        elif base in floats and base != name:
            kept.append(f"{base}_.{name.removeprefix(base + '_')}")
        else:
            kept.append(name)
    return kept


_RESULTS = ("out", "out1", "out2", "out3")


def _edge(k: int, parent: str, vjp: str, kept: str) -> list[str]:
    return [f"node.parent{k} = {parent}", f"node.vjp{k} = {vjp}", f"node.saved{k} = {kept}"]


_SILENT = "((mode := self.mode()) is not None and mode.silences(self.level))"
_SHOW = ["if mode is not None:", "    mode.record(self, node, value)"]
_CLOSE = ["node.alive = True", "node.seq = next_seq()", *_SHOW, "out.node = node", "return out"]


def _one_edge(op: Operation, k: int, argument: str, rule: Rule, indent: str) -> list[str]:
    """Recording where only the k-th float argument can be tracked."""
    lines = [
        f"parent = {argument}.node",
        f"if parent is None or {_SILENT}:",
        "    out.node = None",
        "    return out",
        "node = Kind()",
        *_edge(0, "parent", f"vjp{k}", _kept(op, rule.vjps[k])),
        "node.parent1 = None",
        *_CLOSE,
    ]
    return [indent + line for line in lines]


def _output(meta: str, indent: str) -> list[str]:
    return [indent + line for line in ("out = Tracked()", "out.value = value", f"out.meta = {meta}")]


def _recorded(op: Operation, rule: Rule) -> list[str]:
    """One float argument, or two whose vjps see to their shapes themselves."""
    first = op.float_arguments[0]
    meta = f"{first.name}.meta" if op.elementwise else "None"
    if len(rule.vjps) == 1:
        one = first.name
        values = [f"{one}_" if a is first else a.name for a in op.arguments]
        lines = [f"    {one}_ = {one}.value", f"    value = {_call(op, values)}", *_output(meta, "    ")]
        if f"{one}_" not in _kept(op, rule.vjps[0]):
            lines = [f"    value = {_call(op, map(_value, op.arguments))}", *_output(meta, "    ")]
        return [*lines, *_one_edge(op, 0, one, rule, "    ")]
    second = op.float_arguments[1]
    one, two = first.name, second.name
    values = [f"{a.name}_" if a.floats else a.name for a in op.arguments]
    lines = [f"    {one}_ = {one}.value"]
    if second.scalar:
        lines += [
            f"    if {two}.__class__ is not Tracked:",
            f"        {two}_ = {two}",
            f"        value = {_call(op, values)}",
            *_output(meta, "        "),
            *_one_edge(op, 0, one, rule, "        "),
        ]
    lines += [f"    {two}_ = {two}.value", f"    value = {_call(op, values)}", *_output(meta, "    ")]
    if rule.matrices is not None:
        lines += _matrices(op, rule.matrices, one, two)
    kepts = [_kept(op, vjp) for vjp in rule.vjps]
    return [*lines, *_two_edges(one, two, ("vjp0", "vjp1"), (kepts[0], kepts[1]))]


def _matrices(op: Operation, rule: Matrices, one: str, two: str) -> list[str]:
    """The branch of a product for two matrices of one dtype, whose result's shape follows from theirs."""
    kept0, kept1 = (_kept(op, vjp) for vjp in rule.vjps)
    row, column = f"{one}_shape[{rule.dims[0]}]", f"{two}_shape[{rule.dims[1]}]"
    same = [f"{had} == {one}_shape[{k}]" for k, had in enumerate((row, column)) if had != f"{one}_shape[{k}]"]
    return [
        f"    {one}_shape, {one}_dtype = meta = {one}.meta or {one}.measured()",
        f"    {two}_shape, {two}_dtype = {two}.meta or {two}.measured()",
        f"    if {one}_dtype is {two}_dtype and len({one}_shape) == 2 == len({two}_shape):",
        f"        out.meta = meta if {' and '.join(same)} else (({row}, {column}), {one}_dtype)",
        *("    " + line for line in _two_edges(one, two, ("matrix_vjp0", "matrix_vjp1"), (kept0, kept1))),
    ]


def _two_edges(one: str, two: str, vjps: tuple[str, str], kepts: tuple[str, str]) -> list[str]:
    """Recording where either of two arguments, or both, can be tracked: edges for tracked parents only."""
    first, second = [_edge(0, "parent", vjps[0], kepts[0]), _edge(0, "other", vjps[1], kepts[1])]
    lines = [
        f"parent = {one}.node",
        f"other = {two}.node",
        f"if parent is None and other is None or {_SILENT}:",
        "    out.node = None",
        "    return out",
        "node = Kind()",
        "if parent is None:",
        *("    " + line for line in second),
        "    node.parent1 = None",
        "else:",
        *("    " + line for line in first),
        "    if other is None:",
        "        node.parent1 = None",
        "    else:",
        *("        " + line for line in _edge(1, "other", vjps[1], kepts[1])),
        *_CLOSE,
    ]
    return ["    " + line for line in lines]


def _linked() -> list[str]:
    """Recording a list of edges."""
    return [
        f"if not edges or {_SILENT}:",
        "    out.node = None",
        "    return out",
        "node = new_node(Kind, edges)",
        *_SHOW,
        "out.node = node",
        "return out",
    ]


def _many(op: Operation, rule: Rule) -> list[str]:
    """Three float arguments or more: an edge for each that is tracked."""
    lines = [f"    {a.name}_ = {a.name}.value" for a in op.float_arguments]
    values = [f"{a.name}_" if a.floats else a.name for a in op.arguments]
    lines += [f"    value = {_call(op, values)}", *_output("None", "    "), "    edges = []"]
    for k, a in enumerate(op.float_arguments):
        lines += [
            f"    if {a.name}.node is not None:",
            f"        edges.append(({a.name}.node, vjp{k}, {_kept(op, rule.vjps[k])}))",
        ]
    return [*lines, *("    " + line for line in _linked())]


def _joint(op: Operation, vjp: Callable[..., Any]) -> list[str]:
    """Several results, whose gradients go to all arguments through one vjp."""
    lines = [f"    {a.name}_ = {a.name}.value" for a in op.float_arguments]
    values = [f"{a.name}_" if a.floats else a.name for a in op.arguments]
    nodes = ", ".join(f"{a.name}.node" for a in op.float_arguments)
    floats = [k for k, is_float in enumerate(op.float_results) if is_float]
    outs = [f"outs[{floats.index(k)}]" if k in floats else f"results[{k}]" for k in range(len(op.results))]
    return [
        *lines,
        f"    results = {_call(op, values)}" + ("," if len(op.results) == 1 else ""),
        f"    nodes = ({nodes},)",
        "    parents = [node for node in nodes if node is not None]",
        f"    if not parents or {_SILENT}:",
        f"        {_wrapped_results(op)}",
        "    value = results[0]",
        "    needs = tuple([node is not None for node in nodes])",
        f"    values = [{', '.join(f'results[{k}]' for k in floats)}]",
        f"    kept = ({', '.join(['needs', *_all_kept(op, vjp)])},)",
        "    outs = record_outputs(self, Kind, values, parents, joint, kept)",
        f"    return {', '.join(outs)}",
    ]


def _elementwise_binary(op: Operation, rule: Rule) -> list[str]:
    """Two arguments that broadcast and promote; the adjoint of either is entered only where they differ."""
    one, two = (a.name for a in op.float_arguments)
    values = [f"{a.name}_" if a.floats else a.name for a in op.arguments]
    kept0, kept1 = (_kept(op, vjp) for vjp in rule.vjps)
    fit0, fit1 = (_kept(op, vjp, f"{a}_meta[0]") for vjp, a in zip(rule.vjps, (one, two), strict=True))
    scalar = [
        f"    if {two}.__class__ is not Tracked:",
        f"        {two}_ = {two}",
        f"        value = {_call(op, values)}",
        *_output(f"{one}.meta", "        "),
        *_one_edge(op, 0, one, rule, "        "),
    ]
    return [
        f"    {one}_ = {one}.value",
        *(scalar if op.float_arguments[1].scalar else []),
        f"    {two}_ = {two}.value",
        f"    meta = {one}.meta",
        f"    if meta is not {two}.meta or meta is None:",
        f"        {one}_meta = {one}.meta or {one}.measured()",
        f"        {two}_meta = {two}.meta or {two}.measured()",
        f"        if {one}_meta[1] != {two}_meta[1]:",
        f"            return self.{op.name}(*self.promote({one}, {two}))",
        f"        if {one}_meta[0] != {two}_meta[0]:",
        f"            value = {_call(op, values)}",
        "            shape = value.shape",
        f"            same0, same1 = shape == {one}_meta[0], shape == {two}_meta[0]",
        f"            meta = {one}_meta if same0 else {two}_meta if same1 else (shape, {one}_meta[1])",
        *_output("meta", "            "),
        f"            edge_vjp0, edge_saved0 = (vjp0, {kept0}) if same0 else (unbroadcast0, {fit0})",
        f"            edge_vjp1, edge_saved1 = (vjp1, {kept1}) if same1 else (unbroadcast1, {fit1})",
        *(
            "        " + line
            for line in _two_edges(one, two, ("edge_vjp0", "edge_vjp1"), ("edge_saved0", "edge_saved1"))
        ),
        f"        meta = {two}.meta = {one}_meta",
        f"    value = {_call(op, values)}",
        *_output("meta", "    "),
        *_two_edges(one, two, ("vjp0", "vjp1"), (kept0, kept1)),
    ]


def _of_a_sequence(op: Operation) -> list[str]:
    """``cat``: an edge for each tracked member, whose vjp is told its shape and where it begins."""
    return [
        f"    value = {_call(op, ['[x.value for x in xs]', 'dim'])}",
        *_output("None", "    "),
        "    edges, start = [], 0",
        "    for x in xs:",
        "        shape = x.value.shape",
        "        if x.node is not None:",
        "            edges.append((x.node, vjp0, (shape, dim, start)))",
        "        start += shape[dim]",
        *("    " + line for line in _linked()),
    ]
