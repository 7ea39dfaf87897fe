"""Generation of the methods of `Autodiff`, one for each operation, from the operation's schema and rule.

A method is generated as source text and compiled at its first use, as `dataclasses` does. Compared with closures over
a rule that saves 75 to 150 ns of a tiny operation's 900, and importing burnpy compiles nothing. `source` returns the
generated text::

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

from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.autodiff.graph import EdgeKind, Node, Relay, Tracked, Vjp, new_node, next_seq, untracked
from burnpy.backend.backend import Backend
from burnpy.backend.entries import EMPTY, Argument, Operation, operation
from burnpy.backend.primitives import Float, Shape

if TYPE_CHECKING:
    from burnpy.autodiff.rules import Rule
    from burnpy.autodiff.rules.algebra import Matrices


def compiled(name: str) -> Callable[..., Any]:
    """Generate and compile the method of `Autodiff` for one operation."""
    op = operation(getattr(Backend, name))
    rule = rule_of(name)
    names: dict[str, Any] = {
        "Tracked": Tracked,
        "next_seq": next_seq,
        "untracked": untracked,
        "new_node": new_node,
        "promoted": promoted,
        "default": op.function,
    }
    names |= {f"default_{a.name}": a.default for a in op.arguments if a.default is not EMPTY}
    kinds: dict[Vjp, EdgeKind] = {}  # what the generated source saves for each vjp
    if rule:
        names |= _vjps(rule, kinds)
    names["Kind"] = node_class(name, kinds)
    exec(compile(source(name), f"<Autodiff.{name}>", "exec"), names)
    method: Callable[..., Any] = names[name]
    method.__doc__ = op.function.__doc__
    method.__qualname__ = f"Autodiff.{name}"
    method.__module__ = __name__
    return method


def _vjps(rule: Rule, kinds: dict[Vjp, EdgeKind]) -> dict[str, Vjp]:
    """Return the vjps of a rule, by their names in the generated source, and add their kinds to ``kinds``."""
    names: dict[str, Vjp] = {}
    arguments = [a.name for a in rule.operation.float_arguments]
    for k, (argument, vjp) in enumerate(zip(arguments, rule.vjps, strict=False)):
        saved = _saved_names(vjp)
        names[f"vjp{k}"], names[f"unbroadcast{k}"] = vjp, unbroadcast(vjp)
        kinds[vjp] = EdgeKind(argument, saved)
        kinds[names[f"unbroadcast{k}"]] = EdgeKind(argument, (f"{argument}_shape", *saved))
    if rule.matrices:
        for k, vjp in enumerate(rule.matrices.vjps):
            names[f"matrix_vjp{k}"] = vjp
            kinds[vjp] = EdgeKind(arguments[k], _saved_names(vjp))
    if rule.joint:
        from burnpy.autodiff.multi_output import called, called_with_one, record_outputs

        names |= {"record_outputs": record_outputs, "joint": select_needed(rule.joint)}
        hidden = ("", "", "")  # the vjp, whether it is alone, and needs
        kinds[called] = kinds[called_with_one] = EdgeKind(None, (*hidden, *_saved_names(rule.joint)))
    return names


def node_class(name: str, kinds: Mapping[Vjp, EdgeKind]) -> type[Node]:
    """Create the node class of an operation, and that of its relays."""
    attributes = {"__slots__": (), "operation": name, "edge_kinds": kinds}
    relay = type(name, (Relay,), attributes)
    return type(name, (Node,), attributes | {"relay": relay})


def rule_of(name: str) -> Rule | None:
    """Return the rule of an operation, or None. The table is imported at first use, to keep ``import burnpy`` fast."""
    from burnpy.autodiff.rules import RULES

    return RULES.get(name)


def unbroadcast(vjp: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``vjp`` followed by the adjoint of broadcasting: a sum to the argument's shape.

    It is used only where an argument's shape differs from the result's.
    """

    def vjp_and_sum(inner: Any, grad: Float, shape: Shape, *saved: Any) -> Float:
        part = vjp(inner, grad, *saved)
        return part if part.shape == shape else inner.sum_to(part, shape)

    return vjp_and_sum


def promoted(device: Any, *operands: Any) -> tuple[Any, ...]:
    """Cast the primitives among the operands of an elementwise operation to their common dtype."""
    cast = iter(device.promote(*[x for x in operands if x.__class__ is Tracked]))
    return tuple([next(cast) if x.__class__ is Tracked else x for x in operands])


def select_needed(vjp: Callable[..., Any]) -> Callable[..., Any]:
    """Return a joint vjp reduced to the gradients of the tracked arguments."""

    def vjp_and_select(inner: Any, grads: Any, needs: tuple[bool, ...], *saved: Any) -> tuple[Float, ...]:
        parts = vjp(inner, grads, needs, *saved)
        return tuple([part for part, needed in zip(parts, needs, strict=True) if needed])

    return vjp_and_select


def source(name: str) -> str:
    """Return the source text of the method for one operation."""
    op = operation(getattr(Backend, name))
    rule = rule_of(name)
    lines = [f"def {name}({', '.join(['self', *map(_parameter, op.arguments)])}):"]
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
        lines += _elementwise(op, rule)
    elif len(rule.vjps) > 2:
        lines += _many(op, rule)
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
    if a.sequence:
        return f"[x.value for x in {a.name}]"
    return f"({a.name}.value if {a.name}.__class__ is Tracked else {a.name})" if a.scalar else f"{a.name}.value"


def _unrecorded(op: Operation) -> list[str]:
    call = _call(op, map(_value, op.arguments))
    if not any(op.float_results):
        return [f"    return {call}"]
    if len(op.results) > 1:
        return [f"    results = {call}", f"    {_wrapped_results(op)}"]
    return [f"    return {_untracked(op, call)}"]


def _untracked(op: Operation, result: str) -> str:
    """Generate the wrapping of a result, or of each member of a list, as untracked."""
    return f"[untracked(x) for x in {result}]" if op.lists else f"untracked({result})"


def _wrapped_results(op: Operation) -> str:
    """Generate the return statement for several untracked results."""
    results = [(f"results[{k}]", is_float) for k, is_float in enumerate(op.float_results)]
    wraps = [_untracked(op, result) if is_float else result for result, is_float in results]
    return f"return {', '.join(wraps)}"


def _defaulted(op: Operation) -> list[str]:
    """Generate a method without a rule: the inner backend's operation if nothing is tracked, else the default.

    The default is made of other operations, which are recorded.
    """
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


def _saved(op: Operation, vjp: Callable[..., Any], fit: str | None = None) -> str:
    """Generate the expression of what a node saves for a vjp: one primitive, or a tuple, as `graph.kept_of` reads it.

    ``fit`` is the expression of the argument's shape, saved first for a vjp that undoes broadcasting.
    """
    saved = [*([] if fit is None else [fit]), *_saved_values(op, vjp)]
    if len(saved) == 1 and saved[0] in {"value", *(f"{a.name}_" for a in op.float_arguments)}:
        return saved[0]
    return f"({', '.join(saved)},)" if saved else "()"


def _saved_names(vjp: Vjp) -> tuple[str, ...]:
    """Return the names of the values that a vjp needs saved: those of its parameters."""
    return tuple(name for name in list(signature(vjp).parameters)[2:] if name != "needs")


def _saved_values(op: Operation, vjp: Callable[..., Any]) -> list[str]:
    """Return the expressions of the values that a vjp needs saved."""
    floats = {a.name for a in op.float_arguments}
    saved = []
    for name in _saved_names(vjp):
        base = name.removesuffix("_shape").removesuffix("_dtype")
        if name == "out":
            saved.append("value")
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


_RESULTS = ("out", "out1", "out2", "out3")


_Edge: TypeAlias = Callable[[int, str], list[str]]
"""``(slot, parent) -> lines``: generates the assignment of one edge to a slot of a node."""


def _edge(vjp: str, saved: str) -> _Edge:
    return lambda k, parent: [f"node.parent{k} = {parent}", f"node.vjp{k} = {vjp}", f"node.saved{k} = {saved}"]


def _fitted_edge(op: Operation, rule: Rule, k: int) -> _Edge:
    """Generate the edge of the k-th argument, which undoes broadcasting if its shape is not the result's, ``shape``."""
    meta = f"{op.float_arguments[k].name}_meta[0]"
    own, fitted = (_saved(op, rule.vjps[k], fit) for fit in (None, meta))
    return lambda slot, parent: [
        f"node.parent{slot} = {parent}",
        f"if shape == {meta}:",
        f"    node.vjp{slot} = vjp{k}",
        f"    node.saved{slot} = {own}",
        "else:",
        f"    node.vjp{slot} = unbroadcast{k}",
        f"    node.saved{slot} = {fitted}",
    ]


_SILENT = "((mode := self.mode()) is not None and mode.silences(self.level))"
_SHOW = ["if mode is not None:", "    mode.record(self, node, value)"]
_CLOSE = ["node.alive = True", "node.seq = next_seq()", *_SHOW, "out.node = node", "return out"]


def _one_edge(argument: str, edge: _Edge, indent: str) -> list[str]:
    """Generate the recording of a node where only one float argument can be tracked."""
    lines = [
        f"parent = {argument}.node",
        f"if parent is None or {_SILENT}:",
        "    out.node = None",
        "    return out",
        "node = Kind()",
        *edge(0, "parent"),
        "node.parent1 = None",
        *_CLOSE,
    ]
    return [indent + line for line in lines]


def _output(meta: str, indent: str) -> list[str]:
    return [indent + line for line in ("out = Tracked()", "out.value = value", f"out.meta = {meta}")]


def _recorded(op: Operation, rule: Rule) -> list[str]:
    """Generate a method with one float argument, or with two whose vjps undo broadcasting themselves."""
    first = op.float_arguments[0]
    meta = f"{first.name}.meta" if op.elementwise else "None"
    if len(rule.vjps) == 1:
        left = first.name
        values = [f"{left}_" if a is first else a.name for a in op.arguments]
        lines = [f"    {left}_ = {left}.value", f"    value = {_call(op, values)}", *_output(meta, "    ")]
        if f"{left}_" not in _saved(op, rule.vjps[0]):
            lines = [f"    value = {_call(op, map(_value, op.arguments))}", *_output(meta, "    ")]
        return [*lines, *_one_edge(left, _edge("vjp0", _saved(op, rule.vjps[0])), "    ")]
    second = op.float_arguments[1]
    left, right = first.name, second.name
    values = [f"{a.name}_" if a.floats else a.name for a in op.arguments]
    lines = [f"    {left}_ = {left}.value"]
    if second.scalar:
        lines += [
            f"    if {right}.__class__ is not Tracked:",
            f"        {right}_ = {right}",
            f"        value = {_call(op, values)}",
            *_output(meta, "        "),
            *_one_edge(left, _edge("vjp0", _saved(op, rule.vjps[0])), "        "),
        ]
    lines += [f"    {right}_ = {right}.value", f"    value = {_call(op, values)}", *_output(meta, "    ")]
    if rule.matrices is not None:
        lines += _matrices(op, rule.matrices, left, right)
    return [*lines, *_two_edges(left, right, _edges(op, rule), "    ")]


def _edges(op: Operation, rule: Rule | Matrices, prefix: str = "") -> tuple[_Edge, _Edge]:
    """Generate the two edges of a rule."""
    first, second = (_edge(f"{prefix}vjp{k}", _saved(op, vjp)) for k, vjp in enumerate(rule.vjps))
    return first, second


def _matrices(op: Operation, rule: Matrices, left: str, right: str) -> list[str]:
    """Generate the branch of a product for two matrices of one dtype, whose result's shape follows from theirs."""
    row, column = f"{left}_shape[{rule.dims[0]}]", f"{right}_shape[{rule.dims[1]}]"
    same = [f"{size} == {left}_shape[{k}]" for k, size in enumerate((row, column)) if size != f"{left}_shape[{k}]"]
    return [
        f"    {left}_shape, {left}_dtype = meta = {left}.meta or {left}.measured()",
        f"    {right}_shape, {right}_dtype = {right}.meta or {right}.measured()",
        f"    if {left}_dtype is {right}_dtype and len({left}_shape) == 2 == len({right}_shape):",
        f"        out.meta = meta if {' and '.join(same)} else (({row}, {column}), {left}_dtype)",
        *_two_edges(left, right, _edges(op, rule, "matrix_"), "        "),
    ]


def _two_edges(left: str, right: str, edges: tuple[_Edge, _Edge], indent: str) -> list[str]:
    """Generate the recording of a node with two arguments: edges for tracked parents only."""
    lines = [
        f"parent = {left}.node",
        f"other = {right}.node",
        f"if parent is None and other is None or {_SILENT}:",
        "    out.node = None",
        "    return out",
        "node = Kind()",
        "if parent is None:",
        *("    " + line for line in edges[1](0, "other")),
        "    node.parent1 = None",
        "else:",
        *("    " + line for line in edges[0](0, "parent")),
        "    if other is None:",
        "        node.parent1 = None",
        "    else:",
        *("        " + line for line in edges[1](1, "other")),
        *_CLOSE,
    ]
    return [indent + line for line in lines]


def _linked() -> list[str]:
    """Generate the recording of a node with a list of edges."""
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
    """Generate a method with three float arguments or more: an edge for each that is tracked."""
    lines = [f"    {a.name}_ = {a.name}.value" for a in op.float_arguments]
    values = [f"{a.name}_" if a.floats else a.name for a in op.arguments]
    lines += [f"    value = {_call(op, values)}", *_output("None", "    "), "    edges = []"]
    for k, a in enumerate(op.float_arguments):
        lines += [
            f"    if {a.name}.node is not None:",
            f"        edges.append(({a.name}.node, vjp{k}, {_saved(op, rule.vjps[k])}))",
        ]
    return [*lines, *("    " + line for line in _linked())]


def _joint(op: Operation, vjp: Callable[..., Any]) -> list[str]:
    """Generate a method whose results' gradients go to all arguments through one joint vjp."""
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
        f"    saved = ({', '.join(['needs', *_saved_values(op, vjp)])},)",
        "    outs = record_outputs(self, Kind, values, parents, joint, saved)",
        f"    return {', '.join(outs)}",
    ]


def _elementwise(op: Operation, rule: Rule) -> list[str]:
    """Generate a method with several arguments that broadcast, of which the floats promote.

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
                f"        value = {_elementwise_call(op)}",
                *_output(f"{left}.meta", "        "),
                *_one_edge(left, _edge("vjp0", _saved(op, rule.vjps[0])), "        "),
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
        f"    value = {_elementwise_call(op)}",
        *_output("meta", "    "),
        *_two_edges(left, right, _edges(op, rule), "    "),
    ]


def _elementwise_call(op: Operation) -> str:
    return _call(op, [f"{a.name}_" if a.floats else a.name for a in op.arguments])


def _broadcasting(op: Operation, rule: Rule, count: int, indent: str) -> list[str]:
    """Generate the call of an elementwise operation, and the recording of ``count`` float arguments, one or two, of
    which any may have another shape than the result."""
    floats = [a.name for a in op.float_arguments[:count]]
    metas = " else ".join(f"{a}_meta if shape == {a}_meta[0]" for a in floats)
    edges = [_fitted_edge(op, rule, k) for k in range(count)]
    return [
        f"{indent}value = {_elementwise_call(op)}",
        f"{indent}shape = value.shape",
        *_output(f"{metas} else (shape, {floats[0]}_meta[1])", indent),
        *(
            _one_edge(floats[0], edges[0], indent)
            if count == 1
            else _two_edges(floats[0], floats[1], (edges[0], edges[1]), indent)
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
        f"    value = {_elementwise_call(op)}",
        "    shape = value.shape",
        *_output(f"{metas} else (shape, {first}_meta[1])", "    "),
        "    edges = []",
    ]
    for k, (name, vjp) in enumerate(zip(floats, rule.vjps, strict=True)):
        saved, fitted = _saved(op, vjp), _saved(op, vjp, f"{name}_meta[0]")
        lines += [
            f"    if {name}_node is not None:",
            f"        same = shape == {name}_meta[0]",
            f"        edges.append(({name}_node, *((vjp{k}, {saved}) if same else (unbroadcast{k}, {fitted}))))",
        ]
    return [*lines, *("    " + line for line in _linked())]


def _sequence(op: Operation) -> list[str]:
    """Generate the recording of ``cat``: an edge for each tracked member, whose vjp gets its shape and offset."""
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


def _sequence_default(op: Operation) -> list[str]:
    """Generate a method without a rule whose float argument is a sequence, in which ints and bools may be too."""
    (xs,) = [a.name for a in op.arguments if a.sequence]
    values = [
        f"[x.value if x.__class__ is Tracked else x for x in {a.name}]" if a.sequence else a.name for a in op.arguments
    ]
    return [
        f"    if all([x.__class__ is not Tracked or x.node is None for x in {xs}]):",
        f"        return {_untracked(op, _call(op, values))}",
        f"    return default(self, {', '.join(a.name for a in op.arguments)})",
    ]
