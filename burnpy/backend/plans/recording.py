"""`Recording`: the operations of a computation in order, with the shapes and dtypes of their values, but no values.

`burnpy.backend.decorators.recorded.Recorded` makes one. Everything that looks at a computation as a whole reads it:
`simplified` drops and merges nodes, `split` separates the gradient. A value may share memory with another: `Sharing`
tells which, so that nothing overwrites what is still needed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
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
        new = Node(node.name, args, node.results, node.effect, node.line)
        if not node.effect and node.name not in REPEATED:
            earlier = seen.setdefault((node.name, _key(args)), new)
            if earlier is not new:
                for ref, same in zip(refs_in(node.results), refs_in(earlier.results), strict=True):
                    merged[ref.number] = same
                continue
        nodes.append(new)
    outputs = [current(ref) for ref in recording.outputs]
    return live(nodes, outputs), outputs


def live(nodes: Sequence[Node], outputs: Iterable[Ref]) -> list[Node]:
    """Return the nodes that outputs and effects need."""
    needed = {ref.number for ref in outputs}
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.effect or any(ref.number in needed for ref in refs_in(node.results)):
            kept.append(node)
            needed.update(ref.number for ref in refs_in(node.args))
    return kept[::-1]


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


def _constant(node: Node, known: Container[int]) -> bool:
    """Return whether a node is elementwise arithmetic of known numbers."""
    op = operations().get(node.name)
    if node.effect or op is None or op.consumes or not (node.name in ("full", "detach") or op.elementwise):
        return False
    return all(ref.number in known for ref in refs_in(node.args))


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


class Sharing:
    """The values that may share memory, in groups: a view belongs to the group of its source.

    Args:
        nodes: the nodes, in the order in which they run.
        outputs: the outputs.
        fused: the ids of the nodes that are parts of programs, whose results are new memory.
    """

    def __init__(self, nodes: Sequence[Node], outputs: Iterable[Ref], fused: Container[int] = ()) -> None:
        self._root: dict[int, int] = {}
        self.last: dict[int, int] = {}
        """For each group, the position of the last node that uses it; len(nodes) for an output."""
        self.overwritten: set[int] = set()
        """The positions of the nodes that may overwrite the argument that they consume, as nothing uses it later."""
        self.own: dict[int, int] = {}
        """For each value, the position of the last node that uses the value itself, and no view of it."""
        for position, node in enumerate(nodes):
            shared = {} if id(node) in fused else _shared(node)
            for number, source in shared.items():
                self._root[number] = self.root(source)
            for ref in refs_in((node.args, node.results)):
                self.last[self.root(ref)] = self.own[ref.number] = position
        for ref in outputs:
            self.last[self.root(ref)] = self.own[ref.number] = len(nodes)
        made: dict[int, int] = {}  # for each group that a node made, the last use of its values so far
        for position, node in enumerate(nodes):
            consumed = None if id(node) in fused else _consumed(node)
            if consumed is not None and made.get(self.root(consumed), len(nodes)) <= position:
                self.overwritten.add(position)
            fresh = id(node) in fused or not _shared(node)
            for ref in refs_in(node.results):
                root = self.root(ref)
                if fresh or root in made:
                    made[root] = max(made.get(root, 0), self.own[ref.number])

    def root(self, ref: Ref) -> int:
        """Return the number of the value in whose memory a value may be."""
        return self._root.get(ref.number, ref.number)


RETURNED = frozenset(("sum_to", "foreach_clamp", "foreach_cast", "bounded", "bounded_and_counted", "bounded_from_end"))
"""The methods that are no views and may return their first argument, or members of it, unchanged."""


def _shared(node: Node) -> dict[int, Ref]:
    """Return, by the number of a result, the argument whose memory it may share."""
    op = operations().get(node.name)
    name = None if op is None else op.view or next(iter(op.consumes), None)
    if node.name in RETURNED:
        source: Any = node.args[0]
    elif op is not None and name:
        source = node.args[[a.name for a in op.arguments].index(name)]
    else:
        return {}
    results = refs_in(node.results)
    sources = refs_in(source)
    return {ref.number: sources[min(k, len(sources) - 1)] for k, ref in enumerate(results)} if sources else {}


def _consumed(node: Node) -> Ref | None:
    """Return the argument that a node may overwrite."""
    op = operations().get(node.name)
    if op is None or not op.consumes:
        return None
    source = node.args[[a.name for a in op.arguments].index(op.consumes[0])]
    return source if source.__class__ is Ref else None


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
    """The primitive of `Recorded`: one of the inner backend, and the value of the recording that it is."""

    __slots__ = ("__weakref__", "recording", "ref", "value")

    def __init__(self, value: Any, ref: Ref, recording: Recording) -> None:
        self.value, self.ref, self.recording = value, ref, recording

    shape = property(attrgetter("ref.shape"), doc="The shape of the value.")
    dtype = property(attrgetter("ref.dtype"), doc="The dtype of the value.")
