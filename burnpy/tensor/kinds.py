"""What is said of a method that another kind of tensors has: how to get there."""

from __future__ import annotations

from typing import Any, NoReturn

from burnpy.backend.errors import KindError
from burnpy.backend.primitives import KindName
from burnpy.tensor.base import TensorBase

_ARTICLE = {"float": "a float", "int": "an int", "bool": "a bool"}


class MissingMethodError(KindError, AttributeError):
    """A method that a kind lacks and another has."""


class Lacking:
    """Stands for such a method: ``i.mean`` of an int tensor says ``i.float().mean()``.

    An attribute for each costs nothing, where a ``__getattr__`` would slow down every attribute of every tensor.
    """

    def __init__(self, name: str, owner: KindName, call: str) -> None:
        self.name, self.owner, self.call = name, owner, call

    def __get__(self, tensor: TensorBase[Any] | None, cls: type[TensorBase[Any]]) -> NoReturn:
        own = f" of dtype {tensor.dtype}" if tensor is not None else ""
        raise MissingMethodError(
            f"{self.name}{self.call} needs {_ARTICLE[self.owner]} tensor, and this is {_ARTICLE[cls.kind]} tensor"
            f"{own}; convert it first: x.{self.owner}().{self.name}{self.call}"
        )


def explain_missing_methods() -> None:
    """Give each kind an explanation of every public method that another one has and it has not."""
    methods: dict[KindName, dict[str, object]] = {kind: _methods(cls) for kind, cls in TensorBase.kinds.items()}
    for kind, cls in TensorBase.kinds.items():
        for owner, theirs in methods.items():
            for name in theirs.keys() - methods[kind].keys():
                setattr(cls, name, Lacking(name, owner, "" if isinstance(theirs[name], property) else "()"))


def _methods(cls: type) -> dict[str, object]:
    """The public attributes of a class, its factories included, inherited ones too."""
    return {name: value for base in cls.__mro__ for name, value in vars(base).items() if not name.startswith("_")}
