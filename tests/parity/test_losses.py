"""Loss functions beside PyTorch's: values, first and second derivatives, for every reduction and setting."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy, errors
from burnpy.nn import functional
from tests.parity.closeness import assert_close

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:.reduction. 'mean' divides", "ignore:reduction:")

Train = Autodiff[NumPy]
Twice = Autodiff[Train]
F: Any = functional
RNG = np.random.default_rng(3)


def data(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def positive(*shape: int) -> Any:
    return RNG.uniform(0.1, 0.9, shape)


def signs(*shape: int) -> Any:
    return np.where(RNG.uniform(size=shape) > 0.5, 1.0, -1.0)


X, Y, P, Q = data(4, 3), data(4, 3), positive(4, 3), positive(4, 3)
CLASSES, TRIPLE = np.array([2, 0, 1, 2]), positive(3)
GRID = np.array([[2, 0], [1, -7], [0, 0], [-7, 2]])
SEVERAL = np.array([[2, 0, -1], [-1, 1, 2], [1, 1, 0], [0, 1, 2]])
COUNTS = np.array([[0.0, 1.0, 2.0], [3.0, 0.5, 1.5], [7.0, 2.0, 0.0], [1.0, 1.0, 4.0]])
ZEROS = np.where(X > 0.0, P, 0.0)
"""Probabilities; some are 0."""

CASES: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "l1_loss": [((X, Y), {}), ((X, Y), {"weight": P}), ((X[0, 0], Y[0, 0]), {}), ((X[:0], Y[:0]), {}), ((X, X), {})],
    "mse_loss": [((X, Y), {}), ((X, Y), {"weight": P}), ((X[0, 0], Y[0, 0]), {}), ((X[:0], Y[:0]), {})],
    "smooth_l1_loss": [((X, Y), {}), ((3.0 * X, Y), {"beta": 0.7}), ((X, Y), {"beta": 0.0}), ((X, X), {})],
    "huber_loss": [((X, Y), {}), ((3.0 * X, Y), {"delta": 0.7}), ((X, Y), {"weight": P, "delta": 1.5}), ((X, X), {})],
    "binary_cross_entropy": [((P, Q), {}), ((P, Q), {"weight": positive(4, 3)}), ((P[0, 0], Q[0, 0]), {})],
    "binary_cross_entropy_with_logits": [((X, Q), {}), ((X, Q), {"weight": P, "pos_weight": TRIPLE})],
    "kl_div": [((X, Q), {}), ((X, Y), {"log_target": True}), ((X[:0], Y[:0]), {})],
    "poisson_nll_loss": [
        ((X, COUNTS), {}),
        ((X, COUNTS + 0.25), {"full": True}),
        ((P, COUNTS), {"log_input": False, "eps": 0.01}),
    ],
    "gaussian_nll_loss": [
        ((X, Y, P), {}),
        ((X, Y, P), {"full": True, "eps": 0.4}),
        ((X, Y, P[:, :1]), {}),
        ((X, Y, P[:, 0]), {"full": True}),
        ((X, Y, 0.5), {}),
    ],
    "hinge_embedding_loss": [((X, signs(4, 3)), {}), ((X, signs(4, 3)), {"margin": 0.3})],
    "cosine_embedding_loss": [
        ((X, Y, signs(4)), {}),
        ((X, Y, np.array([-1.0, -1.0, 1.0, -1.0])), {"margin": 0.2}),
        ((X[0], Y[0], np.array(1.0)), {}),
    ],
    "margin_ranking_loss": [((X, Y, signs(4, 3)), {}), ((X, Y, signs(4, 3)), {"margin": 0.5})],
    "triplet_margin_loss": [
        ((X, Y, data(4, 3)), {}),
        ((X, Y, data(4, 3)), {"margin": 2.0, "swap": True}),
        ((X, Y, data(4, 3)), {"p": 1.0, "eps": 0.01}),
        ((X, Y, data(4, 3)), {"p": 3.0, "margin": 3.0}),
        ((X, Y, data(4, 3)), {"p": math.inf}),
        ((X, X, data(4, 3)), {"eps": 0.0}),
        ((X[0], Y[0], Y[1]), {}),
    ],
    "soft_margin_loss": [((X, signs(4, 3)), {}), ((X[:0], signs(0, 3)), {})],
    "multi_margin_loss": [
        ((X, CLASSES), {}),
        ((X, CLASSES), {"p": 2, "margin": 0.5}),
        ((X, CLASSES), {"weight": TRIPLE}),
        ((X, CLASSES), {"weight": TRIPLE, "p": 2}),
        ((X[0], CLASSES[0]), {}),
    ],
    "multilabel_margin_loss": [
        ((X, SEVERAL), {}),
        ((X[0], SEVERAL[0]), {}),
        ((X[0, 0], np.array(0)), {}),
    ],
    "multilabel_soft_margin_loss": [
        ((X, Q), {}),
        ((30.0 * X, np.round(Q)), {"weight": TRIPLE}),
        ((X, Q), {"weight": P}),
        ((X[0], Q[0]), {}),
    ],
    "nll_loss": [((X, CLASSES), {"weight": TRIPLE, "ignore_index": 0}), ((data(4, 3, 2), GRID), {"ignore_index": -7})],
    "cross_entropy": [
        ((X, CLASSES), {}),
        ((X[0], CLASSES[0]), {}),
        ((X, CLASSES), {"weight": TRIPLE, "label_smoothing": 0.2}),
        ((X, CLASSES), {"ignore_index": 2}),
        ((X, CLASSES), {"weight": TRIPLE, "ignore_index": 2, "label_smoothing": 0.1}),
        ((data(4, 3, 2), GRID), {"ignore_index": -7, "weight": TRIPLE, "label_smoothing": 0.1}),
        ((data(4, 3, 2), GRID), {"ignore_index": -7}),
        ((X, P), {}),
        ((X, P), {"weight": TRIPLE, "label_smoothing": 0.3}),
        ((data(4, 3, 2), positive(4, 3, 2)), {"weight": TRIPLE}),
        ((X[0], P[0]), {}),
    ],
}
LABELLED = ("hinge_embedding_loss", "cosine_embedding_loss", "margin_ranking_loss", "soft_margin_loss")
"""Losses whose last argument is 1 or -1, by which PyTorch does not differentiate."""
EDGES: dict[str, tuple[Any, ...]] = {
    "binary_cross_entropy": (np.array([0.0, 1.0, 1.0, 0.0, 1e-30]), np.array([0.0, 1.0, 0.25, 1.0, 1.0])),
    "l1_loss": (np.array([np.inf, np.nan, -0.0]), np.array([1.0, 2.0, 0.0])),
    "smooth_l1_loss": (np.array([np.inf, np.nan, -0.0]), np.array([1.0, 2.0, 0.0])),
    "huber_loss": (np.array([np.inf, np.nan, -0.0]), np.array([1.0, 2.0, 0.0])),
    "kl_div": (np.array([0.5, -2.0, np.nan]), np.array([0.0, 1.0, 1.0])),
    "poisson_nll_loss": (np.array([np.inf, -np.inf, np.nan]), np.array([0.0, 0.0, 1.0])),
    "soft_margin_loss": (np.array([500.0, -500.0, np.nan]), np.array([1.0, -1.0, 1.0])),
}
RUNS = [
    pytest.param(name, args, settings | {"reduction": reduction}, id=f"{name}-{k}-{reduction}")
    for name, cases in CASES.items()
    for (k, (args, settings)), reduction in product(enumerate(cases), ("mean", "sum", "none", "batchmean"))
    if reduction != "batchmean" or name == "kl_div"
]


def is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic))


def mine(x: Any, device: Any) -> Any:
    if not is_array(x):
        return x
    if x.dtype.kind == "i":
        return IntTensor.from_data(x, device=device)
    return Tensor.from_data(x, device=device).require_grad()


def theirs(x: Any) -> Any:
    if not is_array(x):
        return x
    return torch.tensor(x, requires_grad=x.dtype.kind == "f")


@pytest.mark.parametrize(("name", "args", "settings"), RUNS)
def test_values_and_two_derivatives(name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> None:
    xs, xs_ = [mine(x, Twice) for x in args], [theirs(x) for x in args]
    if name in LABELLED:
        xs_[-1] = xs_[-1].detach()
    kwargs = {key: mine(x, Twice) for key, x in settings.items()}
    kwargs_ = {key: theirs(x).detach() if is_array(x) else x for key, x in settings.items()}
    with np.errstate(all="ignore"):
        out, out_ = getattr(F, name)(*xs, **kwargs), getattr(torch.nn.functional, name)(*xs_, **kwargs_)
    assert_close(out, out_, "value")
    leaves = [k for k, x_ in enumerate(xs_) if getattr(x_, "requires_grad", False)]
    if not out.numel():
        return
    grads = (out * out).sum().backward() if out.ndim else out.sin().backward()
    total_ = (out_ * out_).sum() if out.ndim else out_.sin()
    firsts_ = torch.autograd.grad(total_, [xs_[k] for k in leaves], create_graph=True, allow_unused=True)
    second: Any = 0.0
    second_: Any = 0.0
    for k, first_ in zip(leaves, firsts_, strict=True):
        assert_close(grads[xs[k]], first_, f"first derivative with respect to {k}")
        second, second_ = second + (grads[xs[k]] ** 2).sum(), second_ + (first_**2).sum()
    if not second_.requires_grad or name in (
        "multi_margin_loss",
        "multilabel_margin_loss",
    ):  # PyTorch has no second derivative
        return
    seconds_ = torch.autograd.grad(second_, [xs_[k] for k in leaves], allow_unused=True)
    seconds = second.backward()
    for k, found in zip(leaves, seconds_, strict=True):
        if found is not None:
            wanted = found.numpy()
            got = xs[k].inner().grad(seconds)
            got = np.zeros_like(wanted) if got is None else got.to_numpy()
            assert np.isfinite(got).all()
            known = np.isfinite(wanted)  # PyTorch's is NaN where points are equal
            np.testing.assert_allclose(got[known], wanted[known], rtol=1e-9, atol=1e-9, err_msg=f"second by {k}")


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values(name: str) -> None:
    xs, xs_ = [mine(x, Train) for x in EDGES[name]], [theirs(x) for x in EDGES[name]]
    out = getattr(F, name)(xs[0], xs[1].detach(), reduction="none")
    out_ = getattr(torch.nn.functional, name)(xs_[0], xs_[1].detach(), reduction="none")
    assert_close(out, out_)
    first, first_ = out.sum().backward()[xs[0]].to_numpy(), torch.autograd.grad(out_.sum(), xs_[0])[0].numpy()
    known = ~np.isnan(EDGES[name][0])
    if name == "binary_cross_entropy":
        np.testing.assert_array_equal(first[:2], [1.0, -1.0])  # p - target at the right end, where PyTorch has 0
        known[:2] = False
    np.testing.assert_allclose(first[known], first_[known], rtol=1e-8, atol=1e-200)


def test_the_cosine_of_zero() -> None:
    ones = np.ones(4)
    xs, xs_ = [mine(x, Train) for x in (X, 0.0 * Y)], [theirs(x) for x in (X, 0.0 * Y)]
    grads = F.cosine_embedding_loss(*xs, mine(ones, Train).detach()).backward()
    firsts_ = torch.autograd.grad(torch.nn.functional.cosine_embedding_loss(*xs_, theirs(ones).detach()), xs_)
    for x, first_ in zip(xs, firsts_, strict=True):
        np.testing.assert_allclose(grads[x].to_numpy(), first_.numpy(), rtol=1e-7)


MISTAKES: dict[str, tuple[Callable[[], Any], Callable[[], Any], type[Exception], str]] = {
    "probability above 1": (
        lambda: F.binary_cross_entropy(mine(3.0 * P, Train), mine(Q, Train)),
        lambda: torch.nn.functional.binary_cross_entropy(theirs(3.0 * P), theirs(Q)),
        errors.ArgumentError,
        "takes probabilities as input, .*write binary_cross_entropy_with_logits",
    ),
    "shapes": (
        lambda: F.triplet_margin_loss(mine(X, Train), mine(Y, Train), mine(Y[0, 0], Train)),
        lambda: torch.nn.functional.triplet_margin_loss(theirs(X), theirs(Y), theirs(Y[0, 0])),
        errors.ShapeError,
        r"\(4, 3\) and \(\), which must be equal",
    ),
    "negative variance": (
        lambda: F.gaussian_nll_loss(mine(X, Train), mine(Y, Train), mine(-P, Train)),
        lambda: torch.nn.functional.gaussian_nll_loss(theirs(X), theirs(Y), theirs(-P)),
        errors.ArgumentError,
        "variance below 0; of its logarithm, write var=log_var.exp",
    ),
    "shape of the variance": (
        lambda: F.gaussian_nll_loss(mine(X, Train), mine(Y, Train), mine(TRIPLE, Train)),
        lambda: torch.nn.functional.gaussian_nll_loss(theirs(X), theirs(Y), theirs(TRIPLE)),
        errors.ShapeError,
        r"a variance of shape \(3,\); it is of the same shape",
    ),
    "reduction": (
        lambda: F.l1_loss(mine(X, Train), mine(Y, Train), reduction="average"),
        lambda: torch.nn.functional.l1_loss(theirs(X), theirs(Y), reduction="average"),
        errors.ArgumentError,
        "reduction='average'",
    ),
    "power": (
        lambda: F.multi_margin_loss(mine(X, Train), mine(CLASSES, Train), p=3),
        lambda: torch.nn.functional.multi_margin_loss(theirs(X), theirs(CLASSES), p=3),
        errors.ArgumentError,
        "p=3; expected 1 or 2",
    ),
    "class": (
        lambda: F.multi_margin_loss(mine(X, Train), mine(CLASSES + 1, Train)),
        lambda: torch.nn.functional.multi_margin_loss(theirs(X), theirs(CLASSES + 1)),
        errors.IndexRangeError,
        "3",
    ),
    "labels": (
        lambda: F.cosine_embedding_loss(mine(X, Train), mine(Y, Train), mine(X, Train)),
        lambda: torch.nn.functional.cosine_embedding_loss(theirs(X), theirs(Y), theirs(X)),
        errors.ShapeError,
        r"labels of shape \(4, 3\); they must be of shape \(4,\)",
    ),
    "negative beta": (
        lambda: F.smooth_l1_loss(mine(X, Train), mine(Y, Train), beta=-1.0),
        lambda: torch.nn.functional.smooth_l1_loss(theirs(X), theirs(Y), beta=-1.0),
        errors.ArgumentError,
        "beta=-1.0; expected a number of at least 0",
    ),
    "delta": (
        lambda: F.huber_loss(mine(X, Train), mine(Y, Train), delta=0.0),
        lambda: torch.nn.functional.huber_loss(theirs(X), theirs(Y), delta=0.0),
        errors.ArgumentError,
        "delta=0.0; expected a number above 0",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_both_refuse(mistake: str) -> None:
    ours, other, error, message = MISTAKES[mistake]
    with pytest.raises((ValueError, RuntimeError, IndexError)):
        other()
    with pytest.raises(error, match=message):
        ours()


def test_labels_may_be_ints() -> None:
    for name in ("hinge_embedding_loss", "soft_margin_loss"):
        labels = signs(4, 3)
        found = getattr(F, name)(mine(X, Train), IntTensor[Train].from_data(labels.astype(int)))
        assert_close(found, getattr(F, name)(mine(X, Train), mine(labels, Train)))
