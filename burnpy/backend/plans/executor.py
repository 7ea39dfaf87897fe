"""`Executor`: what a backend offers plans beyond its operations: programs and products into memory of the plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from burnpy.backend.operations.programs import div_each, mul_each
from burnpy.backend.plans.recording import Node, Ref, refs_in
from burnpy.backend.plans.source import Source
from burnpy.backend.primitives import DType, Key, Shape
from burnpy.backend.programs import Program

if TYPE_CHECKING:
    from burnpy.backend.plans.group_program import Signature


class Launch(Protocol):
    """A computation into given memory, ready to be written into a replay."""

    @property
    def scratch(self) -> Sequence[tuple[Shape, DType]]:
        """The shapes and dtypes of further memory that it needs while it runs."""
        ...

    @property
    def in_place(self) -> bool:
        """True if a result may have the memory of an input of its shape."""
        ...

    def calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[Any] | None:
        """Return its calls of compiled code, for `Executor.joined`; None if Python has to make them.

        Args:
            arrays: the names of the inputs, C-contiguous, and of the memory for the results.
            numbers: its numbers.
            scratch: the names of the further memory.
        """
        ...

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Write it as statements of the replay, see `calls` for the other arguments."""
        ...


class NodeLaunch(Launch, Protocol):
    """The computation of one node."""

    @property
    def operands(self) -> Sequence[Ref]:
        """The arrays that it reads."""
        ...

    @property
    def numbers(self) -> Sequence[Ref]:
        """The values of one element that it reads as numbers."""
        ...

    @property
    def strided(self) -> bool:
        """True if it reads operands where they lie, and false if it needs them C-contiguous."""
        ...

    @property
    def repeated(self) -> Mapping[int, int]:
        """The operands whose elements are repeated until there are so many, by number."""
        ...

    def overwrites(self, number: int) -> Ref | None:
        """Return the operand whose memory a result may have; None if it must be new memory."""
        ...


class Computation:
    """A base class of launches: without scratch memory, and with results in new memory. See `NodeLaunch`."""

    scratch: Sequence[tuple[Shape, DType]] = ()
    in_place = False
    operands: Sequence[Ref] = ()
    numbers: Sequence[Ref] = ()
    strided = False
    repeated: Mapping[int, int] = MappingProxyType({})

    def overwrites(self, number: int) -> Ref | None:
        """Return None: a result needs new memory."""
        return None


class ListsComputation(Computation):
    """A formula of lists, such as the update of all parameters."""

    def __init__(self, node: Node) -> None:
        _, self.lists, self.given, *_ = node.args
        self.operands = [ref for members in self.lists for ref in members]
        self.numbers = refs_in(self.given)

    def overwrites(self, number: int) -> Ref | None:
        """Return the parameter, or the state, that a result replaces."""
        column, position = divmod(number, len(self.lists[0]))
        old: Sequence[Ref] = self.lists[column + 1 if column else 0]
        return old[position] if column + 1 < len(self.lists) else None


INTEGER_PRODUCTS = ("integer_matmul", "integer_conv")
"""The products of ints of 8 bits."""

INDEXED = {
    "cross_entropy": ("cross_entropy", ("full", "index"), (1,)),
    "cross_entropy_backward": ("cross_entropy_gradient", ("column", "full", "column", "index"), ()),
}
"""Operations with an index for each row, and their programs."""

_FORMULAS = {"foreach_mul": mul_each, "foreach_div": div_each}
"""Operations on lists by their formulas."""


def as_formula(node: Node) -> Node:
    """Return an operation on a list and a number as the formula that it is; other nodes as they are."""
    formula = _FORMULAS.get(node.name)
    if formula is None:
        return node
    xs, number = node.args
    return node.replacement("foreach", (formula, (xs,), (number,), (), False, None), (node.results,))


def lists_of(node: Node) -> list[Ref] | None:
    """Return the members of the lists of a formula; None if they are not of one dtype and equal shapes, or empty."""
    _, lists, numbers, _, _, skipped = node.args
    members = [ref for refs in lists for ref in refs]
    alike = all([ref.shape for ref in refs] == [ref.shape for ref in lists[0]] for refs in lists)
    plain = all(math.prod(x.shape) == 1 if x.__class__ is Ref else isinstance(x, (int, float)) for x in numbers)
    one = len({ref.dtype for ref in members}) == 1 and not any(0 in ref.shape for ref in members)
    return members if skipped is None and alike and plain and one else None


class Number(NamedTuple):
    """An array of one element whose value a launch takes."""

    name: str
    dtype: DType


class Moved(NamedTuple):
    """The places of an array in each of many steps: parts of another one."""

    array: Any  #: C-contiguous
    positions: Any  #: for each step the number of the part, a NumPy array of ints
    size: int = 0  #: the number of elements of a part


class Joined(Protocol):
    """Calls of compiled code, one after the other."""

    def bind(self, space: Mapping[str, Any]) -> Callable[..., Any]:
        """Return the function that makes them for the arrays that it is given, with others by name."""
        ...


@runtime_checkable
class JoinedSteps(Joined, Protocol):
    """Calls that compiled code can also make step by step."""

    def bind_steps(self, space: Mapping[str, Any]) -> Callable[[Mapping[str, Moved]], None]:
        """Return the function that makes them in each of many steps, for arrays that move from step to step."""
        ...


class Executor(Protocol):
    """The computations of a backend that plans may give memory.

    A backend's executor inherits this class, and what it does not have by itself: views by expressions, and kernels for
    groups after an operation and for programs of numbers.
    """

    adds_bias: ClassVar[bool]
    """True if `launch` has linear layers; otherwise they are products, and the bias joins what follows."""
    multiplies_pixels: ClassVar[bool]
    """True if convolutions of one image by windows of one element are products, and the bias joins what follows."""
    rounds: ClassVar[bool] = False
    """True if programs can also return values that they compute in float32 in 16 bits, as operands of products."""
    ints: ClassVar[bool] = False
    """True if programs can also have ints of 8 bits and int32: conversions to floats and back, and sums of products."""

    def convolves_pixels(self, node: Node) -> bool:
        """Return whether a convolution takes less time than the product, if its weight is the same in each replay."""
        return False

    def program(self, program: Program, rows: int, columns: int) -> Launch | None:
        """Return the launch of a program for this many rows and columns; None if the backend has no kernel for it."""
        ...

    def launch(self, node: Node, values: Mapping[int, Any], bounds: Mapping[int, tuple[int, int]]) -> NodeLaunch | None:
        """Return the launch of a node that is no part of a program; None if an operation computes it as well.

        Args:
            node: the node.
            values: the primitives that are the same in each replay, by the numbers of their values.
            bounds: the least and the largest possible element of values of ints that were checked, by number.
        """
        ...

    def unrolled(
        self, program: Program, operands: Sequence[Ref], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> NodeLaunch | None:
        """Return the launch of a program of numbers; None if the backend has no kernel for it.

        Args:
            program: the program, with an input for each element.
            operands: the arrays that it reads.
            inputs: for each input the number of its array, and the position of its element.
            outputs: likewise for each output and the arrays of results.
        """
        return None

    def finished(
        self, node: Node, signature: Signature, values: Mapping[int, Any], bounds: Mapping[int, tuple[int, int]]
    ) -> NodeLaunch | None:
        """Return the launch of a node with the group that follows it and reads its result; None if it has none.

        Args:
            node: the node.
            signature: the signature of a group with one result, of the shape of the node, and without numbers.
            values: the primitives that are the same in each replay, by the numbers of their values.
            bounds: see `launch`.
        """
        return None

    def activates(self, node: Node) -> bool:
        """Return whether `launch` can include relu in a normalization, or the gradient of relu in its gradients."""
        return False

    def joined(self, calls: Sequence[Any], given: Sequence[str]) -> Joined | None:
        """Return calls of launches as one; None if it cannot join them.

        Args:
            calls: the calls.
            given: the names of the arrays that each run is given.
        """
        ...

    def memory(self, size: int) -> Any:
        """Return memory of this many bytes."""
        ...

    def array(self, memory: Any, start: int, shape: Shape, dtype: DType) -> Any:
        """Return the array in a part of the memory, which begins at a multiple of 64 bytes."""
        return memory[start : start + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)

    def is_contiguous(self, x: Any) -> bool:
        """Return whether an array is C-contiguous."""
        ...

    def contiguous(self, x: Any) -> Any:
        """Return an array, or a copy of it, that is C-contiguous."""
        ...

    def number(self, x: Any) -> Any:
        """Return an array of one element, or a scalar of another class, as an array that launches can read."""
        return x

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """Return new memory."""
        ...

    def copy(self, x: Any, out: Any) -> None:
        """Write an array into memory."""
        ...

    def fill(self, out: Any, value: float, /) -> None:
        """Write a number into all of memory."""
        ...

    def add(self, x: Any, y: Any, out: Any) -> None:
        """Write a sum into memory."""
        ...

    def put(self, x: Any, owned: bool, dim: int, index: Any, src: Any) -> Any:
        """Compute `Backend.index_put`, in the memory of x if it is ``owned``."""
        ...

    def part(self, x: Any, key: Key) -> Any:
        """Return the part of an array that a key selects, as a view."""
        return x[(*key, ...)]

    def view(self, node: Node, name: str, contiguous: bool = False) -> str | None:
        """Return an expression for a view that takes less time than the operation; None if there is none.

        Args:
            node: a node of a view.
            name: the name of the array.
            contiguous: whether it is known to be C-contiguous.
        """
        return None

    def may_overwrite(self, x: Any) -> bool:
        """Return whether an array is memory of its own that can be written to as a result."""
        ...

    def overwrite(self, replay: Callable[..., Any], inputs: Sequence[Any], own: Set[int]) -> Any:
        """Return the outputs of a replay that overwrites those of its inputs whose positions are given."""
        return replay(*inputs, own)
