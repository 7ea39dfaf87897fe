"""`BlockKernel`: a program that NumPy computes block by block, so that intermediate results stay in the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.primitives import Shape
from burnpy.backend.program import Extent, Program
from burnpy_numpy.block_source import NAMESPACE, in_one_pass, over_rows, source
from burnpy_numpy.constants import constant
from burnpy_numpy.errstate import quietly, run
from burnpy_numpy.threads import shared

_BLOCK = 1 << 16
"""The number of elements of a block, or of its intermediate results together, if there are several. It does not depend
on the number of threads, and so neither do sums over rows."""


class BlockKernel:
    """A program as calls of NumPy. It has the interface of a compiled kernel, `burnpy_numpy.compiled.kernel.Kernel`."""

    def __init__(self, program: Program, overwritten: Mapping[int, int] | None = None) -> None:
        self.program, self.source = program, source(program, overwritten)
        namespace = {**NAMESPACE, **self.source.constants}
        exec(compile(self.source.text, f"<blocks of {program.name}>", "exec"), namespace)
        self._prepare: Callable[..., Any] = namespace["prepare"]
        self._inputs = [(extent, dtype_of(dtype)) for extent, dtype in program.inputs]
        self._scalars = [dtype for extent, dtype in self._inputs if extent is Extent.SCALAR]
        steps = [program.instructions[k] for k in program.outputs]
        self._outputs = [(step.extent, dtype_of(step.dtype)) for step in steps]
        self._block = max(1, _BLOCK // max(1, len(self.source.memory)))
        self._sums = {k: step.op for k, step in enumerate(steps) if over_rows(step)}

    def __call__(self, xs: Sequence[Any], numbers: Sequence[float], rows: int, columns: int) -> list[Any]:
        """Compute the outputs, on several threads if there are many elements.

        Args:
            xs: the inputs that are arrays, of the program's dtypes; of their shapes only the sizes matter.
            numbers: the inputs that are numbers.
            rows: the number of rows of all arrays that have a value for each row.
            columns: the number of columns of all arrays that have a value for each column.
        """
        outs = [None if k in self._sums else _empty(o, rows, columns) for k, o in enumerate(self._outputs)]
        return self._run(xs, numbers, outs, rows, columns)

    def alike(self, xs: Sequence[Any], numbers: Sequence[float] = ()) -> Any:
        """Compute the only output of a program, which is of the shape of its arrays. Their last dimension is a row.

        Args:
            xs: the inputs that are arrays, of one shape and of the program's dtypes, not empty.
            numbers: the inputs that are numbers.
        """
        out = np.empty(xs[0].shape, self._outputs[0][1])
        columns = out.shape[-1]
        self._run(xs, numbers, [out], out.size // columns, columns)
        return out

    def outputs(
        self, xs: Sequence[Any], shapes: Sequence[Shape], rows: int, columns: int, numbers: Sequence[float] = ()
    ) -> list[Any]:
        """Compute the outputs of a program that adds up no columns, each in a shape that is given.

        Args:
            xs: the inputs, of the program's dtypes and sizes.
            shapes: the shapes of the outputs.
            rows: the number of rows.
            columns: the number of columns.
            numbers: the inputs that are numbers.
        """
        outs = [np.empty(shape, dtype) for shape, (_, dtype) in zip(shapes, self._outputs, strict=True)]
        return self._run(xs, numbers, outs, rows, columns)

    def bound(self, numbers: Sequence[float]) -> Callable[..., Any]:
        """Return the function of a block, see `burnpy_numpy.block_source.Source`, of an elementwise program."""
        values = [constant(float(x), dtype) for x, dtype in zip(numbers, self._scalars, strict=True)]
        block: Callable[..., Any] = self._prepare(1, 1, *values)
        return block

    def into(self, block: Callable[..., Any], xs: Sequence[Any], outs: list[Any]) -> list[Any]:
        """Compute an elementwise program into memory that is given, and return that.

        It is called where NumPy's warnings are off.

        Args:
            block: the function that `bound` returned.
            xs: the inputs that are arrays, of one shape.
            outs: C-contiguous memory for the outputs. It may be that of the inputs that `source` was told of.
        """
        shape, size = outs[0].shape, outs[0].size
        if size <= self._block:
            block(0, size, *xs, *outs, *[np.empty(shape, dtype) for dtype in self.source.memory])
        else:
            self._blocks(block, [x.reshape(-1) for x in (*xs, *outs)], (size,))
        return outs

    def _run(self, xs: Sequence[Any], numbers: Sequence[float], outs: list[Any], rows: int, columns: int) -> list[Any]:
        """Compute the outputs; None is given for sums over rows."""
        try:
            return run(self._compute, xs, numbers, outs, rows, columns)
        except RuntimeError:
            return quietly(self._compute, xs, numbers, outs, rows, columns)  # type: ignore[no-any-return]  # as above

    def _compute(
        self, xs: Sequence[Any], numbers: Sequence[float], outs: list[Any], rows: int, columns: int
    ) -> list[Any]:
        if self.program.elementwise:
            self._blocks(self.bound(numbers), [x.reshape(-1) for x in (*xs, *outs)], (rows * columns,))
            return outs
        shape = (rows, columns)
        fixed, blockwise = [], []
        arrays, scalars = iter(xs), iter(numbers)
        for extent, dtype in self._inputs:
            if extent is Extent.SCALAR:
                fixed.append(constant(float(next(scalars)), dtype))
            elif extent is Extent.ROW:
                fixed.append(next(arrays).reshape(-1))
            else:
                blockwise.append(next(arrays).reshape(extent.shape(rows, columns)))
        for x, (extent, _) in zip(outs, self._outputs, strict=True):
            if x is not None:
                blockwise.append(x.reshape(extent.shape(rows, columns)))
        sums = self._blocks(self._prepare(rows, columns, *fixed), blockwise, shape)
        for k, parts in zip(self._sums, zip(*sums, strict=True), strict=True):
            stacked = np.stack(parts)
            joined = stacked.sum(0) if self._sums[k] == "sum" else stacked.max(0)
            outs[k] = np.asarray(joined).reshape(self._outputs[k][0].shape(rows, columns))
        return outs

    def _blocks(self, block: Callable[..., Any], arrays: list[Any], shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
        """Compute all blocks; return the sums over rows of each."""
        length, *wide = shape
        height = max(1, self._block // max(1, *wide, 1))
        if length <= height:
            return [block(0, length, *arrays, *[np.empty(shape, dtype) for dtype in self.source.memory])]
        count = -(-length // height)
        sums: list[tuple[Any, ...]] = [()] * count

        def work(begin: int, end: int) -> None:
            memory = [np.empty((height, *wide), dtype) for dtype in self.source.memory]
            for n in range(begin, end):
                start, stop = n * height, min((n + 1) * height, length)
                if stop - start < height:
                    memory = [x[: stop - start] for x in memory]
                sums[n] = block(start, stop, *[x[start:stop] for x in arrays], *memory)

        shared(work, count, height * max(1, *wide, 1))
        return sums


def _empty(output: tuple[Extent, Any], rows: int, columns: int) -> Any:
    """Return new memory for an output."""
    extent, dtype = output
    return np.empty(extent.shape(rows, columns), dtype)


@cache
def block_kernel(program: Program) -> BlockKernel | None:
    """Return the block kernel of a program; None if it needs several passes over the rows."""
    return BlockKernel(program) if in_one_pass(program) else None
