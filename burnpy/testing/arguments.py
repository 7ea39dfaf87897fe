"""The arguments of the examples in every dtype and layout, as arrays and as primitives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.autodiff import Forward
from burnpy.backend.dtypes import (
    COMPLEXES,
    FLOATS,
    INTS,
    complex_dtype,
    dtype_of,
    float32,
    is_inexact,
    kind_of,
    part_dtype,
    promote_types,
)
from burnpy.testing.cases import ROWS, Row
from burnpy.testing.cases.samples import CASE, LAYOUTS, ByDType, ByKind, Sample, arranged, laid_out

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType

ALL_DTYPES = (*FLOATS, *INTS, "bool", *COMPLEXES)


class Arguments:
    """The arguments of one example in a dtype and a layout, as NumPy arrays and as primitives of a device."""

    def __init__(self, row: Row, example: str, dtype: DType, layout: str) -> None:
        self.row, self.example, self.dtype, self.layout = row, example, dtype, layout
        self.given = [_arranged(a, layout) for a in _resolved_arguments(row.operation.name, example, dtype)]
        self.where = f"{row.operation.name} ({example}), {dtype}, {layout}"

    def primitives(self, device: Any, tracked: bool) -> list[Any]:
        """Return the arguments as primitives of ``device``; floats as leaves, or with a tangent, if ``tracked``."""

        def primitive(a: Any) -> Any:
            if isinstance(a, list):
                return [primitive(member) for member in a]
            if not isinstance(a, np.ndarray):
                return a
            if not is_inexact(a.dtype):
                return laid_out(device.discrete, a, self.layout)
            x = laid_out(device, a, self.layout)
            if tracked and isinstance(device, Forward):
                return device.dual(x.value, device.inner.full(x.shape, 1.0, x.dtype))
            return device.require_grad(x) if tracked else x

        return [primitive(a) for a in self.given]

    @property
    def expected(self) -> tuple[Any, ...]:
        """Return the results of the reference, in the expected dtypes; read-only, as they are kept for the process."""
        key = (self.row.operation.name, self.example, self.dtype, self.layout == "expanded")
        if key not in _EXPECTED:
            with np.errstate(all="ignore"):
                returned = self.row.reference(*map(_to_float64, self.given))
                flat = [(k, np.asarray(r)) for k, r in self.row.flat_results(returned)]
                _EXPECTED[key] = tuple(r.astype(self._dtype(k, r.dtype)) for k, r in flat)
            for r in _EXPECTED[key]:
                r.flags.writeable = False
        return _EXPECTED[key]

    def _dtype(self, k: int, reference: DType) -> DType:
        op = self.row.operation
        for a, value in zip(op.arguments, self.given, strict=False):
            if a.name == "dtype":
                return value  # type: ignore[no-any-return]  # an argument of that name is a dtype
        if op.elementwise and op.results[k] == "Int":
            return self.dtype
        if op.results[k] in ("Bool", "Int"):
            return np.dtype(np.bool_ if op.results[k] == "Bool" else np.int64)
        if self.row.widened:
            return promote_types(self.dtype, float32)
        if op.results[k] in ("Float", "Complex") and is_inexact(self.dtype):
            return part_dtype(self.dtype) if op.results[k] == "Float" else complex_dtype(self.dtype)
        return self.dtype if is_inexact(self.dtype) else reference


def _to_float64(a: Any) -> Any:
    """Convert floats to float64 and complex numbers to complex128, in which the reference computes."""
    if isinstance(a, list):
        return [_to_float64(member) for member in a]
    if not isinstance(a, np.ndarray) or not is_inexact(a.dtype):
        return a
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


_EXPECTED: dict[tuple[Any, ...], tuple[Any, ...]] = {}
"""The expected results by operation, example, dtype and whether expanded: the other layouts have the same values."""


@lru_cache(maxsize=256)  # one operation's examples, for every layout
def _resolved_arguments(name: str, example: str, dtype: DType) -> list[Any]:
    """Return the arguments of an example as contiguous arrays, and placeholders as their values for the dtype."""
    return [_resolved(a, dtype, seed) for seed, a in enumerate(ROWS[name].examples[example])]


def _resolved(a: Any, dtype: DType, seed: int) -> Any:
    if isinstance(a, Sample):
        return a.array(dtype, seed)
    if isinstance(a, (ByKind, ByDType)):
        return a.of(dtype)
    if isinstance(a, list):
        return [_resolved(member, dtype, 10 * seed + k) for k, member in enumerate(a)]
    return dtype if a is CASE else a


def _arranged(a: Any, layout: str) -> Any:
    """Return copies of arrays as they are in a layout: a backend that writes into its argument spoils no other case."""
    if isinstance(a, list):
        return [_arranged(member, layout) for member in a]
    return arranged(a.copy(), layout) if isinstance(a, np.ndarray) else a


@lru_cache(maxsize=256)  # a test of values asks for one operation's examples several times: by level, tracked or not
def arguments_of(name: str, example: str, dtype: DType, layout: str) -> Arguments:
    """Return the arguments of an example of an operation, with the result of the reference."""
    return Arguments(ROWS[name], example, dtype, layout)


def calls(name: str, dtypes: Iterable[str] = ALL_DTYPES, layouts: Iterable[str] = LAYOUTS) -> Iterator[Arguments]:
    """Yield the arguments of all examples of an operation, in those of the dtypes in which it is run."""
    row = ROWS[name]
    for dtype in map(dtype_of, dtypes):
        if fits(row, dtype):
            yield from (arguments_of(name, example, dtype, layout) for layout in layouts for example in row.examples)


def fits(row: Row, dtype: DType) -> bool:
    """Return whether a row is run in a dtype."""
    if row.int64_only:
        return dtype.name == "int64"
    if dtype.itemsize == 2 and "Complex" in row.operation.results:
        return False  # complex numbers have parts of 32 or 64 bits
    return kind_of(dtype) in row.kinds
