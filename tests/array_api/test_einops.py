"""`burnpy.einops` and einops' own functions on tensors: values as with NumPy, gradients, kinds, and errors."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, einops, func
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, MissingPackageError
from tests.rows import every_row

ours: Any = einops
pytestmark = pytest.mark.heavy("einops")


def squares(x: Any, axes: tuple[int, ...]) -> Any:
    return (x * x).sum(axes)


def random(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(1).normal(size=shape)


CALLS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("transpose", lambda e, x: e.rearrange(x, "a b c -> c a b")),
    ("merge", lambda e, x: e.rearrange(x, "a b c -> b (c a)")),
    ("split", lambda e, x: e.rearrange(x, "a b (c d) -> d a (b c)", d=2)),
    ("ellipsis", lambda e, x: e.rearrange(x, "a ... -> ... a 1")),
    ("list", lambda e, x: e.rearrange([x, x], "n a b c -> a (n b) c")),
    ("sum", lambda e, x: e.reduce(x, "a b c -> b", "sum")),
    ("mean", lambda e, x: e.reduce(x, "a b (c d) -> a d 1", "mean", d=2)),
    ("max", lambda e, x: e.reduce(x, "a b c -> a c", "max")),
    ("min", lambda e, x: e.reduce(x, "a b c ->", "min")),
    ("prod", lambda e, x: e.reduce(x, "... c -> ...", "prod")),
    ("callable", lambda e, x: e.reduce(x, "a b c -> c", squares)),
    ("repeat", lambda e, x: e.repeat(x, "a b c -> a r b (c s)", r=2, s=3)),
    ("repeat first", lambda e, x: e.repeat(x, "a b c -> (r a) b c", r=2)),
    ("einsum", lambda e, x: e.einsum(x, x, "a b c, a d c -> b d")),
    ("einsum of one", lambda e, x: e.einsum(x, "rows columns c -> columns rows")),
    ("pack", lambda e, x: e.pack([x, x[0]], "* c")[0]),
    ("unpack", lambda e, x: e.unpack(x, [(2,), (2, 1)], "a b *")[1]),
]


@every_row(("name", "call"), CALLS)
def test_values_and_gradients(name: str, call: Callable[[Any, Any], Any]) -> None:
    theirs: Any = import_module("einops")
    values: Any = random((2, 3, 4))
    x: Any = Tensor[Autodiff[NumPy]].from_data(values).require_grad()
    expected: Any = call(theirs, values)
    weight: Any = random(expected.shape)
    sums: Any = ((weight * call(theirs, values + step)).sum() for step in (1e-6, -1e-6))
    ahead, behind = sums
    for library in (ours, theirs):
        out = call(library, x)
        np.testing.assert_allclose(out, expected, 1e-12, err_msg=name)
        slope = (out * Tensor[Autodiff[NumPy]].from_data(weight)).sum().backward()[x].sum()
        np.testing.assert_allclose(slope, (ahead - behind) / 2e-6, 1e-6, 1e-8, err_msg=name)


def test_kinds_devices_and_levels() -> None:
    i, b = IntTensor[NumPy].arange(6).reshape(2, 3), BoolTensor[NumPy].ones((2, 3))
    assert type(ours.rearrange(i, "a b -> b a")) is IntTensor
    assert ours.reduce(i, "a b -> a", "max").tolist() == [2, 5]
    assert ours.reduce(b, "a b -> a", "all").tolist() == [True, True]
    assert ours.reduce(Tensor[NumPy].zeros((2, 3)), "a b -> a", "any").tolist() == [False, False]
    assert ours.rearrange((i, i), "n a b -> (n a) b").shape == (4, 3)
    x: Any = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    assert func.grad(lambda x: ours.einsum(x, x, "a b, b a ->"))(x).tolist() == [[2.0, 6.0], [4.0, 8.0]]
    assert func.vmap(lambda row: ours.repeat(row, "a -> (a 2)"))(x).tolist() == [[1, 1, 2, 2], [3, 3, 4, 4]]


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda x: ours.rearrange(x, "a b c -> c b a"),
        "'a b c -> c b a' to a Tensor of shape (2, 3) and dtype float32: wrong shape: expected 3 dims, received",
    ),
    (
        lambda x: ours.rearrange(x, "(a q) b -> q a b", q=5),
        "can't divide axis of length 2 in chunks",
    ),
    (lambda x: ours.rearrange(x, "a b -> a"), "identifiers only on one side of expression (should be on both)"),
    (lambda x: ours.rearrange(x, "a b -> (a b"), "imbalanced parentheses"),
    (lambda x: ours.rearrange(x, "a b => b a"), "cannot apply 'a b => b a' to a Tensor of shape (2, 3)"),
    (lambda x: ours.rearrange(x, "a b -> b a", c=3), "axis c is not used in transform"),
    (lambda x: ours.reduce(x, "a b -> a", "median"), "unknown reduction median"),
    (lambda x: ours.repeat(x, "a b -> a b r"), "specify sizes for new axes in repeat: {'r'}"),
    (
        lambda x: ours.einsum(x, x, "a b, b c -> a c"),
        "and a Tensor of shape (2, 3) and dtype float32: axis b is 3 and 2",
    ),
    (lambda x: ours.einsum(x, x, "... b, b c -> ... c"), "axis b is 3 and 2"),
    (lambda x: ours.einsum(x, x[0], "... a, ... -> a"), "the dims of ... do not broadcast"),
    (lambda x: ours.einsum(x, "a b -> a -> b"), "a pattern has one '->', got 'a b -> a -> b'"),
    (lambda x: ours.einsum(x, "a b, b c -> a c"), "2 terms for 1 tensor"),
    (lambda x: ours.einsum(x, "a b c -> a"), "'a b c' does not fit shape (2, 3)"),
]


@every_row(("call", "message"), REFUSED)
def test_a_pattern_that_does_not_fit_is_one_sentence(call: Any, message: str) -> None:
    with pytest.raises(import_module("einops").EinopsError) as caught:
        call(Tensor[NumPy].ones((2, 3)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@every_row(
    ("call", "message"),
    [
        (lambda x: ours.rearrange(x, "(a q) b -> q a b", q=None), "got the size of axis q None, which is not an int"),
        (lambda x: ours.repeat(x, "a b -> a b q", q=[1, 2]), "got the size of axis q [1, 2], which is not an int"),
        (lambda x: ours.reduce(x, "a b -> a", ["mean"]), "got reduction=['mean']; expected a name or a function"),
    ],
)
def test_settings_of_another_class_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)):
        call(Tensor[NumPy].ones((2, 3)))


def test_einops_is_named_where_it_is_missing() -> None:
    code = """
import sys
sys.modules["einops"] = None
from burnpy import Tensor
from burnpy.backend import NumPy
import burnpy.einops
burnpy.einops.rearrange(Tensor[NumPy].ones((2, 3)), "a b -> b a")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert MissingPackageError.__name__ in done.stderr
    assert "burnpy.einops needs the package einops, which cannot be imported" in done.stderr
    assert 'install it with: pip install "burnpy[einops]"' in done.stderr


def test_the_backend_makes_ranges_and_tiles() -> None:
    """Functions of einops' own experiments ask its backend for these."""
    from einops._backends import get_backend

    x = Tensor[NumPy].from_data([[1.0, 2.0]])
    backend: Any = get_backend(x)
    assert backend.arange(2, 5).tolist() == [2, 3, 4]
    assert backend.tile(x, (2, 1)).tolist() == [[1.0, 2.0], [1.0, 2.0]]
