"""Lazy imports: names and packages that a package imports at their first use, from one table, for a faster import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import FrameType
from typing import Any

from burnpy.backend.errors import MissingPackageError


def lazy_attributes(
    package: str, table: Mapping[str, str], otherwise: Callable[[str], Any] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a package that imports some of its names at first use.

    A name is imported once, and is an attribute of the package from then on. Type checkers do not see this: the package
    imports the same names under ``TYPE_CHECKING``, and hides the two functions from them::

        if TYPE_CHECKING:
            from burnpy.autodiff import Autodiff, Forward
        else:
            __getattr__, __dir__ = lazy_attributes(__name__, {"burnpy.autodiff": "Autodiff Forward"})

    Args:
        package: the package's ``__name__``.
        table: the names, with spaces between them, by the module that defines them; under the package's own name, its
            modules that are attributes. A module of the package without names is an attribute as well.
        otherwise: called with a name that is not in the table and does not begin with an underscore; it returns the
            attribute, or raises the `AttributeError`. By default, the error suggests what to write instead.
            ``from package import name`` raises an ImportError with the same message.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807  # a package's own
        for module, names in table.items():
            if name in names.split():
                own = module == package
                value = import_module(f"{package}.{name}") if own else getattr(import_module(module), name)
                break
            if not names and module == f"{package}.{name}":
                value = import_module(module)
                break
        else:
            try:
                value = missing(package, name) if otherwise is None or name.startswith("_") else otherwise(name)
            except AttributeError as error:
                if _is_from_import(sys._getframe(1)) and f"{package}.{name}" not in sys.modules:
                    raise ImportError(str(error), name=package) from None
                raise
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807  # a package's own
        own = vars(sys.modules[package])
        modules = [module.rpartition(".")[2] for module, names in table.items() if not names]
        special = [name for name in own if name.startswith("__")]
        return sorted({*special, *own["__all__"], *modules})

    return __getattr__, __dir__


def _is_from_import(frame: FrameType) -> bool:
    """Return whether a frame executes ``from package import name``, which hides the message of an AttributeError."""
    from opcode import opmap  # NumPy 2.0 does without

    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def missing(package: str, name: str) -> Any:
    """Raise the error for a name that a package does not have.

    Raises:
        AttributeError: always.
    """
    if name.startswith("__"):  # importing from a module asks it for `__path__`
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    from burnpy.hints.missing_names import from_package

    raise from_package(package, name)


def attached(
    package: str, table: Mapping[str, str], otherwise: Callable[[str], Any] | None = None, now: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the ``__getattr__``, ``__dir__`` and ``__all__`` of a package that imports its names on first use.

    Type checkers read them in a stub, which ``make generated`` makes from ``table``. Other arguments are
    those of `lazy_attributes`, and ``now`` has the modules whose names are imported at once: functions with the name of
    their module, which would hide them, and what everybody needs.
    """
    for module in now:
        found = import_module(module)
        for name in table[module].split():
            setattr(sys.modules[package], name, getattr(found, name))
    return (*lazy_attributes(package, table, otherwise), sorted(" ".join(table.values()).split()))


def needed(module: str, owner: str, package: str, extra: str) -> Any:
    """Import a module.

    Args:
        module: its name.
        owner: the function or class that needs it, for the message.
        package: the package that has it.
        extra: burnpy's extra that has the package; "" if none has.
    """
    try:
        return import_module(module)
    except ImportError as error:
        installed = f'"burnpy[{extra}]"' if extra else package
        raise MissingPackageError(
            f"{owner} needs the package {package}, which cannot be imported ({error}); install it with: "
            f"pip install {installed}"
        ) from None
