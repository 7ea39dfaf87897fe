"""Activation functions: derivatives of both orders, samples, vectors of zeros, 16-bit floats, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Generator, IntTensor, Tensor, nn
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, BurnpyError, KindError, ShapeError
from burnpy.func import jvp
from burnpy.nn import functional
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

Train = Autodiff[NumPy]
X: Any = Tensor[NumPy].from_data([[-0.7, 0.3, 1.4, -2.2], [0.2, -1.3, 2.6, 0.9]], dtype="float64")

SMOOTH: dict[str, Callable[[Any], Any]] = {
    **{
        name: getattr(functional, name)
        for name in (
            *("relu6", "leaky_relu", "elu", "celu", "selu", "hardtanh", "hardsigmoid", "hardswish", "softshrink"),
            *("tanhshrink", "softsign", "logsigmoid", "mish", "glu", "swiglu"),
        )
    },
    "threshold": lambda x: functional.threshold(x, 0.0, 3.0) * x,
    "softmin": lambda x: functional.softmin(x, -1),
    "hardshrink": lambda x: x.hardshrink(0.5) * x,
    "prelu": lambda x: x.prelu(x[0]),
    **{f"normalize {p}": partial(functional.normalize, p=p) for p in (1.0, 2.0, 2.5, math.inf)},
    "gumbel_softmax": lambda x: functional.gumbel_softmax(x, 0.5, generator=Generator(3)),
}


@pytest.mark.slow
@every_row("name", SMOOTH)
def test_derivatives(name: str) -> None:
    assert gradcheck(SMOOTH[name], X)
    assert gradgradcheck(SMOOTH[name], X)


@every_row("name", [name for name in SMOOTH if name not in ("prelu", "glu", "swiglu", "gumbel_softmax")])
def test_shapes_and_narrow_floats(name: str) -> None:
    f = SMOOTH[name]
    assert f(Tensor[NumPy].zeros((0, 3))).shape == (0, 3)
    for dtype, digits in (("float16", 2e-2), ("bfloat16", 2e-1), ("float32", 1e-5)):
        out = f(X.to_dtype(dtype))
        assert out.dtype == dtype
        np.testing.assert_allclose(out.double().to_numpy(), f(X).to_numpy(), rtol=digits, atol=digits)


def test_every_activation_is_in_the_table() -> None:
    table = vars(functional)["_NAMES"]
    listed = " ".join(table[f"burnpy.nn.layers.{file}"] for file in ("activation", "hard_activation")).split()
    missing = sorted({*listed} - SMOOTH.keys())
    assert not missing, f"{missing} have no example: give them rows in tests/nn/test_activation.py"


def test_samples_follow_their_probabilities() -> None:
    logits = Tensor[Train].from_data([[math.log(p) for p in (0.2, 0.3, 0.5)]]).expand((20000, 3)).require_grad()
    hard = functional.gumbel_softmax(logits, hard=True, generator=Generator(0))
    assert set(hard.flatten().tolist()) == {0.0, 1.0}
    assert hard.sum(dim=1).tolist() == [1.0] * 20000
    np.testing.assert_allclose(hard.mean(dim=0).tolist(), [0.2, 0.3, 0.5], atol=0.015)
    weights = Tensor[Train].from_data([1.0, 2.0, 4.0])
    gradients = [
        (functional.gumbel_softmax(logits, hard=h, generator=Generator(0)) * weights).sum().backward()[logits]
        for h in (True, False)
    ]
    assert gradients[0].tolist() == gradients[1].tolist()


def test_a_vector_of_zeros_has_no_direction() -> None:
    for p in (1.0, 2.0, 3.0, math.inf):
        x = Tensor[Train].zeros((2, 3), dtype="float64").require_grad()
        out = functional.normalize(x, p, eps=0.5)
        assert out.tolist() == [[0.0] * 3] * 2
        assert out.sum().backward()[x].tolist() == [[2.0] * 3] * 2
    assert functional.normalize(Tensor[NumPy].zeros((1, 2), dtype="float16")).tolist() == [[0.0, 0.0]]


def test_prelu_learns_its_slopes() -> None:
    layer = nn.PRelu(2, 0.5, device=Train)
    x = Tensor[Train].from_data([[[-1.0, 2.0], [-3.0, -4.0]]])
    assert layer(x).tolist() == [[[-0.5, 2.0], [-1.5, -2.0]]]
    assert layer(x).sum().backward()[layer.weight.value].tolist() == [-1.0, -7.0]
    assert layer.valid()(x.inner()).tolist() == layer(x).tolist()


def test_slopes_of_prelu_are_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Tensor[NumPy].from_data(np.linspace(-1.0, 1.0, 9000))
    monkeypatch.setattr(NumPy, "expand", None)
    np.testing.assert_array_equal(x.prelu(x[-1:] * 0.5).to_numpy(), np.where(x.to_numpy() > 0, 1.0, 0.5) * x.to_numpy())
    images, weight = x.reshape(50, 2, 9, 10), Tensor[NumPy].from_data([0.5, 0.25], dtype="float64")
    slopes = np.where(images.to_numpy() > 0, 1.0, [[[0.5]], [[0.25]]])
    np.testing.assert_array_equal(images.prelu(weight).to_numpy(), slopes * images.to_numpy())


@pytest.mark.parametrize("slope", [0.25, math.nan, math.inf, -math.inf])
def test_a_weight_of_prelu_does_not_reach_positive_elements(slope: float) -> None:
    device: Any = Autodiff[Autodiff[NumPy]]
    x = Tensor.from_data([2.0, math.inf, -1.0], dtype="float64", device=device).require_grad()
    weight = Tensor.from_data([slope], dtype="float64", device=device).require_grad()
    out = x.prelu(weight)
    assert out[:2].tolist() == [2.0, math.inf]
    np.testing.assert_equal(out[2].item(), -slope)
    grads = out.sum().backward()
    np.testing.assert_equal(grads[x].tolist(), [1.0, 1.0, slope])
    assert grads[weight].tolist() == [-1.0]
    second = grads[x].sum().backward()
    assert second[weight.inner()].tolist() == [1.0]
    plain = x.inner().inner()
    for k, row in enumerate(np.diag([1.0, 1.0, slope])[:2]):
        tangent = Tensor[NumPy].from_data(np.eye(3)[k])
        assert jvp(lambda x: x.prelu(x[:1].full_like(slope)), (plain,), (tangent,))[1][:2].tolist() == row[:2].tolist()
    assert x[0].prelu(weight).shape == ()


@every_row(
    "call, error, said",
    [
        (lambda: functional.glu(X[:, :3]), ShapeError, r"glu\(\) cannot halve dim -1 of shape \(2, 3\), .* odd"),
        (lambda: functional.swiglu(X[0, 0]), ShapeError, r"swiglu\(\) cannot halve a 0-d tensor"),
        (lambda: functional.hardtanh(X, 2.0, 1.0), ArgumentError, r"hardtanh\(\) got min_val=2.0, .* above"),
        (lambda: functional.celu(X, 0.0), ArgumentError, r"celu\(\) got alpha=0"),
        (lambda: functional.softshrink(X, -1.0), ArgumentError, r"softshrink\(\) got lambd=-1.0"),
        (lambda: X.hardshrink("a"), KindError, r"hardshrink\(\)"),
        (lambda: functional.gumbel_softmax(X, 0.0), ArgumentError, r"gumbel_softmax\(\) got tau=0.0"),
        (lambda: functional.normalize(X, math.nan), ArgumentError, r"normalize\(\): p must be a number, got nan"),
        (lambda: functional.normalize(X, eps=-1.0), ArgumentError, r"normalize\(\): eps must be .*, got -1.0"),
        (lambda: functional.normalize(X[:, :0], -1.0), ShapeError, r"normalize\(\): .* of shape \(2, 0\)"),
        (lambda: functional.mish(IntTensor[NumPy].ones((2,))), KindError, r"mish\(\) takes a float Tensor as x"),  # type: ignore[arg-type]  # refused
        (lambda: functional.elu(X, "a"), BurnpyError, r"elu\(\)"),  # type: ignore[arg-type]  # refused
        (lambda: X.prelu(X[0, :3]), ShapeError, r"prelu\(\) got x of shape \(2, 4\) and weight of shape \(3,\)"),
        (lambda: X.prelu(0.5), KindError, r"prelu\(\) takes a Tensor as weight"),
        (lambda: nn.PRelu(0, device=NumPy), ArgumentError, r"PRelu"),
    ],
)  # fmt: skip
def test_what_is_refused(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()
