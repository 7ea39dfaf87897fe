"""Types of functions that compute on any backend, of which checkers infer what a lambda takes, and of derivatives.

A lambda is written before its arguments are known, so that nothing says which backend they are on; as a function of
tensors on any backend it, and its derivative, have a type all the same. Only `burnpy.func`'s overloads use these.
"""

# ruff: noqa: D102  # the class says what is called

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from burnpy.backend.backend import Backend
from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
A_co = TypeVar("A_co", covariant=True)


class OfOne(Protocol):
    """A function of one tensor."""

    def __call__(self, x: Tensor[B], /) -> Tensor[B]: ...


class OfOneWithAux(Protocol[A_co]):
    """A function of one tensor that returns something beside its output."""

    def __call__(self, x: Tensor[B], /) -> tuple[Tensor[B], A_co]: ...


class OfTwo(Protocol):
    """A function of two tensors."""

    def __call__(self, x: Tensor[B], y: Tensor[B], /) -> Tensor[B]: ...


class Derivative(Protocol):
    """Of a function of one tensor, or of a longer one by the first."""

    def __call__(self, x: Tensor[B], /, *args: Any, **kwargs: Any) -> Tensor[B]: ...


class DerivativeWithAux(Protocol[A_co]):
    """The same, and what the function returned beside its output."""

    def __call__(self, x: Tensor[B], /, *args: Any, **kwargs: Any) -> tuple[Tensor[B], A_co]: ...


class DerivativeByOne(Protocol):
    """Of a function of two tensors by one of them."""

    def __call__(self, x: Tensor[B], y: Tensor[B], /, *args: Any, **kwargs: Any) -> Tensor[B]: ...


class DerivativeByBoth(Protocol):
    """Of a function of two tensors by both."""

    def __call__(self, x: Tensor[B], y: Tensor[B], /, *args: Any, **kwargs: Any) -> tuple[Tensor[B], Tensor[B]]: ...


class ValueAndDerivative(Protocol):
    """A function of one tensor with its derivative."""

    def __call__(self, x: Tensor[B], /, *args: Any, **kwargs: Any) -> tuple[Tensor[B], Tensor[B]]: ...


class ValueAndDerivativeWithAux(Protocol[A_co]):
    """The same, and what the function returned beside its output."""

    def __call__(self, x: Tensor[B], /, *args: Any, **kwargs: Any) -> tuple[tuple[Tensor[B], A_co], Tensor[B]]: ...


class ValueAndDerivativeByOne(Protocol):
    """A function of two tensors with its derivative by one."""

    def __call__(self, x: Tensor[B], y: Tensor[B], /, *args: Any, **kwargs: Any) -> tuple[Tensor[B], Tensor[B]]: ...


class ValueAndDerivativeByBoth(Protocol):
    """A function of two tensors with its derivative by both."""

    def __call__(
        self, x: Tensor[B], y: Tensor[B], /, *args: Any, **kwargs: Any
    ) -> tuple[Tensor[B], tuple[Tensor[B], Tensor[B]]]: ...
