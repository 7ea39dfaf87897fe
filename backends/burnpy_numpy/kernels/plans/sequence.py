"""`CallSequence`: kernels, products and formulas of lists one after the other, as one call of compiled code.

A table of calls is made once, with the addresses of arrays that stay where they are. Arrays that differ each time are
arguments of the call, which come into their places in the table first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.plans.executor import Moved
from burnpy.backend.primitives import DType
from burnpy_numpy.kernels.compiler.entry import Entry, code_of
from burnpy_numpy.kernels.plans.sequence_text import (
    GEMM_32,
    GEMM_64,
    GEMV_32,
    GEMV_64,
    MOVED,
    NUMBER,
    PROGRAM,
    STAND_IN,
    STEPS,
    SUM_32,
    SUM_64,
    TEMPLATE,
    WORDS,
    ZEROS,
)
from burnpy_numpy.openblas import NO_TRANS, TRANS, Blas

_LONG = 1 << 12
"""The number of elements above which Python's lock is released."""

Place: TypeAlias = Any
"""The name of an array, the array itself, or a tuple of names of arrays whose objects make up a table."""
Numbers: TypeAlias = Sequence[tuple[str | float, DType]]
"""Numbers, or names of arrays of one element, with their dtypes."""


class KernelCall(NamedTuple):
    """One call of a sequence."""

    kind: int
    code: int  #: the address of the function
    arrays: Sequence[Place]
    sizes: Sequence[int]
    numbers: Numbers = ()
    table: Sequence[int] = ()  #: the sizes that a template gets as an array
    work: float = 0.0  #: the number of elements


def program_call(function: Any, arrays: Sequence[str], numbers: Numbers, sizes: Sequence[int]) -> KernelCall:
    """Return the call of a program's kernel; sizes are the begin, the end, the rows and the columns."""
    return KernelCall(PROGRAM, code_of(function), arrays, sizes, numbers, work=(sizes[1] - sizes[0]) * sizes[3])


def template_call(
    function: Any,
    arrays: Sequence[Place],
    table: Sequence[int],
    begin: int,
    end: int,
    work: float,
    numbers: Numbers = (),
) -> KernelCall:
    """Return the call of a template's kernel for a range of its blocks; if it takes numbers, they end its table."""
    return KernelCall(TEMPLATE, code_of(function), arrays, (begin, end, bool(numbers)), numbers, table, work)


def gemm_call(
    blas: Blas, dtype: DType, arrays: Sequence[str], sizes: tuple[int, int, int], transposed: tuple[bool, bool]
) -> KernelCall:
    """Return the call that writes the product of two matrices into a third.

    Args:
        blas: OpenBLAS's product of matrices.
        dtype: the dtype of all.
        arrays: their names.
        sizes: the rows and columns of the product, and the number of products that each element sums.
        transposed: whether each of the two is stored transposed.
    """
    rows, columns, inner = sizes
    left, right = transposed
    strides = rows if left else inner, inner if right else columns, columns
    kind = GEMM_32 if dtype == float32 else GEMM_64
    how = [TRANS if flag else NO_TRANS for flag in transposed]
    return KernelCall(kind, blas.address, arrays, (*how, *sizes, *strides), work=rows * columns * inner / 16)


def gemv_call(blas: Blas, dtype: DType, arrays: Sequence[str], sizes: tuple[int, int], transposed: bool) -> KernelCall:
    """Return the call that writes the product of a matrix of so many rows and columns and a vector into a vector."""
    kind = GEMV_32 if dtype == float32 else GEMV_64
    how = TRANS if transposed else NO_TRANS
    return KernelCall(kind, blas.address, arrays, (how, *sizes, sizes[1]), work=sizes[0] * sizes[1] / 16)


def zeros_call(name: str, size: int) -> KernelCall:
    """Return the call that fills so many bytes of an array with zeros."""
    return KernelCall(ZEROS, 0, (name,), (size,))


def sum_call(partial_sums: str, out: str, dtype: DType, shape: tuple[int, int]) -> KernelCall:
    """Return the call that adds up the rows of a matrix."""
    return KernelCall(SUM_32 if dtype == float32 else SUM_64, 0, (partial_sums, out), shape)


class CallSequence:
    """Calls that are made one after the other.

    Args:
        entry: the function of `sequence_entry`.
        calls: the calls.
        given: the names of the arrays that each run is given.
    """

    def __init__(self, entry: Entry, calls: Sequence[KernelCall], given: Sequence[str]) -> None:
        self._entry, self._calls = entry, calls
        self._argument = {name: k + 1 for k, name in enumerate(given)}  # the table is the first one
        self._releases = sum(call.work for call in calls) > _LONG

    def bind(self, space: Mapping[str, Any]) -> Callable[..., Any]:
        """Return the function that makes the calls, given arrays of the names ``given``, which are not checked.

        Args:
            space: the other arrays, by name.
        """
        words, kept = self._table(space, {})
        run = partial(self._entry, words)
        vars(run)["kept"] = kept  # the memory whose addresses the table has
        return run

    def bind_steps(self, space: Mapping[str, Any]) -> Callable[[Mapping[str, Moved]], None]:
        """Return the function that makes the calls in each of many steps, given where the arrays ``given`` are.

        Args:
            space: the other arrays, by name.
        """
        names = list(self._argument)
        stand_ins = np.zeros((len(names), STAND_IN), np.int64)
        start, size = stand_ins.ctypes.data, STAND_IN * 8
        words, kept = self._table(space, {name: start + k * size for k, name in enumerate(names)})
        words[MOVED] = len(names)

        def run(places: Mapping[str, Moved]) -> None:
            moved = [places[name] for name in names]
            starts = np.array([place.array.ctypes.data for place in moved], np.int64)
            sizes = np.array([place.size * place.array.itemsize for place in moved], np.int64)
            addresses = np.stack([place.positions for place in moved], 1) * sizes + starts
            words[STEPS] = len(addresses)
            self._entry(words, addresses, stand_ins)

        vars(run)["kept"] = kept
        return run

    def _table(self, space: Mapping[str, Any], stand_ins: Mapping[str, int]) -> tuple[Any, list[Any]]:
        """Return a table of the calls, and the memory whose addresses it has.

        Args:
            space: the arrays that stay where they are, by name.
            stand_ins: the addresses of the stand-ins of others, which are arguments if they have none.
        """
        kept: list[Any] = []
        patches: list[int] = []
        records: list[int] = []

        def memory(count: int, dtype: Any) -> tuple[Any, int]:
            made = np.zeros(max(count, 1), dtype)
            kept.append(made)
            return made, made.ctypes.data

        def table(places: Sequence[Place], more: int = 0) -> tuple[Any, int]:
            """Return the addresses of objects, those of arguments to come, with room for more."""
            slots, start = memory(len(places) + more, np.int64)
            for k, place in enumerate(places):
                if isinstance(place, tuple):
                    kept.append(table(place)[0])
                    slots[k] = id(kept[-1])
                elif isinstance(place, str) and place in stand_ins:
                    slots[k] = stand_ins[place]
                elif isinstance(place, str) and place in self._argument:
                    patches.extend((start + 8 * k, self._argument[place]))
                else:
                    kept.append(space[place] if isinstance(place, str) else place)
                    slots[k] = id(kept[-1])
            return slots, start

        for call in self._calls:
            values, place = memory(len(call.numbers), np.float64)
            for k, (name, dtype) in enumerate(call.numbers):
                if not isinstance(name, str):
                    values[k] = name
                    continue
                record = [NUMBER, place + 8 * k, table((name,))[1], int(dtype != float32)]
                records += record + [0] * (WORDS - len(record))
            if call.kind == TEMPLATE:
                begin, end, numbered = call.sizes
                slots, objects = table(call.arrays, numbered)
                if numbered:
                    slots[-1] = id(values)
                sizes, sizes_at = memory(len(call.table), np.int64)
                sizes[: len(call.table)] = call.table
                room = memory(len(slots), np.int64)[1]
                record = [call.kind, call.code, objects, room, sizes_at, len(slots), begin, end]
            else:
                record = [call.kind, call.code, table(call.arrays)[1], place, *call.sizes]
            records += record + [0] * (WORDS - len(record))
        head = [int(self._releases), len(patches) // 2, len(records) // WORDS, 1, 0, 0]
        return np.array([*head, *patches, *records], np.int64), kept
