"""Batches and collators: kinds and dtypes, declared columns, padding, and the errors for samples that do not fit."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from ml_dtypes import bfloat16

from burnpy import Autodiff, BoolTensor, ComplexTensor, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.data import ArrayDataset, Batch, BucketByLength, Collator, Loader, Samples, collate, pad_collate
from burnpy.errors import (
    ArgumentError,
    CallError,
    DeviceError,
    DTypeError,
    ImmutableError,
    KindError,
    LoadingError,
    MissingNameError,
    ShapeError,
)
from burnpy.record import save
from tests.rows import every_row

B = TypeVar("B", bound=Backend)


class Digits(Batch[B]):
    x: Tensor[B]
    y: IntTensor[B]


class Named(Digits[B]):
    name: tuple[str, ...]


def batch_of(samples: list[Any], collator: Any = None) -> Any:
    (batch,) = Loader(samples, collator or collate(device=NumPy), batch_size=max(len(samples), 1))
    return batch


def test_kinds_and_dtypes() -> None:
    samples = [
        {
            "float": 0.5,
            "double": np.float64(0.5),
            "half": np.zeros(2, np.float16),
            "int": 3,
            "byte": np.zeros((2, 2), np.uint8),
            "bool": True,
            "list": [1, 2],
            "floats": [0.5, 1.5],
            "tensor": Tensor[NumPy].from_data([1.0]),
            "text": "a",
            "none": None,
        }
    ] * 3
    batch = batch_of(samples)
    found = {name: (type(batch[name]), str(batch[name].dtype), batch[name].shape) for name in batch.keys()[:9]}
    expected: dict[str, tuple[Any, ...]] = {
        "float": (Tensor, "float32", (3,)),
        "double": (Tensor, "float64", (3,)),
        "half": (Tensor, "float16", (3, 2)),
        "int": (IntTensor, "int64", (3,)),
        "byte": (IntTensor, "uint8", (3, 2, 2)),
        "bool": (BoolTensor, "bool", (3,)),
        "list": (IntTensor, "int64", (3, 2)),
        "floats": (Tensor, "float32", (3, 2)),
        "tensor": (Tensor, "float32", (3, 1)),
    }
    assert found == expected
    assert batch.text == ("a", "a", "a")
    assert batch.none == (None, None, None)


@pytest.mark.parametrize(
    "column",
    [
        np.array([1.0 + 2.0j, 3.0j]),
        np.array([[1.0 + 2.0j], [3.0j]], np.complex64),
        np.array(["a", "b"]),
        np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
        np.array([1, 2]).astype(">u2"),
        np.array([1.0, 2.0], bfloat16),
        np.array([True, False]),
    ],
)
def test_rows_of_arrays_and_single_samples_make_the_same_batch(column: Any) -> None:
    """Batches are alike from datasets of whole columns, as ArrayDataset, and of single samples, as a mapped one."""
    rows = ArrayDataset(x=column)
    (whole,), (single,) = (Loader(data, collate(device=NumPy), batch_size=2) for data in (rows, rows.map(dict)))
    assert type(whole.x) is type(single.x)
    if isinstance(whole.x, tuple):
        assert whole.x == single.x == tuple(column)
    else:
        assert (whole.x.dtype, whole.x.tolist()) == (single.x.dtype, single.x.tolist())


def test_python_complex_numbers_are_complex64() -> None:
    batch = batch_of([{"x": 1j, "y": [1j, 2.0]}] * 2)
    assert [(type(x), str(x.dtype), x.shape) for x in (batch.x, batch.y)] == [
        (ComplexTensor, "complex64", (2,)),
        (ComplexTensor, "complex64", (2, 2)),
    ]


@pytest.mark.parametrize(
    "make", [lambda x: ArrayDataset(x=x), lambda x: Batch.of({"x": x}, device=NumPy), lambda x: save("nowhere", x=x)]
)
def test_masked_arrays_are_refused(make: Callable[[Any], Any]) -> None:
    with pytest.raises(ArgumentError, match=r"got x, a MaskedArray of shape \(2,\) .*no missing elements"):
        make(np.ma.masked_array([1.0, 2.0], [True, False]))


def test_columns_of_a_batch_are_given_by_name() -> None:
    with pytest.raises(KindError, match=r"takes columns by name, got \[1\]"):
        Batch.of([1], device=NumPy)  # type: ignore[arg-type]  # the mistake


def test_a_batch_is_a_mapping_that_does_not_change() -> None:
    batch = Batch.of({"x": np.zeros((2, 3)), "name": ("a", "b")}, device=NumPy)
    assert (len(batch), batch.keys(), "x" in batch, "z" in batch) == (2, ("x", "name"), True, False)
    assert {**batch}["name"] == ("a", "b")
    assert batch["x"] is batch.x
    assert batch.device is NumPy()
    assert repr(batch) == "Batch(2 samples on NumPy: x=float64[3], name=str)"
    assert repr(Batch.of({"x": np.zeros((1, 2))}, device=NumPy)) == "Batch(1 sample on NumPy: x=float64[2])"
    with pytest.raises(ImmutableError, match=r"batch\.x cannot be set or deleted"):
        batch.x = 1
    with pytest.raises(ImmutableError, match=r"batch\._columns cannot be set or deleted"):
        del batch._columns
    with pytest.raises(MissingNameError, match="did you mean name"):
        batch.nam
    with pytest.raises(MissingNameError, match="it has x, name"):
        batch["label"]
    with pytest.raises(ShapeError, match="2 rows of x, 3 rows of y"):
        Batch.of({"x": np.zeros(2), "y": np.zeros(3)}, device=NumPy)


def test_the_arrays_of_a_batch_are_copied_once() -> None:
    x = np.zeros(2)
    batch = Batch.of({"x": x}, device=NumPy)
    x[0] = 1
    assert batch.x.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))])
def test_copies(copied: Callable[[Any], Any]) -> None:
    batch = Digits[NumPy].of({"x": np.ones(2), "y": np.arange(2)}, device=NumPy)
    again = copied(batch)
    assert type(again) is Digits
    assert (again.x.tolist(), again.y.tolist(), len(again), again.device) == ([1.0, 1.0], [0, 1], 2, NumPy())


def test_typed_columns() -> None:
    batch = Batch.of({"x": np.zeros(2), "y": np.arange(2), "m": np.zeros(2, bool)}, device=Autodiff[NumPy])
    assert (batch.floats("x"), batch.ints("y"), batch.bools("m")) == (batch.x, batch.y, batch.m)
    with pytest.raises(KindError, match="y of this batch is an IntTensor"):
        batch.floats("y")
    inner = batch.inner()
    assert [inner[name].device for name in inner.keys()]  # noqa: SIM118  # it is not a dict == [NumPy()] * 3
    assert batch.to_device(NumPy).x.device is NumPy()
    plain: Any = inner
    with pytest.raises(DeviceError, match="no inner backend"):
        plain.inner()


def test_a_declared_batch() -> None:
    loader = Loader(ArrayDataset(x=np.ones((4, 2), "f4"), y=np.arange(4)), collate(Digits[NumPy]), batch_size=4)
    (batch,) = loader
    assert type(batch) is Digits
    assert batch.y.tolist() == [0, 1, 2, 3]
    named = batch_of([{"x": 0.5, "y": 1, "name": "a", "other": 2}], collate(Named[NumPy]))
    assert (type(named), named.name, named.other.tolist()) == (Named, ("a",), [2])


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ({"x": 0.5}, "Digits declares y, which the samples lack; they have x"),
        ({"x": 1, "y": 1}, r"Digits declares x: Tensor, and the samples have dtype int64; .*np\.float32"),
        ({"x": 0.5, "y": "b"}, "Digits declares y: IntTensor, and the samples have a tuple"),
        ({"x": 0.5, "y": 1j}, r"Digits declares y: IntTensor, and the samples have dtype complex64; .*np\.int64"),
    ],
)
def test_a_declared_batch_is_checked(sample: Any, said: str) -> None:
    with pytest.raises(KindError, match=said):
        batch_of([sample], collate(Digits[NumPy]))


@pytest.mark.parametrize(
    ("samples", "error", "said"),
    [
        ([{"x": [1]}, {"x": [1]}, {"x": [1, 2]}], ShapeError, r"shape \(1,\) in sample 0 and \(2,\) in sample 2"),
        ([{"x": 1}, {"y": 1}], ArgumentError, "sample 0 has x, and sample 1 has y"),
        ([{"x": 1}, {"x": 1.5}], DTypeError, "x is int64 in sample 0 and float32 in sample 1"),
        ([{"x": 1.5}, {"x": 1j}], DTypeError, "x is float32 in sample 0 and complex64 in sample 1"),
        ([{"x": np.uint64(2**63)}, {"x": -1}], DTypeError, "x is uint64 in sample 0 and int64 in sample 1"),
        ([{"x": np.zeros(1, bfloat16)}, {"x": np.zeros(1, "f2")}], DTypeError, "bfloat16 in sample 0 and float16 in"),
        ([{"x": np.ma.masked_array([1.0], [True])}], ArgumentError, "no missing elements; fill them first"),
        ([{"x": 1}, {"x": "a"}], KindError, "x is an int in sample 0 and a str in sample 1"),
        ([(1, 2)], KindError, r"sample 0 is a tuple, .*names=\(\"x\", \"y\"\)"),
    ],
)
def test_samples_that_do_not_fit(samples: list[Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        batch_of(samples)


def test_indices_of_ragged_samples_are_those_of_the_dataset() -> None:
    samples = [{"x": [1]}] * 9 + [{"x": [1, 2]}]
    epoch = Loader(samples, collate(device=NumPy), batch_size=5).epoch(0, start=1)
    with pytest.raises(ShapeError, match=r"in sample 5 and .* in sample 9"):
        next(epoch)


def test_transforms_run_in_turn() -> None:
    first: Any = lambda columns, rng: {**columns, "x": columns["x"] + 1}  # noqa: E731  # one of two
    second: Any = lambda columns, rng: {"z": columns["x"] * 10}  # noqa: E731
    batch = batch_of([{"x": 1}, {"x": 2}], collate(device=NumPy, transform=[first, second]))
    assert (batch.keys(), batch.z.tolist()) == (("z",), [20, 30])


@every_row(
    "call, error, said",
    [
        (lambda: collate(Batch), DeviceError, r"collate\(device=NumPy\), or collate\(Batch\[NumPy\]\)"),
        (lambda: collate(Digits[B]), DeviceError, "does not know the backend"),  # type: ignore[valid-type]  # is refused
        (lambda: collate(Tensor[NumPy]), CallError, "expected a subclass of Batch"),  # type: ignore[type-var]  # is refused
        (lambda: collate(device=NumPy, transform=3), ArgumentError, "an int as transform"),  # type: ignore[call-overload]
        (lambda: pad_collate(device=NumPy, pad={}), ArgumentError, "at least one column"),
        (lambda: pad_collate(device=NumPy, pad={"x": 0}, multiple=0), ArgumentError, "multiple=0"),
        (lambda: batch_of([{"x": 1}], collate(device=NumPy, transform=lambda c, r: None)), CallError, "None"),  # type: ignore[arg-type,return-value]  # is refused
        (lambda: batch_of([{"x": 1}], collate(device=NumPy, transform=lambda c: c)), LoadingError, "TypeError"),  # type: ignore[arg-type,misc]  # is refused
    ],
)
def test_refused_collators(call: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()


def test_a_collator_of_ones_own() -> None:
    class Sums(Collator[float]):
        def arrays(self, samples: Samples) -> Any:
            return sum(samples.items) + float(samples.rng.uniform().sum()) * 0

        def batch(self, arrays: Any) -> float:
            return float(arrays) / 2

    assert [*Loader([1, 2, 3], Sums(), batch_size=2, workers=1)] == [1.5, 1.5]


def test_padding() -> None:
    samples = [{"t": np.arange(n, dtype=np.int32), "f": np.ones((n, 2), np.float16), "y": n} for n in (3, 0, 5)]
    batch = batch_of(samples, pad_collate(device=NumPy, pad={"t": -1, "f": 0.5}, multiple=4))
    assert batch.t.tolist() == [[0, 1, 2, *[-1] * 5], [-1] * 8, [0, 1, 2, 3, 4, -1, -1, -1]]
    assert batch.t_lengths.tolist() == [3, 0, 5] == batch.f_lengths.tolist()
    assert batch.t_mask.tolist() == [[k < n for k in range(8)] for n in (3, 0, 5)]
    assert (batch.f.shape, str(batch.f.dtype), str(batch.t.dtype)) == ((3, 8, 2), "float16", "int32")
    assert (batch.f.to_numpy()[0, 3:] == 0.5).all()
    assert batch.y.tolist() == [3, 0, 5]


def test_padding_of_lists_and_of_whole_columns() -> None:
    lists = batch_of([{"t": [1.5]}, {"t": []}, {"t": [2.0, 3.0]}], pad_collate(device=NumPy, pad={"t": 0}))
    assert (lists.t.tolist(), str(lists.t.dtype)) == ([[1.5, 0.0], [0.0, 0.0], [2.0, 3.0]], "float32")
    columns = Loader(ArrayDataset(t=np.ones((2, 3))), pad_collate(device=NumPy, pad={"t": 0}, multiple=2), batch_size=2)
    assert next(columns.epoch(0)).t.tolist() == [[1.0, 1.0, 1.0, 0.0]] * 2


@pytest.mark.parametrize(
    ("samples", "error", "said"),
    [
        ([{"x": [1]}], ArgumentError, "cannot pad t: the samples have x"),
        ([{"t": 1}], ShapeError, "t, which in sample 0 is not an array with a length"),
        ([{"t": [[1]]}, {"t": [[1, 2]]}], ShapeError, r"t has shape \(1, 1\) in sample 0 and \(1, 2\) in sample 1"),
        ([{"t": [1]}, {"t": [1.5]}], DTypeError, "t is int64 in sample 0 and float32 in sample 1"),
    ],
)
def test_what_padding_cannot_do(samples: list[Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        batch_of(samples, pad_collate(device=NumPy, pad={"t": 0}))


def test_buckets_pad_little() -> None:
    lengths = np.random.default_rng(0).integers(1, 50, 200)
    samples = [{"t": np.zeros(n)} for n in lengths.tolist()]

    def padded(**options: Any) -> int:
        loader = Loader(samples, pad_collate(device=NumPy, pad={"t": 0}), batch_size=10, **options)
        return sum(batch.t.shape[0] * batch.t.shape[1] for batch in loader.epoch(0))

    assert padded(sampler=BucketByLength(lengths)) < 1.1 * lengths.sum() < 1.5 * lengths.sum() < padded(shuffle=True)


def test_a_batch_is_no_tuple() -> None:
    batch: Any = Batch.of({"x": np.zeros((2, 3), np.float32), "y": np.array([1, 0])}, device=NumPy)
    with pytest.raises(CallError, match=r"a batch is no tuple of columns, .* write batch\.x, batch\.y, or batch\.keys"):
        _x, _y = batch
    with pytest.raises(KindError, match=r"batch\[0\]: expected the name of a column; .*: batch\.x\[0\]"):
        batch[0]
    assert {**batch}.keys() == {"x", "y"}
    assert "x" in batch
