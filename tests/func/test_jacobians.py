"""Jacobians: both modes, chunks, structures, and derivatives of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from burnpy import Tensor, manual_seed
from burnpy.autodiff import Context, Function, custom_vjp
from burnpy.backend import NumPy, errors
from burnpy.func import grad, hessian, hvp, jacfwd, jacobian, jacrev, jvp
from burnpy.nn.functional import dropout
from tests.rows import every_row

rng = np.random.default_rng(0)


def x64(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


def f(x: Any, w: Any) -> Any:
    return (x @ w).sin()


def by_hand(a: Any, w: Any) -> tuple[Any, Any]:
    """d sin(a w)[i, j] / d a[k, l] and / d w[k, l]."""
    c = np.cos(a @ w)
    n, m = c.shape
    by_a = np.einsum("ij,ik,lj->ijkl", c, np.eye(n), w)
    by_w = np.einsum("ij,ik,lj->ijkl", c, a, np.eye(m))
    return by_a, by_w


@every_row("chunk_size", [None, 1, 4, 100])
@every_row("mode", ["reverse", "forward"])
def test_matrices_by_matrices(mode: Any, chunk_size: int | None) -> None:
    a, w = rng.normal(size=(2, 3)), rng.normal(size=(3, 4))
    by_a, by_w = by_hand(a, w)
    x, y = x64(a), x64(w)
    np.testing.assert_allclose(jacobian(f, mode=mode, chunk_size=chunk_size)(x, y).to_numpy(), by_a, atol=1e-14)
    found = jacobian(f, (0, 1), mode=mode, chunk_size=chunk_size)(x, y)
    assert isinstance(found, tuple)
    np.testing.assert_allclose(found[0].to_numpy(), by_a, atol=1e-14)
    np.testing.assert_allclose(found[1].to_numpy(), by_w, atol=1e-14)
    with pytest.raises(ValueError, match="read-only"):
        found[0].to_numpy()[0] = 0.0


@pytest.mark.parametrize("jac", [jacrev, jacfwd])
def test_trees_of_outputs_around_trees_of_inputs(jac: Any) -> None:
    x, y = x64([1.0, 2.0]), x64(3.0)
    found = jac(lambda t: {"p": t["a"] * t["b"], "q": (t["b"] * 2,)})({"a": x, "b": y})
    assert found["p"]["a"].tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert found["p"]["b"].tolist() == [1.0, 2.0]
    assert found["q"][0]["a"].tolist() == [0.0, 0.0]
    assert found["q"][0]["b"].item() == 2.0
    several = jac(lambda x, y: [x * y, y], (1, 0))(x, y)
    assert [[block.shape for block in row] for row in several] == [[(2,), (2, 2)], [(), (2,)]]
    blocks = hessian(lambda x, y: (x * x * y).sum(), (0, 1))(x, y)
    assert blocks[0][0].tolist() == [[6.0, 0.0], [0.0, 6.0]]
    assert blocks[0][1].tolist() == blocks[1][0].tolist() == [2.0, 4.0]
    assert blocks[1][1].item() == 0.0


@pytest.mark.parametrize("chunk_size", [None, 2])
@pytest.mark.parametrize("jac", [jacrev, jacfwd])
def test_a_jacobian_can_be_differentiated(jac: Any, chunk_size: int | None) -> None:
    a, v = rng.normal(size=3), rng.normal(size=3)
    x, t = x64(a), x64(v)

    def trace(x: Any) -> Any:
        j = jac(lambda y: y.sin() * x, chunk_size=chunk_size)(x)  # diag(cos x · x)
        return (j * j).sum()

    slope = 2 * np.cos(a) * a * (np.cos(a) - a * np.sin(a))
    np.testing.assert_allclose(grad(trace)(x).to_numpy(), slope, rtol=1e-12)
    assert jvp(trace, (x,), (t,))[1].item() == pytest.approx(slope @ v, rel=1e-12)


def test_the_function_runs_once_in_reverse_mode_and_once_a_chunk_in_forward_mode() -> None:
    calls: list[Any] = []

    def f(x: Any) -> Any:
        calls.append(x)
        return x.sin()

    x = x64(rng.normal(size=5))
    np.testing.assert_array_equal(jacrev(f)(x).to_numpy(), jacfwd(f)(x).to_numpy())
    assert len(calls) == 1 + 1
    jacfwd(f, chunk_size=2)(x)
    assert len(calls) == 1 + 1 + 3


MODES = ("forward-over-reverse", "reverse-over-reverse", "forward-over-forward", "reverse-over-forward")


@pytest.mark.parametrize("mode", MODES)
def test_modes_of_the_hessian(mode: Any) -> None:
    x, y = x64([1.0, 2.0]), x64([3.0, 4.0])
    blocks = hessian(lambda x, y: {"s": (x * x * y).sum()}, (0, 1), mode=mode)(x, y)
    found: Any = [[block.tolist() for block in row] for row in blocks["s"]]
    assert found == [[[[6.0, 0.0], [0.0, 8.0]], [[2.0, 0.0], [0.0, 4.0]]], [[[2.0, 0.0], [0.0, 4.0]], [[0.0] * 2] * 2]]


class Cube(Function):
    @staticmethod
    def forward(ctx: Context, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Context, grad: Any) -> Any:
        return grad * ctx.saved_tensors[0].square() * 3.0


@custom_vjp
def cube(x: Any) -> Any:
    return x * x * x


cube.defvjp(lambda x: (cube(x), x), lambda x, grad: (grad * x * x * 3.0,))
IN_REVERSE: list[tuple[str, Any, str]] = [
    ("hessian", lambda f, x: hessian(f)(x), 'hessian(f, mode="reverse-over-reverse")'),
    ("hvp", lambda f, x: hvp(f, x, x), "vhp()"),
    ("jacobian", lambda f, x: jacobian(f, mode="forward")(x), 'jacobian(f, mode="reverse")'),
    ("jacfwd", lambda f, x: jacfwd(f)(x), "jacrev()"),
    ("jvp", lambda f, x: jvp(f, x, x), "vjp()"),
]


@every_row("f", [Cube.apply, cube], ids=["Function", "custom_vjp"])
@every_row("api, call, instead", IN_REVERSE, ids=[row[0] for row in IN_REVERSE])
def test_what_has_no_forward_rule_is_told_what_needs_none(api: str, call: Any, instead: str, f: Any) -> None:
    x = x64([1.0, 2.0])
    assert hessian(lambda x: f(x).sum(), mode="reverse-over-reverse")(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    with pytest.raises(errors.NotTrackedError, match=re.escape(f", or use {instead}, which needs none")):
        call(lambda x: f(x).sum(), x)


def test_a_hessian_of_several_outputs() -> None:
    a = rng.normal(size=3)
    found = hessian(lambda x: x**3)(x64(a))
    want = np.zeros((3, 3, 3))
    want[range(3), range(3), range(3)] = 6 * a
    np.testing.assert_allclose(found.to_numpy(), want, rtol=1e-13)


class Read(Function):
    """A rule that reads values, as one does that calls another library."""

    @staticmethod
    def forward(ctx: Context, x: Tensor[Any]) -> Tensor[Any]:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Context, grad: Tensor[Any]) -> Tensor[Any]:
        (x,) = ctx.saved_tensors
        return Tensor.from_data(grad.to_numpy() * np.cos(x.to_numpy()), device=grad.device)


def test_a_rule_that_reads_values_takes_rows_one_by_one() -> None:
    x = x64([1.0, 2.0])
    with pytest.raises(errors.BatchedError, match=r"under jacrev\(\).*chunk_size=1"):
        jacrev(Read.apply)(x)
    np.testing.assert_allclose(jacrev(Read.apply, chunk_size=1)(x).to_numpy(), np.diag(np.cos([1.0, 2.0])))


def test_a_function_may_read_what_it_is_differentiated_at() -> None:
    def branch(x: Any) -> Any:
        return x.sin() if x.sum().item() > 0.0 else x.cos()

    x = x64([1.0, 2.0])
    for jac in (jacrev, jacfwd):
        np.testing.assert_allclose(jac(branch)(x).to_numpy(), np.diag(np.cos([1.0, 2.0])))
    assert hessian(lambda x: branch(x).sum())(x).shape == (2, 2)


@pytest.mark.parametrize("jac", [jacrev, jacfwd])
def test_chunks_that_fit_into_memory(jac: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, whole = x64(rng.normal(size=7)), jac(lambda x: x.sin() * x[0])
    expected = whole(x).to_numpy()
    for memory in (1, 200, 1000):
        monkeypatch.setattr("burnpy.func.jacobians.MEMORY", memory)
        np.testing.assert_allclose(whole(x).to_numpy(), expected, rtol=1e-14)


def test_columns_draw_the_same_numbers() -> None:
    x = Tensor[NumPy].ones((6,))
    for size in (None, 4):
        columns = jacfwd(lambda x: dropout(x, 0.5), chunk_size=size)(x).to_numpy()
        assert set(np.diagonal(columns).tolist()) <= {0.0, 2.0}
        assert np.count_nonzero(columns - np.diag(np.diagonal(columns))) == 0


@every_row("shapes", [((1,), (3,)), ((3,), (1,)), ((3,), ())])
@every_row("chunk_size", [None, 1, 2])
def test_all_columns_are_of_the_same_draws(shapes: Any, chunk_size: int | None) -> None:
    x, y = [Tensor[NumPy].ones(shape) for shape in shapes]

    def noisy(x: Any, y: Any) -> Any:
        return (x.normal_like() + 2.0) * x + (y.normal_like() * y).sum()

    found = []
    for of in (jacrev, jacfwd):
        manual_seed(3)
        found.append([block.tolist() for block in of(noisy, (0, 1), chunk_size=chunk_size)(x, y)])
        found[-1].append(Tensor[NumPy].uniform(()).item())  # the generators stand where one call leaves them
    assert found[0] == found[1]
