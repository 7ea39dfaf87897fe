"""Variables that a compiled function reads besides its arguments: a change makes another plan, or is refused."""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import random
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from random import gauss
from typing import Any, ClassVar

import numpy as np
import pytest
from ml_dtypes import bfloat16

from burnpy import Autodiff, Tensor, compiled, errors
from burnpy.backend import NumPy
from burnpy.func.compiling.captured import captured
from burnpy.metrics import Mean
from burnpy.nn import Linear, Module
from tests.func.compiled.captured_kinds import KINDS, NEW, REFUSED, Kind, program
from tests.func.compiled.random_state import RandomState
from tests.interrupting import LONG
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


@pytest.mark.slow
@every_row("kind", KINDS, ids=lambda kind: f"{kind.group}: {kind.name}")
def test_kinds_of_state(kind: Kind) -> None:
    """A change that eager mode sees makes another plan, or the function is refused at its first call."""
    function, *_ = made = program(kind)
    plan: Any = compiled(function)
    if kind.outcome == REFUSED:
        with pytest.raises(errors.RecordingError, match=r"pass|draws"):
            plan(X)
        return
    np.testing.assert_array_equal(plan(X).to_numpy(), function(X).to_numpy())
    plan(X)
    assert len(plan.plans) == 1
    made.changed()
    np.testing.assert_array_equal(plan(X).to_numpy(), function(X).to_numpy())
    assert len(plan.plans) == (2 if kind.outcome == NEW else 1)


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
        counter = functools.partial(next, itertools.count())
        calls = types.ModuleType("numpy.calls")  # of an installed package, which is trusted
        calls.counter = counter  # type: ignore[attr-defined]  # made here
        with pytest.raises(errors.RecordingError, match="depends on something else"):
            compiled(lambda x: x * float(calls.counter()), check=True)(X)


def test_recursive_code_and_strange_objects() -> None:
    class Strange:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    strange = Strange()
    ring: list[Any] = [1.0]
    ring.append(ring)

    def fall(n: int) -> int:
        return 0 if n == 0 else fall(n - 1)

    class OfPyTorch:
        def named_modules(self) -> Any:  # as in torch.nn.Module, which yields pairs
            yield "", self

    other: Any = OfPyTorch()
    f: Callable[[Any], Any] = lambda x: x * ring[0] * (fall(3) + 1) * (strange is not other)  # noqa: E731
    assert captured(f).holds()
    assert compiled(f)(X).tolist() == [1.0]
    with pytest.raises(errors.KindError, match="contains itself"):
        compiled(lambda x, ring: x * ring[0])(X, ring)


def test_captured_constant() -> None:
    """Everything outside is a constant, as the first call finds it, also what is refused otherwise."""
    numbers, counter = [2.0], itertools.count(5)
    f = compiled(lambda x: x * numbers[0] * next(counter), captured="constant")
    assert f(X).item() == 10.0
    numbers[0] = 3.0
    assert f(X).item() == 10.0
    assert len(f.plans) == 1
    any_compiled: Any = compiled
    for wrong in ({"captured": "free"}, {"max_plans": 0}, {"max_plans": 2.0}):
        with pytest.raises(errors.ArgumentError, match=f"{next(iter(wrong))}="):
            any_compiled(lambda x: x, **wrong)


def test_arguments_that_are_objects() -> None:
    """An argument that is not a tree is compared by its contents, or refused."""
    f = compiled(lambda x, data: x * data["k"])
    data = collections.UserDict(k=2.0)
    assert f(X, data).item() == 2.0
    data["k"] = 3.0
    assert f(X, data).item() == 3.0
    for wrong in (bytearray(b"a"), iter([1.0]), memoryview(bytearray(b"a"))):
        with pytest.raises(errors.RecordingError, match="pass its value as an argument"):
            compiled(lambda x, k: x)(X, wrong)


def test_a_named_tuple_may_have_a_field_named_values() -> None:
    named: Any = collections.namedtuple("named", "values")((2.0, 3.0))  # its field is what counts
    assert compiled(lambda x: x * named.values[1])(X).item() == 3.0


def test_the_array_of_a_user_stays_open() -> None:
    k = np.ones(3)
    compiled(lambda x: x * float(k[0]))(X)
    assert k.flags.writeable


def test_explanations_name_what_a_plan_depends_on() -> None:
    state = Config()
    f = compiled(lambda x: x * state.scale * NUMBER)
    for _ in range(3):
        f(X)
    text = str(f.explain(X))
    assert "ran 3 times" in text
    assert "state.scale" in text
    assert "NUMBER" in text


def test_the_plan_that_was_used_longest_ago_goes() -> None:
    recorded: list[int] = []

    def double(x: Tensor[NumPy]) -> Tensor[NumPy]:
        recorded.append(x.shape[0])
        return x * 2.0

    f = compiled(double, captured="constant", max_plans=3)
    with pytest.warns(RuntimeWarning, match=r"has 3 plans, of at most 3 .*x is Tensor\(3,\).*after Tensor\(2,\).*pad"):
        _ = [f(Tensor[NumPy].ones((n,))) for n in (1, 2, 3, 1, 4, 1, 2, 4)]
    assert recorded == [1, 2, 3, 4, 2]
    assert len(f.plans) == 3


def test_the_warning_of_many_plans_names_parts_of_registered_classes_by_number() -> None:
    f = compiled(lambda mean: mean.sum / mean.weight, max_plans=3)
    with pytest.warns(RuntimeWarning, match=r"because mean\[0\] is Tensor\(3,\).*after Tensor\(2,\)"):
        _ = [f(Mean(sum=Tensor[NumPy].ones((n,)), weight=Tensor[NumPy].ones((1,)))) for n in (1, 2, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100 if LONG else 2))
def test_changes_of_random_state(seed: int) -> None:
    """Random objects of objects, read along a random path: after each change the plan is right, or has the error."""
    rng = random.Random(seed)
    for _ in range(100):
        state = RandomState(rng)
        plan: Any = compiled(state.function)
        for _ in range(4):
            assert state.outcome(plan, X) == state.outcome(state.function, X), (state.expression, state.done)
            state.change()
