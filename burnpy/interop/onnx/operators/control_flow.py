"""Graphs of nodes, and branches and loops, which have graphs as attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import BurnpyError, LoadingError, RecordingError
from burnpy.backend.plans.blocks import Block, Choice, Loop, WhileLoop
from burnpy.func.control_flow.nested_calls import recorder_of
from burnpy.interop.onnx.operators.table import (
    HOST,
    Bound,
    GraphWriter,
    Kept,
    Operand,
    Scalar,
    Value,
    arange,
    as_line,
    like,
    operator,
    scanned,
    tensor,
)
from burnpy.interop.onnx.operators.whole_nodes import WholeNode, counts
from burnpy.interop.onnx.sizes import merged_size
from burnpy.tensor.joining import stack
from burnpy.tensor.operand_checks import refuse_unless

Declared: TypeAlias = tuple[Any, tuple[int, ...]]
"""A dtype and a shape."""


@dataclass(frozen=True, eq=False)
class GraphNode:
    """One node."""

    kind: str
    name: str
    inputs: tuple[str, ...]  #: names of values; empty for an absent input
    outputs: tuple[str, ...]
    attributes: dict[str, Any]  #: by the parameters of the operator; graphs are `Graph`
    call: Bound | None  #: the operator as a function of its inputs; None if it has graphs

    @property
    def graphs(self) -> list[Graph]:
        """The graphs of its attributes."""
        return [value for value in self.attributes.values() if isinstance(value, Graph)]

    @property
    def names_read(self) -> set[str]:
        """The names that the node and those of its graphs read."""
        inside = [node.names_read for graph in self.graphs for node in graph.nodes]
        return {*self.inputs, *self.results_read}.union(*inside)

    @property
    def results_read(self) -> Iterator[str]:
        """The names that its graphs return."""
        return (name for graph in self.graphs for name in graph.outputs)

    def replaced(self, kind: str, inputs: Sequence[str], attributes: dict[str, Any]) -> GraphNode:
        """Return a node of an operator that gives the same results."""
        return GraphNode(kind, self.name, tuple(inputs), self.outputs, attributes, Bound(kind, attributes))

    @property
    def shown(self) -> str:
        """The node in an error message."""
        return f"{self.kind} ({self.name or ', '.join(self.outputs)})"


@dataclass(frozen=True, eq=False)
class Graph:
    """The nodes of a graph in order, with its inputs, outputs and constants."""

    name: str
    nodes: tuple[GraphNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, Any] = field(default_factory=dict, repr=False)  #: tensors on the host, also of inner graphs
    declared: tuple[Declared | None, ...] = ()  #: of outputs, where the file has them

    def all_nodes(self) -> Iterator[GraphNode]:
        """Yield all nodes, those of nested graphs too."""
        for node in self.nodes:
            yield node
            for graph in node.graphs:
                yield from graph.all_nodes()

    @cached_property
    def unread(self) -> tuple[tuple[str, ...], ...]:
        """The results of nodes, by the last node that reads them, whose memory is free then."""
        seen, rows = set(self.outputs), list[tuple[str, ...]]()
        made = {name for node in self.nodes for name in node.outputs}
        for node in reversed(self.nodes):
            names = {*node.outputs, *node.names_read}
            rows.append(tuple((names & made) - seen))
            seen |= names
        return tuple(rows[::-1])


def run(graph: Graph, values: dict[str, Any]) -> list[Any]:
    """Compute a graph, and return its outputs.

    Args:
        graph: the graph.
        values: its inputs, constants and the values of the graphs around it; gets those of its nodes.

    Raises:
        LoadingError: an operator cannot be computed.
    """
    for node, unread in zip(graph.nodes, graph.unread, strict=True):
        inputs = [values[name] if name else None for name in node.inputs]
        try:
            call = node.call or _with_graphs(node, values)
            out = call(inputs) if counts.get() is None else as_line(f"{node.shown} of {_listed(inputs)}")(call, inputs)
        except BurnpyError as error:
            error.add_note(f"in {node.shown} of the ONNX file, with the inputs {_listed(inputs)}")
            raise
        except Warning:
            raise
        except Exception as error:
            raise LoadingError(
                f"{node.shown} of the ONNX file cannot be computed with the inputs {_listed(inputs)}: "
                f"{type(error).__name__}: {error}"
            ) from error
        values.update(zip(node.outputs, out if out.__class__ is tuple else (out,), strict=False))
        del inputs, out
        for name in unread:
            values.pop(name, None)
    return [values[name] for name in graph.outputs]


def _with_graphs(node: GraphNode, values: dict[str, Any]) -> Bound:
    """Return the operator of a node whose attributes have graphs, which read the values around them."""
    attributes = {key: _bound(x, values) if isinstance(x, Graph) else x for key, x in node.attributes.items()}
    return Bound(node.kind, attributes)


def _bound(graph: Graph, values: dict[str, Any]) -> Any:
    """Return a nested graph as a function of its inputs."""

    def function(*inputs: Any) -> list[Any]:
        return run(graph, {**values, **dict(zip(graph.inputs, inputs, strict=True))})

    read = [values[name] for node in graph.nodes for name in node.names_read if name in values]
    return Body(function, graph.declared, next((x.device for x in read if x.device is not HOST), HOST))


def _listed(inputs: Sequence[Any]) -> str:
    return ", ".join("none" if x is None else f"{x.dtype} {x.shape}" for x in inputs) or "none"


class Body(NamedTuple):
    """A graph in an attribute, as a function of its inputs."""

    function: Callable[..., list[Value]]
    declared: Sequence[Declared | None] = ()  #: of each output, where the file has all
    device: Any = HOST  #: the device of the values outside that it reads

    def __call__(self, *inputs: Value) -> list[Value]:
        """Compute the graph."""
        return self.function(*inputs)


@operator("If")
def branch(condition: Value, *, then_branch: Body, else_branch: Body, outputs: int) -> Any:
    """Compute one of two graphs: by `burnpy.func.cond` if the condition is computed on a device."""
    if condition.device is HOST:
        return tuple((then_branch if condition.item() else else_branch)())
    from burnpy.func import cond

    condition = condition.reshape(())
    try:
        return tuple(cond(condition, lambda: then_branch(), lambda: else_branch()))
    except BurnpyError:
        if recorder_of(condition.device) is None:
            raise
        fitting = _only_fitting(then_branch, else_branch)
        if fitting is None:
            raise
        refuse_unless(condition.device, (condition == fitting.value)._primitive, fitting.error)
        return tuple(fitting.results)


class _Fitting(NamedTuple):
    """The only branch that can be computed with the shapes of a recording."""

    value: bool  #: of the condition
    results: list[Value]
    error: LoadingError  #: of a run whose condition chooses the other one


def _only_fitting(then_branch: Body, else_branch: Body) -> _Fitting | None:
    """Return the branch that can be computed; None if both or none can."""
    results: dict[bool, list[Value]] = {}
    errors: dict[bool, BurnpyError] = {}
    for value, body in ((True, then_branch), (False, else_branch)):
        try:
            results[value] = body()
        except RecordingError:
            raise
        except BurnpyError as error:
            errors[value] = error
    if len(results) != 1:
        return None
    (value, found), (failed,) = *results.items(), errors.values()
    text = f"the {'else' if value else 'then'}_branch of an If cannot be computed with inputs of these shapes: {failed}"
    return _Fitting(value, found, LoadingError(text))


@operator("Loop")
def loop(trips: Scalar | Kept = None, condition: Kept = None, *carried: Value, body: Body, outputs: int) -> Any:
    """Repeat a graph; the results are the last carried values, and the others of all steps, stacked.

    Python reads the number of steps and the bool that ends the loop. In a compiled function the steps are a
    `burnpy.func.scan`, if nothing ends them earlier, or the steps from where a bool or a number depends on inputs are a
    `burnpy.func.while_loop`.
    """
    flag = tensor(True) if condition is None else condition
    state, rows, k = list(carried), [], 0
    if trips is not None and recorder_of(trips.device) is not None and len(state) == outputs:
        return _recorded(k, trips.reshape(()), flag.to_device(trips.device), state, body)
    trips = None if trips is None else trips.item()
    if trips and flag.device is HOST and flag.item():

        def step(values: list[Value], k: Value) -> list[Value]:
            goes_on, *results = body(k, tensor(True), *values)
            if goes_on.device is not HOST or not goes_on.item():
                raise LoadingError("a Loop that may end early is no scan")
            return results

        place = next((x.device for x in state if x.device is not HOST), body.device)
        if (found := scanned(step, state, [arange(trips, place)])) is not None:
            return found
    while trips is None or k < trips:
        if recorder_of(flag.device) is not None:
            if len(state) < outputs:
                raise RecordingError(
                    "a Loop that a value ends stacks results of its steps, whose number a recorded computation does "
                    "not know; call the model without compiling it"
                )
            return _recorded(k, trips, flag, state, body)
        if not flag.item():
            break
        flag, *results = body(tensor(k), tensor(True), *state)
        state, k = results[: len(state)], k + 1
        rows.append(results[len(state) :])
    if not rows:
        return (*state, *_no_rows(body, outputs - len(state), lambda: (tensor(0), tensor(True), *state)))
    return (*state, *[stack(list(column), dim=0) for column in zip(*rows, strict=True)])


def _no_rows(body: Body, count: int, first: Callable[[], tuple[Value, ...]]) -> list[Value]:
    """Return the stacked results of no steps: by the shapes that the file declares, else of a step with inputs."""
    declared = body.declared[len(body.declared) - count :]
    known = [tensor(np.zeros((0, *entry[1]), entry[0])) for entry in declared if entry is not None]
    if len(known) == count:
        return known
    step = body(*first())
    return [x.unsqueeze(0)[:0] for x in step[len(step) - count :]]


def _recorded(first: int, trips: Any, flag: Value, state: list[Value], body: Body) -> tuple[Value, ...]:
    """Return the carried values after the steps from a number on, as one operation of a recording."""
    from burnpy.func import while_loop

    def goes_on(values: tuple[Value, ...]) -> Value:
        k, flag, *_ = values
        return flag if trips is None else flag & (k < trips)

    def step(values: tuple[Value, ...]) -> tuple[Value, ...]:
        k, flag, *old = values
        flag, *new = body(k, flag, *old)
        return k + 1, flag.reshape(()), *new

    begin = (tensor(first, flag.device), flag.reshape(()), *[x.to_device(flag.device) for x in state])
    return while_loop(goes_on, step, begin)[2:]


@operator("Scan")
def scan(
    *inputs: Value,
    body: Body,
    num_scan_inputs: int,
    scan_input_axes: tuple[int, ...] | None = None,
    scan_input_directions: tuple[int, ...] | None = None,
    scan_output_axes: tuple[int, ...] | None = None,
    scan_output_directions: tuple[int, ...] | None = None,
    opset: int,
    outputs: int,
) -> Any:
    """Repeat a graph for the slices of inputs, and stack its results."""
    if opset < 9:
        return _scan_of_batch(inputs[1:], body, num_scan_inputs, outputs)
    state, sequences = list(inputs[: len(inputs) - num_scan_inputs]), inputs[len(inputs) - num_scan_inputs :]
    axes = scan_input_axes or (0,) * len(sequences)
    back, count = scan_input_directions or (0,) * len(sequences), outputs - len(state)
    out_axes, out_back = scan_output_axes or (0,) * count, scan_output_directions or (0,) * count
    moved = [x.movedim(axis, 0) for x, axis in zip(sequences, axes, strict=True)]
    moved = [x.flip(0) if b else x for x, b in zip(moved, back, strict=True)]
    steps, rows = moved[0].shape[0], list[list[Value]]()
    found = scanned(lambda values, *slices: body(*values, *slices), state, moved) if steps else None
    for k in range(steps if found is None else 0):
        results = body(*state, *[x[k] for x in moved])
        state = results[: len(state)]
        rows.append(results[len(state) :])
    if found is not None:
        state, stacks = list(found[: len(state)]), list(found[len(state) :])
    elif rows:
        stacks = [stack(list(column), dim=0) for column in zip(*rows, strict=True)]
    else:
        stacks = _no_rows(body, count, lambda: (*state, *[like(x, x.shape[1:], 0) for x in moved]))
    stacks = [x.flip(0) if b else x for x, b in zip(stacks, out_back, strict=True)]
    return (*state, *[x.movedim(0, axis) for x, axis in zip(stacks, out_axes, strict=True)])


def _scan_of_batch(inputs: tuple[Value, ...], body: Body, count: int, outputs: int) -> Any:
    """Scan each member of a batch, as before opset 9."""
    rows = [[x[n] for x in inputs] for n in range(inputs[0].shape[0])]
    members = [scan(*row, body=body, num_scan_inputs=count, opset=9, outputs=outputs) for row in rows]
    return tuple([stack(list(column), dim=0) for column in zip(*members, strict=True)])


def blocks_written(writer: GraphWriter, blocks: Sequence[Any], values: Sequence[Operand]) -> list[str]:
    """Write a loop or branch, and return the names of its results.

    Args:
        writer: the graph.
        blocks: the block in each recording of the model.
        values: its values outside.
    """
    first = blocks[0]
    if isinstance(first, WholeNode):
        return first.write(writer, blocks, values)
    if first.draws:
        raise writer.error("it draws random numbers in a loop or branch, which ONNX cannot express")
    if any(block.__class__ is not first.__class__ for block in blocks):
        raise writer.error("it calls cond(), scan() or while_loop() for some sizes of its inputs alone")
    if isinstance(first, Loop):
        return _scan(writer, blocks, values)
    if isinstance(first, Choice):
        return _if(writer, blocks, values)
    if isinstance(first, WhileLoop):
        return _loop(writer, blocks, values)
    raise writer.error("it differentiates a while_loop(), which ONNX cannot express")


def _bodies(blocks: Sequence[Block], k: int) -> list[Any]:
    """Return the k-th recording of each block."""
    return [block.recordings[k] for block in blocks]


def _scan(writer: GraphWriter, blocks: Sequence[Loop], values: Sequence[Operand]) -> list[str]:
    """Write a loop over slices. One without slices takes the numbers of its steps, which its body does not read."""
    loop = blocks[0]
    fixed, end = len(values) - loop.carried - loop.sliced, len(values) - loop.sliced
    carry, xs = values[fixed:end], list(values[end:])
    states, slices = [writer.inside(x) for x in carry], [writer.inside(x, sliced=True) for x in xs]
    given = [x.name for x in (*values[:fixed], *states, *slices)]
    if not xs:
        length = writer.constant(merged_size([block.length for block in blocks]), int64)
        steps = writer.node("Range", writer.constant(0, int64), length, writer.constant(1, int64))
        xs = [Operand(steps, (loop.length,), int64)]
        slices = [writer.inside(xs[0], sliced=True)]
    body = writer.graph("step", [*states, *slices], partial(writer.body, _bodies(blocks, 0), given))
    directions = {
        "scan_input_directions": [1] * len(xs),
        "scan_output_directions": [1] * (len(body.output) - len(carry)),
    }
    reverse = {name: each for name, each in directions.items() if each and loop.reverse}
    return _node(writer, "Scan", [*carry, *xs], len(body.output), body=body, num_scan_inputs=len(xs), **reverse)


def _if(writer: GraphWriter, blocks: Sequence[Choice], values: Sequence[Operand]) -> list[str]:
    """Write a branch. Its graphs read the values outside."""
    names = [x.name for x in values]
    middle, end = 1 + len(blocks[0].recordings[0].inputs) - blocks[0].common, len(values) - blocks[0].common
    inputs = [*names[1:middle], *names[end:]], names[middle:]
    one, two = [
        writer.graph(name, [], partial(writer.body, _bodies(blocks, k), inputs[k]))
        for k, name in enumerate(("if_true", "if_false"))
    ]
    return _node(writer, "If", values[:1], len(one.output), then_branch=one, else_branch=two)


def _loop(writer: GraphWriter, blocks: Sequence[WhileLoop], values: Sequence[Operand]) -> list[str]:
    """Write a loop that a bool ends. The graph computes the bool before the first step, and the body for the next."""
    fixed = len(values) - blocks[0].carried
    carry = values[fixed:]
    count = Operand("", (), int64)
    states = [writer.inside(x) for x in carry]
    before = writer.body(_bodies(blocks, 0), [x.name for x in values])

    def step() -> list[Operand]:
        new = writer.body(_bodies(blocks, 1), [x.name for x in (*values[:fixed], *states)])
        return [*writer.body(_bodies(blocks, 0), [x.name for x in (*values[:fixed], *new)]), *new]

    body = writer.graph("step", [writer.inside(count), writer.inside(before[0]), *states], step)
    return _node(writer, "Loop", [None, before[0], *carry], len(carry), body=body)


def _node(writer: GraphWriter, kind: str, inputs: Sequence[Any], results: int, **attributes: Any) -> list[str]:
    """Add a node, and return the names of its results."""
    names = writer.node(kind, *inputs, results=results, **attributes)
    return [names] if results == 1 else list(names)


def names_read(node: Any) -> list[str]:
    """Return the names that a node of a file reads, and those that the nodes of its graphs read."""
    inside = [name for attribute in node.attribute for each in attribute.g.node for name in names_read(each)]
    return [*node.input, *inside]


def rename(node: Any, old: str, new: str) -> None:
    """Change the name of a value in a node of a file and in its graphs."""
    for names in (node.input, node.output):
        for k, name in enumerate(names):
            if name == old:
                names[k] = new
    for attribute in node.attribute:
        for each in attribute.g.node:
            rename(each, old, new)


def set_defaults(nodes: Sequence[Any], defaults: Mapping[tuple[str, str], Sequence[Any]]) -> None:
    """Give calls of a file's functions the attributes whose defaults the functions have."""
    for node in nodes:
        given, known = {entry.name for entry in node.attribute}, defaults.get((node.domain, node.op_type), ())
        node.attribute.extend([entry for entry in known if entry.name not in given])
        for attribute in node.attribute:
            set_defaults(attribute.g.node, defaults)


def in_order(protos: Sequence[Any]) -> Sequence[Any]:
    """Return the nodes of a file so that each follows those whose results it reads, as tools of onnxruntime may not."""
    made = {name: k for k, node in enumerate(protos) for name in node.output if name}
    before = {k: {made[name] for name in names_read(node) if made.get(name, k) != k} for k, node in enumerate(protos)}
    if all(k > max(others, default=-1) for k, others in before.items()):
        return protos
    try:
        return [protos[k] for k in TopologicalSorter(before).static_order()]
    except CycleError:
        return protos
