"""Steps of loops in compiled code: small ones number by number, and many of them in one call.

`unrolled` makes nodes whose values have few elements programs of numbers, which one kernel computes one by one. Loops
over small states, such as those of differential equations, would take as long as the calls of their operations. Moving
elements, as slices and concatenations do, costs nothing here, and a step may be one call.

`StepLoop` runs such a plan for many steps. Values that go from step to step are written to the places that the next
step reads: two that alternate, or one for each step where they are results of the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.plans.executor import Executor, JoinedSteps, Moved
from burnpy.backend.plans.memory import Storage
from burnpy.backend.plans.program_steps import DTYPES, step_of
from burnpy.backend.plans.recording import Node, Ref, refs_in
from burnpy.backend.plans.rewriting import PLACED
from burnpy.backend.primitives import Key
from burnpy.backend.programs import Extent, Input, Program, ProgramError
from burnpy.backend.programs.trace import Symbol, Tracer

UNROLLED = "unrolled"
"""The name of nodes that are such programs; their first argument is the launch."""
MOST_ELEMENTS, MOST_PRODUCTS, MOST_INSTRUCTIONS, FEWEST_NODES = 64, 256, 3000, 3


class Place(NamedTuple):
    """An element of an array."""

    array: int
    element: int


def unrolled(
    nodes: Sequence[Node], outputs: Sequence[Ref], numbers: Mapping[int, float], executor: Executor
) -> list[Node]:
    """Return the nodes with those that follow each other and have few elements as one node.

    Args:
        nodes: the nodes.
        outputs: the outputs.
        numbers: the constants that are one number.
        executor: what makes the kernels.
    """
    return Context().run(_unrolled, nodes, outputs, numbers, executor)  # no mode of the caller applies


def _unrolled(
    nodes: Sequence[Node], outputs: Sequence[Ref], numbers: Mapping[int, float], executor: Executor
) -> list[Node]:
    last: dict[int, int] = {ref.number: k for k, node in enumerate(nodes) for ref in refs_in(node.args)}
    last |= {ref.number: len(nodes) for ref in outputs}
    starts = [0]
    units: list[Numbers | None] = [Numbers(numbers)]
    for k, node in enumerate(nodes):
        numbered = units[-1]
        if numbered is not None and numbered.add(node):
            continue
        own = Numbers(numbers)
        starts.append(k)
        units.append(own if own.add(node) else None)
        if units[-1] is None:
            starts.append(k + 1)
            units.append(Numbers(numbers))
    result: list[Node] = []
    for unit, (start, stop) in zip(units, pairwise([*starts, len(nodes)]), strict=True):
        made = None if unit is None or stop - start < FEWEST_NODES else unit.node(stop, last, executor)
        result += nodes[start:stop] if made is None else [made]
    return result


class Numbers:
    """Nodes that follow each other, computed on the elements of their values.

    Args:
        constants: the constants that are one number.
    """

    def __init__(self, constants: Mapping[int, float]) -> None:
        self._constants = constants
        self._tracer = Tracer.unregistered(7, 13)  # of any size: each element is one of many alike
        self._symbols: list[Any] = []
        self._values: dict[int, Any] = {}  # for each value, the positions of its elements among the symbols
        self._inputs: list[Ref] = []
        self._places: list[Place] = []
        self._made: list[Ref] = []
        self._line: Any = ()

    def add(self, node: Node) -> bool:
        """Compute a node; return whether it can be one of these."""
        ref = node.results
        refs = [*refs_in(node.args), *refs_in(ref)]
        if node.effect or ref.__class__ is not Ref or len(self._tracer.instructions) > MOST_INSTRUCTIONS:
            return False
        if any(x.dtype not in DTYPES or not 0 < math.prod(x.shape) <= MOST_ELEMENTS for x in refs):
            return False
        step = step_of(node)
        compute = _ELEMENTS.get(node.name)
        if compute is None and (step is None or step.kind != "elementwise"):
            return False
        try:
            value = self._elementwise(node) if compute is None else compute(self, *self._arguments(node.args), ref)
        except ProgramError:
            return False
        self._values[ref.number] = value
        self._made.append(ref)
        self._line = node.line
        return True

    def node(self, stop: int, last: Mapping[int, int], executor: Executor) -> Node | None:
        """Return one node for all, whose results are what nodes from ``stop`` on use; None without a kernel."""
        results = [ref for ref in self._made if last.get(ref.number, -1) >= stop]
        elements = [self._symbols[k] for ref in results for k in self._values[ref.number].ravel()]
        places = [Place(k, n) for k, ref in enumerate(results) for n in range(math.prod(ref.shape))]
        inputs = tuple([Input(Extent.FULL, self._inputs[place.array].dtype.name) for place in self._places])
        program = Program(UNROLLED, inputs, tuple(self._tracer.instructions), tuple([x.position for x in elements]))
        launch = executor.unrolled(program, self._inputs, self._places, places)
        return None if launch is None else Node(UNROLLED, (launch, *self._inputs), tuple(results), False, self._line)

    def _arguments(self, args: Sequence[Any]) -> list[Any]:
        """Return arguments with the positions of elements in place of values."""
        return [
            self._positions(x) if x.__class__ is Ref
            else self._arguments(x) if x.__class__ in (list, tuple) and any(True for _ in refs_in(x))
            else x
            for x in args
        ]  # fmt: skip

    def _positions(self, ref: Ref) -> Any:
        """Return the positions of the elements of a value, which becomes an input if it is not known."""
        known = self._values.get(ref.number)
        if known is not None:
            return known
        if ref.number in self._constants:
            symbols = [self._tracer.full((), self._constants[ref.number], ref.dtype)]
        else:
            symbols = []
            for n in range(math.prod(ref.shape)):
                symbols.append(self._tracer.input(len(self._places), Input(Extent.FULL, ref.dtype.name)))
                self._places.append(Place(len(self._inputs), n))
            self._inputs.append(ref)
        self._values[ref.number] = self.many(symbols, ref.shape)
        return self._values[ref.number]

    def many(self, symbols: Sequence[Symbol], shape: tuple[int, ...]) -> Any:
        """Return the positions of symbols, as an array of a shape."""
        start = len(self._symbols)
        self._symbols += symbols
        return np.arange(start, len(self._symbols)).reshape(shape)

    def _elementwise(self, node: Node) -> Any:
        """Return the elements of the result of an elementwise operation."""
        args, ref = self._arguments(node.args), node.results
        name = "add" if node.name == "accumulate" else node.name
        flat = [np.broadcast_to(x, ref.shape).ravel() if isinstance(x, np.ndarray) else x for x in args]
        results = []
        for n in range(math.prod(ref.shape)):
            given = [self._symbols[x[n]] if isinstance(x, np.ndarray) else x for x in flat]
            out = getattr(self._tracer, name)(*given)
            if not isinstance(out, Symbol) or out.dtype != ref.dtype:
                raise ProgramError(f"{name} gives no number of {ref.dtype}")
            results.append(out)
        return self.many(results, ref.shape)

    def combined(self, name: str, rows: Any, shape: tuple[int, ...]) -> Any:
        """Return each row of elements combined by an operation of two, as an array of a shape."""
        results = []
        for row in rows:
            total = self._symbols[row[0]]
            for k in row[1:]:
                total = getattr(self._tracer, name)(total, self._symbols[k])
            results.append(total)
        return self.many(results, shape)

    def full(self, shape: tuple[int, ...], value: Any, dtype: Any, ref: Ref) -> Any:
        """Return elements of one number."""
        return self.many([self._tracer.full((), value, dtype)] * math.prod(shape), shape)

    def reduced(self, name: str, x: Any, dims: Sequence[int], ref: Ref) -> Any:
        """Return the elements along some dims combined."""
        others = [k for k in range(x.ndim) if k not in dims]
        count = math.prod([x.shape[k] for k in dims])
        return self.combined(name, x.transpose(*others, *dims).reshape(-1, count), ref.shape)

    def product(self, x: Any, y: Any, ref: Ref) -> Any:
        """Return a product of vectors or matrices.

        Raises:
            ProgramError: an operand is neither, or there is too much to do.
        """
        if max(x.ndim, y.ndim) > 2 or x.size * y.size > MOST_PRODUCTS * x.shape[-1]:
            raise ProgramError("programs of numbers have small products of matrices only")
        left, right = np.atleast_2d(x), y.reshape(-1, 1) if y.ndim == 1 else y
        pairs = [zip(row, column, strict=True) for row in left for column in right.T]
        terms = [[self._tracer.mul(self._symbols[a], self._symbols[b]) for a, b in row] for row in pairs]
        return self.combined("add", [self.many(row, (len(row),)) for row in terms], ref.shape)

    def mean(self, x: Any, dims: Sequence[int], keepdim: bool, ref: Ref) -> Any:
        """Return means along dims."""
        count = math.prod([x.shape[k] for k in dims])
        totals = self.reduced("add", x, dims, ref)
        return self.many([self._tracer.div(self._symbols[k], float(count)) for k in totals.ravel()], ref.shape)

    def sum_to(self, x: Any, shape: tuple[int, ...], ref: Ref) -> Any:
        """Return sums over the dims along which a shape was broadcast."""
        padded = (1,) * (x.ndim - len(shape)) + tuple(shape)
        return self.reduced("add", x, [k for k in range(x.ndim) if padded[k] != x.shape[k]], ref)

    def added_part(self, total: Any, key: Any, grad: Any, ref: Ref) -> Any:
        """Return elements with others added to a part of them."""
        new = total.copy()
        part = new[(*key, ...)]
        pairs = np.stack([part.ravel(), grad.ravel()], 1)
        new[(*key, ...)] = self.combined("add", pairs, part.shape)
        return new

    def placed(self, keys: Sequence[Key], grads: Sequence[Any], ref: Ref) -> Any:
        """Return zeros with elements in parts of them."""
        new = self.full(ref.shape, 0.0, ref.dtype, ref)
        for key, grad in zip(keys, grads, strict=True):
            new[(*key, ...)] = grad.reshape(new[(*key, ...)].shape)
        return new


_ELEMENTS: Mapping[str, Callable[..., Any]] = {
    "detach": lambda s, x, ref: x,
    "reshape": lambda s, x, shape, ref: x.reshape(shape),
    "expand": lambda s, x, shape, ref: np.broadcast_to(x, shape),
    "permute": lambda s, x, dims, ref: x.transpose(dims),
    "slice": lambda s, x, key, ref: x[(*key, ...)],
    "mT": lambda s, x, ref: x.swapaxes(-1, -2),
    "flip": lambda s, x, dims, ref: np.flip(x, dims),
    "matmul": Numbers.product,
    "matmul_nt": lambda s, x, y, ref: s.product(x, y.swapaxes(-1, -2), ref),
    "matmul_tn": lambda s, x, y, ref: s.product(x.swapaxes(-1, -2), y, ref),
    "cat": lambda s, xs, dim, ref: np.concatenate(xs, dim),
    "stack": lambda s, xs, dim, ref: np.stack(xs, dim),
    "full": Numbers.full,
    "sum": lambda s, x, dims, keepdim, ref: s.reduced("add", x, dims, ref),
    "mean": Numbers.mean,
    "sum_to": Numbers.sum_to,
    "amax": lambda s, x, dims, keepdim, ref: s.reduced("maximum", x, dims, ref),
    "amin": lambda s, x, dims, keepdim, ref: s.reduced("minimum", x, dims, ref),
    "any": lambda s, x, dims, keepdim, ref: s.reduced("bitwise_or", x, dims, ref),
    "all": lambda s, x, dims, keepdim, ref: s.reduced("bitwise_and", x, dims, ref),
    "accumulate_slice": Numbers.added_part,
    PLACED: Numbers.placed,
}
"""How operations that are not elementwise move or combine elements."""


class StepLoop:
    """The loop of a plan whose replay is nothing but one call of compiled code.

    Args:
        calls: the calls.
        storage: the memory of the plan.
        objects: the other objects of its replay, by name.
        inputs: the names of its inputs: fixed values, carried ones and slices.
        outputs: its outputs with their names: the carried values, and those that are stacked.
        carried: the number of carried values.
        sliced: the number of slices.
    """

    def __init__(
        self,
        calls: JoinedSteps,
        storage: Storage,
        objects: Mapping[str, Any],
        inputs: Sequence[str],
        outputs: Sequence[tuple[str, Ref]],
        carried: int,
        sliced: int,
    ) -> None:
        first, last = len(inputs) - carried - sliced, len(inputs) - sliced
        self._calls, self._storage, self._objects = calls, storage, objects
        self._fixed, self._into, self._sliced = inputs[:first], inputs[first:last], inputs[last:]
        self._out, self._stacked = [name for name, _ in outputs[:carried]], outputs[carried:]
        self._free: list[Any] = []

    @property
    def possible(self) -> bool:
        """True if each carried value is a result of its own or stays, and no fixed value or slice is stacked."""
        pairs = [*zip(self._into, self._out, strict=True)]
        made = [name for own, name in pairs if name != own]
        still = {*self._fixed, *self._sliced, *self._storage.names, *self._objects}
        stacked = [name for name, _ in self._stacked]
        moves = len({*made}) == len(made) and still.isdisjoint(made) and {*self._into}.isdisjoint(made)
        return moves and still.isdisjoint(stacked) and not any(own == name and own in stacked for own, name in pairs)

    def run(self, values: Sequence[Any], length: int, reverse: bool) -> tuple[list[Any], set[int]]:
        """Run all steps.

        Returns:
            The last carried values and the stacks, and the positions of those that are in memory of their own.

        Args:
            values: the fixed values, the first carried ones, and the arrays that are sliced.
            length: the number of steps.
            reverse: whether the last slice comes first.
        """
        executor, count = self._storage.executor, len(self._fixed)
        steps, still = np.arange(length), np.zeros(length, np.int64)
        slices = steps[::-1] if reverse else steps
        given = [_prepared(executor, x) for x in values]
        places = {name: Moved(x, still) for name, x in zip(self._fixed, given, strict=False)}
        for name, x in zip(self._sliced, given[len(given) - len(self._sliced) :], strict=True):
            places[name] = Moved(x, slices, math.prod(x.shape[1:]))
        stacked = {name for name, _ in self._stacked}
        memories: dict[str, int] = {}  # the numbers of the arrays that traces are parts of
        last: list[Any] = []
        traces: dict[str, Any] = {}  # the values before and after each step, by name
        for own, name, x in zip(self._into, self._out, given[count:], strict=False):
            if own == name:
                places[own] = Moved(x, still)
                last.append(x)
                continue
            traced, size = own in stacked or name in stacked, math.prod(x.shape)
            memory = executor.empty((length + 1 if traced else 2, *x.shape), x.dtype)
            before, after = (slices + reverse, slices + (not reverse)) if traced else (steps % 2, (steps + 1) % 2)
            places[own], places[name] = Moved(memory, before, size), Moved(memory, after, size)
            executor.part(memory, (int(before[0]),))[...] = x
            last.append(executor.part(memory, (int(after[-1]),)))
            if traced:
                whole = (slice(int(reverse), length + reverse, 1), slice(int(not reverse), length + (not reverse), 1))
                traces[own], traces[name] = (executor.part(memory, (part,)) for part in whole)
                memories[own] = memories[name] = len(last)
        for name, ref in self._stacked:
            if name not in traces:
                traces[name] = executor.empty((length, *ref.shape), ref.dtype)
                places[name] = Moved(traces[name], slices, math.prod(ref.shape))
        self._run(places)
        owners: dict[int | str, int] = {}  # for each memory, the position of the first result in it
        for k, (name, _) in enumerate(self._stacked):
            owners.setdefault(memories.get(name, name), len(last) + k)
        return [*last, *[traces[name] for name, _ in self._stacked]], {*owners.values()}

    def _run(self, places: Mapping[str, Moved]) -> None:
        """Run all steps in memory that no other thread uses."""
        try:
            run = self._free.pop()
        except IndexError:
            run = self._calls.bind_steps({**self._objects, **self._storage.arrays()})
        run(places)
        self._free.append(run)


def _prepared(executor: Executor, x: Any) -> Any:
    """Return an array as calls of compiled code read it."""
    return executor.contiguous(x) if x.shape else executor.number(x)
