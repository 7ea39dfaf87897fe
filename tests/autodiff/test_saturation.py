"""Derivatives of attention and losses where a softmax gives one element nearly all the weight, and 1 - weight is 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, cross_entropy, func, special
from burnpy.backend import NumPy
from burnpy.nn import functional
from burnpy.nn.functional import scaled_dot_product_attention
from tests.rows import every_row

Array = Any
rng = np.random.default_rng(5)


def sigmoid(d: float) -> tuple[float, float, float]:
    """1 / (1 + exp(-d)) and two derivatives, without cancellation."""
    e = math.exp(-abs(d))
    near, far = 1 / (1 + e), e / (1 + e)
    s, rest = (near, far) if d >= 0 else (far, near)
    return s, s * rest, s * rest * (rest - s)


def hessian_times(f: Any, inputs: list[Array], vectors: list[Array]) -> list[Array]:
    """The gradient of the sum of each gradient times a vector, in reverse over reverse."""
    device: Any = Autodiff(Autodiff(NumPy()))
    leaves = [Tensor.from_data(x, dtype="float64", device=device).require_grad() for x in inputs]
    first = f(*leaves).backward()
    total: Any = 0.0
    for leaf, vector in zip(leaves, vectors, strict=True):
        total = total + (first[leaf] * Tensor.from_data(vector, dtype="float64", device=device.inner)).sum()
    second = total.backward()
    return [second[leaf.inner()].to_numpy() for leaf in leaves]


@every_row("gap", [1.0, -10.0, 30.0, 60.0, -100.0])
@every_row("masked", [False, True])
def test_attention_with_two_keys(gap: float, masked: bool) -> None:
    """One query and two keys, whose softmax is a sigmoid: its derivatives, to twelve digits of each number."""
    q, k, v, weights = rng.normal(size=(1, 3)), rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), rng.normal(size=3)
    scale = gap / float(q[0] @ (k[0] - k[1]))
    tq, tk, tv = (rng.normal(size=x.shape) for x in (q, k, v))
    _, vjp1, s2 = sigmoid(gap)
    apart, rise = k[0] - k[1], float(weights @ (v[0] - v[1]))  # f = weights · v₁ + s(d) · rise
    turn = scale * float(tq[0] @ apart + q[0] @ (tk[0] - tk[1]))  # how d moves along the tangents
    lift = float(weights @ (tv[0] - tv[1]))
    outer = s2 * rise * turn + vjp1 * lift
    by_q = scale * (outer * apart + vjp1 * rise * (tk[0] - tk[1]))
    by_k = scale * (outer * q[0] + vjp1 * rise * tq[0])
    expected = [by_q[None], np.stack([by_k, -by_k]), np.stack([vjp1 * turn * weights, -vjp1 * turn * weights])]

    def loss(q: Any, k: Any, v: Any) -> Any:
        mask = BoolTensor.ones((1, 2), device=q.device) if masked else None
        out = scaled_dot_product_attention(q, k, v, mask, scale=scale)
        return (out * Tensor.from_data(weights, dtype="float64", device=q.device)).sum()

    for found, want in zip(hessian_times(loss, [q, k, v], [tq, tk, tv]), expected, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-15 * np.abs(want).max())


@pytest.mark.parametrize("gap", [1.0, 10.0, 30.0])
def test_cross_entropy_of_two_classes(gap: float) -> None:
    x, t = np.array([gap, 0.0]), np.array([0.7, -0.4])
    _, vjp1, _ = sigmoid(gap)
    want = vjp1 * (t[0] - t[1]) * np.array([1.0, -1.0])
    (found,) = hessian_times(lambda x: cross_entropy(x, IntTensor.from_data(0, device=x.device)), [x], [t])
    np.testing.assert_allclose(found, want, rtol=1e-12)


@every_row("name", ["softmax", "log_softmax", "logsumexp"])
@every_row("gap", [1.0, 10.0, 30.0, 100.0])
def test_others_are_off_by_rounding_of_their_terms(name: str, gap: float) -> None:
    """As in PyTorch: errors are those of numbers of the size of the gradient, not of their differences."""
    x, t, g = np.array([gap, 0.0]), np.array([0.7, -0.4]), np.array([1.3, 0.2])
    _, vjp1, s2 = sigmoid(gap)
    second = {"softmax": s2 * (g[0] - g[1]), "log_softmax": -vjp1 * g.sum(), "logsumexp": vjp1 * g.sum()}[name]
    want = second * (t[0] - t[1]) * np.array([1.0, -1.0])

    def f(x: Any) -> Any:
        return (getattr(x, name)(0) * Tensor.from_data(g, dtype="float64", device=x.device)).sum()

    (found,) = hessian_times(f, [x], [t])
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=4e-16)


@every_row("dtype", ["float32", "float64"])
@every_row("large", [1e4, 1e8, 1e30])
def test_weights_sum_to_one_however_large_the_logits(dtype: str, large: float) -> None:
    """logsumexp is rounded as a number of their size is, by which a quotient of exponentials would be off."""
    x: Any = Tensor[Autodiff[NumPy]].from_data([large] * 4, dtype=dtype).require_grad()
    found = cross_entropy(x, IntTensor.from_data(0, device=x.device)).backward()[x].tolist()
    np.testing.assert_allclose(found, [-0.75, 0.25, 0.25, 0.25], rtol=1e-6)
    np.testing.assert_allclose(x.logsumexp(0).backward()[x].tolist(), [0.25] * 4, rtol=1e-6)
    found = x.logcumsumexp(0)[-1].backward()[x].tolist()
    np.testing.assert_allclose(found, [0.25] * 4, rtol=1e-6)
    values: Any = Tensor[Autodiff[NumPy]].from_data([[1.0], [2.0], [4.0], [5.0]], dtype=dtype).require_grad()
    query, keys = x[:1].detach().reshape(1, 1), values.detach().ones_like()
    out = scaled_dot_product_attention(query, keys, values, scale=1.0)
    np.testing.assert_allclose(out.sum().backward()[values].to_numpy().ravel(), [0.25] * 4, rtol=1e-6)


def _cross_entropy(x: Any, target: float) -> Any:
    return functional.binary_cross_entropy_with_logits(x, x.detach().full_like(target))


HOSTILE: dict[str, tuple[Any, float, float, float | None]] = {
    "acosh": (lambda x: x.acosh(), 1e22, 1e-22, None),
    "expm1": (lambda x: x.expm1(), -40.0, 4.248354e-18, 4.248354e-18),
    "gelu": (lambda x: x.gelu(), 1e25, 1.0, 0.0),
    "gelu of a negative number": (lambda x: x.gelu(), -1e25, 0.0, 0.0),
    "gelu by tanh": (lambda x: x.gelu("tanh"), 1e25, 1.0, 0.0),
    "gelu by tanh of a negative number": (lambda x: x.gelu("tanh"), -1e25, 0.0, 0.0),
    "gelu by tanh where it is nearly x": (lambda x: x.gelu("tanh"), 5.0, 1.000001546, -9.934132e-6),
    "i0e": (special.i0e, 1e5, -6.30785496e-9, 9.46180609e-14),
    "i0e where two formulas meet": (special.i0e, 8.0, -9.289288564e-3, 1.810765467e-3),
    "i1e": (special.i1e, 1e5, -6.30776034e-9, 9.46156955e-14),
    "i1e where two formulas meet": (special.i1e, 8.0, -7.478523097e-3, 1.220026378e-3),
    "i1e of infinity": (special.i1e, math.inf, 0.0, 0.0),
    "softplus": (lambda x: x.softplus(), 20.0, 1.0, 2.061153614e-9),
    "softplus, the other end": (lambda x: x.softplus(), -80.0, 1.804851e-35, 1.804851e-35),
    "logsigmoid": (functional.logsigmoid, -20.0, 1.0, -2.061153614e-9),
    "binary cross entropy": (lambda x: _cross_entropy(x, 1.0), -20.0, -1.0, 2.061153614e-9),
    "binary cross entropy of a wrong logit": (lambda x: _cross_entropy(x, 0.0), 20.0, 1.0, 2.061153614e-9),
    "binary cross entropy, of a target": (
        lambda x: functional.binary_cross_entropy_with_logits(x.detach().full_like(1e-9), x),
        0.3,
        -1e-9,
        0.0,
    ),
    "atan of a large number": (lambda x: x.atan(), 3e38, 0.0, 0.0),
    "atan of infinity": (lambda x: x.atan(), float("inf"), 0.0, 0.0),
    "erf of a large number": (lambda x: x.erf(), -3e38, 0.0, 0.0),
    "erfc of a large number": (lambda x: x.erfc(), 3e38, 0.0, 0.0),
    "ndtr of a large number": (special.ndtr, 3e38, 0.0, 0.0),
    "silu": (lambda x: x.silu(), 20.0, 1.000000039, -3.710076488e-8),
    "mish": (functional.mish, 8.0, 1.000003373, -6.292009508e-6),
    "asin next to 0": (lambda x: x.asin(), 1e-8, 1.0, 1e-8),
    "acos next to 0": (lambda x: x.acos(), 1e-8, -1.0, -1e-8),
    "atanh next to 0": (lambda x: x.atanh(), 1e-8, 1.0, 2e-8),
    "asin next to 1": (lambda x: x.asin(), 1.0 - 2.0**-24, 2896.309419, 2.4296003638e10),
    "the slope of a power of infinity": (lambda y: func.grad(lambda x: x**y)(y.detach() + math.inf), 0.0, 0.0, None),
}
"""Functions, a number, and the first and second derivative there."""


@every_row("name", HOSTILE)
def test_derivatives_at_hostile_numbers(name: str) -> None:
    f, value, first, second = HOSTILE[name]
    x = Tensor[NumPy].from_data(value)
    found = func.grad(f)(x).item(), func.grad(func.grad(f))(x).item()
    np.testing.assert_allclose(found, (first, found[1] if second is None else second), rtol=1e-5)
    _, forward = func.jvp(func.grad(f), (x,), (x.ones_like(),))
    np.testing.assert_allclose(forward.item(), found[1], rtol=1e-3)


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_norms_of_large_numbers_have_exact_derivatives_in_float32(norm: str) -> None:
    """The cube of the reciprocal deviation, 1e-45, is below all floats, its product with other factors is not."""
    draws = np.random.default_rng(1)
    x, weight, direction = (draws.normal(size=shape).astype(np.float32) for shape in ((3, 4), (4,), (3, 4)))

    def tangent(dtype: str) -> Any:
        a, w, t = (
            Tensor[NumPy].from_data(v * s).to_dtype(dtype) for v, s in ((x, 1e15), (weight, 1e15), (direction, 1))
        )
        return func.jvp(lambda a: getattr(functional, norm)(a, (4,), w), (a,), (t,))[1].to_numpy()

    np.testing.assert_allclose(tangent("float32"), tangent("float64"), 1e-4, 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_attention_of_large_scores_in_16_bits(dtype: str) -> None:
    """The logsumexp of 60,000 is rounded by more than 100 in bfloat16: an infinite factor of the weights."""
    q: Any = Tensor[Autodiff[NumPy]].from_data([[240.0], [-245.0]]).to_dtype(dtype).detach().require_grad()
    k = Tensor[Autodiff[NumPy]].from_data([[250.0], [249.0], [1.0]]).to_dtype(dtype).detach()
    v: Any = Tensor[Autodiff[NumPy]].from_data([[1.0], [2.0], [4.0]]).to_dtype(dtype).detach().require_grad()
    grads = scaled_dot_product_attention(q, k, v, scale=1.0).sum().backward()
    assert grads[q].tolist() == [[0.0], [0.0]]
    assert grads[v].tolist() == [[1.0], [0.0], [1.0]]
