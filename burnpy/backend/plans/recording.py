"""`Recording`: the operations of a computation in order, with the shapes and dtypes of their values, but no values.

`burnpy.backend.decorators.recorded.Recorded` makes one. Everything that looks at a computation as a whole reads it:
`simplified` drops and merges nodes, `fold_constants` computes those that depend on constants alone, and `split`
separates the gradient. A pass that changes nodes writes the new ones with a `NodeBuilder`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.backend import operations as schema
from burnpy.backend.primitives import Dims, DType, Shape

if TYPE_CHECKING:
    from burnpy.backend.call_origin import Stack


class Ref:
    """A value of a recording: a number that stands for it in the arguments and results of nodes."""

    __slots__ = ("dtype", "number", "shape")

    def __init__(self, number: int, shape: Shape, dtype: DType) -> None:
        self.number, self.shape, self.dtype = number, shape, dtype

    def __repr__(self) -> str:
        return f"%{self.number}"


class DefaultGenerator:
    """An argument of a node that stands for the default random generator of a device in the thread that replays."""

    __slots__ = ("find",)

    def __init__(self, find: Callable[[], np.random.Generator]) -> None:
        self.find = find


class Node:
    """One call of a method of the device.

    Arguments and results are primitives as `Ref`, other values as they are, in lists and tuples.
    """

    __slots__ = ("args", "effect", "line", "name", "results")

    def __init__(self, name: str, args: tuple[Any, ...], results: Any, effect: bool, line: Stack) -> None:
        self.name = name  #: the method, in most cases an operation of the schema
        self.args = args  #: all its arguments, in order
        self.results = results  #: what it returns
        self.effect = effect  #: whether it does more than return a value, as drawing random numbers does
        self.line = line  #: the user's line that called it

    def __repr__(self) -> str:
        return f"{self.results} = {self.name}{self.args}"

    def replacement(self, name: str, args: tuple[Any, ...], results: Any) -> Node:
        """Return a node without effects, at the same line of the user, that computes what this one did."""
        return Node(name, args, results, False, self.line)

    def with_args(self, args: tuple[Any, ...]) -> Node:
        """Return the node with other arguments."""
        return Node(self.name, args, self.results, self.effect, self.line)

    @property
    def draws(self) -> bool:
        """True if it draws random numbers, in a loop or branch as well."""
        return any(
            x.__class__ is DefaultGenerator
            or (x.__class__ is Ref and x.dtype == np.dtype(object))
            or getattr(x, "draws", False)
            for x in self.args
        )


class Recording:
    """The nodes of a computation, its inputs, constants and outputs.

    Args:
        whole: the recording whose values these are, if it is a part; new values have numbers of their own.
    """

    def __init__(self, whole: Recording | None = None) -> None:
        self.nodes: list[Node] = []
        self.inputs: list[Ref] = []  #: primitives, and generators whose shape is ()
        self.constants: dict[int, Any] = {}  #: the primitives that come from outside, by the number of the value
        self.outputs: list[Ref] = []
        self.orders: dict[int, Dims] = {}
        """For inputs and constants that are dense, but not C-contiguous: their dims in the order of memory."""
        self.closed = False  #: whether it is complete
        self._count: int = 0 if whole is None else whole._count

    def new(self, shape: Shape, dtype: DType) -> Ref:
        """Return a new value."""
        self._count += 1
        return Ref(self._count - 1, tuple(shape), dtype)

    def given(self, value: Any) -> Ref:
        """Return a new value that stands for a primitive from outside."""
        ref = self.new(value.shape, value.dtype)
        self.note_order(ref.number, value)
        return ref

    def note_order(self, number: int, value: Any) -> None:
        """Note the order of the dims of a primitive in memory, if it is dense and not C-contiguous."""
        n = len(value.shape)
        if n > 1 and getattr(value, "flags", None) is not None and not value.flags.c_contiguous:
            order = tuple(sorted(range(n), key=lambda dim: -value.strides[dim]))
            if value.transpose(order).flags.c_contiguous:
                self.orders[number] = order

    def generator(self) -> Ref:
        """Return a random generator as a further input."""
        ref = self.new((), np.dtype(object))
        self.inputs.append(ref)
        return ref


class NodeBuilder:
    """The nodes that a pass writes, in order."""

    def __init__(self, recording: Recording) -> None:
        self.nodes: list[Node] = []
        self._recording = recording

    def new(self, old: Node, name: str, args: tuple[Any, ...], shape: Shape, dtype: DType) -> Ref:
        """Write a node with a new result, at the line of ``old``, and return the result."""
        result = self._recording.new(shape, dtype)
        self.write(old, name, args, result)
        return result

    def write(self, old: Node, name: str, args: tuple[Any, ...], results: Any) -> None:
        """Write a node that takes the place of ``old``, or a part of it."""
        self.nodes.append(old.replacement(name, args, results))

    def reshaped(self, old: Node, x: Ref, shape: Shape) -> Ref:
        """Return a value in another shape, by a further node if it has another one."""
        return x if x.shape == shape else self.new(old, "reshape", (x, shape), shape, x.dtype)

    def permuted(self, old: Node, x: Ref, order: Dims) -> Ref:
        """Return a value with its dims in another order, by a further node."""
        return self.new(old, "permute", (x, order), tuple([x.shape[dim] for dim in order]), x.dtype)


def same_call(one: Node, two: Node) -> bool:
    """Return whether two nodes of a recording call the same with values of the same shapes and dtypes."""
    shapes = [[(ref.shape, ref.dtype) for ref in refs_in(node.args)] for node in (one, two)]
    if one.name != two.name or shapes[0] != shapes[1] or len(one.args) != len(two.args):
        return False
    pairs = zip(one.args, two.args, strict=True)
    return all(
        x.alike(y) if hasattr(x, "alike") else x is y or x == y for x, y in pairs if not refs_in(x) and not refs_in(y)
    )


def alike(one: Node, two: Node, first: Recording, second: Recording) -> bool:
    """Return whether nodes of two recordings are the same call, with equal constants."""
    return one.name == two.name and _alike(one.args, two.args, first, second)


def _alike(x: Any, y: Any, first: Recording, second: Recording) -> bool:
    if x.__class__ is not y.__class__:
        return False
    if x.__class__ is Ref:
        constant, other = first.constants.get(x.number), second.constants.get(y.number)
        if constant is None or other is None:
            return bool(x.number == y.number and constant is other)
        return np.array_equal(np.asarray(constant), np.asarray(other), equal_nan=x.dtype.kind == "f")
    if x.__class__ is tuple or x.__class__ is list:
        return len(x) == len(y) and all(_alike(a, b, first, second) for a, b in zip(x, y, strict=True))
    if hasattr(x, "alike"):  # a loop or a branch
        return bool(x.alike(y))
    if isinstance(x, (int, str, slice, np.dtype)):
        return bool(x == y)
    return not isinstance(x, float) or x == y or (x != x and y != y)


def refs_in(tree: Any) -> list[Ref]:
    """Return the values among arguments or results, members of lists and tuples included.

    >>> x = Ref(0, (), np.dtype("float32"))
    >>> refs_in((x, [1, x], "sum"))
    [%0, %0]
    """
    if tree.__class__ is Ref:
        return [tree]
    found: list[Ref] = []
    if tree.__class__ is tuple or tree.__class__ is list:
        for member in tree:
            if member.__class__ is Ref:
                found.append(member)
            elif member.__class__ is tuple or member.__class__ is list:
                found += refs_in(member)
    return found


def mapped(tree: Any, f: Callable[[Ref], Any]) -> Any:
    """Return arguments or results with ``f`` applied to each value."""
    if tree.__class__ is Ref:
        return f(tree)
    if tree.__class__ is tuple:
        return tuple([mapped(member, f) for member in tree])
    if tree.__class__ is list:
        return [mapped(member, f) for member in tree]
    return tree


operations = cache(schema)
REPEATED = ("accumulate", "accumulate_slice", "accumulate_index", "foreach", "full")
"""Operations whose results may be overwritten later, so that two equal ones are not computed as one."""


def simplified(recording: Recording) -> tuple[list[Node], list[Ref]]:
    """Return the nodes that the outputs and effects need, equal ones once, and the outputs.

    Effects, such as drawing random numbers and checks, stay in their order.
    """
    merged: dict[int, Ref] = {}
    seen: dict[Any, Node] = {}
    nodes: list[Node] = []

    def current(ref: Ref) -> Ref:
        return merged.get(ref.number, ref)

    for node in recording.nodes:
        args = mapped(node.args, current)
        new = node.with_args(args)
        if not node.effect and node.name not in REPEATED:
            earlier = seen.setdefault((node.name, _key(args)), new)
            if earlier is not new:
                for ref, same in zip(refs_in(node.results), refs_in(earlier.results), strict=True):
                    merged[ref.number] = same
                continue
        nodes.append(new)
    outputs = [current(ref) for ref in recording.outputs]
    return live(nodes, outputs), outputs


def uses_of(nodes: Sequence[Node], outputs: Sequence[Ref]) -> Counter[int]:
    """Return how often nodes read each value, and how often it is an output, by its number."""
    uses = Counter(ref.number for node in nodes for ref in refs_in(node.args))
    uses.update(ref.number for ref in outputs)
    return uses


def live(nodes: Sequence[Node], outputs: Iterable[Ref]) -> list[Node]:
    """Return the nodes that outputs and effects need."""
    needed = {ref.number for ref in outputs}
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.effect or any(ref.number in needed for ref in refs_in(node.results)):
            kept.append(node)
            needed.update(ref.number for ref in refs_in(node.args))
    return kept[::-1]


def fold_numbers(nodes: Sequence[Node], outputs: Sequence[Ref], device: Any) -> tuple[list[Node], dict[int, Any]]:
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


def _constant(node: Node, known: Container[int]) -> bool:
    """Return whether a node is elementwise arithmetic of known numbers."""
    op = operations().get(node.name)
    if node.effect or op is None or op.consumes or not (node.name in ("full", "detach") or op.elementwise):
        return False
    return all(ref.number in known for ref in refs_in(node.args))


def fold_constants(
    nodes: Sequence[Node], outputs: Sequence[Ref], fixed: Mapping[int, Any], device: Any
) -> tuple[list[Node], dict[int, Any]]:
    """Return the nodes without those that depend on fixed values alone, and the primitives of these.

    Weights in another order are such values. Branches compute theirs once as well.

    Results that take more memory than their operands are left to each replay, so that weights of 8 bits
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
            kept.append(node.with_args((block.fixing(given), values)))
        else:
            kept.append(node)
    return kept, made


def _once(node: Node, ref: Ref, known: Container[int], filled: Container[int]) -> bool:
    """Return whether a node may be computed once from known values, and arrays that are filled with a number."""
    op, given = operations().get(node.name), refs_in(node.args)
    if op is None or node.effect or node.draws or op.consumes or node.name in REPEATED:
        return False
    if not any(x.number in known for x in given):
        return node.name == "arange" and _size(ref) <= _SMALL_RESULT
    if not all(x.number in known or x.number in filled for x in given):
        return False
    memory = sum(_size(x) * x.dtype.itemsize for x in given)
    grows = _size(ref) > sum(map(_size, given)) or _size(ref) * ref.dtype.itemsize > _MOST_WIDENED * memory
    return not grows or _size(ref) <= _SMALL_RESULT


_SMALL_RESULT = 1 << 15
"""The number of elements up to which a result is computed once even if it takes more memory than its arguments."""
_MOST_WIDENED = 2
"""How many times the memory of its arguments a result may take that has no more elements."""


def _size(ref: Ref) -> int:
    return math.prod(ref.shape)


def _key(x: Any) -> Any:
    """Return a hashable stand-in for arguments, equal only for equal ones: 1, 1.0 and True differ, as do 0 and -0."""
    kind = x.__class__
    if kind is Ref:
        return (Ref, x.number)
    if kind is tuple or kind is list:
        return (kind, *[_key(member) for member in x])
    if kind is float:
        return (float, x.hex())
    if kind is slice:
        return (slice, x.start, x.stop, x.step)
    if kind in (int, bool, str, type(None)):
        return (kind, x)
    return (kind, id(x))


def part(whole: Recording, nodes: Sequence[Node], inputs: Iterable[Ref], outputs: Iterable[Ref]) -> Recording:
    """Return some nodes of a recording as a recording of their own, with other inputs and outputs."""
    own = Recording(whole)
    own.nodes, own.inputs, own.outputs, own.constants = list(nodes), list(inputs), list(outputs), whole.constants
    return own


def split(
    forward: Sequence[Node],
    backward: Sequence[Node],
    outputs: Iterable[Ref],
    fixed: Iterable[Ref],
    constants: Iterable[int],
    recompute: bool,
) -> tuple[list[Node], list[Ref]]:
    """Return the nodes of the gradient, and the values of the function that these nodes need, to be saved.

    Views, and values that depend on nothing but the fixed inputs, are computed again, as this takes next to no memory.

    Args:
        forward: the nodes of the function.
        backward: the nodes of its gradient.
        outputs: the results of the gradient.
        fixed: the inputs that are the same for all steps.
        constants: the numbers of constants.
        recompute: whether everything is computed again, so that nothing but inputs is saved.
    """
    made = {ref.number for node in forward for ref in refs_in(node.results)}
    still = {ref.number for ref in fixed} | set(constants)
    invariant: set[int] = set()  # the ids of nodes that compute the same in each step
    for node in forward:
        if not node.effect and all(ref.number in still for ref in refs_in(node.args)):
            invariant.add(id(node))
            still.update(ref.number for ref in refs_in(node.results))
    needed: dict[int, Ref] = {}
    for node in backward:
        needed.update({ref.number: ref for ref in refs_in(node.args)})
    needed.update({ref.number: ref for ref in outputs})
    again: list[Node] = []
    for node in reversed(forward):
        results = refs_in(node.results)
        op = operations().get(node.name)
        cheap = id(node) in invariant or (op is not None and op.view)
        if not any(ref.number in needed for ref in results) or not (recompute or cheap):
            continue
        again.append(node)
        for ref in results:
            needed.pop(ref.number, None)
        needed.update({ref.number: ref for ref in refs_in(node.args)})
    saved = [ref for number, ref in needed.items() if number in made]
    return [*again[::-1], *backward], saved


class Traced:
    """The primitive of `Recorded`: a primitive of the inner backend, and its value in the recording."""

    __slots__ = ("__weakref__", "recording", "ref", "value")

    def __init__(self, value: Any, ref: Ref, recording: Recording) -> None:
        self.value, self.ref, self.recording = value, ref, recording

    shape = property(attrgetter("ref.shape"), doc="The shape of the value.")
    dtype = property(attrgetter("ref.dtype"), doc="The dtype of the value.")
