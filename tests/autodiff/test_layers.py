"""Operations under layers: what their rules save, derivatives of third order, conventions, gradients that stop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.autodiff import Forward
from burnpy.autodiff.tools.graph_views import edges
from burnpy.backend import Backend, NumPy, Profiled
from burnpy.backend.dtypes import float32, float64
from burnpy.tensor.tensor_base import new_tensor
from burnpy.testing import gradgradcheck
from tests.rows import every_row

RNG = np.random.default_rng(0)
PLAIN: Any = NumPy()
TRACKED: Any = Autodiff(NumPy())
CONV = ((1, 1), (1, 1), (1, 1), 1)


def leaf(*shape: int, device: Any = TRACKED) -> Any:
    return device.require_grad(device.from_numpy(RNG.uniform(-1, 1, shape)))


def gradients(out: Any, *leaves: Any, seed: Any = None) -> list[Any]:
    found = TRACKED.gradients(
        [(out, PLAIN.full(out.shape, 1.0, out.dtype) if seed is None else seed)], retain_graph=False
    )
    return [found.get(x.node) for x in leaves]


def kept_bytes(out: Any) -> int:
    """Return the memory that the graph of a primitive keeps alive, without its leaves."""
    arrays: dict[Any, int] = {}
    leaves: set[Any] = set()
    stack, seen = [out.node], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "value"):
            leaves.add(PLAIN.storage_of(node.value)[0])
            continue
        two = node.parent1 is not None
        for x in (*node.saved0, *(node.saved1 if two else ())):
            if isinstance(x, np.ndarray):
                key, size = PLAIN.storage_of(x)
                arrays[key] = size
        stack += [node.parent0, node.parent1]
    return sum(size for key, size in arrays.items() if key not in leaves)


@every_row(
    ("tracked", "called"),
    [
        ("x weight bias", {"matmul_nt", "linear_backward"}),
        ("x weight", {"matmul_nt", "matmul_tn"}),
        ("x bias", {"matmul_nt", "sum"}),
        ("weight bias", {"linear_backward"}),
        ("x", {"matmul_nt"}),
        ("weight", {"matmul_tn"}),
        ("bias", {"sum"}),
    ],
)
def test_linear_computes_and_keeps_what_is_needed(tracked: str, called: set[str]) -> None:
    device: Any = Autodiff(Profiled(NumPy()))
    shapes = {"x": (3, 4), "weight": (4, 2), "bias": (2,)}
    given = {name: device.from_numpy(RNG.uniform(-1, 1, shape)) for name, shape in shapes.items()}
    leaves = {name: device.require_grad(given[name]) for name in tracked.split()}
    out = device.linear(*(given | leaves).values())
    kept = [x.shape for edge in edges(out.node) for x in edge.kept if hasattr(x, "shape")]
    assert {*kept} == {shapes[other] for name, other in (("x", "weight"), ("weight", "x")) if name in leaves}
    ones = device.inner.full(out.shape, 1.0, out.dtype)
    with Profiled.record() as profile:
        found = device.gradients([(out, ones)], retain_graph=False)
    assert {row.operation for row in profile.rows()} == called
    x, weight, _ = (device.inner.to_numpy(value.value) for value in given.values())
    expected = {"x": np.ones((3, 2)) @ weight.T, "weight": x.T @ np.ones((3, 2)), "bias": np.full(2, 3.0)}
    for name, value in leaves.items():
        np.testing.assert_allclose(device.inner.to_numpy(found[value.node]), expected[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "f", "shapes"),
    [
        ("normalize", lambda d, x, w, b: d.normalize(x, w, b, (1,), 0.1)[0], [(3, 4), (4,), (4,)]),
        ("attention", lambda d, q, k, v: d.attention(q, k, v, None, 0, 0.5)[0], [(3, 2), (3, 2), (3, 2)]),
        ("conv2d_bias", lambda d, x, w, b: d.conv2d_bias(x, w, b, *CONV), [(1, 1, 3, 3), (2, 1, 2, 2), (2,)]),
        ("rms_norm", lambda d, x, w: d.rms_norm(x, w, (1,), 0.1), [(3, 4), (4,)]),
    ],
)
def test_third_derivatives(what: str, f: Any, shapes: list[tuple[int, ...]]) -> None:
    """The second derivatives of the gradient of a function that is not linear in the result."""

    def gradient(*xs: Tensor[Any]) -> Any:
        inner: Any = xs[0].device
        device: Any = Autodiff(inner)
        leaves = [device.require_grad(device.lift(x._primitive)) for x in xs]
        out = device.exp(f(device, *leaves))
        found = device.gradients([(out, inner.full(out.shape, 1.0, float64))], retain_graph=False)
        return [new_tensor(Tensor, inner, found[x.node]) for x in leaves]

    inputs = [Tensor[NumPy].from_data(RNG.uniform(-1, 1, shape)) for shape in shapes]
    assert gradgradcheck(gradient, inputs), what


@every_row("which", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@every_row("operation", ["conv2d_bias", "linear", "normalize", "attention"])
def test_only_what_is_tracked_gets_a_gradient(operation: str, which: tuple[int, ...]) -> None:
    """And the same as when all are."""
    shapes: dict[str, list[tuple[int, ...]]] = {
        "conv2d_bias": [(2, 1, 4, 4), (3, 1, 3, 3), (3,)],
        "linear": [(2, 3), (3, 4), (4,)],
        "normalize": [(3, 4), (4,), (4,)],
        "attention": [(3, 2), (3, 2), (3, 2)],
    }
    how: dict[str, tuple[Any, ...]] = {"conv2d_bias": CONV, "normalize": ((1,), 0.1), "attention": (None, None, 1.0)}
    values = [PLAIN.from_numpy(RNG.uniform(-1, 1, shape)) for shape in shapes[operation]]

    def run(tracked: tuple[int, ...]) -> list[Any]:
        given = [TRACKED.lift(v) for v in values]
        given = [TRACKED.require_grad(x) if k in tracked else x for k, x in enumerate(given)]
        out = getattr(TRACKED, operation)(*given, *how.get(operation, ()))
        out = out[0] if isinstance(out, tuple) else out
        seed = PLAIN.from_numpy(np.random.default_rng(1).uniform(-1, 1, out.shape))
        found = TRACKED.gradients([(out, seed)], retain_graph=False)
        return [found.get(x.node) if x.node is not None else None for x in given]

    everything, some = run((0, 1, 2)), run(which)
    for k, (a, b) in enumerate(zip(everything, some, strict=True)):
        assert (b is None) is (k not in which)
        if b is not None:
            np.testing.assert_array_equal(a, b)


def test_nothing_is_recorded_of_what_is_not_tracked() -> None:
    x = TRACKED.lift(PLAIN.full((2, 4), 1.0, float64))
    w = TRACKED.lift(PLAIN.full((4,), 1.0, float64))
    out, mean, var = TRACKED.normalize(x, w, w, (1,), 0.1)
    assert (out.node, mean.node, var.node) == (None, None, None)


def test_a_norm_keeps_its_argument_and_little_more() -> None:
    x, w, b = leaf(64, 32), leaf(32), leaf(32)
    hidden = TRACKED.exp(x)  # not a leaf's array, so that it counts
    out = TRACKED.normalize(hidden, w, b, (1,), 1e-5)[0]
    assert kept_bytes(out) <= hidden.value.nbytes + 4 * 64 * 8


def test_attention_keeps_no_weights() -> None:
    q, k, v = leaf(2, 64, 8), leaf(2, 64, 8), leaf(2, 64, 8)
    out, total = TRACKED.attention(q, k, v, None, None, 1.0)
    assert kept_bytes(out) <= out.value.nbytes + total.value.nbytes


def test_a_query_that_attends_to_nothing() -> None:
    """0 out, 0 gradient, at every order, and no NaN on the way."""
    mask = np.array([[True, False], [False, False]])
    for device in (TRACKED, Autodiff(Autodiff(NumPy()))):
        q, k, v = (leaf(2, 3, device=device) for _ in range(3))
        out, total = device.attention(q, k, v, mask, None, 1.0)
        assert not device.to_numpy(out)[1].any()
        assert device.to_numpy(total)[1] == 0
        inner = device.inner
        found = device.gradients([(out, inner.full(out.shape, 1.0, float64))], retain_graph=False)
        by_q, by_k, by_v = (inner.to_numpy(found[x.node]) for x in (q, k, v))
        assert not by_q[1].any()
        assert not by_k[1].any()
        assert not by_v[1].any()
        assert np.isfinite(by_q).all()
        assert by_v[0].any()


def test_a_query_that_attends_to_nothing_in_forward_mode() -> None:
    device: Any = Forward(NumPy())
    ones = PLAIN.full((2, 3), 1.0, float64)
    out, _ = device.attention(*(device.dual(ones, ones) for _ in range(3)), np.zeros((2, 2), bool), None, 1.0)
    assert not np.asarray(out.tangent).any()


def test_of_ties_in_a_window_the_first_has_the_gradient() -> None:
    x = TRACKED.require_grad(TRACKED.from_numpy(np.array([[[[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]])))
    out = TRACKED.max_pool2d(x, (2, 2), (1, 1), (0, 0), (1, 1), False)
    (grad,) = gradients(out, x)
    np.testing.assert_array_equal(grad[0, 0], [[1, 1, 0], [1, 1, 0], [0, 0, 0]])


def test_padding_is_never_the_largest() -> None:
    x = TRACKED.require_grad(TRACKED.from_numpy(np.full((1, 1, 2, 2), -5.0)))
    out = TRACKED.max_pool2d(x, (2, 2), (2, 2), (1, 1), (1, 1), False)
    assert (TRACKED.to_numpy(out) == -5).all()
    (grad,) = gradients(out, x)
    assert (grad == 1).all()


def test_max_pool_hands_nan_on() -> None:
    x = np.zeros((1, 1, 2, 2))
    x[0, 0, 0, 1] = np.nan
    assert np.isnan(PLAIN.max_pool2d(x, (2, 2), (2, 2), (0, 0), (1, 1), False)).all()


def test_the_padding_row_of_an_embedding_has_no_gradient() -> None:
    weight, index = leaf(4, 2), np.array([[1, 3], [3, 0]])
    (grad,) = gradients(TRACKED.embedding(weight, index, 3), weight)
    np.testing.assert_array_equal(grad, [[1, 1], [1, 1], [0, 0], [0, 0]])
    device: Any = Forward(NumPy())
    ones = PLAIN.full((4, 2), 1.0, float64)
    out = device.embedding(device.dual(ones, ones), index, 3)
    np.testing.assert_array_equal(out.tangent[..., 0], [[1, 0], [0, 1]])
    default = Backend.embedding(TRACKED, again := leaf(4, 2), index, 3)
    (other,) = gradients(default, again)
    np.testing.assert_array_equal(grad, other)


@pytest.mark.parametrize("shape", [(3, 40), (2, 3, 40)])
def test_the_gradient_of_a_weight_is_one_product(shape: tuple[int, ...]) -> None:
    x, w = leaf(*shape), leaf(40, 5)
    (one,) = gradients(TRACKED.matmul(x, w), w)
    rows = x.value.reshape(-1, 40)
    np.testing.assert_allclose(one, rows.T @ np.ones((len(rows), 5)))


def test_cross_entropy_of_large_logits() -> None:
    x = PLAIN.from_numpy(np.array([[1000.0, 0.0], [-1000.0, 1000.0]], np.float32))
    losses, total = PLAIN.cross_entropy(x, np.array([0, 0]), 1)
    np.testing.assert_array_equal(losses, [0, 2000])
    np.testing.assert_array_equal(total, [[1000], [1000]])
    assert losses.dtype == float32
