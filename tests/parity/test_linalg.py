"""`burnpy.linalg` and products beside PyTorch's: values, dtypes, gradients by leaves that are made symmetric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, Tensor, linalg
from burnpy.backend import NumPy
from tests.parity.closeness import assert_close

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
Train = Autodiff[NumPy]
rng = np.random.default_rng(8)
A, B, M = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 4, 3))
SQUARE = A + 3 * np.eye(3)


def room(x: Any) -> Any:
    return torch.linalg if isinstance(x, torch.Tensor) else linalg


def top(x: Any) -> Any:
    return torch if isinstance(x, torch.Tensor) else burnpy


def symmetric(x: Any) -> Any:
    return x @ x.mT + 0.5 * (x + x.mT)


F = Callable[..., Any]
FUNCTIONS: dict[str, F] = {
    "cholesky": lambda x, y: room(x).cholesky(x @ x.mT, upper=True),
    "cholesky_solve": lambda x, y: (linalg if room(x) is linalg else torch).cholesky_solve(
        y, room(x).cholesky(x @ x.mT)
    ),
    "solve": lambda x, y: room(x).solve(x, y, left=False),
    "solve vectors": lambda x, y: room(x).solve(x, y[..., 0]),
    "solve_triangular": lambda x, y: room(x).solve_triangular(x, y, upper=True, left=False, unitriangular=True),
    "inv": lambda x, y: room(x).inv(x),
    "pinv": lambda x, y: room(x).pinv(x[:, :2]),
    "pinv hermitian": lambda x, y: room(x).pinv(symmetric(x), hermitian=True),
    "det": lambda x, y: room(x).det(x),
    "slogdet": lambda x, y: room(x).slogdet(x)[1],
    "logdet": lambda x, y: (x @ x.mT).logdet(),
    "eigh": lambda x, y: room(x).eigh(symmetric(x)).eigenvectors.abs() + room(x).eigh(symmetric(x))[0].unsqueeze(-1),
    "eigvalsh": lambda x, y: room(x).eigvalsh(symmetric(x), UPLO="U"),
    "svd": lambda x, y: (
        room(x).svd(x[:, :2], full_matrices=False).U.abs().sum() + room(x).svd(x[:, :2], full_matrices=False).Vh.abs()
    ),
    "svd full": lambda x, y: room(x).svd(x[:, :2]).S,
    "svdvals": lambda x, y: room(x).svdvals(x),
    "qr": lambda x, y: room(x).qr(x).Q.abs() + room(x).qr(x).R.abs(),
    "qr wide": lambda x, y: room(x).qr(x[:, :2], mode="complete")[1].abs(),
    "lu": lambda x, y: room(x).lu(x).L + room(x).lu(x).U.exp(),
    "lu_solve": lambda x, y: room(x).lu_solve(*room(x).lu_factor(x), y, adjoint=True),
    "lstsq": lambda x, y: room(x).lstsq(x[..., :2], y)[0],
    "matrix_exp": lambda x, y: x.matrix_exp(),
    "matrix_power": lambda x, y: x.matrix_power(-3),
    "multi_dot": lambda x, y: room(x).multi_dot([x[0], y[0], x[1], y[1, :, 0]]),
    **{f"matrix_norm {p}": lambda x, y, p=p: room(x).matrix_norm(x, ord=p) for p in ("fro", "nuc", 2, -2, 1, np.inf)},
    **{f"vector_norm {p}": lambda x, y, p=p: room(x).vector_norm(x, p, dim=(0, 2)) for p in (0, 1, 2, 3.5, np.inf)},
    **{f"cond {p}": lambda x, y, p=p: room(x).cond(x, p) for p in (None, -2)},
    # PyTorch raises an error in the derivative of these, as it overwrites what that needs.
    **{f"cond {p}": lambda x, y, p=p: room(x).cond(x.detach(), p) for p in ("fro", 1, np.inf)},
    "norm": lambda x, y: room(x).norm(x) + room(x).norm(x[0], 2) + room(x).norm(x, 1, dim=-1).sum(),
    "einsum": lambda x, y: top(x).einsum("bij,...kj,bii->b...ik", x, y[0], x),
    "tensordot": lambda x, y: top(x).tensordot(x, y, dims=([0, 2], [0, 1])),
    "chain_matmul": lambda x, y: top(x).chain_matmul(x[0], y[0], x[1]),
    "products": lambda x, y: x[0].mm(y[0]).mv(x[0, 0]).outer(y[1, 1].kron(x[0, 0])) * x[1, 1].dot(y[0, 0]),
    "bmm": lambda x, y: x.bmm(y),
    "kron": lambda x, y: x.kron(y[0, :2]),
    "cross": lambda x, y: x.cross(y, dim=1),
    "cross without a dim": lambda x, y: x.cross(y),
    **{f"cdist {p}": lambda x, y, p=p: top(x).cdist(x, y[0], p=p) for p in (0.0, 0.5, 1.0, 2.0, 3.0, np.inf)},
    "pdist": lambda x, y: top(x).pdist(x.reshape(6, 3), p=2.0),
    **{f"pairwise_distance {p}": lambda x, y, p=p: top(x).pairwise_distance(x, y[0], p=p) for p in (-1.0, -np.inf)},
    "pairwise_distance": lambda x, y: top(x).pairwise_distance(x, y[0], p=3.0, keepdim=True),
    "cosine_similarity": lambda x, y: top(x).cosine_similarity(x, y[0], dim=-1),
}


@pytest.mark.filterwarnings("ignore:Using torch.cross:UserWarning")
@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name: str) -> None:
    f = FUNCTIONS[name]
    ours: Any = [Tensor[Train].from_data(a).require_grad() for a in (SQUARE, B)]
    theirs = [torch.tensor(a, requires_grad=True) for a in (SQUARE, B)]
    out, out_ = f(*ours), f(*theirs)
    assert_close(out, out_, name)
    weights = rng.normal(size=out.shape)
    if not out.is_require_grad():
        return
    grads = (out * Tensor[Train].from_data(weights, dtype="float64")).sum().backward()
    (out_ * torch.tensor(weights)).sum().backward()
    for x, x_ in zip(ours, theirs, strict=True):
        wanted = torch.zeros_like(x_) if x_.grad is None else x_.grad
        assert_close(grads.get(x, x.inner().zeros_like()), wanted, f"a gradient of {name}")


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3), (2, 0, 3), (2, 3, 0)])
def test_empty_matrices(shape: tuple[int, ...]) -> None:
    x, x_ = Tensor[NumPy].zeros(shape), torch.zeros(shape)
    names = ["svdvals", "qr", "svd", "pinv", "matrix_rank"]
    names += ["det", "inv", "cholesky", "eigvalsh", "slogdet", "matrix_exp"] if shape[-1] == shape[-2] else []
    for name in names:
        found, wanted = getattr(linalg, name)(x), getattr(torch.linalg, name)(x_)
        many = isinstance(found, tuple)
        for a, b in zip(found if many else (found,), wanted if many else (wanted,), strict=True):
            assert a.shape == tuple(b.shape), (name, shape)
            np.testing.assert_allclose(a.to_numpy(), b.numpy())


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3), (0, 0, 0)])
def test_lu_solve_of_empty_matrices(shape: tuple[int, ...], left: bool, adjoint: bool) -> None:
    right = (*shape[:-1], 2) if left else (*shape[:-2], 2, shape[-1])
    factors, factors_ = linalg.lu_factor(Tensor[NumPy].zeros(shape)), torch.linalg.lu_factor(torch.zeros(shape))
    found = linalg.lu_solve(*factors, Tensor[NumPy].zeros(right), left=left, adjoint=adjoint)
    wanted = torch.linalg.lu_solve(*factors_, torch.zeros(right), left=left, adjoint=adjoint)
    assert found.shape == tuple(wanted.shape)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (2, 3, 1)])
def test_ranks_by_tensors_of_tolerances(shape: tuple[int, ...], dtype: str) -> None:
    a = np.zeros(shape)
    for k, value in enumerate((5.0, 1.0, 1e-9)[: shape[-1]]):
        a[..., k, k] = value
    x, x_ = Tensor[Train].from_data(a), torch.tensor(a)
    for tolerances in (0.5, 0.0, -1.0, [0.0, 2.0], [[0.5], [2.0], [9.0]]):
        each: Any = Tensor[Train].from_data(tolerances, dtype=dtype)
        each_ = torch.tensor(tolerances, dtype=getattr(torch, dtype))
        for names in (("atol",), ("rtol",), ("atol", "rtol")):
            found = linalg.matrix_rank(x, **dict.fromkeys(names, each))
            wanted = torch.linalg.matrix_rank(x_, **dict.fromkeys(names, each_))
            np.testing.assert_array_equal(found.to_numpy(), wanted.numpy())
