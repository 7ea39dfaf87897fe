"""Connectionist temporal classification beside PyTorch's, after a log softmax: values, first and second derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, func
from burnpy.backend import NumPy
from burnpy.nn import functional as F  # noqa: N812  # PyTorch's name for it
from burnpy.testing import gradcheck, gradgradcheck
from tests.parity.closeness import assert_close
from tests.rows import every_row

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
T: Any = torch.nn.functional if hasattr(torch, "nn") else None

Train = Autodiff[NumPy]
RNG = np.random.default_rng(5)


def ints(x: Any, device: Any = Train) -> Any:
    return IntTensor.from_data(np.array(x), device=device)


CASES: dict[str, tuple[tuple[int, ...], Any, Any, Any, int]] = {  # log_probs, targets, two lengths, blank
    "of one length": ((12, 3, 5), RNG.integers(1, 5, (3, 4)), [12, 12, 12], [4, 4, 4], 0),
    "repeated labels": ((12, 2, 4), [[1, 1, 1], [2, 2, 1]], [12, 7], [3, 3], 0),
    "lengths": ((12, 4, 5), RNG.integers(0, 4, (4, 5)), [12, 9, 10, 8], [3, 5, 0, 1], 4),
    "in a row": ((10, 3, 5), [1, 2, 3, 3, 4, 1], [10, 9, 10], [3, 2, 1], 0),
    "one sequence": ((10, 5), [1, 2, 3], [10], [3], 0),
    "too short": ((10, 3, 5), [[1, 2, 3], [1, 1, 1], [4, 3, 1]], [2, 4, 10], [3, 3, 2], 0),
    "as short as possible": ((5, 2, 3), [[1, 1, 2], [1, 2, 1]], [4, 3], [3, 3], 0),
}


@every_row("reduction", ["mean", "sum", "none"])
@every_row("zero_infinity", [True, False])
@every_row("name", CASES)
def test_values_and_gradients(name: str, zero_infinity: bool, reduction: Any) -> None:
    shape, targets, steps, lengths, blank = CASES[name]
    if name == "too short" and not zero_infinity and reduction != "none":
        return
    logits = np.random.default_rng(3).standard_normal(shape)
    x, x_ = Tensor[Train].from_data(logits).require_grad(), torch.tensor(logits, requires_grad=True)
    settings = {"blank": blank, "reduction": reduction, "zero_infinity": zero_infinity}
    out = F.ctc_loss(x.log_softmax(-1), ints(targets), ints(steps), lengths, **settings)
    sizes = (torch.tensor(steps), torch.tensor(lengths))
    if len(shape) == 2:
        sizes = (sizes[0][0], sizes[1][0])
    out_ = T.ctc_loss(x_.log_softmax(-1), torch.tensor(np.array(targets)), *sizes, **settings)
    assert_close(out, out_, "value")
    if name == "too short" and not zero_infinity:  # PyTorch's gradient is NaN
        grads = out.where(~out.isinf(), 0.0).sum().backward()
        assert np.isfinite(grads[x].to_numpy()).all()
        return
    grads = out.sin().sum().backward()
    (found,) = torch.autograd.grad(out_.sin().sum(), x_)
    assert_close(grads[x], found, "first derivative")


def test_second_derivatives() -> None:
    logits = RNG.standard_normal((5, 3, 3))
    x = Tensor[Train].from_data(logits).require_grad()

    def loss(x: Any) -> Any:
        return F.ctc_loss(x, ints([[1, 2], [1, 1], [2, 0]], x.device), [5, 4, 3], [2, 2, 1], reduction="none").sin()

    assert gradcheck(loss, (x,))
    assert gradgradcheck(loss, (x,))


def test_impossible_classes() -> None:
    log_p = np.log(
        np.array([[[0.5, 0.5, 0.0]], [[0.5, 0.0, 0.5]]]),
        where=np.array([[[1, 1, 0]], [[1, 0, 1]]]) > 0,
        out=np.full((2, 1, 3), -np.inf),
    )
    for targets, expected in (([[1, 2]], np.log(4.0)), ([[2, 1]], np.inf)):
        x = Tensor[Train].from_data(log_p).require_grad()
        out = F.ctc_loss(x, ints(targets), [2], [2], reduction="sum")
        np.testing.assert_allclose(out.item(), expected)
        assert np.isfinite(out.backward()[x].to_numpy()).all()


def test_gradients_of_long_sequences_in_float32() -> None:
    """The states of a step have probability 1 together, whatever was rounded over the steps before."""
    logits = RNG.standard_normal((300, 2, 8)).astype(np.float32) * 5
    labels, gradients = RNG.integers(1, 8, (2, 9)), []
    for dtype in ("float32", "float64"):
        x: Any = Tensor[Train].from_data(logits.astype(dtype)).require_grad()
        loss = F.ctc_loss(x.log_softmax(-1), ints(labels), [300] * 2, [9] * 2, reduction="sum")
        gradients.append(loss.backward()[x].to_numpy())
    np.testing.assert_allclose(gradients[0], gradients[1], atol=2e-4)


def test_nan_and_impossible_classes() -> None:
    """A loss is NaN where an alignment uses a NaN; others do not matter. The default without NumPy's calls agrees."""
    rng = np.random.default_rng(11)
    for _ in range(60):
        time, n, classes, count = (int(rng.integers(low, high)) for low, high in ((1, 6), (1, 4), (2, 5), (0, 4)))
        log_p = np.log(rng.dirichlet(np.ones(classes), (time, n)))
        for _ in range(rng.integers(0, 3)):
            log_p[rng.integers(time), rng.integers(n), rng.integers(classes)] = rng.choice([math.nan, -math.inf])
        targets = rng.integers(1, classes, (n, count))
        sizes = rng.integers(1, time + 1, n), rng.integers(0, count + 1, n)

        def losses(x: Any, targets: Any = targets, sizes: Any = sizes) -> Any:
            return F.ctc_loss(x, *(ints(value, NumPy) for value in (targets, *sizes)), reduction="none")

        x = Tensor[NumPy].from_data(log_p)
        expected = T.ctc_loss(*(torch.tensor(value) for value in (log_p, targets, *sizes)), reduction="none")
        slopes = func.grad(lambda x: losses(x).sum())
        for form in (losses, slopes):
            found = form(x).to_numpy()
            np.testing.assert_allclose(func.vmap(form)(x[None])[0].to_numpy(), found, rtol=1e-9, atol=1e-12)
            if form is losses:
                np.testing.assert_allclose(found, expected.numpy(), rtol=1e-9)
            else:
                assert np.isnan(found).any((0, 2))[np.isnan(expected.numpy())].all()
