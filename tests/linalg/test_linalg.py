"""`burnpy.linalg`: options, batches that broadcast, singular matrices, equal eigenvalues, mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, compiled, func, linalg
from burnpy.backend import Checked, NumPy, Profiled
from burnpy.backend.errors import ArgumentError, KindError, LinAlgError, MissingNameError, ShapeError
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row
from tests.third_party.array_api_backend import ArrayApi

rng = np.random.default_rng(3)
Train = Autodiff[NumPy]


def tensor(a: Any, device: Any = NumPy) -> Any:
    return Tensor.from_data(np.asarray(a, np.float64), device=device)


def square(*shape: int) -> Any:
    return rng.normal(size=shape) + 3 * np.eye(shape[-1])


def positive(*shape: int) -> Any:
    a = rng.normal(size=shape)
    return a @ a.swapaxes(-1, -2) + np.eye(shape[-1])


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found.to_numpy(), wanted, 1e-9, 1e-9)


def test_eigenvalues_of_real_matrices_are_real_or_exact_pairs() -> None:
    x = Tensor[Autodiff[NumPy]].from_data(np.random.default_rng(0).normal(size=(4, 5, 5)))
    values = [linalg.eigvals(x), linalg.eig(x).eigenvalues, linalg.eig(x.require_grad()).eigenvalues]
    for found in values:
        found = found.to_numpy()
        real = (abs(found.imag) < 1e-9).sum(1)
        assert ((found.imag == 0).sum(1) == real).all()
        assert (np.sort_complex(found) == np.sort_complex(found.conj())).all()


def test_solve_takes_vectors_and_broadcasts() -> None:
    a, b = square(2, 3, 3), rng.normal(size=(3, 4))
    close(linalg.solve(tensor(a), tensor(b)), np.linalg.solve(a, np.broadcast_to(b, (2, 3, 4))))
    close(linalg.solve(tensor(a), tensor(b[:, :2].T)), np.stack([np.linalg.solve(a[k], b[:, k]) for k in range(2)]))
    close(linalg.solve(tensor(a[0]), tensor(b[:, 0])), np.linalg.solve(a[0], b[:, 0]))
    close(linalg.solve(tensor(a), tensor(b.T), left=False), b.T @ np.linalg.inv(a))
    x = tensor(a).to_dtype("float32")
    assert linalg.solve(x, tensor(b)).dtype == "float64"
    gradcheck(lambda a, b: linalg.solve(a, b), (tensor(a), tensor(b)))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangular_and_cholesky_solve(upper: bool, left: bool) -> None:
    a, b = square(2, 3, 3), rng.normal(size=(3, 3))
    t = np.triu(a) if upper else np.tril(a)
    found = linalg.solve_triangular(tensor(a), tensor(b), upper=upper, left=left)
    close(found, np.linalg.solve(t, np.stack([b, b])) if left else b @ np.linalg.inv(t))
    p = positive(3, 3)
    factor = linalg.cholesky(tensor(p), upper=upper)
    close(linalg.cholesky_solve(tensor(b), factor, upper=upper), np.linalg.solve(p, b))


def test_triangular_equations_of_many_rows_are_solved_by_blocks() -> None:
    a = np.tril(rng.normal(size=(150, 150))) / 20 + np.eye(150)
    b = rng.normal(size=(150, 2))
    close(linalg.solve_triangular(tensor(a), tensor(b), upper=False), np.linalg.solve(a, b))
    close(linalg.solve_triangular(tensor(a.T), tensor(b), upper=True), np.linalg.solve(a.T, b))
    a[7, 7] = 0.0
    with np.errstate(all="ignore"):
        found = linalg.solve_triangular(tensor(a), tensor(b), upper=False).to_numpy()
    assert np.isfinite(found[:7]).all()
    assert np.isinf(found[7]).all(), "as by substitution"


@pytest.mark.slow
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_lu(left: bool, adjoint: bool) -> None:
    a, b = square(2, 4, 4)[:, ::-1], rng.normal(size=(2, 4, 4))
    p, lower, upper = linalg.lu(tensor(a))
    close(p @ lower @ upper, a)
    m = a.swapaxes(-1, -2) if adjoint else a
    wanted = np.linalg.solve(m, b) if left else b @ np.linalg.inv(m)

    def solved(a: Any, b: Any) -> Any:
        return linalg.lu_solve(*linalg.lu_factor(a), b, left=left, adjoint=adjoint)

    for function in (solved, func.vmap(solved), compiled(solved)):
        close(function(tensor(a), tensor(b)), wanted)
    gradcheck(solved, (tensor(a), tensor(b)))
    for shape in ((3, 2), (2, 3)):
        c = rng.normal(size=shape)
        p, lower, upper = linalg.lu(tensor(c))
        close(p @ lower @ upper, c)


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
def test_gradients_of_lu_with_a_last_pivot_of_0(shape: tuple[int, int]) -> None:
    a = tensor(np.array([[2.0, 4.0, 1.0], [1.0, 2.0, 3.0]])[:, : shape[1]])
    assert linalg.lu_factor(a).LU.to_numpy()[1, 1] == 0.0
    gradcheck(lambda a: linalg.lu_factor(a).LU, (a,))


def test_least_squares_and_ranks() -> None:
    a, b = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    found, wanted = linalg.lstsq(tensor(a), tensor(b)), np.linalg.lstsq(a, b)
    close(found.solution, wanted[0])
    close(found.residuals, wanted[1])
    assert found.rank.item() == wanted[2]
    close(found.singular_values, wanted[3])
    close(linalg.lstsq(tensor(a.T), tensor(b[:3])).solution, np.linalg.lstsq(a.T, b[:3])[0])
    close(linalg.lstsq(tensor(a), tensor(b[:, 0])).solution, np.linalg.lstsq(a, b[:, 0])[0])
    gradcheck(lambda a, b: linalg.lstsq(a, b).solution, (tensor(a), tensor(b)))
    batch = rng.normal(size=(4, 5, 3))
    batch[1, :, 2] = batch[1, :, 0]  # of rank 2
    each = [linalg.lstsq(tensor(one), tensor(b)) for one in batch]
    found = linalg.lstsq(tensor(batch), tensor(b))
    mapped = func.vmap(linalg.lstsq, in_dims=(0, None))(tensor(batch), tensor(b))
    recorded = compiled(linalg.lstsq)
    for parts in (found, mapped, recorded(tensor(batch), tensor(b)), recorded(tensor(batch), tensor(b))):
        for part, wanted_parts in zip(parts, zip(*each, strict=True), strict=True):
            close(part, np.stack([one.to_numpy() for one in wanted_parts]))
    assert found.rank.tolist() == [3, 2, 3, 3]
    low = np.outer([1.0, 2.0, 3.0], [1.0, 1.0, 2.0])
    assert linalg.matrix_rank(tensor(np.stack([low, np.eye(3), 0 * low]))).tolist() == [1, 3, 0]
    diagonal = tensor(np.diag([5.0, 1.0, 0.1]))
    assert linalg.matrix_rank(diagonal, atol=0.5).item() == 2
    assert linalg.matrix_rank(diagonal, atol=tensor([0.5, 2.0]), rtol=0.01).tolist() == [2, 1]
    assert linalg.matrix_rank(tensor(np.diag([5.0, -1.0])), hermitian=True, rtol=0.3).item() == 1
    close(linalg.pinv(tensor(low)), np.linalg.pinv(low, 1e-12))
    gradcheck(lambda a: linalg.pinv(a), tensor(a))


def test_powers_exponentials_and_chains() -> None:
    a = square(2, 3, 3) / 4
    for n in (0, 1, 2, 5, -1, -3):
        close(linalg.matrix_power(tensor(a), n), np.linalg.matrix_power(a, n))
    gradgradcheck(lambda a: a.matrix_power(3), tensor(a))
    large = np.array([[0.0, 30.0], [-30.0, 0.0]])
    rotation = np.array([[np.cos(30), np.sin(30)], [-np.sin(30), np.cos(30)]])
    close(tensor(np.stack([large, 0 * large])).matrix_exp(), np.stack([rotation, np.eye(2)]))
    arrays = [rng.normal(size=shape) for shape in ((4,), (4, 30), (30, 2), (2,))]
    close(linalg.multi_dot([tensor(x) for x in arrays]), np.linalg.multi_dot(arrays))


def test_only_one_triangle_of_symmetric_matrices_is_read() -> None:
    p, other = positive(3, 3), np.triu(np.full((3, 3), 9.0), 1)
    lower = np.tril(p) + other
    close(linalg.cholesky(tensor(lower)), np.linalg.cholesky(p))
    close(linalg.eigvalsh(tensor(lower)), np.linalg.eigvalsh(p))
    close(linalg.eigh(tensor(lower.T), UPLO="U").eigenvalues, np.linalg.eigvalsh(p))
    close(linalg.pinv(tensor(lower), hermitian=True), np.linalg.inv(p))


def test_modes_of_qr_and_svd() -> None:
    a = rng.normal(size=(4, 2))
    q, r = linalg.qr(tensor(a), mode="complete")
    assert (q.shape, r.shape) == ((4, 4), (4, 2))
    close(q @ r, a)
    q, r = linalg.qr(tensor(a), mode="r")
    assert (q.shape, r.shape) == ((0,), (2, 2))
    u, s, vh = linalg.svd(tensor(a))
    assert (u.shape, s.shape, vh.shape) == ((4, 4), (2,), (2, 2))
    close(u[:, :2] * s @ vh, a)
    x = tensor(a, Train).require_grad()
    close(linalg.svd(x).S.sum().backward()[x], np.linalg.svd(a, False)[0] @ np.linalg.svd(a, False)[2])
    f: Any
    for f, said in (
        (lambda x: linalg.svd(x).U, r"svd\(\) was differentiated by vectors .* full_matrices=False"),
        (lambda x: linalg.qr(x, "complete").Q, r"qr\(\) was differentiated by vectors .*reduced"),
    ):
        with pytest.raises(ArgumentError, match=said):
            f(x).sum().backward()


SINGULAR: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "cholesky": (lambda x: linalg.cholesky(x), np.diag([1.0, -1.0]), "not positive definite"),
    "inv": (lambda x: linalg.inv(x), np.ones((2, 2)), "singular"),
    "solve": (lambda x: linalg.solve(x, x), np.ones((2, 2)), "singular"),
    "svd": (lambda x: linalg.svd(x), np.full((2, 2), np.nan), "NaN"),
}


@every_row("device", [NumPy, ArrayApi, Profiled[NumPy], Train])
@every_row("name", SINGULAR)
def test_what_fails_names_the_matrix_of_the_batch(name: str, device: Any) -> None:
    f, bad, why = SINGULAR[name]
    good = np.eye(2)
    with pytest.raises(LinAlgError, match=rf"{name}\(\) got shape \(2, 2\), and the matrix .*{why}"):
        f(tensor(bad, device))
    with pytest.raises(LinAlgError, match=rf"\(3, 2, 2\), and matrix 1 .*{why}"):
        f(tensor([good, bad, bad], device))
    with pytest.raises(LinAlgError, match=r"\(1, 2, 2, 2\), and matrix \(0, 1\) "):
        f(tensor([[good, bad]], device))
    assert issubclass(LinAlgError, ValueError)


def test_the_determinant_of_singular_matrices_has_exact_derivatives() -> None:
    for a in (
        np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0]),
        np.arange(9.0).reshape(3, 3),
        np.zeros((2, 2)),
        np.zeros((3, 3)),
    ):
        gradcheck(lambda x: x.det(), tensor(a))
        gradgradcheck(lambda x: x.det(), tensor(a))
    x = tensor(np.diag([2.0, 3.0, 0.0]), Train).require_grad()
    close(x.det().backward()[x], np.diag([0.0, 0.0, 6.0]))


def test_logdet() -> None:
    x = tensor(np.stack([np.eye(2) * 3, np.diag([-1.0, 1.0]), np.zeros((2, 2))]))
    np.testing.assert_allclose(x.logdet().to_numpy(), [2 * np.log(3), np.nan, -np.inf])
    assert x.slogdet().sign.tolist() == [1.0, -1.0, 0.0]
    gradgradcheck(lambda x: x.logdet(), tensor(positive(2, 3, 3)))
    singular = tensor(np.stack([np.eye(2), np.ones((2, 2))]), Train).require_grad()
    with pytest.raises(LinAlgError, match="and matrix 1 is singular"):
        singular.logdet().sum().backward()


@pytest.mark.parametrize("values", [[2.0, 2.0, 2.0], [1.0, 1.0, 4.0]])
def test_equal_eigenvalues_and_singular_values(values: list[float]) -> None:
    """Derivatives are finite, and right but within the space of a repeated value, where vectors do not turn."""
    q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    a = (q * values) @ q.T
    a = (a + a.T) / 2

    def cube(x: Any) -> Any:
        w, v = linalg.eigh((x + x.mT) * 0.5)
        return (v * w**3) @ v.mT

    def cube_by_svd(x: Any) -> Any:
        u, s, vh = linalg.svd(x)
        return (u * s**3) @ vh

    for f in (cube, cube_by_svd):
        x = tensor(a, Train).require_grad()
        weights = tensor(rng.normal(size=(3, 3)), Train)
        weights = weights + weights.mT
        found = (f(x) * weights).sum().backward()[x].to_numpy()
        w = weights.to_numpy()
        exact = sum(np.linalg.matrix_power(a, k) @ w @ np.linalg.matrix_power(a, 2 - k) for k in range(3))
        if f is cube:
            inside = q.T @ w @ q
            gaps = np.subtract.outer(values, values)
            np.testing.assert_allclose(np.where(gaps == 0, 0, q.T @ (found - exact) @ q), 0 * inside, atol=1e-8)
        twice = tensor(a, Autodiff[Train]).require_grad()
        first = (f(twice) * Tensor.from_data(w, device=Autodiff[Train])).sum().backward()[twice]
        assert np.isfinite(first.sum().backward()[twice.inner()].to_numpy()).all()


def test_16_bit_floats_are_computed_in_float32() -> None:
    a = positive(3, 3)
    for dtype in ("float16", "bfloat16"):
        x = tensor(a).to_dtype(dtype)
        factor = linalg.cholesky(x)
        assert factor.dtype == dtype
        np.testing.assert_allclose(factor.to_numpy().astype(float), np.linalg.cholesky(a), 0.05, 0.05)


def test_checked_devices_compute() -> None:
    close(linalg.inv(tensor(np.eye(2) * 4, Checked[NumPy])), np.eye(2) / 4)


@every_row("name", ["eigh", "eigvalsh", "svd", "svdvals", "qr", "inv", "det", "pinv", "matrix_exp"])
def test_matrices_in_as_many_dimensions_as_there_can_be(name: str) -> None:
    small: Any = Tensor[Train].from_data([[[2.0, 1.0], [1.0, 3.0]], [[1.0, 0.5], [0.5, 4.0]]]).require_grad()
    large = small.reshape((1,) * 61 + (2, 2, 2)).detach().require_grad()
    gradients = []
    for x in (small, large):
        found: Any = getattr(linalg, name)(x)
        parts = found if isinstance(found, tuple) else (found,)
        values = [part.to_numpy().reshape(-1) for part in parts]
        part = parts[-1 if name != "svd" else 1]
        gradients.append((values, x.grad(part.square().sum().backward()).to_numpy().reshape(-1)))
    for few, many in zip(*[[*values, gradient] for values, gradient in gradients], strict=True):
        np.testing.assert_array_equal(few, many)


def test_what_fails_in_many_dimensions_names_the_matrix() -> None:
    x = Tensor[NumPy].zeros((1,) * 61 + (2, 2, 2))
    with pytest.raises(LinAlgError, match=r", 0\) is singular"):
        linalg.inv(x)


def test_mistakes() -> None:
    x, i = tensor(rng.normal(size=(2, 3))), IntTensor[NumPy].ones((2, 2))
    cases: list[tuple[Callable[[], Any], Any, str]] = [
        (
            lambda: linalg.cholesky(x),
            ShapeError,
            r"takes square matrices, of shape \(…, n, n\), got shape \(2, 3\)",
        ),
        (lambda: linalg.svd(x[0]), ShapeError, r"takes matrices, of shape \(…, n, m\)"),
        (lambda: linalg.inv(i), KindError, r"an IntTensor; convert it with x.float\(\)"),  # type: ignore[type-var]
        (lambda: linalg.det(2.0), KindError, "float Tensor, got 2.0"),  # type: ignore[type-var]
        (lambda: linalg.qr(x, mode="full"), ArgumentError, "reduced"),  # type: ignore[arg-type]
        (lambda: linalg.eigh(x @ x.mT, UPLO="x"), ArgumentError, "UPLO='x'"),  # type: ignore[call-overload]
        (lambda: linalg.solve(x @ x.mT, x.mT), ShapeError, "the second must have 2 rows"),
        (lambda: linalg.solve(x @ x.mT, x[0]), ShapeError, r"\(3,\); the second must have 2 elements"),
        (lambda: linalg.solve_triangular(x @ x.mT, x.mT @ x, upper=True), ShapeError, "2 rows"),
        (lambda: linalg.lstsq(x, x.mT), ShapeError, "equal rows"),
        (lambda: linalg.lstsq(x, x, driver="x"), ArgumentError, "driver='x'"),
        (lambda: linalg.pinv(x, rtol=-1), ArgumentError, "rtol=-1"),
        (lambda: linalg.multi_dot([x]), ArgumentError, "two tensors or more"),
        (lambda: linalg.multi_dot([x, x]), ShapeError, "do not multiply"),
        (
            lambda: linalg.matrix_rank(x[None].expand(2, 2, 3), atol=x[0]),
            ShapeError,
            r"shape \(3,\) do not .* batch is \(2,\)",
        ),
        (lambda: linalg.lu_solve(x @ x.mT, x, x), KindError, "IntTensor"),
        *[
            (
                lambda f=f, pivot=pivot: f(x @ x.mT, IntTensor[NumPy].from_data([2, pivot]), x),
                ArgumentError,
                "pivots outside of 1 to 2",
            )
            for f in (linalg.lu_solve, compiled(linalg.lu_solve))
            for pivot in (0, 3, -4)
        ],
        (lambda: x.matrix_power(2), ShapeError, "square"),
        (lambda: x.eig, MissingNameError, "eigh"),
    ]
    for call, error, said in cases:
        with pytest.raises(error, match=said):
            call()


def test_norms() -> None:
    a = rng.normal(size=(2, 3, 4))
    x, inf = tensor(a), float("inf")
    for p in ("fro", "nuc", 1, -1, 2, -2, inf, -inf):
        wanted = np.linalg.norm(a, p, (1, 2))
        close(linalg.matrix_norm(x, ord=p), wanted)
        close(linalg.norm(x, ord=p, dim=(-2, -1), keepdim=True), wanted[:, None, None])
        close(linalg.matrix_norm(x, ord=p, dim=(2, 0)), np.linalg.norm(a, p, (2, 0)))
        gradgradcheck(lambda x, p=p: linalg.matrix_norm(x, ord=p), x)
        squares = square(2, 3, 3)
        close(linalg.cond(tensor(squares), p), [np.linalg.cond(s, p) for s in squares])
    for q in (0, 0.5, 1, 2, 3.5, -1, inf, -inf):
        close(linalg.vector_norm(x, q, dim=1), np.linalg.norm(a, q, 1))
        close(linalg.norm(x, q, dim=-1, keepdim=True), np.linalg.norm(a, q, -1, keepdims=True))
        close(linalg.vector_norm(x, q), np.linalg.norm(a.ravel(), q))
    close(linalg.norm(x), np.linalg.norm(a))
    close(linalg.norm(x[0], 2), np.linalg.norm(a[0], 2))
    assert linalg.vector_norm(tensor(-2.0)).item() == 2.0
    assert linalg.vector_norm(tensor(np.zeros((0, 3))), dim=0).tolist() == [0.0] * 3
    assert linalg.cond(tensor(np.ones((2, 2))), "fro").item() == inf
    zero = tensor(np.zeros((3, 3)), Train).require_grad()
    for f in (linalg.vector_norm, linalg.matrix_norm, linalg.norm):
        assert f(zero).backward()[zero].tolist() == np.zeros((3, 3)).tolist()
    orders: Any = ("fro", "nuc", 1, 2, inf)
    for p in orders:
        assert linalg.matrix_norm(zero[:0], ord=p).item() == linalg.matrix_norm(zero[:, :0], ord=p).item() == 0.0
    call: Any
    for call, error, said in (
        (lambda: linalg.norm(x, "fro"), ShapeError, "name the dims"),
        (lambda: linalg.norm(x, "fro", dim=0), ArgumentError, "'fro'; expected a number"),
        (lambda: linalg.matrix_norm(x, 3), ArgumentError, "ord=3"),
        (lambda: linalg.vector_norm(x[:0], inf), ShapeError, "no elements"),
        (lambda: linalg.cond(x, 1), ShapeError, "square"),
        *[
            (
                lambda p=p, empty=empty: linalg.matrix_norm(empty, p),
                ShapeError,
                rf"matrix_norm\(\) got ord={p} for empty",
            )
            for p, empty in ((-2, zero[:0]), (-inf, zero[:0]), (-1, zero[:, :0]))
        ],
    ):
        with pytest.raises(error, match=said):
            call()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matrices_of_many_rows_are_computed_as_small_ones(dtype: str) -> None:
    """By SciPy's LAPACK, where it is installed."""
    n, digits = 60, 2e-3 if dtype == "float32" else 1e-9
    a, p, b = square(2, n, n) / 8 + 8 * np.eye(n), positive(n, n) + n * np.eye(n), rng.normal(size=(2, n, 3))
    x, q, y = (tensor(m).to_dtype(dtype) for m in (a, p, b))

    def near(found: Any, wanted: Any) -> None:
        assert found.dtype == dtype
        np.testing.assert_allclose(found.to_numpy(), wanted, digits, digits)

    lower = np.tril(a)
    near(linalg.cholesky(q), np.linalg.cholesky(p))
    near(linalg.solve(x, y), np.linalg.solve(a, b))
    near(linalg.solve_triangular(x, y, upper=False), np.linalg.solve(lower, b))
    near(linalg.solve_triangular(x.mT, y, upper=True), np.linalg.solve(lower.swapaxes(1, 2), b))
    ones = np.where(np.eye(n) == 1, 1.0, lower) / 10 + 0.9 * np.eye(n)
    unit = linalg.solve_triangular(tensor(ones).to_dtype(dtype), y, upper=False, unitriangular=True)
    near(unit, np.linalg.solve(ones, b))
    near(linalg.inv(x), np.linalg.inv(a))
    near(linalg.det(x / 8.0), np.linalg.det(a / 8.0))
    for found, wanted in zip(linalg.slogdet(x), np.linalg.slogdet(a), strict=True):
        near(found, wanted)
    values, vectors = linalg.eigh(q)
    near(values / n, np.linalg.eigvalsh(p) / n)
    near((vectors * values) @ vectors.mT / n, p / n)
    for full in (False, True):
        u, s, vh = linalg.svd(x[:, :50], full_matrices=full)
        near((u * s.unsqueeze(-2)) @ vh[:, :50], a[:, :50])
    for mode in ("reduced", "complete"):
        q_, r = linalg.qr(x.mT[:, :, :50], mode=mode)
        near(q_ @ r, a.swapaxes(1, 2)[:, :, :50])
    perm, low, up = linalg.lu(x)
    near(perm @ low @ up, a)
    near(linalg.lu_solve(*linalg.lu_factor(x), y), np.linalg.solve(a, b))
    near(x.matrix_power(2), a @ a)
    singular = tensor(np.stack([np.eye(n), np.ones((n, n))])).to_dtype(dtype)
    failing: list[Callable[[Any], Any]] = [linalg.inv, linalg.cholesky, lambda x: linalg.solve(x, y)]
    for f in failing:
        with pytest.raises(LinAlgError, match="and matrix 1 is"):
            f(singular)
    assert linalg.slogdet(singular)[1].tolist() == [0.0, -np.inf]
    with pytest.raises(LinAlgError, match=r"svd.*contains NaN"):
        linalg.svd(x * float("nan"))
