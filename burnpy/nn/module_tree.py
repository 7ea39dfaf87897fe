"""Trees of modules: traversal, and rebuilding with the same structure.

A tree is a module, a variable (`burnpy.nn.param`), or a tuple or dict of trees. A shared part is visited under the
first of its paths, and stays shared in a rebuilt tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from burnpy.backend.errors import ImmutableError
from burnpy.nn.param import Variable
from burnpy.typevars import V

K = TypeVar("K")

_set = object.__setattr__


class TreeNode:
    """A module as a node of a tree: the base class of modules, with the methods that traversal needs.

    The fields of a module are its ``__dict__``.
    """

    __slots__ = ("__dict__", "__weakref__", "_cached_variables", "_override", "_parts", "_sealed", "_whole")

    _cached_variables: dict[str, Variable[Any]] | None  #: the result of `variables_in`, cached on first use
    _override: bool | None  #: True for training mode, False for eval mode, None to follow the device
    _parts: tuple[str, ...]  #: the fields that contain parameters, buffers or modules
    _sealed: bool  #: whether construction is complete
    _whole: Any  #: all tensors and the structure without them, see `burnpy.nn.module_state`; None until the first use


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


class FrozenList(tuple[V, ...]):
    """A list of modules or parameters in a field of a module: a tuple, whose methods of a list say what to write."""

    __slots__ = ()

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise ImmutableError(
            "a list of a module is a tuple once __init__ is done, and never changes; fill the list in __init__, or "
            "make another model: model.replace({path: (*model.layers, layer)})"
        )

    if not TYPE_CHECKING:  # type checkers see a plain tuple
        __setitem__ = __delitem__ = append = extend = insert = pop = remove = clear = sort = reverse = _refuse

        def __add__(self, other: Any) -> tuple[Any, ...]:
            return self._refuse() if isinstance(other, list) else tuple.__add__(self, other)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (tuple(self),)


def joined(path: str, name: object) -> str:
    """Return the path of the child ``name`` of ``path``."""
    return f"{path}.{name}" if path else str(name)


def part_names(parts: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the path names of a tuple's parts: the field names of a named tuple, otherwise the indices."""
    return getattr(parts, "_fields", None) or tuple(map(str, range(len(parts))))


def regrouped(parts: tuple[Any, ...], like: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return ``parts`` as a tuple of the class of ``like``, which may be a named tuple."""
    if type(like) is FrozenList:
        return FrozenList(parts)
    return type(like)(*parts) if hasattr(like, "_fields") else parts


_BRANCHES = (TreeNode, tuple, dict)
"""The types of trees that contain other trees."""


def children(tree: Any) -> Iterable[tuple[str, Any]]:
    """Return the direct subtrees of a module, tuple or dict with their names."""
    if isinstance(tree, TreeNode):
        return zip(tree._parts, map(vars(tree).__getitem__, tree._parts), strict=True)
    if isinstance(tree, tuple):
        return zip(part_names(tree), tree, strict=True)
    return zip(map(str, tree), tree.values(), strict=True) if isinstance(tree, dict) else ()


def walk(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return every module and variable of a tree with its path, the tree itself first; shared ones once per path."""
    items: list[tuple[str, Any]] = [(path, tree)] if isinstance(tree, (TreeNode, Variable)) else []
    for name, part in children(tree):
        inside = f"{path}.{name}" if path else name
        if isinstance(part, Variable):
            items.append((inside, part))
        elif isinstance(part, _BRANCHES):
            items += walk(part, inside)
    return items


def variables_in(tree: Any) -> dict[str, Variable[Any]]:
    """Return all variables of a tree by path, shared ones by their first path."""
    variables: dict[str, Variable[Any]] = {}
    seen: set[int] = set()
    for path, item in walk(tree):
        if isinstance(item, Variable) and id(item) not in seen:
            seen.add(id(item))
            variables[path] = item
    return variables


def own_variables(tree: Any, path: str = "") -> dict[str, Variable[Any]]:
    """Return the variables of a module itself by path, without the variables of the modules within."""
    own: dict[str, Variable[Any]] = {}
    for name, part in children(tree):
        if isinstance(part, Variable):
            own[joined(path, name)] = part
        elif not isinstance(part, TreeNode):
            own |= own_variables(part, joined(path, name))
    return own


def new_module(cls: type[Any], fields: dict[str, Any], parts: tuple[str, ...], override: bool | None) -> Any:
    """Create a module from validated fields, a dict of its own, without calling ``__init__``."""
    out = object.__new__(cls)
    _set(out, "__dict__", fields)
    _set(out, "_parts", parts)
    _set(out, "_override", override)
    _set(out, "_cached_variables", None)
    _set(out, "_whole", None)
    _set(out, "_sealed", True)
    return out


class Rebuild:
    """Rebuilds a tree with other variables or modules in the same structure.

    Args:
        variable: a function from path and variable to the new variable; called once for a shared one. By default
            variables stay.
        module: a function from path and module to a replacement, or None to rebuild the module from its parts; called
            before its parts are visited.
        override: a function from a module to the train/eval override of its rebuilt copy, which by default is the same.
        known: new parts by the ids of the parts that they replace, for which no function is called.
    """

    def __init__(
        self,
        variable: Callable[[str, Variable[Any]], Variable[Any]] | None = None,
        *,
        module: Callable[[str, Any], Any] | None = None,
        override: Callable[[Any], bool | None] | None = None,
        known: dict[int, Any] | None = None,
    ) -> None:
        self.variable, self.module, self.override = variable, module, override
        self.memo: dict[int, Any] = {} if known is None else known  # the rebuilt part by the id of the part

    def __call__(self, tree: Any, path: str = "") -> Any:
        """Return the rebuilt tree; the same object if nothing in it changes."""
        return self._rebuilt([(path, tree)], "")[0]

    def _rebuilt(self, parts: Iterable[tuple[str, Any]], path: str) -> list[Any]:
        """Rebuild the direct subtrees of the tree at ``path``."""
        memo, variable = self.memo, self.variable
        rebuilt: list[Any] = []
        for name, part in parts:
            new = memo.get(id(part))
            if new is None:
                inside = f"{path}.{name}" if path else name
                if isinstance(part, Variable):
                    new = part if variable is None else variable(inside, part)
                elif isinstance(part, TreeNode):
                    new = self._module(part, inside)
                elif isinstance(part, (tuple, dict)):
                    new = self._container(part, inside)
                else:
                    new = part
                memo[id(part)] = new
            rebuilt.append(new)
        return rebuilt

    def _module(self, module: Any, path: str) -> Any:
        """Return the replacement of a module, or a copy with rebuilt parts; the module itself if nothing changes."""
        replacement = None if self.module is None else self.module(path, module)
        if replacement is not None:
            return replacement
        fields, names = vars(module), module._parts
        old = [*map(fields.__getitem__, names)]
        parts = self._rebuilt(zip(names, old, strict=True), path)
        override = module._override if self.override is None else self.override(module)
        if override is module._override and all(map(is_, parts, old)):
            return module
        return new_module(type(module), {**fields, **dict(zip(names, parts, strict=True))}, names, override)

    def _container(self, tree: Any, path: str) -> Any:
        """Return a tuple or dict with rebuilt parts; the same object if nothing changes."""
        parts = self._rebuilt(children(tree), path)
        if all(map(is_, parts, tree.values() if isinstance(tree, dict) else tree)):
            return tree
        return FrozenDict(zip(tree, parts, strict=True)) if isinstance(tree, dict) else regrouped(tuple(parts), tree)


class Recipe:
    """Rebuilds a module with other values again and again: `Rebuild`, with the walk over the module done once.

    Args:
        module: the module.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._paths, variables = [*module._variables()], list(module._variables().values())
        self._make = [variable._unchecked for variable in variables]
        self._known = {id(variable): k for k, variable in enumerate(variables)}  # the numbers of parts by id
        self._steps: list[tuple[Callable[..., Any], Any, list[tuple[Any, int]]]] = []
        self._count = len(variables)
        self._part(module)

    def __call__(self, values: Sequence[Any]) -> Any:
        """Return the module with other values of its variables, in order and unchecked."""
        made = [make(value) for make, value in zip(self._make, values, strict=True)]
        if not self._steps:
            return self._module
        variables = dict(zip(self._paths, made, strict=True))
        for build, part, numbers in self._steps:
            made.append(build(part, numbers, made))
        _set(made[-1], "_cached_variables", variables)
        return made[-1]

    def _part(self, part: Any) -> int | None:
        """Add the steps that make a part, and return its number; None if it stays the same."""
        known = self._known.get(id(part))
        if known is not None:
            return known
        if isinstance(part, TreeNode):
            names = part._parts
            members: list[tuple[Any, Any]] = [(name, vars(part)[name]) for name in names]
        elif isinstance(part, (tuple, dict)):
            members = [*enumerate(part)] if isinstance(part, tuple) else [*part.items()]
        else:
            return None
        numbers = [(name, number) for name, member in members if (number := self._part(member)) is not None]
        if not numbers:
            return None
        self._steps.append((_build_module if isinstance(part, TreeNode) else _build_container, part, numbers))
        number = self._known[id(part)] = self._count
        self._count += 1
        return number


def _build_module(module: Any, numbers: list[tuple[str, int]], made: Sequence[Any]) -> Any:
    """Return a module with other parts, by their numbers among those that were made."""
    fields = dict(vars(module))
    for name, k in numbers:
        fields[name] = made[k]
    return new_module(type(module), fields, module._parts, module._override)


def _build_container(tree: Any, numbers: list[tuple[Any, int]], made: Sequence[Any]) -> Any:
    """Return a tuple or dict with other members, as `_build_module`."""
    members: Any = dict(tree) if isinstance(tree, dict) else [*tree]
    for name, k in numbers:
        members[name] = made[k]
    return FrozenDict(members) if isinstance(tree, dict) else regrouped(tuple(members), tree)
