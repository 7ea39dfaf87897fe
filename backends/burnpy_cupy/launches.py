"""The launches of plans on CuPy: programs, products, formulas of lists and of numbers, into given memory."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from burnpy.backend.dtypes import dtype_of, float32, float64
from burnpy.backend.plans.executor import Computation, ListsComputation, Number
from burnpy.backend.plans.recording import Node, Ref, refs_in
from burnpy.backend.plans.source import Source
from burnpy.backend.primitives import DType, Shape
from burnpy.backend.programs import Program
from burnpy_array.array_base import is_half
from burnpy_cupy import gemm
from burnpy_cupy.epilogues import FinishedProduct
from burnpy_cupy.kernels.foreach import ForeachKernel
from burnpy_cupy.kernels.foreach_tables import SUMMED, THREADS, NormKernels, named_tables
from burnpy_cupy.kernels.launch import Kernel, chunks_of, total_of
from burnpy_cupy.kernels.row_geometry import Geometry, transposed
from burnpy_cupy.launch_sequence import Argument, KernelCall, LaunchSequence, Part, ProductCall, Table


class _Launch(Computation, ABC):
    """A launch by calls that can be joined with others.

    Args:
        device: the device, a `CuPy`.
    """

    def __init__(self, device: Any) -> None:
        self._device = device

    @abstractmethod
    def calls(
        self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]
    ) -> Sequence[KernelCall | ProductCall]:
        """Return its launches."""

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Write the launches as a call of their own, which finds all addresses anew."""
        names = [*dict.fromkeys([*arrays, *[number.name for number in numbers], *scratch])]
        sequence = LaunchSequence(self._device, self.calls(arrays, numbers, scratch), names)
        launched = source.bind(sequence.run, "f")
        source.write(f"{launched}({', '.join(names)})")


class ProgramLaunch(_Launch):
    """The kernels of a program, for fixed numbers of rows and columns."""

    def __init__(self, device: Any, kernel: Kernel, geometry: Geometry) -> None:
        super().__init__(device)
        self._kernel, self._geometry = kernel, geometry
        self._turned = transposed(geometry.rows, geometry.columns)
        self._sums = kernel.passes.is_sum.count(True)
        program, self._chunks = kernel.passes.by_columns, 1
        rooms = list[tuple[Shape, DType]]()  # for the values of each row that sums over rows need, and for their parts
        if kernel.passes.by_rows is not None:
            first = kernel.passes.by_rows
            carried = first.outputs[kernel.passes.is_sum.count(False) :]
            rooms += [((geometry.rows, 1), dtype_of(first.instructions[k].dtype)) for k in carried]
        self._carried = len(rooms)
        if program is not None:
            self._chunks = chunks_of(self._turned)
            dtype = dtype_of(program.instructions[program.outputs[0]].dtype)
            self._wide = float32 if is_half(dtype) else dtype
            if self._chunks > 1:
                rooms.append(((self._sums, self._chunks, self._turned.rows), self._wide))
        self.scratch = rooms

    def calls(
        self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]
    ) -> Sequence[KernelCall | ProductCall]:
        """Return up to two launches, and one for each sum of the parts of sums over rows."""
        passes = self._kernel.passes
        count = len(arrays) - len(passes.is_sum)
        given, results = arrays[:count], arrays[count:]
        carried, held = scratch[: self._carried], tuple([number.dtype.name for number in numbers])
        names = [number.name for number in numbers]
        calls = list[KernelCall]()
        if passes.by_rows is not None:
            made = [name for name, is_sum in zip(results, passes.is_sum, strict=True) if not is_sum]
            calls.append(self._call(passes.by_rows, [*given, *made, *carried, *names], self._geometry, 1, held))
        if passes.by_columns is None:
            return calls
        sums = [name for name, is_sum in zip(results, passes.is_sum, strict=True) if is_sum]
        if self._chunks == 1:
            return [*calls, self._call(passes.by_columns, [*given, *carried, *sums, *names], self._turned, 1, held)]
        size = self._chunks * self._turned.rows
        parts = [Part(scratch[-1], k * size * self._wide.itemsize) for k in range(len(sums))]
        arguments = [*given, *carried, *parts, *names]
        calls.append(self._call(passes.by_columns, arguments, self._turned, self._chunks, held))
        dtype = passes.by_columns.instructions[passes.by_columns.outputs[0]].dtype
        total = total_of(self._wide.name, dtype)
        columns = transposed(self._chunks, self._turned.rows)
        return [*calls, *[self._call(total, pair, columns, 1) for pair in zip(parts, sums, strict=True)]]

    def _call(
        self, program: Program, arguments: Sequence[Any], geometry: Geometry, chunks: int, held: tuple[str, ...] = ()
    ) -> KernelCall:
        stride = geometry.rows if chunks > 1 else 0
        source, grid, block, sizes = self._kernel.prepared(program, geometry, chunks, stride, held)
        return KernelCall(source.launch, grid, block, [*arguments, *sizes])


class _NodeLaunch(_Launch):
    """The computation of a node by arrays of its own."""

    def __init__(self, device: Any, node: Node) -> None:
        super().__init__(device)
        self.operands: Sequence[Ref] = refs_in(node.args)


class RowsLaunch(ProgramLaunch):
    """An operation of rows as one program."""

    def __init__(self, device: Any, kernel: Kernel, geometry: Geometry, operands: Sequence[Ref]) -> None:
        super().__init__(device, kernel, geometry)
        self.operands = operands


class ProductLaunch(_Launch):
    """A product, perhaps with an epilogue.

    Args:
        device: the device, a `CuPy`.
        product: the product.
        operands: what it reads: the factors, in their order, and a bias.
    """

    def __init__(self, device: Any, product: gemm.Product | FinishedProduct, operands: Sequence[Ref]) -> None:
        super().__init__(device)
        self._product, self.operands = product, operands

    def calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[ProductCall]:
        """Return the call of cuBLAS or cuBLASLt, which takes the vector of an epilogue last."""
        x, y, *rest = arrays
        vector, out = ([rest[0]], rest[1]) if len(self.operands) == 3 else (rest[1:], rest[0])
        return [ProductCall(self._product, (x, y, out, *vector))]


class ListsLaunch(ListsComputation, _Launch):
    """A formula of lists, by a kernel."""

    def __init__(self, device: Any, node: Node, kernel: ForeachKernel) -> None:
        super().__init__(node)
        self._device, self._kernel = device, kernel

    def calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        """Return the launches of the kernel, one for each table of arrays."""
        count, named = len(self.lists[0]), iter(numbers)
        values: list[Any] = []
        for x in self.given:
            values += [next(named).name, 0] if x.__class__ is Ref else [float(x)]
        rows, sizes = [arrays[k::count] for k in range(count)], [math.prod(x.shape) for x in self.lists[0]]
        return [
            KernelCall(self._kernel.function, (parts, 1), (THREADS, 1), [*values, Table(content, named)])
            for content, named, parts in named_tables(rows, sizes)
        ]


class NormLaunch(_NodeLaunch):
    """The norm of all elements of arrays of one dtype."""

    def __init__(self, device: Any, node: Node, kernels: NormKernels) -> None:
        super().__init__(device, node)
        self._kernels, self._sizes = kernels, [math.prod(x.shape) for x in self.operands]
        self._parts = sum(table.parts for table in named_tables([("",)] * len(self._sizes), self._sizes))
        self._blocks = -(-self._parts // SUMMED)  # that add up parts, where these are many
        self.scratch = [((3 * (self._parts + self._blocks),), float64)]

    def calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        """Return the launches of the norms of parts, one for each table of arrays, and of their norm."""
        *given, out = arrays
        calls, start = list[KernelCall](), 0
        for table in named_tables([(name,) for name in given], self._sizes):
            part = Part(scratch[0], 3 * start * float64.itemsize)
            arguments: list[Argument] = [part, Table(table.content, table.arrays)]
            calls.append(KernelCall(self._kernels.parts, (table.parts, 1), (THREADS, 1), arguments))
            start += table.parts
        parts, count = Part(scratch[0], 0), self._parts
        if self._blocks > 1:
            sums = Part(scratch[0], 3 * count * float64.itemsize)
            calls.append(KernelCall(self._kernels.sums, (self._blocks, 1), (THREADS, 1), [parts, count, sums]))
            parts, count = sums, self._blocks
        return [*calls, KernelCall(self._kernels.total, (1, 1), (THREADS, 1), [parts, count, out])]


class NumbersLaunch(_NodeLaunch):
    """A formula of numbers that are on the GPU."""

    def __init__(self, device: Any, node: Node, kernel: Any) -> None:
        super().__init__(device, node)
        self._kernel = kernel
        self.operands, self.numbers = (), refs_in(node.args)

    def calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        """Return the launch of one thread."""
        return [KernelCall(self._kernel, (1, 1), (1, 1), [*[number.name for number in numbers], *arrays])]
