"""The schedule of a program: its loops over the columns of a row, and the values that need a pass of their own."""

from __future__ import annotations

from burnpy.backend.programs.program import FUNCTIONS, Extent, Instruction, Program, ProgramError

_EXPENSIVE = frozenset((*FUNCTIONS, "div", "sqrt"))
_INTS = ("int64", "int32")
_INT_STEPS = frozenset(("input", "constant", "index", "expand", "cast"))
_INDICES = (("input", Extent.COLUMN), ("index", Extent.ROW))
_OF_INTS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "expand", "cast"))


class Schedule:
    """The order in which a program's instructions are computed for a row.

    In each row, one loop over the columns computes the sums and maxima that need no others, the next one those that
    need the first, and so on; the last loop computes the outputs.

    Args:
        program: the program.
        floats: the float dtypes that the kernels of a backend have.
        ints: whether they compare and convert all ints; otherwise an int is an index for each row, which a gather takes
            or which is compared with the positions of the columns.

    Raises:
        ProgramError: the program needs dtypes that kernels do not have, or several passes over the rows.
    """

    def __init__(self, program: Program, floats: tuple[str, ...] = ("float32", "float64"), ints: bool = False) -> None:
        self.program, self.steps = program, program.instructions
        self._floats, self._ints = floats, ints
        self.live = self._live()
        """The instructions that the outputs need, in order."""
        self._refuse()
        self.depth = self._depths()
        """For each instruction, the number of loops that come before it can be computed."""
        self.stages = max(self.depth.values(), default=0) + 1
        """The number of loops."""
        self.kept = self._kept()
        """The values that are kept for later loops, with their places: expensive ones that several loops need."""

    def _live(self) -> list[int]:
        """Return the instructions that the outputs need, in order."""
        needed = set(self.program.outputs)
        for k in reversed(range(len(self.steps))):
            if k in needed:
                needed.update(self.steps[k].args)
        return sorted(needed)

    def _refuse(self) -> None:
        """Refuse a program that one pass over the rows cannot compute."""
        for k in self.live:
            step = self.steps[k]
            if not self._computes(step):
                raise ProgramError(f"kernels do not compute {step.op} of {step.dtype}")
            if any(self.over_rows(a) for a in step.args):
                raise ProgramError("a kernel cannot use a sum over rows, as it is known after the last row")
            if step.op == "amax" and step.value == 0:
                raise ProgramError("kernels have no maximum over rows")
            if self.over_columns(k) and self.steps[step.args[0]].extent is not Extent.FULL:
                raise ProgramError("kernels reduce columns of full values only")
        for k in self.program.outputs:
            if self.steps[k].extent in (Extent.ROW, Extent.SCALAR) and not self.over_rows(k):
                raise ProgramError("kernels return no value that is the same in all rows")

    def _computes(self, step: Instruction) -> bool:
        """Return whether kernels have an instruction for its dtype and those of its arguments."""
        op, args, extent, dtype, _ = step
        if dtype in _INTS:
            if not (op in _INT_STEPS if self._ints else (op, extent) in _INDICES):
                return False
        elif dtype not in (*self._floats, "bool"):
            return False
        if dtype == "bool" and op in ("sum", "amax", "maximum", "minimum", "add", "mul", "sub"):
            return False
        of_ints = any(self.steps[a].dtype in _INTS for a in args)
        return not of_ints or op in ("gather", "eq") or (self._ints and op in _OF_INTS)

    def over_rows(self, k: int) -> bool:
        """Return whether an instruction is a sum over rows."""
        return self.steps[k].op in ("sum", "amax") and self.steps[k].value == 0

    def over_columns(self, k: int) -> bool:
        """Return whether an instruction is a sum or a maximum over columns."""
        return self.steps[k].op in ("sum", "amax") and self.steps[k].value == 1

    def _depths(self) -> dict[int, int]:
        """For each instruction, the number of loops over columns that come before it can be computed."""
        depth: dict[int, int] = {}
        for k in self.live:
            depth[k] = max((depth[a] for a in self.steps[k].args), default=0) + self.over_columns(k)
        return depth

    def needed(self, roots: list[int]) -> set[int]:
        """Return the instructions that the values of ``roots`` at one column are computed of, those roots included."""
        instructions: set[int] = set()
        stack = list(roots)
        while stack:
            k = stack.pop()
            if k not in instructions and self.steps[k].extent.over_columns:
                instructions.add(k)
                stack += self.steps[k].args
        return instructions

    def roots(self, stage: int) -> list[int]:
        """Return the values that a loop over columns computes: arguments of reductions, and in the last one, of
        outputs.
        """
        if stage < self.stages - 1:
            return [self.steps[k].args[0] for k in self.reductions(stage)]
        roots = []
        for k in self.program.outputs:
            if self.over_rows(k):
                roots.append(self.steps[k].args[0])
            elif self.steps[k].extent is Extent.FULL:
                roots.append(k)
        return [k for k in roots if self.steps[k].extent.over_columns]

    def reductions(self, stage: int) -> list[int]:
        """Return the sums and maxima over columns that a loop computes."""
        return [k for k in self.live if self.over_columns(k) and self.depth[k] == stage + 1]

    def _kept(self) -> dict[int, int]:
        """Return the values that are kept in the scratch row, with their place: expensive ones that several
        loops need.
        """
        counts: dict[int, int] = {}
        for stage in range(self.stages):
            for k in self.needed(self.roots(stage)):
                counts[k] = counts.get(k, 0) + 1
        kept = [k for k in self.live if counts.get(k, 0) > 1 and self.steps[k].op in _EXPENSIVE]
        return {k: place for place, k in enumerate(kept)}

    def first_stage(self, k: int) -> int:
        """Return the first loop that computes a value."""
        return next(stage for stage in range(self.stages) if k in self.needed(self.roots(stage)))
