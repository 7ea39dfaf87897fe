"""Trees: tensors in nested tuples, lists, dicts and instances of registered classes.

`flatten` splits a tree into its leaves and a `Structure`, which rebuilds a tree from leaves. ``None`` is a tree without
leaves. An object of any other type is a leaf."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import T


class Handler(NamedTuple):
    """The functions that flatten and unflatten trees of one type."""

    flatten: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten: Callable[[Sequence[Any], Any], Any]
    whole: Handler | None = None  #: the handler by which a tree has all its tensors as leaves, buffers included


@explained
def register_tree(
    cls: type[T], flatten: Callable[[T], tuple[Iterable[Any], Any]], unflatten: Callable[[Sequence[Any], Any], T]
) -> None:
    """Register a class whose instances, and those of its subclasses, `burnpy.func` treats as trees.

    Args:
        cls: the class.
        flatten: maps an instance to its children, which are trees, and to its static data, compared with ``==``.
        unflatten: maps children, as many as ``flatten`` returned, and the static data to an instance.

    Raises:
        ArgumentError: the class is registered already.
        KindError: the first argument is not a class, or another is not a function.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Line:
    ...     slope: Tensor[NumPy]
    ...     at_zero: Tensor[NumPy]
    >>> register_tree(Line, lambda line: ((line.slope, line.at_zero), None), lambda children, rest: Line(*children))
    >>> from burnpy.func import grad
    >>> x = Tensor[NumPy].from_data(5.0)
    >>> gradient = grad(lambda line: line.slope * x + line.at_zero)(Line(x, x))
    >>> gradient.slope.item(), gradient.at_zero.item()
    (5.0, 1.0)
    """
    if cls in _EXACT or cls in _REGISTERED:
        raise ArgumentError(f"register_tree() got {cls.__name__}, which is registered already")
    given: tuple[object, ...] = cls, flatten, unflatten
    if not isinstance(given[0], type) or not all(map(callable, given)):
        raise KindError(f"register_tree() takes a class and two functions, got {', '.join(map(describe, given))}")
    _REGISTERED[cls] = Handler(flatten, unflatten)
    _FOUND.clear()


_EXACT: dict[type, Handler] = {
    tuple: Handler(lambda x: (x, None), lambda children, rest: tuple(children)),
    list: Handler(lambda x: (x, None), lambda children, rest: list(children)),
    dict: Handler(lambda x: (x.values(), tuple(x)), lambda children, keys: dict(zip(keys, children, strict=True))),
    OrderedDict: Handler(
        lambda x: (x.values(), tuple(x)), lambda children, keys: OrderedDict(zip(keys, children, strict=True))
    ),
    defaultdict: Handler(
        lambda x: (x.values(), (*x, x.default_factory)),
        lambda children, rest: defaultdict(rest[-1], zip(rest[:-1], children, strict=True)),
    ),
    type(None): Handler(lambda x: ((), None), lambda children, rest: None),
}
_REGISTERED: dict[type, Handler] = {}
_FOUND: WeakKeyDictionary[type, Handler | None] = WeakKeyDictionary()
"""The handlers of classes that were looked up."""
_NAMED = Handler(lambda x: (x, type(x)), lambda children, cls: cls(*children))
_OF_PARTS = Handler(lambda x: (x._tree_parts, type(x)), lambda parts, cls: cls(*parts))
"""For complex tensors, whose parts are tensors."""
_OF_ITS_OWN = Handler(lambda x: x._flatten_tree(), lambda children, rest: rest[0]._unflatten_tree(children, rest))
"""For classes of packages beneath this one, with both methods: metrics and batches. ``rest[0]`` is the class."""


def register_whole(cls: type, handler: Handler) -> None:
    """Add to a registered class the handler by which its instances have all their tensors as leaves."""
    _REGISTERED[cls] = _REGISTERED[cls]._replace(whole=handler)
    _FOUND.clear()


def _handler(tree: Any) -> Handler | None:
    """Return the handler of a tree's type; None for a leaf."""
    if isinstance(tree, TensorBase):
        return None
    cls = type(tree)
    try:
        return _FOUND[cls]
    except KeyError:
        return _FOUND.setdefault(cls, _handler_of(cls))


def _handler_of(cls: type) -> Handler | None:
    """Return the handler of a class; None if its instances are leaves."""
    handler = _EXACT.get(cls)
    if handler is not None:
        return handler
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _NAMED
    if hasattr(cls, "_tree_parts"):
        return _OF_PARTS
    if hasattr(cls, "_flatten_tree"):
        return _OF_ITS_OWN
    return next((_REGISTERED[each] for each in cls.__mro__ if each in _REGISTERED), None)


class MismatchError(ValueError):
    """Two trees have different structures; callers convert it to an error that describes both."""


@dataclass(frozen=True, slots=True)
class Structure:
    """The structure of a tree: its types and static data, without the leaves."""

    handler: Handler | None  #: None for a leaf
    rest: Any  #: the static data, such as the keys of a dict
    children: tuple[Structure, ...]

    @property
    def size(self) -> int:
        """The number of leaves."""
        return 1 if self.handler is None else sum([child.size for child in self.children])

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Build the tree from leaves, as many as the structure has."""
        return self._built(iter(leaves))

    def _built(self, leaves: Iterator[Any]) -> Any:
        if self.handler is None:
            return next(leaves)
        children = self.children
        if children is _leaves(len(children)):
            return self.handler.unflatten([*islice(leaves, len(children))], self.rest)
        return self.handler.unflatten([child._built(leaves) for child in children], self.rest)

    def leaves_of(self, tree: Any) -> list[Any]:
        """Return the leaves of another tree of this structure, in this one's order; dict entries are matched by key."""
        if self.handler is None:
            if _handler(tree) is not None:
                raise MismatchError
            return [tree]
        if _handler(tree) is not self.handler:
            raise MismatchError
        if isinstance(tree, dict):
            if tree.keys() != set(self.rest[: len(self.children)]):
                raise MismatchError
            members: list[Any] = [tree[key] for key in self.rest[: len(self.children)]]
        else:
            children, rest = self.handler.flatten(tree)
            members = list(children)
            if len(members) != len(self.children) or rest != self.rest:
                raise MismatchError
        return [leaf for child, member in zip(self.children, members, strict=True) for leaf in child.leaves_of(member)]

    def sharing(self, known: Structure) -> Structure:
        """Return an equal structure with the static data of another one where it is equal, to be compared faster."""
        rests: dict[int, list[Any]] = {}
        pending = [known]
        while pending:
            node = pending.pop()
            rests.setdefault(id(node.handler), []).append(node.rest)
            pending += node.children
        return self._sharing(rests)

    def _sharing(self, rests: dict[int, list[Any]]) -> Structure:
        rest = next((rest for rest in rests.get(id(self.handler), ()) if _same(rest, self.rest)), self.rest)
        if self.children is _leaves(len(self.children)):
            return Structure(self.handler, rest, self.children)
        return Structure(self.handler, rest, tuple([child._sharing(rests) for child in self.children]))


LEAF = Structure(None, None, ())


def flatten(tree: Any, whole: bool = False) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree, in order, and its structure.

    Args:
        tree: the tree.
        whole: whether the leaves are all tensors, also those without a derivative, such as buffers of modules.

    >>> leaves, structure = flatten({"a": 1, "b": [2, (3, None)]})
    >>> leaves, structure.unflatten("xyz")
    ([1, 2, 3], {'a': 'x', 'b': ['y', ('z', None)]})
    """
    leaves: list[Any] = []
    try:
        return leaves, _flatten_into(tree, leaves, whole)
    except RecursionError:
        raise KindError(
            "a tree of arguments or results contains itself, or is nested too deeply; pass its tensors in "
            "tuples, lists or dicts that end"
        ) from None


def _flatten_into(tree: Any, leaves: list[Any], whole: bool) -> Structure:
    handler = handler_of(tree) if whole else _handler(tree)
    if handler is None:
        leaves.append(tree)
        return LEAF
    children, rest = handler.flatten(tree)
    children = [*children]
    if all(isinstance(child, TensorBase) for child in children):  # the most common case by far
        leaves += children
        return Structure(handler, rest, _leaves(len(children)))
    return Structure(handler, rest, tuple([_flatten_into(child, leaves, whole) for child in children]))


def handler_of(tree: Any) -> Handler | None:
    """Return the handler of a tree's type by which it has all its tensors as leaves; None for a leaf."""
    handler = _handler(tree)
    return handler if handler is None else handler.whole or handler


def children_of(tree: Any) -> Iterable[Any] | None:
    """Return the members of a tree; None for a leaf."""
    handler = handler_of(tree)
    return None if handler is None else handler.flatten(tree)[0]


def is_module(x: Any) -> bool:
    """Return whether an object is a `burnpy.nn.Module`; classes of other libraries have methods of the same names."""
    return hasattr(type(x), "_with_variables")


def _same(rest: Any, other: Any) -> bool:
    """Return whether static data are equal and of the same types, as 1 and True are not."""
    if type(rest) is not type(other):
        return False
    if isinstance(rest, tuple):
        return len(rest) == len(other) and all(map(_same, rest, other))
    return bool(rest == other)


@cache
def _leaves(count: int) -> tuple[Structure, ...]:
    """Return the structures of this many leaves, the same tuple each time."""
    return (LEAF,) * count


def is_registered(value: Any) -> bool:
    """Return whether a value is an instance of a class that `register_tree` knows, such as a module."""
    return not isinstance(value, TensorBase) and any(cls in _REGISTERED for cls in type(value).__mro__)


def holds_none(structure: Structure) -> bool:
    """Return whether a tree of this structure contains None.

    >>> holds_none(flatten({"a": 1, "b": [2, (3, None)]})[1])
    True
    """
    return structure.handler is _EXACT[type(None)] or any(map(holds_none, structure.children))


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply ``function`` to every leaf of a tree, and return the tree of the results."""
    leaves, structure = flatten(tree)
    return structure.unflatten(map(function, leaves))


def tensors_in(tree: Any) -> list[TensorBase[Any]]:
    """Return the tensors, of any kind, among the leaves of a tree."""
    return [leaf for leaf in flatten(tree)[0] if isinstance(leaf, TensorBase)]


def paths(structure: Structure, name: str) -> list[str]:
    """Return the Python expression of each leaf of a tree called ``name``; parts of registered classes by number.

    >>> paths(flatten({"h": 1, "rest": (2, [3])})[1], "carry")
    ["carry['h']", "carry['rest'][0]", "carry['rest'][1][0]"]
    """
    if structure.handler is None:
        return [name]
    rest = structure.rest
    module = getattr(rest, "module", None)
    if module is not None:
        return [f"{name}.{path}" for path in module._variables()]
    fields = getattr(rest, "_fields", None)
    keyed = any(structure.handler is _EXACT[cls] for cls in (dict, OrderedDict, defaultdict))
    found: list[str] = []
    for k, child in enumerate(structure.children):
        found += paths(child, f"{name}[{(rest[k] if keyed else k)!r}]" if fields is None else f"{name}.{fields[k]}")
    return found


def describe_tree(tree: Any) -> str:
    """Format a tree for messages, with the shape of each tensor in its place.

    >>> describe_tree({"w": Tensor[NumPy].zeros((2, 3)), "n": [1]})
    "{'w': Tensor(2, 3), 'n': [int]}"
    """
    if isinstance(tree, TensorBase):
        return f"{type(tree).__name__}{tree.shape}"
    if tree is None:
        return "None"
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key!r}: {describe_tree(value)}" for key, value in tree.items()) + "}"
    if isinstance(tree, tuple):
        name = type(tree).__name__ if hasattr(tree, "_fields") else ""
        return f"{name}({', '.join(map(describe_tree, tree))}{',' if len(tree) == 1 else ''})"
    if isinstance(tree, list):
        return f"[{', '.join(map(describe_tree, tree))}]"
    handler = _handler(tree)
    inside = "" if handler is None else f"({', '.join(map(describe_tree, handler.flatten(tree)[0]))})"
    return f"{type(tree).__name__}{inside}"


def loop_function(api: str, f: Any, takes: str) -> None:
    """Check that an argument is a function."""
    if not callable(f):
        raise KindError(f"{api}() takes a function {takes}, got {describe_tree(f)}")


def tensor_leaves(api: str, name: str, tree: Any) -> tuple[list[TensorBase[Any]], Structure]:
    """Return the leaves of a tree, which must be tensors, and its structure."""
    leaves, structure = flatten(tree, whole=True)
    for path, leaf in zip(paths(structure, name), leaves, strict=True):
        if not isinstance(leaf, TensorBase):
            raise KindError(
                f"{api}() takes trees of tensors, and {path} is {leaf!r:.60}; make it a tensor, as with "
                "Tensor.from_data(...), or let the function close over it"
            )
    return leaves, structure


def kept(api: str, what: str, before: Sequence[TensorBase[Any]], structure: Structure, tree: Any) -> list[Any]:
    """Return the leaves of the tree that a step returned; refuse a tree that differs from the one that it got.

    Args:
        api: the loop, for messages.
        what: the name of the tree, such as ``carry``.
        before: the leaves that the step got.
        structure: their structure.
        tree: what the step returned.
    """
    leaves, new = flatten(tree, whole=True)
    if new != structure:
        try:
            leaves = structure.leaves_of(tree)  # the entries of a dict may be in another order
        except MismatchError:
            raise ArgumentError(
                f"{api}() got {describe_tree(tree)} as the new {what}, which must have the structure of the first, "
                f"{describe_tree(structure.unflatten(before))}; return all of it in each step"
            ) from None
    for k, (old, leaf) in enumerate(zip(before, leaves, strict=True)):
        if not isinstance(leaf, TensorBase) or leaf.kind != old.kind:
            shown = type(leaf).__name__ if isinstance(leaf, TensorBase) else f"{leaf!r:.60}"
            raise KindError(
                f"{api}() got {shown} as the new {paths(structure, what)[k]}, which was {type(old).__name__}"
                f"{old.shape}; each step must return the kind that it got"
            )
        if leaf.shape != old.shape:
            raise ShapeError(
                f"{api}() got shape {leaf.shape} as the new {paths(structure, what)[k]}, which had shape {old.shape}; "
                "each step must keep it: start with that shape, or return it from each step as a result"
            )
        if leaf.dtype != old.dtype:
            raise DTypeError(
                f"{api}() got dtype {leaf.dtype} as the new {paths(structure, what)[k]}, which had dtype {old.dtype}; "
                f"start with that dtype, or convert it in each step with .to_dtype({str(old.dtype)!r})"
            )
    return leaves
