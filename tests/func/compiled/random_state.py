# ruff: noqa: E501  # a row of a table is one line
"""`RandomState`: random objects that hold objects, a path of code that reads a number in them, and changes anywhere."""

from __future__ import annotations

import random
import types
from collections.abc import Callable
from typing import Any

_CLASSES = """
import collections, functools, operator, types
import numpy as np
class Base:
    def get(self): return self.a
    @property
    def also(self): return self.a
class Object(Base):
    def __init__(self, a): self.a = a
class Sub(Object):
    pass
class Slots:
    __slots__ = ("a",)
    def __init__(self, a): self.a = a
class Whole(collections.UserDict): pass
def closure(a):
    def read(): return a
    def write(new):
        nonlocal a
        a = new
    return read, write
"""

_MAKE: dict[str, tuple[str, list[str], list[str]]] = {
    "list": ("[9.0, {0}]", ["{0}[1]", "{0}[-1]", "[*{0}][1]"], ["{0}[1] = {1}", "{0}.insert(0, {1})", "{0}.reverse()", "{0}.pop()"]),
    "tuple": ("(9.0, {0})", ["{0}[1]"], []),
    "dict": ("{{'a': {0}, 'b': 9.0}}", ["{0}['a']", "{0}.get('a')", "[*{0}.values()][0]"],
             ["{0}['a'] = {1}", "{0}['a'] = {0}.pop('a')", "{0}.pop('a')", "{0}['c'] = {1}"]),
    "object": ("Object({0})", ["{0}.a", "{0}.get()", "{0}.also", "getattr({0}, 'a')", "vars({0})['a']", "operator.attrgetter('a')({0})",
                               "getattr({0}, 'a', 1.0)", "{0}.__dict__['a']"],
               ["{0}.a = {1}", "del {0}.a", "{0}.b = {1}", "{0}.__class__ = Sub", "{0}.get = lambda: {1}", "{0}.__dict__ = dict(a={1})"]),
    "subclass": ("Sub({0})", ["{0}.a", "{0}.get()", "{0}.also"],
                 ["{0}.a = {1}", "Sub.also = property(lambda self: {1})", "Sub.get = lambda self: {1}", "Base.get = lambda self: {1}",
                  "Object.also = 3.0", "Sub.a = property(lambda self: {1})"]),
    "class": ("type('C', (Base,), dict(a={0}))", ["{0}.a", "{0}().get()", "getattr({0}, 'a')"], ["{0}.a = {1}", "del {0}.a", "Base.a = {1}"]),
    "slots": ("Slots({0})", ["{0}.a", "getattr({0}, 'a', 1.0)"], ["{0}.a = {1}", "del {0}.a"]),
    "userdict": ("Whole(a={0})", ["{0}['a']", "{0}.data['a']"], ["{0}['a'] = {1}", "{0}.data = dict(a={1})"]),
    "chain": ("collections.ChainMap({{}}, {{'a': {0}}})", ["{0}['a']"], ["{0}['a'] = {1}", "{0}.maps[1]['a'] = {1}", "{0}.maps.reverse()"]),
    "namespace": ("types.SimpleNamespace(a={0})", ["{0}.a", "getattr({0}, 'a')"], ["{0}.a = {1}", "{0}.b = {1}"]),
    "closure": ("closure({0})", ["{0}[0]()"], ["{0}[1]({1})"]),
    "partial": ("functools.partial(lambda a: a, a={0})", ["{0}()"], ["{0}.keywords['a'] = {1}"]),
    "default": ("(lambda a={0}: a)", ["{0}()"], ["{0}.__defaults__ = ({1},)"]),
    "objects": ("np.array([{0}, None], object)", ["{0}[0]"], ["{0}[0] = {1}"]),
    "deque": ("collections.deque([{0}])", ["{0}[0]"], ["{0}[0] = {1}", "{0}.appendleft({1})"]),
    "module": ("types.ModuleType('m')", ["{0}.a"], ["{0}.a = {1}", "{0}.b = {1}"]),
}  # fmt: skip
"""For each kind of holder: how it is made around a value, expressions that read the value, and statements that change it."""


class RandomState:
    """Objects in objects, the variable ``root`` of a module.

    Args:
        rng: chooses.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.space: dict[str, Any] = vars(types.ModuleType("state_of_a_user"))
        exec(compile(_CLASSES, "<classes>", "exec", dont_inherit=True), self.space)
        self.done: list[str] = []
        value: str = self._number()
        self._places: list[tuple[str, str]] = []  # each holder's kind and variable, the innermost first
        read = "{}"
        for depth in range(rng.randint(1, 4)):
            kind = rng.choice([*_MAKE])
            make, reads, _ = _MAKE[kind]
            name = f"v{depth}"
            exec(f"{name} = {make.format(value)}", self.space)
            if kind == "module":
                exec(f"{name}.a = {value}", self.space)
            read = read.replace("{}", rng.choice(reads).format("{}").replace("{0}", "{}"))
            self._places.append((kind, name))
            value = name
        self.space["root"] = self.space[value]
        self.expression = read.replace("{}", "root")
        helper = rng.choice(("{}", "{}", "read()", "(lambda: {})()", "[{} for _ in (1,)][0]"))
        exec(f"def read():\n return {self.expression}", self.space)
        body = helper.replace("{}", self.expression)
        exec(f"def function(x):\n return x * {body}", self.space)
        self.function: Callable[[Any], Any] = self.space["function"]

    def _number(self) -> str:
        return f"{self._rng.random():.3f}"

    def change(self) -> None:
        """Make a random change in one of the holders, or of the variable."""
        kind, name = self._rng.choice(self._places)
        statement = self._rng.choice([*_MAKE[kind][2], "root = root"]).format(name, self._number())
        self.done.append(statement)
        try:
            exec(statement, self.space)
        except Exception:  # such as an attribute that was deleted before
            self.done.append("which raised an error")

    def outcome(self, f: Callable[[Any], Any], x: Any) -> Any:
        """Return the elements that a function gives, or the class of its error."""
        try:
            return f(x).tolist()
        except Exception as error:
            return type(error)
