"""Selecting, joining and adding on the real CuPy: how many launches it takes, and of arrays with any strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import IntTensor, Tensor, cross_entropy, errors
from burnpy.backend import CuPy, NumPy
from burnpy.backend.dtypes import dtype_of
from tests.hostcuda import simulator

simulator.require()


def launched(name: str, *args: Any) -> tuple[Any, list[str]]:
    with simulator.watched() as journal:
        out = getattr(CuPy(), name)(*args)
    return CuPy().to_numpy(out), [launch.split("__")[0] for launch in journal.launches]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bool", "float16", "bfloat16"])
def test_arrays_are_gathered_and_joined_in_one_launch(dtype: str) -> None:
    generator = np.random.default_rng(0)
    x, y, z = (NumPy().cast(generator.integers(0, 9, (3, n, 4)), dtype_of(dtype)) for n in (5, 1, 2))
    index = generator.integers(0, 5, (2, 7, 3))
    given = [CuPy().from_numpy(a) for a in (x, y, z)]
    turned = CuPy().from_numpy(np.ascontiguousarray(x.transpose(2, 1, 0))).transpose(2, 1, 0)
    for first in (given[0], turned):
        out, launches = launched("gather", first, 1, CuPy().from_numpy(index))
        assert launches == ["burnpy_gather"]
        np.testing.assert_array_equal(out, NumPy().gather(x, 1, index))
        out, launches = launched("cat", [first, *given[1:]], 1)
        assert launches == ["burnpy_cat_3"]
        np.testing.assert_array_equal(out, np.concatenate([x, y, z], 1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_elements_are_added_at_indices_in_two_launches(dtype: str) -> None:
    generator = np.random.default_rng(0)
    x, src = (NumPy().cast(generator.integers(-9, 9, (3, n)), dtype_of(dtype)) for n in (4, 6))
    index = generator.integers(0, 4, (3, 6))
    out, launches = launched("scatter_add", CuPy().from_numpy(x), 1, *[CuPy().from_numpy(a) for a in (index, src)])
    assert launches == ["burnpy_copy", "burnpy_scatter_add"]
    np.testing.assert_array_equal(out, NumPy().scatter_add(x, 1, index, src))


def test_a_slice_is_added_to_in_place() -> None:
    total, grad = CuPy().full((3, 4), 1.0, dtype_of("float32")), CuPy().full((3, 2), 2.0, dtype_of("float32"))
    before = total.data.ptr
    out, launches = launched("accumulate_slice", total, (slice(None), slice(1, 4, 2)), grad)
    assert launches == ["burnpy_add_to"]
    assert out.tolist() == [[1, 3, 1, 3]] * 3
    assert total.data.ptr == before


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("count", [1, 31, 33, 200])
def test_the_gradient_of_an_embedding_has_one_order(dtype: str, count: int) -> None:
    """Runs of equal indices that lie in one chunk of 32, and that reach over several."""
    generator = np.random.default_rng(0)
    index = np.where(generator.random(count) < 0.6, 3, generator.integers(0, 7, count))
    grad = NumPy().cast(generator.integers(-3, 4, (count, 5)), dtype_of(dtype))
    for padding in (None, 3, 6):
        given = CuPy().from_numpy(grad), CuPy().from_numpy(index), (9, 5), padding
        out, launches = launched("embedding_backward", *given)
        np.testing.assert_array_equal(out, NumPy().embedding_backward(grad, index, (9, 5), padding))
        assert "burnpy_run_sums" in launches
        assert not [name for name in launches if "scatter" in name], "which adds in any order"


@pytest.mark.parametrize("ignored", [-100, 1])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "uint64"])
def test_classes_are_checked_and_the_ignored_ones_noted_in_one_launch(dtype: str, ignored: int) -> None:
    logits = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)

    def loss(device: Any, classes: list[int]) -> Any:
        target = IntTensor.from_data(np.array(classes).astype(dtype), device=device)
        return cross_entropy(Tensor.from_data(logits, device=device), target, ignore_index=ignored)

    classes = [0, 2, ignored if dtype.startswith("int") or ignored > 0 else 0, 1]
    with simulator.watched() as journal:
        found = loss(CuPy, classes)
    np.testing.assert_allclose(found.item(), loss(NumPy, classes).item(), rtol=1e-6)
    launches = [name for name in journal.launches if not name.startswith("cupy_copy")]  # to int64
    assert "burnpy_bounded_and_counted" in launches
    assert not any("not_equal" in name for name in launches)
    late = loss(CuPy, [0, 2, 3, 1])
    with pytest.raises(errors.IndexRangeError):
        late.item()
