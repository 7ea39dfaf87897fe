"""Gradients in flat buckets, and back."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn import BatchNorm, Linear, Module, Sequential
from burnpy.optim import GradientsParams, GradScaler, Layout

Train = Autodiff[NumPy]


def network() -> Sequential[Any]:
    return Sequential(Linear(3, 4, device=Train), BatchNorm(4, device=Train), Linear(4, 2, device=Train))


def gradients(model: Any, x: float = 1.0) -> GradientsParams[Any]:
    data = Tensor[Train].from_data([[x, 2.0, 3.0], [-1.0, 0.5, 1.0]])
    return GradientsParams.from_grads(model(data).square().sum().backward(), model)


def contents(grads: GradientsParams[Any]) -> dict[str, tuple[Any, str]]:
    held = [*grads.items(), *grads.buffer_updates.items()]
    return {ident: (value.tolist(), value.dtype.name) for ident, value in held}


@pytest.mark.parametrize("bucket_bytes", [1, 40, 1 << 20])
def test_there_and_back(bucket_bytes: int) -> None:
    grads = gradients(network())
    buckets, layout = grads.flatten(bucket_bytes=bucket_bytes)
    again = layout.unflatten(buckets)
    assert contents(again) == contents(grads)
    assert list(again.named()) == list(grads.named()), "in the order of the model"
    assert again.missing == grads.missing
    assert again.found_inf is None
    assert contents(pickle.loads(pickle.dumps(layout)).unflatten(buckets)) == contents(grads)
    assert sum(bucket.numel() for bucket in buckets) == 16 + 8 + 10 + 2 * 5
    assert (len(buckets) == 1) is (bucket_bytes == 1 << 20)
    for bucket in buckets[:-1]:
        assert bucket.numel() * 4 >= bucket_bytes


def test_the_last_parameter_comes_first() -> None:
    grads = gradients(network())
    _, layout = grads.flatten()
    paths = [entry.path for entry in layout.entries if entry.kind == "gradient"]
    assert paths == [*reversed(grads.named())]
    other = gradients(network())
    assert other.flatten()[1].digest != layout.digest, "the ids are others"
    assert grads.map(lambda grad: grad * 2.0).flatten()[1].digest == layout.digest


def test_sums_of_buckets_are_sums_of_gradients() -> None:
    model = network()
    one, two = gradients(model, 1.0), gradients(model, 5.0)
    buckets, layout = one.flatten()
    summed = layout.unflatten([a + b for a, b in zip(buckets, layout.flatten(two), strict=True)])
    assert contents(summed) == contents(one + two)


def test_one_dtype_each_and_16_bits_as_float32() -> None:
    model = network()
    grads = gradients(model)
    dtypes = ["float64", "float16", "bfloat16", "float32"]
    mixed = GradientsParams(
        NumPy,
        {ident: grad.to_dtype(dtypes[k % 4]) for k, (ident, grad) in enumerate(grads.items())},
        paths=grads._paths,
    )
    buckets, layout = mixed.flatten()
    assert sorted(bucket.dtype.name for bucket in buckets) == ["float32", "float64"]
    again = layout.unflatten(buckets)
    assert contents(again) == contents(mixed)


def test_missing_gradients_are_zeros() -> None:
    class Two(Module[Any]):
        def __init__(self) -> None:
            self.one, self.two = Linear(2, 1, device=Train), Linear(2, 1, device=Train)

    model = Two()
    x = Tensor[Train].ones((1, 2))
    both = GradientsParams.from_grads((model.one(x) + model.two(x)).sum().backward(), model)
    one = GradientsParams.from_grads(model.one(x).sum().backward(), model)
    assert one.flatten()[1].unflatten(one.flatten()[0]).missing == ("two.weight", "two.bias")
    layout = Layout.of(both)
    filled = layout.unflatten(layout.flatten(one))
    assert filled["two.weight"].tolist() == [[0.0], [0.0]]
    assert filled["one.weight"].tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("bad", [True, False])
def test_found_inf_travels(bad: bool) -> None:
    model = network()
    checked, _ = GradScaler(NumPy).unscale(gradients(model, float("inf") if bad else 1.0))
    buckets, layout = checked.flatten()
    found = layout.unflatten([bucket * 3.0 for bucket in buckets]).found_inf
    assert found is not None
    assert found.item() is bad


def test_into_memory_of_the_host() -> None:
    grads = gradients(network())
    _, layout = grads.flatten(bucket_bytes=40)
    arrays = [np.full(spec.size, np.nan, spec.dtype) for spec in layout.buckets]
    layout.write(grads, arrays, scale=0.5)
    written = layout.unflatten([Tensor[NumPy].from_data(array) for array in arrays])
    assert contents(written) == contents(grads * 0.5), "updates of buffers are not scaled, as by *"
    layout.write(None, arrays)
    assert all((array == 0.0).all() for array in arrays)


def test_no_gradients() -> None:
    empty = GradientsParams(NumPy, {}, paths={})
    buckets, layout = empty.flatten()
    assert (buckets, layout.nbytes, len(layout.unflatten(buckets))) == ((), 0, 0)


def test_mistakes() -> None:
    grads = gradients(network())
    buckets, layout = grads.flatten(bucket_bytes=40)
    with pytest.raises(ShapeError, match=r"takes the .* buckets of this layout"):
        layout.unflatten(buckets[1:])
    with pytest.raises(ShapeError, match="takes the"):
        layout.unflatten([bucket.to_dtype("float64") for bucket in buckets])
    for size in (0, -1, 2.0, True):
        with pytest.raises(ArgumentError, match="expected an int of 1 or more"):
            grads.flatten(bucket_bytes=size)  # type: ignore[arg-type]  # as a user might
