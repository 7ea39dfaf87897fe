"""Recurrent networks on the real CuPy: two launches for each element, forward and backward, and NumPy's numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy, Mixed, NumPy
from tests.hostcuda import simulator

simulator.require()

N, T, H = 4, 12, 5


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def examples(lengths: Any, reverse: bool) -> dict[str, tuple[Any, ...]]:
    hidden, cell, grad = drawn(N, H), drawn(N, H, seed=1), drawn(N, T, H, seed=2)
    weights = {gates: drawn(H, gates * H, seed=gates) * 0.5 for gates in (1, 3, 4)}
    device, rest = NumPy(), (lengths, reverse)
    states, cells, gates = device.lstm(drawn(N, T, 4 * H), hidden, cell, weights[4], *rest)
    gru_states, gru_gates = device.gru(drawn(N, T, 3 * H), hidden, weights[3], drawn(3 * H), *rest)
    rnn_states = device.rnn(drawn(N, T, H), hidden, weights[1], *rest, False)
    return {
        "lstm": (drawn(N, T, 4 * H), hidden, cell, weights[4], *rest),
        "lstm_backward": (grad, grad[::-1], hidden, cell, weights[4], states, cells, gates, *rest),
        "gru": (drawn(N, T, 3 * H), hidden, weights[3], drawn(3 * H), *rest),
        "gru_backward": (grad, hidden, weights[3], gru_states, gru_gates, *rest),
        "rnn": (drawn(N, T, H), hidden, weights[1], *rest, True),
        "rnn_backward": (grad, hidden, weights[1], rnn_states, *rest, False),
    }


def flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [None, [12, 0, 7, 1]])
def test_each_element_takes_a_product_and_a_kernel(lengths: Any, reverse: bool) -> None:
    counted = None if lengths is None else np.array(lengths)
    for name, args in examples(counted, reverse).items():
        given = [CuPy().from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
        with simulator.watched() as journal:
            found = flat(getattr(CuPy(), name)(*given))
        for got, want in zip(found, flat(getattr(NumPy(), name)(*args)), strict=True):
            np.testing.assert_allclose(CuPy().to_numpy(got), want, rtol=1e-4, atol=1e-5, err_msg=name)
        launches = Counter(launch.split("__")[0] for launch in journal.launches)
        assert launches[f"burnpy_{name}"] == T
        assert launches["cublasGemmEx"] == T + name.endswith("backward"), "the gradient by the weight is one product"
        assert launches.total() <= 2 * T + 4
        assert journal.counts["to_device"] == journal.counts["to_host"] == journal.counts["waits"] == 0


def test_mixed_rounds_the_weight() -> None:
    name, args = "lstm", examples(None, False)["lstm"]
    given = [CuPy().from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
    found, wanted = getattr(Mixed(CuPy()), name)(*given), getattr(Mixed(NumPy()), name)(*args)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(CuPy().to_numpy(got), want, rtol=1e-4, atol=1e-5)
