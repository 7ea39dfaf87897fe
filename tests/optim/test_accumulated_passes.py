"""`GradientsAccumulator.backward`: the values of `add`, in one copy of the gradients, which nobody else sees change."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.autodiff import checkpoint, detect_anomaly
from burnpy.backend import Checked, Mixed, NumPy, Profiled, errors
from burnpy.func import compiled
from burnpy.nn import BatchNorm, Embedding, LayerNorm, Linear, Module, Param
from burnpy.optim import GradientsAccumulator, GradientsParams, GradScaler
from burnpy_numpy.kernels.kernel import kernels_enabled
from tests.kernels import multiplies
from tests.rows import every_row

Train = Autodiff[NumPy]
WIDTH = 192  # with weights that are large for the engine


class Net(Module[Any]):
    """An embedding, normalizations, a weight that is used several times, one in a checkpoint, and a frozen one."""

    def __init__(self, device: Any) -> None:
        self.table = Embedding(50, WIDTH, device=device)
        self.norm = LayerNorm(WIDTH, device=device)
        self.batch = BatchNorm(WIDTH, device=device)
        self.step = Linear(WIDTH, WIDTH, device=device)
        self.out = Linear(WIDTH, WIDTH, device=device)
        self.frozen = Linear(WIDTH, WIDTH, device=device).no_grad()
        self.factors = Param(Tensor.ones((WIDTH, WIDTH), device=device) * 0.1)

    def forward(self, tokens: IntTensor[Any]) -> Tensor[Any]:
        x = self.norm(self.batch(self.table(tokens)))
        for _ in range(3):
            x = self.step(x).tanh() + x
        x = checkpoint(self.out, self.frozen(x)).relu() @ self.factors.value
        return (x * x).mean()


def net(device: Any = Train) -> Net:
    burnpy.manual_seed(0)
    return Net(device)


def micro_batches(count: int = 4, rows: int = 8, device: Any = Train) -> list[IntTensor[Any]]:
    rng = np.random.default_rng(0)
    return [IntTensor.from_data(rng.integers(0, 50, rows), device=device) for _ in range(count)]


def added(model: Any, batches: Any, weights: Any = None, scale: Any = lambda loss: loss) -> GradientsAccumulator[Any]:
    total: GradientsAccumulator[Any] = GradientsAccumulator()
    for k, x in enumerate(batches):
        grads = GradientsParams.from_grads(scale(model(x)).backward(), model)
        total = total.add(grads, weight=1.0 if weights is None else weights[k])
    return total


def passed(model: Any, batches: Any, weights: Any = None, scale: Any = lambda loss: loss) -> GradientsAccumulator[Any]:
    total: GradientsAccumulator[Any] = GradientsAccumulator()
    for k, x in enumerate(batches):
        total = total.backward(scale(model(x)), model, weight=1.0 if weights is None else weights[k])
    return total


def assert_alike(found: GradientsParams[Any], expected: GradientsParams[Any], rtol: float = 2e-5) -> None:
    assert found.named().keys() == expected.named().keys()
    pairs = [(found[path], grad) for path, grad in expected.named().items()]
    pairs += [(found.buffer_updates[ident], update) for ident, update in expected.buffer_updates.items()]
    for one, other in pairs:
        x, y = one.to_numpy(), other.to_numpy()
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * abs(y).max())


@every_row(
    "title, device, rtol",
    [
        ("NumPy", Train, 2e-5),
        ("mixed", Autodiff[Mixed[NumPy]], 2e-2),
        ("checked", Autodiff[Checked[NumPy]], 2e-5),
        ("profiled", Autodiff[Profiled[NumPy]], 2e-5),
        ("two levels", Autodiff[Train], 2e-5),
    ],
)
def test_the_values_are_those_of_added_gradients(title: str, device: Any, rtol: float) -> None:
    model, batches = net(device), micro_batches(device=device)
    for weights in (None, [8, 8, 8, 5]):
        one, other = passed(model, batches, weights), added(model, batches, weights)
        assert (len(one), one.weight) == (len(other), other.weight)
        assert_alike(one.mean(), other.mean(), rtol)
        assert_alike(one.sum(), other.sum(), rtol)


class Layers(Module[Any]):
    """Layers that are used once."""

    def __init__(self, device: Any = Train, width: int = WIDTH) -> None:
        self.layers = [Linear(width, width, device=device) for _ in range(3)]

    def forward(self, x: Tensor[Any]) -> Tensor[Any]:
        for layer in self.layers:
            x = layer(x).tanh()
        return x.square().mean()


def rows(count: int, width: int = WIDTH, device: Any = Train) -> Tensor[Any]:
    return Tensor.from_data(np.random.default_rng(count).normal(size=(count, width)), dtype="float32", device=device)


@pytest.mark.slow
@every_row(
    "dtype, count",
    [("float32", n) for n in (1, 8, 20, 64, 700)] + [("float64", 8), ("float64", 64), ("float16", 8), ("float16", 64)],
)
def test_equal_weights_give_the_same_bits(dtype: str, count: int) -> None:
    model, batches = Layers().astype(dtype), [rows(count).to_dtype(dtype) for _ in range(4)]
    powers = [[3, 3, 12, 1.5]] if dtype != "float16" else []  # small gradients of 16 bits are rounded to multiples
    for weights in ([1] * 4, [count] * 4, *powers):
        one, other = passed(model, batches, weights).mean(), added(model, batches, weights).mean()
        for path, grad in other.named().items():
            assert one[path].to_numpy().tobytes() == grad.to_numpy().tobytes(), path


def test_the_values_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    model, batches = Layers(), [rows(k) for k in (3, 8, 8, 5)]
    weights, biases = (
        [torch.tensor(p.value.to_numpy(), requires_grad=True) for p in ps]
        for ps in zip(*((layer.weight, layer.bias) for layer in model.layers), strict=True)
    )
    for x in batches:
        hidden = torch.tensor(x.to_numpy())
        for weight, bias in zip(weights, biases, strict=True):
            hidden = (hidden @ weight + bias).tanh()
        hidden.square().mean().backward()
    found = passed(model, batches).sum()
    for k, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        for name, parameter in (("weight", weight), ("bias", bias)):
            np.testing.assert_allclose(found[f"layers.{k}.{name}"].to_numpy(), parameter.grad, rtol=1e-4, atol=1e-7)


def test_a_scaled_loss() -> None:
    model, scaler = Layers(), GradScaler(NumPy)
    batches = [rows(4) for _ in range(3)]
    one, _ = scaler.unscale(passed(model, batches, scale=scaler.scale).mean())
    assert_alike(one, added(model, batches).mean(), 1e-4)


def test_products_are_added_as_they_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first pass make the memory; of each other one there is one product a weight, and no other array."""
    if not kernels_enabled():
        pytest.skip("kernels are off")
    product, calls = NumPy.accumulate_product, list[bool]()

    def counted(device: Any, total: Any, x: Any, y: Any) -> Any:
        out = product(device, total, x, y)
        calls.append(out is total)
        return out

    monkeypatch.setattr(NumPy, "accumulate_product", counted)
    model = Layers()
    total = passed(model, [rows(8)])
    assert not calls
    for number in range(1, 4):
        total = total.backward(model(rows(8)), model)
        assert calls == [True] * 3 * number
    table = net()
    calls.clear()
    passed(table, micro_batches(2))
    # The weight of three steps, whose first product is added and whose others are joined, the other two, once each.
    assert calls == [True] * 4


def test_there_is_one_copy_of_the_gradients() -> None:
    model = Layers(width=512)
    total = passed(model, [rows(8, 512) for _ in range(2)])
    size = sum(grad.to_numpy().nbytes for grad in total.sum().values())
    losses = [model(rows(8, 512)) for _ in range(2)]
    tracemalloc.start()
    try:
        for loss in losses:
            total = total.backward(loss, model)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.4 * size  # at most the product of one of three weights, without kernels


@every_row(
    "title, keep",
    [
        ("sum", lambda total: total.sum()),
        ("gradient", lambda total: total.sum()["layers.0.weight"]),
        ("all gradients", lambda total: [*total.sum().values()]),
        ("view", lambda total: total.sum()["layers.0.weight"].T),
        ("array", lambda total: total.sum()["layers.0.weight"].to_numpy()),
        ("mean", lambda total: total.mean()),
        ("copy of an accumulator", lambda total: total.add(total.sum())),
    ],
)
def test_what_was_returned_never_changes(title: str, keep: Any) -> None:
    def values(kept: Any) -> list[Any]:
        if isinstance(kept, GradientsAccumulator):
            kept = kept.sum()
        if isinstance(kept, GradientsParams):
            kept = [*kept.values()]
        return [
            np.array(x if isinstance(x, np.ndarray) else x.to_numpy())
            for x in (kept if isinstance(kept, list) else [kept])
        ]

    model, kept, before = Layers(), list[Any](), list[Any]()
    total = passed(model, [rows(8)])
    for _ in range(3):
        kept.append(keep(total))
        before.append(values(kept[-1]))
        total = total.backward(model(rows(8)), model)
    for one, old in zip(kept, before, strict=True):
        for x, y in zip(values(one), old, strict=True):
            np.testing.assert_array_equal(x, y)
    assert_alike(total.sum(), added(model, [rows(8)] * 4).sum())


def test_gradients_that_parameters_share_are_apart() -> None:
    class Sum(Module[Any]):
        def __init__(self) -> None:
            self.a, self.b = (Param(Tensor.zeros((3,), device=Train)) for _ in range(2))

        def forward(self, x: Tensor[Any]) -> Tensor[Any]:
            return ((self.a.value + self.b.value) * x).sum()

    model = Sum()
    total = passed(model, [Tensor[Train].ones((3,))] * 4).backward((model.a.value * 2.0).sum(), model)
    assert total.sum()["a"].tolist() == [6.0] * 3
    assert total.sum()["b"].tolist() == [4.0] * 3


def test_a_used_accumulator_says_so() -> None:
    model = Layers()
    first = passed(model, [rows(4)])
    second = first.backward(model(rows(4)), model)
    for use in (
        first.sum,
        first.mean,
        lambda: first.add(second.sum()),
        lambda: first.backward(model(rows(4)), model),
        first.__reduce__,
    ):
        with pytest.raises(errors.StateError, match=r"use the accumulator that backward\(\) returned, or an empty one"):
            use()
    assert (len(first), len(second)) == (1, 2)


@pytest.mark.parametrize(
    "title", ["consumed", "of another model", "of several elements", "weight", "no tensor", "detached"]
)
def test_nothing_changes_by_an_error_before_the_pass(title: str) -> None:
    model, x = Layers(), rows(4)
    total = passed(model, [x])
    values = {path: grad.to_numpy().copy() for path, grad in total.sum().named().items()}
    loss: Any = model(x)
    wrong: dict[str, Any] = {
        "consumed": (loss, model, 1.0, errors.GraphError, "another pass consumed"),
        "of another model": (loss, Layers(), 1.0, errors.ArgumentError, "belong to none of this Layers"),
        "of several elements": (loss.reshape((1, 1)).repeat(2, 1), model, 1.0, errors.ShapeError, "one element"),
        "weight": (loss, model, 0.0, errors.ArgumentError, "weight of a micro-batch"),
        "no tensor": (model, loss, 1.0, errors.KindError, "the loss as a Tensor, got"),
        "detached": (loss.detach(), model, 1.0, errors.NotTrackedError, "from no leaf"),
    }
    if title == "consumed":
        loss.backward()
    loss, other, weight, error, message = wrong[title]
    with pytest.raises(error, match=message):
        total.backward(loss, other, weight=weight)
    for path, value in values.items():
        np.testing.assert_array_equal(total.sum()[path].to_numpy(), value)


def test_an_error_within_the_pass_leaves_no_half_sum() -> None:
    def failing(grad: Tensor[Any]) -> None:
        raise ZeroDivisionError

    model = Layers()
    total = passed(model, [rows(4)])
    x, _ = (rows(4) * 1.0).require_grad().register_hook(failing)
    with pytest.raises(ZeroDivisionError):
        total.backward(model(x), model)
    with pytest.raises(errors.StateError, match="or an empty one if it raised an error"):
        total.mean()


def test_hooks_see_the_gradient_of_one_micro_batch() -> None:
    model, seen = Layers(), list[Any]()
    weight, _ = model.layers[1].weight.value.register_hook(lambda grad: seen.append(grad.to_numpy().copy()))
    x = rows(8)
    total: Any = GradientsAccumulator()
    for _ in range(3):
        hidden = (x @ weight).square().mean() + model(x)
        total = total.backward(hidden, model)
    assert len(seen) == 3
    for each in seen:
        np.testing.assert_array_equal(each, seen[0])


def test_anomalies_are_seen() -> None:
    model = Layers()
    total = passed(model, [rows(4)])
    with detect_anomaly():
        total = total.backward(model(rows(4)), model)
    assert_alike(total.sum(), added(model, [rows(4)] * 2).sum())


def test_parameters_that_a_loss_does_not_reach_keep_their_sums() -> None:
    model, x = Layers(), rows(4)
    total = passed(model, [x])
    before = total.sum()["layers.2.weight"].to_numpy().copy()
    total = total.backward(model.layers[0](x).square().mean(), model)
    np.testing.assert_array_equal(total.sum()["layers.2.weight"].to_numpy(), before)


def test_a_parameter_frozen_in_between_keeps_its_sum() -> None:
    model, x = Layers(), rows(4)
    total = passed(model, [x])
    before = total.sum()["layers.0.weight"].to_numpy().copy()
    frozen = model.replace({"layers.0": model.layers[0].no_grad()})
    total = total.backward(frozen(x), frozen)
    np.testing.assert_array_equal(total.sum()["layers.0.weight"].to_numpy(), before)
    assert_alike(total.sum().without("layers.0"), added(model, [x, x]).sum().without("layers.0"))


def test_threads_accumulate_apart_and_one_of_two_gets_the_memory() -> None:
    model, batches = Layers(), [rows(8) for _ in range(4)]
    expected = passed(model, batches).sum()
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: passed(model, batches).sum(), range(8)):
            for path, grad in expected.named().items():
                np.testing.assert_array_equal(found[path].to_numpy(), grad.to_numpy())

        def attempt(total: Any) -> bool:
            try:
                total.backward(model(batches[0]), model)
            except errors.StateError:
                return False
            return True

        for _ in range(5):
            assert sum(pool.map(attempt, [passed(model, batches[:1])] * 4)) == 1


def test_in_a_compiled_function() -> None:
    """A plan adds the product of a weight to the sum as it computes it."""
    model = Layers()
    x = rows(64)

    @compiled
    def gathered(model: Any, x: Any, total: Any) -> Any:
        return total.backward(model(x), model)

    total = passed(model, [x])
    for _ in range(3):
        total = gathered(model, x, total)
    assert (len(total), total.weight) == (4, 4.0)
    assert not multiplies() or str(gathered.plans[0]).count("matmul_tn · add") == 3
    assert_alike(total.sum(), added(model, [x] * 4).sum())
