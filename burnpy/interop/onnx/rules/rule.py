"""The parts of rules: operands, the graph that they write, and conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

from burnpy.backend.dtypes import promote_types
from burnpy.backend.errors import ExportError
from burnpy.backend.primitives import DType


class Operand(NamedTuple):
    """A value of the graph: an argument of an operation, or what a node returns."""

    name: str
    shape: tuple[Any, ...]  #: ints, and for sizes that vary between calls objects without arithmetic
    dtype: DType


class Conditional(NamedTuple):
    """A rule of a derived operation that holds under a condition; the operation's default is exported otherwise."""

    write: str | Callable[..., Any]
    since: int = 0  #: the first opset that has the operators
    when: Callable[..., bool] | None = None  #: a function of all arguments; None for a rule that holds for all


def only(since: int = 0, when: Callable[..., bool] | None = None) -> Callable[[Callable[..., Any]], Conditional]:
    """Return a decorator that makes a function a rule with a condition."""
    return lambda write: Conditional(write, since, when)


class GraphWriter(Protocol):
    """The graph that is written; values are known by their names."""

    def node(self, kind: str, *inputs: Any, results: int = 1, **attributes: Any) -> Any:
        """Add a node, and return the name of its result, or a list of names; None is an absent input."""
        ...

    def constant(self, value: Any, dtype: Any) -> str:
        """Return the name of a constant; a size or number that varies between calls is computed from shapes."""
        ...

    def sizes(self, sizes: Sequence[Any]) -> str:
        """Return the name of a vector of int64 with these sizes."""
        ...

    def cast(self, x: Any, dtype: DType) -> str:
        """Return the name of an operand, or of a number, as one of this dtype."""
        ...

    def each(self, f: Callable[..., int], *sizes: Any) -> Any:
        """Return ``f(*sizes)``: an int if it is the same for all sizes, else a size that varies between calls."""
        ...

    def inside(self, x: Operand, sliced: bool = False) -> Operand:
        """Return an operand under a new name, as the input of a graph; with ``sliced``, a slice of its first dim."""
        ...

    def graph(self, name: str, inputs: Sequence[Operand], write: Callable[[], Sequence[Operand]]) -> Any:
        """Return a graph inside of this one, whose nodes ``write`` adds."""
        ...

    def body(self, recordings: Sequence[Any], inputs: Sequence[str]) -> list[Operand]:
        """Write the recordings of a loop's body or of a branch into the current graph, and return their outputs."""
        ...

    def error(self, why: str) -> ExportError:
        """Return the error that says why the model cannot be written."""
        ...


def common_dtype(*operands: Any) -> DType:
    """Return the dtype to which the primitives among operands promote."""
    dtypes = [operand.dtype for operand in operands if isinstance(operand, Operand)]
    return reduce(promote_types, dtypes)


def is_float(dtype: DType) -> bool:
    """Return whether a dtype is of floats; NumPy does not know bfloat16."""
    return dtype.kind in "fV"
