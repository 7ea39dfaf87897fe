"""Epilogues: what follows an operation and is computed with it, before its result is written to memory: groups, relu
after a norm, slices of an array, and a formula of a list after its multiplication by a number. `split_bias`,
`lower_convolutions` and `combine_roundings` write linear layers, convolutions and lists of values to round so that more
can follow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from burnpy.backend.operations.programs import Formula
from burnpy.backend.plans.executor import INDEXED, INTEGER_PRODUCTS, Executor, Launch, NodeLaunch
from burnpy.backend.plans.fusion import Group, Single
from burnpy.backend.plans.group_program import Signature
from burnpy.backend.plans.program_steps import DTYPES, rounding_of, step_of
from burnpy.backend.plans.recording import Node, NodeBuilder, Recording, Ref, operations, refs_in, uses_of
from burnpy.backend.plans.rewriting import PLACED, beside
from burnpy.backend.primitives import Shape


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
    producers = _producers(units, values, executor)
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
        for producer, replaced in _producers_read_by(signature, producers):
            read_once = all(uses[each.node.results.number] == 1 for each in replaced)
            launch = executor.finished(producer, signature, values, bounds) if read_once else None
            if launch is not None:
                gone.update(map(id, replaced))
                kept[-1] = Finished(producer, unit, signature, launch)
                break
    return [unit for unit in kept if id(unit) not in gone]


def _producers(units: Sequence[Any], values: Mapping[int, Any], executor: Executor) -> dict[int, list[_Producer]]:
    """Return the operations that may be fused with later ones, by the numbers of their results, the best first."""
    singles: dict[int, Single] = {}  # by the values that they make
    producers: dict[int, list[_Producer]] = {}
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
            producers[result.number] = [] if bare is None else [bare._replace(units=[*bare.units, unit])]
            producers[result.number].append(_Producer(node, [unit]))
        elif node.name in (*INDEXED, *INTEGER_PRODUCTS):
            producers[result.number] = [_Producer(node, [unit])]
        elif node.name == "reshape":  # the same memory, see `lower_convolutions`
            producers[result.number] = [
                _Producer(made.replacement(made.name, made.args, result), [*replaced, unit])
                for made, replaced in producers.get(node.args[0].number, ())
                if made.name in (*INDEXED, *INTEGER_PRODUCTS) or (made.name == "matmul" and executor.multiplies_pixels)
            ]
    return producers


def _producers_read_by(signature: Signature, producers: Mapping[int, list[_Producer]]) -> Iterator[_Producer]:
    """Yield the producers of the values that a group reads, the last value first, as that needs no other order."""
    for ref in sorted(signature.arrays, key=lambda ref: -ref.number):
        if _fits(signature, ref):
            yield from producers.get(ref.number, ())


def _fits(signature: Signature, ref: Ref) -> bool:
    """Return whether a group computes one value of the shape of an array, without numbers."""
    alike = ref.shape == signature.group.domain == signature.outputs[0].shape
    return len(signature.outputs) == 1 and not signature.numbers and alike


class _Producer(NamedTuple):
    """An operation, and the units that it replaces."""

    node: Node
    units: list[Single]


def _unpadded(node: Node, singles: Mapping[int, Single], values: Mapping[int, Any]) -> _Producer | None:
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
    return _Producer(node.with_args(args), [spread, placed])


def _with(nodes: Sequence[Node], replaced: Mapping[int, Node | None]) -> list[Node]:
    """Return the nodes with others in place of some, by id; None leaves a node out."""
    kept = [replaced.get(id(node), node) for node in nodes]
    return [node for node in kept if node is not None]


ACTIVATED = {"normalize": "normalize_relu", "normalize_backward": "normalize_relu_backward"}
"""The names of normalizations with relu, and of their gradients, which have the result of relu as last argument."""


def fuse_relu(nodes: Sequence[Node], outputs: Sequence[Ref], executor: Executor) -> list[Node]:
    """Return the nodes with relu, and its gradient, as parts of the normalizations beside them."""
    uses = uses_of(nodes, outputs)
    made = {ref.number: node for node in nodes if node.name in ("normalize", "relu_backward")
            for ref in refs_in(node.results)}  # fmt: skip
    replaced: dict[int, Node | None] = {}
    for node in nodes:
        if node.name not in ("relu", "normalize_backward"):
            continue
        first = node.args[0]
        source = made.get(first.number)
        if source is None or uses[first.number] != 1:
            continue
        if node.name == "relu":
            if source.name == "normalize" and source.results[0] is first and executor.activates(source):
                results = (node.results, *source.results[1:])
                new = source.replacement(ACTIVATED[source.name], source.args, results)
                replaced |= {id(source): new, id(node): None}
        elif source.name == "relu_backward" and executor.activates(node):
            grad, out = source.args
            if grad.shape == out.shape == node.args[1].shape and grad.dtype == out.dtype:
                new = node.replacement(ACTIVATED[node.name], (grad, *node.args[1:], out), node.results)
                replaced |= {id(source): None, id(node): new}
    return _with(nodes, replaced)


def fuse_scale(nodes: Sequence[Node], outputs: Sequence[Ref], executor: Executor) -> list[Node]:
    """Return the nodes with formulas that multiply a list by a number themselves, such as the factor of clipped
    gradients, where nothing else reads the products.
    """
    uses = uses_of(nodes, outputs)
    made = {node.results[0].number: node for node in nodes if node.name == "foreach_mul" and node.results}
    replaced: dict[int, Node | None] = {}
    for node in nodes:
        if node.name != "foreach":
            continue
        formula, lists, numbers, flags, *how = node.args
        for position, members in enumerate(lists):
            source = made.get(members[0].number) if members else None
            if source is None or [*source.results] != [*members] or any(uses[ref.number] != 1 for ref in members):
                continue
            scales = [*lists[:position], source.args[0], *lists[position + 1 :]]
            both = scaled_formula(formula, position, len(lists), len(numbers))
            args = (both, tuple(scales), (*numbers, source.args[1]), flags, *how)
            new = node.with_args(args)
            if executor.launch(new, {}, {}) is not None:
                replaced |= {id(source): None, id(node): new}
                break
    return _with(nodes, replaced)


@cache
def scaled_formula(formula: Formula, position: int, lists: int, numbers: int) -> Formula:
    """Return a formula that multiplies the array at a position by a further number, and computes another one then.

    Args:
        formula: the other one.
        position: the position.
        lists: the number of its arrays.
        numbers: the number of its numbers, which the further one follows.
    """

    def both(b: Any, *args: Any) -> tuple[Any, ...]:
        arrays, given, (factor, *flags) = [*args[:lists]], args[lists : lists + numbers], args[lists + numbers :]
        arrays[position] = b.mul(arrays[position], factor)
        return formula(b, *arrays, *given, *flags)

    both.__name__ = formula.__name__
    return both


WRITTEN = {"attention_backward": "attention_backward_placed"}
"""The names of operations whose results are slices of one array, which have the keys of the slices as last argument."""


def fuse_slice_writes(nodes: Sequence[Node], outputs: Sequence[Ref], executor: Executor) -> list[Node]:
    """Return the nodes with operations that write their results into slices of an array, where nothing else reads the
    results. So attention writes the gradients of queries, keys and values into one array.
    """
    uses = uses_of(nodes, outputs)
    made = {refs_in(node.results)[0].number: node for node in nodes if node.name in WRITTEN}
    replaced: dict[int, Node | None] = {}
    for node in nodes:
        source = made.get(min([ref.number for ref in node.args[1]])) if node.name == PLACED else None
        if source is None or beside(node.args[0], node.results.shape):
            continue
        keys = {grad.number: key for key, grad in zip(*node.args, strict=True)}
        results = [ref.number for ref in refs_in(source.results)]
        if sorted(keys) != sorted(results) or any(uses[number] != 1 for number in results):
            continue
        args = (*source.args, [keys[number] for number in results])
        new = source.replacement(WRITTEN[source.name], args, node.results)
        if executor.launch(new, {}, {}) is not None:
            replaced |= {id(source): None, id(node): new}
    return _with(nodes, replaced)


MOST_ROUNDED = 4
"""The most values of one shape that are rounded by one operation."""


def combine_roundings(nodes: Sequence[Node], recording: Recording, executor: Executor) -> list[Node]:
    """Return the nodes with one node that rounds all inputs which products read in 16 bits, such as weights.

    Values that are steps of programs are rounded one by one, so that the group that computes one can round it. Others
    of one shape, such as queries, keys and values, are rounded together.

    Args:
        nodes: the nodes.
        recording: the recording, whose inputs these are.
        executor: what computes them.
    """
    if not executor.rounds:
        return list(nodes)
    inputs = {ref.number for ref in recording.inputs} - recording.orders.keys()
    steps = {ref.number for node in nodes if step_of(node) is not None for ref in refs_in(node.results)}
    new: list[Node] = []
    of_inputs: list[Node] = []
    alike: list[Node] = []  # the last nodes that round one value each, if they are no steps, such as parts of one

    def round_together() -> None:
        new.extend([_together(alike)] if alike else [])
        alike.clear()

    for node in nodes:
        each = _roundings(node)
        for one in each:
            number, out = one.args[0].number, one.results
            if number in inputs or number in steps:
                of_inputs += [one] * (number in inputs)
                new.append(one)
                continue
            last = alike[-1].results if alike else out
            if len(alike) == MOST_ROUNDED or (last.shape, last.dtype) != (out.shape, out.dtype):
                round_together()
            alike.append(one)
        if not each:
            round_together()
            new.append(node)
    round_together()
    if len(of_inputs) < 2 or len({node.results.dtype for node in of_inputs}) > 1:
        return new
    gone = set(map(id, of_inputs[1:]))
    return [_together(of_inputs) if node is of_inputs[0] else node for node in new if id(node) not in gone]


def _roundings(node: Node) -> list[Node]:
    """Return the nodes that round each member of a list, or a node that rounds one value; none for others."""
    each = [node]
    if node.name == "foreach_cast":
        xs, dtype = node.args
        each = [node.replacement("cast", (x, dtype), out) for x, out in zip(xs, node.results, strict=True)]
    return each if all(rounding_of(one) is not None for one in each) else []


def _together(nodes: Sequence[Node]) -> Node:
    """Return the node that rounds several values to one dtype; one alone as it is."""
    if len(nodes) == 1:
        return nodes[0]
    (_, dtype), outs = nodes[0].args, [node.results for node in nodes]
    return nodes[0].replacement("foreach_cast", ([node.args[0] for node in nodes], dtype), outs)


def split_bias(nodes: Sequence[Node], recording: Recording, executor: Executor) -> list[Node]:
    """Return the nodes with linear layers as products and sums if the device's products add no bias, and with their
    gradients so if it has no launch of both.

    The sum of 16-bit floats stays, as a linear layer rounds it once.
    """
    builder = NodeBuilder(recording)
    for node in nodes:
        if node.name == "linear" and node.results.dtype in DTYPES and not executor.adds_bias:
            (x, weight, bias), out = node.args, node.results
            product = builder.new(node, "matmul", (x, weight), out.shape, out.dtype)
            builder.write(node, "add", (product, bias), out)
        elif node.name == "linear_backward" and executor.launch(node, {}, {}) is None:
            (grad, x), (grad_weight, grad_bias) = node.args, node.results
            matrices = tuple([builder.reshaped(node, each, _rows(each.shape)) for each in (x, grad)])
            builder.write(node, "matmul_tn", matrices, grad_weight)
            builder.write(node, "sum", (grad, tuple(range(len(grad.shape) - 1)), False), grad_bias)
        else:
            builder.nodes.append(node)
    return builder.nodes


def lower_convolutions(
    nodes: Sequence[Node], recording: Recording, executor: Executor, fixed: Container[int]
) -> list[Node]:
    """Return the nodes with convolutions of one image by windows of one element as products of matrices.

    A bias becomes a sum, which joins the operations that follow.

    Args:
        nodes: the nodes.
        recording: the recording, which gives numbers to new values.
        executor: what computes them.
        fixed: the numbers of the values that are the same in each replay.
    """
    if not executor.multiplies_pixels:
        return list(nodes)
    builder = NodeBuilder(recording)
    for node in nodes:
        if node.name not in ("conv2d", "conv2d_bias") or not _is_product(node):
            builder.nodes.append(node)
            continue
        (x, weight, *bias), out = refs_in(node.args), node.results
        image = recording.new(out.shape, out.dtype) if bias else out
        if weight.number in fixed and executor.convolves_pixels(node):
            builder.write(node, "conv2d", (x, weight, *node.args[-4:]), image)
        else:
            matrix = builder.reshaped(node, weight, weight.shape[:2])
            pixels = builder.reshaped(node, x, (x.shape[1], math.prod(x.shape[2:])))
            size = (out.shape[1], math.prod(out.shape[2:]))
            product = builder.new(node, "matmul", (matrix, pixels), size, out.dtype)
            builder.write(node, "reshape", (product, out.shape), image)
        if bias:
            builder.write(node, "add", (image, builder.reshaped(node, bias[0], (1, out.shape[1], 1, 1))), out)
    return builder.nodes


def _is_product(node: Node) -> bool:
    """Return whether a convolution is a product of matrices as they lie."""
    (x, weight, *_), (*where, groups) = refs_in(node.args), node.args[-4:]
    alike = all(ref.dtype == node.results.dtype for ref in refs_in(node.args)) and node.results.dtype in DTYPES
    usual = weight.shape[2:] == (1, 1) and tuple(map(tuple, where[:2])) == ((1, 1), (0, 0)) and groups == 1
    return usual and alike and x.shape[0] == 1 and 0 not in x.shape


def _rows(shape: Shape) -> Shape:
    """Return the shape of a matrix whose rows are all but the last dimension."""
    return (math.prod(shape[:-1]), shape[-1])
