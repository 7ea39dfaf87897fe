"""`ComplexTensor`: operations beside NumPy's, derivatives of all modes and orders, conventions, copies and mistakes."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, ComplexTensor, IntTensor, Tensor, func, nn
from burnpy.autodiff import Function, custom_jvp, custom_vjp, once_differentiable
from burnpy.backend import Checked, NumPy, Profiled
from burnpy.backend.errors import (
    ArgumentError,
    DTypeError,
    ImmutableError,
    KindError,
    ModuleError,
    ShapeError,
)
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

rng = np.random.default_rng(5)
Train = Autodiff[NumPy]


def numbers(*shape: int) -> Any:
    a, b = rng.uniform(0.5, 1.5, (2, *shape))
    return ComplexTensor[NumPy].from_data(a + 1j * b)


def close(found: Any, wanted: Any) -> None:
    found = found.to_numpy()
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, 1e-12, 1e-12)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "==": operator.eq,
    "!=": operator.ne,
}


@every_row("name", BINARY)
def test_operators_are_numpys(name: str) -> None:
    f, z, w = BINARY[name], numbers(2, 3), numbers(3)
    for left, right in ((z, w), (w, z), (z, z), (z, 2), (z, 1.5), (z, 1 - 2j), (2, z), (1.5, z), (1 - 2j, z)):
        a, b = (v.to_numpy() if hasattr(v, "to_numpy") else v for v in (left, right))
        close(f(left, right), np.asarray(f(a, b)))
    close(f(np.complex128(2.0 + 1j), z), np.asarray(f(np.complex128(2.0 + 1j), z.to_numpy())))


ANALYTIC = (
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt"),
)
NUMPYS = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
NUMPYS |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
INDEX = IntTensor[NumPy].from_data([1, 0, 1])
UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    **{name: (operator.methodcaller(name), getattr(np, NUMPYS.get(name, name))) for name in ANALYTIC},
    "neg": (operator.neg, operator.neg),
    "pos": (operator.pos, operator.pos),
    "abs": (abs, np.abs),
    "real": (lambda z: z.real, np.real),
    "imag": (lambda z: z.imag, np.imag),
    "angle": (lambda z: z.angle(), np.angle),
    "conj": (lambda z: z.conj(), np.conj),
    "square": (lambda z: z.square(), np.square),
    "reciprocal": (lambda z: z.reciprocal(), np.reciprocal),
    "rsqrt": (lambda z: z.rsqrt(), lambda z: 1 / np.sqrt(z)),
    "sgn": (lambda z: z.sgn(), lambda z: z / abs(z)),
    "cube": (lambda z: z**3, lambda z: z**3),
    "inverse square": (lambda z: z**-2, lambda z: z**-2.0),
    "power of 0": (lambda z: z**0, lambda z: z**0),
    "complex power": (lambda z: z ** (1 - 0.5j), lambda z: z ** (1 - 0.5j)),
    "power of a number": (lambda z: 2.0**z, lambda z: 2.0**z),
    "sum": (lambda z: z.sum(), np.sum),
    "sum of a dim": (lambda z: z.sum(1, keepdim=True), lambda z: z.sum(1, keepdims=True)),
    "mean": (lambda z: z.mean(0), lambda z: z.mean(0)),
    "prod": (lambda z: z.prod(1), lambda z: z.prod(1)),
    "cumsum": (lambda z: z.cumsum(1), lambda z: z.cumsum(1)),
    "cumprod": (lambda z: z.cumprod(1), lambda z: z.cumprod(1)),
    "norm": (lambda z: z.norm(), np.linalg.norm),
    "largest": (lambda z: z.norm(float("inf"), 1), lambda z: np.abs(z).max(1)),
    "var": (lambda z: z.var(1), lambda z: z.var(1, ddof=1)),
    "std": (lambda z: z.std(), lambda z: z.std(ddof=1)),
    "logcumsumexp": (lambda z: z.logcumsumexp(1), lambda z: np.log(np.exp(z).cumsum(1))),
    "ldexp": (lambda z: z.ldexp(z), lambda z: z * 2.0**z),
    "renorm": (lambda z: z.renorm(2.0, 0, 0.5), lambda z: z * 0.5 / (np.linalg.norm(z, axis=1, keepdims=True) + 1e-7)),
    "distances": (lambda z: burnpy.pairwise_distance(z, z[:1]), lambda z: np.linalg.norm(z - z[:1] + 1e-6, axis=1)),
    "triplets": (
        lambda z: nn.functional.triplet_margin_loss(z, z[[1, 0]], z * 1.1, p=1.0, eps=0.0),
        lambda z: np.mean(np.maximum(1.0 + np.abs(z - z[::-1]).sum(1) - 0.1 * np.abs(z).sum(1), 0.0)),
    ),
    "isfinite": (lambda z: z.isfinite(), np.isfinite),
    "all": (lambda z: z.all(1), lambda z: z.all(1)),
    "flip": (lambda z: z.flip(0, 1), lambda z: z[::-1, ::-1]),
    "roll": (lambda z: z.roll(1, 1), lambda z: np.roll(z, 1, 1)),
    "index": (lambda z: z[1, ::2], lambda z: z[1, ::2]),
    "mask": (lambda z: z[z.real > 1.0], lambda z: z[z.real > 1.0]),
    "select": (lambda z: z.index_select(0, INDEX), lambda z: z[[1, 0, 1]]),
    "set": (lambda z: z.at[0, 1:].set(2j), lambda z: np.array([[z[0, 0], 2j, 2j], z[1]])),
    "add at": (lambda z: z.at[INDEX].add(z[0]), lambda z: np.array([z[0] + z[0], z[1] + 2 * z[0]])),
    "fill": (lambda z: z.masked_fill(z.real > 9.0, 1j), lambda z: z),
    "where": (lambda z: burnpy.where(z.real > 1.0, z, 1j), lambda z: np.where(z.real > 1.0, z, 1j)),
    "diagonal": (lambda z: z.diagonal(), np.diagonal),
    "trace": (lambda z: z[:, :2].trace(), lambda z: np.trace(z[:, :2])),
    "tril": (lambda z: z.tril(), np.tril),
    "diff": (lambda z: z.diff(), np.diff),
    "reshape": (lambda z: z.reshape(3, 2), lambda z: z.reshape(3, 2)),
    "permute": (lambda z: z.permute(1, 0), np.transpose),
    "mH": (lambda z: z.mH, lambda z: z.conj().T),
    "expand": (lambda z: z[:, :1].expand(2, 4), lambda z: np.broadcast_to(z[:, :1], (2, 4))),
    "repeat": (lambda z: z.repeat(2, 1), lambda z: np.tile(z, (2, 1))),
    "cat": (lambda z: burnpy.cat([z, z], 1), lambda z: np.concatenate([z, z], 1)),
    "stack": (lambda z: burnpy.stack([z, z], -1), lambda z: np.stack([z, z], -1)),
    "matrix product": (lambda z: z @ z.mT, lambda z: z @ z.T),
    "products of batches": (lambda z: z[:, None] @ z[:, :, None], lambda z: z[:, None] @ z[:, :, None]),
    "einsum": (lambda z: burnpy.einsum("ij,kj->ik", z, z), lambda z: z @ z.T),
    "outer": (lambda z: z[0].outer(z[1]), lambda z: np.outer(z[0], z[1])),
    "kron": (lambda z: z.kron(z), lambda z: np.kron(z, z)),
    "parts": (burnpy.view_as_real, lambda z: np.stack([z.real, z.imag], -1)),
    "of parts": (lambda z: burnpy.view_as_complex(burnpy.view_as_real(z)), lambda z: z),
    "polar": (lambda z: burnpy.polar(z.abs(), z.angle()), lambda z: z),
    "cast": (
        lambda z: z.to_dtype("complex64").to_dtype("complex128").real.round(decimals=3),
        lambda z: z.real.round(3),
    ),
    "of floats": (lambda z: z.real.complex(), lambda z: z.real + 0j),
    "device": (lambda z: z.to_device(NumPy), lambda z: z),
}


@every_row("name", UNARY)
def test_functions_are_numpys(name: str) -> None:
    f, g = UNARY[name]
    z = numbers(2, 3)
    close(f(z), np.asarray(g(z.to_numpy())))


CONSTANT = {"isfinite", "all", "mask", "power of 0", "cast", "device"}


@pytest.mark.slow
@every_row("name", [name for name in UNARY if name not in CONSTANT])
def test_derivatives(name: str) -> None:
    gradcheck(UNARY[name][0], numbers(2, 3))
    gradgradcheck(UNARY[name][0], numbers(2, 3), fast_mode=True)


@every_row("name", ("+", "-", "*", "/", "**"))
def test_derivatives_of_operators(name: str) -> None:
    gradcheck(BINARY[name], (numbers(2, 1), numbers(3)))
    gradgradcheck(BINARY[name], (numbers(2, 1), numbers(3)), fast_mode=True)


def loss(z: Any) -> Any:
    """A real function of complex numbers, neither holomorphic nor even."""
    return (z * z.exp() + z.conj() * (0.5 + 1j)).abs().square().sum() + (z.angle() * z.real).sum()


def slopes(f: Callable[[Any], Any], z: Any) -> Any:
    """∂f/∂Re + i ∂f/∂Im by differences."""
    values, step = z.to_numpy(), 1e-6
    out = np.zeros_like(values)
    for place in np.ndindex(values.shape):
        for unit in (1.0, 1j):
            move = np.zeros_like(values)
            move[place] = unit * step
            ends = [f(ComplexTensor[NumPy].from_data(values + sign * move)).item() for sign in (1, -1)]
            out[place] += unit * (ends[0] - ends[1]) / (2 * step)
    return out


def test_gradients_are_those_by_both_parts() -> None:
    """Every way to a gradient gives ∂L/∂Re + i ∂L/∂Im."""
    z = numbers(3)
    wanted = slopes(loss, z)
    leaf = ComplexTensor.from_inner(z).require_grad()
    kept = (leaf * 1.0).retain_grad()
    hooked, _ = leaf.register_hook(lambda g: g * 1j)
    found = {
        "backward": loss(leaf).backward()[leaf],
        "retained": loss(kept).backward()[kept],
        "hooked": loss(hooked).backward()[leaf] / 1j,
        "autodiff.grad": burnpy.autodiff.grad(loss(leaf), leaf)[0],
        "func.grad": func.grad(loss)(z),
        "vjp": func.vjp(loss, z)[1](Tensor[NumPy].from_data(np.array(1.0)))[0],
        "jacrev": func.jacrev(loss)(z),
        "compiled": burnpy.compiled(func.grad(loss))(z),
        "checkpoint": func.grad(lambda z: burnpy.autodiff.checkpoint(loss, z))(z),
        "by parts": burnpy.complex(
            *func.grad(lambda a, b: loss(burnpy.complex(a, b)), (0, 1))(z.real, z.imag)
        ),
        "vmap": func.vmap(func.grad(loss))(z),
        "Checked": func.grad(loss)(z.to_device(Checked[NumPy])).to_device(NumPy),
    }  # fmt: skip
    for name, gradient in found.items():
        assert type(gradient) is ComplexTensor, name
        np.testing.assert_allclose(gradient.to_numpy(), wanted, rtol=1e-6, atol=1e-8, err_msg=name)
    seen: list[Any] = []
    loss(leaf).backward(on_ready=lambda x, g: seen.append(g))
    np.testing.assert_allclose(seen[0].to_numpy(), wanted, rtol=1e-6)


def test_second_derivatives_are_gradients_of_gradients() -> None:
    z = numbers(2)

    def size(z: Any) -> Any:
        return func.grad(loss)(z).abs().sum()

    np.testing.assert_allclose(func.grad(size)(z).to_numpy(), slopes(size, z), rtol=1e-5, atol=1e-6)
    tangent = func.jvp(func.grad(loss), z, z.conj())[1].to_numpy()
    ends = [func.grad(loss)(z + z.conj() * step).to_numpy() for step in (1e-6, -1e-6)]
    np.testing.assert_allclose(tangent, (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-6)


def test_a_vjp_starts_from_a_users_gradient() -> None:
    """The pairing of the cotangent w and z is Re(conj(w) z), as in PyTorch."""
    z, w = numbers(3), numbers(3)
    wanted = slopes(lambda z: (w.conj() * z.square().exp()).real.sum(), z)
    found = func.vjp(lambda z: z.square().exp(), z)[1](w)[0]
    np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-6)
    leaf = ComplexTensor.from_inner(z).require_grad()
    grads = burnpy.autodiff.backward(leaf.square().exp(), w)
    np.testing.assert_allclose(grads[leaf].to_numpy(), wanted, rtol=1e-6)


def test_magnitudes_and_angles_at_0_have_no_gradient() -> None:
    zero = ComplexTensor[NumPy].from_data(np.zeros(2, complex))
    for f in (lambda z: z.abs().sum(), lambda z: z.angle().sum(), lambda z: z.norm(), lambda z: z.sgn().real.sum()):
        assert func.grad(f)(zero).tolist() == [0j, 0j]
        assert func.grad(lambda z, f=f: func.grad(f)(z).real.sum())(zero).isfinite().all().item()


def test_norms_have_second_derivatives_where_some_numbers_are_0() -> None:
    """As those of the parts: a norm has them beside a 0, whose magnitude has none."""
    parts = Tensor[NumPy].from_data(np.array([[0.0, 0.0], [3.0, 0.0], [1.0, 2.0]]))
    for of_complex, of_parts in (
        (lambda z: z.norm(), lambda x: x.norm()),
        (lambda z: burnpy.linalg.vector_norm(z), lambda x: x.norm()),
        (lambda z: z.std(), lambda x: (x - x.mean(0)).norm() / 2**0.5),
        (lambda z: z.real.complex().std(), lambda x: x[:, 0].std()),
    ):
        found, wanted = func.hessian(lambda x, f=of_complex: f(burnpy.view_as_complex(x))), func.hessian(of_parts)
        np.testing.assert_allclose(found(parts).to_numpy(), wanted(parts).to_numpy(), atol=1e-12)


def test_evenly_spaced_numbers_and_sums_of_exponentials() -> None:
    z = ComplexTensor[NumPy].linspace(1j, 3, 3, dtype="complex128")
    assert z.tolist() == [1j, 1.5 + 0.5j, 3]
    big = ComplexTensor[NumPy].from_data(np.array([0j, 1000 + 3j, 1000]))
    close(big.logcumsumexp(0), np.array([0j, 1000 + 3j, 1000 + np.log(np.exp(3j) + 1)]))
    close(big.logcumsumexp(0)[-1], big.logsumexp(0).to_numpy())


def test_extreme_numbers() -> None:
    for size in (1e-300, 1e300):
        z = ComplexTensor[NumPy].from_data(np.array([3 + 4j]) * size)
        np.testing.assert_allclose((z / z).to_numpy(), [1.0], rtol=1e-14)
        np.testing.assert_allclose(abs(z).to_numpy(), [5 * size], rtol=1e-14)
    infinite = ComplexTensor[NumPy].from_data([complex("inf"), complex(1, float("nan")), 1j])
    assert infinite.isinf().tolist() == [True, False, False]
    assert infinite.isnan().tolist() == [False, True, False]
    assert ComplexTensor[NumPy].from_data([complex(float("inf"), 1), 1j]).sum().item() == complex(float("inf"), 2)
    assert (ComplexTensor[NumPy].from_data(0j) ** 0.0).item() == 1


@every_row("name", ["asin", "acos", "asinh", "acosh", "atan", "atanh"])
def test_slopes_of_large_numbers_do_not_overflow(name: str) -> None:
    def slope(scale: float) -> Any:
        z = ComplexTensor[Train].from_data(np.array([3 + 4j, 3 - 4j, -3 + 4j, -3 - 4j]) * scale).require_grad()
        return z.grad(getattr(z, name)().real.sum().backward()).to_numpy()

    degree = 2 if name in ("atan", "atanh") else 1
    np.testing.assert_allclose(slope(2.0**520), slope(2.0**320) * 2.0 ** (-200 * degree), 1e-9, 1e-320)


def test_signs_of_the_smallest_numbers() -> None:
    z = ComplexTensor[NumPy].from_data(np.array([1e-320, 1e-320j, -1e-310j, 0.0]))
    assert z.sgn().tolist() == [1.0, 1j, -1j, 0.0]


def test_profiled_operations_are_those_of_floats() -> None:
    with Profiled.record(lines=False) as profile:
        z = ComplexTensor[Profiled[NumPy]].from_data([1j, 2.0])
        (z * z).exp().abs().sum().item()
    assert {"mul", "exp", "complex_abs", "sum"} <= {row.operation for row in profile.rows()}


def test_protocols() -> None:
    z = ComplexTensor[NumPy].from_data([[1 + 2j, 3], [4, 5j]])
    assert z.tolist() == [[1 + 2j, 3], [4, 5j]]
    assert (len(z), z.ndim, z.numel(), z.shape, z.dtype) == (2, 2, 4, (2, 2), burnpy.complex64)
    assert [row.tolist() for row in z] == z.tolist()
    assert complex(z[0, 0]) == z[0, 0].item() == 1 + 2j
    assert bool(z[1, 1])
    assert z.allclose(z + 1e-9)
    for other in (copy.copy(z), copy.deepcopy(z), pickle.loads(pickle.dumps(z)), ComplexTensor[NumPy].from_dlpack(z)):
        assert type(other) is ComplexTensor
        assert bool((other == z).all())
    tracked = ComplexTensor[Train].from_data([1j]).require_grad()
    assert pickle.loads(pickle.dumps(tracked)).is_require_grad()
    assert repr(tracked).endswith("dtype=complex64, device=Autodiff[NumPy], tracked)")
    assert tracked.inner().device is NumPy()
    assert ComplexTensor.from_data(2, device=Train).device is Train.device()
    for given, dtype in ((np.zeros(2), "complex128"), (np.zeros(2, "f4"), "complex64"), ([1, 2], "complex64")):
        assert ComplexTensor[NumPy].from_data(given).dtype == dtype
    assert ComplexTensor[NumPy].from_data([1, 2], dtype="complex128").tolist() == [1, 2]
    assert ComplexTensor[NumPy].full((2,), 1j).tolist() == [1j, 1j]
    assert ComplexTensor[NumPy].eye(2).tolist() == [[1, 0], [0, 1]]
    assert np.asarray(z).dtype == np.complex64
    mixed = burnpy.complex(z.real, z.imag.double())
    assert mixed.dtype == "complex128"
    assert burnpy.complex(z.real.half()).dtype == "complex64"
    assert hash(z) != hash(z[0])


Z: Any = ComplexTensor[NumPy].from_data([1j, 2.0])
X: Any = Tensor[NumPy].from_data([1.0, 2.0])
CLASS: Any = ComplexTensor
ON_GRAPH: Any = ComplexTensor[Train].from_data([1j])
INTS: Any = IntTensor[NumPy].from_data([1, 2])


class Holder(nn.Module[Any]):
    def __init__(self) -> None:
        self.z = Z


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "floats": (lambda: Z + X, KindError, r"kinds do not mix.*convert the Tensor with .complex\(\)"),
    "floats left": (lambda: X * Z, KindError, r"kinds do not mix.*convert the Tensor with .complex\(\)"),
    "ints": (lambda: Z + INTS, KindError, r"convert the IntTensor with .complex\(\)"),
    "a complex number": (lambda: X + 1j, KindError, r"the complex 1j.*x.complex\(\)"),
    "a complex power": (lambda: X.float_power(Z), KindError, "takes floats and ints, got.*ComplexTensor"),
    "a vector's mH": (lambda: Z.mH, ShapeError, "has fewer"),
    "a loss": (lambda: ON_GRAPH.backward(), AttributeError, r"no backward.*z.real.*z.abs"),
    "a gradient": (lambda: func.grad(lambda z: z.sum())(Z), KindError, r"real loss.*\.real or \.abs\(\)"),
    "backward": (
        lambda: burnpy.autodiff.backward(ComplexTensor[Train].from_data(1j).require_grad()),
        KindError,
        r"not a loss: differentiate z.real or z.abs\(\)",
    ),
    "parts": (lambda: burnpy.complex(INTS, INTS), KindError, r"an IntTensor; convert it with x.float\(\)"),
    "complex parts": (lambda: burnpy.complex(Z, Z), KindError, "takes parts as a float Tensor, got a ComplexTensor"),
    "a complex angle": (lambda: burnpy.polar(X, Z), KindError, "takes parts as a float Tensor"),
    "a parameter of draws": (lambda: Tensor[NumPy].gamma((2,), Z), KindError, "got concentration=a ComplexTensor"),
    "a sorted sequence": (lambda: burnpy.searchsorted(Z, Z), KindError, "searches in a Tensor or an IntTensor"),
    "a mask": (
        lambda: nn.functional.scaled_dot_product_attention(X[None], X[None], X[None], mask=Z[:1, None]),
        ArgumentError,
        "takes as mask a BoolTensor",
    ),
    "shapes": (lambda: burnpy.complex(X, X[:1]), ShapeError, r"real part of shape \(2,\).*shape \(1,\).*expand"),
    "a call": (lambda: CLASS(X, X), KindError, r"burnpy.complex\(real, imag\)"),
    "text": (lambda: ComplexTensor[NumPy].from_data("a"), ArgumentError, "expected numbers"),
    "a float dtype": (lambda: ComplexTensor[NumPy].from_data([1j], dtype="float32"), DTypeError, "use Tensor"),
    "a complex dtype": (lambda: Tensor[NumPy].from_data([1.0], dtype="complex64"), DTypeError, "use ComplexTensor"),
    "complex data": (lambda: Tensor[NumPy].from_data([1j]), DTypeError, "use ComplexTensor, or take its .real"),
    "an array": (lambda: Z + np.ones(2), KindError, "make a tensor of it first"),
    "a ufunc": (lambda: np.exp(Z), KindError, r"write x.exp\(\)"),
    "maximum": (lambda: Z.maximum(Z), AttributeError, "complex numbers have no maximum"),
    "less": (lambda: Z < Z, TypeError, "no order.*compare z.abs"),
    "to float": (lambda: Z.float(), AttributeError, r"take z.real, z.imag, z.abs\(\)"),
    "of floats": (lambda: X.conj(), AttributeError, r"convert it first: x.complex\(\).conj\(\)"),
    "matmul": (lambda: Z @ 2, KindError, r"x \* 2"),
    "broadcast": (lambda: Z + numbers(3), ShapeError, "do not broadcast"),
    "an index": (lambda: X[Z], KindError, r"ComplexTensor of dtype .*indices are ints: x\[z.real.int\(\)\]"),
    "an index of an update": (lambda: X.at[Z].set(1.0), KindError, "indices are ints"),
    "truth": (lambda: bool(Z), ShapeError, "ambiguous"),
    "float": (lambda: float(Z[0]), KindError, "z.abs"),
    "item": (lambda: Z.item(), ShapeError, "one element"),
    "assignment": (lambda: operator.setitem(Z, 0, 1), ImmutableError, "immutable"),
    "last dim": (lambda: burnpy.view_as_complex(X.expand(3, 2).mT), ShapeError, "size 2, got shape"),
    "no complex": (lambda: burnpy.view_as_real(X), KindError, "takes a ComplexTensor"),
    "a parameter": (lambda: nn.Param(Z), KindError, r"write ComplexParam\("),
    "a layer": (lambda: nn.functional.elu(Z), KindError, r"take z.real, z.imag or z.abs\(\)"),
    "a module": (lambda: Holder(), ModuleError, r"bare ComplexTensor.*ComplexParam\(z\)"),
    "a wrong name": (lambda: Z.sum(axis=0), TypeError, "it is called dim"),
}


@every_row("name", MISTAKES)
def test_mistakes_get_a_sentence(name: str) -> None:
    f, error, message = MISTAKES[name]
    with pytest.raises(error, match=message):
        f()


class Times(Function):
    """A product whose gradients are written in the convention of users."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        return grad * y.conj(), grad * x.conj()

    @staticmethod
    def jvp(ctx: Any, t: Any, s: Any) -> Any:
        x, y = ctx.saved_tensors
        return t * y + x * s


class TimesOnce(Times):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        return Times.backward(ctx, grad)


@custom_vjp
def times(x: Any, y: Any) -> Any:
    return x * y


times.defvjp(lambda x, y: (x * y, (x, y)), lambda saved, g: (g * saved[1].conj(), g * saved[0].conj()))


@custom_jvp
def turned(x: Any) -> Any:
    return x.conj()


turned.defjvp(lambda primals, tangents: (primals[0].conj(), tangents[0].conj()))


def test_custom_derivatives_are_in_the_convention_of_users() -> None:
    z, w = numbers(3), numbers(3)
    wanted = func.grad(lambda z, w: loss(z * w), (0, 1))(z, w)
    for f in (Times.apply, TimesOnce.apply, times):
        for found, right in zip(func.grad(lambda z, w, f=f: loss(f(z, w)), (0, 1))(z, w), wanted, strict=True):
            close(found, right.to_numpy())
    for f in (Times.apply, times):
        gradcheck(lambda z, w, f=f: f(z, w), (z, w), check_forward_ad=f is not times)
        gradgradcheck(lambda z, w, f=f: f(z, w), (z, w))
    gradcheck(lambda z: turned(z) * z, z)
    gradgradcheck(lambda z: turned(z) * z, z)
    batched = func.vmap(func.grad(lambda z, w: loss(times(z, w))))(numbers(2, 3), numbers(2, 3))
    assert batched.shape == (2, 3)


@pytest.mark.parametrize(("dtype", "rtol"), [("complex64", 1e-6), ("complex128", 1e-14)])
def test_sinc_and_log1p_next_to_0(dtype: str, rtol: float) -> None:
    """Their values, and first and second derivatives, do not depend on 1 + z or on differences next to 1."""
    for number in (1e-15 + 0j, 1e-9 - 2e-9j, 3e-5j, -1e-4 + 1e-4j, 0.3 - 0.2j, 0j, 0.6 + 0.1j):
        z = ComplexTensor[NumPy].from_data(np.array(number, dtype))
        at = mpmath.mpc(z.item())
        with mpmath.workdps(60):
            parts = [(-1) ** k * (mpmath.pi * at) ** (2 * k) / mpmath.factorial(2 * k + 1) for k in range(40)]
            slopes = [2 * k * part / at for k, part in enumerate(parts)] if at else [mpmath.mpf(0)]
            sinc, slope = complex(sum(parts)), complex(sum(slopes))
            logarithm = complex(mpmath.log(1 + at))
        assert abs(z.sinc().item() - sinc) <= rtol * abs(sinc)
        found = func.grad(lambda z: z.sinc().real)(z)
        assert abs(found.item() - slope.conjugate()) <= 8 * rtol * abs(slope)
        assert abs(z.log1p().item() - logarithm) <= rtol * abs(logarithm)
        inverse = 1 / (1 + z.item())
        assert abs(func.grad(lambda z: z.log1p().real)(z).item() - inverse.conjugate()) <= rtol
        tangent = func.jvp(lambda z: func.jvp(lambda z: z.log1p(), (z,), (z.ones_like(),))[1], (z,), (z.ones_like(),))
        assert abs(tangent[1].item() + inverse**2) <= 4 * rtol


def test_ldexp_by_numbers_whose_power_overflows() -> None:
    z: Any = ComplexTensor[NumPy].from_data([1e-300j], dtype="complex128")
    assert z.ldexp(2000).tolist() == [1e-300 * 2.0**1000 * 2.0**1000 * 1j]
    assert z.ldexp(1e300).imag.tolist() == [math.inf]
    assert z.ldexp(2000 + 1j).isnan().all().item()
    assert z.addcdiv(2, 0).isfinite().any().item() is False
