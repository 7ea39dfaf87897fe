"""Generic aliases that keep their type arguments: ``Autodiff[NumPy].device()`` and ``Tensor[Train].zeros((2, 3))``.

An alias of `typing` forwards attributes to its origin and loses its arguments. `BoundAlias` rebinds every classmethod
to the alias, so that the method finds the backend in ``cls.__args__``. No class is created at run time.
"""

from __future__ import annotations

from types import GenericAlias, MethodType
from typing import Any


class BoundAlias(GenericAlias):
    """``Origin[arguments]`` whose classmethods receive the alias, not the bare origin, as ``cls``."""

    def __getattribute__(self, name: str) -> Any:
        attribute = super().__getattribute__(name)
        if type(attribute) is MethodType and attribute.__self__ is super().__getattribute__("__origin__"):
            return MethodType(attribute.__func__, self)
        return attribute

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Create an instance of the origin, by default from the alias's own arguments: ``Autodiff[NumPy]()``."""
        origin: Any = self.__origin__
        return origin(*(args or self.__args__), **kwargs)

    def __getitem__(self, item: Any) -> BoundAlias:
        origin: Any = self.__origin__
        return BoundAlias(origin, super().__getitem__(item).__args__)

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundAlias, (self.__origin__, self.__args__)


class Subscriptable:
    """A base class that makes ``Class[argument]`` a `BoundAlias`. List it before `typing.Generic` among the bases."""

    __slots__ = ()

    def __class_getitem__(cls, item: Any) -> Any:
        return BoundAlias(cls, item if type(item) is tuple else (item,))
