"""Activation functions and their layers beside PyTorch's: values and gradients, at the kinks too."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, nn
from burnpy.backend import NumPy
from burnpy.nn import functional
from tests.parity.closeness import assert_close

torch: Any = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

F = torch.nn.functional
Train = Autodiff[NumPy]
KINKS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, 40.0, -40.0]
X = np.concatenate([np.random.default_rng(5).normal(0, 2, 13), KINKS]).reshape(4, 6)

Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]
CASES: dict[str, Pair] = {
    **{
        name: (getattr(functional, name), getattr(F, name))
        for name in (
            *("relu6", "leaky_relu", "elu", "celu", "selu", "hardtanh", "hardswish", "softshrink", "tanhshrink"),
            *("softsign", "logsigmoid", "mish", "glu", "normalize"),
        )
    },
    "glu, rows": (lambda x: functional.glu(x, 0), lambda x: F.glu(x, 0)),
    "hardshrink, below 0": (lambda x: x.hardshrink(-0.5), lambda x: F.hardshrink(x, -0.5)),
    "hardshrink": (lambda x: x.hardshrink(0.5), lambda x: F.hardshrink(x, 0.5)),
    "threshold": (lambda x: functional.threshold(x, 0.5, 7.0), lambda x: F.threshold(x, 0.5, 7.0)),
    "softmin": (lambda x: functional.softmin(x, 1), lambda x: F.softmin(x, 1)),
    "leaky_relu, below": (lambda x: functional.leaky_relu(x, -0.5), lambda x: F.leaky_relu(x, -0.5)),
    "elu, alpha": (lambda x: functional.elu(x, 2.0), lambda x: F.elu(x, 2.0)),
    "celu, alpha": (lambda x: functional.celu(x, 2.0), lambda x: F.celu(x, 2.0)),
    "hardtanh, bounds": (lambda x: functional.hardtanh(x, -3.0, 0.5), lambda x: F.hardtanh(x, -3.0, 0.5)),
    "prelu": (lambda x: x.prelu(x[0] * 0.1), lambda x: F.prelu(x, x[0] * 0.1)),
    "prelu of one": (lambda x: x.prelu(x[0, :1] * 0.1), lambda x: F.prelu(x, x[0, :1] * 0.1)),
    "prelu of 0-d": (lambda x: x[0, 0].prelu(x[1, :1] * 0.1), lambda x: F.prelu(x[0, 0], x[1, :1] * 0.1)),
    "prelu of images": (
        lambda x: x.reshape(2, 3, 2, 2).prelu(x[0, :3]),
        lambda x: F.prelu(x.reshape(2, 3, 2, 2), x[0, :3]),
    ),
    **{
        f"normalize, p = {p}": (partial(functional.normalize, p=p, dim=0), partial(F.normalize, p=p, dim=0))
        for p in (0.0, 1.0, 3.0, math.inf, -1.0, -math.inf)
    },
    "normalize, dims": (lambda x: functional.normalize(x, dim=(0, 1)), lambda x: F.normalize(x, dim=(0, 1))),
    **{
        f"nn.{ours}": (getattr(nn, ours)(*args), getattr(torch.nn, theirs)(*args))
        for ours, theirs, args in (
            *(("Relu6", "ReLU6", ()), ("LeakyRelu", "LeakyReLU", (0.3,)), ("Elu", "ELU", (0.5,)), ("Selu", "SELU", ())),
            *(("Celu", "CELU", (0.5,)), ("Hardtanh", "Hardtanh", (-0.5, 2.0)), ("Hardswish", "Hardswish", ())),
            *(("Hardshrink", "Hardshrink", (1.0,)), ("Softshrink", "Softshrink", (1.0,)), ("Mish", "Mish", ())),
            *(("Tanhshrink", "Tanhshrink", ()), ("Softsign", "Softsign", ()), ("LogSigmoid", "LogSigmoid", ())),
            *(("Glu", "GLU", ()), ("Threshold", "Threshold", (0.5, 7.0)), ("Softmin", "Softmin", (1,))),
        )
    },
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    ours, theirs = CASES[name]
    x, x_ = Tensor[Train].from_data(X, dtype="float64").require_grad(), torch.tensor(X, requires_grad=True)
    out, out_ = ours(x), theirs(x_)
    assert_close(out, out_, name)
    shape: tuple[int, ...] = out.shape
    weights = np.random.default_rng(1).normal(size=shape)
    total = (out * Tensor[Train].from_data(weights, dtype="float64")).sum()
    (out_ * torch.tensor(weights)).sum().backward()
    if total.is_require_grad():
        assert_close(total.backward()[x], x_.grad, f"the gradient of {name}")


def test_hardsigmoid() -> None:
    """PyTorch's gradient of float64 is rounded to float32."""
    x, x_ = Tensor[Train].from_data(X, dtype="float64").require_grad(), torch.tensor(X, requires_grad=True)
    out, out_ = nn.Hardsigmoid()(x), torch.nn.Hardsigmoid()(x_)
    assert_close(out, out_)
    out_.sum().backward()
    np.testing.assert_allclose(out.sum().backward()[x].to_numpy(), x_.grad.numpy(), rtol=1e-7)
