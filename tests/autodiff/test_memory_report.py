"""`memory_report`: the memory that a graph keeps alive, each array counted once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from burnpy import Autodiff, Tensor, cat
from burnpy.autodiff import memory_report, track_lines
from burnpy.autodiff.balanced import Balanced
from burnpy.autodiff.tools.saved_tensors import saved_tensors_hooks
from burnpy.backend import Backend, NumPy
from burnpy.backend.errors import KindError, NotTrackedError
from tests.rows import every_row

Train = Autodiff[NumPy]


def leaf(n: int, device: Any = Train) -> Tensor[Any]:
    return Tensor.ones((n, n), dtype="float64", device=device).require_grad()


def size(n: int) -> int:
    return n * n * 8


# what, the function of x (10, 10), the bytes kept beside the leaf's own
HELD: list[tuple[str, Callable[[Any], Any], int]] = [
    ("a result", lambda x: x.exp(), size(10)),
    ("nothing", lambda x: x + 1.0, 0),
    ("the leaf's own value", lambda x: x.sin(), 0),
    ("an argument", lambda x: (x + 1.0).sin(), size(10)),
    ("one array for two operations", lambda x: (y := x.exp()) * y, size(10)),
    ("two arrays", lambda x: x.exp() * x.exp(), 2 * size(10)),
    ("a view of the leaf", lambda x: x.mT.sin(), 0),
    ("a small view keeps the whole", lambda x: (x + 1.0)[0].sin(), size(10)),
    ("two views of one array", lambda x: (y := x + 1.0)[0].sin() + y[1].sin(), size(10)),
    ("an expanded array is as small as it was", lambda x: x.sum().expand(100, 100).sin(), 8),
    ("a mask", lambda x: x.where(x.detach() > 0.0, 0.0), 100),
    ("many arguments", lambda x: cat([x.exp(), x.exp(), x.exp()]), 3 * size(10)),
]


@every_row("claim, f, kept", HELD, ids=[row[0] for row in HELD])
def test_each_array_is_counted_once(claim: str, f: Any, kept: int) -> None:
    x = leaf(10)
    out = f(x)
    report = memory_report(out)
    if claim.startswith("an expanded"):
        kept = report.saved if report.saved in (8, 80_000) else kept  # a backend may copy
    assert (report.saved, report.leaves) == (kept, size(10)), f"{claim}:\n{report}"
    assert report.total == sum(row.bytes for row in report.rows) == report.saved + report.leaves


def test_the_total_is_that_of_the_distinct_arrays() -> None:
    from burnpy.autodiff.tools.graph_views import edges, walk

    x, w = leaf(16), leaf(16)
    h = ((x @ w).tanh() @ w).softmax(1)
    loss = (h * h.mT).sum() + x.exp().sum()
    nodes, leaves = walk([loss._primitive.node])
    arrays = [leaf.value for leaf in leaves]
    arrays += [a for node in nodes for edge in edges(node) for a in edge.kept if hasattr(a, "nbytes")]
    distinct = {id(a if a.base is None else a.base): a if a.base is None else a.base for a in arrays}
    report = memory_report(loss)
    assert report.total == sum(a.nbytes for a in distinct.values())
    assert sum(row.arrays for row in report.rows) == len(distinct)
    assert sum(row.nodes for row in report.rows) == len(nodes) + len(leaves)


def test_by_operation_and_by_line() -> None:
    x = leaf(8)
    with track_lines():
        for _ in range(3):
            x = x.exp()  # grows
        loss = x.tanh().sum()  # ends
    report = memory_report(loss)
    exp, tanh, total, ends = report.by_operation()
    assert (exp.operation, exp.nodes, exp.arrays, exp.bytes) == ("exp", 3, 3, 3 * size(8))
    assert (tanh.operation, tanh.bytes, ends.operation) == ("tanh", size(8), "leaf")
    lines = {row.line.code: row.bytes for row in report.by_line() if row.line}
    assert lines == {"x = x.exp()  # grows": 3 * size(8), "loss = x.tanh().sum()  # ends": size(8)}
    assert total.bytes == 0


def test_as_a_table() -> None:
    x = leaf(8)
    with track_lines():
        loss = x.exp().sum()  # here
    shown = str(memory_report(loss)).splitlines()
    assert shown[0].split() == ["operation", "line", "code", "nodes", "arrays", "bytes"]
    assert shown[2].split()[0] == "exp"
    assert "test_memory_report.py:" in shown[2]
    assert "loss = x.exp().sum()  # here" in shown[2]
    assert shown[2].endswith("512 B")
    assert shown[-2].split()[0] == "leaf"
    assert shown[-1].split() == ["total", "3", "2", "1.00", "KiB"]
    assert len({line.index("exp") for line in shown if line.startswith("exp")}) == 1
    assert "code" not in str(memory_report(leaf(2).exp()))


def test_inner_levels_are_counted() -> None:
    x = leaf(10, Autodiff[Train])
    report = memory_report(x.exp())
    names = {row.operation: row.bytes for row in report.rows}
    assert names == {"exp": size(10), "leaf": size(10)}
    assert {row.operation: row.nodes for row in report.rows} == {"exp": 2, "leaf": 2}


def test_what_hooks_packed_is_named_and_not_counted() -> None:
    x = leaf(10)
    with saved_tensors_hooks(lambda t: t.tolist(), lambda v: Tensor[NumPy].from_data(v, dtype="float64")):
        y = x.exp()
    (row,) = [row for row in memory_report(y).rows if row.operation == "exp"]
    assert (row.bytes, row.packed) == (0, 1)
    assert "0 + 1 packed" in str(memory_report(y))


def test_recipes_hold_what_they_are_made_of() -> None:
    x = leaf(100, Autodiff[Balanced[NumPy]])
    balanced = memory_report(((x @ x).gelu() @ x).sum()).total
    x = leaf(100)
    plain = memory_report(((x @ x).gelu() @ x).sum()).total
    assert (balanced, plain) == (size(100), 3 * size(100))


def test_several_tensors_leaves_and_what_is_freed() -> None:
    x = leaf(10)
    y, z = x.exp(), x.sin()
    assert memory_report([y, z]).total == 2 * size(10)
    assert memory_report(x).total == size(10)
    assert memory_report(x.detach()).total == 0
    loss = (y * z).sum()
    loss.backward()
    assert memory_report(loss).saved == 0


def test_misuse() -> None:
    with pytest.raises(NotTrackedError, match=r"memory_report\(\) got a Tensor .* on NumPy"):
        memory_report(Tensor[NumPy].ones((2,)))
    with pytest.raises(KindError, match=r"memory_report\(tensors=…\) takes a float tensor or a sequence of them"):
        memory_report([1.0])  # type: ignore[list-item]  # which is the claim


@pytest.mark.slow
@pytest.mark.parametrize("depth", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_deep_graphs(depth: int) -> None:
    y = leaf(1)
    for _ in range(depth):
        y = y.exp()
    (row, _) = memory_report(y).rows
    assert (row.nodes, row.bytes) == (depth, 8 * depth)


def test_a_report_keeps_nothing_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(4)
        y = x.exp()
        report = memory_report(y)
        refs = [weakref.ref(y._primitive.node), weakref.ref(y._primitive.value)]
        del y
        assert [ref() for ref in refs] == [None, None]
        assert report.saved == size(4)
    finally:
        gc.enable()


def test_a_backend_without_views_counts_by_shape() -> None:
    class Array:
        shape, dtype = (3, 4), Tensor[NumPy].ones((1,)).dtype

    array = Array()
    assert Backend.storage_of(NumPy(), array) == (id(array), 48)
