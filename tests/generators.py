"""Generators of random numbers that tests share, restored before each test: its data is the same in any order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest


class Generators:
    """The generators in test modules, and in the modules of ``tests`` that these import from, with their states."""

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        self._restore = {module: list(map(_restoring, _generators(module))) for module in modules}

    def restore(self, module: ModuleType | None) -> None:
        """Restore the generators that the tests of a module may use, and seed the default generators of devices."""
        for restore in self._restore.get(module, ()) if module else ():
            restore()
        if "burnpy.tensor.generator" in sys.modules:
            sys.modules["burnpy.tensor.generator"].manual_seed(0)


def module_of(item: pytest.Item) -> ModuleType | None:
    """Return the test module of a test; nothing for a doctest."""
    return item.module if isinstance(item, pytest.Function) else None


def _generators(module: ModuleType) -> list[Any]:
    found = {id(value): value for name in _modules(module) for value in vars(name).values() if _draws(value)}
    return list(found.values())


def _draws(value: Any) -> bool:
    return isinstance(value, np.random.Generator) or type(value).__qualname__ == "Generator"


def _modules(module: ModuleType) -> Iterator[ModuleType]:
    """Yield a module, and those of ``tests`` that it uses, directly or not."""
    seen, found = {module}, [module]
    while found:
        yield (module := found.pop())
        for value in list(vars(module).values()):
            used = value
            if isinstance(value, FunctionType | type):
                used = sys.modules.get(value.__module__)
            if isinstance(used, ModuleType) and used.__name__.startswith("tests.") and used not in seen:
                seen.add(used)
                found.append(used)


def _restoring(generator: Any) -> Callable[[], None]:
    """Return a function that restores the present state of a generator."""
    if isinstance(generator, np.random.Generator):
        return partial(setattr, generator.bit_generator, "state", generator.bit_generator.state)
    return partial(generator.set_state, generator.get_state())
