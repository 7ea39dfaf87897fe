"""Loss functions: both derivatives in both modes, narrow dtypes, and what is finite where PyTorch is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, cosine_similarity
from burnpy.backend import NumPy
from burnpy.backend.errors import DTypeError, KindError, ShapeError
from burnpy.func import grad, jvp
from burnpy.nn import functional
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

Train = Autodiff[NumPy]
F: Any = functional
RNG = np.random.default_rng(7)
X, Y, Z = (RNG.standard_normal((3, 2)) for _ in range(3))
P, Q = (RNG.uniform(0.1, 0.9, (3, 2)) for _ in range(2))
SIGNS = np.array([[1, -1], [-1, 1], [-1, -1]])

FUNCTIONS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "l1_loss": ((X, Y), {}),
    "smooth_l1_loss": ((X, Y), {"beta": 0.7}),
    "huber_loss": ((X, Y), {"delta": 0.7}),
    "binary_cross_entropy": ((P, Q), {}),
    "kl_div": ((X, P), {"reduction": "batchmean"}),
    "poisson_nll_loss": ((X, P), {}),
    "gaussian_nll_loss": ((X, Y, P), {"full": True}),
    "hinge_embedding_loss": ((X, SIGNS), {}),
    "cosine_embedding_loss": ((X, Y, SIGNS[:, 0]), {}),
    "margin_ranking_loss": ((X, Y, SIGNS), {"margin": 0.5}),
    "triplet_margin_loss": ((X, Y, Z), {"margin": 3.0, "swap": True}),
    "soft_margin_loss": ((X, SIGNS), {}),
    "multi_margin_loss": ((X, np.array([1, 0, 1])), {"p": 2}),
    "multilabel_margin_loss": ((X, np.array([[1, -1], [0, 1], [-1, 0]])), {}),
    "multilabel_soft_margin_loss": ((X, P), {}),
    "sigmoid_focal_loss": ((X, P), {"gamma": 1.5}),
}


def of_kind(x: Any, dtype: str, device: Any) -> Any:
    kind = IntTensor if x.dtype.kind == "i" else Tensor
    return kind.from_data(x, dtype="int64" if kind is IntTensor else dtype, device=device)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_derivatives(name: str) -> None:
    args, settings = FUNCTIONS[name]
    floats = [x for x in args if x.dtype.kind == "f"]
    ints = [x for x in args if x.dtype.kind == "i"]

    def loss(*xs: Any) -> Any:
        return getattr(F, name)(*xs, *(of_kind(x, "", xs[0].device) for x in ints), **settings)

    leaves = [of_kind(x, "float64", Train).require_grad() for x in floats]
    assert gradcheck(loss, tuple(leaves))
    assert gradgradcheck(loss, tuple(leaves))


@every_row("dtype", ["float16", "bfloat16", "float32"])
@every_row("name", FUNCTIONS)
def test_dtypes_are_kept_and_nearly_right(name: str, dtype: str) -> None:
    args, settings = FUNCTIONS[name]
    exact = getattr(F, name)(*(of_kind(x, "float64", NumPy) for x in args), **settings).item()
    found = getattr(F, name)(*(of_kind(x, dtype, NumPy) for x in args), **settings)
    assert str(found.dtype) == dtype
    assert found.item() == pytest.approx(exact, rel={"float16": 0.01, "bfloat16": 0.08, "float32": 1e-5}[dtype])


@every_row("name", FUNCTIONS)
def test_a_wider_or_a_foreign_argument_is_refused(name: str) -> None:
    args, settings = FUNCTIONS[name]
    first, *rest = (of_kind(x, "float32", NumPy) for x in args)
    if args[1].dtype.kind == "f":
        with pytest.raises(DTypeError, match=name):
            getattr(F, name)(first, of_kind(args[1], "float64", NumPy), *rest[1:], **settings)
    with pytest.raises(KindError, match=name):
        getattr(F, name)(first, "target", *rest[1:], **settings)
    with pytest.raises(ShapeError, match=name):
        getattr(F, name)(first, rest[0][:1], *rest[1:], **settings)


@pytest.mark.parametrize("target", [0, 1])
def test_scores_of_one_example_have_the_margin_loss_of_a_batch_of_it(target: int) -> None:
    scores, label = Tensor[NumPy].from_data(X[0]), IntTensor[NumPy].from_data(target)
    assert F.multi_margin_loss(scores, label).item() == F.multi_margin_loss(scores[None], label[None]).item()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3, 2)])
def test_the_margin_loss_refuses_other_shapes_of_scores(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"takes scores of shape \(N, C\) or \(C,\)"):
        F.multi_margin_loss(Tensor[NumPy].zeros(shape), IntTensor[NumPy].zeros(shape[:1]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_binary_cross_entropy_is_finite_at_the_ends(dtype: str) -> None:
    p = Tensor[Train].from_data([0.0, 1.0, 0.0, 1.0], dtype=dtype).require_grad()
    target = Tensor[Train].from_data([0.0, 1.0, 1.0, 0.0], dtype=dtype)
    losses = F.binary_cross_entropy(p, target, reduction="none")
    assert losses.tolist() == [0.0, 0.0, 100.0, 100.0]
    slopes = losses.sum().backward()[p].to_numpy().astype(float)
    assert slopes[:2].tolist() == [1.0, -1.0]
    assert -slopes[2] == slopes[3] >= 1e4
    assert np.isfinite(slopes).all()


def test_the_divergence_by_a_target_of_zero_is_finite() -> None:
    target = Tensor[Train].from_data([0.0, 1.0]).require_grad()
    out = F.kl_div(Tensor[Train].from_data([-1.0, -2.0]), target, reduction="none")
    assert out.tolist() == [0.0, 2.0]
    assert out.sum().backward()[target].tolist() == [1.0, 3.0]


def test_equal_points_have_a_triplet_gradient_of_zero() -> None:
    x = Tensor[Train].ones((2, 3)).require_grad()
    loss = F.triplet_margin_loss(x, Tensor[Train].ones((2, 3)), Tensor[Train].zeros((2, 3)), margin=9.0, eps=0.0)
    np.testing.assert_allclose(loss.backward()[x].to_numpy(), -1 / np.sqrt(3) / 2, rtol=1e-6)


def test_a_small_variance_counts_as_eps_and_keeps_its_gradient() -> None:
    var = Tensor[Train].from_data([0.0, 4.0]).require_grad()
    x, y = Tensor[Train].zeros((2,)), Tensor[Train].ones((2,))
    out = F.gaussian_nll_loss(x, y, var, eps=0.5, reduction="none")
    np.testing.assert_allclose(out.to_numpy(), [0.5 * (np.log(0.5) + 2.0), 0.5 * (np.log(4.0) + 0.25)], rtol=1e-6)
    np.testing.assert_allclose(out.sum().backward()[var].to_numpy(), [0.5 * (2.0 - 4.0), 0.5 * (0.25 - 1 / 16)])


@pytest.mark.parametrize("name", ["huber_loss", "smooth_l1_loss"])
def test_an_infinite_difference_has_the_slope_of_the_tangent(name: str) -> None:
    x = Tensor[NumPy].from_data([np.inf, -np.inf, 3.0, 1.0, 0.5])

    def loss(a: Any) -> Any:
        return getattr(F, name)(a, a.zeros_like(), reduction="sum")

    ones, slopes = x.ones_like(), [1.0, -1.0, 1.0, 1.0, 0.5]
    rows = [Tensor[NumPy].from_data(row, dtype="float32") for row in np.eye(5)]
    assert [jvp(loss, (x,), (row,))[1].item() for row in rows] == slopes
    assert grad(loss)(x).tolist() == slopes
    assert [jvp(grad(loss), (x,), (row,))[1].sum().item() for row in rows] == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert grad(lambda a: (grad(loss)(a) * a.ones_like()).sum())(x).tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert jvp(lambda a: jvp(loss, (a,), (ones,))[1], (x,), (ones,))[1].item() == 2.0


ROWS = np.random.default_rng(0).normal(size=(2, 400))
BETWEEN: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    # a function of two matrices (2, 400), and a scale: float16 has room for the result, and not for squares or sums
    "cosine_embedding_loss": (lambda x, y: F.cosine_embedding_loss(x, y, classes(x, [1, -1])), 300.0),
    "cosine_embedding_loss, small": (lambda x, y: F.cosine_embedding_loss(x, y, classes(x, [1, -1])), 1e-3),
    "cosine_embedding_loss, zeros": (lambda x, y: F.cosine_embedding_loss(x, y, classes(x, [1, -1])), 0.0),
    "triplet_margin_loss": (lambda x, y: F.triplet_margin_loss(x, y, x.flip(1) * 0.5), 300.0),
    "multilabel_margin_loss": (lambda x, y: F.multilabel_margin_loss(x, classes(x, [[1, 2] + [-1] * 398] * 2)), 300.0),
    "gaussian_nll_loss": (lambda x, y: F.gaussian_nll_loss(x, y, y.detach().abs() + 200.0), 300.0),
    "poisson_nll_loss, zeros": (lambda x, y: F.poisson_nll_loss(x.abs(), y.abs(), log_input=False), 0.0),
    "cross_entropy with smoothing": (lambda x, y: F.cross_entropy(x, classes(x, [1, 2]), label_smoothing=0.1), 300.0),
    "local_response_norm": (lambda x, y: F.local_response_norm(x.reshape(1, 8, 100), 3), 300.0),
    "cosine_similarity": (lambda x, y: cosine_similarity(x, y), 300.0),
    "cosine_similarity, zeros": (lambda x, y: cosine_similarity(x, y), 0.0),
    "renorm": (lambda x, y: x.renorm(2.0, 0, 1.0), 10000.0),
}


def classes(x: Any, numbers: Any) -> Any:
    return IntTensor.from_data(numbers, device=x.device)


@every_row("name", BETWEEN)
def test_float16_has_the_range_of_float32_within_a_function(name: str) -> None:
    f, scale = BETWEEN[name]
    leaves = [Tensor[Train].from_data(x * scale, dtype="float16").require_grad() for x in (ROWS, ROWS[:, ::-1])]
    wide = [x.detach().to_dtype("float64").require_grad() for x in leaves]
    out, wanted = f(*leaves), f(*wide)
    assert out.dtype == np.float16
    np.testing.assert_allclose(out.to_numpy(), wanted.to_numpy(), rtol=2e-3, atol=1e-3 * abs(wanted.to_numpy()).max())
    slope, slope_wanted = (
        g.backward(gradient=g.inner().ones_like()).get(x[0]) for g, x in ((out, leaves), (wanted, wide))
    )
    largest = abs(slope_wanted.to_numpy()).max()
    if largest < 6e4:
        np.testing.assert_allclose(slope.to_numpy(), slope_wanted.to_numpy(), atol=5e-3 * largest + 1e-7)


def test_cosines_of_long_vectors() -> None:
    x = Tensor[NumPy].from_data([[3e15, 4e15]])
    assert F.cosine_embedding_loss(x, x, classes(x, [1])).item() == pytest.approx(0.0, abs=1e-6)
