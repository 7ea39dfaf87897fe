"""Compiled functions as CUDA graphs: one for a whole step, with the bits of single launches."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Generator, IntTensor, Tensor, compiled, cross_entropy, errors, func, linalg, manual_seed
from burnpy.backend import CuPy, Mixed
from burnpy.backend.devices import device_of
from burnpy.nn import BatchNorm, Conv2d, Dropout, Embedding, Flatten, Linear, Lstm, MaxPool2d, Module, Relu, Sequential
from burnpy.nn import TransformerEncoderLayer as Layer
from burnpy.optim import Adam, AdamW, GradientsParams, Sgd, clip_by_global_norm
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.table import calls
from burnpy_cupy.cuda_graphs import CaptureError, ReplayGraph
from tests.hostcuda import simulator
from tests.hostcuda.dry import NOT_EXECUTED

simulator.require()

Train = Autodiff[CuPy]
WORDS = "burnpy_write_words"


def drawn(*shape: int, seed: int = 0) -> Any:
    return Tensor.from_data(np.random.default_rng(seed).standard_normal(shape).astype("f"), device=CuPy)


def tracked(*shape: int, seed: int = 0) -> Any:
    return Tensor.from_inner(drawn(*shape, seed=seed), device=Train)


def labels(count: int, most: int, seed: int = 0) -> Any:
    return IntTensor.from_data(np.random.default_rng(seed).integers(0, most, count), device=Train)


def mlp(device: Any) -> Any:
    return Sequential(Linear(4, 8, device=device), Relu(), Dropout(0.2), Linear(8, 3, device=device))


def cnn(device: Any) -> Any:
    convolutions = Conv2d(1, 2, 3, device=device), BatchNorm(2, device=device), Relu(), MaxPool2d(2), Dropout(0.1)
    return Sequential(*convolutions, Flatten(), Linear(18, 3, device=device))


def gpt(device: Any) -> Any:
    return Sequential(
        Embedding(7, 8, device=device),
        Layer(8, 2, feedforward=16, dropout=0.1, device=device),
        Linear(8, 3, device=device),
    )


class Recurrent(Module[Any]):
    """A recurrent layer whose launches are cooperative."""

    def __init__(self, device: Any) -> None:
        self.lstm, self.out = Lstm(4, 8, device=device), Linear(8, 3, device=device)

    def forward(self, x: Any) -> Any:
        return self.out(self.lstm(x)[0])


STEPS: dict[str, tuple[Callable[[Any], Any], Any, Callable[[int], Any], int]] = {
    "MLP": (mlp, Adam(), lambda k: tracked(6, 4, seed=k), 6),
    "CNN": (cnn, Sgd(momentum=0.9), lambda k: tracked(6, 1, 8, 8, seed=k), 6),
    "GPT": (gpt, AdamW(), lambda k: labels(10, 7, seed=k).unflatten(0, (2, 5)), 10),
    "Lstm": (Recurrent, Adam(), lambda k: tracked(2, 5, 4, seed=k), 10),
}
"""Models with dropout, their optimizers, their inputs by the number of the step, and the numbers of labels."""


@pytest.mark.parametrize("inner", [CuPy, Mixed[CuPy]])
@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_one_graph(name: str, inner: Any) -> None:
    """With clipping, a rate that changes, batches elsewhere, indices that are checked late, and a seed set anew."""
    make, optim, inputs, count = STEPS[name]
    device = Autodiff(device_of(inner))

    def step(model: Any, state: Any, lr: float, x: Any, y: Any) -> Any:
        loss = cross_entropy(model(x).reshape(count, 3), y)
        grads = clip_by_global_norm(GradientsParams.from_grads(loss.backward(), model), 1.0)
        return (*optim.pure_step(lr, model, grads, state), loss.detach())

    found = []
    for enabled in (False, True):
        manual_seed(0)
        planned: Any = compiled(step, donate=("model", "state"))
        model = make(device)
        carried: list[Any] = [model, optim.init(model)]
        losses = []
        with CuPy.graphs(enabled):
            for k in range(8):
                if k == 5:
                    manual_seed(7)
                batch = inputs(k).to_device(device), labels(count, 3, seed=k).to_device(device)
                with simulator.watched() as journal:
                    *carried, loss = planned(*carried, 0.1 / (k + 1), *batch)
                losses.append(loss.item())
        found.append([losses, *[v._value.tolist() for v in carried[0]._variables().values()]])
        assert journal.counts["waits"] == journal.counts["to_host"] == journal.counts["to_device"] == 0
    assert journal.launches == ["burnpy_number", WORDS, "cudaGraph"]  # the first makes an array of the rate
    assert found[0] == found[1]


def test_a_late_error_names_the_line_of_its_step() -> None:
    planned = compiled(lambda x, i: x.index_select(0, i) * 2.0)
    x, good, bad = drawn(5, 3), IntTensor[CuPy].from_data([1, 4]), IntTensor[CuPy].from_data([1, 9])
    with CuPy.graphs():
        for _ in range(3):
            assert planned(x, good).tolist() == (x.index_select(0, good) * 2.0).tolist()
        planned(x, bad)  # the bad call
        planned(x, good)
        with pytest.raises(errors.IndexRangeError, match=r"index 9(?s:.)*the bad call"):
            CuPy().synchronize()
        assert planned(x, good).tolist() == (x.index_select(0, good) * 2.0).tolist()
    CuPy().synchronize()


def test_a_wrong_rate_is_an_error_of_its_step() -> None:
    optim, model = Sgd(), Linear(4, 3, device=Train)
    planned = compiled(lambda model, state, lr, x: optim.pure_step(lr, model, model(x).sum().backward(), state)[0])
    state, x, found = optim.init(model), tracked(6, 4), []
    for enabled in (False, True):
        with CuPy.graphs(enabled):
            for rate in (0.1, 0.2, 0.3, -1.0, 0.4):
                if rate < 0.0:
                    with pytest.raises(errors.ArgumentError, match=r"-1\.0"):
                        planned(model, state, rate, x)
                else:
                    found.append(planned(model, state, rate, x).weight.value.tolist())
    assert found[:4] == found[4:]


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "an input, a part of one, and one twice": lambda x, y: (x, x[1:], y.mT, x + y, x + y),
    "a constant": lambda x, y: (Tensor.ones((2,), device=x.device), x * 2.0),
    "not in row-major order": lambda x, y: ((x @ y).mT, (x * y).mT[1:]),
    "16 bits": lambda x, y: ((x.to_dtype("bfloat16") @ y.to_dtype("bfloat16")), x.to_dtype("float16")[:, 1:]),
    "bools, ints and nothing": lambda x, y: (x > y, x.argmax(1), x[:0]),
    "sorted": lambda x, y: (*x.sort(1), y.topk(2, dim=1)[0]),
    "a loop": lambda x, y: func.scan(
        lambda h, row: ((h + row).tanh(), h.sum()), x[0], func.scan(lambda h, row: (h * row, h), x[0], y)[1]
    ),
    "a linear layer": lambda x, y: func.grad(lambda w, b: (x @ w + b).relu().sum(), (0, 1))(y, y[0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    """With inputs that stay, that move, and in another order; results are in memory of their own."""
    f = FUNCTIONS[name]
    planned, one, two = compiled(f), drawn(5, 5), drawn(5, 5, seed=1)
    pairs = [(one, two), (one, two), (one, two * 2.0), (one.mT, two), (one, two.flip(0)), (two, one), (one, two)]
    kept = []
    with CuPy.graphs():
        for x, y in pairs:
            with simulator.watched() as journal:
                found = planned(x, y)
            kept.append((found, f(x, y)))
    assert "cudaGraph" in journal.launches
    for found, wanted in kept:
        for a, b in zip(flat(found), flat(wanted), strict=True):
            one, other = (np.asarray(z.to_numpy(), "d") for z in (a, b))
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def flat(result: Any) -> tuple[Any, ...]:
    return tuple(part for x in result for part in flat(x)) if isinstance(result, tuple) else (result,)


def test_graphs_round_products_as_their_context() -> None:
    """TF32 is an argument of cuBLAS, so that there are two graphs; other contexts and threads decide for themselves."""
    x = drawn(5, 5)
    planned = compiled(lambda x: (x @ x).exp() @ x)
    wanted = planned(x).tolist()

    def launched() -> list[str]:
        for _ in range(3):
            with simulator.watched() as journal:
                assert planned(x).tolist() == wanted
        return journal.launches

    with CuPy.graphs():
        assert launched() == [WORDS, "cudaGraph"]
        with CuPy.tf32():
            assert launched() == [WORDS, "cudaGraph"]
        with CuPy.graphs(False):
            assert len(launched()) == 3
        with CuPy().stream():
            assert launched() == [WORDS, "cudaGraph"]
        with ThreadPoolExecutor(1) as pool:
            assert len(pool.submit(launched).result()) == 3


def test_threads_share_no_memory_of_graphs() -> None:
    planned, xs = (
        compiled(lambda x: func.scan(lambda h, row: ((h + row).sin(), h), x[0], x)[1]),
        [drawn(6, 5) * k for k in range(4)],
    )
    wanted = [planned(x).tolist() for x in xs]

    def run(k: int) -> Any:
        with CuPy.graphs(k % 3 > 0):
            return planned(xs[k % 4]).tolist()

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(run, range(40))] == wanted * 10


def test_blocks_of_graphs_count_in_memory_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which each graph sets to zero; a long row is divided among blocks. A refused capture set nothing."""
    shared = dict[int, Any]()
    monkeypatch.setattr(CuPy(), "_finished", shared)
    x = drawn(20_000)
    wanted = int(x.to_numpy().argmax())
    refused = compiled(lambda x: (x.argmax(), linalg.inv(x[:4].reshape((2, 2)))))
    planned = [compiled(lambda x: x.argmax()), compiled(lambda x: (x + x).argmax())]
    with CuPy.graphs():
        refused(x)
        with pytest.warns(RuntimeWarning, match="one by one"):
            refused(x)
        for _ in range(3):
            assert [f(x).item() for f in planned] == [wanted, wanted]
    assert len(shared) == 1, "the counters of a stream that is captured are no graph's own"


def test_a_generator_as_an_argument() -> None:
    planned = compiled(lambda x, g: x + Tensor.normal((5,), generator=g, device=x.device))
    x, found = drawn(5), []
    for enabled in (False, True):
        one, two = Generator(1), Generator(2)
        with CuPy.graphs(enabled):
            found.append([planned(x, g).tolist() for g in (one, one, one, two, one, two)])
    assert found[0] == found[1]


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a branch": (lambda x: func.cond(x.sum() > 0.0, lambda x: x.exp(), lambda x: x * 2.0, x), "synchronous API|D2H"),
    "a draw of the host": (lambda x: x + Tensor.gamma((4, 3), 2.0, device=x.device) * 0.0, "D2H"),
    "a decomposition": (lambda x: x.mT @ x + linalg.cholesky(x.mT @ x) * 0.0, "cuSOLVER API"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_decision_of_the_host_refuses_the_graph(name: str) -> None:
    f, why = REFUSED[name]
    planned, x = compiled(f), drawn(4, 3)
    wanted = f(x).tolist()
    with CuPy.graphs(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            np.testing.assert_allclose(planned(x).to_numpy(), wanted, rtol=1e-6)
    assert len(caught) == 1
    assert caught[0].category is RuntimeWarning
    assert re.search(f"one by one, as .*({why})", str(caught[0].message))


OUTSIDE = {
    *("ctc_loss", "ctc_loss_backward", "resample", "resample_backward", "eye", "linspace"),  # copied from the host
    "nonzero",  # whose shape is a value
    *("solve", "solve_triangular", "inv", "det", "adjugate", "slogdet", "pinv", "matrix_exp"),  # cuSOLVER's
    *("cholesky", "cholesky_info", "eigh", "eigvalsh", "svd", "svdvals", "qr"),
}
"""The operations that cannot be captured."""


def test_operations_of_graphs() -> None:
    device, refused = CuPy(), set[str]()
    with simulator.dry_run():
        for name in ROWS:
            for arguments in [*calls(name, ("float32", "int64", "bool"))][:1] if name not in NOT_EXECUTED else ():
                given = arguments.primitives(device, False)

                def replay(name: str = name, arguments: Any = arguments, given: Any = given) -> list[Any]:
                    return [x for _, x in arguments.row.flat_results(getattr(device, name)(*given))]

                try:
                    ReplayGraph(device, replay, [], [], [], device.xp.cuda.get_allocator())
                except CaptureError:
                    refused.add(name)
    assert refused == OUTSIDE
