"""Weight norm and spectral norm: values, gradients, training, files, merging, and mistakes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Generator, Tensor, compiled, nn, record
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, KindError
from burnpy.linalg import svdvals
from burnpy.optim import Sgd
from burnpy.testing import gradcheck
from tests.rows import every_row

Train = Autodiff[NumPy]

LAYERS: list[tuple[Callable[[Any], Any], tuple[int, ...], int]] = [
    (lambda device: nn.Linear(4, 3, device=device), (2, 4), 1),
    (lambda device: nn.Conv2d(4, 6, (3, 2), groups=2, device=device), (2, 4, 5, 5), 0),
    (lambda device: nn.ConvTranspose1d(4, 6, 3, device=device), (2, 4, 5), 0),
]


def drawn(shape: tuple[int, ...], device: Any = Train, dtype: str = "float32") -> Any:
    return Tensor.from_data(np.random.default_rng(0).normal(size=shape), dtype=dtype, device=device)


@every_row("make, shape, own", LAYERS)
def test_weight_norm_begins_as_the_layer_and_scales_each_output(make: Any, shape: Any, own: int) -> None:
    layer, x = make(Train), drawn(shape)
    normed = nn.WeightNorm(layer)
    np.testing.assert_allclose(normed(x).to_numpy(), layer(x).to_numpy(), rtol=1e-5, atol=1e-6)
    twice = normed.replace(magnitude=nn.Param(normed.magnitude.value.detach() * 2.0))
    np.testing.assert_allclose(twice.weight.to_numpy(), 2 * layer.weight.value.to_numpy(), rtol=1e-5)
    assert normed.magnitude.shape == tuple(n if k == own else 1 for k, n in enumerate(layer.weight.shape))
    grads = normed(x).square().sum().backward()
    v, along = layer.weight.value, grads[layer.weight.value]
    others = tuple(k for k in range(v.ndim) if k != own)
    np.testing.assert_allclose((v.inner() * along).sum(dim=others).to_numpy(), 0.0, atol=1e-3)  # only directions count
    merged = twice.merged()
    assert type(merged) is type(layer)
    np.testing.assert_allclose(merged(x).to_numpy(), twice(x).to_numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@every_row("make, shape, own", LAYERS)
def test_spectral_norm_divides_by_the_largest_singular_value(make: Any, shape: Any, own: int) -> None:
    layer, x = make(Train).astype("float64"), drawn(shape, dtype="float64")
    normed: Any = nn.SpectralNorm(layer, generator=Generator(1))
    for _ in range(200):
        normed = Sgd().step(0.0, normed, normed(x).sum().backward())  # which improves the vectors
    weight = layer.weight.value.detach()
    matrix = weight.transpose(0, 1) if own or isinstance(layer, nn.ConvTranspose1d) else weight
    largest = svdvals(matrix.reshape(matrix.shape[0], -1))[0].item()
    np.testing.assert_allclose(normed.weight.to_numpy(), weight.to_numpy() / largest, rtol=1e-8)
    plain = normed.valid()
    np.testing.assert_allclose(plain(x.inner()).to_numpy(), normed.eval()(x).to_numpy(), rtol=1e-12)
    np.testing.assert_allclose(plain.merged()(x.inner()).to_numpy(), plain(x.inner()).to_numpy(), rtol=1e-12)


@every_row("wrap", [nn.WeightNorm, nn.SpectralNorm])
def test_models_with_normed_layers_are_quantized_and_adapted(wrap: Any) -> None:
    linear: Any = nn.Linear(4, 3, device=NumPy, generator=Generator(0)).map(lambda w: w * 3.0)
    model, x = (
        nn.Sequential(wrap(linear), nn.Tanh(), wrap(nn.Conv2d(1, 1, 1, device=NumPy))),
        drawn((5, 4), device=NumPy),
    )
    want = model[:2](x).to_numpy()
    for where in (None, "0", "0.layer"):
        adapted = nn.add_lora(model, where=where, rank=2)
        assert [type(layer).__name__ for layer in adapted] == ["Lora", "Tanh", wrap.__name__]
        np.testing.assert_allclose(adapted[:2](x).to_numpy(), want, rtol=1e-6)
        np.testing.assert_allclose(model.quantized(where=where)[:2](x).to_numpy(), want, atol=2e-2)


def test_gradients() -> None:
    wide = drawn((2, 4), dtype="float64").require_grad()
    for wrap in (nn.WeightNorm, nn.SpectralNorm):
        assert gradcheck(partial(called, wrap), wide)

    def by_weight(w: Any) -> Any:
        linear = nn.Linear(2, 4, bias=False, device=w.device, generator=Generator(0))
        layer: Any = nn.WeightNorm(linear.astype("float64"))
        of_weight: dict[str, Any] = {"layer.weight": layer.layer.weight._unchecked(w.mT)}
        changed: Any = layer._rebuilt(of_weight.get)
        return changed(drawn((3, 2), device=w.device, dtype="float64"))

    assert gradcheck(by_weight, drawn((4, 2), dtype="float64").require_grad())


def called(wrap: Any, x: Any) -> Any:
    layer: Any = nn.Linear(4, 3, device=x.device, generator=Generator(0))
    return wrap(layer, **({} if wrap is nn.WeightNorm else {"generator": Generator(0)})).astype("float64").eval()(x)


@every_row("wrap", [nn.WeightNorm, nn.SpectralNorm])
def test_files_and_compiled_steps(wrap: Any, tmp_path: Path) -> None:
    model: Any = nn.Sequential(wrap(nn.Linear(4, 3, device=Train)), nn.Tanh())
    x, optim = drawn((8, 4)), Sgd()

    def stepped(model: Any, state: Any, x: Any) -> Any:
        loss = (model(x) - 1.0).square().mean()
        return *optim.pure_step(0.1, model, loss.backward(), state), loss.detach()

    call: Any = compiled(stepped)
    (one, state, first), (two, other) = call(model, optim.init(model), x), stepped(model, optim.init(model), x)[:2]
    loss = first
    for _ in range(4):
        one, state, loss = call(one, state, x)
        two, other, _ = stepped(two, other, x)
    assert loss.item() < first.item()
    for path, entry in one.state().items():
        np.testing.assert_allclose(entry.value.to_numpy(), two.state()[path].value.to_numpy(), rtol=1e-4, atol=1e-6)
    record.save(tmp_path / "it.safetensors", model=one)
    fresh = nn.Sequential(wrap(nn.Linear(4, 3, device=NumPy)), nn.Tanh())
    again = record.load(tmp_path / "it.safetensors").apply_to(fresh)
    assert again(x.inner()).tolist() == one.valid()(x.inner()).tolist()
    state_dict = record.to_torch(one)
    assert record.from_torch(fresh, state_dict)(x.inner()).tolist() == again(x.inner()).tolist()
    assert all("parametrizations.weight" in name or name == "0.bias" for name in state_dict)


MISTAKES: list[tuple[Any, type[Exception], str]] = [
    (lambda: nn.WeightNorm(nn.Dropout()), KindError, "got a Dropout"),  # type: ignore[arg-type]  # a mistake
    (lambda: nn.SpectralNorm(nn.LayerNorm(3, device=NumPy)), KindError, "2 or more dims, got a LayerNorm"),
    (
        lambda: nn.SpectralNorm(nn.Linear(2, 2, device=NumPy), n_power_iterations=0),
        ArgumentError,
        "n_power_iterations=0",
    ),
    (lambda: nn.SpectralNorm(nn.Linear(2, 2, device=NumPy), eps=0.0), ArgumentError, "eps=0.0"),
]


@every_row("call, error, message", MISTAKES)
def test_mistakes(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
