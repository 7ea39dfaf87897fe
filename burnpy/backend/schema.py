"""The schema: one entry for each operation, read from its declaration on `Backend`.

An operation is declared once, as a method whose annotations use the aliases of `burnpy.backend.primitives` and whose
decorator, `required` or `derived`, states its algebra and whether a backend must implement it. Everything generic over
operations (Autodiff, Forward, the conformance suite, the reference page, the completeness tests) reads this table.
`burnpy.backend.entries` parses its entries on first access.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Algebra(Enum):
    """The form of an operation's derivative, which determines the kind of rule that defines it."""

    POINTWISE = "pointwise"  #: each element of the result depends on the same element of the arguments
    LINEAR = "linear"  #: linear in its float arguments together
    BILINEAR = "bilinear"  #: linear in each of two float arguments
    STRUCTURAL = "structural"  #: linear, and only moves, repeats or picks elements
    GENERAL = "general"  #: none of the above
    NONDIFFERENTIABLE = "nondifferentiable"  #: the result carries no gradient


def required(algebra: Algebra, *, elementwise: bool = False) -> Callable[[F], F]:
    """Declare an operation that every backend must implement. Pointwise operations are elementwise too."""
    return _mark(algebra, elementwise, True)


def derived(algebra: Algebra, *, elementwise: bool = False) -> Callable[[F], F]:
    """Declare an operation whose body is a default composed of other operations, which a backend may override."""
    return _mark(algebra, elementwise, False)


def _mark(algebra: Algebra, elementwise: bool, is_required: bool) -> Callable[[F], F]:
    def mark(function: F) -> F:
        mark = (algebra, elementwise or algebra is Algebra.POINTWISE, is_required)
        function.__operation__ = mark  # type: ignore[attr-defined]  # functions take attributes
        return function

    return mark


def declarations(cls: type) -> Mapping[str, Callable[..., Any]]:
    """Return the declared operations among the attributes of ``cls``, by name, in the order of their declaration."""
    declared: dict[str, Callable[..., Any]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if hasattr(value, "__operation__"):
                declared[name] = value
    return MappingProxyType(declared)


def missing(cls: type, declared: Mapping[str, Callable[..., Any]]) -> list[str]:
    """Return the required operations that ``cls`` does not implement.

    They are looked up in the ``__dict__`` of each class: attribute access would generate all methods that `Autodiff`
    generates on first use.
    """
    attributes = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    return [n for n, f in declared.items() if f.__operation__[2] and attributes[n] is f]  # type: ignore[attr-defined]  # as above
