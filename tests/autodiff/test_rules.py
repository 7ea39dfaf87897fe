"""Every operation has a rule or needs none, rules fit their operations, and a wrong rule does not pass gradcheck."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from itertools import product
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.autodiff import Forward, no_grad
from burnpy.autodiff.autodiff import MethodAtFirstUse, autodiff_method
from burnpy.autodiff.codegen import source
from burnpy.autodiff.forward_methods import forward_method
from burnpy.autodiff.rule_table import RULES, rule_of
from burnpy.backend import Algebra, Backend, NumPy, operations
from burnpy.backend.entries import operation
from burnpy.backend.primitives import Float
from burnpy.backend.rules import identity
from burnpy.backend.schema import derived
from burnpy.testing import GradcheckError, gradcheck, gradgradcheck
from burnpy.testing.cases import PROPERTIES, ROWS
from tests.rows import every_row

DIFFERENTIABLE = [
    op
    for op in operations().values()
    if op.algebra is not Algebra.NONDIFFERENTIABLE and op.float_arguments and any(op.float_results)
]
SLOPES = {"igamma_slope", "zeta_slope"}
"""Derivatives with respect to a parameter, which are checked as first and second derivatives of the function itself."""
CHECKED = [op for op in DIFFERENTIABLE if op.name not in PROPERTIES.keys() | SLOPES]
"""Those that draw no random numbers, whose gradients `tests/tensor/test_distributions.py` checks."""


def test_differentiable_operations_have_a_rule_or_a_default() -> None:
    assert not [op.name for op in DIFFERENTIABLE if op.required and op.name not in RULES]


def test_differentiable_operations_are_checked_with_differences() -> None:
    assert not [op.name for op in CHECKED if not ROWS[op.name].gradients]
    rough = [op.name for op in CHECKED if not any(map(ROWS[op.name].smooth, ROWS[op.name].examples.values()))]
    assert not rough, "no example of these is smooth"


def test_nondifferentiable_operations_have_no_rule() -> None:
    assert not [name for name in RULES if operations()[name].algebra is Algebra.NONDIFFERENTIABLE]


@every_row("name", RULES)
def test_sides_name_what_they_keep(name: str) -> None:
    """An argument, ``out``, or the shape or dtype of a float argument; where there are several results, ``out1`` …."""
    op, rule = operations()[name], RULES[name]
    floats = {a.name for a in op.float_arguments}
    valid = {a.name for a in op.arguments} | {"out"} | {f"{f}_{what}" for f in floats for what in ("shape", "dtype")}
    valid |= {"cat": {"x_shape", "start"}, "stack": {"place"}}.get(name, set())  # of the member
    sides = [(side, 2) for side in (*rule.vjps, *(rule.jvps or ()), *filter(None, [rule.last_two]))]
    if rule.joint is None:
        assert len(rule.vjps) == len(op.float_arguments)
    else:
        assert list(signature(rule.joint).parameters)[:3] == ["i", "grads", "needs"]
        assert not sides
        sides = [(rule.joint, 3)]
        valid |= {f"out{k}" for k in range(1, len(op.results))}
    for side, given in sides:
        kept = list(signature(side).parameters)[given:]
        unknown = [parameter for parameter in kept if parameter not in valid]
        assert not unknown, f"a side of {name} asks for {unknown}, and {op.name} has {sorted(valid)}"


def test_pushes_are_left_out_only_where_the_operation_is_linear() -> None:
    linear = (Algebra.LINEAR, Algebra.STRUCTURAL, Algebra.BILINEAR)
    assert not [
        name
        for name, rule in RULES.items()
        if rule.jvps is None and rule.joint is None and operations()[name].algebra not in linear
    ]


def times(i: Any, g: Float) -> Float:
    """A vjp that no test calls."""
    return g


@every_row(
    "algebra, rule, message",
    [
        (Algebra.POINTWISE, {"vjp": (times, times)}, "one function for two arguments"),
        (Algebra.POINTWISE, {"vjp": times}, "does not fit its declaration as pointwise"),
        (Algebra.POINTWISE, {"jvp": (times, times)}, "does not fit its declaration as pointwise"),
        (Algebra.BILINEAR, {"vjp": (times, identity), "jvp": (times, identity)}, "as bilinear"),
        (Algebra.BILINEAR, {"joint": times}, "as bilinear"),
        (Algebra.GENERAL, {"vjp": (times, identity)}, "as general"),
        (Algebra.GENERAL, {"vjp": (times, identity), "jvp": times}, "as general"),
        (Algebra.GENERAL, {"vjp": (times, identity), "joint": times}, "as general"),
        (Algebra.BILINEAR, {"vjp": (times, identity), "last_two": times}, "as bilinear"),
        (Algebra.POINTWISE, {"vjp": (times, Backend.mul)}, "names the operation mul; expected a function"),
    ],
)
def test_a_rule_that_does_not_fit_its_declaration_is_refused(algebra: Algebra, rule: Any, message: str) -> None:
    def scale(self: Any, x: Float, factor: Float) -> Float:
        return self.mul(x, factor)

    with pytest.raises(TypeError, match=f"the rule of scale .*{message}"):
        rule_of(operation(derived(algebra, **rule)(scale)))


def test_the_method_of_every_operation_compiles() -> None:
    for name in operations():
        compile(source(name), name, "exec")
        assert callable(getattr(Autodiff, name)), name
        assert callable(getattr(Forward, name)), name
        assert getattr(Autodiff, name).__doc__ == getattr(Backend, name).__doc__, name


_FIRST: list[tuple[str, tuple[tuple[int, ...], ...], tuple[Any, ...]]] = [
    ("normalize", ((3, 4), (4,), (4,)), ((1,), 1e-5)),
    ("cross_entropy", ((3, 4),), (np.array([1, 0, 3]), 1)),
    ("mean_cross_entropy", ((3, 4),), (np.array([1, 0, 3]), np.array([True, False, True]), 1)),
]


@every_row("name, shapes, others", _FIRST)
def test_a_first_result_alone_is_as_among_all(name: str, shapes: tuple[Any, ...], others: tuple[Any, ...]) -> None:
    rng = np.random.default_rng(0)
    values = [rng.normal(size=shape) for shape in shapes]
    device: Any = Autodiff(Autodiff(NumPy()))
    ways: list[Callable[..., Any]] = [
        lambda *xs: device.first_result(name, *xs),
        lambda *xs: getattr(device, name)(*xs)[0],
    ]
    for tracked in product((True, False), repeat=len(shapes)):
        found = []
        for first in ways:
            xs: list[Any] = [Tensor.from_data(value, device=device) for value in values]
            leaves = [x.require_grad() if t else x for x, t in zip(xs, tracked, strict=True)]
            out = leaves[0]._like(first(*[x._primitive for x in leaves], *others))
            assert out.is_require_grad() is (True in tracked)
            with no_grad():
                assert first(*[x._primitive for x in leaves], *others).node is None
            kept = [x for x, t in zip(leaves, tracked, strict=True) if t]
            if kept:
                grads = out.square().sum().backward()
                again = sum([grads[x].square().sum() for x in kept]).backward()
                found.append([out, *[grads[x] for x in kept], *[again[x.inner()] for x in kept]])
        for one, other in zip(*found, strict=True) if found else ():
            np.testing.assert_array_equal(one.to_numpy(), other.to_numpy())


@pytest.fixture
def with_rule(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace sides of a rule for one test."""

    def change(name: str, **sides: Any) -> None:
        for cls, make in (
            (Autodiff, autodiff_method),
            (Forward, forward_method),
        ):  # first, as it makes those to restore
            monkeypatch.setattr(cls, name, MethodAtFirstUse(name, make))
        monkeypatch.setitem(RULES, name, RULES[name]._replace(**sides))

    return change


def x64(*values: float) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(values, dtype="float64")


def by_sin(x: Any) -> Any:
    return x.sin()


X = x64(0.3, -0.7)
RIGHT = (lambda i, g, x: i.mul(g, i.cos(x)),)


def _in_place(i: Any, g: Any, x: Any) -> Any:
    """A correct vjp that overwrites its incoming gradient."""
    out = i.mul(g, i.cos(x))
    if isinstance(g, np.ndarray) and g.flags.writeable:
        g *= 0.0
    return out


def _forgetful(i: Any, g: Any, x: Any) -> Any:
    """A correct vjp that overwrites a saved argument."""
    out = i.mul(g, i.cos(x))
    if isinstance(x, np.ndarray):
        x += 1.0
    return out


def _random(i: Any, g: Any, x: Any) -> Any:
    """A vjp that is correct to ten digits and differs in each call."""
    return i.mul(i.mul(g, i.cos(x)), 1.0 + 1e-10 * float(np.random.default_rng().uniform()))


WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "a vjp with a wrong sign",
        {"vjps": (lambda i, g, x: i.neg(i.mul(g, i.cos(x))),)},
        "input 0.*reverse mode gives",
    ),
    ("a vjp with a wrong factor", {"vjps": (lambda i, g, x: i.mul(g, i.cos(i.mul(x, 1.01))),)}, "reverse mode gives"),
    ("a vjp that gives zeros", {"vjps": (lambda i, g, x: i.mul(g, 0.0),)}, "reverse mode gives"),
    ("a vjp that gives NaN", {"vjps": (lambda i, g, x: i.mul(g, float("nan")),)}, "reverse mode gives nan"),
    ("a jvp with a wrong sign", {"jvps": (lambda i, t, x: i.neg(i.mul(t, i.cos(x))),)}, "forward mode gives"),
    ("a vjp of another shape", {"vjps": (lambda i, g, x: i.sum(i.mul(g, i.cos(x)), (0,), True),)}, r"shape \(1,\)"),
    ("a vjp of another dtype", {"vjps": (lambda i, g, x: i.cast(i.mul(g, i.cos(x)), np.dtype("f4")),)}, "float32"),
    (
        "a jvp of another shape",
        {"jvps": (lambda i, t, x: i.sum(i.mul(t, i.cos(x)), (0,), True),)},
        r"tangent of result 0, by input 0, element \(0,\), has shape \(1,\)",
    ),
    (
        "a jvp of another dtype",
        {"jvps": (lambda i, t, x: i.cast(i.mul(t, i.cos(x)), np.dtype("f4")),)},
        "tangent.*float32",
    ),
    ("a vjp that writes over its gradient", {"vjps": (_in_place,)}, "changed the gradient of result 0"),
    ("a vjp that writes over its argument", {"vjps": (_forgetful,)}, "changed input 0"),
    ("a vjp that is not the same twice", {"vjps": (_random,)}, "two backward passes gave different gradients"),
]


@pytest.mark.parametrize(("what", "sides", "message"), WRONG, ids=[row[0] for row in WRONG])
def test_gradcheck_refuses(with_rule: Callable[..., None], what: str, sides: dict[str, Any], message: str) -> None:
    assert gradcheck(by_sin, x64(0.3, -0.7))
    with_rule("sin", **({"vjps": RIGHT, "jvps": RIGHT} | sides))
    with pytest.raises(GradcheckError, match=message):
        gradcheck(by_sin, x64(0.3, -0.7))
    assert not gradcheck(by_sin, x64(0.3, -0.7), raise_exception=False)


def test_gradcheck_leaves_forward_mode_out_when_asked(with_rule: Callable[..., None]) -> None:
    with_rule("sin", jvps=(lambda i, t, x: t,))
    assert gradcheck(by_sin, X, check_forward_ad=False)


def test_gradgradcheck_refuses_a_wrong_second_derivative(with_rule: Callable[..., None]) -> None:
    """A vjp whose values are right, and which hides from the next level what they depend on."""
    assert gradgradcheck(by_sin, X)
    with_rule("sin", vjps=(lambda i, g, x: i.mul(g, i.detach(i.cos(x))),))
    assert gradcheck(by_sin, X)
    with pytest.raises(GradcheckError, match="input 0"):
        gradgradcheck(by_sin, X)


def test_the_rules_are_whole_again() -> None:
    """After the tests that replaced them."""
    assert gradcheck(by_sin, X)
    assert gradgradcheck(by_sin, X)
