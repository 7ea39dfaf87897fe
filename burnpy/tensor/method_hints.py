"""Errors for methods that another kind of tensor, PyTorch or NumPy has, with the code to write instead."""

from __future__ import annotations

from typing import Any, NoReturn

from burnpy.backend.errors import KindError, MissingNameError
from burnpy.backend.primitives import KindName
from burnpy.hints import numpy_names, torch_names
from burnpy.tensor.base import Missing, TensorBase
from burnpy.tensor.lazy_methods import LazyMethod

_OWNERS: tuple[KindName, ...] = ("int", "bool", "float")
"""The kinds to convert to, the preferred last: a float becomes a mask, since .int() would round it towards 0."""
_ARTICLE = {"float": "a float", "int": "an int", "bool": "a bool"}


class MissingMethodError(KindError, MissingNameError):
    """The error for a method that a kind of tensor lacks and another one has."""


class Lacking(Missing):
    """A placeholder for a method of another kind: ``i.mean`` of an int tensor suggests ``i.float().mean()``."""

    __slots__ = ("name", "owner")

    def __init__(self, name: str, owner: KindName) -> None:
        self.name = name
        self.owner: KindName = owner

    def __get__(self, tensor: TensorBase[Any] | None, cls: type[TensorBase[Any]]) -> NoReturn:
        dtype = f" of dtype {tensor.dtype}" if tensor is not None else ""
        raise MissingMethodError(lambda: self._message(cls, dtype))

    def _message(self, cls: type[TensorBase[Any]], dtype: str) -> str:
        theirs = TensorBase.kinds[self.owner]
        value = next(vars(base)[self.name] for base in theirs.__mro__ if self.name in vars(base))
        if isinstance(value, LazyMethod):
            value = value.load()
        if isinstance(value, classmethod):
            return (
                f"{cls.__name__} has no {self.name}(), which makes {_ARTICLE[self.owner]} tensor; "
                f"write {theirs.__name__}[NumPy].{self.name}(...)"
            )
        call = "" if isinstance(value, property) else "()"
        return (
            f"{self.name}{call} needs {_ARTICLE[self.owner]} tensor, and this is {_ARTICLE[cls.kind]} tensor"
            f"{dtype}; convert it first: x.{self.owner}().{self.name}{call}"
        )


class Elsewhere(Missing):
    """A placeholder for an attribute that PyTorch or NumPy has, whose error suggests what to write instead."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: object, cls: type) -> NoReturn:
        from burnpy.hints.missing import of_tensor

        raise of_tensor(cls.__name__, self.name)

    def __set__(self, tensor: object, value: object) -> NoReturn:
        self.__get__(tensor, type(tensor))


def explain_missing_methods() -> None:
    """Add the placeholders to the tensor classes: `Lacking` for the public methods of other kinds that a kind lacks,
    and `Elsewhere` for the names that only PyTorch or NumPy has.
    """
    methods: dict[KindName, set[str]] = {kind: _public_names(cls) for kind, cls in TensorBase.kinds.items()}
    for kind, cls in TensorBase.kinds.items():
        for owner in _OWNERS:
            for name in methods[owner] - methods[kind]:
                setattr(cls, name, Lacking(name, owner))
    own = vars(TensorBase)
    for name in {*torch_names.TENSOR.split(), *torch_names.TORCH.split(), *numpy_names.NAMES}:
        if name not in own:
            setattr(
                TensorBase, name, Elsewhere(name)
            )  # the attributes of the kinds, which are subclasses, take precedence


def _public_names(cls: type) -> set[str]:
    """Return the names of the public attributes of a class, including factories and inherited ones."""
    return {name for base in cls.__mro__ for name in vars(base) if not name.startswith("_")}
