"""Generic aliases that know what they were given: ``Autodiff[NumPy].device()`` and ``Tensor[Train].zeros((2, 3))``.

An alias made by `typing` forwards attributes to its origin and forgets its arguments. `BoundAlias` rebinds every
classmethod to itself, so that the method finds the backend in ``cls.__args__``. No class is created at run time.
"""

from __future__ import annotations

from types import GenericAlias, MethodType
from typing import Any


class BoundAlias(GenericAlias):
    """``Origin[arguments]`` whose classmethods receive the alias, not the bare origin, as ``cls``."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if type(found) is MethodType and found.__self__ is super().__getattribute__("__origin__"):
            return MethodType(found.__func__, self)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """An instance of the origin; called with nothing, the alias gives its own arguments: ``Autodiff[NumPy]()``."""
        origin: Any = self.__origin__
        return origin(*(args or self.__args__), **kwargs)

    def __getitem__(self, item: Any) -> BoundAlias:
        origin: Any = self.__origin__
        return BoundAlias(origin, super().__getitem__(item).__args__)

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundAlias, (self.__origin__, self.__args__)


class Subscriptable:
    """A class of which ``Class[argument]`` is a `BoundAlias`. Put it before `typing.Generic` among the bases."""

    __slots__ = ()

    def __class_getitem__(cls, item: Any) -> Any:
        return BoundAlias(cls, item if type(item) is tuple else (item,))
