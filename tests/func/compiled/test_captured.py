"""Variables that a compiled function reads besides its arguments: a change makes another plan, or is refused."""

from __future__ import annotations

import argparse
import functools
import itertools
import random
import sys
import types
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import gauss
from typing import Any, ClassVar

import numpy as np
import pytest
from ml_dtypes import bfloat16

from burnpy import Autodiff, Tensor, compiled, errors, func
from burnpy.backend import NumPy
from burnpy.func.compiling.captured import captured
from burnpy.nn import Linear, Module
from tests.rows import every_row

X = Tensor[NumPy].from_data([1.0])
NUMBER = 2.0
"""Read by functions below, and assigned by the cases."""


def helper(x: Any) -> Any:
    return x * NUMBER


def set_number(value: float) -> None:
    globals()["NUMBER"] = value


class Config:
    default = 2.0
    __slots__ = ("__dict__", "slot")

    def __init__(self) -> None:
        self.scale, self.slot, self.items = 2.0, 2.0, [2.0]

    @property
    def doubled(self) -> float:
        return self.scale * 2.0

    def scaled(self, x: Any) -> Any:
        return x * self.scale


@dataclass
class Nested:
    config: Config


class Net(Module[Any]):
    factor: ClassVar[float] = 2.0

    def __init__(self, config: Config) -> None:
        self.layer, self.config = Linear(1, 1, device=NumPy), config

    def forward(self, x: Any) -> Any:
        return self.layer(x) * self.config.scale * self.factor * NUMBER


def cell() -> tuple[Callable[[Any], Any], Callable[[], None]]:
    scale = 2.0

    def change() -> None:
        nonlocal scale
        scale = 3.0

    return lambda x: x * scale, change


def helper_in_cell() -> tuple[Callable[[Any], Any], Callable[[], None]]:
    inner, change = cell()
    return lambda x: inner(x), change


def of_container(container: Any, key: Any) -> tuple[Callable[[Any], Any], Callable[[], None]]:
    return lambda x: x * container[key], lambda: container.__setitem__(key, 3.0)


def of_attribute(read: Callable[[Any], Any], holder: Any, name: str, value: Any = 3.0) -> Any:
    return read, lambda: setattr(holder, name, value)


config, module_like, namespace = Config(), types.ModuleType("settings_of_the_user"), argparse.Namespace(scale=2.0)
module_like.scale = 2.0  # type: ignore[attr-defined]  # made here
nested: dict[str, Any] = {"a": [2.0]}
array, box, tensors = np.array([2.0], np.float32), [Linear(1, 1, device=NumPy)], {"w": X * 2.0}


class Scaling:
    def __init__(self) -> None:
        self.scale = 2.0

    def __call__(self, x: Any) -> Any:
        return x * self.scale


within, called, bound, part = (
    Nested(config),
    Scaling(),
    Config(),
    functools.partial(lambda x, scale: x * scale[0], scale=[2.0]),
)


def with_default(x: Any, scale: Any = [2.0]) -> Any:  # noqa: B006  # the case
    return x * scale[0]


def counting(x: Any) -> Any:
    return x * float(counting.scale)  # type: ignore[attr-defined]  # set below


counting.scale = 2.0  # type: ignore[attr-defined]  # the case


@functools.lru_cache
def cached(x: Any) -> Any:
    return x * NUMBER


CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[], None]]] = {
    "a variable of an enclosing function": cell(),
    "one of a helper function": helper_in_cell(),
    "a global variable": (lambda x: x * NUMBER, lambda: set_number(3.0)),
    "a global variable of a helper function": (lambda x: helper(x), lambda: set_number(3.0)),
    "a global variable of a function inside": (lambda x: (lambda y: y * NUMBER)(x), lambda: set_number(3.0)),
    "a global variable of a function that is differentiated": (
        func.grad(lambda x: (helper(x) * x).sum()), lambda: set_number(3.0)),
    "a list": of_container([2.0], 0),
    "a list in a dict": (lambda x: x * nested["a"][0], lambda: nested["a"].__setitem__(0, 3.0)),
    "a dict": of_container({"scale": 2.0}, "scale"),
    "a deque": of_container(deque([2.0]), 0),
    "an array": (lambda x: x * Tensor[NumPy].from_data(array), lambda: array.fill(3.0)),
    "tensors in a dict": (lambda x: x * tensors["w"], lambda: tensors.update(w=X * 3.0)),
    "a module in a list": (lambda x: box[0](x), lambda: box.__setitem__(0, box[0].map(lambda w: w * 3.0))),
    "an attribute": of_attribute(lambda x: x * config.scale, config, "scale"),
    "a slot": of_attribute(lambda x: x * config.slot, config, "slot"),
    "a list in an attribute": (lambda x: x * config.items[0], lambda: config.items.__setitem__(0, 3.0)),
    "an attribute of the class": of_attribute(lambda x: x * Config.default, Config, "default"),
    "an attribute of the class of an object": of_attribute(lambda x: x * config.default, config, "default", 4.0),
    "what a property reads": of_attribute(lambda x: x * config.doubled, config, "scale", 5.0),
    "what a method reads": of_attribute(lambda x: config.scaled(x), config, "scale", 6.0),
    "what a bound method reads": of_attribute(bound.scaled, bound, "scale"),
    "an attribute of an attribute": of_attribute(lambda x: x * within.config.scale, config, "scale", 7.0),
    "an attribute of a namespace": of_attribute(lambda x: x * namespace.scale, namespace, "scale"),
    "a variable of a module": of_attribute(lambda x: x * module_like.scale, module_like, "scale"),
    "an attribute of an object that is called": of_attribute(called, called, "scale"),
    "an argument of a partial function": (part, lambda: part.keywords["scale"].__setitem__(0, 3.0)),
    "a default": (with_default, lambda: with_default.__defaults__[0].__setitem__(0, 3.0)),  # type: ignore[index]
    "an attribute of the function": of_attribute(counting, counting, "scale"),
    "what a cached function reads": (lambda x: cached.__wrapped__(x), lambda: set_number(3.0)),
}  # fmt: skip


ARRAYS: dict[str, Any] = {
    "float64": np.array([1.0, np.nan]),
    "bfloat16": np.ones((2, 3), bfloat16),
    "0-d": np.zeros(()),
    "in Fortran's order": np.ones((3, 2), order="F"),
    "of a slice": np.ones((4, 3))[::2, 1:],
    "of text": np.array(["a", "b"]),
    "of dates": np.zeros(2, "datetime64[s]"),
    "of objects": np.array([1, "a"], object),
}


@every_row("name", ARRAYS)
def test_arrays_are_compared_by_their_elements(name: str) -> None:
    x = ARRAYS[name]
    state = captured(lambda y: (y, x))
    assert state.holds()
    x[...] = x[...]
    assert state.holds()
    x.flat[0] = 2
    assert not state.holds()
    assert captured(lambda y: (y, np.empty((0, 3)))).holds()


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_makes_another_plan(name: str) -> None:
    set_number(2.0)
    f, change = CHANGES[name]
    plan: Any = compiled(f)
    np.testing.assert_array_equal(plan(X).to_numpy(), f(X).to_numpy())
    plan(X)
    assert len(plan.plans) == 1
    before = f(X).to_numpy()
    change()
    np.testing.assert_array_equal(plan(X).to_numpy(), f(X).to_numpy())
    assert not np.array_equal(f(X).to_numpy(), before)
    assert len(plan.plans) == 2


def test_arguments_and_modules_are_searched() -> None:
    set_number(2.0)
    settings = Config()
    net = Net(settings)
    calls: dict[str, Any] = {
        "an object": (compiled(lambda x, c: x * c.scale), (X, settings)),
        "a module": (compiled(net), (X.reshape(1, 1),)),
        "a module as an argument": (compiled(lambda m, x: m(x)), (net, X.reshape(1, 1))),
    }
    for plan, arguments in calls.values():
        plan(*arguments)
    settings.scale = 5.0
    for name, (plan, arguments) in calls.items():
        eager = plan.__wrapped__(*arguments) if plan._module is None else net(*arguments)
        np.testing.assert_allclose(plan(*arguments).to_numpy(), eager.to_numpy(), rtol=1e-6, err_msg=name)
    set_number(7.0)
    np.testing.assert_allclose(
        calls["a module"][0](X.reshape(1, 1)).to_numpy(), net(X.reshape(1, 1)).to_numpy(), rtol=1e-6
    )


def test_earlier_values_find_their_plans() -> None:
    f = compiled(lambda x: x * NUMBER)
    for value in (2.0, 3.0, 2.0, 3.0, 2.0):
        set_number(value)
        assert f(X).item() == value
    assert len(f.plans) == 2
    set_number(0.0)
    assert str(f(X).tolist()) == "[0.0]"
    set_number(-0.0)
    assert str(f(X).tolist()) == "[-0.0]"


def test_equal_values_keep_the_plan() -> None:
    settings: dict[str, Any] = {"shape": (2, 1), "scale": 1e3}
    f = compiled(lambda x: x.expand(settings["shape"]) * settings["scale"])
    f(X)
    settings.update(shape=tuple(range(2, 0, -1)), scale=float("1000"))
    f(X)
    assert len(f.plans) == 1
    settings["unused"] = 1  # a dict is compared as a whole
    f(X)
    assert len(f.plans) == 2


def test_arrays_are_compared_as_long_as_they_can_change() -> None:
    whole = np.array([2.0, 3.0], np.float32)
    part, own, shared = whole[:1], np.array([2.0], np.float32), memoryview(bytearray(b"ab"))
    part.flags.writeable = own.flags.writeable = False
    strange = np.frombuffer(shared, np.uint8)
    f = compiled(lambda x: x * float(part[0]) * float(own[0]) * float(strange[0]))
    assert f(X).tolist() == [2.0 * 2.0 * 97.0]
    whole[0] = 5.0  # whose memory a read-only array shows
    assert f(X).tolist() == [5.0 * 2.0 * 97.0]
    own.flags.writeable = True
    own[0] = 3.0
    assert f(X).tolist() == [5.0 * 3.0 * 97.0]
    shared[0] = 98
    assert f(X).tolist() == [5.0 * 3.0 * 98.0]
    assert len(f.plans) == 4
    reads: list[int] = []

    class Counted(np.ndarray):
        def tobytes(self, order: Any = "C") -> bytes:
            reads.append(1)
            return super().tobytes(order)

    large = np.ones(1000, np.float32).view(Counted)
    large.base.flags.writeable = large.flags.writeable = False  # type: ignore[union-attr]
    g = compiled(lambda x: x * float(large[0]))
    assert g(X).tolist() == g(X).tolist() == [1.0]
    assert not reads


def test_what_the_function_does_not_read_is_not_compared() -> None:
    f = compiled(lambda x: x * config.scale)
    f(X)
    config.other = 1  # type: ignore[attr-defined]  # the case
    sys.modules[__name__].unread = 1  # type: ignore[attr-defined]  # the case
    f(X)
    assert len(f.plans) == 1


def test_aliases_of_backends_are_read() -> None:
    """An alias has the methods of its class as attributes, which are other objects each time."""
    train = Autodiff[NumPy]
    f = compiled(lambda x: x + Tensor[train].ones((1,)))
    x = Tensor[train].from_data([1.0])
    assert f(x).tolist() == f(x).tolist() == [2.0]
    assert len(f.plans) == 1


class TestChangesInside:
    """A function that changes what it reads has no replay that does the same."""

    def test_refused(self) -> None:
        losses: list[Any] = []
        state = Config()
        total = 0.0

        def appended(x: Any) -> Any:
            losses.append(1)
            return x

        def assigned(x: Any) -> Any:
            state.scale += 1.0
            return x * state.scale

        def counted(x: Any) -> Any:
            nonlocal total
            total += 1.0
            return x * total

        def globally(x: Any) -> Any:
            global NUMBER
            NUMBER += 1.0
            return x * NUMBER

        for f, name in (
            (appended, "losses, which has other elements now"),
            (assigned, "state.scale, which was 3.0 and is 4.0 now"),
            (counted, "total, which was 1.0 and is 2.0 now"),
            (globally, "NUMBER, which was "),
        ):
            with pytest.raises(errors.RecordingError, match=f"changes {name}.*pass it as an argument"):
                compiled(f)(X)

    def test_caches_may_be_filled(self) -> None:
        known: dict[int, float] = {}

        def factor(k: int) -> float:
            if k not in known:
                known[k] = k * 2.0
            return known[k]

        class Lazy:
            @functools.cached_property
            def value(self) -> float:
                return 3.0

        lazy = Lazy()
        f = compiled(lambda x: x * factor(3) * lazy.value)
        assert [f(X).item() for _ in range(3)] == [18.0] * 3
        assert len(f.plans) == 1

    def test_random_numbers_are_refused(self) -> None:
        rng, python = np.random.default_rng(0), random.Random(0)
        for f in (
            lambda x: x * random.random(),
            lambda x: x * gauss(0.0, 1.0),
            lambda x: x * python.random(),
            lambda x: x * rng.random(),
            lambda x: x * float(np.random.rand()),  # the case
        ):
            with pytest.raises(errors.RecordingError, match=r"draws random numbers by \w+.*Tensor.uniform"):
                compiled(f)(X)
        f = compiled(lambda x: x * rng.random() if NUMBER < -1.0 else x)
        f(X)
        rng.random()  # which is no change in anything that it reads
        f(X)
        assert len(f.plans) == 1

    def test_a_counter_of_an_extension_is_found_by_check(self) -> None:
        counter = itertools.count()
        with pytest.raises(errors.RecordingError, match="depends on something else"):
            compiled(lambda x: x * float(next(counter)), check=True)(X)


def test_recursive_code_and_strange_objects() -> None:
    class Strange:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    strange = Strange()
    ring: list[Any] = [1.0]
    ring.append(ring)

    def fall(n: int) -> int:
        return 0 if n == 0 else fall(n - 1)

    f: Callable[[Any], Any] = lambda x: x * ring[0] * (fall(3) + 1) * (strange is not None)  # noqa: E731
    assert captured(f).holds()
    assert compiled(f)(X).tolist() == [1.0]
