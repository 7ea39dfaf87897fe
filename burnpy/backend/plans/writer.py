"""`Writer`: the statements of a plan's replay, and the memory of its intermediate values.

A value of a plan is *kept* if it lies in the plan's own memory, where each replay writes it anew: results of programs
and products, and views of them, which are made once. Everything else, such as results of operations and outputs, is
made by each replay.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

from burnpy.backend.plans.epilogues import Finished, finished
from burnpy.backend.plans.executor import Executor, JoinedSteps, Launch, NodeLaunch, Number
from burnpy.backend.plans.fusion import Group, Grouping, Single
from burnpy.backend.plans.group_program import Signature, repetition
from burnpy.backend.plans.loops import UNROLLED
from burnpy.backend.plans.memory import Results, Sharing, Storage
from burnpy.backend.plans.recording import Node, Ref, refs_in
from burnpy.backend.plans.rewriting import PLACED, beside
from burnpy.backend.plans.source import CallRun, Source
from burnpy.backend.programs import ProgramError

_VIEWS = ("reshape", "permute", "slice", "expand", "detach")


def numbers_in(constants: Mapping[int, Any]) -> dict[int, float]:
    """Return the constants that are one float, by the numbers of their values."""
    return {number: x.item() for number, x in constants.items() if math.prod(x.shape) == 1 and x.dtype.kind == "f"}


def _bounds(units: Sequence[Any]) -> dict[int, tuple[int, int]]:
    """Return the least and the largest possible element of ints that were checked, and of views of them, by number."""
    bounds: dict[int, tuple[int, int]] = {}
    for unit in units:
        if not isinstance(unit, Single):
            continue
        node = unit.node
        if node.name in ("bounded", "bounded_and_counted"):
            bounds[refs_in(node.results)[0].number] = node.args[1:3]
        elif node.name == "bounded_from_end":
            bounds[node.results.number] = 0, node.args[1] - 1
        elif node.name in _VIEWS and node.args[0].number in bounds:
            bounds[node.results.number] = bounds[node.args[0].number]
    return bounds


class Writer:
    """The state of writing one plan.

    Args:
        device: the device that computes.
        executor: what it offers plans; None to call operations alone.
        nodes: the nodes.
        inputs: the inputs.
        outputs: the outputs.
        constants: the primitives of values that are constants, by number.
        donated: the positions of inputs whose memory outputs may take.
        fixed: the primitives of inputs that are the same in each replay, by the numbers of their values.
    """

    def __init__(
        self,
        device: Any,
        executor: Executor | None,
        nodes: Sequence[Node],
        inputs: Sequence[Ref],
        outputs: Sequence[Ref],
        constants: dict[int, Any],
        donated: Set[int] = frozenset(),
        fixed: Mapping[int, Any] = MappingProxyType({}),
    ) -> None:
        self.device, self.executor = device, executor
        self.inputs, self.outputs = inputs, outputs
        self.source, self.storage = Source(), Storage(executor)
        self._run = CallRun(self.source, self.storage)
        numbers = numbers_in({**fixed, **constants})
        self.grouping = Grouping(nodes, numbers, executor.rounds, executor.ints) if executor is not None else None
        units = [Single(node, k) for k, node in enumerate(nodes)] if self.grouping is None else self.grouping.ordered()
        self.units: list[Any] = []
        self.launches: dict[int, tuple[Launch, Signature]] = {}
        for unit in units:
            self.units += self._split(unit)
        self.units = self._needed(self.units)
        self._bounds = _bounds(self.units)
        self._values = {**fixed, **constants}  # the same in each replay, which has them as objects of its own
        if executor is not None:
            self.units = finished(self.units, outputs, self.launches, self._values, self._bounds, executor)
        flat: list[Node] = []
        fused: set[int] = set()
        for unit in self.units:
            group = unit.group if isinstance(unit, Finished) else unit
            if group is not unit or isinstance(unit, Single):
                flat.append(unit.node)
            if isinstance(group, Group):
                assert self.grouping is not None
                parts = [Node("", tuple(self.grouping.arguments(n)), n.results, False, ()) for n in group.nodes]
                fused.update(map(id, parts))
                flat += parts
        self.sharing = Sharing(flat, outputs, fused)
        self._results = Results(self.source, self.storage, self.sharing, len(flat), inputs, donated)
        self._kept = self._results.kept
        self._takes_free = bool(donated)
        self.launched: set[int] = set()  #: the ids of nodes that have a kernel of their own
        self._operands: dict[int, str] = {}  # the names of values that are the same in each replay, C-contiguous
        self._contiguous: set[int] = set()  # the values that are made by each replay, C-contiguous
        self._made: set[int] = set()  # those that have a name in the replay
        self._write()

    def name(self, ref: Ref) -> str:
        """Return the name of a value."""
        kept = self._kept.get(ref.number)
        if kept is not None:
            return kept
        constant = self._values.get(ref.number)
        return f"v{ref.number}" if constant is None else self.source.bind(constant)

    def _split(self, unit: Any) -> list[Any]:
        """Return a unit, or the nodes of a group that is not to be a program."""
        if not isinstance(unit, Group):
            return [unit]
        made = self._launch(unit)
        if made is None:
            for ref in refs_in([node.results for node in unit.nodes]):
                self.grouping.producer.pop(ref.number, None)  # type: ignore[union-attr]  # there is one
            return [Single(node, k) for k, node in enumerate(unit.nodes)]
        self.launches[id(unit)] = made
        return [unit]

    def _needed(self, units: list[Any]) -> list[Any]:
        """Return the units without the constants and views that programs compute themselves."""
        needed = {ref.number for ref in self.outputs}
        kept = []
        for unit in reversed(units):
            if isinstance(unit, Group):
                signature = self.launches[id(unit)][1]
                needed.update(ref.number for ref in (*signature.arrays, *signature.numbers))
            elif unit.node.effect or any(ref.number in needed for ref in refs_in(unit.node.results)):
                needed.update(ref.number for ref in refs_in(unit.node.args))
            else:
                continue
            kept.append(unit)
        return kept[::-1]

    def _launch(self, group: Group) -> tuple[Launch, Signature] | None:
        """Return the launch of a group's program; None if it has none."""
        assert self.executor is not None
        assert self.grouping is not None
        signature = Signature(group, self.grouping, self._outside(group))
        if not signature.outputs:
            return None
        try:
            program = signature.trace()
            launch = self.executor.program(program, *group.sizes)
            signature.program = program
        except ProgramError:
            return None
        return None if launch is None else (launch, signature)

    def _outside(self, group: Group) -> set[int]:
        """Return the values of a group that are used outside of it."""
        uses = self._uses()
        inside = {id(node) for node in group.nodes}
        return {number for number in group.made if any(user not in inside for user in uses.get(number, ()))}

    def _uses(self) -> dict[int, list[int]]:
        """Return the nodes that use each value, by id; 0 stands for an output."""
        if not hasattr(self, "_used"):
            assert self.grouping is not None
            self._used: dict[int, list[int]] = {}
            for unit in self.grouping.units.values():
                nodes = unit.nodes if isinstance(unit, Group) else [unit.node]
                for node in nodes:
                    refs = self.grouping.arguments(node) if isinstance(unit, Group) else refs_in(node.args)
                    for ref in refs:
                        self._used.setdefault(ref.number, []).append(id(node))
            for ref in self.outputs:
                self._used.setdefault(ref.number, []).append(0)
        return self._used

    def _write(self) -> None:
        """Write all units, with the end of each value after its last use."""
        position = 0
        ends: dict[int, list[str]] = {}
        for unit in self.units:
            nodes = [unit.node] if isinstance(unit, Single) else unit.nodes
            stop = position + len(nodes)
            if isinstance(unit, Group):
                self._group(unit, stop)
            elif isinstance(unit, Finished):
                self._node_launch(unit.signature.outputs, unit.launch, position, stop)
            else:
                self._single(unit.node, position, stop)
            self._results.end(position, stop)
            for node in nodes:
                for ref in refs_in(node.results):
                    if ref.number in self._made:
                        ends.setdefault(self.sharing.own[ref.number], []).append(f"v{ref.number}")
            for at in range(position, stop):
                if ends.get(at):
                    self._run.drop(ends.pop(at))
            position = stop
        self._run.end()

    def _result(self, ref: Ref, position: int, stop: int, operands: Sequence[Ref] = ()) -> str:
        """Return the name of memory for a result, see `Results.new`."""
        name = self._results.new(ref, position, stop, operands)
        if ref.number not in self._kept:
            self._contiguous.add(ref.number)
            self._made.add(ref.number)
        return name

    def _operand(self, ref: Ref) -> str:
        """Return the name of a value as a C-contiguous array."""
        assert self.executor is not None
        name = self.name(ref)
        if ref.number in self._kept:
            if self.executor.is_contiguous(self.storage.models[name]):
                return name
            self._run.end()
            copy = self._results.scratch(ref.shape, ref.dtype)
            self.source.write(f"{self.source.bind(self.executor.copy, 'f')}({name}, {copy})")
            return copy
        convert = self.executor.contiguous if ref.shape else self.executor.number
        constant = self._values.get(ref.number)
        if constant is not None:
            converted = self._operands.get(ref.number)
            if converted is None:
                converted = self._operands[ref.number] = self.source.bind(convert(constant))
            return converted
        if ref.number not in self._contiguous:
            self.source.prepare(f"{name} = {self.source.bind(convert, 'f')}({name})")
            self._contiguous.add(ref.number)
        return name

    def _group(self, group: Group, stop: int) -> None:
        launch, signature = self.launches[id(group)]
        arrays = [self._operand(ref) for ref in signature.arrays]
        for k, ref in enumerate(signature.arrays):
            if ref.number in signature.repeated:
                arrays[k] = self._repeated(ref, arrays[k], group.sizes[0])
        numbers = [Number(self._operand(ref), ref.dtype) for ref in signature.numbers]
        results = []
        alone = self._alone([*signature.arrays, *signature.numbers]) if launch.in_place else []
        for ref in signature.outputs:
            operands = [given for given in alone if group.roles[given.number] == group.roles[ref.number]]
            results.append(self._result(ref, stop - len(group.nodes), stop, operands))
        rooms = [self._results.scratch(shape, dtype) for shape, dtype in launch.scratch]
        self._run.add(launch, arrays, results, numbers, rooms)

    def _repeated(self, ref: Ref, name: str, rows: int) -> str:
        """Write that the elements of an array are repeated until there is one for each row, and return the name."""
        assert self.executor is not None
        launch = self.executor.program(repetition(ref.dtype.name), rows // math.prod(ref.shape), math.prod(ref.shape))
        assert launch is not None  # as the program that reads it has one
        copy = self._results.scratch((rows, 1), ref.dtype)
        self._run.add(launch, [name], [copy])
        return copy

    def _single(self, node: Node, position: int, stop: int) -> None:
        source = self.source
        if node.name == UNROLLED:
            launch: NodeLaunch | None = node.args[0]
        else:
            launch = None if self.executor is None else self.executor.launch(node, self._values, self._bounds)
        if launch is not None:
            self.launched.add(id(node))
            self._node_launch(refs_in(node.results), launch, position, stop)
            return
        if self.executor is not None and node.results.__class__ is Ref:
            if node.name in _VIEWS and self._view(node):
                return
            self._run.end()
            if node.name == PLACED:
                self._place(node, self._result(node.results, position, stop))
                return
            if node.name == "accumulate_slice" and position in self.sharing.overwritten and self._add_part(node):
                return
            if node.name == "index_put" and self._put(node, position):
                return
        self._run.end()
        self._made.update(ref.number for ref in refs_in(node.results))
        args = [source.expression(x, self.name) for x in node.args]
        if node.name == "foreach" and self._results.donated:
            args[4] = self._results.owned([ref for column in node.args[1][2:] for ref in column], position)
        if node.name.startswith("accumulate") and position not in self.sharing.overwritten:
            args[0] = f"{source.bind(self.device.mul, 'f')}({args[0]}, 1)"
        target = source.target(node.results, self.name)
        source.write(f"{target}{source.bind(getattr(self.device, node.name), 'f')}({', '.join(args)})")

    def _node_launch(self, outputs: Sequence[Ref], launch: NodeLaunch, position: int, stop: int) -> None:
        """Write a node that has a launch of its own, given its results."""
        arrays = [self.name(ref) if launch.strided else self._operand(ref) for ref in launch.operands]
        for k, ref in enumerate(launch.operands):
            if ref.number in launch.repeated:
                arrays[k] = self._repeated(ref, arrays[k], launch.repeated[ref.number])
        numbers = [Number(self._operand(ref), ref.dtype) for ref in launch.numbers]
        results = []
        alone = self._alone([*launch.operands, *launch.numbers])
        for k, ref in enumerate(outputs):
            given = launch.overwrites(k)
            results.append(self._result(ref, position, stop, [given] if given in alone else ()))
        rooms = [self._results.scratch(shape, dtype) for shape, dtype in launch.scratch]
        self._run.add(launch, arrays, results, numbers, rooms)

    def _alone(self, operands: Sequence[Ref]) -> list[Ref]:
        """Return the operands of a unit that share no memory with another, which may be read at a later position."""
        uses = Counter(map(self.sharing.root, operands))
        return [ref for ref in operands if uses[self.sharing.root(ref)] == 1]

    def _place(self, node: Node, name: str) -> None:
        """Write slices, and zeros beside them, into memory for the result."""
        assert self.executor is not None
        keys, grads = node.args
        for other in beside(keys, node.results.shape) or ():
            fill = self.source.bind(self.executor.fill, "f")
            self.source.write(f"{fill}({self._part(node.results, name, other)}, 0.0)")
        for key, grad in zip(keys, grads, strict=True):
            part = self._part(node.results, name, key)
            self.source.write(f"{self.source.bind(self.executor.add, 'f')}({self.name(grad)}, 0.0, {part})")

    def _add_part(self, node: Node) -> bool:
        """Write an addition to a slice of the plan's memory; return whether it is one."""
        assert self.executor is not None
        total, key, grad = node.args
        name = self._kept.get(total.number)
        if name is None:
            return False
        self._kept[node.results.number] = name
        part = self._part(total, name, key)
        self.source.write(f"{self.source.bind(self.executor.add, 'f')}({part}, {self.name(grad)}, {part})")
        return True

    def _put(self, node: Node, position: int) -> bool:
        """Write slices into a donated input that ends with this; return whether it is one."""
        assert self.executor is not None
        source, (x, dim, index, src) = self.source, node.args
        if self.sharing.root(src) == self.sharing.root(x):
            return False
        ends = self.sharing.last[self.sharing.root(x)] == position and x.dtype == node.results.dtype
        own = next((given for given in self._results.donated if given == x), None)
        if own is None or not ends:
            return False
        self._results.donated.remove(own)
        self._made.add(node.results.number)
        arguments = f"{self.name(x)}, {self._results.free(own)}, {dim}, {self.name(index)}, {self.name(src)}"
        source.write(f"v{node.results.number} = {source.bind(self.executor.put, 'f')}({arguments})")
        return True

    def _part(self, ref: Ref, name: str, key: tuple[Any, ...]) -> str:
        """Return the expression of a part of a value, which in the plan's memory is made once."""
        assert self.executor is not None
        if ref.number not in self._kept:
            return f"{self.source.bind(self.executor.part, 'f')}({name}, {self.source.bind(key)})"
        return self.storage.view(
            None, self.executor.part, name, (key,), self.executor.part(self.storage.models[name], key)
        )

    def _view(self, node: Node) -> bool:
        """Write a view without a call of the device; return whether it is done.

        A view of an array in the plan's memory, or of one that is the same in each replay, is made once and for all.
        """
        assert self.executor is not None
        name, method = self.name(node.args[0]), getattr(self.device, node.name)
        if node.args[0].number in self._values and node.results not in self.outputs:
            self._values[node.results.number] = method(self._values[node.args[0].number], *node.args[1:])
            return True
        if node.args[0].number in self._kept:
            model = self.storage.models[name]
            view = method(model, *node.args[1:])
            if self.device.storage_of(view)[0] == self.device.storage_of(model)[0]:
                own = f"v{node.results.number}"
                self._kept[node.results.number] = self.storage.view(own, method, name, node.args[1:], view)
                return True
        expression = self.executor.view(node, name, node.args[0].number in self._contiguous)
        if expression is None:
            return False
        if node.args[0].number in self._kept or self._run.writes(name):  # which may copy what the run is to write
            self._run.end()
        self._made.add(node.results.number)
        self.source.write(f"{self.name(node.results)} = {expression}")
        return True

    @property
    def step(self) -> JoinedSteps | None:
        """The calls that are all that a replay does; None if it does more, or if they cannot be made step by step."""
        only = self.storage.only if len(self.source.lines) == self.source.prepared + 1 else None
        return only if isinstance(only, JoinedSteps) else None

    def compiled(self, name: str) -> Callable[[], Callable[..., Any]]:
        """Return a function that makes a replay with memory of its own."""
        parameters = [f"v{ref.number}" for ref in self.inputs] + ["free"] * self._takes_free
        result = f"[{', '.join(self.name(ref) for ref in self.outputs)}]"
        define = self.source.definition(parameters, result, name, self.storage.names)
        self.storage.complete()

        def instance() -> Callable[..., Any]:
            return define(self.storage.instance(self.source.objects))

        return lambda: self.device.replayed(instance, self.source.generators)
