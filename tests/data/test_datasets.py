"""Datasets: arrays, and what `map`, `concat`, `subset`, `window`, `sample`, `zip` and `split` make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Tensor
from burnpy.backend import NumPy
from burnpy.data import ArrayDataset, Batch, Dataset, from_sequence
from burnpy.errors import ArgumentError, CallError, DTypeError, IndexRangeError, KindError, ShapeError
from tests.rows import every_row


def numbers(n: int = 6) -> ArrayDataset:
    return ArrayDataset(x=np.arange(n), y=np.arange(n) % 2)


def values(data: Dataset[Any], name: str = "x") -> list[Any]:
    """One column, sample by sample; it agrees with the whole columns where there are any."""
    one_by_one = [np.asarray(data[i][name]).tolist() for i in range(len(data))]
    columns = data.columns(np.arange(len(data)))
    if columns is not None:
        assert columns[name].tolist() == one_by_one
    return one_by_one


def test_array_dataset() -> None:
    data = numbers()
    assert len(data) == 6
    assert values(data) == [0, 1, 2, 3, 4, 5]
    assert data[-1]["x"] == 5
    assert repr(data) == "ArrayDataset(6 samples: x=int64[], y=int64[])"
    assert repr(ArrayDataset(x=np.zeros(1))) == "ArrayDataset(1 sample: x=float64[])"


def test_columns_are_new_memory_in_any_order() -> None:
    x = np.arange(6)
    data = ArrayDataset(x=x)
    for rows in ([0, 1, 2], [2, 0, 0, 5], [3], []):
        columns = data.columns(np.array(rows, np.int64))
        assert columns is not None
        assert columns["x"].tolist() == rows
        assert not np.shares_memory(columns["x"], x)


def test_rows_from_the_end_of_an_array_dataset() -> None:
    data = ArrayDataset(y=np.arange(5))
    assert data.columns(np.array([-1, 0, 1]))["y"].tolist() == [4, 0, 1]
    wrong: Any
    for wrong in ("y", ["y"], None):
        with pytest.raises(ArgumentError, match=r"columns\(\) got indices=.*; expected an array"):
            data.columns(wrong)
    for rows, outside in (([3, 4, 5], 5), ([0, 9], 9), ([-6], -6)):
        with pytest.raises(IndexRangeError, match=f"no sample {outside} in a dataset of 5"):
            data.columns(np.array(rows))


def test_a_tensor_is_a_column() -> None:
    assert values(ArrayDataset(x=Tensor[NumPy].from_data([1.0, 2.0]))) == [1.0, 2.0]


def test_a_memory_map_is_not_read(tmp_path: Any) -> None:
    np.save(tmp_path / "x.npy", np.arange(6))
    data = ArrayDataset(x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert isinstance(data._arrays["x"], np.memmap)
    assert values(data) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("columns", "error", "said"),
    [
        ({}, ArgumentError, "no column"),
        ({"x": np.zeros(3), "y": np.zeros(4)}, ShapeError, "3 rows of x, 4 rows of y"),
        ({"x": 3.0}, ShapeError, "0-d x"),
        ({"x": [object()]}, KindError, "list as x"),
    ],
)
def test_array_dataset_refuses(columns: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        ArrayDataset(**columns)


@pytest.mark.heavy("pandas", "polars", "pyarrow")
def test_array_dataset_of_frames() -> None:
    import pandas as pd
    import polars as pl

    columns: dict[str, list[Any]] = {"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, True]}
    for make in (pd.DataFrame, pl.DataFrame):
        frame = make(columns)
        data = ArrayDataset(frame, y=np.arange(3))
        assert repr(data) == "ArrayDataset(3 samples: a=int64[], b=float64[], c=bool[], y=int64[])"
        assert [{**data[i]} for i in range(3)] == [
            {name: values[i] for name, values in {**columns, "y": range(3)}.items()} for i in range(3)
        ]
        rows = ArrayDataset(x=frame[["b", "a"]], y=frame["c"])
        assert (rows[2]["x"].tolist(), rows[2]["y"]) == ([2.5, 3.0], True)
        np.testing.assert_array_equal(
            ArrayDataset(x=frame[["b", "c"]]).columns(np.array([1, 0]))["x"], [[1.5, 0], [0.5, 1]]
        )
    for dtype in ("Int64", "boolean", "Float32", "int64[pyarrow]", "bool[pyarrow]", "category"):
        assert ArrayDataset(pd.DataFrame({"a": pd.Series([1, 0], dtype=dtype)}))[0]["a"].dtype.kind in "bif"
    vectors = pl.Series("v", [[1.0, 2.0], [3.0, 4.0]], dtype=pl.Array(pl.Float32, 2))
    assert ArrayDataset(pl.DataFrame(vectors))[1]["v"].tolist() == [3.0, 4.0]
    hole = pl.Series("v", [[1.0, None], [3.0, 4.0]], dtype=pl.Array(pl.Float32, 2))
    twice = pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"])
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (pd.DataFrame({"age": [1.0, None, np.nan]}), {}, "a frame whose column age has 2 missing values"),
        (pl.DataFrame({"age": [1, None, 2]}), {}, "a frame whose column age has 1 missing value"),
        (pl.DataFrame({"v": hole}), {}, "a frame whose column v has 1 missing value"),
        (None, {"x": pd.DataFrame({"age": [1, None]})}, "got x, a frame whose column age has 1 missing value"),
        (None, {"y": pl.Series([1, None])}, "got y, a series that has 1 missing value"),
        (
            pd.DataFrame({"kind": ["a", "b"]}),
            {},
            "a frame whose column kind has the dtype",
        ),
        (pl.DataFrame({"kind": ["a", "b"]}), {}, "a frame whose column kind has the dtype String"),
        (
            pd.DataFrame({"day": pd.to_datetime(["2024-01-01"])}),
            {},
            "a frame whose column day has the dtype datetime64",
        ),
        (None, {"y": pd.Series(["a"], dtype="category")}, "got y, a series that has the dtype category"),
        (pd.DataFrame(np.zeros((2, 2))), {}, "the column 0, which is not a string; rename it, or name all columns"),
        (twice, {}, "a frame with 2 columns called a; rename them"),
        (pd.DataFrame(), {}, "a frame without columns"),
        (pl.LazyFrame({"a": [1]}), {}, "a frame that is lazy; write frame.collect()"),
        (pd.DataFrame({"y": [1]}), {"y": [2]}, "y, which is also a column of the frame"),
        (pd.DataFrame({"x": [1]}), {"y": [1, 2]}, "1 row of x, 2 rows of y"),
        (np.zeros((3, 2)), {}, "got an ndarray; expected a frame, or arrays by name"),
    ]
    for frame, columns_by_name, said in cases:
        with pytest.raises((ValueError, TypeError)) as caught:
            ArrayDataset(frame, **columns_by_name)
        assert said in str(caught.value)
    batch = Batch.of({"x": pd.DataFrame(columns), "y": pl.Series([1, 2, 3])}, device=NumPy)
    assert (batch.x[1].tolist(), batch.y.tolist()) == ([2.0, 1.5, 0.0], [1, 2, 3])
    with pytest.raises(DTypeError, match="got y, a series that has 1 missing value"):
        Batch.of({"y": pl.Series([1, None])}, device=NumPy)
    with pytest.raises(CallError, match=r"of a frame write ArrayDataset\(frame\)"):
        from_sequence(twice)


def test_map() -> None:
    doubled = numbers().map(lambda sample: {"x": sample["x"] * 2})
    assert values(doubled) == [0, 2, 4, 6, 8, 10]
    assert doubled[-1]["x"] == 10


@pytest.mark.parametrize("name", ["map", "map_random"])
def test_map_refuses_what_is_no_function(name: str) -> None:
    with pytest.raises(CallError, match=rf"{name}\(\) takes a function of a sample, got 3"):
        getattr(from_sequence([1, 2]), name)(3)


def test_concat() -> None:
    both = numbers(2).concat(numbers(3), numbers(1))
    assert values(both) == [0, 1, 0, 1, 2, 0]
    assert values(numbers(2) + numbers(1)) == [0, 1, 0]
    assert values(both.subset([4, 1, 5])) == [2, 1, 0]
    assert both[-1]["x"] == 0


def test_concat_of_different_dtypes_comes_one_by_one() -> None:
    both = numbers(2).concat(ArrayDataset(x=np.array([0.5]), y=np.array([0])))
    assert both.columns(np.array([0, 2])) is None
    assert both.columns(np.array([0, 1])) is None  # whatever the batch has
    assert both[2]["x"] == 0.5


def test_subset() -> None:
    data = numbers()
    assert values(data.subset([4, 0, -1])) == [4, 0, 5]
    assert values(data.subset(range(1, 3))) == [1, 2]
    assert values(data.subset([True, False] * 3)) == [0, 2, 4]
    assert values(data.subset([])) == []
    assert values(data.subset([4, 0, 3]).subset([-1, 0])) == [3, 4]


@pytest.mark.parametrize(
    ("indices", "error", "said"),
    [
        ([6], IndexRangeError, "index 6, and the dataset has 6"),
        ([-7], IndexRangeError, "index -7"),
        ([0.5], ArgumentError, "list of ints"),
        ([True], ArgumentError, "mask of 1"),
    ],
)
def test_subset_refuses(indices: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        numbers().subset(indices)


def test_window() -> None:
    windows = numbers().window(3, step=2)
    assert len(windows) == 2
    assert values(windows) == [[0, 1, 2], [2, 3, 4]]
    assert len(numbers().window(7)) == 0
    assert values(numbers().map(dict).window(5)) == [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]
    assert from_sequence(["abc"] * 3).window(2)[1] == ("abc", "abc")
    with pytest.raises(ArgumentError, match="size=0"):
        numbers().window(0)


def test_sample() -> None:
    some = numbers(100).sample(10, seed=1)
    assert values(some) == values(numbers(100).sample(10, seed=1))
    assert len(set(values(some))) == 10
    assert values(some) != values(numbers(100).sample(10, seed=2))
    with pytest.raises(ArgumentError, match="7 of 6"):
        numbers().sample(7, seed=0)


def test_zip() -> None:
    data = ArrayDataset(x=np.arange(3)).zip(ArrayDataset(z=np.arange(3) * 10))
    assert data[1] == {"x": 1, "z": 10}
    assert values(data, "z") == [0, 10, 20]
    assert from_sequence([1, 2]).zip(from_sequence([3, 4]))[1] == (2, 4)
    with pytest.raises(ArgumentError, match="3, 4 samples"):
        numbers(3).zip(numbers(4))
    with pytest.raises(ArgumentError, match="both have x"):
        ArrayDataset(x=np.arange(3)).zip(ArrayDataset(x=np.arange(3)))[0]


def test_split() -> None:
    first, second = numbers(10).split(0.75, seed=0)
    assert (len(first), len(second)) == (8, 2)
    assert sorted(values(first) + values(second)) == list(range(10))
    assert values(first) == sorted(values(first))
    assert values(first) == values(numbers(10).split(0.75, seed=0)[0])
    assert any(values(numbers(10).split(0.5, seed=s)[0]) != values(numbers(10).split(0.5, seed=0)[0]) for s in (1, 2))
    assert [values(part) for part in numbers(4).split(0.5, seed=None)] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("by", ["name", "array", "mapped"])
def test_split_stratified(by: str) -> None:
    labels = np.repeat([0, 1, 2], [80, 15, 5])
    data: Dataset[Any] = ArrayDataset(x=np.arange(100), y=labels)
    if by == "mapped":
        data = data.map(dict)
    for seed, fraction in enumerate([0.2, 0.3, 0.4, 0.5, 0.6, 0.8]):
        first, second = data.split(fraction, seed=seed, stratify=labels if by == "array" else "y")
        counts = np.bincount(values(first, "y"), minlength=3)
        assert np.abs(counts - fraction * np.array([80, 15, 5])).max() <= 1
        assert sorted(values(first) + values(second)) == list(range(100))


def test_split_stratified_differs_by_seed() -> None:
    data = ArrayDataset(x=np.arange(100), y=np.arange(100) % 3)
    assert values(data.split(0.5, seed=0, stratify="y")[0]) != values(data.split(0.5, seed=1, stratify="y")[0])


@every_row(
    "call, said",
    [
        (lambda data: data.split(1.5, seed=0), "fraction=1.5"),
        (lambda data: data.split(0.5, seed=-1), "seed=-1|seed="),
        (lambda data: data.split(0.5, seed=None, stratify="y"), "without a seed"),
        (lambda data: data.split(0.5, seed=0, stratify="z"), "the samples have x, y"),
        (lambda data: data.map(dict).split(0.5, seed=0, stratify="z"), "the samples have x, y"),
        (lambda data: data.split(0.5, seed=0, stratify=[1, 2]), r"shape \(2,\)"),
    ],
)
def test_split_refuses(call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        call(numbers())


def test_from_sequence() -> None:
    data = from_sequence([(1.0, 2), (3.0, 4)], names=("x", "y"))
    assert data[1] == {"x": 3.0, "y": 4}
    assert from_sequence([5, 6])[-1] == 6
    assert from_sequence([5, 6], names=("x",))[0] == {"x": 5}
    with pytest.raises(ArgumentError, match="has 2 parts, but there are 1 names"):
        from_sequence([(1, 2)], names=("x",))[0]
    with pytest.raises(CallError, match=r"ArrayDataset\(\*\*columns\)"):
        from_sequence({"x": 1})  # type: ignore[dict-item]  # what is refused
    with pytest.raises(CallError, match="StreamLoader"):
        from_sequence(iter([1]))  # type: ignore[call-overload]  # what is refused


def test_indices() -> None:
    data: Any = numbers()
    with pytest.raises(IndexRangeError, match="no sample 6 in a dataset of 6"):
        data[6]
    with pytest.raises(IndexRangeError, match="no sample -7"):
        data.map(dict)[-7]
    with pytest.raises(CallError, match=r"use data\.subset"):
        data[1:3]
    assert len(list(data.map(dict))) == 6  # IndexError ends iteration


def test_random_maps_outside_of_a_loader() -> None:
    data = numbers().map_random(lambda sample, rng: {"x": rng.random()})
    assert data[2] == data[2]
    assert data[2] != data[3]
    assert data.subset([2, 3])[1] != data.subset([2, 3])[0]
