"""`burnpy.func` beside torch.func: every transform, in each other, over outer variables, to third order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnpy.func
from burnpy import Autodiff, Tensor
from burnpy.autodiff import make_dual, unpack_dual
from burnpy.backend import NumPy
from tests.parity.closeness import assert_close
from tests.parity.programs import Ours, Program, Theirs, program

func: Any = burnpy.func  # as untyped as torch.func, with which it is exchanged
torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # its own

rng = np.random.default_rng(1)
X, Y, Z = (rng.normal(size=(4,)) for _ in range(3))
M = rng.normal(size=(3, 4))


def both(*arrays: Any) -> tuple[list[Any], list[Any]]:
    return [Tensor[NumPy].from_data(a, dtype="float64") for a in arrays], [torch.tensor(a) for a in arrays]


def f(x: Any, y: Any) -> Any:
    """A number, and not symmetric in anything."""
    return (x.sin() * y).sum() + (x * x * y.exp()).sum() * x[0]


def g(x: Any) -> Any:
    """A vector of another length."""
    return (x[:3].exp() * x[1:]).tanh() + x.sum()


def compare(ours: Any, theirs: Any) -> None:
    """Trees of tensors of the same structure."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs)
        for key in theirs:
            compare(ours[key], theirs[key])
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            compare(one, other)
    else:
        assert_close(ours, theirs)


def test_grad_by_one_and_by_several_arguments() -> None:
    ours, theirs = both(X, Y)
    compare(func.grad(f)(*ours), torch.func.grad(f)(*theirs))
    compare(func.grad(f, argnums=1)(*ours), torch.func.grad(f, argnums=1)(*theirs))
    compare(func.grad(f, argnums=(1, 0))(*ours), torch.func.grad(f, argnums=(1, 0))(*theirs))


def test_value_and_grad_with_aux() -> None:
    ours, theirs = both(X, Y)

    def with_aux(x: Any, y: Any) -> Any:
        return f(x, y), {"sum": x + y}

    gradient, (value, aux) = torch.func.grad_and_value(with_aux, has_aux=True)(*theirs)
    compare(func.value_and_grad(with_aux, has_aux=True)(*ours), ((value, aux), gradient))
    compare(func.grad(with_aux, has_aux=True)(*ours), torch.func.grad(with_aux, has_aux=True)(*theirs))


def test_trees() -> None:
    def loss(parameters: Any) -> Any:
        weights, (bias, scale) = parameters["w"], parameters["rest"]
        return ((weights * bias).sin() * scale[0]).sum()

    def tree(x: Any, y: Any, z: Any) -> Any:
        return {"w": x, "rest": (y, [z])}

    ours, theirs = both(X, Y, Z)
    compare(func.grad(loss)(tree(*ours)), torch.func.grad(loss)(tree(*theirs)))


def test_vjp() -> None:
    (x, v), (x_, v_) = both(X, Z[:3])
    out, pull = func.vjp(g, x)
    out_, pull_ = torch.func.vjp(g, x_)
    compare((out, pull(v)), (out_, pull_(v_)))
    compare(pull(out), pull_(out_))


def test_jvp() -> None:
    (x, y, v, w), (x_, y_, v_, w_) = both(X, Y, Z, X - Y)
    compare(func.jvp(f, (x, y), (v, w)), torch.func.jvp(f, (x_, y_), (v_, w_)))
    compare(func.jvp(g, (x,), (v,)), torch.func.jvp(g, (x_,), (v_,)))


def test_linearize() -> None:
    (x, v, w), (x_, v_, w_) = both(X, Y, Z)
    out, push = func.linearize(g, x)
    out_, push_ = torch.func.jvp(g, (x_,), (v_,))
    compare((out, push(v)), (out_, push_))
    compare(push(w), torch.func.jvp(g, (x_,), (w_,))[1])


def test_jacobians_and_hessians() -> None:
    (x, y), (x_, y_) = both(X, Y)
    compare(func.jacrev(g)(x), torch.func.jacrev(g)(x_))
    compare(func.jacfwd(g)(x), torch.func.jacfwd(g)(x_))
    for chunk_size in (1, 2, 8):
        compare(func.jacobian(g, chunk_size=chunk_size)(x), torch.func.jacrev(g)(x_))
    compare(func.jacobian(g, mode="forward")(x), torch.func.jacfwd(g)(x_))
    compare(func.hessian(f)(x, y), torch.func.hessian(f)(x_, y_))
    compare(func.hessian(f, argnums=(0, 1))(x, y), torch.func.hessian(f, argnums=(0, 1))(x_, y_))


def test_a_jacobian_of_a_matrix_by_a_matrix() -> None:
    (m,), (m_,) = both(M)
    compare(func.jacrev(lambda m: m @ m.T)(m), torch.func.jacrev(lambda m: m @ m.T)(m_))
    compare(func.jacfwd(lambda m: m.softmax(1))(m), torch.func.jacfwd(lambda m: m.softmax(1))(m_))


def test_hvp_and_vhp() -> None:
    (x, y, v, w), (x_, y_, v_, w_) = both(X, Y, Z, X - Y)
    compare(func.hvp(f, (x, y), (v, w)), torch.autograd.functional.hvp(f, (x_, y_), (v_, w_)))
    compare(func.vhp(f, (x, y), (v, w)), torch.autograd.functional.vhp(f, (x_, y_), (v_, w_)))


def test_autograd_functional() -> None:
    (x, y, v, w), (x_, y_, v_, w_) = both(X, Y, Z, X - Y)
    functional = torch.autograd.functional
    compare(func.jacobian(f, argnums=(0, 1))(x, y), functional.jacobian(f, (x_, y_)))
    compare(func.hessian(f, argnums=(0, 1))(x, y), functional.hessian(f, (x_, y_)))
    out, pull = func.vjp(lambda x, y: x * y.sin(), x, y)
    compare((out, pull(v)), functional.vjp(lambda x, y: x * y.sin(), (x_, y_), v_))
    compare(func.jvp(f, (x, y), (v, w)), functional.jvp(f, (x_, y_), (v_, w_)))


def _directional(library: Any, f: Any, v: Any) -> Any:
    """d/dε f(x + ε v), as a function of x: forward mode."""
    return lambda x: library.jvp(f, (x,), (v,))[1]


def _pulled(library: Any, f: Any, v: Any) -> Any:
    """The gradient of v · f(x), as a function of x: reverse mode."""
    return lambda x: library.vjp(f, x)[1](v)[0]


WAYS = {"f": _directional, "r": _pulled}


@pytest.mark.parametrize("ways", ["ff", "fr", "rf", "rr", "fff", "ffr", "frf", "rff", "rrf", "rfr", "frr", "rrr"])
def test_modes_in_each_other(ways: str) -> None:
    """Directional derivatives of directional derivatives, in every mixture of the modes, of second and third order."""
    (x, v), (x_, v_) = both(X, Y)

    def base(x: Any) -> Any:
        return x.sin() * x.flip(0).exp() + x * x.sum()

    ours, theirs = base, base
    for way in ways:
        ours, theirs = WAYS[way](func, ours, v), WAYS[way](torch.func, theirs, v_)
    assert_close(ours(x), theirs(x_))


@pytest.mark.parametrize("inner", ["grad", "jacfwd"])
@pytest.mark.parametrize("outer", ["grad", "jacfwd"])
def test_closures_over_an_outer_variable(outer: str, inner: str) -> None:
    """d/dx [x · d/dy (x · y)], where confusing the two gives x instead of 2 x; and one level more."""
    (x,), (x_,) = both(3.0)

    def confused(library: Any) -> Any:
        d, e = getattr(library, outer), getattr(library, inner)
        return lambda x: d(lambda x: x * e(lambda y: x * y)(x))(x)

    def deeper(library: Any) -> Any:
        d, e = getattr(library, outer), getattr(library, inner)
        return lambda x: d(lambda x: x * e(lambda y: y * d(lambda z: x * y * z * z)(y))(x))(x)

    assert confused(func)(x).item() == 6.0
    assert_close(confused(func)(x), confused(torch.func)(torch.tensor(3.0, dtype=torch.float64)))
    assert_close(deeper(func)(x), deeper(torch.func)(torch.tensor(3.0, dtype=torch.float64)))
    assert x_ is not None


def test_perturbations_of_outer_functions_that_meet_in_one_product() -> None:
    ours, theirs = both(X, Y)

    def nested(library: Any, x: Any, y: Any) -> Any:
        def inner(x: Any) -> Any:
            def innermost(y: Any) -> Any:
                return (x * y.sin() * library.grad(lambda z: (z * x * y).sum())(x)).sum()

            return library.jvp(innermost, (y,), (x,))[1]

        return library.grad(inner)(x)

    assert_close(nested(func, *ours), nested(torch.func, *theirs))


def test_a_gradient_through_a_jacobian() -> None:
    ours, theirs = both(X, Y)

    def volume(library: Any, x: Any) -> Any:
        return library.grad(lambda x: (library.jacrev(lambda x: x.sin() * x.sum())(x) ** 2).sum())(x)

    assert_close(volume(func, ours[0]), volume(torch.func, theirs[0]))

    def mixed(library: Any, x: Any) -> Any:
        return library.grad(lambda x: (library.jacfwd(g)(x) * library.jacrev(g)(x)).sum())(x)

    assert_close(mixed(func, ours[1]), mixed(torch.func, theirs[1]))


def test_the_weights_of_a_function_that_is_differentiated() -> None:
    """`burnpy.func` over tracked tensors: what it computes is recorded, as for a physics-informed network."""
    (x,), (x_,) = both(X)
    w = Tensor[Autodiff[NumPy]].from_data(Y).require_grad()
    w_ = torch.tensor(Y, requires_grad=True)
    lifted = Tensor[Autodiff[NumPy]].from_inner(x)
    slope = func.grad(lambda x: (x * w).tanh().sum())(lifted)
    curvature = func.grad(lambda x: func.grad(lambda x: (x * w).tanh().sum())(x).sum())(lifted)
    slope_ = torch.func.grad(lambda x: (x * w_).tanh().sum())(x_)
    curvature_ = torch.func.grad(lambda x: torch.func.grad(lambda x: (x * w_).tanh().sum())(x).sum())(x_)
    (slope_ * curvature_).sum().backward()
    assert_close((slope * curvature).sum().backward()[w], w_.grad)


def test_duals() -> None:
    (x, v), (x_, v_) = both(X, Y)
    with torch.autograd.forward_ad.dual_level():
        out_ = torch.autograd.forward_ad.unpack_dual(g(torch.autograd.forward_ad.make_dual(x_, v_)))
    out = unpack_dual(g(make_dual(x, v)))
    compare((out.primal, out.tangent), (out_.primal, out_.tangent))


@pytest.mark.parametrize("seed", range(100, 125))
def test_a_program_by_functions(seed: int) -> None:
    """Random programs: the gradient, and the Hessian times a vector by forward over reverse mode."""
    p = program(seed, 3 + seed % 6)
    ours, theirs = _run(p, Ours(NumPy.device()), NumPy), _run(p, Theirs(torch), None)
    xs, xs_ = tuple(Tensor[NumPy].from_data(a) for a in p.inputs), tuple(torch.tensor(a) for a in p.inputs)
    ds, ds_ = tuple(Tensor[NumPy].from_data(a) for a in p.directions), tuple(torch.tensor(a) for a in p.directions)
    numbers = tuple(range(len(xs)))
    compare(func.grad(ours, argnums=numbers)(*xs), torch.func.grad(theirs, argnums=numbers)(*xs_))
    _, expected = torch.autograd.functional.hvp(theirs, xs_, ds_)
    compare(func.hvp(ours, xs, ds)[1], expected)


def _run(p: Program, lib: Any, device: Any) -> Any:
    weights = torch.tensor(p.weights) if device is None else Tensor.from_data(p.weights, device=device)
    return lambda *inputs: p.run(lib, inputs, weights)
