"""Adapters of PEFT are read and written: the same outputs, ranks, scales and trained steps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, nn, record
from burnpy.backend import NumPy
from burnpy.errors import StateError
from burnpy.models import BertClassifier, Gpt2, Llama, Vit
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


transformers = pytest.importorskip("transformers", reason="compares with transformers, which is not installed")
TOKENS = np.array([[3, 1, 4, 1, 5]])
PIXELS = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype("float32")


VIT_LAYERS = ["query", "value"] if transformers.__version__ < "5" else ["q_proj", "v_proj"]


class Case(NamedTuple):
    """A model of transformers, the same of burnpy, their input, and the names of layers that adapters change."""

    net: Callable[[], Any]
    model: Any
    x: Any
    few: list[str]
    norm: str


MODELS = {
    "gpt2": Case(
        lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=11, n_positions=8, n_embd=8, n_layer=2, n_head=2)
        ),
        Gpt2, TOKENS, ["c_attn"], "ln_f",
    ),
    "llama": Case(
        lambda: transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=11, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, attention_bias=True,
            )
        ),
        Llama, TOKENS, ["q_proj", "v_proj", "down_proj"], "model.norm",
    ),
    "bert": Case(
        lambda: transformers.BertForSequenceClassification(
            transformers.BertConfig(
                vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12
            )
        ),
        BertClassifier, TOKENS, ["query", "value"], "classifier",
    ),
    "vit": Case(
        lambda: transformers.ViTForImageClassification(
            transformers.ViTConfig(
                hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, image_size=8,
                patch_size=4, num_labels=3,
            )
        ),
        Vit, PIXELS, VIT_LAYERS, "classifier",
    ),
}  # fmt: skip
WAYS: dict[str, Any] = {
    "few": {},
    "every linear layer": {"target_modules": "all-linear", "use_rslora": True},
    "biases": {"bias": "lora_only", "lora_alpha": 3},
    "all biases, and a module": {"bias": "all", "module": True},
}


def logits(net: Any, x: Any) -> Any:
    out = net(torch.from_numpy(x))
    return (out.logits if hasattr(out, "logits") else out).detach().numpy()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_adapters_of_models_there_and_back(name: str, way: str, tmp_path: Path) -> None:
    case, how = MODELS[name], {"target_modules": MODELS[name].few, **WAYS[way]}
    if how.pop("module", False):
        how["modules_to_save"] = [case.norm]
    torch.manual_seed(0)
    net = case.net().eval()
    net.save_pretrained(tmp_path / "model")
    config = peft.LoraConfig(r=3, init_lora_weights=False, **how)
    adapted = peft.get_peft_model(copy.deepcopy(net), config, adapter_name="mine").eval()
    if "bias" not in how:  # which PEFT refuses with several adapters
        adapted.add_adapter("other", peft.LoraConfig(r=2, init_lora_weights=False, target_modules=case.few))
    for key, param in adapted.named_parameters():
        if key.endswith("bias") and param.requires_grad and "original_module" not in key:
            param.data = torch.from_numpy(np.random.default_rng(3).normal(size=param.shape).astype("float32"))
    adapted.save_pretrained(tmp_path)
    wanted = logits(adapted, case.x)
    x: Any = IntTensor[NumPy].from_data(case.x) if case.x is TOKENS else Tensor[NumPy].from_data(case.x)
    model = case.model.from_pretrained(tmp_path / "model", device=Train)
    read = record.from_peft(model, tmp_path / "mine")
    np.testing.assert_allclose(read.valid()(x).to_numpy(), wanted, rtol=1e-4, atol=1e-5)
    learning = {path for path, param in read.named_params().items() if not param.frozen}
    assert any(path.endswith("bias") for path in learning) == ("bias" in how)
    record.to_peft(read, tmp_path / "again")
    again = peft.PeftModel.from_pretrained(copy.deepcopy(net), tmp_path / "again").eval()
    np.testing.assert_allclose(logits(again, case.x), wanted, rtol=1e-4, atol=1e-5)
    if "bias" not in how:
        adapted.set_adapter("other")
        second = record.from_peft(model, tmp_path / "other").valid()
        np.testing.assert_allclose(second(x).to_numpy(), logits(adapted, case.x), rtol=1e-4, atol=1e-5)


def test_adapters_of_parts_of_a_fused_layer_are_written(tmp_path: Path) -> None:
    """Each of the columns has a rank and a scale of its own, one has no adapter, and the weights are ours."""
    net = MODELS["gpt2"].net().eval()
    net.save_pretrained(tmp_path / "model")
    model: Any = Gpt2.from_pretrained(tmp_path / "model", device=Train)
    adapted = nn.add_lora(model, [f"*.{layer}.weight" for layer in ("q_proj", "v_proj", "up")], rank=3, alpha=1.0)
    other = nn.Lora(adapted.blocks[0].attn.q_proj.layer, rank=2, alpha=3.0)
    adapted = adapted.replace({"blocks.0.attn.q_proj": other})
    rng = np.random.default_rng(1)
    adapted = adapted.map(lambda w: Tensor.from_data(rng.normal(size=w.shape), device=Train, dtype=w.dtype), "*.lora_b")
    record.to_peft(adapted, tmp_path)
    wanted = adapted.valid()(IntTensor[NumPy].from_data(TOKENS)).to_numpy()
    read = peft.PeftModel.from_pretrained(net, tmp_path).eval()
    np.testing.assert_allclose(logits(read, TOKENS), wanted, rtol=1e-4, atol=1e-5)
    back = record.from_peft(model, tmp_path).valid()
    np.testing.assert_allclose(back(IntTensor[NumPy].from_data(TOKENS)).to_numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_adapters_of_embeddings_are_refused(tmp_path: Path) -> None:
    net = MODELS["gpt2"].net()
    net.save_pretrained(tmp_path / "model")
    peft.get_peft_model(net, peft.LoraConfig(target_modules=["c_attn", "wte"])).save_pretrained(tmp_path)
    model: Any = Gpt2.from_pretrained(tmp_path / "model", device=Train)
    with pytest.raises(StateError, match="lora_embedding_A, and burnpy has adapters of linear layers alone"):
        record.from_peft(model, tmp_path)
