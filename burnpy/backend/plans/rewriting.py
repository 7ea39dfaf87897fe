"""`rewritten`: the nodes of a recording, changed so that more of them become programs.

Numbers that are the same in each replay are computed once. Gradients of several uses of one slice are added before they
are added to the whole. Operations on permuted values are computed on the arrays as they lie, and so are products by
transposed matrices. The rest of the arithmetic stays.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence, Set
from typing import Any, TypeVar

from burnpy.backend.plans.program_steps import DTYPES, LONGEST
from burnpy.backend.plans.recording import REPEATED, Node, Recording, Ref, live, mapped, operations, refs_in
from burnpy.backend.primitives import Dims, Key, Shape
from burnpy.backend.rules import spans_of

T = TypeVar("T")

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

_REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "any", "all")
"""The reductions over several dims."""
_VIEWS = ("permute", "mT", "detach")
"""The operations that change nothing but the order of dims."""


def permuted_last(nodes: Sequence[Node], outputs: Sequence[Ref], recording: Recording) -> list[Node]:
    """Return the nodes with pointwise operations, reductions and parts of permuted values computed as they lie.

    Programs read C-contiguous arrays, and would copy permuted ones in each replay; what they compute is permuted after.
    So are operations on inputs whose dims had another order in memory when they were recorded. Permutations that undo
    others are left out, so that what lies between two of them can follow a convolution.

    Args:
        nodes: the nodes.
        outputs: the outputs.
        recording: the recording, which gives numbers to new values.
    """
    if not recording.orders and not any(node.name in ("permute", "mT") for node in nodes):
        return list(nodes)
    layouts = _Layouts(nodes, recording)
    while layouts.refuse():
        pass
    return live(layouts.written({ref.number for ref in outputs}), outputs)


class _Layouts:
    """The orders in which values lie in memory: for each dim of a value, the dim of the array that it is a view of."""

    def __init__(self, nodes: Sequence[Node], recording: Recording) -> None:
        self._nodes, self._recording = nodes, recording
        self._expanded = {node.results.number: node.args[0] for node in nodes if node.name == "expand"}
        self._filled = {node.results.number: node for node in nodes if node.name == "full"}
        self._uses: dict[int, list[Node]] = {}
        for node in nodes:
            for ref in refs_in(node.args):
                self._uses.setdefault(ref.number, []).append(node)
        self._moved = {id(node) for node in nodes if _is_pointwise(node) or node.name in (*_REDUCTIONS, "cat", "slice")}
        self._orders: dict[int, Dims] = {}
        self._find()

    def refuse(self) -> bool:
        """Leave the operations whose results another operation would copy; return whether there are more of them."""
        before = len(self._moved)
        for node in reversed(self._nodes):
            if id(node) in self._moved:
                read = node.args[0] if node.name in _REDUCTIONS else node.results
                if not self._read_in_order(read):
                    self._moved.remove(id(node))
        if len(self._moved) == before:
            return False
        self._find()
        return True

    def _find(self) -> None:
        """Find the orders of all values, and leave the operations that read no permuted value or several orders."""
        self._orders = {number: _inverse(order) for number, order in self._recording.orders.items()}
        for node in self._nodes:
            order = self._order_of(node)
            if order is None:
                self._moved.discard(id(node))
            elif order != tuple(range(len(order))):
                self._orders[node.results.number] = order

    def _order_of(self, node: Node) -> Dims | None:
        """Return the order of a node's result; None if it is not moved."""
        if node.name in _VIEWS:
            return self._viewed(node)
        if id(node) not in self._moved or (node.name == "slice" and any(x.__class__ is int for x in node.args[1])):
            return None
        of_one = node.name in _REDUCTIONS or node.name == "slice"
        order = self._orders.get(node.args[0].number) if of_one else self._common(node)
        if order is None or node.name not in _REDUCTIONS:
            return order
        _, dims, keepdim = node.args
        left = [order[dim] for dim in range(len(order)) if keepdim or dim not in dims]
        return tuple([sorted(left).index(dim) for dim in left])

    def _viewed(self, node: Node) -> Dims:
        order, n = self._orders.get(node.args[0].number), len(node.results.shape)
        dims: Dims = tuple(node.args[1]) if node.name == "permute" else tuple(range(n))
        if node.name == "mT":
            dims = (*dims[:-2], n - 1, n - 2)
        return dims if order is None else tuple([order[dim] for dim in dims])

    def _common(self, node: Node) -> Dims | None:
        """Return the order of all operands of the result's shape, or that are joined, if it is one."""
        shape, orders, joins = node.results.shape, set[Dims | None](), node.name == "cat"
        for ref in refs_in(node.args):
            source = ref if joins else self._source(ref)
            if joins or (source.shape == shape and source.number not in self._filled):
                orders.add(self._orders.get(source.number))
        return orders.pop() if len(orders) == 1 and 0 not in shape else None

    def _source(self, ref: Ref) -> Ref:
        while ref.number in self._expanded:
            ref = self._expanded[ref.number]
        return ref

    def _read_in_order(self, ref: Ref) -> bool:
        """Return whether nothing that reads a value, or a view of it, would copy it."""
        order = self._orders.get(ref.number)
        return order is None or all(
            self._read_in_order(user.results)
            if user.name in _VIEWS
            else id(user) in self._moved or (order == (1, 0) and user.name in _TURNED and ref.dtype in DTYPES)
            for user in self._uses.get(ref.number, ())
        )

    def written(self, returned: Container[int]) -> list[Node]:
        """Return the nodes, given the numbers of outputs."""
        new: list[Node] = []
        same: dict[int, Ref] = {}  # the arrays that values are, after permutations that undo others
        arrays: dict[int, Ref] = {}  # those that values with an order are views of

        def given(name: str, x: Ref, argument: Shape, shape: Shape, node: Node) -> Ref:
            result = self._recording.new(shape, x.dtype)
            new.append(Node(name, (x, argument), result, False, node.line))
            return result

        def current(x: Ref) -> Ref:
            return same.get(x.number, x)

        def array(x: Ref, node: Node) -> Ref:
            if x.number not in arrays:
                order = self._recording.orders.get(x.number)
                arrays[x.number] = x if order is None else given("permute", x, order, _reordered(x.shape, order), node)
            return arrays[x.number]

        def operand(x: Ref, order: Dims, node: Node) -> Ref:
            source, inverse, shape = self._source(x), _inverse(order), node.results.shape
            if source.shape == shape:
                if source.number not in self._filled:
                    return array(source, node)
                result = self._recording.new(_reordered(shape, inverse), x.dtype)
                _, *rest = self._filled[source.number].args
                new.append(Node("full", (result.shape, *rest), result, False, node.line))
                return result
            if len(source.shape) == len(shape) and self._orders.get(source.number) == order:
                return array(source, node)
            source = current(source)
            if source.shape == () == x.shape:
                return source
            padded = (1,) * (len(shape) - len(source.shape)) + source.shape
            turned = _reordered(padded, inverse)
            if [dim for dim in inverse if padded[dim] != 1] == [dim for dim, size in enumerate(padded) if size != 1]:
                return source if turned == source.shape else given("reshape", source, turned, turned, node)
            source = source if padded == source.shape else given("reshape", source, padded, padded, node)
            return given("permute", source, inverse, turned, node)

        for node in self._nodes:
            if id(node) not in self._moved:
                undone = node.name in _VIEWS and node.args[0].number in self._orders
                if undone and node.results.number not in self._orders:
                    same[node.results.number] = array(node.args[0], node)
                    if node.results.number not in returned:
                        continue
                new.append(Node(node.name, mapped(node.args, current), node.results, node.effect, node.line))
                if node.results.__class__ is Ref and node.results.number in self._orders:
                    x = node.args[0]
                    arrays[node.results.number] = array(x, node) if x.number in self._orders else current(x)
                continue
            out = node.results
            if node.name in _REDUCTIONS:
                x, dims, keepdim = node.args
                order = self._orders[x.number]
                args = array(x, node), tuple(sorted(order[dim] for dim in dims)), keepdim
            elif node.name == "slice":
                x, key = node.args
                order = self._orders[x.number]
                whole = (*key, *[slice(None, None, 1)] * (len(order) - len(key)))
                args = array(x, node), _reordered(whole, _inverse(order))
            elif node.name == "cat":
                order = self._common(node) or ()
                args = [array(x, node) for x in node.args[0]], order[node.args[1]]
            else:
                order = self._common(node) or ()
                args = mapped(node.args, lambda x: operand(x, order, node))  # noqa: B023  # called at once
            order = self._orders.get(out.number, ())
            result = self._recording.new(_reordered(out.shape, _inverse(order)), out.dtype) if order else out
            new.append(Node(node.name, args, result, False, node.line))
            if order:
                arrays[out.number] = result
                new.append(Node("permute", (result, order), out, False, node.line))
        return new


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
        for ref in (matrix, x) if len(matrix.shape) == 1 else (matrix,):
            if recording.orders.get(ref.number) == (1, 0) and ref.number not in views:
                views[ref.number] = recording.new(ref.shape[::-1], ref.dtype)
                new.append(Node("permute", (ref, (1, 0)), views[ref.number], False, node.line))
        if matrix.number in views and len(x.shape) > 1:
            result = recording.new(node.results.shape, node.results.dtype) if bias else node.results
            new.append(Node(_TURNED[node.name], (x, views[matrix.number]), result, False, node.line))
            if bias:
                new.append(Node("add", (result, bias[0]), node.results, False, node.line))
        elif node.name == "matmul" and x.number in views and len(matrix.shape) == 2:
            new.append(Node("matmul_tn", (views[x.number], matrix), node.results, False, node.line))
        elif node.name == "matmul" and x.number in views and len(matrix.shape) == 1:
            new.append(Node("matmul", (matrix, views[x.number]), node.results, False, node.line))
        else:
            new.append(node)
    return new


def _transposes(node: Node, recording: Recording) -> bool:
    """Return whether a node transposes a matrix of floats whose rows lie together."""
    if node.name != "mT" and (node.name != "permute" or tuple(node.args[1]) != (1, 0)):
        return False
    x = node.args[0]
    return len(x.shape) == 2 and x.dtype in DTYPES and x.number not in recording.orders


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
