# ruff: noqa: E501  # a row of a table is one line
"""Kinds of state outside of a compiled function, and what a plan does when one changes: `KINDS`.

``make generated`` writes the page that lists them, ``burnpy/docs/captured.md``.

Each row is a program in four parts: statements that make the state, the expression that the function returns for x, and
a statement that changes the state.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

SAME, NEW, REFUSED = "same plan", "new plan", "refused"


class Kind(NamedTuple):
    """One kind of state."""

    group: str
    name: str
    outcome: str
    state: str
    expression: str
    change: str


class Program(NamedTuple):
    """The function of a kind, and what changes its state."""

    function: Any
    space: dict[str, Any]
    change: str

    def changed(self) -> None:
        """Change the state."""
        exec(self.change, self.space)


_COMMON = """
import array, collections, contextvars, copy, ctypes, dataclasses, datetime, enum, functools, io, itertools, math, operator, os
from pathlib import Path
import random, secrets, sys, threading, time, types, uuid, weakref
import numpy as np
from burnpy import Tensor, nn
from burnpy.backend import NumPy
class Base:
    k = 2.0
class Sub(Base):
    pass
class Object:
    def __init__(self, k=2.0):
        self.k = k
    def scaled(self, x):
        return x * self.k
    @property
    def twice(self):
        return self.k * 2.0
class Slots:
    __slots__ = ("k",)
    def __init__(self):
        self.k = 2.0
def enclosed(k):
    def change(new):
        nonlocal k
        k = new
    return lambda x: x * k, change
"""


def program(kind: Kind, number: int = 0) -> Program:
    """Return a kind's function with state of its own."""
    module = ModuleType(f"state_of_a_user_{number}")
    space = vars(module)
    for text in (_COMMON, kind.state):
        exec(compile(text, f"<{kind.name}>", "exec", dont_inherit=True), space)
    function = eval(f"lambda x: {kind.expression}", space)
    return Program(function, space, kind.change)


def _rows(group: str, text: str) -> list[Kind]:
    """Return the kinds of a table with | between columns, in which ⏎ is a new line."""
    rows = [[cell.strip().replace("⏎", "\n") for cell in line.split("|")] for line in text.strip().splitlines()]
    outcomes = {"new": NEW, "same": SAME, "refused": REFUSED}
    return [Kind(group, name, outcomes[outcome], *rest) for name, outcome, *rest in rows]


KINDS: list[Kind] = [
    *_rows("Variables", """
        a number | new | k = 2.0 | x * k | k = 3.0
        an int | new | k = 2 | x * k | k = 3
        a bool | new | k = True | x * 2.0 if k else x | k = False
        a complex number | new | k = 2j | x * k.imag | k = 3j
        a text | new | k = "a" | x * len(k) | k = "ab"
        bytes | new | k = b"a" | x * len(k) | k = b"ab"
        None | new | k = None | x if k is None else x * k | k = 2.0
        a zero of another sign | new | k = 0.0 | x * k | k = -0.0
        a number of another type | new | k = 1 | x * (2.0 if type(k) is int else 3.0) | k = 1.0
        an equal number | same | k = 1e3 | x * k | k = float("1000")
        an enum's member | new | E = enum.Enum("E", {"a": 2, "b": 3})⏎k = E.a | x * k.value | k = E.b
        a NumPy number | new | k = np.float32(2) | x * float(k) | k = np.float32(3)
        a dtype | new | k = np.dtype("float32") | x.to_dtype(k) | k = np.dtype("float64")
        a slice | new | k = slice(0, 1) | x[k] * 2.0 | k = slice(0, 2)
        a range | new | k = range(2) | x * len(k) | k = range(3)
        a date | new | k = datetime.date(2000, 1, 2) | x * k.day | k = datetime.date(2000, 1, 3)
        of an enclosing function | new | f, change = enclosed(2.0) | f(x) | change(3.0)
        of a helper function | new | k = 2.0⏎def f(x): return x * k | f(x) | k = 3.0
        of a function inside | new | k = 2.0 | (lambda y: y * k)(x) | k = 3.0
        of a comprehension | new | k = 2.0 | sum([x * k for _ in range(2)], x) | k = 3.0
        of a generator expression | new | k = 2.0 | sum((x * k for _ in range(2)), x) | k = 3.0
        that appears later | new | def f(x):⏎ try: return x * k⏎ except NameError: return x | f(x) | k = 3.0
        that is deleted | new | k = 2.0⏎def f(x):⏎ try: return x * k⏎ except NameError: return x | f(x) | del k
        that the code does not name | same | k = 2.0 | x * 2.0 | k = 3.0
        that hides a builtin | new | k = 1 | x * abs(-2.0) | abs = lambda x: 3.0
        a builtin that is replaced | new | import builtins⏎builtins.double = lambda k: k * 2.0 | double(x) | builtins.double = lambda k: k * 3.0
        a Tensor | new | k = Tensor[NumPy].from_data([2.0]) | x * k | k = Tensor[NumPy].from_data([3.0])
        a module of layers | new | k = nn.Linear(1, 1, device=NumPy) | k(x) | k = k.map(lambda w: w * 2.0)
        a module's attribute | new | m = types.ModuleType("m")⏎m.k = 2.0 | x * m.k | m.k = 3.0
        a module's attribute that appears | new | m = types.ModuleType("m") | x * getattr(m, "k", 2.0) | m.k = 3.0
        an attribute of an installed module | new | operator.k = 2.0 | x * operator.k | operator.k = 3.0
        """),
    *_rows("Containers", """
        a list's element | new | k = [2.0] | x * k[0] | k[0] = 3.0
        a list's length | new | k = [2.0] | x * len(k) | k.append(1.0)
        a list's order | new | k = [2.0, 3.0] | x * k[0] | k.reverse()
        a list in a list | new | k = [[2.0]] | x * k[0][0] | k[0][0] = 3.0
        a list in itself | new | k = [2.0]⏎k.append(k) | x * k[1][0] | k[0] = 3.0
        a list in a tuple | new | k = ([2.0],) | x * k[0][0] | k[0][0] = 3.0
        an equal list | new | k = [2.0] | x * k[0] | k = [2.0]
        a tuple | new | k = (2.0,) | x * k[0] | k = (3.0,)
        an equal tuple | same | k = (1, 2.0) | x * k[0] | k = tuple([1, float("2")])
        a named tuple | new | P = collections.namedtuple("P", "k")⏎k = P(2.0) | x * k.k | k = P(3.0)
        a dict's value | new | k = {"a": 2.0} | x * k["a"] | k["a"] = 3.0
        a dict's keys | new | k = {"a": 2.0} | x * len(k) | k["b"] = 1.0
        a dict's order | new | k = {"a": 2.0, "b": 3.0} | x * next(iter(k.values())) | k["a"] = k.pop("a")
        a dict's missing key | new | k = {} | x * k.get("a", 2.0) | k["a"] = 3.0
        a list in a dict | new | k = {"a": [2.0]} | x * k["a"][0] | k["a"][0] = 3.0
        an ordered dict | new | k = collections.OrderedDict(a=2.0, b=3.0) | x * [*k.values()][0] | k.move_to_end("a")
        a default dict | new | k = collections.defaultdict(float, a=2.0) | x * k["a"] | k["a"] = 3.0
        a Counter | new | k = collections.Counter("aa") | x * k["a"] | k.update("a")
        a set | new | k = {2.0} | x * sum(k) | k.add(3.0)
        a deque | new | k = collections.deque([2.0]) | x * k[0] | k.appendleft(3.0)
        a mapping proxy | new | d = {"a": 2.0}⏎k = types.MappingProxyType(d) | x * k["a"] | d["a"] = 3.0
        a UserDict | new | k = collections.UserDict(a=2.0) | x * k["a"] | k["a"] = 3.0
        a UserList | new | k = collections.UserList([2.0]) | x * k[0] | k[0] = 3.0
        a ChainMap | new | k = collections.ChainMap({}, {"a": 2.0}) | x * k["a"] | k["a"] = 3.0
        a later map of a ChainMap | new | d = {"a": 2.0}⏎k = collections.ChainMap({}, d) | x * k["a"] | d["a"] = 3.0
        the values of a dict | new | d = {"a": 2.0}⏎k = d.values() | x * sum(k) | d["b"] = 3.0
        the items of a dict | new | d = {"a": 2.0}⏎k = d.items() | x * [*k][0][1] | d["a"] = 3.0
        a simple namespace | new | k = types.SimpleNamespace(a=2.0) | x * k.a | k.a = 3.0
        a subclass of list | new | class L(list): pass⏎k = L([2.0]) | x * k[0] | k[0] = 3.0
        a subclass of dict with attributes | new | class D(dict): pass⏎k = D()⏎k.a = 2.0 | x * k.a | k.a = 3.0
        a dict of functions | new | k = {"f": lambda x: x} | k["f"](x) | k["f"] = lambda x: x * 2.0
        a list of tensors | new | k = [Tensor[NumPy].from_data([2.0])] | x * k[0] | k[0] = Tensor[NumPy].from_data([3.0])
        a list of layers | new | k = [nn.Linear(1, 1, device=NumPy)] | k[0](x) | k[0] = k[0].map(lambda w: w * 2.0)
        an unread entry of a dict | new | k = {"a": 2.0} | x * k["a"] | k["b"] = 1.0
        """),
    *_rows("Attributes of objects", """
        of an instance | new | o = Object() | x * o.k | o.k = 3.0
        that is deleted for the class's | new | o = Sub()⏎o.k = 5.0 | x * o.k | del o.k
        that hides the class's | new | o = Sub() | x * o.k | o.k = 3.0
        of the class | new | o = Base() | x * o.k | Base.k = 3.0
        of a base class | new | o = Sub() | x * o.k | Base.k = 3.0
        of a subclass that hides the base's | new | o = Sub() | x * o.k | Sub.k = 5.0
        of an object's attribute | new | o = Object(Object()) | x * o.k.k | o.k.k = 3.0
        a list | new | o = Object([2.0]) | x * o.k[0] | o.k[0] = 3.0
        a slot | new | o = Slots() | x * o.k | o.k = 3.0
        a slot that is deleted | new | o = Slots() | x * getattr(o, "k", 5.0) | del o.k
        that a property reads | new | o = Object() | x * o.twice | o.k = 3.0
        that a method reads | new | o = Object() | o.scaled(x) | o.k = 3.0
        that a bound method reads | new | f = Object().scaled | f(x) | f.__self__.k = 3.0
        of an object that is called | new | class C(Object):⏎ def __call__(self, x): return x * self.k⏎o = C() | o(x) | o.k = 3.0
        of a data class | new | @dataclasses.dataclass⏎class D: k: float = 2.0⏎o = D() | x * o.k | o.k = 3.0
        of a frozen data class | new | @dataclasses.dataclass(frozen=True)⏎class D: k: float = 2.0⏎o = D() | x * o.k | o = D(3.0)
        of a function | new | def f(x): return x * f.k⏎f.k = 2.0 | f(x) | f.k = 3.0
        of a function, that appears | new | def f(x): return x * getattr(f, "k", 2.0) | f(x) | f.k = 3.0
        of a partial function, that appears | new | f = functools.partial(abs) | x * getattr(f, "k", 2.0) | f.k = 3.0
        of a function with a cache, that appears | new | f = functools.cache(lambda: 2.0) | x * getattr(f, "k", 2.0) | f.k = 3.0
        of an object that wraps a function | new | class W(Object):⏎ def __call__(self, x): return self.__wrapped__(x) * self.k⏎w = functools.update_wrapper(W(), lambda x: x) | w(x) | w.k = 3.0
        of an ordered dict, that appears | new | o = collections.OrderedDict() | x * getattr(o, "k", 2.0) | o.k = 3.0
        of a number of a subclass | new | class F(float): pass⏎o = F(2.0)⏎o.k = 2.0 | x * o.k | o.k = 3.0
        of a text of a subclass, that appears | new | class S(str): pass⏎o = S("a") | x * getattr(o, "k", 2.0) | o.k = 3.0
        of an enum's member, that appears | new | E = enum.Enum("E", "a", module=__name__)⏎o = E.a | x * getattr(o, "k", 2.0) | o.k = 3.0
        of a subclass of int | new | class I(int): k = 2.0⏎o = I(1) | x * o.k | I.k = 3.0
        of a subclass of arrays | new | class A(np.ndarray): k = 2.0⏎o = np.ones(2).view(A) | x * o.k | A.k = 3.0
        of an array of a subclass, that appears | new | class A(np.ndarray): pass⏎o = np.ones(2).view(A) | x * getattr(o, "k", 2.0) | o.k = 3.0
        of an object of NumPy's | new | o = np.poly1d([2.0]) | x * float(o(1.0)) | o.coeffs[0] = 3.0
        an exception's args | new | o = ValueError(2.0) | x * o.args[0] | o.args = (3.0,)
        a method set later on the instance | new | o = Object() | o.scaled(x) | o.scaled = lambda x: x * 7.0
        a method set later on the class | new | o = Object() | o.scaled(x) | Object.scaled = lambda self, x: x * 7.0
        a method set later on a subclass | new | class S(Object): pass⏎o = S() | o.scaled(x) | S.scaled = lambda self, x: x * 7.0
        a property set later on the class | new | o = Object() | x * o.k | Object.k = property(lambda self: 7.0)
        hasattr | new | o = Object() | x * 2.0 if hasattr(o, "other") else x | o.other = 1
        hasattr of the class's | new | o = Object() | x * 2.0 if hasattr(o, "other") else x | Object.other = 1
        getattr with a default | new | o = Object() | x * getattr(o, "other", 2.0) | o.other = 3.0
        getattr with a text | new | o = Object() | x * getattr(o, "k") | o.k = 3.0
        getattr with a computed name | new | o, n = Object(), "k" | x * getattr(o, n) | o.k = 3.0
        getattr with a joined name | new | o = Object()⏎o.kk = 2.0 | x * getattr(o, "k" * 2) | o.kk = 3.0
        except AttributeError | new | o = Object()⏎def f(x):⏎ try: return x * o.other⏎ except AttributeError: return x | f(x) | o.other = 3.0
        vars | new | o = Object() | x * vars(o)["k"] | o.k = 3.0
        __dict__ | new | o = Object() | x * o.__dict__["k"] | o.k = 3.0
        another __dict__ | new | o = Object() | x * o.k | o.__dict__ = {"k": 3.0}
        attrgetter | new | o, g = Object(), operator.attrgetter("k") | x * g(o) | o.k = 3.0
        attrgetter inside | new | o = Object() | x * operator.attrgetter("k")(o) | o.k = 3.0
        methodcaller | new | o, g = Object(), operator.methodcaller("scaled", 1.0) | x * g(o) | o.k = 3.0
        a match statement | new | o = Object()⏎def f(x):⏎ match o:⏎  case Object(k=k): return x * k | f(x) | o.k = 3.0
        dataclasses.asdict | new | @dataclasses.dataclass⏎class D: k: float = 2.0⏎o = D() | x * dataclasses.asdict(o)["k"] | o.k = 3.0
        copy.copy | new | o = Object() | x * copy.copy(o).k | o.k = 3.0
        format | new | o = Object() | x * float("{0.k}".format(o)) | o.k = 3.0
        __getattr__ | new | class G:⏎ d = {"a": 2.0}⏎ def __getattr__(self, name): return self.d[name]⏎o = G() | x * o.a | G.d["a"] = 3.0
        __getitem__ | new | class G(Object):⏎ def __getitem__(self, i): return self.k⏎o = G() | x * o[0] | o.k = 3.0
        __len__ | new | class G(Object):⏎ def __len__(self): return self.k⏎o = G(2) | x * len(o) | o.k = 3
        an iterator of its own | new | class G(Object):⏎ def __iter__(self): return iter(self.k)⏎o = G([2.0]) | x * sum(o) | o.k.append(1.0)
        another __call__ | new | class C:⏎ def __call__(self, x): return x⏎o = C() | o(x) | C.__call__ = lambda self, x: x * 2.0
        a __bool__ that appears | new | o = Object() | x if o else x * 2.0 | Object.__bool__ = lambda self: False
        a __eq__ that appears | new | o = Object() | x * 2.0 if o == 1 else x | Object.__eq__ = lambda self, other: True
        a __str__ that appears | new | o = Object() | x * 2.0 if f"{o}" == "k" else x | Object.__str__ = lambda self: "k"
        a __getattribute__ that appears | new | o = Object() | x * o.k | Object.__getattribute__ = lambda o, n: 3.0 if n == "k" else object.__getattribute__(o, n)
        another __init__ | new | k = 1 | x * Object().k | Object.__init__ = lambda self: setattr(self, "k", 3.0)
        an __init__ that appears | new | k = 1 | x * Sub().k | Sub.__init__ = lambda self: setattr(self, "k", 3.0)
        a __new__ that appears | new | k = 1 | x * Sub().k | Sub.__new__ = lambda cls: Object(3.0)
        the value of an enum's member | new | class E(enum.Enum): a = 2.0 | x * E.a.value | E.a._value_ = 3.0
        a runtime protocol | new | import typing⏎@typing.runtime_checkable⏎class A(typing.Protocol): twice_as: float⏎o = Object() | x * 2.0 if isinstance(o, A) else x | o.twice_as = 1.0
        the subclasses | new | class A: pass | x * len(A.__subclasses__()) | class B(A): pass
        a function for each type | new | @functools.singledispatch⏎def f(k, x): return x * 2.0 | f(1, x) | f.register(int, lambda k, x: x * 3.0)
        a class that is registered | new | import abc⏎class A(abc.ABC): pass⏎o = Object() | x * 2.0 if isinstance(o, A) else x | A.register(Object)
        another class | new | class A(Object): twice = 5.0⏎o = Object() | x * o.twice | o.__class__ = A
        other base classes | new | class A(Base): k = 4.0⏎class B(Base): pass⏎class C(B): pass⏎o = C() | x * o.k | C.__bases__ = (A,)
        of a class | new | k = 1 | x * Base.k | Base.k = 3.0
        of a class that a subclass hides | new | k = 1 | x * Sub.k | Sub.k = 3.0
        a class method | same | class C:⏎ s = 2.0⏎ @classmethod⏎ def f(cls, x): return x * cls.s | C.f(x) | pass
        what a class method reads | new | class C:⏎ s = 2.0⏎ @classmethod⏎ def f(cls, x): return x * cls.s | C.f(x) | C.s = 3.0
        what a static method reads | new | k = 2.0⏎class C:⏎ @staticmethod⏎ def f(x): return x * k | C.f(x) | k = 3.0
        a property of a metaclass | new | class M(type):⏎ s = 2.0⏎ @property⏎ def p(cls): return cls.s⏎class C(metaclass=M): pass | x * C.p | M.s = 3.0
        a property of a metaclass that appears | new | class M(type): pass⏎class C(metaclass=M): k = 2.0 | x * C.k | M.k = property(lambda cls: 3.0)
        a __call__ of a metaclass that appears | new | class M(type): pass⏎class C(metaclass=M): k = 2.0 | x * C().k | M.__call__ = lambda cls: Object(3.0)
        the name of a class | new | k = 1 | x * len(Base.__name__) | Base.__name__ = "B"
        what super() finds | new | class C(Object):⏎ def scaled(self, x): return super().scaled(x)⏎o = C() | o.scaled(x) | o.k = 3.0
        a descriptor | new | class D:⏎ v = 2.0⏎ def __get__(self, o, c): return self.v⏎class C: k = D()⏎o = C() | x * o.k | D.v = 3.0
        a cached property | same | class C:⏎ @functools.cached_property⏎ def k(self): return 2.0⏎o = C() | x * o.k | pass
        in a module of layers | new | class N(nn.Module):⏎ def __init__(self, c): self.c = c⏎ def forward(self, x): return x * self.c.k⏎c = Object()⏎n = N(c) | n(x) | c.k = 3.0
        that the code does not name | same | o = Object() | x * o.k | o.other = 3.0
        of the same name on an unread object | same | o, p = Object(), Object() | x * o.k | p.k = 3.0
        """),
    *_rows("Functions", """
        another function | new | f = lambda x: x | f(x) | f = lambda x: x * 2.0
        other code | new | def f(x): return x | f(x) | f.__code__ = (lambda x: x * 2.0).__code__
        other defaults | new | def f(x, k=2.0): return x * k | f(x) | f.__defaults__ = (3.0,)
        a default's list | new | def f(x, k=[2.0]): return x * k[0] | f(x) | f.__defaults__[0][0] = 3.0
        other defaults by name | new | def f(x, *, k=2.0): return x * k | f(x) | f.__kwdefaults__ = {"k": 3.0}
        a default by name | new | def f(x, *, k=2.0): return x * k | f(x) | f.__kwdefaults__["k"] = 3.0
        a partial function's list | new | f = functools.partial(lambda k, x: x * k[0], [2.0]) | f(x) | f.args[0][0] = 3.0
        a partial function's keywords | new | f = functools.partial(lambda x, k: x * k, k=2.0) | f(x) | f.keywords["k"] = 3.0
        a partial function's state | new | f = functools.partial(lambda k, x: x * k, 2.0) | f(x) | f.__setstate__((f.func, (3.0,), {}, {}))
        the name of a function | new | def f(x): return x * len(f.__name__) | f(x) | f.__name__ = "ff"
        behind functools.wraps | new | k = 2.0⏎def d(g): return functools.wraps(g)(lambda x: g(x))⏎@d⏎def f(x): return x * k | f(x) | k = 3.0
        a function of an attribute | new | o = Object(lambda x: x) | o.k(x) | o.k = lambda x: x * 2.0
        a recursive function | new | k = 2.0⏎def f(x, n): return x * k if n == 0 else f(x, n - 1) | f(x, 3) | k = 3.0
        an imported function | new | from math import sqrt as f | x * f(4.0) | f = lambda x: 7.0
        """),
    *_rows("Arrays and buffers", """
        a small NumPy array | new | k = np.array([2.0]) | x * float(k[0]) | k[0] = 3.0
        a 0-d array | new | k = np.array(2.0) | x * float(k) | k[...] = 3.0
        an array's shape | new | k = np.zeros((2, 3)) | x * k.shape[0] | k = k.reshape(3, 2)
        an array of bfloat16 | new | import ml_dtypes⏎k = np.ones(1, ml_dtypes.bfloat16) | x * float(k[0]) | k[0] = 3.0
        a part of an array | new | w = np.ones(4)⏎k = w[:2] | x * float(k[0]) | w[0] = 3.0
        a read-only part of an array | new | w = np.ones(4)⏎k = w[:2]⏎k.flags.writeable = False | x * float(k[0]) | w[0] = 3.0
        an array that is opened and locked again | new | k = np.ones(1)⏎k.flags.writeable = False | x * float(k[0]) | k.flags.writeable = True⏎k[0] = 3.0⏎k.flags.writeable = False
        an array of objects | new | k = np.array([2.0, "a"], object) | x * k[0] | k[0] = 3.0
        a list in an array of objects | new | k = np.empty(1, object)⏎k[0] = [2.0] | x * k[0][0] | k[0][0] = 3.0
        a list in itself in an array of objects | new | k = np.empty(1, object)⏎k[0] = [2.0]⏎k[0].append(k[0]) | x * k[0][1][0] | k[0][0] = 3.0
        the shape of an array of objects | new | k = np.array([2.0, "a"], object) | x * k.ndim | k.resize((1, 2), refcheck=False)
        a large NumPy array | refused | k = np.ones(2000) | x * float(k[0]) | k[0] = 3.0
        the values of a large Tensor | same | k = Tensor[NumPy].ones((2000,)).to_numpy() | x * float(k[0]) | pass
        array.array | refused | k = array.array("d", [2.0]) | x * k[0] | k[0] = 3.0
        a bytearray | refused | k = bytearray(b"a") | x * k[0] | k[0] = 3
        a memoryview | refused | k = memoryview(bytearray(b"a")) | x * k[0] | k[0] = 3
        a number of ctypes | refused | k = ctypes.c_double(2.0) | x * k.value | k.value = 3.0
        a memoryview of bytes | same | k = memoryview(b"a") | x * k[0] | pass
        a file in memory | refused | k = io.BytesIO(b"ab") | x * len(k.read(1)) | k.write(b"a")
        """),
    *_rows("Iterators, context and the world outside", """
        next(iterator) | refused | k = iter([2.0, 3.0]) | x * next(k) | pass
        itertools.count | refused | k = itertools.count() | x * next(k) | pass
        a generator | refused | k = (float(n) for n in range(9)) | x * next(k) | pass
        a map | refused | k = map(float, range(9)) | x * next(k) | pass
        an iterator in a list | refused | k = [iter([2.0])] | x * next(k[0]) | pass
        a bound __next__ | refused | k = itertools.count().__next__ | x * k() | pass
        ContextVar | refused | k = contextvars.ContextVar("k", default=2.0) | x * k.get() | k.set(3.0)
        threading.local | refused | k = threading.local()⏎k.a = 2.0 | x * k.a | k.a = 3.0
        os.environ | refused | k = 1 | x * len(os.environ) | pass
        os.getenv | refused | k = 1 | x * len(os.getenv("HOME") or "") | pass
        environ of an import | refused | from os import environ | x * len(environ) | pass
        environ of an import inside | refused | def f(x):⏎ import os⏎ return x * len(os.environ) | f(x) | pass
        os.getcwd | refused | k = 1 | x * len(os.getcwd()) | pass
        time.time | refused | k = 1 | x * time.time() | pass
        a function of time | refused | from time import perf_counter | x * perf_counter() | pass
        datetime.now | refused | k = 1 | x * datetime.datetime.now().microsecond | pass
        datetime.now by an alias | refused | k = datetime.datetime | x * k.now().microsecond | pass
        a clock that is an attribute | refused | o = Object(time.perf_counter) | x * o.k() | pass
        os.cpu_count | refused | k = 1 | x * os.cpu_count() | pass
        sys.getrecursionlimit | refused | k = 1 | x * sys.getrecursionlimit() | pass
        gc.get_objects | refused | import gc | x * len(gc.get_objects()) | pass
        the current thread | refused | k = 1 | x * len(threading.current_thread().name) | pass
        a thread | refused | k = threading.current_thread() | x * len(k.name) | pass
        an event | refused | k = threading.Event() | x * 2.0 if k.is_set() else x | pass
        a decimal context | refused | import decimal | x * decimal.getcontext().prec | pass
        options of NumPy | refused | k = 1 | x * np.get_printoptions()["precision"] | pass
        globals() | refused | k = 2.0 | x * globals()["k"] | pass
        eval | refused | k = 2.0 | x * eval("k") | pass
        the level of a logger | new | import logging⏎k = logging.getLogger("a_logger") | x * 2.0 if k.isEnabledFor(15) else x | k.setLevel(10)
        os.path.join | same | k = 1 | x * len(os.path.join("a", "b")) | pass
        secrets | refused | k = 1 | x * secrets.randbelow(9) | pass
        uuid | refused | k = 1 | x * (uuid.uuid4().int % 9) | pass
        a file | refused | k = 1 | x * len(open("/dev/null").read()) | pass
        a path's file | refused | k = Path("/dev/null") | x * len(k.read_text()) | pass
        the file of a path made inside | refused | k = 1 | x * len(Path("/dev/null").read_text()) | pass
        a path | new | k = Path("/a") | x * len(k.name) | k = Path("/ab")
        a file of NumPy's | refused | k = 1 | x * float(np.loadtxt("numbers.txt")) | pass
        random | refused | k = 1 | x * random.random() | pass
        numpy.random | refused | k = 1 | x * float(np.random.rand()) | pass
        a bit generator | refused | k = np.random.PCG64(0) | x * (k.random_raw() % 7) | pass
        a NumPy generator | refused | k = np.random.default_rng(0) | x * k.random() | pass
        a Python generator of random numbers | refused | k = random.Random(0) | x * k.random() | pass
        a generator without a seed | refused | k = 1 | x * np.random.default_rng().random() | pass
        a generator of Python's without a seed | refused | k = 1 | x * random.Random().random() | pass
        a generator with a seed | same | k = 1 | x * np.random.default_rng(0).random() | pass
        a weak reference | refused | o = Object()⏎k = weakref.ref(o) | x * k().k | pass
        a weak dict | refused | o = Object()⏎k = weakref.WeakValueDictionary(a=o) | x * len(k) | pass
        """),
    *_rows("Modules that the function imports", """
        a module | new | m = sys.modules["a_mod"] = types.ModuleType("a_mod")⏎m.k = 2.0⏎def f(x):⏎ import a_mod⏎ return x * a_mod.k | f(x) | m.k = 3.0
        a name of a module | new | m = sys.modules["a_mod"] = types.ModuleType("a_mod")⏎m.k = 2.0⏎def f(x):⏎ from a_mod import k⏎ return x * k | f(x) | m.k = 3.0
        another module | new | m = sys.modules["a_mod"] = types.SimpleNamespace(k=2.0)⏎def f(x):⏎ from a_mod import k⏎ return x * k | f(x) | sys.modules["a_mod"] = types.SimpleNamespace(k=3.0)
        that appears later | new | sys.modules.pop("a_mod", None)⏎def f(x):⏎ try:⏎  import a_mod⏎ except ImportError: return x⏎ return x * 2.0 | f(x) | sys.modules["a_mod"] = types.ModuleType("a_mod")
        a package of a module | new | p = sys.modules["a_pkg"] = types.ModuleType("a_pkg")⏎p.k, p.b = 2.0, types.ModuleType("a_pkg.b")⏎sys.modules["a_pkg.b"] = p.b⏎def f(x):⏎ import a_pkg.b⏎ return x * a_pkg.k | f(x) | p.k = 3.0
        a module by another name | new | p = sys.modules["a_pkg"] = types.ModuleType("a_pkg")⏎p.b = sys.modules["a_pkg.b"] = types.ModuleType("a_pkg.b")⏎p.b.k = 2.0⏎def f(x):⏎ import a_pkg.b as m⏎ return x * m.k | f(x) | p.b.k = 3.0
        a relative module | new | __package__, p = "a_pkg", types.ModuleType("a_pkg")⏎p.__path__, p.b = [], types.ModuleType("a_pkg.b")⏎sys.modules.update({"a_pkg": p, "a_pkg.b": p.b})⏎p.b.k = 2.0⏎def f(x):⏎ from .b import k⏎ return x * k | f(x) | p.b.k = 3.0
        a module of a relative package | new | __package__, p = "a_pkg", types.ModuleType("a_pkg")⏎p.__path__, p.b = [], types.ModuleType("a_pkg.b")⏎sys.modules.update({"a_pkg": p, "a_pkg.b": p.b})⏎p.b.k = 2.0⏎def f(x):⏎ from . import b⏎ return x * b.k | f(x) | p.b.k = 3.0
        __getattr__ of a module | new | m, k = types.ModuleType("a_mod"), [2.0]⏎m.__getattr__ = lambda name: k[0] | x * m.k | k[0] = 3.0
        importlib.import_module | refused | import importlib | x * importlib.import_module("math").pi | pass
        __import__ | refused | k = 1 | x * __import__("math").pi | pass
        the time by an import inside | refused | def f(x):⏎ from datetime import datetime⏎ return x * datetime.now().day | f(x) | pass
        """),
    *_rows("Changes that the function makes", """
        a list that grows | refused | k = [] | (k.append(1), x)[1] | pass
        a counter | refused | o = Object() | (setattr(o, "k", o.k + 1.0), x * o.k)[1] | pass
        a cache that is filled once | same | d = {}⏎def f(x):⏎ if 1 not in d: d[1] = 2.0⏎ return x * d[1] | f(x) | pass
        """),
]  # fmt: skip


def page() -> str:
    """Return the page of the kinds and their outcomes."""
    counts = {outcome: sum(kind.outcome == outcome for kind in KINDS) for outcome in (NEW, SAME, REFUSED)}
    lines = [
        "# Which changes make another plan",
        "",
        "A compiled function reads what is outside of its arguments: see [Compiled functions](compile.md#variables-from-outside).",
        f"Each of these {len(KINDS)} kinds of state changes between two calls in `tests/func/compiled/test_captured.py`, which compares the second call with eager mode:",
        f"{counts[NEW]} make a new plan, {counts[SAME]} keep the plan as nothing changes that the function reads, and {counts[REFUSED]} are refused in the first call.",
    ]
    for group in dict.fromkeys(kind.group for kind in KINDS):
        lines += ["", f"## {group}", "", "| state | after a change |", "| --- | --- |"]
        lines += [
            f"| {kind.name.replace('__', chr(92) + '_' + chr(92) + '_')} | {kind.outcome} |"
            for kind in KINDS
            if kind.group == group
        ]
    return "\n".join([*lines, ""])
