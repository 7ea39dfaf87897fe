"""`rewritten`: the nodes of a recording, changed so that more of them become programs.

Numbers that are the same in each replay are computed once. Gradients of several uses of one slice are added before they
are added to the whole; the rest of the arithmetic stays.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence, Set
from typing import Any

from burnpy.backend.plans.executor import Executor
from burnpy.backend.plans.program_steps import DTYPES, LONGEST, rounding_of, step_of
from burnpy.backend.plans.recording import REPEATED, Node, Recording, Ref, mapped, operations, refs_in
from burnpy.backend.primitives import Dims, Key, Shape
from burnpy.backend.rules import spans_of

PLACED = "placed_slice"
"""The name of nodes that add to slices of zeros: they write new memory, and no zeros where the slices are."""


def rewritten(nodes: Sequence[Node], outputs: Sequence[Ref], recording: Recording) -> list[Node]:
    """Return the nodes with the gradients of equal slices added first.

    Args:
        nodes: the nodes.
        outputs: the outputs.
        recording: the recording, which gives numbers to new values.
    """
    uses: dict[int, int] = {}
    for node in nodes:
        for ref in refs_in(node.args):
            uses[ref.number] = uses.get(ref.number, 0) + 1
    for ref in outputs:
        uses[ref.number] = uses.get(ref.number, 0) + 1
    chains: dict[int, list[Node]] = {}  # the additions that led to a value, the first of them first
    last: list[list[Node]] = []
    for node in nodes:
        if node.name != "accumulate_slice":
            continue
        total = node.args[0]
        chain = chains.pop(total.number, None) if uses.get(total.number) == 1 else None
        if chain is None:
            chain = []
            last.append(chain)
        chain.append(node)
        chains[node.results.number] = chain
    replaced: dict[int, list[Node]] = {}  # what takes the place of a node, by its id
    zeros = {n.results.number for n in nodes if n.name == "full" and n.args[1] == 0 and uses.get(n.results.number) == 1}
    for chain in last:
        _combine(chain, recording, replaced, zeros)
    return [new for node in nodes for new in replaced.get(id(node), (node,))]


_TURNED = {"matmul": "matmul_nt", "matmul_nt": "matmul", "linear": "matmul_nt"}
"""The products by the transpose of their second matrix."""


def turned(nodes: Sequence[Node], recording: Recording) -> list[Node]:
    """Return the nodes with products by the transposes of matrices whose columns lie together: of loaded weights, and
    of matrices that the function transposes.

    A product reads rows, and would copy such a matrix in each replay.
    """
    views = {node.results.number: node.args[0] for node in nodes if _transposes(node, recording)}
    new: list[Node] = []
    for node in nodes:
        if node.name not in _TURNED:
            new.append(node)
            continue
        x, matrix, *bias = node.args
        if matrix.number in recording.transposed and matrix.number not in views:
            views[matrix.number] = recording.new(matrix.shape[::-1], matrix.dtype)
            new.append(Node("permute", (matrix, (1, 0)), views[matrix.number], False, node.line))
        if matrix.number in views and len(x.shape) > 1:
            result = recording.new(node.results.shape, node.results.dtype) if bias else node.results
            new.append(Node(_TURNED[node.name], (x, views[matrix.number]), result, False, node.line))
            if bias:
                new.append(Node("add", (result, bias[0]), node.results, False, node.line))
        elif node.name == "matmul" and x.number in views and len(matrix.shape) == 2:
            new.append(Node("matmul_tn", (views[x.number], matrix), node.results, False, node.line))
        else:
            new.append(node)
    return new


def _transposes(node: Node, recording: Recording) -> bool:
    """Return whether a node transposes a matrix of floats whose rows lie together."""
    if node.name != "mT" and (node.name != "permute" or tuple(node.args[1]) != (1, 0)):
        return False
    x = node.args[0]
    return len(x.shape) == 2 and x.dtype in DTYPES and x.number not in recording.transposed


def unbiased(nodes: Sequence[Node], recording: Recording, executor: Executor) -> list[Node]:
    """Return the nodes with linear layers as products and sums if the device's products add no bias, and with their
    gradients so if it has no launch of both.

    The sum of 16-bit floats stays, as a linear layer rounds it once.
    """
    new: list[Node] = []
    for node in nodes:
        if node.name == "linear" and node.results.dtype in DTYPES and not executor.adds_bias:
            x, weight, bias = node.args
            product = recording.new(node.results.shape, node.results.dtype)
            new.append(Node("matmul", (x, weight), product, False, node.line))
            new.append(Node("add", (product, bias), node.results, False, node.line))
        elif node.name == "linear_backward" and executor.launch(node, {}) is None:
            grad, x = node.args
            grad_weight, grad_bias = node.results
            new.append(
                Node(
                    "matmul_tn", (_rows(x, recording, new), _rows(grad, recording, new)), grad_weight, False, node.line
                )
            )
            new.append(Node("sum", (grad, tuple(range(len(grad.shape) - 1)), False), grad_bias, False, node.line))
        else:
            new.append(node)
    return new


def multiplied(nodes: Sequence[Node], recording: Recording, executor: Executor, fixed: Container[int]) -> list[Node]:
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
    new: list[Node] = []

    def reshaped(x: Ref, shape: Shape, node: Node) -> Ref:
        result = recording.new(shape, x.dtype)
        new.append(Node("reshape", (x, shape), result, False, node.line))
        return result

    for node in nodes:
        if node.name not in ("conv2d", "conv2d_bias") or not _is_product(node):
            new.append(node)
            continue
        (x, weight, *bias), out = refs_in(node.args), node.results
        image = recording.new(out.shape, out.dtype) if bias else out
        if weight.number in fixed and executor.convolves_pixels(node):
            new.append(Node("conv2d", (x, weight, *node.args[-4:]), image, False, node.line))
        else:
            matrix = reshaped(weight, weight.shape[:2], node)
            pixels = reshaped(x, (x.shape[1], math.prod(x.shape[2:])), node)
            product = recording.new((out.shape[1], math.prod(out.shape[2:])), out.dtype)
            new.append(Node("matmul", (matrix, pixels), product, False, node.line))
            new.append(Node("reshape", (product, out.shape), image, False, node.line))
        if bias:
            new.append(Node("add", (image, reshaped(bias[0], (1, out.shape[1], 1, 1), node)), out, False, node.line))
    return new


MOST_ROUNDED = 4
"""The most values of one shape that are rounded by one operation."""


def rounded(nodes: Sequence[Node], recording: Recording, executor: Executor) -> list[Node]:
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
    inputs = {ref.number for ref in recording.inputs} - recording.transposed
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
        each = [Node("cast", (x, dtype), out, False, node.line) for x, out in zip(xs, node.results, strict=True)]
    return each if all(rounding_of(one) is not None for one in each) else []


def _together(nodes: Sequence[Node]) -> Node:
    """Return the node that rounds several values to one dtype; one alone as it is."""
    if len(nodes) == 1:
        return nodes[0]
    (_, dtype), outs = nodes[0].args, [node.results for node in nodes]
    return Node("foreach_cast", ([node.args[0] for node in nodes], dtype), outs, False, nodes[0].line)


def _is_product(node: Node) -> bool:
    """Return whether a convolution is a product of matrices as they lie."""
    (x, weight, *_), (*where, groups) = refs_in(node.args), node.args[-4:]
    alike = all(ref.dtype == node.results.dtype for ref in refs_in(node.args)) and node.results.dtype in DTYPES
    usual = weight.shape[2:] == (1, 1) and tuple(map(tuple, where[:2])) == ((1, 1), (0, 0)) and groups == 1
    return usual and alike and x.shape[0] == 1 and 0 not in x.shape


def _rows(x: Ref, recording: Recording, nodes: list[Node]) -> Ref:
    """Return a value as a matrix whose rows are all but the last dimension, by a further node if it is none."""
    if len(x.shape) == 2:
        return x
    matrix = recording.new((math.prod(x.shape[:-1]), x.shape[-1]), x.dtype)
    nodes.append(Node("reshape", (x, matrix.shape), matrix, False, ()))
    return matrix


def divided(nodes: Sequence[Node], recording: Recording) -> list[Node]:
    """Return the nodes with means over rows as sums, which programs have, and quotients.

    Args:
        nodes: the nodes.
        recording: the recording, which gives numbers to new values.
    """
    changed: list[Node] = []
    for node in nodes:
        wide = node.name == "mean" and node.results.dtype in DTYPES
        if not wide or not _over_rows(node.args[0].shape, node.args[1]):
            changed.append(node)
            continue
        out, count = node.results, math.prod([node.args[0].shape[dim] for dim in node.args[1]])
        total = recording.new(out.shape, out.dtype)
        changed.append(Node("sum", node.args, total, False, node.line))
        changed.append(Node("div", (total, float(count)), out, False, node.line))
    return changed


def _over_rows(shape: Shape, dims: Dims) -> bool:
    """Return whether a reduction over dims is known after the last of several rows only."""
    others = [dim for dim, size in enumerate(shape) if size != 1 and dim not in dims]
    if not others:
        return math.prod(shape) > LONGEST
    return 0 not in shape and any(shape[dim] != 1 and dim < others[0] for dim in dims)


def folded(nodes: Sequence[Node], outputs: Sequence[Ref], device: Any) -> tuple[list[Node], dict[int, Any]]:
    """Return the nodes without those that compute one number from constant numbers, and the primitives of these.

    Args:
        nodes: the nodes.
        outputs: the outputs, which must be new memory and are left.
        device: the device that computes.
    """
    known: dict[int, Any] = {}
    kept: list[Node] = []
    returned = {ref.number for ref in outputs}
    for node in nodes:
        ref = node.results
        if ref.__class__ is Ref and ref.shape == () and ref.number not in returned and _constant(node, known):
            args = mapped(node.args, lambda x: known[x.number])
            known[ref.number] = getattr(device, node.name)(*args)
        else:
            kept.append(node)
    return kept, known


def prepared(
    nodes: Sequence[Node], outputs: Sequence[Ref], fixed: Mapping[int, Any], device: Any
) -> tuple[list[Node], dict[int, Any]]:
    """Return the nodes without those that depend on fixed values alone, and the primitives of these, such as weights
    in another order. Branches compute theirs once as well.

    Results that take more memory than what they are computed from are left to each replay, so that weights of 8 bits
    are not kept as floats as well; those of 16 bits are.

    Args:
        nodes: the nodes.
        outputs: the outputs, which must be new memory and are left.
        fixed: the primitives that are the same in each replay, by the numbers of their values.
        device: the device that computes.
    """
    known, made, kept = dict(fixed), dict[int, Any](), list[Node]()
    filled = {node.results.number: node for node in nodes if node.name == "full"}
    returned = {ref.number for ref in outputs}

    def value(x: Ref) -> Any:
        return known[x.number] if x.number in known else device.full(*filled[x.number].args)

    for node in nodes:
        ref = node.results
        if ref.__class__ is Ref and ref.number not in returned and _once(node, ref, known, filled):
            args = mapped(node.args, value)
            known[ref.number] = made[ref.number] = getattr(device, node.name)(*args)
        elif node.name == "nested":
            block, values = node.args
            given = {k: known[value.number] for k, value in enumerate(values) if value.number in known}
            kept.append(Node("nested", (block.fixing(given), values), node.results, node.effect, node.line))
        else:
            kept.append(node)
    return kept, made


def _once(node: Node, ref: Ref, known: Container[int], filled: Container[int]) -> bool:
    """Return whether a node may be computed once from known values, and arrays that are filled with a number."""
    op, given = operations().get(node.name), refs_in(node.args)
    if op is None or node.effect or node.draws or op.consumes or node.name in REPEATED:
        return False
    if not any(x.number in known for x in given):
        return node.name == "arange" and _size(ref) <= _SMALL
    if not all(x.number in known or x.number in filled for x in given):
        return False
    memory = sum(_size(x) * x.dtype.itemsize for x in given)
    grows = _size(ref) > sum(map(_size, given)) or _size(ref) * ref.dtype.itemsize > _WIDENED * memory
    return not grows or _size(ref) <= _SMALL


_SMALL = 1 << 15
"""The number of elements up to which a result is computed once even if it takes more memory than its arguments."""
_WIDENED = 2
"""How many times the memory of its arguments a result may take that has no more elements."""


def _size(ref: Ref) -> int:
    return math.prod(ref.shape)


def _constant(node: Node, known: Container[int]) -> bool:
    """Return whether a node is elementwise arithmetic of known numbers."""
    op = operations().get(node.name)
    if node.effect or op is None or op.consumes or not (node.name in ("full", "detach") or op.elementwise):
        return False
    return all(ref.number in known for ref in refs_in(node.args))


def _combine(chain: list[Node], recording: Recording, replaced: dict[int, list[Node]], zeros: Set[int]) -> None:
    """Write a chain of additions to slices as one addition for each slice, at the end of the chain.

    Additions to zeros become `PLACED`: all if their slices do not overlap, else the first one.
    """
    sums: dict[str, tuple[Any, Ref]] = {}
    added: list[Node] = []
    for node in chain:
        _, key, grad = node.args
        known = sums.get(repr(key))
        if known is None:
            sums[repr(key)] = key, grad
            continue
        total = recording.new(grad.shape, known[1].dtype)
        added.append(Node("add", (known[1], grad), total, False, node.line))
        sums[repr(key)] = key, total
    start, end, line = chain[0].args[0], chain[-1].results, chain[-1].line
    for node in chain:
        replaced[id(node)] = []
    parts = [*sums.values()]
    placed = start.number in zeros and all(grad.dtype == end.dtype for _, grad in parts)
    together = len(parts) if placed and beside([key for key, _ in parts], end.shape) is not None else int(placed)
    if together:
        start = end if together == len(parts) else recording.new(end.shape, end.dtype)
        keys, grads = [key for key, _ in parts[:together]], [grad for _, grad in parts[:together]]
        added.append(Node(PLACED, (keys, grads), start, False, line))
    for position, (key, grad) in enumerate(parts[together:], together + 1):
        result = end if position == len(parts) else recording.new(end.shape, end.dtype)
        added.append(Node("accumulate_slice", (start, key, grad), result, False, line))
        start = result
    replaced[id(chain[-1])] = added


def beside(keys: Sequence[Key], shape: Shape) -> list[Key] | None:
    """Return the slices of a shape that keys leave out; all of it if they are not a few. None if keys may overlap.

    >>> beside([(slice(2, 5, 1),)], (9, 4))
    [(slice(0, 2, 1),), (slice(5, 9, 1),)]
    >>> beside([(slice(0, 2, 1),), (slice(2, 9, 1),)], (9, 4)), beside([(slice(0, 2, 1),), (0,)], (9, 4))
    ([], None)
    """
    found = spans_of(keys, shape)
    if found is None:
        return [()] if len(keys) == 1 else None
    dim, spans = found
    gaps, at = list[slice](), 0
    for start, stop, _ in spans:
        gaps.append(slice(at, start, 1))
        at = stop
    gaps.append(slice(at, shape[dim] if shape else at, 1))
    return [(*(slice(None, None, 1),) * dim, gap) for gap in gaps if gap.start != gap.stop]
