"""The schema: one entry for each operation, read from its declaration on `Backend`.

An operation is declared once, as a method whose annotations use the words of `burnpy.backend.primitives` and whose
decorator, `required` or `derived`, says who must write it and what its algebra is. Everything generic over operations
(Autodiff, Forward, the conformance suite, the reference page, the completeness tests) reads this table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

EMPTY: Any = Parameter.empty


class Algebra(Enum):
    """What the derivative of an operation looks like; it decides which rule is written for it."""

    POINTWISE = "pointwise"  #: each element of the result depends on the same element of the arguments
    LINEAR = "linear"  #: linear in its float arguments together
    BILINEAR = "bilinear"  #: linear in each of two float arguments
    STRUCTURAL = "structural"  #: linear, and only moves, repeats or picks elements
    GENERAL = "general"  #: none of the above
    NONDIFFERENTIABLE = "nondifferentiable"  #: the result carries no gradient


class Argument(NamedTuple):
    """One parameter of an operation."""

    name: str
    kind: str | None  #: "Float", "Int", … as in `burnpy.backend.primitives`; None for a plain Python value
    sequence: bool  #: a sequence of primitives (the ``xs`` of ``cat``)
    scalar: bool  #: a Python number may stand here too
    default: Any = EMPTY

    @property
    def floats(self) -> bool:
        """Whether a decorator sees float primitives here (ints and bools go to ``discrete`` instead)."""
        return self.kind in ("Float", "Number", "Value")


class Operation(NamedTuple):
    """One operation of the schema."""

    name: str
    arguments: tuple[Argument, ...]
    results: tuple[str | None, ...]  #: the kind of each result; None for a plain Python value
    algebra: Algebra
    elementwise: bool  #: float arguments broadcast, and a result of one shape and dtype has theirs
    required: bool
    function: Callable[..., Any]  #: the declaration; for a derived operation also its default

    @property
    def float_arguments(self) -> tuple[Argument, ...]:
        """The arguments through which a gradient can flow."""
        return tuple(argument for argument in self.arguments if argument.floats)

    @property
    def float_results(self) -> tuple[bool, ...]:
        """For each result, whether a decorator sees a float primitive there."""
        return tuple(kind in ("Float", "Number", "Value") for kind in self.results)

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (self.function.__doc__ or "").strip().split("\n")[0]


def required(algebra: Algebra, *, elementwise: bool = False) -> Callable[[F], F]:
    """Declare an operation that every backend must write itself. What is pointwise is elementwise too."""
    return _mark(algebra, elementwise, True)


def derived(algebra: Algebra, *, elementwise: bool = False) -> Callable[[F], F]:
    """Declare an operation whose body is a default made of other operations; a backend may do better."""
    return _mark(algebra, elementwise, False)


def _mark(algebra: Algebra, elementwise: bool, is_required: bool) -> Callable[[F], F]:
    def mark(function: F) -> F:
        mark = (algebra, elementwise or algebra is Algebra.POINTWISE, is_required)
        function.__operation__ = mark  # type: ignore[attr-defined]  # functions take attributes
        return function

    return mark


_KIND = re.compile(r"\b(Float|Int|Bool|Number|Discrete|Value)\b")


@cache
def operation(function: Callable[..., Any]) -> Operation:
    """The schema's entry for a declared method of `Backend`: ``operation(Backend.exp)``."""
    algebra, elementwise, is_required = function.__operation__  # type: ignore[attr-defined]  # set by required or derived
    parameters = signature(function).parameters.values()
    arguments = tuple(_argument(p.name, str(p.annotation), p.default) for p in parameters if p.name != "self")
    results = _results(str(function.__annotations__["return"]))
    return Operation(function.__name__, arguments, results, algebra, elementwise, is_required, function)


def _argument(name: str, annotation: str, default: Any) -> Argument:
    found = _KIND.search(annotation)
    kind = found.group(1) if found else None
    return Argument(
        name, kind, annotation.startswith("Sequence["), kind is not None and "Scalar" in annotation, default
    )


def _results(annotation: str) -> tuple[str | None, ...]:
    kinds = tuple(_KIND.findall(annotation))
    return kinds or (None,)


def declarations(cls: type) -> Mapping[str, Callable[..., Any]]:
    """The declared operations among the attributes of ``cls``, by name, in the order of their declaration."""
    found: dict[str, Callable[..., Any]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if hasattr(value, "__operation__"):
                found[name] = value
    return MappingProxyType(found)


def missing(cls: type, declared: Mapping[str, Callable[..., Any]]) -> list[str]:
    """The required operations that ``cls`` does not write."""
    return [n for n, f in declared.items() if f.__operation__[2] and getattr(cls, n) is f]  # type: ignore[attr-defined]  # as above
