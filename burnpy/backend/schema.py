"""The schema: one entry for each operation, read from its declaration on `Backend`.

An operation is declared once, as a method whose annotations use the words of `burnpy.backend.primitives` and whose
decorator, `required` or `derived`, says who must write it and what its algebra is. Everything generic over operations
(Autodiff, Forward, the conformance suite, the reference page, the completeness tests) reads this table. Its entries
are made, by `burnpy.backend.entries`, when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Algebra(Enum):
    """What the derivative of an operation looks like; it decides which rule is written for it."""

    POINTWISE = "pointwise"  #: each element of the result depends on the same element of the arguments
    LINEAR = "linear"  #: linear in its float arguments together
    BILINEAR = "bilinear"  #: linear in each of two float arguments
    STRUCTURAL = "structural"  #: linear, and only moves, repeats or picks elements
    GENERAL = "general"  #: none of the above
    NONDIFFERENTIABLE = "nondifferentiable"  #: the result carries no gradient


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


def declarations(cls: type) -> Mapping[str, Callable[..., Any]]:
    """The declared operations among the attributes of ``cls``, by name, in the order of their declaration."""
    found: dict[str, Callable[..., Any]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if hasattr(value, "__operation__"):
                found[name] = value
    return MappingProxyType(found)


def missing(cls: type, declared: Mapping[str, Callable[..., Any]]) -> list[str]:
    """The required operations that ``cls`` does not write.

    They are looked up as they stand in the classes: asked for as attributes, those that `Autodiff` makes at their
    first use would all be made here.
    """
    found = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    return [n for n, f in declared.items() if f.__operation__[2] and found[n] is f]  # type: ignore[attr-defined]  # as above
