"""Rotary encodings and attention of decoders beside transformers': scalings, windows, softcaps, norms of heads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Generator, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.models import Llama
from burnpy.nn import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    MultiHeadAttention,
    RmsNorm,
    RotaryEncoding,
    RotaryScaling,
    YarnScaling,
)
from burnpy.nn.functional import scaled_dot_product_attention
from burnpy.record import to_torch

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
transformers = pytest.importorskip("transformers", reason="compares with transformers, which is not installed")

pytestmark = pytest.mark.parity

SCALINGS: list[tuple[RotaryScaling | None, dict[str, Any], int]] = [
    (None, {"rope_type": "default"}, 40),
    (LinearScaling(4.0), {"rope_type": "linear", "factor": 4.0}, 40),
    (DynamicScaling(2.0, 32), {"rope_type": "dynamic", "factor": 2.0}, 20),
    (DynamicScaling(2.0, 32), {"rope_type": "dynamic", "factor": 2.0}, 40),
    (YarnScaling(4.0, 32), {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}, 40),
    (
        YarnScaling(4.0, 32, 24.0, 2.0, 1.5, truncate=False),
        {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 24,
            "beta_slow": 2,
            "attention_factor": 1.5,
            "truncate": False,
        },
        40,
    ),
    (
        Llama3Scaling(8.0, 32, 1.0, 4.0),
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "original_max_position_embeddings": 32,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
        40,
    ),
]


@pytest.mark.parametrize(("scaling", "parameters", "length"), SCALINGS, ids=str)
def test_scaled_encodings(scaling: RotaryScaling | None, parameters: dict[str, Any], length: int) -> None:
    llama = transformers.models.llama.modeling_llama
    config = transformers.LlamaConfig(
        hidden_size=64,
        num_attention_heads=4,
        max_position_embeddings=32,
        rope_parameters={"rope_theta": 500.0, **parameters},
    )
    x = np.random.default_rng(0).normal(size=(2, 4, length, 16)).astype("float32")
    cos, sin = llama.LlamaRotaryEmbedding(config)(torch.from_numpy(x), torch.arange(length)[None])
    expected, _ = llama.apply_rotary_pos_emb(torch.from_numpy(x), torch.from_numpy(x), cos, sin)
    encoding = RotaryEncoding(base=500.0, interleaved=False, scaling=scaling)
    found = encoding(Tensor[NumPy].from_data(x))
    np.testing.assert_allclose(found.to_numpy(), expected.numpy(), atol=2e-5)
    part = encoding(Tensor[NumPy].from_data(x[:, :, 7:]), offset=7)
    np.testing.assert_allclose(part.to_numpy(), expected.numpy()[:, :, 7:], atol=2e-5)


@pytest.mark.parametrize("queries", [1, 6])
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("window", [None, 1, 3, 20])
def test_windows_and_softcaps(queries: int, softcap: float | None, window: int | None) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, heads, n, 8)).astype("float32") for heads, n in ((4, queries), (2, 6), (2, 6)))
    distance = np.arange(6 - queries, 6)[:, None] - np.arange(6)
    seen = (distance >= 0) & (distance < (window or 7))
    eager = transformers.models.gemma2.modeling_gemma2.eager_attention_forward
    module = torch.nn.Module().eval()
    module.num_key_value_groups = 2
    mask = torch.from_numpy(np.where(seen, 0.0, -np.inf).astype("float32"))[None, None]
    expected, _ = eager(module, *map(torch.from_numpy, (q, k, v)), mask, scaling=0.3, softcap=softcap)
    found = scaled_dot_product_attention(
        *(Tensor[NumPy].from_data(x) for x in (q, k, v)),
        causal=True,
        offset=6 - queries,
        scale=0.3,
        softcap=softcap,
        window=window,
        enable_gqa=True,
    )
    np.testing.assert_allclose(found.transpose(1, 2).to_numpy(), expected.numpy(), atol=2e-6)


def test_the_attention_of_qwen_3() -> None:
    qwen = transformers.models.qwen3.modeling_qwen3
    config = transformers.Qwen3Config(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=16, attention_bias=False
    )
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    theirs = qwen.Qwen3Attention(config, 0).eval()
    ours = MultiHeadAttention(
        32,
        4,
        head_size=16,
        key_heads=2,
        rotary=RotaryEncoding(base=config.rope_parameters["rope_theta"], interleaved=False),
        q_norm=RmsNorm(16, eps=config.rms_norm_eps, device=NumPy),
        k_norm=RmsNorm(16, eps=config.rms_norm_eps, device=NumPy),
        bias=False,
        device=NumPy,
        generator=Generator(0),
    )
    state = {name: torch.from_numpy(array) for name, array in to_torch(ours).items()}
    q, k, v = state.pop("in_proj_weight").split([64, 32, 32])
    state |= {"q_proj.weight": q, "k_proj.weight": k, "v_proj.weight": v, "o_proj.weight": state.pop("out_proj.weight")}
    theirs.load_state_dict(state)
    x = np.random.default_rng(0).normal(size=(2, 5, 32)).astype("float32")
    places = qwen.Qwen3RotaryEmbedding(config)(torch.from_numpy(x), torch.arange(5)[None])
    mask = torch.full((5, 5), -torch.inf).triu(1)[None, None]
    with torch.no_grad():
        expected, weights = theirs(torch.from_numpy(x), places, mask)
    inputs = Tensor[NumPy].from_data(x)
    np.testing.assert_allclose(ours(inputs, causal=True).to_numpy(), expected.numpy(), atol=2e-6)
    np.testing.assert_allclose(ours.weights(inputs, causal=True).to_numpy(), weights.numpy(), atol=2e-6)


@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "linear", "factor": 2.0},
        {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 8},
        {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8},
    ],
    ids=lambda parameters: parameters["rope_type"],
)
def test_scaled_models_go_beyond_the_positions_of_training(parameters: dict[str, Any], tmp_path: Path) -> None:
    """The dynamic base follows ``max_position_embeddings``, whatever the original number is said to be."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = transformers.LlamaConfig(
        vocab_size=50, max_position_embeddings=16, rope_parameters={**parameters, "rope_theta": 10000.0}, **sizes
    )
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path)
    tokens = torch.randint(0, 50, (1, 40))
    with torch.no_grad():
        expected = theirs(tokens).logits.numpy()
    model = Llama.from_pretrained(tmp_path, device=NumPy)
    found = model(IntTensor[NumPy].from_data(tokens.numpy()))
    np.testing.assert_allclose(found.to_numpy(), expected, atol=1e-6)
