"""`NumPyExecutor`: programs and products of plans, by kernels and OpenBLAS into memory of the plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import burnpy_numpy.cpu_threads as threads
from burnpy.backend.dtypes import float32, float64
from burnpy.backend.plans.executor import Launch
from burnpy.backend.plans.recording import Node
from burnpy.backend.plans.source import Source
from burnpy.backend.primitives import DType, Key, Shape
from burnpy.backend.programs import Extent, Program
from burnpy_numpy.dense import (
    MAX_SINGLE_THREADED,
    MULTIPLICATIONS_PER_ELEMENT,
    linear_kernel,
    product_into,
    shares_products,
)
from burnpy_numpy.kernels.kernel import program_kernel
from burnpy_numpy.numpy_calls import quietly, run

if TYPE_CHECKING:
    from burnpy_numpy.kernels.launch import Kernel, TemplateKernel

_SHARED = 1 << 18
"""The number of elements from which a kernel runs on several threads."""
_PADDING = 64
_contiguous: Any = np.ascontiguousarray


class ProgramLaunch:
    """A kernel of a program, for fixed numbers of rows and columns."""

    def __init__(self, kernel: Kernel, rows: int, columns: int) -> None:
        self._kernel, self._rows, self._columns = kernel, rows, columns
        self._chunks = -(-rows // 128)
        outputs = [kernel.program.instructions[k] for k in kernel.program.outputs]
        self._partial = [
            ((self._chunks, columns if step.extent is Extent.ROW else 1), np.dtype(step.dtype)) if partial else None
            for step, partial in zip(outputs, kernel.layout.partial, strict=True)
        ]

    @property
    def scratch(self) -> Sequence[tuple[Shape, DType]]:
        """Memory for the sums of each chunk of rows, and for a row of values that are kept."""
        memory: list[tuple[Shape, DType]] = [part for part in self._partial if part is not None]
        kept = self._kernel.layout.scratch
        return [*memory, ((kept * (self._columns + _PADDING),), float64)] if kept else memory

    @property
    def in_place(self) -> bool:
        """True if a result may have the memory of an input: each element depends on the same one of the inputs."""
        return self._kernel.layout.flat

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[str], scratch: Sequence[str]) -> None:
        """Write the call of the kernel, with the sums over rows before and after it."""
        kernel, rows, columns = self._kernel, self._rows, self._columns
        count = len(arrays) - len(self._partial)
        results, names, parts = list(arrays[count:]), list(arrays[:count]), iter(scratch)
        added: list[str] = []
        for result, part in zip(results, self._partial, strict=True):
            if part is None:
                names.append(result)
                continue
            name = next(parts)
            names.append(name)
            source.write(f"{name}.fill(0.0)")
            added.append(f"{source.bind(add_up, 'f')}({name}, {result}.reshape({part[0][1]}))")
        room = list(parts)
        if rows * columns >= _SHARED and threads.COUNT > 1:
            call = source.bind(kernel.into, "f")
            source.write(f"{call}(({', '.join(names)},), ({''.join(n + ', ' for n in numbers)}), {rows}, {columns})")
        else:
            sizes = (
                f"0, {rows * columns}, 1, {rows * columns}" if kernel.layout.flat else f"0, {rows}, {rows}, {columns}"
            )
            source.write(f"{source.bind(kernel.function, 'f')}({', '.join([*names, *room, *numbers])}, {sizes})")
        for line in added:
            source.write(line)


class ProductLaunch:
    """A product of matrices, into memory."""

    def __init__(self, node: Node, function: Callable[..., None]) -> None:
        self._node, self._function = node, function

    @property
    def scratch(self) -> Sequence[tuple[Shape, DType]]:
        """No further memory."""
        return ()

    @property
    def in_place(self) -> bool:
        """False: a product needs its operands until the end."""
        return False

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[str], scratch: Sequence[str]) -> None:
        """Write the call of NumPy's product."""
        x = self._node.args[0]
        left, right, out = arrays
        columns = self._node.results.shape[-1]
        if len(x.shape) != 2:
            left = f"{left}.reshape({math.prod(x.shape[:-1])}, {x.shape[-1]})"
        if self._node.name == "matmul_tn":
            left = f"{left}.T"
        if self._node.name == "matmul_nt":
            right = f"{right}.T"
        if len(self._node.results.shape) != 2:
            out = f"{out}.reshape({math.prod(self._node.results.shape[:-1])}, {columns})"
        source.write(f"{source.bind(self._function, 'f')}({left}, {right}, {out})")


class LinearLaunch:
    """A linear layer, into memory."""

    def __init__(self, node: Node, kernel: TemplateKernel, large: bool) -> None:
        self._node, self._kernel, self._large = node, kernel, large

    @property
    def scratch(self) -> Sequence[tuple[Shape, DType]]:
        """No further memory."""
        return ()

    @property
    def in_place(self) -> bool:
        """False: a product needs its operands until the end."""
        return False

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[str], scratch: Sequence[str]) -> None:
        """Write the call of the kernel, or of the threads that share it."""
        inner, columns = self._node.args[1].shape
        rows = math.prod(self._node.args[0].shape[:-1])
        given = ", ".join(arrays)
        if self._large:
            function = source.bind(self._kernel.function, "f")
            source.write(f"{source.bind(shared_linear, 'f')}({function}, {rows}, {inner}, {columns}, {given})")
        else:
            source.write(f"{source.bind(self._kernel.function, 'f')}(0, {rows}, 4, {given}, {inner}, {columns})")


def shared_linear(
    function: Callable[..., Any], rows: int, inner: int, columns: int, x: Any, weight: Any, bias: Any, out: Any
) -> None:
    """Write a linear layer into memory, on several threads."""

    def work(start: int, stop: int) -> None:
        function(start, stop, 4, x, weight, bias, out, inner, columns)

    threads.shared(work, rows, inner * columns / MULTIPLICATIONS_PER_ELEMENT, products=True)


def dot(x: Any, y: Any, out: Any) -> None:
    """Write the product of two matrices into memory, without warnings."""
    try:
        run(np.dot, x, y, out)
    except RuntimeError:
        quietly(np.dot, x, y, out)


def add_up(x: Any, out: Any) -> None:
    """Write the sum of the rows of a matrix into memory, without warnings."""
    try:
        run(np.add.reduce, x, 0, None, out)
    except RuntimeError:
        quietly(np.add.reduce, x, 0, None, out)


def _index(key: Key) -> str:
    """Return a key as it is written in brackets, with dots so that one element is a 0-d array."""
    parts = [
        ":".join("" if part is None else str(part) for part in (item.start, item.stop, item.step))
        if isinstance(item, slice)
        else str(item)
        for item in key
    ]
    return ", ".join([*parts, "..."])


class NumPyExecutor:
    """The computations of NumPy that plans give memory."""

    def program(self, program: Program, rows: int, columns: int) -> Launch | None:
        """Return the launch of a program's kernel; None if kernels are off."""
        kernel = program_kernel(program)
        return None if kernel is None else ProgramLaunch(kernel, rows, columns)

    def product(self, node: Node) -> Launch | None:
        """Return the launch of a product with a matrix on one thread; None for another one."""
        if node.name not in ("matmul", "matmul_nt", "matmul_tn", "linear"):
            return None
        x, y = node.args[:2]
        if node.name == "linear":
            return self._linear(node)
        usual = x.dtype == y.dtype and x.dtype in (float32, float64) and len(y.shape) == 2 <= len(x.shape)
        if not usual:
            return None
        work = math.prod(x.shape) * node.results.shape[-1]
        if not work or 0 in (*x.shape, *y.shape):
            return None
        if node.name == "matmul_tn" and len(x.shape) != 2:
            return None
        large = work > MAX_SINGLE_THREADED and shares_products()
        return ProductLaunch(node, product_into if large else dot)

    def _linear(self, node: Node) -> Launch | None:
        """Return the launch of a linear layer; None for a wide one on several threads."""
        x, weight, bias = node.args
        rows, columns = math.prod(x.shape[:-1]), weight.shape[1]
        large = rows * math.prod(weight.shape) > MAX_SINGLE_THREADED and shares_products()
        usual = x.dtype == weight.dtype == bias.dtype and x.dtype in (float32, float64)
        if not usual or 0 in (*x.shape, *weight.shape) or (large and rows < columns):
            return None
        kernel = linear_kernel(x.dtype)
        return None if kernel is None else LinearLaunch(node, kernel, large)

    def memory(self, size: int) -> Any:
        """Return memory that begins at a multiple of 64 bytes."""
        block = np.empty(size + 64, np.uint8)
        start = -block.ctypes.data % 64
        return block[start : start + size]

    def array(self, memory: Any, start: int, shape: Shape, dtype: DType) -> Any:
        """Return the array in a part of the memory."""
        return memory[start : start + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)

    def is_contiguous(self, x: Any) -> bool:
        """Return whether an array is C-contiguous."""
        return bool(x.flags.c_contiguous)

    def contiguous(self, x: Any) -> Any:
        """Return an array, or a copy of it, that is C-contiguous."""
        return _contiguous(x)

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """Return new memory."""
        return np.empty(shape, dtype)

    def add(self, x: Any, y: Any, out: Any) -> None:
        """Write a sum into memory, without warnings."""
        try:
            run(np.add, x, y, out)
        except RuntimeError:
            quietly(np.add, x, y, out)

    def part(self, x: Any, key: Key) -> Any:
        """Return the part of an array that a key selects, as a view: also of one element."""
        return x[(*key, ...)]

    def view(self, node: Node, name: str) -> str | None:
        """Return the expression of a slice, a permutation or a reshaped array."""
        if node.name == "slice":
            return f"{name}[{_index(node.args[1])}]"
        if node.name == "permute":
            return f"{name}.transpose({tuple(node.args[1])})"
        return f"{name}.reshape({tuple(node.args[1])})" if node.name == "reshape" else None

    def may_overwrite(self, x: Any) -> bool:
        """Return whether an array is C-contiguous memory of its own that can be written to."""
        flags = x.flags
        return bool(type(x) is np.ndarray and flags.c_contiguous and flags.writeable and flags.owndata)
