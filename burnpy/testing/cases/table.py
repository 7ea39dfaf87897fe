"""The table of cases: for each operation how to call it, and what it gives, computed by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from burnpy.backend.backend import operations
from burnpy.backend.dtypes import float32
from burnpy.backend.entries import Operation
from burnpy.backend.primitives import KindName
from burnpy.backend.schema import Algebra
from burnpy.testing.cases.samples import ByKind, Sample

Example: TypeAlias = tuple[Any, ...]
"""The arguments of one call, in the order of the operation's: samples for primitives, other things as they are."""
Reference: TypeAlias = Callable[..., Any]
"""The operation in NumPy: takes arrays (floats in float64) for primitives and returns an array, or a tuple of them."""

_KINDS: dict[str, tuple[KindName, ...]] = {
    "Float": ("float",),
    "Number": ("float", "int"),
    "Discrete": ("int", "bool"),
    "Value": ("float", "int", "bool"),
    "Int": ("int",),
    "Bool": ("bool",),
}


@dataclass(frozen=True)
class Row:
    """The cases of one operation."""

    operation: Operation
    reference: Reference
    examples: tuple[Example, ...]
    kinds: tuple[KindName, ...]  #: of the dtypes that it is run in
    int64_only: bool  #: among ints it takes int64 alone: it is an operation on indices
    gradients: bool  #: whether first and second derivatives are compared with differences
    fresh: bool  #: whether the result is memory of its own; views and identities are not
    consumes: range  #: the arguments of which it may reuse the memory: see `reuses`
    loose: float  #: by how much rounding errors may be larger than those of one operation

    def reuses(self, example: Example) -> range:
        """The arguments of which a call may reuse the memory: where it is told whether they are ``owned``, those."""
        told = bool(self.operation.arguments) and self.operation.arguments[-1].name == "owned"
        return range(0) if told and not example[-1] else self.consumes

    def smooth(self, example: Example) -> bool:
        """Whether derivatives are checked on an example."""
        narrow = any(isinstance(a, ByKind) and a.of_float is float32 for a in example)  # differences would be rounding
        return self.gradients and not narrow and all(a.smooth for a in flat(example) if isinstance(a, Sample))


ROWS: dict[str, Row] = {}


def row(
    name: str,
    reference: Reference,
    examples: Sequence[Example],
    *,
    kinds: tuple[KindName, ...] | None = None,
    int64_only: bool = False,
    gradients: bool | None = None,
    fresh: bool | None = None,
    consumes: range = range(0),
    loose: float = 1.0,
) -> None:
    """Enter the cases of an operation; what is left out follows from its declaration."""
    op = operations()[name]
    if kinds is None:
        arguments = [a.kind for a in op.arguments if a.kind not in (None, "Bool" if name == "where" else None)]
        kinds = _KINDS[arguments[0]] if arguments and arguments[0] else ("float", "int", "bool")
    smooth = op.algebra is not Algebra.NONDIFFERENTIABLE and any(op.float_results)
    ROWS[name] = Row(
        op,
        reference,
        tuple(examples),
        kinds,
        int64_only,
        smooth if gradients is None else gradients,
        op.algebra is not Algebra.STRUCTURAL if fresh is None else fresh,
        consumes,
        loose,
    )


def flat(example: Example) -> list[Any]:
    """The arguments, those in lists too."""
    found: list[Any] = []
    for a in example:
        found += a if isinstance(a, list) else [a]
    return found


def indices(dim: int, index: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """The key with which NumPy gathers or scatters along ``dim``."""
    grid: list[Any] = list(np.indices(index.shape))
    grid[dim] = index
    return tuple(grid)
