"""Low-rank adapters: values, what trains, merging, quantized layers, PEFT's files, and mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, compiled, nn, record
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, KindError, RecordError, RecordFileError, RecordNotFoundError, StateError
from burnpy.optim import Adam
from tests.rows import every_row

Train = Autodiff[NumPy]


def network(device: Any = Train) -> Any:
    return nn.Sequential(nn.Linear(32, 64, device=device), nn.Relu(), nn.Linear(64, 8, bias=False, device=device))


def drawn(*shape: int, device: Any = Train) -> Any:
    return Tensor.from_data(np.random.default_rng(0).normal(size=shape), dtype="float32", device=device)


def trained(model: Any, steps: int = 5) -> Any:
    x, optim = drawn(16, 32), Adam()
    for _ in range(steps):
        model = optim.step(0.02, model, (model(x) - 1.0).square().mean().backward())
    return model


def changed(before: Any, after: Any) -> list[str]:
    old, new = before.state(), after.state()
    return [path for path in old if not np.array_equal(old[path].value.to_numpy(), new[path].value.to_numpy())]


def detached(model: Any, x: Any) -> Any:
    return model(x).detach()


@every_row("quantize", [None, "int8", "int4"])
def test_only_adapters_train_and_merge_into_the_same_function(quantize: Any) -> None:
    model = network() if quantize is None else network().quantized(quantize)
    adapted = nn.add_lora(model, rank=4, alpha=8.0)
    x = drawn(3, 32)
    np.testing.assert_array_equal(adapted(x).to_numpy(), model(x).to_numpy())
    after = trained(adapted)
    assert changed(adapted, after) == [f"{k}.{name}" for k in (0, 2) for name in ("lora_a", "lora_b")]
    merged = nn.merge_lora(after)
    assert [type(layer).__name__ for layer in merged] == ["Linear", "Relu", "Linear"]
    assert not any(param.frozen for param in merged.params())
    np.testing.assert_allclose(merged(x).to_numpy(), after(x).to_numpy(), rtol=1e-4, atol=1e-5)
    assert np.abs(after(x).to_numpy() - model(x).to_numpy()).max() > 0.01
    np.testing.assert_array_equal(after.valid()(x.inner()).to_numpy(), after(x).to_numpy())
    call: Any = compiled(detached)
    np.testing.assert_allclose(call(after, x).to_numpy(), after(x).to_numpy(), atol=1e-6)


def test_dropout_is_of_training_alone() -> None:
    adapted = trained(nn.add_lora(network(), dropout=0.5))
    x = drawn(3, 32)
    assert adapted(x).tolist() != adapted(x).tolist()
    assert adapted.valid()(x.inner()).tolist() == adapted.valid()(x.inner()).tolist()


def test_adapters_are_for_chosen_layers_and_stay_when_these_are_quantized() -> None:
    adapted = nn.add_lora(network(), "2", rank=2)
    assert [type(layer).__name__ for layer in adapted] == ["Linear", "Relu", "Lora"]
    assert type(adapted.quantized()[2].layer).__name__ == "QuantizedLinear"
    linear = nn.Linear(4, 4, device=Train)
    shared = nn.add_lora(nn.Sequential(linear, nn.Relu(), linear))
    assert shared[0] is shared[2]


def test_peft_files(tmp_path: Path) -> None:
    adapted = trained(nn.add_lora(network(), rank=4, alpha=6.0, dropout=0.25))
    first = nn.Lora(adapted[0].layer, 3, alpha=5.0, dropout=0.25)
    adapted = adapted.replace({"0": first.replace(lora_b=nn.Param(drawn(3, 64)))})
    record.to_peft(adapted, tmp_path, base_model="some/model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    again = record.from_peft(nn.merge_lora(adapted).replace({str(k): adapted[k].layer for k in (0, 2)}), tmp_path)
    x = drawn(3, 32).inner()
    np.testing.assert_allclose(again.valid()(x).to_numpy(), adapted.valid()(x).to_numpy(), rtol=1e-6)
    assert [(layer.rank, layer.alpha, layer.dropout) for layer in (again[0], again[2])] == [
        (3, 5.0, 0.25),
        (4, 6.0, 0.25),
    ]
    assert {path for path, param in again.named_params().items() if not param.frozen} == {
        f"{k}.{name}" for k in (0, 2) for name in ("lora_a", "lora_b")
    }
    ints = record.from_peft(network().quantized(), tmp_path)
    assert type(ints[0].layer).__name__ == "QuantizedLinear"


def test_names_that_end_alike_are_told_apart(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4, device=Train), nn.Sequential(nn.Linear(4, 4, device=Train)))
    record.to_peft(nn.add_lora(model, "0"), tmp_path)
    assert json.loads((tmp_path / "adapter_config.json").read_text())["target_modules"] == "0"
    record.to_peft(nn.add_lora(model, "1"), tmp_path)
    assert json.loads((tmp_path / "adapter_config.json").read_text())["target_modules"] == ["1.0"]


CONFIGS: list[tuple[Any, type[Exception], str]] = [
    ({"peft_type": "IA3"}, RecordError, "peft_type='IA3'"),
    ({"use_dora": True}, RecordError, "use_dora=True, which burnpy's adapters do not have"),
    ({"lora_alpha": "8"}, RecordError, "lora_alpha='8', which is of another type"),
    ({"alpha_pattern": {"(": 1}}, RecordError, "not a regular expression"),
    ("{", RecordError, "damaged"),
    ("[]", RecordError, "peft_type=None"),
    (None, RecordNotFoundError, "there is no file"),
]


@every_row("config, error, message", CONFIGS)
def test_settings_are_honoured_or_refused_by_name(
    config: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    record.to_peft(nn.add_lora(network()), tmp_path)
    path = tmp_path / "adapter_config.json"
    if config is None:
        path.unlink()
    elif isinstance(config, str):
        path.write_text(config)
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | config))
    with pytest.raises(error, match=message):
        record.from_peft(network(), tmp_path)


def test_rslora_divides_by_the_root_of_the_rank(tmp_path: Path) -> None:
    record.to_peft(nn.add_lora(network(), rank=4, alpha=3.0), tmp_path)
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"use_rslora": True}))
    assert record.from_peft(network(), tmp_path)[0].alpha == 6.0


def other() -> Any:
    return nn.Sequential(nn.Linear(32, 60, device=Train), nn.Relu(), nn.Linear(60, 8, bias=False, device=Train))


MISTAKES: list[tuple[Callable[[Path], object], type[Exception], str]] = [
    (lambda path: nn.Lora(nn.Relu()), KindError, "got a Relu"),  # type: ignore[arg-type]  # a mistake
    (lambda path: nn.Lora(nn.Linear(2, 2, device=NumPy), 0), ArgumentError, "rank=0"),
    (lambda path: nn.Lora(nn.Linear(2, 2, device=NumPy), alpha=0.0), ArgumentError, "alpha=0.0"),
    (lambda path: nn.add_lora(nn.Linear(2, 2, device=NumPy)), ArgumentError, r"write Lora\(layer\)"),
    (lambda path: nn.add_lora(network(), "1"), ArgumentError, "'1', which is not a path"),
    (lambda path: nn.add_lora(nn.add_lora(network())), ArgumentError, "adapters, such as 0"),
    (lambda path: nn.add_lora(nn.Sequential(nn.LayerNorm(2, device=NumPy))), ArgumentError, "no linear layer"),
    (lambda path: nn.merge_lora(network()), ArgumentError, "found no Lora layer"),
    (lambda path: record.to_peft(network(), path), ArgumentError, "found no Lora layer"),
    (lambda path: record.to_peft(nn.add_lora(network()), path / "adapter_config.json"), RecordFileError, "cannot make"),
    (lambda path: record.from_peft(nn.add_lora(network()), path), ArgumentError, "a model with adapters"),
    (
        lambda path: record.from_peft(other(), path),
        StateError,
        r"\(8, 32\) and \(64, 8\) for 0, which maps 32 to 60",
    ),
    (
        lambda path: record.from_peft(network()[:1], path),
        StateError,
        "lora_A.weight, lora_B.weight of 2, and the linear",
    ),
]


@every_row("call, error, message", MISTAKES)
def test_mistakes(call: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    record.to_peft(nn.add_lora(network()), tmp_path)
    with pytest.raises(error, match=message):
        call(tmp_path)
