"""Layers and functions of complex numbers beside those of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, ComplexTensor, IntTensor, Tensor, func
from burnpy.backend import NumPy
from burnpy.backend.errors import KindError
from burnpy.nn import Buffer, ComplexBuffer, ComplexParam, Conv1d, Flatten, Linear, Module, Sequential, functional
from burnpy.testing import gradcheck

Train = Autodiff[NumPy]
rng = np.random.default_rng(0)


def numbers(*shape: int) -> Any:
    return ComplexTensor[NumPy].from_data(rng.normal(size=shape) + 1j * rng.normal(size=shape))


PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "linear": (functional.linear, ((3, 4), (4, 2), (2,))),
    "linear of a vector": (functional.linear, ((4,), (4, 2), (2,))),
    "conv1d": (lambda x, w, b: functional.conv1d(x, w, b, padding=(1, 0), stride=2), ((2, 2, 5), (3, 2, 2), (3,))),
    "conv2d": (lambda x, w, b: functional.conv2d(x, w, b, groups=2), ((2, 3, 3), (2, 1, 2, 2), (2,))),
    "conv_transpose1d": (functional.conv_transpose1d, ((1, 2, 3), (2, 1, 2), (1,))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_those_of_the_parts(name: str) -> None:
    function, shapes = PRODUCTS[name]
    x, w, b = (numbers(*shape) for shape in shapes)
    none = b.real.zeros_like()
    real = function(x.real, w.real, b.real) - function(x.imag, w.imag, none)
    imag = function(x.real, w.imag, b.imag) + function(x.imag, w.real, none)
    assert function(x, w, b).allclose(burnpy.complex(real, imag))
    gradcheck(function, (x, w, b))
    many = burnpy.stack([x, x * 2j])
    together = func.vmap(lambda x: function(x, w, b))(many)
    assert together[1].allclose(function(x * 2j, w, b))
    assert func.compiled(function)(x, w, b).allclose(function(x, w, b))


def test_an_embedding_of_complex_rows() -> None:
    w = numbers(3, 2).to_device(Train).require_grad()
    index = IntTensor[NumPy].from_data([[0, 2, 2]])
    out: Any = functional.embedding(index, w, padding_idx=0)
    np.testing.assert_array_equal(out.to_numpy(), w.to_numpy()[[[0, 2, 2]]])
    gradient = out.imag.sum().backward()[w]
    assert gradient.tolist() == [[0j, 0j], [0j, 0j], [2j, 2j]]


def test_models_become_complex() -> None:
    model: Any = Sequential(Conv1d(1, 2, kernel_size=2, device=Train), Flatten(), Linear(6, 3, device=Train))
    z: Any = model.astype("complex64")
    assert isinstance(z[0].weight, ComplexParam)
    assert z[0].weight.id == model[0].weight.id
    x = Tensor[Train].from_data(rng.normal(size=(2, 1, 4)).astype(np.float32))
    assert z(x.complex()).real.allclose(model(x), atol=1e-6)
    assert (z(x.complex()).imag == 0.0).all()
    loss = z(x.complex() * 1j).abs().square().sum()
    assert loss.backward()[z[2].weight.value].kind == "complex"

    class Held(Module[Any]):
        def __init__(self) -> None:
            self.table = Buffer(Tensor[NumPy].ones((2,)))

        def forward(self) -> Any:
            return self.table.value

    assert isinstance(Held().no_grad().astype("complex128").table, ComplexBuffer)


def test_kinds_do_not_mix() -> None:
    z, x = numbers(2, 2), numbers(2, 2).real
    rows: list[tuple[Callable[[], Any], str]] = [
        (lambda: functional.linear(z, x), r"linear\(\) of complex numbers got a Tensor as weight; write weight\.compl"),
        (lambda: functional.conv1d(x, numbers(1, 2, 1)), r"conv1d\(\) .* got a Tensor as x; write x\.complex\(\)"),
    ]
    for call, message in rows:
        with pytest.raises(KindError, match=message):
            call()


def test_statistics_are_numpys() -> None:
    z = numbers(3, 7)
    array, weights = z.to_numpy(), [1, 2, 1, 3, 1, 1, 2]
    np.testing.assert_allclose(z.cov(correction=0).to_numpy(), np.cov(array, ddof=0))
    f = IntTensor[NumPy].from_data(weights)
    a = Tensor[NumPy].from_data(np.array(weights) / 3)
    theirs = np.cov(array, fweights=np.array(weights), aweights=np.array(weights) / 3)
    np.testing.assert_allclose(z.cov(fweights=f, aweights=a).to_numpy(), theirs)
    np.testing.assert_allclose(z.corrcoef().to_numpy(), np.corrcoef(array))
    np.testing.assert_allclose(z.ldexp(f).to_numpy(), array * 2.0 ** np.array(weights))
    far = ComplexTensor[NumPy].from_data([-800 + 1j, 800 - 1j, 0j])
    assert far.sigmoid().isfinite().all()
    assert far.logsumexp().allclose(ComplexTensor[NumPy].from_data(800 - 1j))
    assert func.grad(lambda z: z.sinc().real.sum())(far * 0.0).tolist() == [0j] * 3
    for name in ("sigmoid", "silu", "sinc"):
        gradcheck(lambda z, name=name: getattr(z, name)(), (z,))
