"""`Forward`: duals by hand, nesting with `Autodiff` either way, modes, accumulation, agreement with reverse mode."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, cat, stack
from burnpy.autodiff import Forward, make_dual, unpack_dual
from burnpy.autodiff.modes import no_grad
from burnpy.backend import NumPy
from burnpy.backend.backend import operations
from burnpy.func import grad, hvp, jvp, vjp

rng = np.random.default_rng(0)


def x64(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


def tangent(x: Any) -> Any:
    found = unpack_dual(x).tangent
    return None if found is None else found.to_numpy()


def test_duals_by_hand() -> None:
    a, t = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    x = make_dual(x64(a), x64(t))
    assert x.device is Forward(NumPy())
    np.testing.assert_allclose(tangent((x * x).sin().sum()), (np.cos(a * a) * 2 * a * t).sum(), rtol=1e-14)
    np.testing.assert_allclose(unpack_dual(x.exp()).primal.to_numpy(), np.exp(a))
    one = Tensor[Forward[NumPy]].ones((2, 3), dtype="float64")
    assert tangent(one) is None
    assert tangent(one * 2 + one) is None
    np.testing.assert_allclose(tangent(one * x), t)
    np.testing.assert_allclose(tangent(cat([one, x])), np.concatenate([np.zeros((2, 3)), t]))
    np.testing.assert_allclose(tangent(stack([x, one])), np.stack([t, np.zeros((2, 3))]))
    np.testing.assert_allclose(tangent(x + one[0]), t)
    np.testing.assert_allclose(tangent(one + x[0]), np.stack([t[0], t[0]]))
    np.testing.assert_allclose(tangent(one.at[0].set(x[1])), np.stack([t[1], np.zeros(3)]))
    np.testing.assert_allclose(tangent(x.at[0].set(5.0)), np.stack([np.zeros(3), t[1]]))
    np.testing.assert_allclose(tangent(one.where(one > 2, x)), t)
    assert tangent(x.detach()) is None
    assert (x.is_require_grad(), one.is_require_grad()) == (True, False)
    assert "tracked" in repr(x)


def test_promotion() -> None:
    x = make_dual(Tensor[NumPy].ones((2,)), Tensor[NumPy].ones((2,)))
    y = make_dual(x64([3.0, 4.0]), x64([1.0, 0.0]))
    for found, want in ((x * y, [4.0, 4.0]), (y / x, [-2.0, -4.0]), (x + y, [2.0, 1.0]), (x @ y, 8.0)):
        assert unpack_dual(found).primal.dtype == tangent(found).dtype == "float64"
        np.testing.assert_allclose(tangent(found), want)


def test_nesting() -> None:
    # d²/dx² sin(x²) at 0.7, by forward mode over reverse, reverse over forward, and forward over forward.
    x = x64(0.7)
    want = 2 * np.cos(0.49) - 4 * 0.49 * np.sin(0.49)
    one: Any = x64(1.0)

    inside = make_dual(x, one)
    leaf = Tensor[Autodiff[Forward[NumPy]]].from_inner(inside).require_grad()
    assert tangent((leaf * leaf).sin().backward()[leaf]) == pytest.approx(want, rel=1e-14)

    base = Tensor[Autodiff[NumPy]].from_inner(x).require_grad()
    outside = make_dual(base, Tensor[Autodiff[NumPy]].from_inner(one))
    slope = unpack_dual((outside * outside).sin()).tangent
    assert slope is not None
    assert slope.backward()[base].item() == pytest.approx(want, rel=1e-14)

    zero = x64(0.0)
    twice = make_dual(make_dual(x, one), make_dual(one, zero))
    first = unpack_dual((twice * twice).sin()).tangent
    assert tangent(first) == pytest.approx(want, rel=1e-14)


def test_require_grad_tracks_the_levels_beneath() -> None:
    dual = make_dual(Tensor[Autodiff[NumPy]].ones((2,)), Tensor[Autodiff[NumPy]].ones((2,))).require_grad()
    value, along = unpack_dual(dual * dual * 3.0)
    assert along is not None
    assert along.sum().backward()[unpack_dual(dual).primal].tolist() == [6.0, 6.0]
    assert value.is_require_grad()


def test_no_grad_makes_constants() -> None:
    x = make_dual(x64([1.0, 2.0]), x64([1.0, 1.0]))
    with no_grad():
        for found in (x * x, x.exp(), x + 1.0, x.sum(), cat([x, x]), x[0], x.std(), x.max(dim=0).values, x @ x):
            assert tangent(found) is None
    assert tangent(x * x) is not None


def test_gradients_of_slices_accumulate_in_place() -> None:
    # Forward over reverse: n slices of one vector. The sum of their gradients carries a tangent.
    n = 40
    a, v = rng.normal(size=n), rng.normal(size=n)

    def f(x: Any) -> Any:
        total = x[0] * 0.0
        for k in range(n - 1):
            total = total + x[k] ** 2 * x[k + 1]
        return total + (x[3:7] * x[3:7]).sum() + x.sum() + x.index_select(0, (x[:5] * 0).int()).sum() ** 2

    h = np.zeros((n, n))
    for k in range(n - 1):
        h[k, k] += 2 * a[k + 1]
        h[k, k + 1] += 2 * a[k]
        h[k + 1, k] += 2 * a[k]
    h[range(3, 7), range(3, 7)] += 2
    h[0, 0] += 50
    x, direction = x64(a), x64(v)
    np.testing.assert_allclose(hvp(f, x, direction)[1].to_numpy(), h @ v, rtol=1e-12)
    assert x.tolist() == a.tolist()
    assert direction.tolist() == v.tolist()
    # Each seed and tangent is used again: nothing of it was overwritten.
    _, pullback = vjp(lambda x: x[1:] * x[0] + x[:-1], x)
    seed = direction[1:]
    one, two = (jvp(lambda s: pullback(s)[0], (seed,), (seed,)) for _ in range(2))
    assert one[0].tolist() == two[0].tolist() == one[1].tolist() == two[1].tolist() == pullback(seed)[0].tolist()


def test_every_operation_has_a_method() -> None:
    for name in operations():
        method = getattr(Forward(NumPy()), name)
        assert method.__name__ == name
        assert list(signature(method).parameters) == [a.name for a in operations()[name].arguments]


def test_pickled_devices_and_values() -> None:
    import copy
    import pickle

    x = make_dual(x64([1.0]), x64([1.0]))
    assert pickle.loads(pickle.dumps(x)).tolist() == copy.deepcopy(x).tolist() == [1.0]
    assert pickle.loads(pickle.dumps(x)).device is x.device


def test_agreement_with_reverse_mode_on_a_network() -> None:
    w, b, x, v = (
        x64(rng.normal(size=(4, 3))),
        x64(rng.normal(size=3)),
        x64(rng.normal(size=(5, 4))),
        x64(rng.normal(size=(4, 3))),
    )

    def loss(w: Any) -> Any:
        h = (x @ w + b).gelu()
        h = h.softmax(dim=1) * h.log_softmax(dim=1) + h.var(dim=0) + h.std(dim=1, keepdim=True)
        h = h.clamp(-1.0, 1.0).cumsum(0).prod(dim=1) + h.amax(dim=1) + h.logsumexp(dim=1)
        return (h.silu() * h.softplus()).mean()

    directional = jvp(loss, (w,), (v,))[1].item()
    assert directional == pytest.approx((grad(loss)(w) * v).sum().item(), rel=1e-12)
