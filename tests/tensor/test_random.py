"""Generators, and what is drawn from them."""

from __future__ import annotations

import json
import math
import pickle
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, Generator, IntTensor, Tensor, default_generator, manual_seed
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, DTypeError, ShapeError
from burnpy.tensor import generator
from tests.rows import every_row

Train = Autodiff[NumPy]
DRAWS: list[Callable[[Any], Any]] = [
    lambda g: Tensor[NumPy].uniform((3,), -1, 2, generator=g),
    lambda g: Tensor[Train].normal((3,), 1, 2, generator=g),
    lambda g: Tensor[NumPy].full((3,), 0.5).bernoulli(generator=g),
    lambda g: Tensor[NumPy].zeros((3, 10)).categorical(generator=g),
    lambda g: Tensor[NumPy].ones((3, 10)).multinomial(4, generator=g),
    lambda g: Tensor[Train].ones((10,)).multinomial(8, True, generator=g),
    lambda g: Tensor[NumPy].exponential((3,), generator=g),
    lambda g: Tensor[NumPy].truncated_normal((3,), generator=g),
    lambda g: Tensor[NumPy].zeros((3,)).normal_like(generator=g),
    lambda g: Tensor[NumPy].zeros((3,)).uniform_like(generator=g),
    lambda g: IntTensor[NumPy].randint(0, 100, (3,), generator=g),
    lambda g: IntTensor[Train].permutation(10, generator=g),
]


@every_row("draw", DRAWS)
def test_repeats(draw: Callable[[Any], Any]) -> None:
    first, second = Generator(1), Generator(1)
    a, b = draw(first).tolist(), draw(first).tolist()
    assert [draw(second).tolist(), draw(second).tolist()] == [a, b]
    manual_seed(1)
    assert draw(None).tolist() == a
    manual_seed(1)
    assert draw(None).tolist() == a
    assert draw(None).tolist() == b
    with pytest.raises(ArgumentError, match=r"burnpy\.Generator"):
        draw(np.random.default_rng(0))


def test_state() -> None:
    g = Generator(3)
    g.spawn(2)
    state = json.loads(json.dumps(g.get_state()))
    expected = [Tensor[NumPy].normal((4,), generator=x).tolist() for x in (g, *g.spawn(1))]
    g.set_state(state)
    assert [Tensor[NumPy].normal((4,), generator=x).tolist() for x in (g, *g.spawn(1))] == expected
    other = Generator()
    other.set_state(state)
    for copy in (other, pickle.loads(pickle.dumps(other))):
        assert copy.get_state() == state
    assert "seed=3" in repr(g)
    child = Generator(3).spawn(1)[0]
    assert pickle.loads(pickle.dumps(child)).get_state() == child.get_state()
    with pytest.raises(ArgumentError, match="get_state"):
        g.set_state({"seed": 1})
    for seed in (-1, 1.5, "a"):
        with pytest.raises(ArgumentError, match="non-negative int"):
            Generator(seed)  # type: ignore[arg-type]  # what is tested
        with pytest.raises(ArgumentError, match="non-negative int"):
            manual_seed(seed)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ArgumentError, match="0 or more"):
        g.spawn(-1)


def test_default_generators() -> None:
    assert default_generator(NumPy) is default_generator(Autodiff[Train]) is default_generator(NumPy())
    manual_seed(5)
    before = default_generator(NumPy)
    state = before.get_state()
    a = Tensor[Train].normal((2,)).tolist()
    default_generator(NumPy).set_state(state)
    assert Tensor[NumPy].normal((2,)).tolist() == a
    manual_seed(5)
    assert default_generator(NumPy) is not before


def in_new_thread(f: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(f()))
    thread.start()
    thread.join()
    return found[0]


def test_threads_draw_from_children() -> None:
    def draw() -> list[float]:
        return Tensor[NumPy].normal((3,)).tolist()  # type: ignore[no-any-return]  # nested lists

    manual_seed(7)
    runs = [draw(), in_new_thread(draw), in_new_thread(draw)]
    assert len({tuple(r) for r in runs}) == 3
    manual_seed(7)
    assert [draw(), in_new_thread(draw), in_new_thread(draw)] == runs

    def seeded() -> list[float]:
        manual_seed(7)
        return draw()

    assert in_new_thread(seeded) == runs[0]
    assert draw() not in runs[:1]
    manual_seed(7)


def test_many_threads() -> None:
    manual_seed(0)
    with ThreadPoolExecutor(8) as pool:
        draws = list(pool.map(lambda _: tuple(Tensor[NumPy].normal((4,)).tolist()), range(200)))
    assert len(set(draws)) == 200


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_distributions(dtype: str) -> None:
    g = Generator(0)
    u = Tensor[NumPy].uniform((20000,), 1.0, 2.0, dtype=dtype, generator=g)
    assert u.dtype == burnpy.backend.dtypes.dtype_of(dtype)
    values = u.double().to_numpy()
    assert values.min() >= 1.0
    assert values.max() < 2.0
    assert abs(values.mean() - 1.5) < 0.02
    n = Tensor[NumPy].normal((20000,), 3.0, 0.5, dtype=dtype, generator=g).double().to_numpy()
    assert abs(n.mean() - 3) < 0.02
    assert abs(n.std() - 0.5) < 0.02
    b = Tensor[NumPy].full((20000,), 0.25, dtype=dtype).bernoulli(generator=g)
    assert b.dtype == u.dtype
    assert set(b.tolist()) == {0.0, 1.0}
    assert abs(b.double().to_numpy().mean() - 0.25) < 0.02


@every_row(
    "draw",
    [
        lambda shape: Tensor[NumPy].uniform(shape, -1.0, 2.0),
        lambda shape: Tensor[NumPy].normal(shape, 1.0, 2.0),
    ],
)
def test_samples_take_twice_the_memory_of_the_result(draw: Callable[[Any], Any]) -> None:
    draw((4,))
    tracemalloc.start()
    try:
        x = draw((1 << 18,))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.1 * x.to_numpy().nbytes


def test_uniform_never_reaches_high() -> None:
    for dtype in ("float16", "bfloat16"):
        assert max(Tensor[NumPy].uniform((50000,), 0.0, 3.0, dtype=dtype).tolist()) < 3.0
    assert Tensor[NumPy].uniform((3,), 2.0, 2.0).tolist() == [2.0, 2.0, 2.0]


def test_categorical() -> None:
    g = Generator(0)
    logits = Tensor[NumPy].from_data([math.log(0.1), math.log(0.2), math.log(0.7)])
    many = logits.expand(30000, 3).categorical(generator=g)
    assert many.shape == (30000,)
    assert np.allclose(np.bincount(many.to_numpy(), minlength=3) / 30000, [0.1, 0.2, 0.7], atol=0.02)
    assert logits.categorical(generator=g).shape == ()
    assert Tensor[Train].zeros((2, 0, 3)).require_grad().categorical().shape == (2, 0)
    for shape in ((), (2, 0)):
        with pytest.raises(ShapeError, match="classes"):
            Tensor[NumPy].zeros(shape).categorical()
    for row in ([math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf]):
        with pytest.raises(ArgumentError, match="no distribution"):
            Tensor[NumPy].from_data([[0.0, 0.0], row]).categorical()


def test_bernoulli() -> None:
    p = Tensor[Train].from_data([0.0, 1.0]).require_grad()
    assert p.bernoulli().tolist() == [0.0, 1.0]
    assert not p.bernoulli().is_require_grad()
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(ArgumentError, match="probabilities"):
            Tensor[NumPy].from_data([0.5, wrong]).bernoulli()


def test_ints() -> None:
    g = Generator(0)
    x = IntTensor[NumPy].randint(-2, 3, (1000,), generator=g)
    assert set(x.tolist()) == {-2, -1, 0, 1, 2}
    assert IntTensor[NumPy].randint(0, 256, (4,), dtype="uint8", generator=g).dtype == burnpy.uint8
    assert IntTensor[NumPy].randint(0, np.int64(2), ()).shape == ()  # type: ignore[call-overload]  # works all the same
    assert sorted(IntTensor[NumPy].permutation(5, dtype="int32").tolist()) == [0, 1, 2, 3, 4]
    assert IntTensor[NumPy].permutation(0).shape == (0,)
    with pytest.raises(ArgumentError, match="low < high"):
        IntTensor[NumPy].randint(3, 3, (2,))
    with pytest.raises(ArgumentError, match="two ints"):
        IntTensor[NumPy].randint(0, 1.5, (2,))  # type: ignore[call-overload]  # what is tested
    with pytest.raises(DTypeError, match="cannot hold 256"):
        IntTensor[NumPy].randint(0, 257, (2,), dtype="uint8")
    with pytest.raises(ShapeError):
        IntTensor[NumPy].permutation(-1)


def test_wrong_parameters() -> None:
    with pytest.raises(ArgumentError, match="low <= high"):
        Tensor[NumPy].uniform((2,), 2.0, 1.0)
    with pytest.raises(ArgumentError, match="low <= high"):
        Tensor[NumPy].uniform((2,), 0.0, math.inf)
    with pytest.raises(ArgumentError, match="std not negative"):
        Tensor[NumPy].normal((2,), 0.0, -1.0)
    with pytest.raises(ArgumentError, match="std not negative"):
        Tensor[NumPy].zeros((2,)).normal_like(math.nan)


def test_the_handler_of_a_signal_draws_amid_the_first_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seed: int | None) -> Generator:
        monkeypatch.undo()
        drawn.append(Tensor[NumPy].normal((3,)).tolist())
        return Generator(seed)

    drawn: list[Any] = []
    manual_seed(0)
    wanted = Tensor[NumPy].normal((6,)).tolist()
    manual_seed(0)
    monkeypatch.setattr(generator, "Generator", interrupted)  # the handler interrupts it
    drawn.append(Tensor[NumPy].normal((3,)).tolist())
    assert [*drawn[0], *drawn[1]] == wanted


def test_exponential() -> None:
    x = Tensor[NumPy].exponential((100_000,), rate=0.5, dtype="float64", generator=Generator(5))
    assert x.amin().item() >= 0.0
    assert x.mean().item() == pytest.approx(2.0, rel=0.02)
    assert (x > 2.0 * math.log(2.0)).float().mean().item() == pytest.approx(0.5, abs=0.01)
    assert Tensor[NumPy].exponential((3, 0)).shape == (3, 0)
    half = Tensor[NumPy].exponential((1000,), dtype="float16", generator=Generator(5))
    assert half.dtype == np.float16
    assert half.isfinite().all()
    for rate in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ArgumentError, match="rate"):
            Tensor[NumPy].exponential((2,), rate)


@every_row("classes", [1, 2, 3, 5, 8, 100])
@every_row("replacement", [False, True])
def test_multinomial_draws_by_weight(classes: int, replacement: bool) -> None:
    weights = np.random.default_rng(classes).uniform(0.0, 3.0, (classes,))
    weights[1::3] = 0.0
    x = Tensor[NumPy].from_data(np.broadcast_to(weights, (4000, classes)))
    first = x.multinomial(1, replacement, generator=Generator(2))
    assert first.shape == (4000, 1)
    found = np.bincount(first.to_numpy().ravel(), minlength=classes) / 4000
    np.testing.assert_allclose(found, weights / weights.sum(), atol=0.035)
    assert not found[weights == 0].any()
    possible = int((weights > 0).sum())
    drawn = x[:50].multinomial(possible, replacement, generator=Generator(3)).to_numpy()
    assert weights[drawn].all()
    if not replacement:
        assert (np.sort(drawn, 1) == np.flatnonzero(weights)).all()


def test_multinomial_of_a_vector() -> None:
    p = Tensor[Train].from_data([0.0, 1.0, 0.0, 2.0]).require_grad()
    assert p.multinomial(2).to_numpy().sum() == 4
    assert p.multinomial(50, replacement=True).shape == (50,)
    assert Tensor[NumPy].zeros((0, 3)).multinomial(2).shape == (0, 2)
    tiny = Tensor[NumPy].from_data([1e-30, 0.0, 1e-30], dtype="float32")
    assert set(tiny.multinomial(40, True, generator=Generator(1)).tolist()) == {0, 2}
    refused: list[tuple[list[float], tuple[Any, ...], str]] = [
        ([0.5, -0.5], (1,), "negative"),
        ([0.5, math.nan], (1,), "non-finite"),
        ([0.5, math.inf], (1,), "non-finite"),
        ([0.0, 0.0], (1, True), "fewer than 1"),
        ([0.5, 0.0], (2,), "fewer than 2"),
        ([0.5, 0.5], (3,), "3 of 2"),
        ([0.5, 0.5], (0, True), "1 or more"),
        ([0.5, 0.5], (1, 2), "replacement=2"),
    ]
    for weights, arguments, said in refused:
        with pytest.raises(ArgumentError, match=said):
            Tensor[NumPy].from_data(weights).multinomial(*arguments)
    with pytest.raises(ShapeError, match=r"not \(\)"):
        Tensor[NumPy].ones(()).multinomial(1)


@pytest.mark.parametrize(
    ("mean", "std", "low", "high"),
    [
        (0, 1, -2, 2),
        (1, 2, 1.5, 9),
        (0, 1, 3, 4),
        (0, 1, -math.inf, -1),
        (0.5, 0.1, -5, math.inf),
        (0, 1, -5.5, -5),
        (1, 2, 61, math.inf),
        (0, 1, -math.inf, -99),
        (0, 1, -1, 50),
    ],
)
def test_truncated_normal(mean: float, std: float, low: float, high: float) -> None:
    from scipy import stats

    x = Tensor[NumPy].truncated_normal((20_000,), mean, std, low, high, dtype="float64", generator=Generator(4))
    expected = stats.truncnorm((low - mean) / std, (high - mean) / std, mean, std)
    assert stats.kstest(x.to_numpy(), expected.cdf).pvalue > 1e-3
    assert low <= x.amin().item() <= x.amax().item() <= high
    half = Tensor[NumPy].truncated_normal((1000,), mean, std, low, high, dtype="float16")
    assert half.dtype == np.float16
    assert half.isfinite().all()


def test_what_truncated_normal_refuses() -> None:
    for numbers in ((0, 0, -1, 1), (0, 1, 1, 1), (math.nan, 1, -1, 1), (0, 1, math.nan, 1), (0, math.inf, 0, 1)):
        with pytest.raises(ArgumentError, match=r"interval|expected a"):
            Tensor[NumPy].truncated_normal((2,), *numbers)
