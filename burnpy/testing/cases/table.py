"""The table of examples: for each operation, the arguments of its calls, and a reference implementation in NumPy.

The conformance suite, the tests of the backends, of the tensors' methods and of agreement with PyTorch, and the checks
of first and second derivatives all call operations with these arguments. `row` adds the examples of one operation;
`pointwise` makes them for an operation of elements, from its declaration and the domains of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    """The examples of one operation."""

    operation: Operation
    reference: Reference
    examples: Mapping[str, Example]  #: by a name, such as "0-d" or "y broadcast"
    kinds: tuple[KindName, ...]  #: the kinds of the dtypes in which it is run
    int64_only: bool  #: int64 is the only int dtype in which it is run, since its arguments are indices
    gradients: bool  #: whether first and second derivatives are compared with differences
    fresh: bool  #: whether the result is newly allocated, unlike a view or an argument
    loose: float  #: the factor by which rounding errors may exceed those of one operation
    up_to_sign: bool = False  #: whether only the magnitudes of results are compared, as of eigenvectors
    widened: bool = False  #: whether results of 16-bit floats are float32

    @property
    def consumes(self) -> tuple[int, ...]:
        """The positions of the arguments whose memory the operation may reuse; for lists, the memory of all members."""
        consumes = self.operation.consumes
        return tuple(k for k, argument in enumerate(self.operation.arguments) if argument.name in consumes)

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
    examples: Sequence[Example] | Mapping[str, Example],
    *,
    kinds: tuple[KindName, ...] | None = None,
    int64_only: bool = False,
    gradients: bool | None = None,
    fresh: bool | None = None,
    loose: float = 1.0,
    up_to_sign: bool = False,
    widened: bool = False,
) -> None:
    """Add the examples of an operation to the table.

    Args:
        name: the operation, as it is declared in `burnpy.backend.operations`.
        reference: the same computation in NumPy.
        examples: its arguments, by name; a sequence is named after the shapes.
        kinds: the kinds of the dtypes in which it is run; None for those of its first argument.
        int64_only: whether int64 is the only int dtype in which it is run.
        gradients: whether derivatives are checked; None for those of a differentiable operation.
        fresh: whether the result is always newly allocated; None for all operations but views.
        loose: the factor by which rounding errors may exceed those of one operation.
        up_to_sign: whether only magnitudes are compared, of results whose signs are arbitrary.
        widened: whether results of 16-bit floats are float32.
    """
    op = operations()[name]
    if kinds is None:
        given = [a.kind for a in op.arguments if a.kind]
        kinds = _KINDS[next((kind for kind in given if kind != "Bool"), given[0] if given else "Value")]
    smooth = op.algebra is not Algebra.NONDIFFERENTIABLE and any(op.float_results)
    ROWS[name] = Row(
        op,
        reference,
        examples if isinstance(examples, Mapping) else named(examples),
        kinds,
        int64_only,
        smooth if gradients is None else gradients,
        op.view is None if fresh is None else fresh,
        loose,
        up_to_sign,
        widened,
    )


def named(examples: Sequence[Example]) -> dict[str, Example]:
    """Return the examples by names that are made of shapes and values.

    >>> from burnpy.testing.cases.samples import x
    >>> list(named([(x(2, 3), (0,), True), (x(), (), False)]))
    ['(2, 3), (0,), True', '(), (), False']
    """
    table: dict[str, Example] = {}
    for example in examples:
        name = ", ".join(map(_described, example)) or "no arguments"
        same = sum(other.partition(" #")[0] == name for other in table)
        table[f"{name} #{same + 1}" if same else name] = example
    return table


def _described(argument: Any) -> str:
    """Describe an argument in a few words; samples do so themselves."""
    if isinstance(argument, list):
        return f"[{', '.join(map(_described, argument))}]"
    return str(argument)


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
