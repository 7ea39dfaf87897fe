"""Complex matrices beside PyTorch's: values and gradients, and second derivatives beside differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, ComplexTensor, linalg
from burnpy.backend import NumPy
from burnpy.backend.errors import KindError, LinAlgError
from burnpy.testing import gradcheck, gradgradcheck
from tests.parity.closeness import assert_close
from tests.rows import every_row

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
Train = Autodiff[NumPy]
rng = np.random.default_rng(8)


def numbers(*shape: int) -> Any:
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


A, Y = numbers(2, 3, 3) + 2 * np.eye(3), numbers(2, 3, 3)


def room(x: Any) -> Any:
    return torch.linalg if isinstance(x, torch.Tensor) else linalg


def top(x: Any) -> Any:
    return torch if isinstance(x, torch.Tensor) else linalg


def hermitian(x: Any) -> Any:
    return x @ x.mH + 0.5 * (x + x.mH)


def sums(x: Any, *others: Any) -> Any:
    """Return real results joined."""
    total = x
    for other in others:
        total = total + other
    return total


def of_values(values: Any) -> Any:
    """Return a real function of complex values in no order."""
    return (values * values).sum(-1).abs() + (values.abs() ** 3).sum(-1)


F = Callable[..., Any]
FUNCTIONS: dict[str, F] = {
    "cholesky": lambda x, y: room(x).cholesky(hermitian(x)),
    "cholesky upper": lambda x, y: room(x).cholesky(hermitian(x), upper=True),
    "cholesky_solve": lambda x, y: top(x).cholesky_solve(y, room(x).cholesky(hermitian(x))),
    "cholesky_inverse": lambda x, y: top(x).cholesky_inverse(room(x).cholesky(hermitian(x), upper=True), upper=True),
    "solve": lambda x, y: room(x).solve(x, y),
    "solve right": lambda x, y: room(x).solve(x, y, left=False),
    "solve vectors": lambda x, y: room(x).solve(x, y[..., 0]),
    "solve_triangular": lambda x, y: room(x).solve_triangular(x, y, upper=True, left=False, unitriangular=True),
    "inv": lambda x, y: room(x).inv(x),
    "pinv": lambda x, y: room(x).pinv(x[:, :2]),
    "pinv hermitian": lambda x, y: room(x).pinv(hermitian(x), hermitian=True),
    "det": lambda x, y: room(x).det(x),
    "slogdet": lambda x, y: room(x).slogdet(x)[0],
    "logabsdet": lambda x, y: room(x).slogdet(x)[1],
    "logdet": lambda x, y: x.logdet(),
    "eigvalsh": lambda x, y: room(x).eigvalsh(hermitian(x), UPLO="U"),
    "eigh": lambda x, y: room(x).eigh(hermitian(x)).eigenvectors.abs(),
    "eigenvalues of eigh": lambda x, y: room(x).eigh(hermitian(x), UPLO="U").eigenvalues,
    "eigvals": lambda x, y: of_values(room(x).eigvals(x)),
    "eig": lambda x, y: sums((room(x).eig(x).eigenvectors.abs() ** 3).sum((-1, -2)), of_values(room(x).eig(x)[0])),
    "eig of a real matrix": lambda x, y: (room(x).eig(x.real).eigenvectors.abs() ** 3).sum((-1, -2)),
    "svd": lambda x, y: room(x).svd(x[:, :2], full_matrices=False).U.abs().sum((-1, -2)),
    "svd of wide matrices": lambda x, y: room(x).svd(x[:, :2], full_matrices=False).Vh.abs(),
    "svd of long matrices": lambda x, y: room(x).svd(x[..., :2], full_matrices=False).U.abs(),
    "polar factor": lambda x, y: (lambda s: s.U @ s.Vh)(room(x).svd(x, full_matrices=False)),
    "svdvals": lambda x, y: room(x).svdvals(x),
    "qr": lambda x, y: sums(room(x).qr(x).Q.abs(), room(x).qr(x).R.abs()),
    "qr wide": lambda x, y: room(x).qr(x[:, :2], mode="complete")[1].abs(),
    "qr long": lambda x, y: room(x).qr(x[..., :2]).Q.abs(),
    "lu": lambda x, y: room(x).lu(x).L + room(x).lu(x).U.exp(),
    "lu_solve": lambda x, y: room(x).lu_solve(*room(x).lu_factor(x), y, adjoint=True),
    "lu_solve right": lambda x, y: room(x).lu_solve(*room(x).lu_factor(x), y, left=False),
    "lstsq": lambda x, y: room(x).lstsq(x[..., :2], y)[0],
    "matrix_exp": lambda x, y: room(x).matrix_exp(x),
    "matrix_power": lambda x, y: room(x).matrix_power(x, -2),
    "multi_dot": lambda x, y: room(x).multi_dot([x[0], y[0], x[1]]),
    "vecdot": lambda x, y: room(x).vecdot(x, y),
    "vander": lambda x, y: room(x).vander(x[0, 0]),
    "tensorinv": lambda x, y: room(x).tensorinv(x[0].reshape(3, 3, 1), ind=1),
    "tensorsolve": lambda x, y: room(x).tensorsolve(x[0], y[0, 0]),
    **{f"vector_norm {p}": lambda x, y, p=p: room(x).vector_norm(x, p, -1) for p in (2, 1, 0, 3.5, np.inf)},
    **{f"matrix_norm {p}": lambda x, y, p=p: room(x).matrix_norm(x, p) for p in ("fro", "nuc", 1, -1, 2, -2, np.inf)},
    **{f"cond {p}": lambda x, y, p=p: room(x).cond(x, p) for p in (None, -2)},
    # PyTorch raises an error in the derivative of these, as it overwrites what that needs.
    **{f"cond {p}": lambda x, y, p=p: room(x).cond(x if room(x) is linalg else x.detach(), p) for p in ("fro", 1)},
}
"""Functions of two batches of matrices, whose results do not depend on the factors that LAPACK chooses."""
KINKED = {"vector_norm 0", "vector_norm inf"}


def gradients(result: Any, leaves: Any) -> list[Any]:
    """Return the gradients of a real sum of a result."""
    if isinstance(result, torch.Tensor):
        parts = torch.view_as_real(result.resolve_conj()) if result.is_complex() else result
        weights = torch.arange(1.0, parts.numel() + 1, dtype=torch.float64).reshape(parts.shape)
        loss = (parts * weights).sum()
        return list(torch.autograd.grad(loss, leaves, allow_unused=True))
    import burnpy

    parts = burnpy.view_as_real(result) if result.kind == "complex" else result
    weights = burnpy.Tensor.arange(1.0, parts.numel() + 1, dtype="float64", device=result.device).reshape(parts.shape)
    found = (parts * weights).sum().backward()
    return [found.get(x) for x in leaves]


@every_row("name", FUNCTIONS)
def test_values_and_gradients_are_pytorchs(name: str) -> None:
    f = FUNCTIONS[name]
    ours = [ComplexTensor[Train].from_data(v).require_grad() for v in (A, Y)]
    theirs = [torch.tensor(v, requires_grad=True) for v in (A, Y)]
    found, wanted = f(*ours), f(*theirs)
    assert_close(found, wanted.detach().resolve_conj(), name)
    if name in ("vector_norm 0", "cond fro", "cond 1"):
        return
    for g, w in zip(gradients(found, ours), gradients(wanted, theirs), strict=True):
        if g is not None and w is not None:
            assert_close(g, w.resolve_conj(), f"a gradient of {name}")
        else:
            assert g is None or not g.to_numpy().any()
            assert w is None or not w.abs().sum()


@every_row("name", [name for name in FUNCTIONS if name not in KINKED])
def test_derivatives_are_those_of_differences(name: str) -> None:
    x, y = (ComplexTensor[NumPy].from_data(v) for v in (A, Y))
    gradcheck(FUNCTIONS[name], (x, y), elements=8)
    gradgradcheck(FUNCTIONS[name], (x, y), elements=4)


def test_mistakes_get_a_sentence() -> None:
    z = ComplexTensor[NumPy].from_data(A)
    with pytest.raises(KindError, match=r"convert the Tensor with .complex\(\)"):
        linalg.solve(z, z.real)
    with pytest.raises(LinAlgError, match="is singular"):
        linalg.inv(z * 0)
    with pytest.raises(LinAlgError, match="is not positive definite"):
        linalg.cholesky(-hermitian(z))
