"""Methods that are loaded at first use, so that `import burnpy` loads no method that only some programs call.

At run time the classes of `burnpy.tensor.methods` are stand-ins, which hold a `LazyMethod` for each name of the table.
Type checkers and editors see the classes themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from burnpy.tensor.base import TensorBase, TensorMeta, own_method


class LazyMethod:
    """A stand-in for a method, or a property, of a class in another module.

    Its first use on a tensor class imports the module and puts the method into the tensor class, where it is found
    from then on: later calls cost what those of any other method do.
    """

    __slots__ = ("module", "name", "owner")

    def __init__(self, module: str, owner: str, name: str) -> None:
        self.module, self.owner, self.name = module, owner, name

    def __get__(self, tensor: TensorBase[Any] | None, cls: type[Any]) -> Any:
        method = self.load()
        if "kind" not in vars(cls):  # the stand-in itself, which `help` looks at
            return method
        setattr(cls, self.name, own_method(cls, self.name, method))
        return getattr(cls if tensor is None else tensor, self.name)

    def load(self) -> Any:
        """Return the method as it is written, importing its module."""
        return vars(getattr(import_module(self.module), self.owner))[self.name]

    def __repr__(self) -> str:
        return f"<method {self.name} of {self.module}, loaded at first use>"


def lazy_classes(package: str, table: Mapping[str, tuple[str, ...]]) -> dict[str, type[Any]]:
    """Return the stand-ins for the classes of a package, by name.

    Args:
        package: the name of the package.
        table: the names of the methods by class, as ``"module.Class"``.
    """
    classes: dict[str, type[Any]] = {}
    for path, names in table.items():
        module, _, owner = path.rpartition(".")
        body: dict[str, Any] = {"__slots__": (), "__module__": package}
        body |= {name: LazyMethod(f"{package}.{module}", owner, name) for name in names}
        classes[owner] = TensorMeta(owner, (TensorBase,), body)
    return classes
