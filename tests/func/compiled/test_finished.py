"""Convolutions of plans with the group that follows them in one pass, and results in the memory of inputs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, compiled, func
from burnpy.backend import NumPy
from burnpy.nn import BatchNorm, Conv1d, Conv2d, Relu, Sequential, ZeroPad
from burnpy_numpy.kernels.convolution import blocked, channel_lanes, tiles
from burnpy_numpy.kernels.kernel import kernels_enabled
from burnpy_numpy.plans.convolutions import ConvolutionLaunch, FinishedConvolution
from tests.kernels import needs_products

rng = np.random.default_rng(0)
joins = pytest.mark.skipif(not kernels_enabled(), reason="kernels compute convolutions with what follows")


def data(*shape: int, dtype: str = "float32") -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(rng.standard_normal(shape), dtype=dtype)


def layer(channels: int, outputs: int, size: int | tuple[int, int] = 3, dtype: str = "float32", **settings: Any) -> Any:
    return Conv2d(channels, outputs, size, device=NumPy, **settings).astype(dtype)


LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "few channels": (lambda dtype: layer(3, 5, padding=1, dtype=dtype), (2, 3, 19, 21)),
    "few channels, stride": (lambda dtype: layer(3, 8, 5, stride=2, dtype=dtype), (2, 3, 33, 41)),
    "many channels": (lambda dtype: layer(48, 40, padding=1, dtype=dtype), (3, 48, 5, 6)),
    "many channels, one member": (lambda dtype: layer(64, 35, dtype=dtype), (1, 64, 9, 9)),
    "many members": (lambda dtype: layer(32, 32, padding=1, dtype=dtype), (20, 32, 4, 4)),
    "groups": (lambda dtype: layer(80, 80, groups=2, padding=1, dtype=dtype), (2, 80, 6, 5)),
    "depthwise": (lambda dtype: layer(24, 24, groups=24, padding=1, dtype=dtype), (8, 24, 7, 7)),
    "depthwise, stride": (lambda dtype: layer(24, 24, 5, groups=24, stride=2, dtype=dtype), (2, 24, 21, 30)),
    "depthwise, more zeros after": (
        lambda dtype: Sequential(
            ZeroPad((0, 1, 1, 2)), layer(24, 24, groups=24, stride=2, bias=dtype == "float32", dtype=dtype)
        ),
        (2, 24, 30, 21),
    ),
    "one column": (lambda dtype: layer(9, 7, (5, 3), padding=(2, 1), dtype=dtype), (2, 9, 150, 1)),
    "no bias": (lambda dtype: layer(40, 33, padding=1, bias=False, dtype=dtype), (2, 40, 7, 7)),
}
FOLLOWING: dict[str, Any] = {
    "relu": lambda y, full, channel: y.relu(),
    "norm, sum, relu": lambda y, full, channel: (y * channel + channel.sin() + full).relu(),
    "twice": lambda y, full, channel: y * y.sigmoid() + y,
    "reversed": lambda y, full, channel: full - channel / (y.square() + 1.0),
    "where": lambda y, full, channel: (y * 0.5).where(full > y, channel * full),
    "used outside, too": lambda y, full, channel: (y.relu(), y),
    "two results": lambda y, full, channel: (y.relu(), y.tanh() + full),
    "a row of it": lambda y, full, channel: (y + channel).softmax(-1),
}


QUICK = ("few channels", "many channels")
"""The layers that are followed by all of `FOLLOWING` in each run of the tests; others are in the long one."""


def cases() -> Iterator[Any]:
    for name, following, dtype in product(LAYERS, FOLLOWING, ("float32", "float64")):
        quick = dtype == "float32" and (name in QUICK or following == "norm, sum, relu")
        yield pytest.param(name, following, dtype, marks=() if quick else pytest.mark.long)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "following", "dtype"), [*cases()])
def test_convolutions(name: str, following: str, dtype: str) -> None:
    make, shape = LAYERS[name]
    convolution, f = make(dtype), FOLLOWING[following]

    def run(x: Any, full: Any, channel: Any) -> Any:
        return f(convolution(x), full, channel)

    plan = compiled(run)
    earlier: list[Any] = []
    for _ in range(2):
        x = data(*shape, dtype=dtype)
        out = convolution(x).shape
        given = x, data(*out, dtype=dtype), data(out[1], 1, 1, dtype=dtype)
        results, expected = plan(*given), run(*given)
        for got, other in zip(*[r if isinstance(r, tuple) else (r,) for r in (results, expected)], strict=True):
            np.testing.assert_allclose(got.to_numpy(), other.to_numpy(), rtol=2e-5, atol=2e-5)
            earlier.append((got, got.to_numpy().copy()))
    for got, values in earlier:
        np.testing.assert_array_equal(got.to_numpy(), values)


@joins
@pytest.mark.parametrize("name", LAYERS)
def test_what_follows_is_part_of_the_kernel(name: str) -> None:
    make, shape = LAYERS[name]
    convolution = make("float32")
    x = data(*shape)
    out = convolution(x).shape
    plan = compiled(lambda x, y: (convolution(x) + y).relu()).explain(x, data(*out))
    assert [part.operations[1:] for part in plan.programs] == [("add", "relu")]
    assert not plan.operations
    plan = compiled(lambda x: (lambda y: (y.relu(), y))(convolution(x))).explain(x)
    assert [part.name for part in plan.programs] == ["relu"]


@joins
@pytest.mark.parametrize("shape", [(), (1, 1, 1, 1)])
def test_a_number_that_stays_is_a_constant_of_the_kernel(shape: tuple[int, ...]) -> None:
    convolution, x, least = layer(48, 40, padding=1), data(3, 48, 5, 6), Tensor[NumPy].full(shape, 0.1)
    plan = compiled(lambda x: convolution(x).maximum(least))
    assert [part.operations[1:] for part in plan.explain(x).programs] == [("maximum",)]
    np.testing.assert_allclose(plan(x).to_numpy(), convolution(x).maximum(0.1).to_numpy(), rtol=1e-5, atol=1e-5)


@needs_products
@pytest.mark.parametrize("name", ["many channels, one member", "depthwise", "depthwise, more zeros after"])
def test_python_makes_no_calls_for_weights_that_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, shape = LAYERS[name]
    convolution, x = make("float32"), data(*shape)
    run: Any = lambda layer, x: (layer(x) * 2.0 + 1.0).relu()  # noqa: E731
    expected = run(convolution, x).to_numpy()
    np.testing.assert_allclose(compiled(run)(convolution, x).to_numpy(), expected, rtol=2e-5, atol=2e-5)
    monkeypatch.delattr(FinishedConvolution, "_run")
    plan = compiled(lambda x: run(convolution, x))
    for _ in range(2):
        np.testing.assert_allclose(plan(x).to_numpy(), expected, rtol=2e-5, atol=2e-5)
    with pytest.raises(AttributeError, match="_run"):
        compiled(run)(convolution, x)


FEW_WINDOWS: tuple[tuple[tuple[int, ...], int, dict[str, Any]], ...] = (
    ((1, 129, 1, 3), 128, {"size": (1, 3), "padding": (0, 1)}),
    ((1, 1, 1, 576), 258, {"size": (1, 256), "stride": (1, 128), "bias": False}),
    ((1, 3, 5, 4), 2, {"size": (3, 2), "stride": 2, "padding": (1, 0), "dilation": (1, 2)}),
    ((1, 7, 2, 2), 1, {"size": 2}),
    ((1, 17, 4, 4), 9, {"size": 3, "stride": 2, "padding": 1, "bias": False}),
    ((1, 40, 1, 5), 40, {"size": (1, 5), "padding": (0, 2), "groups": 40}),
    ((2, 6, 3, 4), 12, {"size": 3, "stride": 2, "padding": 1, "groups": 6, "bias": False}),
)


@joins
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_windows_and_planes(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for shape, outputs, settings in FEW_WINDOWS:
        convolution, x = layer(shape[1], outputs, dtype=dtype, **settings), data(*shape, dtype=dtype)
        run: Any = lambda x, convolution=convolution: convolution(x).relu() - 1.0  # noqa: E731
        plan, expected = compiled(run), run(x).to_numpy()
        plan(x)
        with monkeypatch.context() as patch:
            patch.delattr(ConvolutionLaunch, "_run")  # Python makes no calls
            patch.delattr("burnpy_numpy.convolution._few_windows")
            patch.delattr("burnpy_array.convolution._forward")
            for _ in range(2):
                np.testing.assert_allclose(plan(x).to_numpy(), expected, rtol=2e-5, atol=2e-5)


@joins
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["few channels", "many channels", "depthwise"])
def test_weights_that_are_not_finite(name: str, value: float) -> None:
    """Kernels of channel blocks leave such weights to others; what follows is computed all the same."""
    make, shape = LAYERS[name]
    convolution = make("float32")
    weight = convolution.weight.value.to_numpy().copy()
    weight[1, 0, 0, 0] = value
    broken = convolution.map(lambda x: Tensor[NumPy].from_data(weight) if x.shape == weight.shape else x)
    run: Any = lambda x, channel: (broken(x) * channel).relu()  # noqa: E731
    x = data(*shape)
    channel = data(broken(x).shape[1], 1, 1)
    np.testing.assert_allclose(compiled(run)(x, channel).to_numpy(), run(x, channel).to_numpy(), rtol=2e-5, atol=2e-5)


@joins
@pytest.mark.parametrize("name", ["few channels", "many members", "groups"])
def test_parts_of_the_batch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "_PART_BYTES", 1)
    monkeypatch.setattr(tiles, "_SOURCE", 1)
    make, shape = LAYERS[name]
    convolution = make("float32")
    x = data(20, *shape[1:])
    y = data(*convolution(x).shape)
    run: Any = lambda x, y: (convolution(x) + y).relu()  # noqa: E731
    np.testing.assert_allclose(compiled(run)(x, y).to_numpy(), run(x, y).to_numpy(), rtol=2e-5, atol=2e-5)


@joins
def test_a_model_for_inference_is_one_kernel_for_each_convolution() -> None:
    model = Sequential(
        *[part for c, o in ((3, 32), (32, 32)) for part in (layer(c, o, padding=1), BatchNorm(o, device=NumPy), Relu())]
    )
    plan = compiled(model).explain(data(2, 3, 12, 12))
    whole = [part for part in plan.programs if part.shape == (2, 32, 12, 12)]
    assert [part.operations for part in whole] == [("conv2d_bias", "sub", "mul", "add", "relu")] * 2


@joins
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("filled", [1.0, 0.0])
def test_small_planes_are_no_products_where_they_do_not_fill_vectors(
    filled: float, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_lanes, "_FILLED", filled)
    model = Sequential(layer(64, 96, 1, bias=bias), Relu())
    x, plan = data(1, 64, 7, 7), compiled(model)
    np.testing.assert_allclose(plan(x).to_numpy(), model(x).to_numpy(), rtol=2e-5, atol=2e-5)
    (whole,) = plan.explain(x).programs
    assert (whole.operations == ("conv2d", *["add"] * bias, "relu")) is bool(filled)


def test_gradients_through_convolutions_and_what_follows() -> None:
    convolution = layer(32, 32, padding=1, dtype="float64")

    def loss(x: Any, y: Any) -> Any:
        return ((convolution(x) + y).relu() * y).sum()

    given = data(2, 32, 5, 5, dtype="float64"), data(2, 32, 5, 5, dtype="float64")
    slope = func.grad(loss, argnums=(0, 1))
    for got, expected in zip(compiled(slope)(*given), slope(*given), strict=True):
        np.testing.assert_allclose(got.to_numpy(), expected.to_numpy(), rtol=1e-9, atol=1e-9)


@joins
def test_kernels_write_to_the_memory_of_what_nothing_needs_afterwards() -> None:
    w = data(64, 64)
    chain: Any = lambda x: ((x @ w).relu() @ w).softmax(-1) @ w  # noqa: E731
    x = data(50, 64)
    plan = compiled(chain)
    np.testing.assert_allclose(plan(x).to_numpy(), chain(x).to_numpy(), rtol=2e-5, atol=2e-5)
    assert plan.plans[0].bytes == 2 * x.to_numpy().nbytes  # a product and the next one


def test_a_value_that_is_read_in_two_ways_is_not_overwritten() -> None:
    w = data(6, 6)

    def f(x: Any) -> Any:
        y = x @ w
        transposed = y.transpose(0, 1)
        return (y + transposed) @ w, (y * y[0, 0] - y.reshape(-1)[1:].sum()) @ w

    x = data(6, 6)
    for got, expected in zip(compiled(f)(x), f(x), strict=True):
        np.testing.assert_allclose(got.to_numpy(), expected.to_numpy(), rtol=2e-4, atol=2e-4)


@joins
def test_training_steps_with_convolutions_on_tracked_devices() -> None:
    train = Autodiff[NumPy]
    layers = [Conv2d(32, 32, 3, padding=1, device=train) for _ in range(2)]
    model = Sequential(layers[0], Relu(), layers[1])

    def step(model: Any, x: Any) -> Any:
        y = model(x)
        grads = (y * y).sum().backward()
        return y.detach(), [p.value.grad(grads) for p in model.params()]

    x = Tensor[train].from_data(rng.standard_normal((2, 32, 6, 6)), dtype="float32")
    plan = compiled(step)
    (got, slopes), (expected, others) = plan(model, x), step(model, x)
    np.testing.assert_allclose(got.to_numpy(), expected.to_numpy(), rtol=1e-5, atol=1e-5)
    for one, two in zip(slopes, others, strict=True):
        np.testing.assert_allclose(one.to_numpy(), two.to_numpy(), rtol=1e-4, atol=1e-3)
    assert ("conv2d_bias", "relu") in [part.operations for part in plan.plans[0].programs]


def test_sequences_and_pixels_are_reshaped_before_what_follows() -> None:
    for convolution, shape in (
        (Conv1d(16, 24, 3, padding=1, device=NumPy), (2, 16, 40)),
        (layer(16, 24, 1), (1, 16, 9, 9)),
        (layer(16, 24, 1), (2, 16, 9, 9)),
    ):
        x = data(*shape)
        y = data(*convolution(x).shape)
        run: Any = lambda x, y, convolution=convolution: (convolution(x) + y).relu()  # noqa: E731
        np.testing.assert_allclose(compiled(run)(x, y).to_numpy(), run(x, y).to_numpy(), rtol=2e-5, atol=2e-5)
