"""Protocols for functions of tensors on any backend, and for their derivatives.

Nothing in a lambda says which backend its arguments are on. With these protocols type checkers infer a type for it, as
a function of tensors on any backend, and for its derivative. Only the overloads of `burnpy.func` use them.
"""

# ruff: noqa: D102  # the docstring of the class documents ``__call__``

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

A_co = TypeVar("A_co", covariant=True)


class OfOne(Protocol):
    """A function of one tensor."""

    def __call__(self, x: Tensor[B], /) -> Tensor[B]: ...


class OfOneWithAux(Protocol[A_co]):
    """A function of one tensor that returns a pair (output, aux)."""

    def __call__(self, x: Tensor[B], /) -> tuple[Tensor[B], A_co]: ...


class OfTwo(Protocol):
    """A function of two tensors."""

    def __call__(self, x: Tensor[B], y: Tensor[B], /) -> Tensor[B]: ...


class Derivative(Protocol):
    """The derivative of a function with respect to its first argument, a tensor."""

    def __call__(self, x: Tensor[B], /, *args: Any, **kwargs: Any) -> Tensor[B]: ...


class DerivativeWithAux(Protocol[A_co]):
    """The derivative of a function with respect to its first argument, and the function's auxiliary data."""

    def __call__(self, x: Tensor[B], /, *args: Any, **kwargs: Any) -> tuple[Tensor[B], A_co]: ...


class DerivativeByOne(Protocol):
    """The derivative of a function of two tensors with respect to one of them."""

    def __call__(self, x: Tensor[B], y: Tensor[B], /, *args: Any, **kwargs: Any) -> Tensor[B]: ...


class DerivativeByBoth(Protocol):
    """The derivative of a function of two tensors with respect to both."""

    def __call__(self, x: Tensor[B], y: Tensor[B], /, *args: Any, **kwargs: Any) -> tuple[Tensor[B], Tensor[B]]: ...


class ValueAndDerivative(Protocol):
    """The value of a function and its derivative with respect to its first argument, a tensor."""

    def __call__(self, x: Tensor[B], /, *args: Any, **kwargs: Any) -> tuple[Tensor[B], Tensor[B]]: ...


class ValueAndDerivativeWithAux(Protocol[A_co]):
    """The value of a function, its auxiliary data, and its derivative with respect to its first argument."""

    def __call__(self, x: Tensor[B], /, *args: Any, **kwargs: Any) -> tuple[tuple[Tensor[B], A_co], Tensor[B]]: ...


class ValueAndDerivativeByOne(Protocol):
    """The value of a function of two tensors and its derivative with respect to one of them."""

    def __call__(self, x: Tensor[B], y: Tensor[B], /, *args: Any, **kwargs: Any) -> tuple[Tensor[B], Tensor[B]]: ...


class ValueAndDerivativeByBoth(Protocol):
    """The value of a function of two tensors and its derivative with respect to both."""

    def __call__(
        self, x: Tensor[B], y: Tensor[B], /, *args: Any, **kwargs: Any
    ) -> tuple[Tensor[B], tuple[Tensor[B], Tensor[B]]]: ...
