"""Type variables that the library's generic classes and functions share.

``B`` is any backend, ``I`` the inner backend of ``Autodiff[I]``, ``M`` any module. Generic code of your own can
import them::

    from burnpy.typevars import B

    def scale(x: Tensor[B]) -> Tensor[B]: ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend
    from burnpy.nn.module import Module
    from burnpy.tensor.tensor import ComplexTensor, Tensor

B = TypeVar("B", bound="Backend")
B2 = TypeVar("B2", bound="Backend")
I = TypeVar("I", bound="Backend")  # noqa: E741  # the inner backend of `Autodiff[I]`, as the design names it
I_co = TypeVar("I_co", bound="Backend", covariant=True)
M = TypeVar("M", bound="Module[Any]")

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
V = TypeVar("V")
X = TypeVar("X", bound="Tensor[Any] | ComplexTensor[Any]")
