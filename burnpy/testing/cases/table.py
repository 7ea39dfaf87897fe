"""The table of cases: for each operation, the arguments of its calls, and a reference implementation in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from burnpy.backend.backend import operations
from burnpy.backend.dtypes import float32
from burnpy.backend.entries import Operation
from burnpy.backend.operations.optimizer import Step
from burnpy.backend.primitives import KindName
from burnpy.backend.schema import Algebra
from burnpy.testing.cases.samples import ByKind, Sample

Example: TypeAlias = tuple[Any, ...]
"""The arguments of one call, in the operation's order: samples for primitives, other values unchanged."""
Reference: TypeAlias = Callable[..., Any]
"""The operation in NumPy, a function of arrays (floats in float64) that returns an array or a tuple of arrays."""

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
    kinds: tuple[KindName, ...]  #: the kinds of the dtypes in which it is run
    int64_only: bool  #: int64 is the only int dtype in which it is run, since its arguments are indices
    gradients: bool  #: whether first and second derivatives are compared with differences
    fresh: bool  #: whether the result is newly allocated, unlike a view or an argument
    consumes: range  #: the positions of the arguments whose memory it may reuse, see `reuses`; of lists, all members
    loose: float  #: the factor by which rounding errors may exceed those of one operation

    def reuses(self, example: Example) -> range:
        """Return the arguments whose memory a call may reuse: none of an optimizer's `Step` that is not ``owned``."""
        steps = [a for a in example if isinstance(a, Step)]
        return range(0) if steps and not steps[0].owned else self.consumes

    def flat_results(self, results: Any) -> list[tuple[int, Any]]:
        """Return each primitive among the results of a call, with the position of its result."""
        columns = results if isinstance(results, tuple) else (results,)
        return [(k, x) for k, column in enumerate(columns) for x in (column if self.operation.lists else (column,))]

    def smooth(self, example: Example) -> bool:
        """Return whether derivatives are checked on an example."""
        # Differences in float32 would be mostly rounding error.
        narrow = any(isinstance(a, ByKind) and a.of_float is float32 for a in example)
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
    """Add the cases of an operation to the table; arguments that are None are derived from its declaration."""
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
    """Return the arguments, with the members of lists in place of the lists."""
    members: list[Any] = []
    for a in example:
        members += a if isinstance(a, list) else [a]
    return members


def indices(dim: int, index: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Return the key with which NumPy gathers or scatters along ``dim``."""
    grid: list[Any] = list(np.indices(index.shape))
    grid[dim] = index
    return tuple(grid)
