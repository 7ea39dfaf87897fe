"""The kernel of connectionist temporal classification agrees with operations that are not its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import Backend, NumPy
from tests.programs.switched import one_by_one, without_kernels

pytest.importorskip("llvmlite")

D: Any = NumPy()
STEPS, LENGTHS = np.array([9, 7, 9, 3, 0, 9]), np.array([4, 0, 5, 5, 0, 2])


def sequences(dtype: str) -> tuple[Any, Any]:
    """Log probabilities and labels, where some repeat; the fourth sequence has no alignment."""
    rng = np.random.default_rng(0)
    log_p = rng.normal(size=(9, 6, 5))
    log_p -= np.log(np.exp(log_p).sum(2, keepdims=True))
    labels = rng.integers(1, 5, (6, 5))
    labels[0, 1] = labels[0, 0]
    log_p[2, 2, 3] = -np.inf
    return log_p.astype(dtype), labels


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_losses_and_gradients(dtype: str, noted: list[Any]) -> None:
    log_p, labels = sequences(dtype)
    arguments = (log_p, labels, STEPS, LENGTHS, 0)
    grad = np.arange(1.0, 7.0, dtype=dtype)
    noted.clear()
    losses, slopes = D.ctc_loss(*arguments), D.ctc_loss_backward(grad, *arguments)
    assert {k.program.name for k in noted} == {"ctc_recursion"}
    close = 2e-5 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(losses, Backend.ctc_loss(D, *arguments), rtol=close)
    np.testing.assert_allclose(slopes, Backend.ctc_loss_backward(D, grad, *arguments), rtol=close, atol=close)
    assert losses[3:5].tolist() == [np.inf, 0.0]
    with without_kernels():
        np.testing.assert_allclose(D.ctc_loss(*arguments), losses, rtol=close)
        np.testing.assert_allclose(D.ctc_loss_backward(grad, *arguments), slopes, rtol=close, atol=close)


def test_nan_reaches_the_states_that_a_path_leads_to() -> None:
    log_p, labels = sequences("float64")
    for step in range(9):
        for label in range(5):
            spoiled = log_p.copy()
            spoiled[step, :, label] = np.nan
            arguments = (spoiled, labels, STEPS, LENGTHS, 0)
            found, wanted = D.ctc_loss(*arguments), Backend.ctc_loss(D, *arguments)
            np.testing.assert_allclose(found, wanted, rtol=1e-11)


def test_results_do_not_depend_on_how_work_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    log_p, labels = sequences("float32")
    wanted = D.ctc_loss(log_p, labels, STEPS, LENGTHS, 0)
    ranges = one_by_one(monkeypatch)
    np.testing.assert_array_equal(D.ctc_loss(log_p, labels, STEPS, LENGTHS, 0), wanted)
    assert ranges == [6]
