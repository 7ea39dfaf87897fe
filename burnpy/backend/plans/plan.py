"""`Plan`: a recording as one function of its inputs, and `PlanExplanation`: what the plan does, part by part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from html import escape
from math import prod
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from burnpy.backend.call_origin import Line, lines_of
from burnpy.backend.errors import counted
from burnpy.backend.plans.epilogues import (
    Finished,
    combine_roundings,
    fuse_relu,
    fuse_scale,
    fuse_slice_writes,
    lower_convolutions,
    split_bias,
)
from burnpy.backend.plans.fusion import Group
from burnpy.backend.plans.loops import StepLoop, unrolled
from burnpy.backend.plans.program_steps import DTYPES, step_of
from burnpy.backend.plans.recording import (
    Node,
    Recording,
    fold_constants,
    fold_numbers,
    operations,
    refs_in,
    simplified,
)
from burnpy.backend.plans.rewriting import combine_slice_gradients, fold_transposes, lower_means, sink_permutations
from burnpy.backend.plans.writer import Writer, numbers_in
from burnpy.backend.primitives import Shape, Value

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend

_MOST_ROWS = 60
"""The number of parts that are listed one by one."""
_MOST_READS = 12
"""The number of places outside of the arguments that are listed."""
_LARGE_WEIGHT = 1 << 19
"""The least number of elements for which products read the transpose of a weight as it lies; each plan copies smaller
ones, which takes little memory, and saves time where there are few rows."""


@dataclass(frozen=True)
class ProgramPart:
    """A program of a plan: operations that one kernel computes."""

    name: str  #: the first of its operations
    operations: tuple[str, ...]  #: all of them, in order
    shape: Shape  #: of its arrays
    split: int  #: the number of leading dims that are its rows
    line: Line | None  #: the user's line that called the last one
    text: str  #: its instructions


@dataclass(frozen=True)
class OperationPart:
    """An operation of a plan that is no part of a program."""

    name: str
    shapes: tuple[Shape, ...]  #: of its results
    line: Line | None  #: the user's line that called it
    reason: str  #: why it is one
    inside: tuple[PlanExplanation, ...] = ()  #: of a loop or branch, the plans of its bodies


@dataclass(frozen=True)
class PlanExplanation:
    """The parts of a plan in the order in which they run, its memory and the time that it took to make.

    As text it is a table with one row for each kernel or operation: what is computed, the shape of the result, the
    user's line, and for an operation why it is not in a kernel with its neighbours.
    """

    parts: tuple[ProgramPart | OperationPart, ...]
    recorded: int  #: the number of operations that were recorded
    bytes: int  #: the memory that intermediate results share
    unshared_bytes: int  #: the memory that they would take without sharing
    seconds: float  #: the time that recording, planning and compiling took
    source: str  #: the generated function
    runs: int = 0  #: how often a compiled function ran it
    reads: tuple[str, ...] = ()  #: what it depends on besides the arguments, as the code of the function says it

    @property
    def programs(self) -> tuple[ProgramPart, ...]:
        """The programs."""
        return tuple(part for part in self.parts if isinstance(part, ProgramPart))

    @property
    def operations(self) -> tuple[OperationPart, ...]:
        """The operations that are no parts of programs."""
        return tuple(part for part in self.parts if isinstance(part, OperationPart))

    def __str__(self) -> str:
        return "\n".join([*self._head(), *self._table()])

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it; the plans of loops and branches fold."""
        from burnpy.backend import html

        rows = [(*_row(part),) for part in self.parts]
        inside = [
            html.folded(escape(part.name), plan._repr_html_()) for part in self.operations for plan in part.inside
        ]
        table = html.table(["part", "shape", "line", "note"], rows, left=4, most=_MOST_ROWS)
        return html.block(*(html.headline("", line) for line in self._head()), table, *inside)

    def _head(self) -> list[str]:
        """Return the lines above the table."""
        programs = self.programs
        fused = sum(len(part.operations) for part in programs)
        kernels, single = counted(len(programs), "kernel"), counted(len(self.operations), "single operation")
        shared, apart = _size(self.bytes), _size(self.unshared_bytes)
        use = [f"ran {counted(self.runs, 'time')}"] if self.runs else []
        if self.reads:
            more = len(self.reads) - _MOST_READS
            shown = ", ".join(self.reads[:_MOST_READS]) + (f" and {more} more" if more > 0 else "")
            use.append(f"made again if one of these changes: {shown}")
        return [
            f"{self.recorded} operations recorded: {kernels} of {counted(fused, 'operation')}, and {single}",
            f"{shared} for intermediate results, {apart} without sharing; made in {self.seconds:.2f} s",
            *use,
        ]

    def _table(self) -> Iterator[str]:
        """Yield the lines of the table of parts."""
        listed = self.parts[:_MOST_ROWS]
        rows = [_row(part) for part in listed]
        widths = [max([len(row[k]) for row in rows], default=0) for k in range(3)]
        for part, row in zip(listed, rows, strict=True):
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            yield "  ".join(["", *cells, row[3]]).rstrip()
            for plan in getattr(part, "inside", ()):
                yield from (f"      {line}" for line in str(plan).split("\n"))
        rest = self.parts[_MOST_ROWS:]
        if rest:
            counts = Counter("kernel" if isinstance(part, ProgramPart) else part.name for part in rest)
            kinds = ", ".join(f"{name} × {count}" for name, count in counts.most_common(12))
            yield f"  and {len(rest)} more: {kinds}{', …' if len(counts) > 12 else ''}"


def _row(part: ProgramPart | OperationPart) -> tuple[str, str, str, str]:
    """Return the cells of a part: its name, its shape, the user's line and the reason."""
    line = "" if part.line is None else str(part.line)
    if isinstance(part, ProgramPart):
        names = " · ".join(part.operations)
        return "kernel" if len(names) > 46 else f"kernel  {names}", str(part.shape), line, names[46:] and names
    shapes = ", ".join(map(str, part.shapes))
    return part.name, shapes if len(shapes) <= 24 else f"{len(part.shapes)} arrays", line, part.reason


def _size(count: int) -> str:
    return f"{count} B" if count < 1000 else f"{count / 1e3:.3g} KB" if count < 1e6 else f"{count / 1e6:.3g} MB"


_VIEWS = ("reshape", "permute", "slice", "expand", "detach")
_HELPERS = {
    "on_host": "arithmetic of a few numbers, in Python",
    "foreach": "a formula for all parameters, which has a kernel of its own",
    "defer_check": "a check of values",
    "bounded": "a check of indices",
    "bounded_and_counted": "a check of indices, and a mask of those that count",
    "bounded_from_end": "a check of indices, where negative ones count from the end",
    "unrolled": "operations on few elements, one number at a time",
    "statistics_update": "counts the updates, and updates averages",
}
"""Why some calls are no parts of programs."""


def parts_of(writer: Any) -> Iterator[ProgramPart | OperationPart]:
    """Yield the parts of a plan, given its `burnpy.backend.plans.writer.Writer`."""
    for unit in writer.units:
        if isinstance(unit, (Group, Finished)):
            group = unit.group if isinstance(unit, Finished) else unit
            program = writer.launches[id(group)][1].program
            names = tuple([node.name for node in unit.nodes])
            yield ProgramPart(program.name, names, group.domain, group.split, _line(unit.nodes[-1]), program.text)
        else:
            yield _operation(writer, unit.node)


def _operation(writer: Any, node: Node) -> OperationPart:
    name, inside = node.name, tuple[PlanExplanation, ...]()
    if name == "nested":
        block = node.args[0]
        name, inside = block.description, tuple([plan.explanation() for plan in block.plans(writer.device)])
    elif name in ("foreach", "on_host"):
        name = f"{name} {getattr(node.args[0], '__name__', '').strip('_')}".strip()
    elif name == "product_in_float32":
        name = node.args[0].name
    shapes = tuple([ref.shape for ref in refs_in(node.results)])
    return OperationPart(name, shapes, _line(node), _reason(writer, node), inside)


def _line(node: Node) -> Line | None:
    lines = lines_of(node.line)
    return lines[-1] if lines else None


def _reason(writer: Any, node: Node) -> str:
    """Return why a node is no part of a program."""
    op = operations().get(node.name)
    if node.name in _HELPERS:
        return _HELPERS[node.name]
    if node.name == "nested":
        return "plans of their own"
    if node.effect:
        return "draws random numbers" if node.name.startswith("random") else "is done for more than its result"
    if node.name in _VIEWS:
        return "a view or a copy"
    if node.name == "product_in_float32" or (op is not None and op.product):
        return "a product"
    if id(node) in writer.launched:
        return "a kernel of its own"
    if writer.executor is None:
        return "this device runs plans operation by operation"
    if step_of(node) is None and not (op is not None and op.elementwise):
        return "plans have no such step in a kernel"
    other = next((ref for ref in refs_in((node.args, node.results)) if ref.dtype not in DTYPES), None)
    if other is not None:
        return f"kernels of plans do not compute with {other.dtype}"
    if writer.grouping is None or not writer.launches:
        return "kernels are off, or too small for one"
    return "its shapes are not rows and columns of one array"


class Plan:
    """A recording that can be computed again, with other inputs.

    Args:
        recording: the recording.
        device: the device that computes.
        fuse: whether operations that follow each other become programs; otherwise the outputs have the bits that the
            operations give.
        donated: the positions of inputs whose memory outputs may take.
        unroll: whether operations on few elements are computed one number at a time, see `unrolled`.
        fixed: the primitives of inputs that are the same in each replay, by their positions. What depends on them and
            on constants alone is computed once.

    >>> from burnpy.backend.decorators.recorded import Recorded
    >>> from burnpy.backend.dtypes import float32
    >>> recorder, one = Recorded.unregistered(NumPy()), NumPy().full((2,), 1.0, float32)
    >>> x = recorder.input(one)
    >>> recorder.recording.outputs.append(recorder.mul(x, 3.0).ref)
    >>> Plan(recorder.recording, NumPy())([one + one])
    [array([6., 6.], dtype=float32)]
    """

    def __init__(
        self,
        recording: Recording,
        device: Backend,
        fuse: bool = True,
        donated: Set[int] = frozenset(),
        unroll: bool = False,
        fixed: Mapping[int, Any] = MappingProxyType({}),
    ) -> None:
        start = perf_counter()
        self.recording, self.device = recording, device
        executor = device.executor() if fuse else None
        given = {recording.inputs[k].number: x for k, x in fixed.items()}
        nodes, outputs = simplified(recording)
        if executor is not None:
            nodes = sink_permutations(nodes, outputs, recording)
        nodes, once = fold_constants(nodes, outputs, recording.constants | given, device)
        for number, x in once.items():
            if prod(x.shape) >= _LARGE_WEIGHT:
                recording.note_order(number, x)
        constants = recording.constants | once
        if executor is not None:
            nodes = fold_transposes(nodes, recording)
            nodes = lower_means(nodes, recording)
            nodes = combine_roundings(nodes, recording, executor)
            nodes = lower_convolutions(nodes, recording, executor, constants | given)
            nodes = split_bias(nodes, recording, executor)
            nodes = combine_slice_gradients(nodes, outputs, recording)
            nodes, numbers = fold_numbers(nodes, outputs, device)
            nodes = fuse_relu(nodes, outputs, executor)
            nodes = fuse_scale(nodes, outputs, executor)
            nodes = fuse_slice_writes(nodes, outputs, executor)
            constants |= numbers
            if unroll:
                nodes = unrolled(nodes, outputs, numbers_in(constants), executor)
        else:
            donated = frozenset()
        self._writer = Writer(device, executor, nodes, recording.inputs, outputs, constants, donated, given)
        self._donates = bool(donated)
        self._instance = self._writer.compiled("replay")
        self._free = [self._instance()]
        self.seconds = perf_counter() - start  #: the time that planning took

    def __call__(self, inputs: Sequence[Value], free: Sequence[int] = ()) -> list[Value]:
        """Return the outputs for inputs of the recorded shapes and dtypes, which are not checked.

        Threads that call a plan at once get memory of their own. If a call raises an error, its memory is dropped.

        Args:
            inputs: the inputs, in order.
            free: the positions of those that outputs may overwrite.
        """
        try:
            replay = self._free.pop()
        except IndexError:
            replay = self._instance()
        executor = self._writer.executor
        if self._donates and executor is not None:
            own = {k for k in free if executor.may_overwrite(inputs[k])}
            outputs: list[Value] = executor.overwrite(replay, inputs, own)
        else:
            outputs = replay(*inputs)
        self._free.append(replay)
        return outputs

    def steps(self, carried: int, sliced: int) -> StepLoop | None:
        """Return the plan as a loop, see `StepLoop`; None if Python has to make its steps."""
        writer = self._writer
        calls = writer.step
        if calls is None:
            return None
        inputs, outputs = (
            [f"v{ref.number}" for ref in writer.inputs],
            [(writer.name(ref), ref) for ref in writer.outputs],
        )
        loop = StepLoop(calls, writer.storage, writer.source.objects, inputs, outputs, carried, sliced)
        return loop if loop.possible else None

    def explanation(self) -> PlanExplanation:
        """Return what the plan does."""
        writer = self._writer
        return PlanExplanation(
            tuple(parts_of(writer)),
            len(self.recording.nodes),
            writer.storage.arena.size,
            writer.storage.arena.total,
            self.seconds,
            writer.source.text,
        )
