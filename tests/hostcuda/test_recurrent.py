"""Recurrent networks on the real CuPy: one launch, or two for each element, and NumPy's numbers in both."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy, Mixed, NumPy
from burnpy.backend.dtypes import dtype_of
from tests.hostcuda import simulator

simulator.require()

from burnpy_cupy.kernels import recurrent  # noqa: E402

N, T, H = 4, 12, 5


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def examples(
    lengths: Any, reverse: bool, shape: tuple[int, int, int] = (N, T, H), dtype: str = "float32"
) -> dict[str, tuple[Any, ...]]:
    """The arguments of each operation, whose numbers have a dtype, so that other dtypes hold the same."""
    n, t, h = shape

    def rounded(x: Any) -> Any:
        return x.astype(dtype_of(dtype)).astype(np.float64 if dtype != "float32" else np.float32)

    def some(*shape: int, seed: int = 0) -> Any:
        return rounded(drawn(*shape, seed=seed))

    hidden, cell, grad = some(n, h), some(n, h, seed=1), some(n, t, h, seed=2)
    weights = {gates: rounded(drawn(h, gates * h, seed=gates) * 0.5) for gates in (1, 3, 4)}
    device, rest = NumPy(), (lengths, reverse)
    lstm = [rounded(x) for x in device.lstm(some(n, t, 4 * h), hidden, cell, weights[4], *rest)]
    gru = [rounded(x) for x in device.gru(some(n, t, 3 * h), hidden, weights[3], some(3 * h), *rest)]
    rnn = rounded(device.rnn(some(n, t, h), hidden, weights[1], *rest, False))
    return {
        "lstm": (some(n, t, 4 * h), hidden, cell, weights[4], *rest),
        "lstm_backward": (grad, grad[::-1], cell, weights[4], *lstm[1:], *rest),
        "gru": (some(n, t, 3 * h), hidden, weights[3], some(3 * h), *rest),
        "gru_backward": (grad, hidden, weights[3], *gru, *rest),
        "rnn": (some(n, t, h), hidden, weights[1], *rest, True),
        "rnn_backward": (grad, weights[1], rnn, *rest, False),
    }


def moved(args: tuple[Any, ...], dtype: str = "float32") -> list[Any]:
    """Arguments on the GPU, floats in a dtype."""
    given = [x.astype(dtype_of(dtype)) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in args]
    return [CuPy().from_numpy(x) if isinstance(x, np.ndarray) else x for x in given]


def flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [None, [12, 0, 7, 1]])
def test_each_element_takes_a_product_and_a_kernel(lengths: Any, reverse: bool) -> None:
    counted = None if lengths is None else np.array(lengths)
    for name, args in examples(counted, reverse).items():
        given = moved(args)
        with simulator.watched() as journal:
            found = flat(getattr(CuPy(), name)(*given))
        for got, want in zip(found, flat(getattr(NumPy(), name)(*args)), strict=True):
            np.testing.assert_allclose(CuPy().to_numpy(got), want, rtol=1e-4, atol=1e-5, err_msg=name)
        launches = Counter(launch.split("__")[0] for launch in journal.launches)
        assert launches[f"burnpy_{name}"] == T
        assert launches["cublasGemmEx"] == T
        assert launches.total() <= 2 * T + 4
        assert journal.counts["to_device"] == journal.counts["to_host"] == journal.counts["waits"] == 0


def test_mixed_rounds_the_weight() -> None:
    name, args = "lstm", examples(None, False)["lstm"]
    given = moved(args)
    found, wanted = getattr(Mixed(CuPy()), name)(*given), getattr(Mixed(NumPy()), name)(*args)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(CuPy().to_numpy(got), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-5), ("float64", 1e-12), ("bfloat16", 0.02)])
@pytest.mark.parametrize(("shape", "units"), [((3, 5, 8), 4), ((35, 3, 12), 8), ((2, 3, 16), 12)])
def test_a_layer_that_fits_is_one_launch(
    shape: tuple[int, int, int], units: int, dtype: str, close: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits, whichever block or thread is first, with a part of a tile, of a block and of a multiplied row."""
    monkeypatch.setattr(recurrent, "_MIN_UNITS", units)
    recurrent._persistent_launch.cache_clear()
    for lengths, reverse in ((None, False), (np.arange(shape[0]) % (shape[1] + 1), True)):
        for name, args in examples(lengths, reverse, shape, dtype).items():
            found = []
            for order in simulator.ORDERS:
                given = moved(args, dtype)
                with simulator.order(order), simulator.watched() as journal:
                    results = flat(getattr(CuPy(), name)(*given))
                found.append([CuPy().to_numpy(x) for x in results])
                launches = [launch.split("__")[0] for launch in journal.launches if launch.startswith("burnpy_")]
                assert launches[0] == f"burnpy_{name}_persistent"
                assert name.endswith("backward") or len(journal.launches) == 1
                assert f"burnpy_{name}" not in launches
            for got, want in zip(found[0], flat(getattr(NumPy(), name)(*args)), strict=True):
                near = close * max(1.0, float(np.abs(want).max()))
                np.testing.assert_allclose(got.astype(np.float64), want, rtol=close, atol=near, err_msg=name)
            assert all(x.tobytes() == y.tobytes() for other in found[1:] for x, y in zip(found[0], other, strict=True))
    recurrent._persistent_launch.cache_clear()


@pytest.mark.parametrize(
    ("dtype", "sequences", "size", "fits"),
    [
        *(("float32", 32, 512, True), ("float32", 128, 512, False), ("bfloat16", 32, 512, True)),
        *(("float32", 8, 1024, True), ("float32", 1, 2048, False), ("bfloat16", 1, 1536, True)),
        *(("float32", 4, 6, False), ("float32", 0, 8, True)),
    ],
)
def test_which_layers_fit(dtype: str, sequences: int, size: int, fits: bool) -> None:
    """On an H100: the weight in its shared memory, and fewer products than cuBLAS takes less time for."""
    shape, weight = (sequences, 10, size), (size, 4 * size)
    given = ("burnpy_lstm", dtype_of(dtype), dtype_of("float32"), shape, weight, (False, False), (4 * size, 1))
    assert bool(recurrent._persistent_launch.__wrapped__(CuPy(), *given)) == fits
