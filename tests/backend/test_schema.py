"""The declarations of operations say what the operations do: shapes, views, memory that is consumed, and FLOPs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import Algebra, Checked, NumPy, Operation, operations
from burnpy.backend.dtypes import DEFAULT, kind_of
from burnpy.backend.entries import operation
from burnpy.backend.errors import NonFiniteError
from burnpy.backend.primitives import Float
from burnpy.backend.schema import derived
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.table import Arguments
from tests.conformance.suites import LARGE
from tests.rows import every_row

D = NumPy()
NAMES = [name for name in ROWS if name not in LARGE]
MAY_BE_AN_ARGUMENT = ("bounded", "sum_to", "clamp", "clamp_between")
"""Operations that may return an argument where it equals the result."""


def called(name: str) -> list[tuple[Operation, list[Any], tuple[Any, ...]]]:
    """Return the arguments and results of an operation's examples, on contiguous arrays that are not empty."""
    row = ROWS[name]
    kind = next(kind for kind in DEFAULT if kind in row.kinds)
    dtype = DEFAULT["complex" if kind == "bool" and "complex" in row.kinds else kind]
    calls = []
    for example in row.examples:
        args = Arguments(row, example, dtype, "contiguous").primitives(D, tracked=False)
        with np.errstate(all="ignore"):
            out = getattr(D, name)(*args)
        if all(np.size(a) for a in arrays(args)):
            calls.append((row.operation, args, out if isinstance(out, tuple) else (out,)))
    assert calls
    return calls


def arrays(args: list[Any]) -> list[Any]:
    members = [m for a in args for m in (a if isinstance(a, list) else [a])]
    return [m for m in members if isinstance(m, np.ndarray)]


@pytest.mark.slow
@every_row("name", NAMES)
def test_a_call_is_as_declared(name: str) -> None:
    calls_are_as_declared(name)


@pytest.mark.slowest
@every_row("name", sorted(LARGE))
def test_a_call_of_a_large_function_is_as_declared(name: str) -> None:
    calls_are_as_declared(name)


def calls_are_as_declared(name: str) -> None:
    for op, args, results in called(name):
        views_share_memory_and_nothing_else_does(op, args, results)
        shapes_are_as_declared(op, args, results)
        flops_can_be_counted(op, args, results)


def views_share_memory_and_nothing_else_does(op: Operation, args: list[Any], results: tuple[Any, ...]) -> None:
    consumed = op.consumed(args)
    for a, value in zip(op.arguments, args, strict=True):
        for result in results:
            if not isinstance(value, np.ndarray) or not isinstance(result, np.ndarray) or not result.size:
                continue
            if a.name == op.view:
                assert op.name == "expand" or np.shares_memory(value, result), f"{op.name} is no view of {a.name}"
            elif a.name not in consumed and op.name not in MAY_BE_AN_ARGUMENT:
                assert not np.shares_memory(value, result), f"{op.name} is a view of {a.name}"


def shapes_are_as_declared(op: Operation, args: list[Any], results: tuple[Any, ...]) -> None:
    given = dict(zip((a.name for a in op.arguments), args, strict=True))
    operands = [np.shape(given[a.name]) for a in op.arguments if a.elementwise]
    if op.like is not None:
        assert results[0].shape == given[op.like].shape
    if operands:
        shape = np.broadcast_shapes(*operands)
        assert results[0].shape == shape if op.elementwise else np.broadcast_shapes(results[0].shape, shape)
    floats = [given[a.name] for a in op.float_arguments if hasattr(given[a.name], "dtype")]
    if op.elementwise and floats and kind_of(results[0].dtype) == "float":
        assert results[0].dtype == floats[0].dtype


def flops_can_be_counted(op: Operation, args: list[Any], results: tuple[Any, ...]) -> None:
    shapes = [a.shape if isinstance(a, np.ndarray) else None for a in args]
    for result in results[0] if op.lists else results[:1]:
        flops = op.flops(shapes, np.shape(result))
        assert isinstance(flops, int)
        assert flops >= 0


def test_expanding_is_a_view_unless_there_are_few_elements() -> None:
    x = np.ones((100,), np.float32)
    assert np.shares_memory(D.expand(x, (100, 100)), x)
    assert not np.shares_memory(D.expand(x, (2, 100)), x)


def test_an_adopted_array_is_a_view() -> None:
    """It has no row, as its argument is not a primitive."""
    x = np.ones((2, 3), np.float32)
    assert operations()["adopt_numpy"].view == "array"
    assert np.shares_memory(D.adopt_numpy(x), x)
    assert not np.shares_memory(D.from_numpy(x), x)


def test_memory_is_consumed_as_declared() -> None:
    """`Checked` says which arguments may have been overwritten; tests/optim/test_formulas.py has it of formulas."""
    device: Any = Checked(NumPy())
    nan, one = np.full((2,), np.nan, np.float32), np.ones((2,), np.float32)
    with pytest.raises(NonFiniteError) as error:
        device.accumulate(one.copy(), nan)
    assert "total of shape (2,), dtype float32 may have been overwritten" in str(error.value)
    assert "grad of shape (2,), dtype float32 held NaN" in str(error.value)


def test_memory_that_is_not_consumed_stays_as_it_is() -> None:
    """The conformance suite has it for all operations; here, that what is consumed really is."""
    total, grad = np.ones((100_000,), np.float32), np.ones((100_000,), np.float32)
    assert np.shares_memory(D.accumulate(total, grad), total)
    assert grad.sum() == grad.size


def test_operations_that_compute_say_their_flops() -> None:
    """It is 1 for each element of an elementwise one, and 0 where elements are only moved or made."""
    for op in operations().values():
        computes = op.algebra in (Algebra.GENERAL, Algebra.LINEAR, Algebra.BILINEAR)
        traits = op.function.__operation__.traits  # type: ignore[attr-defined]  # set by the declaration
        says = op.elementwise or not computes or "flops" in traits
        assert says, f"@derived({op.algebra}, …) of {op.name} lacks flops=…"


X, W = (2, 3, 8, 8), (4, 3, 3, 3)
"""An image (N, C, H, W), and the weight of a convolution."""
FLOPS: list[tuple[str, list[Any], tuple[int, ...], int]] = [
    ("add", [(5, 7), (7,)], (5, 7), 35),
    ("exp", [(5, 7)], (5, 7), 3 * 35),
    ("where", [(5, 1), (7,), None], (5, 7), 35),
    ("lt", [(5, 7), None], (5, 7), 35),
    ("to_float", [(5, 7), None], (5, 7), 0),
    ("matmul", [(5, 7), (7, 3)], (5, 3), 2 * 5 * 7 * 3),
    ("matmul_tn", [(7, 5), (7, 3)], (5, 3), 2 * 5 * 7 * 3),
    ("linear", [(2, 5, 7), (7, 3), (3,)], (2, 5, 3), 2 * 2 * 5 * 7 * 3 + 2 * 5 * 3),
    ("conv2d", [X, W, None, None, None, None], (2, 4, 6, 6), 2 * (2 * 4 * 6 * 6) * (3 * 3 * 3)),
    ("conv2d_bias", [X, W, (4,), None, None, None, None], (2, 4, 6, 6), (2 * 27 + 1) * (2 * 4 * 6 * 6)),
    ("conv2d", [(2, 4, 8, 8), (4, 1, 3, 3), None, None, None, None], (2, 4, 6, 6), 2 * (2 * 4 * 6 * 6) * 9),
    ("conv2d_input", [(2, 4, 6, 6), W, None, None, None, None, None], X, 2 * (2 * 4 * 6 * 6) * 27),
    ("conv3d", [(2, 3, 5, 8, 8), (4, 3, 2, 3, 3), None, None, None, None], (2, 4, 4, 6, 6), 2 * (2 * 4 * 144) * 54),
    ("conv2d_weight", [(2, 4, 6, 6), X, None, None, None, None, None], W, 2 * (2 * 4 * 6 * 6) * 27),
    # for each of 2 · 5 · 7 scores: 2 · 8 of q kᵀ, 1 of the scale, 7 of the softmax, 2 · 6 of the weighted sum
    ("attention", [(2, 5, 8), (2, 7, 8), (2, 7, 6), None, None, None], (2, 5, 6), 70 * (16 + 1 + 7 + 12)),
    # for each of 2 · 3 · 5 hidden values: 4 · 2 · 5 of the product, 4 sums, 3 sigmoids, 2 tanhs, 3 products and a sum
    ("lstm", [(2, 3, 20), (2, 5), (2, 5), (5, 20), None, None], (2, 3, 5), 30 * (40 + 4 + 12 + 6 + 4)),
    ("softmax", [(5, 7), None], (5, 7), 35 * (1 + 1 + 3 + 1 + 1)),  # maximum, difference, exp, sum, quotient
    ("sum", [(5, 7), None, None], (5,), 35),
    ("sum_to", [(5, 7), (7,)], (7,), 35),
    ("sum_to", [(5, 7), (5, 7)], (5, 7), 0),
    ("index_add", [(10, 8), None, (2,), (2, 8)], (10, 8), 16),
    ("gather", [(10, 8), None, (2, 8)], (2, 8), 0),
    ("cat", [None, None], (12,), 0),
    ("cross_entropy_backward", [(5,), (5, 7), (5, 1), (5,), None], (5, 7), 6 * 35),
]


@every_row("name, given, result, flops", FLOPS, ids=[row[0] for row in FLOPS])
def test_flops_are_those_counted_by_hand(name: str, given: Any, result: Any, flops: int) -> None:
    assert operations()[name].flops(given, result) == flops


def test_a_declaration_that_names_no_argument_is_refused() -> None:
    @derived(Algebra.LINEAR, view="y", flops=lambda x, z: 0)
    def wrong(self: Any, x: Float) -> Float:
        return x

    with pytest.raises(TypeError, match=r"the declaration of wrong names \['y', 'z'\]"):
        operation(wrong)
