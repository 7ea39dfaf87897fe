"""`Executor`: what a backend offers plans beyond its operations: programs and products into memory of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from burnpy.backend.plans.recording import Node
from burnpy.backend.plans.source import Source
from burnpy.backend.primitives import DType, Key, Shape
from burnpy.backend.programs import Program


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

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[str], scratch: Sequence[str]) -> None:
        """Write its call.

        Args:
            source: the replay.
            arrays: the names of the inputs, C-contiguous, and of the memory for the results.
            numbers: the expressions of its numbers, Python floats.
            scratch: the names of the further memory.
        """
        ...


class Executor(Protocol):
    """The computations of a backend that plans may give memory."""

    def program(self, program: Program, rows: int, columns: int) -> Launch | None:
        """Return the launch of a program for so many rows and columns; None if the backend has no kernel for it."""
        ...

    def product(self, node: Node) -> Launch | None:
        """Return the launch of a product of C-contiguous arrays; None if an operation computes it as well."""
        ...

    def memory(self, size: int) -> Any:
        """Return memory of so many bytes."""
        ...

    def array(self, memory: Any, start: int, shape: Shape, dtype: DType) -> Any:
        """Return the array in a part of the memory, which begins at a multiple of 64 bytes."""
        ...

    def is_contiguous(self, x: Any) -> bool:
        """Return whether an array is C-contiguous."""
        ...

    def contiguous(self, x: Any) -> Any:
        """Return an array, or a copy of it, that is C-contiguous."""
        ...

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """Return new memory."""
        ...

    def add(self, x: Any, y: Any, out: Any) -> None:
        """Write a sum into memory."""
        ...

    def part(self, x: Any, key: Key) -> Any:
        """Return the part of an array that a key selects, as a view."""
        ...

    def view(self, node: Node, name: str) -> str | None:
        """Return an expression for a view that takes less time than the operation; None if there is none.

        Args:
            node: a node of a view.
            name: the name of the array.
        """
        ...

    def may_overwrite(self, x: Any) -> bool:
        """Return whether an array is memory of its own that can be written to as a result."""
        ...
