"""Adapters of PEFT are read and written: the same outputs, ranks, scales and trained steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, nn, record
from burnpy.backend import NumPy
from burnpy.models import Llama
from burnpy.optim import Adam

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
peft = pytest.importorskip("peft", reason="compares with PEFT, which is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

Train = Autodiff[NumPy]


def theirs() -> Any:
    torch.manual_seed(0)
    inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())
    return torch.nn.Sequential(torch.nn.Linear(6, 8), inner, torch.nn.Linear(8, 3, bias=False))


def ours(net: Any) -> Any:
    inner = nn.Sequential(nn.Linear(8, 8, device=Train), nn.Tanh())
    model = nn.Sequential(nn.Linear(6, 8, device=Train), inner, nn.Linear(8, 3, bias=False, device=Train))
    return record.from_torch(model, net.state_dict())


def data() -> Any:
    return np.random.default_rng(0).standard_normal((5, 6)).astype("float32")


SETTINGS: list[dict[str, Any]] = [
    {"r": 4, "lora_alpha": 8, "target_modules": ["0", "2"]},
    {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "use_rslora": True},
    {"r": 2, "target_modules": "0|1.0", "rank_pattern": {"1.0": 3}, "alpha_pattern": {"^0": 5}, "lora_dropout": 0.1},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_theirs_are_read(settings: dict[str, Any], tmp_path: Path) -> None:
    net = theirs()
    model = ours(net)
    adapted = peft.get_peft_model(net, peft.LoraConfig(init_lora_weights=False, **settings)).eval()
    adapted.save_pretrained(tmp_path)
    read = record.from_peft(model, tmp_path)
    wanted = adapted(torch.from_numpy(data())).detach().numpy()
    x = Tensor[NumPy].from_data(data())
    np.testing.assert_allclose(read.valid()(x).to_numpy(), wanted, rtol=1e-5, atol=1e-6)
    merged = adapted.merge_and_unload()(torch.from_numpy(data())).detach().numpy()
    np.testing.assert_allclose(nn.merge_lora(read).valid()(x).to_numpy(), merged, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("where", [None, "0", ["0", "1.0"]])
def test_ours_are_read_there(where: Any, tmp_path: Path) -> None:
    net = theirs()
    adapted = nn.add_lora(ours(net), where, rank=3, alpha=5.0)
    adapted = adapted.map(
        lambda x: Tensor.from_data(np.random.default_rng(1).normal(size=x.shape), device=Train, dtype="float32"),
        "*.lora_b",
    )
    record.to_peft(adapted, tmp_path)
    read = peft.PeftModel.from_pretrained(net, tmp_path).eval()
    found = read(torch.from_numpy(data())).detach().numpy()
    np.testing.assert_allclose(adapted.valid()(Tensor[NumPy].from_data(data())).to_numpy(), found, rtol=1e-5, atol=1e-6)
    names = {name for name, _ in read.named_modules() if name.endswith("lora_A")}
    assert len(names) == sum(isinstance(m, nn.Lora) for m in adapted.named_modules().values())


def test_steps_are_the_same(tmp_path: Path) -> None:
    net = theirs()
    model = ours(net)
    adapted = peft.get_peft_model(net, peft.LoraConfig(r=4, lora_alpha=2, target_modules=["0", "2"]))
    adapted.save_pretrained(tmp_path)
    mine: Any = record.from_peft(model, tmp_path)
    optim = Adam()
    other = torch.optim.Adam([p for p in adapted.parameters() if p.requires_grad], lr=0.01)
    for _ in range(10):
        expected = (adapted(torch.from_numpy(data())) - 1).square().mean()
        other.zero_grad()
        expected.backward()
        other.step()
        loss = (mine(Tensor[Train].from_data(data())) - 1.0).square().mean()
        mine = optim.step(0.01, mine, loss.backward())
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


def test_adapters_of_llama_are_read(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="compares with transformers, which is not installed")
    sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2)
    net = transformers.LlamaForCausalLM(config).eval()
    net.save_pretrained(tmp_path / "model")
    settings = peft.LoraConfig(r=3, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)
    adapted = peft.get_peft_model(net, settings).eval()
    adapted.save_pretrained(tmp_path / "adapters")
    tokens = np.array([[3, 1, 4, 1, 5]])
    wanted = adapted(torch.from_numpy(tokens)).logits.detach().numpy()
    model = record.from_peft(Llama.from_pretrained(tmp_path / "model", device=NumPy), tmp_path / "adapters")
    x = IntTensor[NumPy].from_data(tokens)
    np.testing.assert_allclose(model(x).to_numpy(), wanted, rtol=1e-4, atol=1e-5)
    record.to_peft(model, tmp_path / "again")
    again = peft.PeftModel.from_pretrained(adapted.unload(), tmp_path / "again").eval()
    np.testing.assert_allclose(again(torch.from_numpy(tokens)).logits.detach().numpy(), wanted, rtol=1e-4, atol=1e-5)
