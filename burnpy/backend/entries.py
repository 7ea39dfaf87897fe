"""The entries of the schema, parsed from the declarations of the operations."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from inspect import Parameter, signature
from typing import Any, NamedTuple

from burnpy.backend.schema import Algebra

EMPTY: Any = Parameter.empty


class Argument(NamedTuple):
    """One parameter of an operation."""

    name: str
    kind: str | None  #: "Float", "Int", … as in `burnpy.backend.primitives`; None for a plain Python value
    sequence: bool  #: a sequence of primitives (the ``xs`` of ``cat``)
    scalar: bool  #: a Python number is accepted too
    default: Any = EMPTY

    @property
    def floats(self) -> bool:
        """Whether a decorator receives float primitives here (ints and bools go to ``discrete`` instead)."""
        return self.kind in ("Float", "Number", "Value")


class Operation(NamedTuple):
    """One operation of the schema."""

    name: str
    arguments: tuple[Argument, ...]
    results: tuple[str | None, ...]  #: the kind of each result; None for a plain Python value
    algebra: Algebra
    elementwise: bool  #: float arguments broadcast; if they have one shape and dtype, the result has it too
    required: bool
    function: Callable[..., Any]  #: the declaration; for a derived operation also its default

    @property
    def float_arguments(self) -> tuple[Argument, ...]:
        """The arguments through which a gradient can flow."""
        return tuple(argument for argument in self.arguments if argument.floats)

    @property
    def float_results(self) -> tuple[bool, ...]:
        """For each result, whether a decorator receives a float primitive."""
        return tuple(kind in ("Float", "Number", "Value") for kind in self.results)

    @property
    def lists(self) -> bool:
        """Whether each result is a list of primitives, as of the operations that update all parameters of a model."""
        return "list[" in str(self.function.__annotations__["return"])

    @property
    def summary(self) -> str:
        """The first line of the operation's docstring."""
        return (self.function.__doc__ or "").strip().split("\n")[0]


_KIND = re.compile(r"\b(Float|Int|Bool|Number|Discrete|Value)\b")


@cache
def operation(function: Callable[..., Any]) -> Operation:
    """Return the schema's entry for a declared method of `Backend`: ``operation(Backend.exp)``."""
    algebra, elementwise, is_required = function.__operation__  # type: ignore[attr-defined]  # set by required or derived
    parameters = signature(function).parameters.values()
    arguments = tuple(_argument(p.name, str(p.annotation), p.default) for p in parameters if p.name != "self")
    results = _results(str(function.__annotations__["return"]))
    return Operation(function.__name__, arguments, results, algebra, elementwise, is_required, function)


def _argument(name: str, annotation: str, default: Any) -> Argument:
    match = _KIND.search(annotation)
    kind = match.group(1) if match else None
    return Argument(
        name, kind, annotation.startswith("Sequence["), kind is not None and "Scalar" in annotation, default
    )


def _results(annotation: str) -> tuple[str | None, ...]:
    kinds = tuple(_KIND.findall(annotation))
    return kinds or (None,)
