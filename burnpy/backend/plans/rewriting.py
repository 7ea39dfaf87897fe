"""Passes that change the nodes of a recording, so that more of them become programs.

`combine_slice_gradients` adds the gradients of several uses of one slice before they are added to the whole.
`sink_permutations` computes on permuted arrays as they lie, and `fold_transposes` multiplies by transposed matrices so.
`lower_means` writes means as sums. The rest of the arithmetic stays.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence, Set
from typing import Any, TypeVar

from burnpy.backend.plans.program_steps import DTYPES, LONGEST
from burnpy.backend.plans.recording import Node, NodeBuilder, Recording, Ref, live, mapped, operations, refs_in, uses_of
from burnpy.backend.primitives import Dims, Key, Shape
from burnpy.backend.rules import spans_of

T = TypeVar("T")

PLACED = "placed_slice"
"""The name of nodes that add to slices of zeros: they write new memory, and no zeros where the slices are."""


def combine_slice_gradients(nodes: Sequence[Node], outputs: Sequence[Ref], recording: Recording) -> list[Node]:
    """Return the nodes with the gradients of equal slices added first."""
    uses = uses_of(nodes, outputs)
    zeros = {node.results.number for node in nodes if node.name == "full" and node.args[1] == 0}
    unshared = {number for number in zeros if uses[number] == 1}
    replaced: dict[int, list[Node]] = {}  # what takes the place of a node, by its id
    for chain in _chains(nodes, uses):
        replaced |= {id(node): [] for node in chain}
        replaced[id(chain[-1])] = _combined(chain, recording, unshared)
    return [new for node in nodes for new in replaced.get(id(node), (node,))]


def _chains(nodes: Sequence[Node], uses: Mapping[int, int]) -> list[list[Node]]:
    """Return the additions to slices that lead to one value each, where nothing else reads the sums between."""
    chains: list[list[Node]] = []
    by_result: dict[int, list[Node]] = {}
    for node in nodes:
        if node.name == "accumulate_slice":
            total = node.args[0].number
            chain = by_result.pop(total, None) if uses.get(total) == 1 else None
            if chain is None:
                chain = []
                chains.append(chain)
            chain.append(node)
            by_result[node.results.number] = chain
    return chains


def _combined(chain: Sequence[Node], recording: Recording, zeros: Set[int]) -> list[Node]:
    """Return a chain of additions to slices as one addition for each slice.

    Additions to zeros become `PLACED`: all if their slices do not overlap, else the first one.
    """
    first, last, builder = chain[0], chain[-1], NodeBuilder(recording)
    start, end = first.args[0], last.results
    parts = _sums_by_slice(chain, builder)
    placed = start.number in zeros and all(grad.dtype == end.dtype for _, grad in parts)
    together = len(parts) if placed and beside([key for key, _ in parts], end.shape) is not None else int(placed)

    def result(position: int) -> Ref:
        return end if position == len(parts) else recording.new(end.shape, end.dtype)

    if together:
        start = result(together)
        keys, grads = [key for key, _ in parts[:together]], [grad for _, grad in parts[:together]]
        builder.write(last, PLACED, (keys, grads), start)
    for position, (key, grad) in enumerate(parts[together:], together + 1):
        args, start = (start, key, grad), result(position)
        builder.write(last, "accumulate_slice", args, start)
    return builder.nodes


def _sums_by_slice(chain: Sequence[Node], builder: NodeBuilder) -> list[tuple[Any, Ref]]:
    """Write the sums of the gradients added to each slice, and return the slices' keys with them."""
    sums: dict[str, tuple[Any, Ref]] = {}
    for node in chain:
        _, key, grad = node.args
        if (known := sums.get(repr(key))) is not None:
            grad = builder.new(node, "add", (known[1], grad), grad.shape, known[1].dtype)
        sums[repr(key)] = key, grad
    return [*sums.values()]


_BY_TRANSPOSE = {"matmul": "matmul_nt", "matmul_nt": "matmul", "linear": "matmul_nt"}
"""The products by the transpose of their second matrix."""

_REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "any", "all")
"""The reductions over several dims."""
_VIEWS = ("permute", "mT", "detach")
"""The operations that change nothing but the order of dims."""


def sink_permutations(nodes: Sequence[Node], outputs: Sequence[Ref], recording: Recording) -> list[Node]:
    """Return the nodes with pointwise operations, reductions and parts of permuted values computed as they lie.

    Programs read C-contiguous arrays, and would copy permuted ones in each replay; what they compute is permuted after.
    So are operations on inputs whose dims had another order in memory when they were recorded. Permutations that undo
    others are left out, so that what lies between two of them can follow a convolution.
    """
    if not recording.orders and not any(node.name in ("permute", "mT") for node in nodes):
        return list(nodes)
    layouts = _Layouts(nodes, recording)
    while layouts.refuse():
        pass
    return live(_PermutationSink(layouts, recording, {ref.number for ref in outputs}).run(), outputs)


class _Layouts:
    """The orders in which values lie in memory: for each dim of a value, the dim of the array that it is a view of."""

    def __init__(self, nodes: Sequence[Node], recording: Recording) -> None:
        self.nodes, self._recording = nodes, recording
        self._expanded = {node.results.number: node.args[0] for node in nodes if node.name == "expand"}
        self.filled = {node.results.number: node for node in nodes if node.name == "full"}
        self._uses: dict[int, list[Node]] = {}
        for node in nodes:
            for ref in refs_in(node.args):
                self._uses.setdefault(ref.number, []).append(node)
        self.moved = {id(node) for node in nodes if _is_pointwise(node) or node.name in (*_REDUCTIONS, "cat", "slice")}
        self.orders: dict[int, Dims] = {}
        self._find()

    def refuse(self) -> bool:
        """Leave the operations whose results another operation would copy; return whether there are more of them."""
        before = len(self.moved)
        for node in reversed(self.nodes):
            if id(node) in self.moved:
                read = node.args[0] if node.name in _REDUCTIONS else node.results
                if not self._read_in_order(read):
                    self.moved.remove(id(node))
        if len(self.moved) == before:
            return False
        self._find()
        return True

    def _find(self) -> None:
        """Find the orders of all values, and leave the operations that read no permuted value or several orders."""
        self.orders = {number: _inverse(order) for number, order in self._recording.orders.items()}
        for node in self.nodes:
            order = self._order_of(node)
            if order is None:
                self.moved.discard(id(node))
            elif order != tuple(range(len(order))):
                self.orders[node.results.number] = order

    def _order_of(self, node: Node) -> Dims | None:
        """Return the order of a node's result; None if it is not moved."""
        if node.name in _VIEWS:
            return self._viewed(node)
        if id(node) not in self.moved or (node.name == "slice" and any(x.__class__ is int for x in node.args[1])):
            return None
        of_one = node.name in _REDUCTIONS or node.name == "slice"
        order = self.orders.get(node.args[0].number) if of_one else self.common_order(node)
        if order is None or node.name not in _REDUCTIONS:
            return order
        _, dims, keepdim = node.args
        left = [order[dim] for dim in range(len(order)) if keepdim or dim not in dims]
        return tuple([sorted(left).index(dim) for dim in left])

    def _viewed(self, node: Node) -> Dims:
        order, n = self.orders.get(node.args[0].number), len(node.results.shape)
        dims: Dims = tuple(node.args[1]) if node.name == "permute" else tuple(range(n))
        if node.name == "mT":
            dims = (*dims[:-2], n - 1, n - 2)
        return dims if order is None else tuple([order[dim] for dim in dims])

    def common_order(self, node: Node) -> Dims | None:
        """Return the order of all operands of the result's shape, or that are joined, if it is one."""
        shape, orders, joins = node.results.shape, set[Dims | None](), node.name == "cat"
        for ref in refs_in(node.args):
            source = ref if joins else self.source(ref)
            if joins or (source.shape == shape and source.number not in self.filled):
                orders.add(self.orders.get(source.number))
        return orders.pop() if len(orders) == 1 and 0 not in shape else None

    def source(self, ref: Ref) -> Ref:
        """Return the value that a value expands, itself if it expands none."""
        while ref.number in self._expanded:
            ref = self._expanded[ref.number]
        return ref

    def _read_in_order(self, ref: Ref) -> bool:
        """Return whether nothing that reads a value, or a view of it, would copy it."""
        order = self.orders.get(ref.number)
        return order is None or all(
            self._read_in_order(user.results)
            if user.name in _VIEWS
            else id(user) in self.moved or (order == (1, 0) and user.name in _BY_TRANSPOSE and ref.dtype in DTYPES)
            for user in self._uses.get(ref.number, ())
        )


class _PermutationSink:
    """The nodes of `_Layouts`' operations on arrays as they lie, each with the permutation of its result after it.

    Args:
        layouts: the orders.
        recording: the recording, which gives numbers to new values.
        returned: the numbers of the outputs.
    """

    def __init__(self, layouts: _Layouts, recording: Recording, returned: Container[int]) -> None:
        self._layouts, self._recording, self._returned = layouts, recording, returned
        self._builder = NodeBuilder(recording)
        self._same: dict[int, Ref] = {}  #: the arrays that values are, after permutations that undo others
        self._arrays: dict[int, Ref] = {}  #: the arrays that values with an order are views of

    def run(self) -> list[Node]:
        """Return the nodes."""
        for node in self._layouts.nodes:
            if id(node) in self._layouts.moved:
                self._move(node)
            else:
                self._keep(node)
        return self._builder.nodes

    def _keep(self, node: Node) -> None:
        """Write a node as it is; nothing for a permutation that undoes others, unless its result is an output."""
        out, orders = node.results, self._layouts.orders
        is_permuted = out.__class__ is Ref and out.number in orders
        if node.name in _VIEWS and node.args[0].number in orders and not is_permuted:
            self._same[out.number] = self._array(node.args[0], node)
            if out.number not in self._returned:
                return
        self._builder.nodes.append(node.with_args(mapped(node.args, self._current)))
        if is_permuted:
            x = node.args[0]
            self._arrays[out.number] = self._array(x, node) if x.number in orders else self._current(x)

    def _move(self, node: Node) -> None:
        """Write a node whose operands are the arrays as they lie, and the permutation of its result."""
        out, args = node.results, self._moved_args(node)
        order = self._layouts.orders.get(out.number, ())
        if not order:
            self._builder.write(node, node.name, args, out)
            return
        array = self._builder.new(node, node.name, args, _reordered(out.shape, _inverse(order)), out.dtype)
        self._arrays[out.number] = array
        self._builder.write(node, "permute", (array, order), out)

    def _moved_args(self, node: Node) -> tuple[Any, ...]:
        """Return the arguments of a node on the arrays as they lie, with the array's dims instead of the value's."""
        layouts = self._layouts
        if node.name in _REDUCTIONS:
            x, dims, keepdim = node.args
            order = layouts.orders[x.number]
            return self._array(x, node), tuple(sorted(order[dim] for dim in dims)), keepdim
        if node.name == "slice":
            x, key = node.args
            order = layouts.orders[x.number]
            whole = (*key, *[slice(None, None, 1)] * (len(order) - len(key)))
            return self._array(x, node), _reordered(whole, _inverse(order))
        order = layouts.common_order(node) or ()
        if node.name == "cat":
            return [self._array(x, node) for x in node.args[0]], order[node.args[1]]
        args: tuple[Any, ...] = mapped(node.args, lambda x: self._operand(x, order, node))
        return args

    def _current(self, x: Ref) -> Ref:
        return self._same.get(x.number, x)

    def _array(self, x: Ref, node: Node) -> Ref:
        """Return the array that a value is a view of; an input's dims are permuted once, at ``node``."""
        if x.number not in self._arrays:
            order = self._recording.orders.get(x.number)
            self._arrays[x.number] = x if order is None else self._builder.permuted(node, x, order)
        return self._arrays[x.number]

    def _operand(self, x: Ref, order: Dims, node: Node) -> Ref:
        """Return an operand of an elementwise node whose result has an order, with the dims of the result's array."""
        layouts, shape = self._layouts, node.results.shape
        source = layouts.source(x)
        if source.number in layouts.filled and source.shape == shape:
            _, *rest = layouts.filled[source.number].args
            reordered = _reordered(shape, _inverse(order))
            return self._builder.new(node, "full", (reordered, *rest), reordered, x.dtype)
        has_order = len(source.shape) == len(shape) and layouts.orders.get(source.number) == order
        if source.shape == shape or has_order:
            return self._array(source, node)
        return self._current(source) if source.shape == () == x.shape else self._broadcast(source, order, node)

    def _broadcast(self, source: Ref, order: Dims, node: Node) -> Ref:
        """Return an operand with fewer elements than the result, with the dims of the result's array."""
        builder, inverse, x = self._builder, _inverse(order), self._current(source)
        padded = (1,) * (len(order) - len(x.shape)) + x.shape
        reordered = _reordered(padded, inverse)
        if [dim for dim in inverse if padded[dim] != 1] == [dim for dim, size in enumerate(padded) if size != 1]:
            return builder.reshaped(node, x, reordered)  # only dims of size 1 change places
        return builder.permuted(node, builder.reshaped(node, x, padded), inverse)


def _is_pointwise(node: Node) -> bool:
    """Return whether each element of a node's result depends on the same element of its arguments alone."""
    op = operations().get(node.name)
    if (
        op is None
        or node.effect
        or node.results.__class__ is not Ref
        or any(a.sequence or a.role for a in op.arguments)
    ):
        return False
    return op.elementwise or node.name == "accumulate"


def _inverse(order: Dims) -> Dims:
    return tuple([order.index(dim) for dim in range(len(order))])


def _reordered(shape: Sequence[T], order: Dims) -> tuple[T, ...]:
    return tuple([shape[dim] for dim in order])


def fold_transposes(nodes: Sequence[Node], recording: Recording) -> list[Node]:
    """Return the nodes with products by the transposes of matrices whose columns lie together: of loaded weights, and
    of matrices that the function transposes.

    A product reads rows, and would copy such a matrix in each replay.
    """
    views = {node.results.number: node.args[0] for node in nodes if _transposes(node, recording)}
    builder = NodeBuilder(recording)
    for node in nodes:
        if node.name not in _BY_TRANSPOSE:
            builder.nodes.append(node)
            continue
        x, matrix, *bias = node.args
        for ref in (matrix, x) if len(matrix.shape) == 1 else (matrix,):
            if recording.orders.get(ref.number) == (1, 0) and ref.number not in views:
                views[ref.number] = builder.permuted(node, ref, (1, 0))
        out = node.results
        if matrix.number in views and len(x.shape) > 1:
            product = recording.new(out.shape, out.dtype) if bias else out
            builder.write(node, _BY_TRANSPOSE[node.name], (x, views[matrix.number]), product)
            if bias:
                builder.write(node, "add", (product, bias[0]), out)
        elif node.name == "matmul" and x.number in views and len(matrix.shape) == 2:
            builder.write(node, "matmul_tn", (views[x.number], matrix), out)
        elif node.name == "matmul" and x.number in views and len(matrix.shape) == 1:
            builder.write(node, "matmul", (matrix, views[x.number]), out)
        else:
            builder.nodes.append(node)
    return builder.nodes


def _transposes(node: Node, recording: Recording) -> bool:
    """Return whether a node transposes a matrix of floats whose rows lie together."""
    if node.name != "mT" and (node.name != "permute" or tuple(node.args[1]) != (1, 0)):
        return False
    x = node.args[0]
    return len(x.shape) == 2 and x.dtype in DTYPES and x.number not in recording.orders


def lower_means(nodes: Sequence[Node], recording: Recording) -> list[Node]:
    """Return the nodes with means over rows as sums, which programs have, and quotients."""
    builder = NodeBuilder(recording)
    for node in nodes:
        wide = node.name == "mean" and node.results.dtype in DTYPES
        if wide and _over_rows(node.args[0].shape, node.args[1]):
            out, count = node.results, math.prod([node.args[0].shape[dim] for dim in node.args[1]])
            total = builder.new(node, "sum", node.args, out.shape, out.dtype)
            builder.write(node, "div", (total, float(count)), out)
        else:
            builder.nodes.append(node)
    return builder.nodes


def _over_rows(shape: Shape, dims: Dims) -> bool:
    """Return whether a reduction over dims is known after the last of several rows only."""
    others = [dim for dim, size in enumerate(shape) if size != 1 and dim not in dims]
    if not others:
        return math.prod(shape) > LONGEST
    return 0 not in shape and any(shape[dim] != 1 and dim < others[0] for dim in dims)


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
