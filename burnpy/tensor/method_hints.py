"""What is said of a method that another kind of tensors has, or PyTorch's tensors have: how to get there."""

from __future__ import annotations

from typing import Any, NoReturn

from burnpy.backend.errors import KindError, MissingNameError
from burnpy.backend.primitives import KindName
from burnpy.hints import numpy_names, torch_names
from burnpy.tensor.base import Missing, TensorBase

_ARTICLE = {"float": "a float", "int": "an int", "bool": "a bool"}


class MissingMethodError(KindError, MissingNameError):
    """A method that a kind lacks and another has."""


class Lacking(Missing):
    """Stands for such a method: ``i.mean`` of an int tensor says ``i.float().mean()``."""

    __slots__ = ("call", "factory", "name", "owner")

    def __init__(self, name: str, owner: KindName, value: object) -> None:
        self.name, self.factory = name, isinstance(value, classmethod)
        self.owner: KindName = owner
        self.call = "" if isinstance(value, property) else "()"

    def __get__(self, tensor: TensorBase[Any] | None, cls: type[TensorBase[Any]]) -> NoReturn:
        if self.factory:
            theirs = TensorBase.kinds[self.owner].__name__
            raise MissingMethodError(
                f"{cls.__name__} has no {self.name}(), which makes {_ARTICLE[self.owner]} tensor; "
                f"write {theirs}[NumPy].{self.name}(...)"
            )
        own = f" of dtype {tensor.dtype}" if tensor is not None else ""
        raise MissingMethodError(
            f"{self.name}{self.call} needs {_ARTICLE[self.owner]} tensor, and this is {_ARTICLE[cls.kind]} tensor"
            f"{own}; convert it first: x.{self.owner}().{self.name}{self.call}"
        )


class Elsewhere(Missing):
    """Stands for an attribute that PyTorch's or NumPy's tensors have, and says what to write instead."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: object, cls: type) -> NoReturn:
        from burnpy.hints.missing import of_tensor

        raise of_tensor(cls.__name__, self.name)

    def __set__(self, tensor: object, value: object) -> NoReturn:
        self.__get__(tensor, type(tensor))


def explain_missing_methods() -> None:
    """Give each kind an explanation of every public method that another one has and it has not, and to all of them one
    of every name that PyTorch or NumPy has.
    """
    methods: dict[KindName, dict[str, object]] = {kind: _methods(cls) for kind, cls in TensorBase.kinds.items()}
    for kind, cls in TensorBase.kinds.items():
        for owner, theirs in methods.items():
            for name in theirs.keys() - methods[kind].keys():
                setattr(cls, name, Lacking(name, owner, theirs[name]))
    own = vars(TensorBase)
    for name in {*torch_names.TENSOR.split(), *torch_names.TORCH.split(), *numpy_names.NAMES}:
        if name not in own:
            setattr(TensorBase, name, Elsewhere(name))  # what a kind has comes before it


def _methods(cls: type) -> dict[str, object]:
    """The public attributes of a class, its factories included, inherited ones too."""
    return {name: value for base in cls.__mro__ for name, value in vars(base).items() if not name.startswith("_")}
