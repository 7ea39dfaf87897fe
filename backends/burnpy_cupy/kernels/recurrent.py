"""Recurrent networks: one launch for all elements of the sequences, or a product and a launch for each element.

One launch computes all elements where the weight fits into the shared memory of one block on each multiprocessor, and a
block has few products for an element. Otherwise cuBLAS multiplies, and a kernel computes the gates.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from burnpy.backend.dtypes import float32, int64, uint32
from burnpy.backend.primitives import DType, Shape
from burnpy_cupy.gemm import multiply
from burnpy_cupy.kernels.elementwise_kernel import contiguous
from burnpy_cupy.kernels.launch import Launch, launcher
from burnpy_cupy.kernels.matmul import CuPyMatmul
from burnpy_cupy.kernels.recurrent_kernels import PERSISTENT_THREADS, arrays_of
from burnpy_cupy.runtime import empty

_MIN_CUBLAS_PRODUCTS = 1 << 19
"""The products of a block for an element, at least, for which cuBLAS, on all multiprocessors, takes less time."""
_MIN_UNITS = 4
"""The least numbers of the state that a block computes."""
_RUN, _VECTOR = 4, 16
"""The numbers and the most bytes that a thread reads at a time."""


class CuPyRecurrent(CuPyMatmul):
    """Recurrences over sequences; gates of 16-bit floats are computed in float32, and rounded when they are kept."""

    def lstm(self, x: Any, hidden: Any, cell: Any, weight: Any, lengths: Any, reverse: bool) -> tuple[Any, Any, Any]:
        if not hidden.size:
            return super().lstm(x, hidden, cell, weight, lengths, reverse)
        states, cells, gates = self._call(_lstm, self, x, hidden, cell, weight, lengths, reverse)
        return states, cells, gates

    def lstm_backward(
        self, grad: Any, grad_cells: Any, cell: Any, weight: Any, cells: Any, gates: Any, lengths: Any, reverse: bool
    ) -> tuple[Any, Any, Any]:
        if not cell.size:
            return super().lstm_backward(grad, grad_cells, cell, weight, cells, gates, lengths, reverse)
        given = (grad, grad_cells, cell, weight, cells, gates)
        grad_x, grad_hidden, grad_cell = self._call(_lstm_backward, self, given, lengths, reverse)
        return grad_x, grad_hidden, grad_cell

    def gru(self, x: Any, hidden: Any, weight: Any, bias: Any, lengths: Any, reverse: bool) -> tuple[Any, Any]:
        if not hidden.size:
            return super().gru(x, hidden, weight, bias, lengths, reverse)
        states, gates = self._call(_gru, self, x, hidden, weight, bias, lengths, reverse)
        return states, gates

    def gru_backward(
        self, grad: Any, hidden: Any, weight: Any, states: Any, gates: Any, lengths: Any, reverse: bool
    ) -> tuple[Any, Any, Any]:
        if not hidden.size:
            return super().gru_backward(grad, hidden, weight, states, gates, lengths, reverse)
        given = (grad, hidden, weight, states, gates)
        grad_x, grad_products, grad_hidden = self._call(_gru_backward, self, given, lengths, reverse)
        return grad_x, grad_products, grad_hidden

    def rnn(self, x: Any, hidden: Any, weight: Any, lengths: Any, reverse: bool, relu: bool) -> Any:
        if not hidden.size:
            return super().rnn(x, hidden, weight, lengths, reverse, relu)
        return self._call(_rnn, self, x, hidden, weight, lengths, reverse, relu)

    def rnn_backward(
        self, grad: Any, weight: Any, states: Any, lengths: Any, reverse: bool, relu: bool
    ) -> tuple[Any, Any]:
        if not states.size:
            return super().rnn_backward(grad, weight, states, lengths, reverse, relu)
        grad_x, grad_hidden = self._call(_rnn_backward, self, (grad, weight, states), lengths, reverse, relu)
        return grad_x, grad_hidden


class _Elements:
    """The elements of sequences in the order of reading, and the arguments that say where a kernel is."""

    def __init__(self, b: CuPyRecurrent, states: Any, lengths: Any, reverse: bool) -> None:
        self._b, self._reverse = b, reverse
        self._sequences, self._steps, self._size = states.shape
        self._lengths = empty(b.xp, (0,), int64) if lengths is None else contiguous(b.xp, lengths)

    def _in_order(self) -> Iterator[tuple[int, int]]:
        """Yield each element and the one that is read before it, -1 if there is none."""
        for k in range(self._steps):
            if self._reverse:
                yield self._steps - 1 - k, self._steps - k if k else -1
            else:
                yield k, k - 1

    def forward(
        self,
        name: str,
        weight: Any,
        product: Any,
        first: Any,
        given: tuple[Any, ...],
        results: tuple[Any, ...],
        *rest: Any,
    ) -> None:
        """Run the elements, each after the product of the state before it, which is ``first`` or in ``results``."""
        if first.data.ptr % _VECTOR or not self._launched(name, weight, product, given, results, *rest):
            for t, before in self._in_order():
                multiply(self._b.xp, first if before < 0 else results[0][:, before], weight, product)
                self._run(name, given, (t, before), *rest, *results)

    def backward(
        self, name: str, weight: Any, product: Any, given: tuple[Any, ...], results: tuple[Any, ...], *rest: Any
    ) -> None:
        """Run the elements from the last one on, each before the product of its gradient."""
        grad_products = results[1] if "gru" in name else results[0]
        if not self._launched(name, weight.T, product, given, results, *rest):
            for t, before in reversed([*self._in_order()]):
                self._run(name, given, (t, before), *rest, *results)
                multiply(self._b.xp, grad_products[:, t], weight.T, product)

    def _run(self, name: str, given: tuple[Any, ...], at: tuple[int, int], *rest: Any) -> None:
        """Launch the kernel of an element."""
        count = self._sequences * self._size
        self._b._kernels[name](*given, self._lengths, self._size, self._steps, *at, *rest, size=count)

    def _launched(
        self, name: str, weight: Any, product: Any, given: tuple[Any, ...], results: tuple[Any, ...], relu: bool = False
    ) -> bool:
        """Launch the persistent kernel; return False if there is none for these sizes."""
        shape, steps = (self._sequences, self._steps, self._size), [n // weight.itemsize for n in weight.strides]
        launch = _persistent_launch(
            self._b, name, weight.dtype, product.dtype, shape, weight.shape, (self._reverse, relu), tuple(steps)
        )
        if launch is None:
            return False
        lengths = self._lengths.data.ptr if self._lengths.size else 0
        arrived = self._b.xp.zeros(1, uint32)
        launch(*[x.data.ptr for x in given], lengths, *[x.data.ptr for x in (*results, weight, arrived)])
        return True


@lru_cache(256)
def _persistent_launch(
    b: CuPyRecurrent,
    name: str,
    dtype: DType,
    wide: DType,
    shape: Shape,
    weight: Shape,
    flags: tuple[bool, bool],
    strides: Shape,
) -> Launch | None:
    """Return the launch of a persistent kernel, or None where it does not fit, or cuBLAS is faster."""
    gpu, (sequences, steps, size), (depth, columns) = b.xp.cuda.Device(b.index).attributes, shape, weight
    units = _MIN_UNITS * -(-size // (_MIN_UNITS * gpu["MultiProcessorCount"]))  # of a block, one to a multiprocessor
    own = columns // size * units
    tile = 4 if own <= 4 else 8 if own <= 8 else 16
    shared = depth * -(-own // tile) * tile * dtype.itemsize + PERSISTENT_THREADS * 16 * wide.itemsize
    is_small = sequences * depth * own <= _MIN_CUBLAS_PRODUCTS and shared <= b._limits[1]
    if not gpu["CooperativeLaunch"] or size % _RUN or not is_small:
        return None
    constants = {
        "THREADS": PERSISTENT_THREADS,
        "GATES": columns // size,  #: numbers for each number of the state in a row of the product
        "UNITS": units,  #: numbers of the state that a block computes
        "ALIGNMENT": min(_VECTOR, _RUN * dtype.itemsize),
        "FORWARD": int(not name.endswith("backward")),
    }
    kernel = b._kernels.typed(f"{name}_persistent", constants, shared, T=dtype, F=wide)
    rest = struct.pack("=8q", sequences, steps, size, depth, *flags, *strides)
    given = f"{len(arrays_of(name)) + 2}Q"
    blocks, block = (-(-size // units), 1), (PERSISTENT_THREADS, 1)
    return launcher(b.xp, kernel, blocks, block, given, rest, shared, cooperative=True)


def _wide(dtype: DType) -> DType:
    return float32 if dtype.itemsize == 2 else dtype


def _contiguous(b: CuPyRecurrent, *arrays: Any) -> list[Any]:
    return [contiguous(b.xp, x) for x in arrays]


def _lstm(
    b: CuPyRecurrent, x: Any, hidden: Any, cell: Any, weight: Any, lengths: Any, reverse: bool
) -> tuple[Any, Any, Any]:
    x, hidden, cell = _contiguous(b, x, hidden, cell)
    states, cells = (empty(b.xp, (*x.shape[:2], hidden.shape[1]), x.dtype) for _ in range(2))
    gates = empty(b.xp, x.shape, x.dtype)
    product = empty(b.xp, (x.shape[0], x.shape[2]), _wide(x.dtype))
    elements, given = _Elements(b, states, lengths, reverse), (x, product, hidden, cell)
    elements.forward("burnpy_lstm", weight, product, hidden, given, (states, cells, gates))
    return states, cells, gates


def _lstm_backward(b: CuPyRecurrent, given: tuple[Any, ...], lengths: Any, reverse: bool) -> tuple[Any, Any, Any]:
    grad, grad_cells, cell, weight, cells, gates = _contiguous(b, *given)
    grad_x = empty(b.xp, gates.shape, gates.dtype)
    product, rest, rest_cells = (b.xp.zeros(cell.shape, _wide(cell.dtype)) for _ in range(3))
    elements, given = _Elements(b, cells, lengths, reverse), (grad, grad_cells, product, cell, cells, gates)
    elements.backward("burnpy_lstm_backward", weight, product, given, (grad_x, rest, rest_cells))
    return grad_x, _first(b, product, rest, cell.dtype), rest_cells.astype(cell.dtype, copy=False)


def _gru(b: CuPyRecurrent, x: Any, hidden: Any, weight: Any, bias: Any, lengths: Any, reverse: bool) -> tuple[Any, Any]:
    x, hidden, bias = _contiguous(b, x, hidden, bias)
    size = hidden.shape[1]
    states, gates = (empty(b.xp, (*x.shape[:2], n), x.dtype) for n in (size, 4 * size))
    product = empty(b.xp, (x.shape[0], x.shape[2]), _wide(x.dtype))
    elements, given = _Elements(b, states, lengths, reverse), (x, product, bias, hidden)
    elements.forward("burnpy_gru", weight, product, hidden, given, (states, gates))
    return states, gates


def _gru_backward(b: CuPyRecurrent, given: tuple[Any, ...], lengths: Any, reverse: bool) -> tuple[Any, Any, Any]:
    grad, hidden, weight, states, gates = _contiguous(b, *given)
    grad_x, grad_products = (empty(b.xp, (*states.shape[:2], weight.shape[1]), states.dtype) for _ in range(2))
    product, rest = (b.xp.zeros(hidden.shape, _wide(hidden.dtype)) for _ in range(2))
    elements, given = _Elements(b, states, lengths, reverse), (grad, product, hidden, states, gates)
    elements.backward("burnpy_gru_backward", weight, product, given, (grad_x, grad_products, rest))
    return grad_x, grad_products, _first(b, product, rest, hidden.dtype)


def _rnn(b: CuPyRecurrent, x: Any, hidden: Any, weight: Any, lengths: Any, reverse: bool, relu: bool) -> Any:
    x, hidden = _contiguous(b, x, hidden)
    states = empty(b.xp, x.shape, x.dtype)
    product = empty(b.xp, hidden.shape, _wide(x.dtype))
    elements = _Elements(b, states, lengths, reverse)
    elements.forward("burnpy_rnn", weight, product, hidden, (x, product, hidden), (states,), relu)
    return states


def _rnn_backward(b: CuPyRecurrent, given: tuple[Any, ...], lengths: Any, reverse: bool, relu: bool) -> tuple[Any, Any]:
    grad, weight, states = _contiguous(b, *given)
    grad_x = empty(b.xp, states.shape, states.dtype)
    product, rest = (b.xp.zeros((states.shape[0], states.shape[2]), _wide(states.dtype)) for _ in range(2))
    elements = _Elements(b, states, lengths, reverse)
    elements.backward("burnpy_rnn_backward", weight, product, (grad, product, states), (grad_x, rest), relu)
    return grad_x, _first(b, product, rest, states.dtype)


def _first(b: CuPyRecurrent, product: Any, rest: Any, dtype: DType) -> Any:
    """Return the gradient of the state before all elements: the last product and the part carried besides it."""
    return b.xp.add(product, rest, product).astype(dtype, copy=False)
