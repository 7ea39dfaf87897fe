"""Trees of modules: walking through them, and building another of the same structure.

A tree is a module, a variable (`burnpy.nn.variable`), or a tuple or dict of trees. What two places share is visited
under the first of its paths, and stays shared in what is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from burnpy.backend.errors import ImmutableError
from burnpy.nn.variable import Variable

if TYPE_CHECKING:
    from burnpy.nn.base import ModuleBase

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict that a module holds: what would change it is an error."""

    __slots__ = ()

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise ImmutableError("a dict of a module never changes; model.replace({path: value}) returns a new model")

    if not TYPE_CHECKING:  # to type checkers it is the dict that was assigned
        __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def __copy__(self) -> FrozenDict[K, V]:
        return self


def joined(path: str, name: object) -> str:
    """The path of what is called ``name`` at ``path``."""
    return f"{path}.{name}" if path else str(name)


def places(parts: tuple[Any, ...]) -> tuple[str, ...]:
    """What the parts of a tuple are called: their numbers, or the names of a named tuple."""
    return getattr(parts, "_fields", None) or tuple(map(str, range(len(parts))))


def regrouped(parts: tuple[Any, ...], like: tuple[Any, ...]) -> tuple[Any, ...]:
    """Parts as a tuple of the class of another."""
    return type(like)(*parts) if hasattr(like, "_fields") else parts


def children(tree: Any) -> Iterator[tuple[str, Any]]:
    """The trees directly inside of a module, tuple or dict, by name."""
    if isinstance(tree, Variable):
        return
    if isinstance(tree, dict):
        yield from ((str(key), tree[key]) for key in tree)
    elif isinstance(tree, tuple):
        yield from zip(places(tree), tree, strict=True)
    elif hasattr(tree, "_parts"):
        fields = vars(tree)
        yield from ((name, fields[name]) for name in tree._parts)


def walk(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every module and everything held in a tree with its path, the tree itself first; shared ones for each path."""
    if isinstance(tree, Variable) or hasattr(tree, "_parts"):
        yield path, tree
    for name, part in children(tree):
        yield from walk(part, joined(path, name))


def variables_in(tree: Any) -> dict[str, Variable[Any]]:
    """What a tree holds, by the first path of each."""
    found: dict[str, Variable[Any]] = {}
    seen: set[int] = set()
    for path, item in walk(tree):
        if isinstance(item, Variable) and id(item) not in seen:
            seen.add(id(item))
            found[path] = item
    return found


def new_module(cls: type[Any], fields: Mapping[str, Any], parts: tuple[str, ...], override: bool | None) -> Any:
    """A module of fields that are known to be in order, without its ``__init__``."""
    out = object.__new__(cls)
    vars(out).update(fields)
    for name, value in (("_parts", parts), ("_override", override), ("_held", None), ("_sealed", True)):
        object.__setattr__(out, name, value)
    return out


class Rebuild:
    """Builds a tree like another, with something else in place of what it holds.

    Args:
        held: what to hold instead, for a path and what is held there; called once for what is shared.
        module: what to put in place of the module of a path, None for one like it; asked before what is inside of it.
        override: the train/eval override of every module, for a module.
    """

    def __init__(
        self,
        held: Callable[[str, Variable[Any]], Variable[Any]] = lambda path, held: held,
        *,
        module: Callable[[str, ModuleBase[Any]], Any] = lambda path, module: None,
        override: Callable[[ModuleBase[Any]], bool | None] = lambda module: module._override,
    ) -> None:
        self.held, self.module, self.override = held, module, override
        self.memo: dict[int, Any] = {}

    def __call__(self, tree: Any, path: str = "") -> Any:
        """The tree that takes the place of ``tree``; the very same where nothing in it changes."""
        if isinstance(tree, Variable):
            found = self.memo.get(id(tree))
            if found is None:
                found = self.memo[id(tree)] = self.held(path, tree)
            return found
        if isinstance(tree, dict):
            values = [self(tree[key], joined(path, key)) for key in tree]
            same = all(new is old for new, old in zip(values, tree.values(), strict=True))
            return tree if same else FrozenDict(zip(tree, values, strict=True))
        if isinstance(tree, tuple):
            parts = tuple([self(part, joined(path, name)) for name, part in zip(places(tree), tree, strict=True)])
            same = all(new is old for new, old in zip(parts, tree, strict=True))
            return tree if same else regrouped(parts, tree)
        if not hasattr(tree, "_parts"):
            return tree
        found = self.memo.get(id(tree))
        if found is None:
            found = self.memo[id(tree)] = self._module(tree, path)
        return found

    def _module(self, module: ModuleBase[Any], path: str) -> Any:
        replacement = self.module(path, module)
        if replacement is not None:
            return replacement
        fields = vars(module)
        parts = {name: self(fields[name], joined(path, name)) for name in module._parts}
        override = self.override(module)
        if override is module._override and all(parts[name] is fields[name] for name in parts):
            return module
        return new_module(type(module), {**fields, **parts}, module._parts, override)
