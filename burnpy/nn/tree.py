"""Trees of modules: traversal, and rebuilding with the same structure.

A tree is a module, a variable (`burnpy.nn.variable`), or a tuple or dict of trees. What two places share is visited
under the first of its paths, and stays shared in a rebuilt tree.
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
    """A read-only dict in a field of a module."""

    __slots__ = ()

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise ImmutableError("a dict of a module never changes; model.replace({path: value}) returns a new model")

    if not TYPE_CHECKING:  # type checkers see a plain dict
        __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def __copy__(self) -> FrozenDict[K, V]:
        return self


def joined(path: str, name: object) -> str:
    """Return the path of the child ``name`` of ``path``."""
    return f"{path}.{name}" if path else str(name)


def places(parts: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the path names of a tuple's parts: the field names of a named tuple, otherwise the indices."""
    return getattr(parts, "_fields", None) or tuple(map(str, range(len(parts))))


def regrouped(parts: tuple[Any, ...], like: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return ``parts`` as a tuple of the class of ``like``, which may be a named tuple."""
    return type(like)(*parts) if hasattr(like, "_fields") else parts


def children(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield the direct subtrees of a module, tuple or dict with their names."""
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
    """Yield every module and variable of a tree with its path, the tree itself first; shared ones once per path."""
    if isinstance(tree, Variable) or hasattr(tree, "_parts"):
        yield path, tree
    for name, part in children(tree):
        yield from walk(part, joined(path, name))


def variables_in(tree: Any) -> dict[str, Variable[Any]]:
    """Return all variables of a tree by path, shared ones by their first path."""
    variables: dict[str, Variable[Any]] = {}
    seen: set[int] = set()
    for path, item in walk(tree):
        if isinstance(item, Variable) and id(item) not in seen:
            seen.add(id(item))
            variables[path] = item
    return variables


def new_module(cls: type[Any], fields: Mapping[str, Any], parts: tuple[str, ...], override: bool | None) -> Any:
    """Create a module from validated fields, without calling ``__init__``."""
    out = object.__new__(cls)
    vars(out).update(fields)
    for name, value in (("_parts", parts), ("_override", override), ("_held", None), ("_sealed", True)):
        object.__setattr__(out, name, value)
    return out


class Rebuild:
    """Rebuilds a tree with other variables or modules in the same structure.

    Args:
        held: a function from path and variable to the new variable; called once for a shared one.
        module: a function from path and module to a replacement, or None to rebuild the module from its parts; called
            before its parts are visited.
        override: a function from a module to the train/eval override of its rebuilt copy.
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
        """Return the rebuilt tree; the same object if nothing in it changes."""
        if isinstance(tree, Variable):
            variable = self.memo.get(id(tree))
            if variable is None:
                variable = self.memo[id(tree)] = self.held(path, tree)
            return variable
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
        module = self.memo.get(id(tree))
        if module is None:
            module = self.memo[id(tree)] = self._module(tree, path)
        return module

    def _module(self, module: ModuleBase[Any], path: str) -> Any:
        """The replacement of a module, or a copy with rebuilt parts; the module itself if nothing changes."""
        replacement = self.module(path, module)
        if replacement is not None:
            return replacement
        fields = vars(module)
        parts = {name: self(fields[name], joined(path, name)) for name in module._parts}
        override = self.override(module)
        if override is module._override and all(parts[name] is fields[name] for name in parts):
            return module
        return new_module(type(module), {**fields, **parts}, module._parts, override)
