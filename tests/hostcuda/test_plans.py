"""Compiled functions on the real CuPy: plans of kernels and products, with the results of eager mode."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, compiled, cross_entropy, errors, func, manual_seed, where
from burnpy.backend import CuPy, Mixed, Profiled
from burnpy.nn import BatchNorm, Dropout, Gelu, LayerNorm, Linear, Relu, Sequential, TransformerEncoderLayer
from burnpy.optim import Adam, GradientsParams, clip_by_global_norm
from burnpy_cupy import epilogues, plans
from burnpy_cupy.kernels import foreach_tables
from tests.hostcuda import simulator

simulator.require()

Train = Autodiff[CuPy]


def drawn(*shape: int) -> Any:
    return Tensor.from_data(np.random.default_rng(0).standard_normal(shape).astype("f"), device=CuPy)


@pytest.mark.parametrize("summed", [2048, 2], ids=["", "norms in two steps"])
def test_a_training_step(summed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch norm, dropout, an index that is checked, clipping, Adam's counts, a rate that changes, and donation."""
    for module in (foreach_tables, plans):
        monkeypatch.setattr(module, "SUMMED", summed)
    optim = Adam()
    manual_seed(0)
    # no bias before the norm: its gradient is a rounding error, and Adam makes whole steps of that
    layers = Linear(4, 8, bias=False, device=Train), BatchNorm(8, device=Train), Relu(), Dropout(0.1)
    model = Sequential(*layers, Linear(8, 3, device=Train))
    x, y = Tensor.from_inner(drawn(6, 4), device=Train), IntTensor.from_data([0, 1, 2, 0, 1, 2], device=Train)

    def step(model: Any, state: Any, lr: Any, x: Any, y: Any) -> Any:
        loss = cross_entropy(model(x), y)
        grads = clip_by_global_norm(GradientsParams.from_grads(loss.backward(), model), 0.5)
        return (*optim.pure_step(lr, model, grads, state), loss.detach())

    runs = []
    functions: list[Any] = [step, compiled(step, donate=("model", "state"))]
    for f in functions:
        manual_seed(5)
        carried: list[Any] = [model, optim.init(model)]
        losses = []
        for k in range(3):
            *carried, loss = f(*carried, 0.1 / (k + 1), x, y)
            losses.append(loss.item())
        runs.append([np.array(losses), *[v._value.to_numpy() for v in carried[0]._variables().values()]])
    for eager, planned in zip(*runs, strict=True):  # kernels of plans add in another order
        np.testing.assert_allclose(planned, eager, rtol=1e-5, atol=1e-6)


FUNCTIONS: dict[str, Any] = {
    "sums over many rows": lambda x, s: func.grad(lambda w, b: ((x @ w) * s + b).tanh().sum(), (0, 1))(
        x.mT @ x, x.sum(0)
    ),
    "two sums over rows": lambda x, s: ((x * s).exp().sum(0), (x - s).square().sum(0), x.mean(0)),
    "a number of each kind": lambda x, s: (x * s + s.to_dtype("float32")).relu() - x.sum(),
    "a choice of float64 numbers": lambda x, s: (where(x > 0.5, s, -s), where(x > s, x * s, s.to_dtype("float32"))),
    "products": lambda x, s: (
        x.mT @ x,
        (x.unflatten(0, (3, 100)).mT @ x.unflatten(0, (3, 100))).sum(0),
        x[:4] @ x[4:8].mT,
    ),
    "rows": lambda x, s: (x * s).softmax(-1) + (x - x.amax(1, keepdim=True)).log_softmax(-1),
    "16 bits of several dtypes": lambda x, s: tuple(
        [
            y.to_dtype("float32")
            for a in (x, x.exp(), (x.mT @ x)[:2], (x.mT @ x)[2:4], x.mT @ x)
            for y in (a.to_dtype("bfloat16"), a.to_dtype("float16"), a.to_dtype("bfloat16") * 2)
        ]
    ),
    "16-bit results": lambda x, s: ((x * s).sin().to_dtype("float16"), x.to_dtype("float16"), x.mT.to_dtype("float16")),
    "views": lambda x, s: (x.mT * s)[1:].flip(0) + x[::2].mT[:-1].sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    """Twice, as the second replay has other inputs at other addresses, and on a profiled device."""
    f = FUNCTIONS[name]
    planned = compiled(f)
    for k in range(2):
        x, s = drawn(300, 5) * (k + 1.0), Tensor.from_data(np.array(0.5 - k, "d"), device=CuPy)
        for found, wanted in zip(flat(planned(x, s)), flat(f(x, s)), strict=True):
            np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy(), rtol=2e-5, atol=1e-5)
    inner = Profiled(CuPy())
    own: list[Any] = [v.to_device(inner) for v in (drawn(300, 5), Tensor.from_data(0.5, device=CuPy))]
    with Profiled.record() as profiled:
        found = flat(compiled(f)(*own))
    assert profiled.rows()
    for one, two in zip(found, flat(f(*own)), strict=True):
        np.testing.assert_allclose(one.to_numpy(), two.to_numpy(), rtol=2e-5, atol=1e-5)


def test_streams_take_turns_in_the_memory_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    device, x = CuPy(), drawn(40, 5)
    planned = compiled(lambda x: (x @ x.mT).exp().sum(0))
    streams = [device.stream(), device.stream()]
    planned(x)
    planned(x)
    followed: list[tuple[int, int]] = []
    monkeypatch.setattr(device._streams, "follow", lambda later, earlier: followed.append((later.ptr, earlier.ptr)))
    for stream in streams:
        with stream:
            planned(x)
            planned(x)
    own = [stream._stream.ptr for stream in streams]
    assert (own[0], 0) in followed
    assert (own[1], own[0]) in followed


def test_threads_have_memory_of_their_own() -> None:
    planned, xs = compiled(lambda x: ((x @ x.mT).sin() @ x).sum(0)), [drawn(6, 5) * k for k in range(4)]
    wanted = [planned(x).tolist() for x in xs]
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda k: planned(xs[k % 4]).tolist(), range(40))]
    assert found == wanted * 10


def test_a_step_waits_for_nothing() -> None:
    """Adam's count and the rate are on the GPU: of the count alone a kernel computes the bias corrections."""
    optim, model = Adam(), Linear(4, 3, device=Train)

    @compiled(donate=("model", "state"))
    def step(model: Any, state: Any, lr: float, x: Any) -> Any:
        loss = model(x).square().mean()
        grads = clip_by_global_norm(GradientsParams.from_grads(loss.backward(), model), 1.0)
        return (*optim.pure_step(lr, model, grads, state), loss.detach())

    x = Tensor.from_inner(drawn(6, 4), device=Train)
    state: Any = optim.init(model)
    for _ in range(2):
        model, state, _ = step(model, state, 1e-3, x)
    with simulator.watched() as journal:
        model, state, _ = step(model, state, 1e-4, x)
    counts = journal.counts
    assert (counts["waits"], counts["to_host"], counts["to_device"], counts["on_device"]) == (0, 0, 0, 0), journal.lines
    assert "burnpy_numbers" in journal.launches


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_values_are_rounded_by_the_kernels_that_compute_them(dtype: str) -> None:
    """And all inputs in one launch."""
    inputs = [drawn(6, 4), drawn(4, 40), drawn(40, 5)]
    ours: list[Any] = [x.to_device(Mixed(CuPy, dtype)) for x in inputs]

    def f(x: Any, w: Any, v: Any) -> Any:
        hidden = (x @ w).gelu()
        return hidden.sum(0), hidden @ v

    planned = compiled(f)
    planned(*ours)
    with simulator.watched() as journal:
        found = planned(*ours)
    for got, wanted in zip(found, f(*ours), strict=True):
        np.testing.assert_array_equal(got.to_numpy(), wanted.to_numpy())
    gelu = ["burnpy_gelu_sum_cast", "burnpy_gelu_sum_cast_sums_over_rows"]
    assert journal.launches == ["burnpy_each_cast_each", "cublasGemmEx", *gelu, "cublasGemmEx"]


def perceptron(device: Any) -> Any:
    layers = Linear(8, 8, device=device), Gelu(), LayerNorm(8, device=device), Linear(8, 8, device=device)
    return Sequential(*layers, Gelu(), Linear(8, 3, device=device))


def encoder(device: Any) -> Any:
    return TransformerEncoderLayer(8, 2, feedforward=16, dropout=0.0, activation="gelu", norm_first=True, device=device)


@pytest.mark.parametrize(
    ("make", "rounds"),
    [(perceptron, []), (encoder, ["burnpy_round_3", *["burnpy_round_1"] * 3])],
    ids=["perceptron", "encoder"],
)
def test_gradients_are_rounded_by_the_kernels_that_compute_them(make: Any, rounds: list[str]) -> None:
    """Weights are rounded at once; queries, keys and values, too, and what attention and its gradient return."""
    train = Autodiff(Mixed(CuPy))
    model = make(train)
    x = Tensor.from_data(np.random.default_rng(0).standard_normal((2, 6, 8)).astype("f"), device=train)

    def gradients(model: Any, x: Any) -> Any:
        return GradientsParams.from_grads(model(x).square().mean().backward(), model)

    planned = compiled(gradients)
    planned(model, x)
    with simulator.watched() as journal:
        found = planned(model, x)
    for path, wanted in gradients(model, x).items():
        got = found[path].to_numpy()
        np.testing.assert_allclose(got, wanted.to_numpy(), rtol=0, atol=2e-2 * np.abs(got).max(), err_msg=str(path))
    launches = [name for name in journal.launches if re.search("round|each_cast", name)]
    assert launches == ["burnpy_each_cast_each", *rounds], journal.launches


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_gradient_of_cross_entropy_is_computed_in_16_bits(shape: tuple[int, ...], dtype: str) -> None:
    """If products alone read it; it stays float32 if something else reads it, too."""
    device: Any = Mixed(CuPy, dtype)
    rng = np.random.default_rng(0)
    x, w = [Tensor.from_data(rng.standard_normal(s).astype("f"), device=device) for s in ((*shape, 8), (8, 5))]
    y = IntTensor.from_data(rng.integers(0, 5, shape), device=device)
    zero = Tensor.zeros((6, 5), device=device)

    def loss(w: Any, x: Any, zero: Any, y: Any) -> Any:
        return cross_entropy((x @ w).reshape(6, 5) + zero, y.flatten())

    for by, rounds in (((0, 1), ["burnpy_each_cast_each"]), ((0, 1, 2), ["burnpy_each_cast_each", "burnpy_cast"])):
        gradients = func.grad(loss, by)
        planned = compiled(gradients)
        planned(w, x, zero, y)
        with simulator.watched() as journal:
            found = planned(w, x, zero, y)
        assert [name for name in journal.launches if re.search("round|cast", name)] == rounds, journal.launches
        for got, want in zip(found, gradients(w, x, zero, y), strict=True):
            largest = np.abs(want.to_numpy()).max()
            np.testing.assert_allclose(got.to_numpy(), want.to_numpy(), rtol=0, atol=2e-2 * largest)


@pytest.mark.parametrize("shape", [(6, 4), (2, 3, 4)])
@pytest.mark.parametrize("lacking", [False, True])
def test_linear_layers_and_their_gradients_have_epilogues(
    shape: tuple[int, ...], lacking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As single launches, in a graph, and as other launches where there is no cuBLASLt."""
    if lacking:
        monkeypatch.setattr(epilogues, "_library", lambda release: None)
    epilogues._plan.cache_clear()
    model = Sequential(Linear(4, 8, device=Train), Linear(8, 3, device=Train), Relu())
    x = Tensor.from_inner(drawn(*shape), device=Train)

    def gradients(model: Any, x: Any) -> Any:
        out = model(x)
        grads = GradientsParams.from_grads(out.square().sum().backward(), model)
        return out.detach(), *grads.named().values()

    planned, wanted = compiled(gradients), [result.to_numpy() for result in gradients(model, x)]

    def launched() -> list[str]:
        with simulator.watched() as journal:
            results = planned(model, x)
        for got, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(got.to_numpy(), want, rtol=2e-5, atol=1e-5)
        return journal.launches

    launched()
    assert launched().count("cublasLtMatmul") == (0 if lacking else 3)
    with CuPy.graphs():
        assert [launched() for _ in range(3)][-1] == ["burnpy_write_words", "cudaGraph"]
    epilogues._plan.cache_clear()


def flat(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def test_loops_branches_and_checks() -> None:
    xs = drawn(5, 3)
    for steps in (5, 12):  # many steps are one call of compiled code on the CPU
        ys = drawn(steps, 3)
        last, sums = compiled(lambda x: func.scan(lambda h, x: ((h + x).tanh(), h.sum()), x[0], x))(ys)
        expected, others = func.scan(lambda h, x: ((h + x).tanh(), h.sum()), ys[0], ys)
        assert (last.tolist(), sums.tolist()) == (expected.tolist(), others.tolist())
    root = compiled(lambda x: func.cond(x.sum() > 0.0, lambda x: x.abs().sqrt(), lambda x: x * 2.0, x))
    for x in (xs[0], -xs[0]):
        assert root(x).tolist() == (x.abs().sqrt() if x.sum() > 0.0 else x * 2.0).tolist()
    picked = compiled(lambda x, i: x.index_select(0, i))
    assert picked(xs, IntTensor[CuPy].from_data([1])).tolist() == [xs[1].tolist()]
    with pytest.raises(errors.IndexRangeError, match="index 9"):
        picked(xs, IntTensor[CuPy].from_data([9])).tolist()
