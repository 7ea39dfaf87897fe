"""`Signature`: the inputs and outputs of a group's program, and how it is traced."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.plans.fusion import Group, Grouping
from burnpy.backend.plans.program_steps import traced
from burnpy.backend.plans.recording import Node, Ref, mapped, refs_in
from burnpy.backend.primitives import DType
from burnpy.backend.programs import Extent, Input, Program, trace


class Signature:
    """The inputs and outputs of a group's program."""

    def __init__(self, group: Group, grouping: Grouping, outside: set[int]) -> None:
        self.group, self.grouping = group, grouping
        self.program: Program | None = None  #: once it is traced
        self.arrays: list[Ref] = []
        self.repeated: set[int] = set()  #: the numbers of those that are repeated to be one value for each row
        self.numbers: list[Ref] = []
        extents: list[Extent] = []
        domain = group.domain
        seen: set[int] = set()
        self._float: dict[int, DType] = {}  #: the dtype of each number that is a 0-d float
        for node in group.nodes:
            dtype = _float_of(node)
            for ref in grouping.arguments(node):
                if _is_weak(ref):
                    before = self._float.setdefault(ref.number, dtype)
                    self._float[ref.number] = max(before, dtype, key=lambda each: each.itemsize)
                if ref.number in group.made or ref.number in seen or ref.number in grouping.constants:
                    continue
                seen.add(ref.number)
                if math.prod(ref.shape) == 1 and (math.prod(domain) != 1 or not ref.shape):
                    self.numbers.append(ref)
                    continue
                self.arrays.append(ref)
                extents.append(group.roles[ref.number].extent)
                if group.roles[ref.number].repeated:
                    self.repeated.add(ref.number)
        order = [*self.arrays, *self.numbers]
        self._positions = {ref.number: k for k, ref in enumerate(order)}
        self.inputs = [Input(e, ref.dtype.name) for e, ref in zip(extents, self.arrays, strict=True)]
        self.inputs += [Input(Extent.SCALAR, self._float.get(ref.number, ref.dtype).name) for ref in self.numbers]
        results = {ref.number: ref for node in group.nodes for ref in refs_in(node.results)}
        self.outputs = [results[number] for number in sorted(outside)]

    @property
    def name(self) -> str:
        """The name of the program: its operations."""
        names = [node.name for node in self.group.nodes]
        return "+".join(names[:6]) + ("+…" if names[6:] else "")

    def trace(self) -> Program:
        """Return the program, once for groups that do the same, as those of equal layers.

        Raises:
            ProgramError: a program cannot have it.
        """
        numbers: dict[int, int] = {}

        def own(ref: Ref) -> Any:
            return numbers.setdefault(ref.number, len(numbers)), ref.shape, ref.dtype

        group, grouping = self.group, self.grouping
        nodes = [
            (node.name, constant_key(mapped((node.args, node.results), own)), tuple(map(own, grouping.arguments(node))))
            for node in group.nodes
        ]
        values = [
            (group.roles.get(number), constant_key(grouping.constants.get(number)), number in group.summed)
            for number in numbers
        ]
        results = tuple([numbers[ref.number] for ref in self.outputs])
        key = (group.domain, group.split, group.whole, tuple(nodes), tuple(values), results)
        known = all(row[1] is not None for row in (*nodes, *values))
        program = _programs.get(key) if known else None
        if program is None:
            program = trace(self.traced, tuple(self.inputs), name=self.name)
            if known and len(_programs) < _MOST_PROGRAMS:
                _programs[key] = program
        return program

    def traced(self, t: Any, *symbols: Any) -> tuple[Any, ...]:
        """Compute the outputs by a tracer."""
        group = self.group
        known: dict[int, Any] = {}
        full = (t.rows, t.columns)
        for node in group.nodes:
            given = []
            for ref in self.grouping.arguments(node):
                number = self.grouping.constants.get(ref.number)
                if ref.number in known:
                    given.append(known[ref.number])
                elif ref.number in self._positions:
                    x = symbols[self._positions[ref.number]]
                    given.append(t.cast(x, _float_of(node)) if _is_weak(ref) else x)
                else:
                    given.append(t.full((), number, _float_of(node) if _is_weak(ref) else ref.dtype))
            made = traced(t, node, given, group.domain, group.split, group.whole)
            results = [made] if isinstance(node.results, Ref) else made
            known.update(zip([ref.number for ref in refs_in(node.results)], results, strict=True))
        outputs = []
        for ref in self.outputs:
            x = known[ref.number]
            extent = group.roles[ref.number].extent
            if extent is Extent.FULL or (extent is Extent.COLUMN and ref.number not in group.summed):
                x = t.expand(x, full if extent is Extent.FULL else (t.rows, 1))
            outputs.append(x)
        return tuple(outputs)


def _is_weak(ref: Ref) -> bool:
    """Return whether a value is a 0-d float, which has the dtype of the arrays beside it, as it promotes none."""
    return not ref.shape and ref.dtype.kind == "f"


def _float_of(node: Node) -> DType:
    """Return the dtype of a node's arrays of floats, its result's if all of its floats are 0-d."""
    return next((r.dtype for r in refs_in((node.args, node.results)) if r.shape and r.dtype.kind == "f"), float32)


_programs: dict[Any, Program] = {}
_MOST_PROGRAMS = 1024


def constant_key(x: Any) -> Any:
    """Return a hashable stand-in for a constant, equal only for equal ones; None if there is none."""
    kind = x.__class__
    if kind is tuple or kind is list:
        members = [constant_key(member) for member in x]
        return None if None in members else (kind, *members)
    if kind is float:
        return float, x.hex()
    if kind is slice:
        return slice, x.start, x.stop, x.step
    return (kind, x) if x is None or kind in (int, bool, str) or isinstance(x, np.dtype) else None


@cache
def repetition(dtype: str) -> Program:
    """Return the program that repeats a row of a dtype in all rows."""
    return trace(lambda t, x: t.expand(x, (t.rows, t.columns)), (Input(Extent.ROW, dtype),), name="repeat")
