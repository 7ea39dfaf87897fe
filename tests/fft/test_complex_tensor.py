"""`ComplexTensor`: arithmetic beside NumPy's complex numbers, derivatives by the parts, copies, mistakes."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, cat, func, stack, where
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, DTypeError, ImmutableError, KindError, ShapeError
from burnpy.fft import ComplexTensor, polar, view_as_complex, view_as_real
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

rng = np.random.default_rng(5)
Train = Autodiff[NumPy]


def parts(*shape: int) -> tuple[Any, Any]:
    a, b = rng.uniform(0.5, 1.5, (2, *shape))
    return Tensor[NumPy].from_data(a), Tensor[NumPy].from_data(b)


def number(*shape: int) -> Any:
    return ComplexTensor(*parts(*shape))


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


def test_numpy_reads_the_numbers() -> None:
    z = number(2, 3)
    assert np.asarray(z).dtype == np.complex128
    np.testing.assert_array_equal(np.asarray(z), z.to_numpy())
    assert np.asarray(z, np.complex64).dtype == np.complex64
    with pytest.raises(ArgumentError, match="takes a copy"):
        np.asarray(z, copy=False)


def test_what_complex_tensors_lack_names_the_parts() -> None:
    z = number(2)
    calls: list[Callable[[], Any]] = [
        lambda: z.sinh(),
        lambda: cat([z, z]),
        lambda: stack([z]),
        lambda: where(z.real > 1.0, z, z),
    ]
    for call in calls:
        with pytest.raises((AttributeError, ArgumentError, KindError), match="real"):
            call()


@every_row("name", BINARY)
def test_operators_are_numpys(name: str) -> None:
    f, z, w, x = BINARY[name], number(2, 3), number(3), parts(2, 1)[0]
    for left, right in (
        (z, w),
        (w, z),
        (z, x),
        (x, z),
        (z, z),
        (z, 2),
        (z, 1.5),
        (z, 1 - 2j),
        (2, z),
        (1.5, z),
        (1 - 2j, z),
    ):
        a, b = (v.to_numpy() if hasattr(v, "to_numpy") else v for v in (left, right))
        close(f(left, right), np.asarray(f(a, b)))
    close(f(np.float64(2.0), z), np.asarray(f(np.float64(2.0), z.to_numpy())))


UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "neg": (operator.neg, operator.neg),
    "pos": (operator.pos, operator.pos),
    "abs": (abs, np.abs),
    "angle": (lambda z: z.angle(), np.angle),
    "conj": (lambda z: z.conj(), np.conj),
    "square": (lambda z: z.square(), np.square),
    "reciprocal": (lambda z: z.reciprocal(), np.reciprocal),
    "sgn": (lambda z: z.sgn(), np.sign),
    "exp": (lambda z: z.exp(), np.exp),
    "log": (lambda z: z.log(), np.log),
    "sqrt": (lambda z: z.sqrt(), np.sqrt),
    "cube": (lambda z: z**3, lambda z: z**3),
    "inverse square": (lambda z: z**-2, lambda z: z**-2.0),
    "power of 0": (lambda z: z**0, lambda z: z**0),
    "sum": (lambda z: z.sum(), np.sum),
    "sum of a dim": (lambda z: z.sum(1, keepdim=True), lambda z: z.sum(1, keepdims=True)),
    "mean": (lambda z: z.mean(0), lambda z: z.mean(0)),
    "flip": (lambda z: z.flip(0, 1), lambda z: z[::-1, ::-1]),
    "roll": (lambda z: z.roll(1, 1), lambda z: np.roll(z, 1, 1)),
    "index": (lambda z: z[1, ::2], lambda z: z[1, ::2]),
    "reshape": (lambda z: z.reshape(3, 2), lambda z: z.reshape(3, 2)),
    "flatten": (lambda z: z.flatten(), lambda z: z.reshape(-1)),
    "permute": (lambda z: z.permute(1, 0), np.transpose),
    "transpose": (lambda z: z.transpose(0, 1), np.transpose),
    "mT": (lambda z: z.mT, np.transpose),
    "mH": (lambda z: z.mH, lambda z: z.conj().T),
    "unsqueeze": (lambda z: z.unsqueeze(1).squeeze(1), lambda z: z),
    "expand": (lambda z: z[:, :1].expand(2, 4), lambda z: np.broadcast_to(z[:, :1], (2, 4))),
    "matrix product": (lambda z: z @ z.mT, lambda z: z @ z.T),
    "with real matrices": (lambda z: z @ z.real.mT, lambda z: z @ z.real.T),
    "of real matrices": (lambda z: z.real.mT @ z, lambda z: z.real.T @ z),
    "parts": (lambda z: view_as_real(z), lambda z: np.stack([z.real, z.imag], -1)),
    "of parts": (lambda z: view_as_complex(view_as_real(z)), lambda z: z),
    "polar": (lambda z: polar(z.abs(), z.angle()), lambda z: z),
    "cast": (lambda z: z.to_dtype("float64"), lambda z: z),
    "device": (lambda z: z.to_device(NumPy), lambda z: z),
}


@every_row("name", UNARY)
def test_functions_are_numpys(name: str) -> None:
    f, g = UNARY[name]
    z = number(2, 3)
    close(f(z), np.asarray(g(z.to_numpy())))


@every_row("name", ("abs", "angle", "sgn", "exp", "log", "sqrt", "cube", "inverse square", "reciprocal", "mH", "polar"))
def test_derivatives(name: str) -> None:
    def both(a: Any, b: Any) -> Any:
        out = UNARY[name][0](ComplexTensor(a, b))
        return out.real * 1.5 + out.imag if isinstance(out, ComplexTensor) else out

    gradcheck(both, parts(2, 2))
    gradgradcheck(both, parts(2, 2))


@every_row("name", ("+", "-", "*", "/", "**"))
def test_derivatives_of_operators(name: str) -> None:
    def both(a: Any, b: Any, c: Any, d: Any) -> Any:
        out = BINARY[name](ComplexTensor(a, b), ComplexTensor(c, d))
        return out.real * 1.5 + out.imag

    gradcheck(both, (*parts(2), *parts(2)))
    gradgradcheck(both, (*parts(2), *parts(2)))


def test_gradients_are_by_the_parts() -> None:
    z = ComplexTensor[Train].from_data([3 + 4j, 1j]).require_grad()
    assert z.is_require_grad()
    assert "tracked" in repr(z)
    grads = (z.abs() * 2.0).sum().backward()
    found = ComplexTensor(grads[z.real], grads[z.imag])
    np.testing.assert_allclose(found.to_numpy(), [1.2 + 1.6j, 2j], rtol=1e-6)
    assert not z.detach().is_require_grad()
    assert z.inner().device is NumPy()


def test_a_complex_tensor_is_a_tree_of_its_parts() -> None:
    z = ComplexTensor[NumPy].from_data([3 + 4j, 1j])
    gradient = func.grad(lambda z: (z * z.conj()).real.sum())(z)
    assert type(gradient) is ComplexTensor
    assert gradient.tolist() == (2 * z).tolist()
    value, tangent = func.jvp(lambda z: z * z, (z,), (z,))
    assert bool((tangent == 2 * value).all())


def test_extreme_numbers() -> None:
    for size in (1e-300, 1e300):
        z = ComplexTensor[NumPy].from_data(np.array([3 + 4j]) * size)
        np.testing.assert_allclose((z / z).to_numpy(), [1.0], rtol=1e-14)
        np.testing.assert_allclose(abs(z).to_numpy(), [5 * size], rtol=1e-14)
    zero = ComplexTensor[NumPy].from_data(0j)
    assert zero.sgn().item() == 0
    assert (zero**0.0).item() == 1
    assert np.isnan((zero / zero).to_numpy())


def test_protocols() -> None:
    z = ComplexTensor[NumPy].from_data([[1 + 2j, 3], [4, 5j]])
    assert z.tolist() == [[1 + 2j, 3], [4, 5j]]
    assert (len(z), z.ndim, z.numel(), z.shape, z.dtype.type) == (2, 2, 4, (2, 2), np.float32)
    assert [row.tolist() for row in z] == z.tolist()
    assert complex(z[0, 0]) == z[0, 0].item() == 1 + 2j
    assert bool(z[1, 1])
    for other in (copy.copy(z), copy.deepcopy(z), pickle.loads(pickle.dumps(z))):
        assert type(other) is ComplexTensor
        assert bool((other == z).all())
    tracked = pickle.loads(pickle.dumps(ComplexTensor[Train].from_data([1j]).require_grad()))
    assert tracked.is_require_grad()
    assert repr(z[0]) == "ComplexTensor([1.+2.j, 3.+0.j], shape=(2,), dtype=float32, device=NumPy)"
    assert ComplexTensor.from_data(2, device=Train).device is Train.device()
    assert ComplexTensor[NumPy].from_data(np.zeros(2)).dtype == "float64"
    assert ComplexTensor[NumPy].from_data(np.zeros(2, np.complex64)).dtype == "float32"
    assert ComplexTensor[NumPy].from_data([1j], dtype="float16").to_numpy().dtype == np.complex64
    assert ComplexTensor(z.real).imag.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    mixed = ComplexTensor(z.real, z.imag.double())
    assert mixed.real.dtype == mixed.imag.dtype == "float64"
    assert mixed.allclose(z.to_dtype("float64"))
    assert hash(z) != hash(z[0])


Z: Any = ComplexTensor[NumPy].from_data([1j, 2.0])
X: Any = Tensor[NumPy].from_data([1.0, 2.0])
INTS: Any = IntTensor[NumPy].from_data([1, 2])
MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "int parts": (lambda: ComplexTensor(INTS, INTS), KindError, r"an IntTensor; convert it with x.float\(\)"),
    "shapes": (lambda: ComplexTensor(X, X[:1]), ShapeError, r"real part of shape \(2,\).*shape \(1,\).*expand"),
    "text": (lambda: ComplexTensor[NumPy].from_data("a"), DTypeError, "expected complex or real numbers"),
    "an int operand": (lambda: Z + INTS, KindError, r"an IntTensor.*x.float\(\)"),
    "an int left": (lambda: INTS * Z, KindError, r"an IntTensor.*x.float\(\)"),
    "an array": (lambda: Z + np.ones(2), KindError, "must be a ComplexTensor"),
    "an array left": (lambda: np.ones(2) + Z, KindError, "pass z.to_numpy"),
    "a ufunc": (lambda: np.exp(Z), KindError, "pass z.to_numpy"),
    "maximum": (lambda: X.maximum(Z), KindError, "has no complex form"),
    "less": (lambda: Z < X, TypeError, "no order; compare z.abs"),
    "matmul": (lambda: Z @ 2, KindError, r"z \* 2"),
    "rmatmul": (lambda: 2 @ Z, KindError, r"z \* 2"),
    "broadcast": (lambda: Z + ComplexTensor(X.expand(3, 2).mT), ShapeError, "do not broadcast"),
    "truth": (lambda: bool(Z), ShapeError, "ambiguous"),
    "float": (lambda: float(Z[0]), KindError, "z.abs"),
    "item": (lambda: Z.item(), ShapeError, "one element"),
    "assignment": (lambda: operator.setitem(Z, 0, 1), ImmutableError, "immutable"),
    "allclose": (lambda: Z.allclose(X), ArgumentError, "two complex"),
    "last dim": (lambda: view_as_complex(X.expand(3, 2).mT), ShapeError, "size 2, got shape"),
    "no complex": (lambda: view_as_real(X), KindError, "takes a ComplexTensor"),
    "a wrong name": (lambda: Z.sum(axis=0), TypeError, "it is called dim"),
}


@every_row("name", MISTAKES)
def test_mistakes_get_a_sentence(name: str) -> None:
    f, error, message = MISTAKES[name]
    with pytest.raises(error, match=message):
        f()
