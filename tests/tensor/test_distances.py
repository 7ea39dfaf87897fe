"""Distances and similarities of vectors against their formulas: values, gradients where points are equal, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import (
    Autodiff,
    Tensor,
    cdist,
    cosine_similarity,
    pairwise_distance,
    pdist,
)
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, DimError, ShapeError
from burnpy.testing import gradcheck, gradgradcheck

rng = np.random.default_rng(5)


def test_distances() -> None:
    a, b = rng.normal(size=(2, 4, 3)), rng.normal(size=(5, 3))
    x, y = Tensor[NumPy].from_data(a), Tensor[NumPy].from_data(b)
    for p in (0.0, 0.5, 1.0, 2.0, 3.0, float("inf")):
        differences = a[:, :, None] - b
        if p == 0:
            wanted = (differences != 0).sum(-1)
        else:
            size = np.abs(differences)
            wanted = size.max(-1) if p == float("inf") else (size**p).sum(-1) ** (1 / p)
        np.testing.assert_allclose(cdist(x, y, p=p).to_numpy(), wanted)
        i, j = np.triu_indices(5, 1)
        paired = cdist(y, y, p=p).to_numpy()[i, j]
        np.testing.assert_allclose(pdist(y, p=p).to_numpy(), paired)
        if p > 0.5:
            gradcheck(lambda x, y, p=p: cdist(x, y, p=p), (x, y))
    gradgradcheck(lambda x, y: cdist(x, y), (x[0], y))
    assert cdist(x[:, :0], y).shape == (2, 0, 5)
    assert cdist(x[..., :0], y[..., :0]).tolist() == np.zeros((2, 4, 5)).tolist()
    assert pdist(y[:1]).shape == (0,)
    size = np.linalg.norm(a[0] - a[1] + 1e-6, axis=-1, keepdims=True)
    np.testing.assert_allclose(pairwise_distance(x[0], x[1], keepdim=True).to_numpy(), size)
    gradgradcheck(lambda x, y: pairwise_distance(x, y[:4]), (x, y))


def test_the_pairs_of_pdist_are_numbered_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Tensor[NumPy].from_data(rng.normal(size=(300, 2)))
    i, j = np.triu_indices(300, 1)
    wanted = np.linalg.norm(x.to_numpy()[i] - x.to_numpy()[j], axis=1)

    def refused(*args: Any) -> Any:
        raise AssertionError("an array goes between the device and the host")

    with monkeypatch.context() as patch:
        for name in ("from_numpy", "adopt_numpy", "to_numpy"):
            patch.setattr(NumPy, name, refused)
        found = pdist(x)
    np.testing.assert_allclose(found.to_numpy(), wanted)
    for rows in range(4):
        assert pdist(x[:rows]).shape == (rows * (rows - 1) // 2,)


def test_equal_points_have_gradient_0_at_every_order() -> None:
    device: Any = Autodiff[Autodiff[NumPy]]
    x = Tensor.from_data(np.ones((2, 3)), device=device).require_grad()
    f: Any
    for f in (lambda x: cdist(x, x.detach()), lambda x: pdist(x), lambda x: pairwise_distance(x, x.detach(), eps=0.0)):
        first = f(x).sum().backward()[x]
        assert first.tolist() == np.zeros((2, 3)).tolist()
        second = first.sum().backward(retain_graph=True) if first.is_require_grad() else {}
        assert np.array_equal(second[x.inner()].to_numpy(), np.zeros((2, 3))) if x.inner() in second else True


def test_cosine_similarity() -> None:
    a, b = rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 1))
    x, y = Tensor[NumPy].from_data(a), Tensor[NumPy].from_data(b)
    for dim in (0, 1, -1):
        wide = np.broadcast_to(b, a.shape)
        norms = np.linalg.norm(a, axis=dim) * np.linalg.norm(wide, axis=dim)
        np.testing.assert_allclose(cosine_similarity(x, y, dim=dim).to_numpy(), (a * wide).sum(dim) / norms)
    gradgradcheck(lambda x, y: cosine_similarity(x, y, dim=-1), (x, y))
    assert cosine_similarity(x * 0.0, x).tolist() == np.zeros((2, 4)).tolist()


def test_cosines_of_all_pairs_take_the_norms_of_each_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, ...]] = []
    norm: Any = NumPy.vector_norm
    monkeypatch.setattr(NumPy, "vector_norm", lambda b, x, *rest: shapes.append(x.shape) or norm(b, x, *rest))
    x, y = Tensor[NumPy].normal((3, 4)), Tensor[NumPy].normal((5, 4))
    assert cosine_similarity(x[:, None], y, dim=-1).shape == (3, 5)
    assert shapes == [(3, 1, 4), (1, 5, 4)]


def test_mistakes_of_distances() -> None:
    x, v = Tensor[NumPy].ones((2, 3)), Tensor[NumPy].ones((4,))
    call: Any
    for call, error, said in (
        (lambda: cdist(x, v), ShapeError, r"takes shapes \(…, n, k\)"),
        (lambda: cdist(x, x, p=-1.0), ArgumentError, "p=-1.0"),
        (lambda: pdist(v), ShapeError, r"takes shape \(n, k\)"),
        (lambda: pairwise_distance(x, v), ShapeError, "broadcast"),
        (lambda: cosine_similarity(x, v), ShapeError, "do not broadcast"),
        (lambda: cosine_similarity(x, x, dim=2), DimError, "dim 2"),
    ):
        with pytest.raises(error, match=said):
            call()
