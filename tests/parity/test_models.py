"""The models of `burnpy.models` beside those of transformers, with the same random weights of small configurations."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, cross_entropy, models
from burnpy.backend import NumPy
from burnpy.models.pretrained import Activation, activation
from burnpy.record import from_torch, to_torch

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytest.importorskip("transformers", reason="compares with transformers, which is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

Train = Autodiff[NumPy]
RNG = np.random.default_rng(0)

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 32,
}
TEXT = SIZES | {"vocab_size": 60, "max_position_embeddings": 40}
DECODER = TEXT | {"num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}
IMAGE = SIZES | {"num_labels": 5}
GPT2 = {
    "n_embd": 16,
    "n_layer": 3,
    "n_head": 4,
    "vocab_size": 60,
    "n_positions": 40,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
BLOCKS = {"embedding_size": 8, "depths": [1, 2], "num_labels": 3}


def rope(**parameters: Any) -> dict[str, Any]:
    """The options of a scaled rotary encoding."""
    return DECODER | {"rope_parameters": {"rope_theta": 500.0, **parameters}}


class Case(NamedTuple):
    """A class of burnpy, transformers' module, the start of its classes' names, its model, and the options."""

    ours: Any
    module: str
    name: str
    model: str
    options: dict[str, Any]

    def config(self, **options: Any) -> Any:
        config = "Gemma3Text" if self.name == "Gemma3" else self.name
        module = importlib.import_module(f"transformers.models.{self.module}")
        return getattr(module, f"{config}Config")(**self.options, initializer_range=0.3, **options)

    @property
    def theirs(self) -> Any:
        return getattr(importlib.import_module(f"transformers.models.{self.module}"), f"{self.name}{self.model}")


def llama(module: str, name: str, options: dict[str, Any]) -> Case:
    return Case(models.Llama, module, name, "ForCausalLM", options)


SMALL = {"head_dim": 8, "pad_token_id": 0}
CASES = {
    "resnet, basic": Case(
        models.ResNet,
        "resnet",
        "ResNet",
        "ForImageClassification",
        BLOCKS | {"layer_type": "basic", "hidden_sizes": [8, 16]},
    ),
    "resnet, bottleneck": Case(
        models.ResNet, "resnet", "ResNet", "ForImageClassification", BLOCKS | {"hidden_sizes": [16, 32]}
    ),
    "resnet, options": Case(
        models.ResNet,
        "resnet",
        "ResNet",
        "ForImageClassification",
        BLOCKS
        | {"hidden_sizes": [16, 32], "downsample_in_bottleneck": True, "downsample_in_first_stage": True}
        | {"hidden_act": "silu", "num_channels": 1},
    ),
    "vit": Case(models.Vit, "vit", "ViT", "ForImageClassification", IMAGE | {"image_size": 8, "patch_size": 4}),
    "vit, options": Case(
        models.Vit,
        "vit",
        "ViT",
        "ForImageClassification",
        IMAGE | {"image_size": [8, 12], "patch_size": [4, 2], "hidden_act": "quick_gelu"},
    ),
    "bert": Case(models.Bert, "bert", "Bert", "Model", TEXT),
    "bert, classifier": Case(
        models.BertClassifier,
        "bert",
        "Bert",
        "ForSequenceClassification",
        TEXT | {"num_labels": 3, "hidden_act": "relu"},
    ),
    "gpt2": Case(models.Gpt2, "gpt2", "GPT2", "LMHeadModel", GPT2),
    "gpt2, options": Case(
        models.Gpt2,
        "gpt2",
        "GPT2",
        "LMHeadModel",
        GPT2
        | {
            "scale_attn_by_inverse_layer_idx": True,
            "scale_attn_weights": False,
            "n_inner": 24,
            "tie_word_embeddings": False,
        },
    ),
    "llama": llama("llama", "Llama", DECODER),
    "llama, options": llama(
        "llama",
        "Llama",
        DECODER | SMALL | {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "hidden_act": "gelu"},
    ),
    "llama, linear": llama("llama", "Llama", rope(rope_type="linear", factor=2.0)),
    "llama, dynamic": llama("llama", "Llama", rope(rope_type="dynamic", factor=2.0)),
    "llama, llama3": llama(
        "llama",
        "Llama",
        rope(
            rope_type="llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=10,
        ),
    ),
    "llama, yarn": llama(
        "llama", "Llama", rope(rope_type="yarn", factor=4.0, beta_fast=16.0, original_max_position_embeddings=10)
    ),
    "mistral": llama("mistral", "Mistral", DECODER | {"sliding_window": 5}),
    "mistral, no window": llama("mistral", "Mistral", DECODER | {"sliding_window": None}),
    "qwen2": llama("qwen2", "Qwen2", DECODER),
    "qwen2, windows": llama(
        "qwen2", "Qwen2", DECODER | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
    ),
    "qwen3": llama("qwen3", "Qwen3", DECODER | SMALL),
    "gemma": llama("gemma", "Gemma", DECODER | SMALL),
    "gemma2": llama(
        "gemma2",
        "Gemma2",
        DECODER
        | SMALL
        | {
            "sliding_window": 4,
            "query_pre_attn_scalar": 11,
            "attn_logit_softcapping": 3.0,
            "final_logit_softcapping": 2.0,
        },
    ),
    "gemma3": llama(
        "gemma3",
        "Gemma3",
        DECODER
        | SMALL
        | {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    ),
}
TEXTS = RNG.integers(1, 60, (3, 13))
REAL = np.arange(13) >= np.array([[0], [4], [7]])  # padding first, as in generation
DECODERS = {name: case for name, case in CASES.items() if issubclass(case.ours, models.Decoder)}


def made(case: Case, folder: Path, dtype: str = "float32") -> Any:
    """Return transformers' model with random weights, saved in the folder."""
    torch.manual_seed(0)
    theirs = case.theirs(case.config(attn_implementation="eager")).eval()
    for name, x in (*theirs.named_parameters(), *theirs.named_buffers()):
        if x.ndim == 1 and "inv_freq" not in name:
            x.data.uniform_(0.5, 1.5) if "var" in name or "weight" in name else x.data.normal_(0.0, 0.2)
    theirs = theirs.to(getattr(torch, dtype))
    theirs.save_pretrained(folder)
    return theirs


def their_inputs(case: Case) -> dict[str, Any]:
    if issubclass(case.ours, models.ResNet | models.Vit):
        size = np.broadcast_to(case.options.get("image_size", 32), 2).tolist()
        shape = (2, case.options.get("num_channels", 3), *size)
        return {"pixel_values": torch.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))}
    inputs = {"input_ids": torch.tensor(TEXTS), "attention_mask": torch.tensor(REAL.astype(np.int64))}
    if issubclass(case.ours, models.Decoder):
        inputs["position_ids"] = torch.tensor(np.maximum(REAL.cumsum(1) - 1, 0))
    else:
        inputs["token_type_ids"] = torch.tensor(TEXTS % 2)
    return inputs


def their_outputs(case: Case, theirs: Any, inputs: dict[str, Any]) -> Any:
    outputs = theirs(**inputs)
    return outputs.last_hidden_state if case.model == "Model" else outputs.logits


def our_inputs(ours: Any, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The images or tokens, and the other arguments."""
    device = ours.device
    if "pixel_values" in inputs:
        images = Tensor.from_data(inputs["pixel_values"].float().numpy(), device=device)
        return images.to_dtype(ours.params()[0].dtype), {}
    options: dict[str, Any] = {"key_mask": BoolTensor.from_data(REAL, device=device)}
    if "token_type_ids" in inputs:
        options["token_types"] = IntTensor.from_data(TEXTS % 2, device=device)
    return IntTensor.from_data(TEXTS, device=device), options


def our_outputs(ours: Any, inputs: dict[str, Any]) -> Any:
    given, options = our_inputs(ours, inputs)
    return ours(given, **options)


def our_hidden_states(case: Case, ours: Any, inputs: dict[str, Any]) -> Any:
    given, options = our_inputs(ours, inputs)
    if issubclass(case.ours, models.Decoder):
        return ours.hidden(given, **options)[0]
    if case.ours is models.ResNet:
        return ours.features(given)[-1]
    if case.ours is models.Vit:
        return ours.features(given)
    return (ours.bert if case.ours is models.BertClassifier else ours)(given, **options)


def compared(x: Any) -> Any:
    """What is compared of an output: of sequences the positions that are no padding."""
    array = (x.detach() if hasattr(x, "detach") else x).float()
    array = array.to_numpy() if isinstance(array, Tensor) else array.numpy()
    return array[REAL] if array.shape[:2] == REAL.shape and array.ndim == 3 else array


@pytest.mark.parametrize("name", CASES)
def test_outputs_of_the_same_weights_agree(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    theirs = made(case, tmp_path / "theirs")
    inputs = their_inputs(case)
    with torch.no_grad():
        expected = compared(their_outputs(case, theirs, inputs))
        hidden = compared(theirs.base_model(**inputs).last_hidden_state)
    ours = case.ours.from_pretrained(tmp_path / "theirs", device=NumPy)
    np.testing.assert_allclose(compared(our_outputs(ours, inputs)), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(compared(our_hidden_states(case, ours, inputs)), hidden, rtol=1e-4, atol=1e-4)

    ours.save_pretrained(tmp_path / "ours")
    again, info = case.theirs.from_pretrained(tmp_path / "ours", output_loading_info=True, attn_implementation="eager")
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    with torch.no_grad():
        saved = compared(their_outputs(case, again.eval(), inputs))
    np.testing.assert_array_equal(saved, expected, "saved by burnpy, loaded by transformers")
    options = [json.loads((tmp_path / who / "config.json").read_text()) for who in ("theirs", "ours")]
    assert {key: value for key, value in options[0].items() if options[1].get(key) != value} == {}


def test_shards_and_tied_weights_are_read(tmp_path: Path) -> None:
    theirs = made(CASES["llama, options"], tmp_path)
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="4KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    whole, parts = (models.Llama.from_pretrained(folder, device=NumPy) for folder in (tmp_path, tmp_path / "shards"))
    state, again = to_torch(whole), to_torch(parts)
    assert "lm_head.weight" not in state
    assert all(np.array_equal(state[name], again[name]) for name in state)


@pytest.mark.parametrize("name", CASES)
def test_a_training_step_agrees(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0} if case.ours is models.Gpt2 else still
    options = case.options if case.ours in (models.ResNet, models.Llama) else case.options | still
    case = case._replace(options=options)
    theirs = made(case, tmp_path).train()
    ours = case.ours.from_pretrained(tmp_path, device=Train)
    inputs = their_inputs(case)
    outputs = their_outputs(case, theirs, inputs)
    outputs = outputs[torch.tensor(REAL)] if outputs.ndim == 3 else outputs
    labels = np.arange(len(outputs)) % outputs.shape[-1]
    torch.nn.functional.cross_entropy(outputs, torch.tensor(labels)).backward()

    logits = our_outputs(ours, inputs)
    logits = logits[BoolTensor.from_data(REAL, device=Train)] if logits.ndim == 3 else logits
    grads = cross_entropy(logits, IntTensor.from_data(labels, device=Train)).backward()
    gradients = {path: param.value.grad(grads) for path, param in ours.named_params().items()}
    found = to_torch(ours.valid().with_state({path: x for path, x in gradients.items() if x is not None}, strict=False))
    names = ours._file_names()
    found = {names.get(key, key): value for key, value in found.items()}
    saved = {key: value for key, value in renamed(case, theirs).items() if value.grad is not None}
    assert set(saved) <= set(found)
    largest = max(float(parameter.grad.abs().max()) for parameter in saved.values())
    for key, parameter in saved.items():
        expected = parameter.grad.numpy()
        scale = np.abs(expected).max() + max(1e-3, 0.01 * largest)  # those of the keys' biases are rounding errors of 0
        np.testing.assert_allclose(found[key] / scale, expected / scale, atol=2e-4, err_msg=key)


def renamed(case: Case, theirs: Any) -> dict[str, Any]:
    """Transformers' parameters by the names in its files."""
    parameters = dict(theirs.named_parameters())
    if case.ours is not models.Vit:
        return parameters
    pairs = {
        "vit.layers.": "vit.encoder.layer.",
        "attention.o_proj": "attention.output.dense",
        "mlp.fc1": "intermediate.dense",
    }
    pairs |= {"mlp.fc2": "output.dense"}
    pairs |= {f"attention.{x[0]}_proj": f"attention.attention.{x}" for x in ("query", "key", "value")}
    result: dict[str, Any] = {}
    for name, value in parameters.items():
        for old, new in pairs.items():
            name = name.replace(old, new)
        result[name] = value
    return result


@pytest.mark.parametrize("name", ["resnet, bottleneck", "vit", "bert", "gpt2", "llama", "gemma2", "gemma3"])
def test_bfloat16_is_as_near_to_float32_as_in_transformers(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    made(case, tmp_path, "bfloat16")
    inputs = their_inputs(case)
    narrow = {key: x.bfloat16() if x.is_floating_point() else x for key, x in inputs.items()}
    loaded = {dtype: case.theirs.from_pretrained(tmp_path, dtype=dtype) for dtype in (torch.bfloat16, torch.float32)}
    with torch.no_grad():
        rounded = compared(their_outputs(case, loaded[torch.bfloat16], narrow))
        exact = compared(their_outputs(case, loaded[torch.float32], inputs))
    ours = case.ours.from_pretrained(tmp_path, device=NumPy)
    assert {str(param.dtype) for param in ours.params()} == {"bfloat16"}
    error, theirs_error = np.abs(compared(our_outputs(ours, inputs)) - exact).max(), np.abs(rounded - exact).max()
    assert error <= max(2 * theirs_error, 2**-6 * np.abs(exact).max()), (error, theirs_error)
    wide = case.ours.from_pretrained(tmp_path, device=NumPy, dtype="float32")
    np.testing.assert_allclose(compared(our_outputs(wide, inputs)), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", DECODERS)
def test_tokens_agree_one_by_one(name: str, tmp_path: Path) -> None:
    case = DECODERS[name]
    theirs = made(case, tmp_path)
    ours: models.Decoder[NumPy] = case.ours.from_pretrained(tmp_path, device=NumPy)
    prompts: list[list[int]] = [row[real].tolist() for row, real in zip(TEXTS, REAL, strict=True)]
    steps = list(models.generate(ours, prompts, max_new=12))
    for k, prompt in enumerate(prompts):
        expected = theirs.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False, eos_token_id=None)
        assert [step[k] for step in steps] == expected[0, len(prompt) :].tolist()


@pytest.mark.parametrize(
    ("beams", "penalty", "stop"), [(1, 1.0, 7), (3, 1.0, None), (4, 0.3, 7), (4, 2.0, 57), (5, -1.0, 8)]
)
def test_beams_agree(beams: int, penalty: float, stop: int | None, tmp_path: Path) -> None:
    theirs = made(CASES["gpt2"], tmp_path)
    ours = models.Gpt2.from_pretrained(tmp_path, device=NumPy)
    settings = {"num_beams": beams, "num_return_sequences": beams, "length_penalty": penalty, "eos_token_id": stop}
    for prompt in ([3, 1, 4], [7]):
        found = models.beam_search(ours, prompt, max_new=9, beams=beams, stop=stop, length_penalty=penalty)
        if beams == 1:  # transformers' greedy search
            rows = theirs.generate(
                torch.tensor([prompt]), max_new_tokens=9, do_sample=False, eos_token_id=stop, pad_token_id=0
            )
            assert rows[0, len(prompt) :].tolist() == list(found[0].tokens)
            continue
        out = theirs.generate(
            torch.tensor([prompt]),
            max_new_tokens=9,
            do_sample=False,
            pad_token_id=59,
            return_dict_in_generate=True,
            output_scores=True,
            **settings,
        )
        rows = [row[len(prompt) :][: len(beam.tokens)] for row, beam in zip(out.sequences.tolist(), found, strict=True)]
        assert rows == [list(beam.tokens) for beam in found]
        np.testing.assert_allclose([beam.score for beam in found], out.sequences_scores.numpy(), rtol=1e-5)


def test_activations_agree() -> None:
    theirs = importlib.import_module("transformers.activations").ACT2FN
    x = np.linspace(-7.0, 7.0, 99, dtype=np.float32)
    for name in get_args(Activation):
        found = activation(name)(Tensor[NumPy].from_data(x)).to_numpy()
        np.testing.assert_allclose(found, theirs[name](torch.tensor(x)).numpy(), rtol=1e-5, atol=2e-6, err_msg=name)


def test_processors_agree() -> None:
    process = importlib.import_module("transformers.generation.logits_process")
    logits = RNG.normal(size=(4, 50)).astype(np.float32) * 3
    tokens = RNG.integers(0, 50, (4, 9))
    ours, words = Tensor[NumPy].from_data(logits), IntTensor[NumPy].from_data(tokens)
    for found, theirs in (
        (models.keep_top_k(ours, 5), process.TopKLogitsWarper(5)),
        (models.keep_top_k(ours, 90), process.TopKLogitsWarper(90)),
        (models.keep_top_p(ours, 0.8), process.TopPLogitsWarper(0.8)),
        (models.keep_top_p(ours, 0.01), process.TopPLogitsWarper(0.01)),
        (models.keep_min_p(ours, 0.1), process.MinPLogitsWarper(0.1)),
        (models.repetition_penalty(ours, words, 1.3), process.RepetitionPenaltyLogitsProcessor(1.3)),
    ):
        expected = theirs(torch.tensor(tokens), torch.tensor(logits)).numpy()
        np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-6, err_msg=type(theirs).__name__)


def torchvision_resnet(config: models.ResNetConfig) -> Any:
    """PyTorch's layers under the names of torchvision's ResNet, whose package has no release beside this PyTorch."""
    nn: Any = torch.nn
    base: Any = nn.Module

    class Block(base):  # type: ignore[misc]  # untyped
        def __init__(self, inputs: int, size: int, stride: int) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]  # PyTorch's
            plan = [(inputs, size, 3, stride), (size, size, 3, 1)]
            if config.layer_type == "bottleneck":
                plan = [(inputs, size // 4, 1, 1), (size // 4, size // 4, 3, stride), (size // 4, size, 1, 1)]
            self.count = len(plan)
            for k, (i, o, kernel, step) in enumerate(plan, 1):
                setattr(self, f"conv{k}", nn.Conv2d(i, o, kernel, step, kernel // 2, bias=False))
                setattr(self, f"bn{k}", nn.BatchNorm2d(o))
            self.downsample = None
            if inputs != size or stride != 1:
                self.downsample = nn.Sequential(nn.Conv2d(inputs, size, 1, stride, bias=False), nn.BatchNorm2d(size))

        def forward(self, x: Any) -> Any:
            y = x
            for k in range(1, self.count + 1):
                y = getattr(self, f"bn{k}")(getattr(self, f"conv{k}")(y))
                y = y.relu() if k < self.count else y
            return (y + (x if self.downsample is None else self.downsample(x))).relu()

    first = config.embedding_size
    net: Any = nn.Module()
    net.conv1, net.bn1 = nn.Conv2d(config.num_channels, first, 7, 2, 3, bias=False), nn.BatchNorm2d(first)
    for k, (size, depth) in enumerate(zip(config.hidden_sizes, config.depths, strict=True), 1):
        blocks = [Block(first if j == 0 else size, size, 2 if k > 1 and j == 0 else 1) for j in range(depth)]
        setattr(net, f"layer{k}", nn.Sequential(*blocks))
        first = size
    net.fc = nn.Linear(first, len(config.labels))
    return net


@pytest.mark.parametrize("depth", [18, 50])
def test_torchvisions_state_dicts_fit(depth: int) -> None:
    config = models.ResNetConfig.of_depth(depth, labels=["a", "b", "c"])
    net = torchvision_resnet(config)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0.0, 0.1)
    ours = from_torch(models.ResNet(config, device=NumPy), net.state_dict())
    images = np.random.default_rng(0).normal(size=(1, 3, 40, 48)).astype(np.float32)
    x = torch.tensor(images)
    with torch.no_grad():
        net.eval()
        x = torch.nn.functional.max_pool2d(net.bn1(net.conv1(x)).relu(), 3, 2, 1)
        for k in range(1, 5):
            x = getattr(net, f"layer{k}")(x)
        expected = net.fc(x.mean((2, 3))).numpy()
    np.testing.assert_allclose(ours(Tensor[NumPy].from_data(images)).to_numpy(), expected, rtol=1e-4, atol=1e-4)
    names = set(net.state_dict())
    assert names - set(to_torch(ours)) <= {name for name in names if name.endswith("num_batches_tracked")}
