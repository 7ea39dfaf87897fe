"""Layers beside PyTorch's: values and gradients for the same weights, and the distributions that they begin with."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, Generator, IntTensor, Tensor, manual_seed
from burnpy import nn as ours
from burnpy.backend import NumPy
from burnpy.nn import functional as F  # noqa: N812  # PyTorch's name for it
from burnpy.nn import init
from burnpy.record import from_torch, to_torch

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytestmark = pytest.mark.filterwarnings(
    "ignore:.torch.jit:DeprecationWarning",
    "ignore:enable_nested_tensor",
    "ignore:Using padding=.same",
    "ignore:Lower right causal bias",
)

Train = Autodiff[NumPy]
RNG = np.random.default_rng(0)


def data(*shape: int) -> Any:
    return RNG.standard_normal(shape)


class Case(NamedTuple):
    """A layer of ours and PyTorch's, and what both are given."""

    mine: Callable[[], Any]
    other: Callable[[], Any]
    inputs: tuple[Any, ...]
    kwargs: dict[str, Any] = {}  # noqa: RUF012  # a default of a named tuple
    other_kwargs: dict[str, Any] = {}  # noqa: RUF012
    first: bool = False  #: whether PyTorch's gives a tuple, and only its first element is compared


D: dict[str, Any] = {"device": Train}
IMAGES = data(2, 4, 7, 6)
WORDS, MEMORY = data(2, 5, 8), data(2, 3, 8)
MASK = np.tril(np.ones((5, 5), bool))
PADDING = np.array([[True] * 5, [True] * 3 + [False] * 2])

CASES = {
    "linear": Case(lambda: ours.Linear(4, 3, **D), lambda: torch.nn.Linear(4, 3), (data(5, 4),)),
    "linear, 3-d": Case(lambda: ours.Linear(4, 3, **D), lambda: torch.nn.Linear(4, 3), (data(2, 5, 4),)),
    "linear, no bias": Case(
        lambda: ours.Linear(4, 3, bias=False, **D), lambda: torch.nn.Linear(4, 3, False), (data(4),)
    ),
    "conv2d": Case(lambda: ours.Conv2d(4, 6, 3, **D), lambda: torch.nn.Conv2d(4, 6, 3), (IMAGES,)),
    "conv2d, settings": Case(
        lambda: ours.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2, **D),
        lambda: torch.nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 2), (1, 2), 2),
        (IMAGES,),
    ),
    "conv2d, same": Case(
        lambda: ours.Conv2d(4, 6, (3, 4), padding="same", dilation=(2, 1), **D),
        lambda: torch.nn.Conv2d(4, 6, (3, 4), padding="same", dilation=(2, 1)),
        (IMAGES,),
    ),
    "conv2d, valid": Case(
        lambda: ours.Conv2d(4, 6, 3, padding="valid", **D),
        lambda: torch.nn.Conv2d(4, 6, 3, padding="valid"),
        (IMAGES,),
    ),
    "conv2d, no bias": Case(
        lambda: ours.Conv2d(4, 4, 1, groups=4, bias=False, **D),
        lambda: torch.nn.Conv2d(4, 4, 1, groups=4, bias=False),
        (IMAGES,),
    ),
    "max_pool2d": Case(lambda: ours.MaxPool2d(2), lambda: torch.nn.MaxPool2d(2), (IMAGES,)),
    "max_pool2d, settings": Case(
        lambda: ours.MaxPool2d(3, stride=(2, 1), padding=1, dilation=(1, 2), ceil_mode=True),
        lambda: torch.nn.MaxPool2d(3, (2, 1), 1, (1, 2), ceil_mode=True),
        (IMAGES,),
    ),
    "avg_pool2d": Case(lambda: ours.AvgPool2d(2), lambda: torch.nn.AvgPool2d(2), (IMAGES,)),
    "avg_pool2d, settings": Case(
        lambda: ours.AvgPool2d((3, 2), stride=2, padding=1, ceil_mode=True, count_include_pad=False),
        lambda: torch.nn.AvgPool2d((3, 2), 2, 1, True, False),
        (IMAGES,),
    ),
    "avg_pool2d, divisor": Case(
        lambda: ours.AvgPool2d(3, stride=2, padding=1, ceil_mode=True, divisor_override=-4),
        lambda: torch.nn.AvgPool2d(3, 2, 1, True, divisor_override=-4),
        (IMAGES,),
    ),
    "conv2d, one image": Case(
        lambda: ours.Conv2d(4, 6, (3, 2), padding=1, **D), lambda: torch.nn.Conv2d(4, 6, (3, 2), 1, 1), (IMAGES[0],)
    ),
    "conv2d, one image, same": Case(
        lambda: ours.Conv2d(4, 6, 2, padding="same", bias=False, **D),
        lambda: torch.nn.Conv2d(4, 6, 2, 1, "same", bias=False),
        (IMAGES[0],),
    ),
    "max_pool2d, one image": Case(lambda: ours.MaxPool2d(2), lambda: torch.nn.MaxPool2d(2), (IMAGES[0],)),
    "avg_pool2d, one image": Case(lambda: ours.AvgPool2d(2), lambda: torch.nn.AvgPool2d(2), (IMAGES[0],)),
    "adaptive_avg_pool2d, one image": Case(
        lambda: ours.AdaptiveAvgPool2d(3), lambda: torch.nn.AdaptiveAvgPool2d(3), (IMAGES[0],)
    ),
    "adaptive_avg_pool2d": Case(
        lambda: ours.AdaptiveAvgPool2d((3, 4)), lambda: torch.nn.AdaptiveAvgPool2d((3, 4)), (IMAGES,)
    ),
    "batch_norm, images": Case(lambda: ours.BatchNorm(4, **D), lambda: torch.nn.BatchNorm2d(4), (IMAGES,)),
    "batch_norm, vectors": Case(
        lambda: ours.BatchNorm(4, eps=1e-3, **D), lambda: torch.nn.BatchNorm1d(4, 1e-3), (data(6, 4),)
    ),
    "batch_norm, not affine": Case(
        lambda: ours.BatchNorm(4, affine=False, **D), lambda: torch.nn.BatchNorm1d(4, affine=False), (data(6, 4, 3),)
    ),
    "batch_norm, untracked statistics": Case(
        lambda: ours.BatchNorm(4, track_running_stats=False, **D).eval(),
        lambda: torch.nn.BatchNorm1d(4, track_running_stats=False).eval(),
        (data(6, 4, 3),),
    ),
    "batch_norm, in use": Case(
        lambda: ours.BatchNorm(4, **D).eval(), lambda: torch.nn.BatchNorm2d(4).eval(), (IMAGES,)
    ),
    "layer_norm": Case(lambda: ours.LayerNorm(4, **D), lambda: torch.nn.LayerNorm(4), (data(3, 5, 4),)),
    "layer_norm, 2 dims, no bias": Case(
        lambda: ours.LayerNorm((5, 4), eps=1e-3, bias=False, **D),
        lambda: torch.nn.LayerNorm((5, 4), 1e-3, bias=False),
        (data(3, 5, 4),),
    ),
    "dropout, in use": Case(lambda: ours.Dropout().eval(), lambda: torch.nn.Dropout().eval(), (data(3, 4),)),
    "flatten": Case(lambda: ours.Flatten(), lambda: torch.nn.Flatten(), (IMAGES,)),
    "gelu": Case(lambda: ours.Gelu(), lambda: torch.nn.GELU(), (IMAGES,)),
    "gelu, tanh": Case(lambda: ours.Gelu("tanh"), lambda: torch.nn.GELU("tanh"), (IMAGES,)),
    "softmax": Case(lambda: ours.Softmax(1), lambda: torch.nn.Softmax(1), (data(3, 4),)),
    "log_softmax": Case(lambda: ours.LogSoftmax(), lambda: torch.nn.LogSoftmax(-1), (data(3, 4),)),
    "softplus": Case(lambda: ours.Softplus(2.0), lambda: torch.nn.Softplus(2.0), (data(3, 4),)),
    "relu": Case(lambda: ours.Relu(), lambda: torch.nn.ReLU(), (data(3, 4),)),
    "silu": Case(lambda: ours.Silu(), lambda: torch.nn.SiLU(), (data(3, 4),)),
    "tanh, sigmoid": Case(
        lambda: ours.Sequential(ours.Tanh(), ours.Sigmoid(), ours.Identity()),
        lambda: torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Sigmoid()),
        (data(3, 4),),
    ),
    "sequential": Case(
        lambda: ours.Sequential(ours.Linear(4, 5, **D), ours.Tanh(), ours.Linear(5, 2, **D)),
        lambda: torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)),
        (data(3, 4),),
    ),
    "embedding": Case(
        lambda: ours.Embedding(5, 3, padding_idx=-1, **D),
        lambda: torch.nn.Embedding(5, 3, padding_idx=-1),
        (np.array([[1, 4, 0], [1, 1, 2]]),),
    ),
    "attention to itself": Case(
        lambda: ours.MultiHeadAttention(8, 2, **D),
        lambda: torch.nn.MultiheadAttention(8, 2, batch_first=True),
        (WORDS,),
        {},
        {"repeat": 3},
        True,
    ),
    "attention to others": Case(
        lambda: ours.MultiHeadAttention(8, 4, **D),
        lambda: torch.nn.MultiheadAttention(8, 4, batch_first=True),
        (WORDS, MEMORY, data(2, 3, 8)),
        first=True,
    ),
    "attention, masks": Case(
        lambda: ours.MultiHeadAttention(8, 2, bias=False, **D),
        lambda: torch.nn.MultiheadAttention(8, 2, bias=False, batch_first=True),
        (WORDS,),
        {"mask": MASK, "key_mask": PADDING},
        {"repeat": 3, "attn_mask": ~MASK, "key_padding_mask": ~PADDING},
        True,
    ),
    "attention, causal": Case(
        lambda: ours.MultiHeadAttention(8, 2, **D),
        lambda: torch.nn.MultiheadAttention(8, 2, batch_first=True),
        (WORDS,),
        {"causal": True},
        {"repeat": 3, "attn_mask": ~MASK},
        True,
    ),
    "attention, added mask": Case(
        lambda: ours.MultiHeadAttention(8, 2, **D),
        lambda: torch.nn.MultiheadAttention(8, 2, batch_first=True),
        (WORDS,),
        {"mask": np.where(MASK, 0.5, -np.inf), "key_mask": PADDING},
        {
            "repeat": 3,
            "attn_mask": np.where(MASK, 0.5, -np.inf),
            "key_padding_mask": np.where(PADDING, 0.0, -np.inf),
        },
        True,
    ),
    "transformer layer": Case(
        lambda: ours.TransformerEncoderLayer(8, 2, feedforward=12, dropout=0.0, **D),
        lambda: torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True),
        (WORDS,),
        {"mask": MASK},
        {"src_mask": ~MASK},
    ),
    "transformer layer, norm first, gelu": Case(
        lambda: ours.TransformerEncoderLayer(8, 2, feedforward=12, activation="gelu", norm_first=True, **D).eval(),
        lambda: torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", batch_first=True, norm_first=True),
        (WORDS,),
        {"key_mask": PADDING},
        {"src_key_padding_mask": ~PADDING},
    ),
    "transformer": Case(
        lambda: ours.TransformerEncoder(2, 8, 2, feedforward=12, dropout=0.0, norm=True, **D),
        lambda: torch.nn.TransformerEncoder(
            torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True), 2, torch.nn.LayerNorm(8)
        ),
        (WORDS,),
    ),
    "decoder layer": Case(
        lambda: ours.TransformerDecoderLayer(8, 2, feedforward=12, dropout=0.0, **D),
        lambda: torch.nn.TransformerDecoderLayer(8, 2, 12, 0.0, batch_first=True),
        (WORDS, MEMORY),
        {"mask": MASK, "key_mask": PADDING},
        {"tgt_mask": ~MASK, "tgt_key_padding_mask": ~PADDING},
    ),
    "decoder, norm first, gelu": Case(
        lambda: ours.TransformerDecoder(
            2, 8, 2, feedforward=12, dropout=0.0, activation="gelu", norm_first=True, norm=True, **D
        ),
        lambda: torch.nn.TransformerDecoder(
            torch.nn.TransformerDecoderLayer(8, 2, 12, 0.0, "gelu", batch_first=True, norm_first=True),
            2,
            torch.nn.LayerNorm(8),
        ),
        (WORDS, MEMORY),
        {"causal": True, "memory_key_mask": PADDING[:, 2:], "memory_mask": MASK[:, :3]},
        {"tgt_mask": ~MASK, "memory_key_padding_mask": ~PADDING[:, 2:], "memory_mask": ~MASK[:, :3]},
    ),
    "lstm": Case(lambda: ours.Lstm(8, 3, **D), lambda: torch.nn.LSTM(8, 3, batch_first=True), (WORDS,)),
    "lstm, both ways, 2 layers": Case(
        lambda: ours.Lstm(8, 3, count=2, bidirectional=True, **D),
        lambda: torch.nn.LSTM(8, 3, 2, batch_first=True, bidirectional=True),
        (WORDS,),
    ),
    "lstm, no bias": Case(
        lambda: ours.Lstm(8, 3, bias=False, **D), lambda: torch.nn.LSTM(8, 3, bias=False, batch_first=True), (WORDS,)
    ),
    "lstm, projected, both ways, 2 layers": Case(
        lambda: ours.Lstm(8, 3, proj_size=2, count=2, bidirectional=True, **D),
        lambda: torch.nn.LSTM(8, 3, 2, batch_first=True, bidirectional=True, proj_size=2),
        (WORDS,),
    ),
    "gru": Case(lambda: ours.Gru(8, 3, **D), lambda: torch.nn.GRU(8, 3, batch_first=True), (WORDS,)),
    "gru, both ways, 2 layers": Case(
        lambda: ours.Gru(8, 3, count=2, bidirectional=True, **D),
        lambda: torch.nn.GRU(8, 3, 2, batch_first=True, bidirectional=True),
        (WORDS, data(4, 2, 3)),
    ),
    "gru, no bias": Case(
        lambda: ours.Gru(8, 3, bias=False, **D), lambda: torch.nn.GRU(8, 3, bias=False, batch_first=True), (WORDS,)
    ),
    "rnn": Case(lambda: ours.Rnn(8, 3, **D), lambda: torch.nn.RNN(8, 3, batch_first=True), (WORDS,)),
    "rnn, relu, both ways, 2 layers": Case(
        lambda: ours.Rnn(8, 3, nonlinearity="relu", count=2, bidirectional=True, **D),
        lambda: torch.nn.RNN(8, 3, 2, "relu", batch_first=True, bidirectional=True),
        (WORDS, data(4, 2, 3)),
    ),
    "lstm cell": Case(lambda: ours.LstmCell(8, 3, **D), lambda: torch.nn.LSTMCell(8, 3), (WORDS[0],)),
    "gru cell": Case(lambda: ours.GruCell(8, 3, **D), lambda: torch.nn.GRUCell(8, 3), (WORDS[0], data(5, 3))),
    "gru cell, one vector": Case(
        lambda: ours.GruCell(8, 3, bias=False, **D), lambda: torch.nn.GRUCell(8, 3, False), (WORDS[0, 0], data(3))
    ),
    "rnn cell": Case(lambda: ours.RnnCell(8, 3, **D), lambda: torch.nn.RNNCell(8, 3), (WORDS[0], data(5, 3))),
}


def path_of(name: str) -> str:
    """Where we have what PyTorch calls ``name``."""
    found = re.fullmatch(r"(weight|bias)_(ih|hh|hr)_l(\d+)(_reverse)?", name)
    return f"layers.{found[3]}.{int(found[4] is not None)}.{found[1]}_{found[2]}" if found else name


def laid_out(model: Any, path: str, array: Any) -> Any:
    """PyTorch's array in our layout."""
    owner = model.named_modules().get(path.rpartition(".")[0], model)
    return (
        array.T if array.ndim == 2 and not isinstance(owner, (ours.Embedding, ours.LayerNorm, ours.RmsNorm)) else array
    )


def pair(case: Case) -> tuple[Any, Any]:
    """The two layers with the same weights, which all differ, in float64."""
    torch.manual_seed(0)
    other = case.other().double()
    for k, p in enumerate(other.parameters()):
        with torch.no_grad():
            p.copy_(torch.from_numpy(np.random.default_rng(k).standard_normal(p.shape) * 0.5))
    for k, b in enumerate(other.buffers()):
        if b.dtype.is_floating_point:
            b.copy_(torch.from_numpy(np.random.default_rng(k).uniform(0.5, 2.0, b.shape)))
    mine = case.mine()
    state = {path_of(name): laid_out(mine, path_of(name), x.detach().numpy()) for name, x in other.state_dict().items()}
    return other, mine.astype("float64").with_state(state)


def as_ours(x: Any) -> Any:
    if x.dtype == bool:
        return BoolTensor[Train].from_data(x)
    return IntTensor[Train].from_data(x) if x.dtype.kind == "i" else Tensor[Train].from_data(x).require_grad()


def weighed(outputs: list[Any], weights: list[Any], made: Callable[[Any], Any]) -> Any:
    total: Any = 0.0
    for out, w in zip(outputs, weights, strict=True):
        total = (out * made(w)).sum() + total
    return total


def flat(outputs: Any) -> list[Any]:
    if isinstance(outputs, (tuple, list)):
        return [x for part in outputs for x in flat(part)]
    return [outputs]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_values_and_gradients(case: Case) -> None:
    other, mine = pair(case)
    other_kwargs = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in case.other_kwargs.items()}
    given = [torch.from_numpy(x).requires_grad_(x.dtype.kind == "f") for x in case.inputs]
    theirs = flat(other(*given * other_kwargs.pop("repeat", 1), **other_kwargs))[: 1 if case.first else None]
    inputs = [as_ours(x) for x in case.inputs]
    found = flat(mine(*inputs, **{k: as_ours(v) if isinstance(v, np.ndarray) else v for k, v in case.kwargs.items()}))
    weights = [np.random.default_rng(9).standard_normal(tuple(out.shape)) for out in theirs]
    for a, b in zip(found, theirs, strict=True):
        np.testing.assert_allclose(a.to_numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)

    weighed(theirs, weights, torch.from_numpy).backward()
    grads = weighed(found, weights, Tensor[Train].from_data).backward()
    for a, b in zip(inputs, given, strict=True):
        if b.requires_grad:
            np.testing.assert_allclose(grads[a].to_numpy(), b.grad.numpy(), rtol=1e-9, atol=1e-11)
    params = mine.named_params()
    names = dict(other.named_parameters())
    assert {path_of(name) for name in names} == set(params)
    for name, p in names.items():
        expected = laid_out(mine, path_of(name), p.grad.numpy())
        np.testing.assert_allclose(
            grads[params[path_of(name)].value].to_numpy(), expected, rtol=1e-9, atol=1e-11, err_msg=name
        )


@pytest.mark.parametrize(
    "name", [name for name in CASES if re.match("lstm|gru|rnn|attention|transformer|decoder", name)]
)
def test_pytorchs_weights_are_loaded_by_their_names(name: str) -> None:
    other, mine = pair(CASES[name])
    loaded = from_torch(CASES[name].mine().astype("float64"), other.state_dict())
    for path, param in mine.named_params().items():
        np.testing.assert_array_equal(
            loaded.named_params()[path].value.to_numpy(), param.value.to_numpy(), err_msg=path
        )
    exported = {key: torch.from_numpy(array) for key, array in to_torch(loaded).items()}
    other.load_state_dict(exported, strict=True)


@pytest.mark.parametrize("momentum", [0.1, 0.5, None])
def test_running_statistics_step_by_step(momentum: float | None) -> None:
    other = torch.nn.BatchNorm1d(3, momentum=momentum).double()
    mine: Any = ours.BatchNorm(3, momentum=momentum, **D).astype("float64")
    for _ in range(4):
        x = data(5, 3)
        other(torch.from_numpy(x))
        grads = mine(Tensor[Train].from_data(x)).sum().backward()
        mine = ours.stepped(mine, {}, grads.buffer_updates)
        for name, expected in other.named_buffers():
            found = mine.named_buffers()[name].value.to_numpy()
            np.testing.assert_allclose(found, expected.numpy(), rtol=1e-12, err_msg=name)
    x = data(4, 3)
    found = mine.valid()(Tensor[NumPy].from_data(x)).to_numpy()
    np.testing.assert_allclose(found, other.eval()(torch.from_numpy(x)).detach().numpy(), rtol=1e-12)


def test_running_statistics_of_instances_step_by_step() -> None:
    other = torch.nn.InstanceNorm2d(3, momentum=0.3, affine=True, track_running_stats=True).double()
    mine: Any = ours.InstanceNorm(3, momentum=0.3, affine=True, track_running_stats=True, **D).astype("float64")
    for _ in range(3):
        x = data(5, 3, 4, 2)
        expected = other(torch.from_numpy(x)).detach().numpy()
        y = mine(Tensor[Train].from_data(x))
        np.testing.assert_allclose(y.to_numpy(), expected, rtol=1e-10, atol=1e-12)
        mine = ours.stepped(mine, {}, y.sum().backward().buffer_updates)
        for name in ("running_mean", "running_var"):
            found = mine.named_buffers()[name].value.to_numpy()
            np.testing.assert_allclose(found, getattr(other, name).numpy(), rtol=1e-12, err_msg=name)
    x = data(4, 3, 2, 2)
    found = mine.valid()(Tensor[NumPy].from_data(x)).to_numpy()
    np.testing.assert_allclose(found, other.eval()(torch.from_numpy(x)).detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("lengths", [None, [2, 4]])
@pytest.mark.parametrize(
    ("case", "size"), [("lstm, both ways, 2 layers", 3), ("lstm, projected, both ways, 2 layers", 2)]
)
def test_lstm_begins_where_it_is_told(case: str, size: int, lengths: Any) -> None:
    other, mine = pair(CASES[case])
    hidden, cell, x = data(4, 2, size), data(4, 2, 3), torch.from_numpy(WORDS)
    rnn = torch.nn.utils.rnn
    if lengths is not None:
        x = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, (h, c) = other(x, (torch.from_numpy(hidden), torch.from_numpy(cell)))
    if lengths is not None:
        expected = rnn.pad_packed_sequence(expected, batch_first=True, total_length=5)[0]
    found, state = mine(as_ours(WORDS), ours.LstmState(as_ours(hidden), as_ours(cell)), lengths=lengths)
    for a, b in ((found, expected), (state.hidden, h), (state.cell, c)):
        np.testing.assert_allclose(a.to_numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "case", ["lstm, both ways, 2 layers", "lstm, projected, both ways, 2 layers", "gru, both ways, 2 layers", "rnn"]
)
def test_recurrent_layers_over_lengths(case: str) -> None:
    other, mine = pair(CASES[case])
    x, x_ = as_ours(WORDS), torch.from_numpy(WORDS).requires_grad_()
    rnn = torch.nn.utils.rnn
    packed, last_ = other(rnn.pack_padded_sequence(x_, [2, 4], batch_first=True, enforce_sorted=False))
    out_ = rnn.pad_packed_sequence(packed, batch_first=True, total_length=5)[0]
    out, last = mine(x, lengths=[2, 4])
    for a, b in zip(flat((out, last)), flat((out_, last_)), strict=True):
        np.testing.assert_allclose(a.to_numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)
    total_ = (out_**3).sum() + sum((part**3).sum() for part in flat(last_))
    total = (out**3).sum() + sum((part**3).sum() for part in flat(last))
    np.testing.assert_allclose(
        total.backward()[x].to_numpy(), torch.autograd.grad(total_, x_)[0].numpy(), rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("mask", ["none", "bool", "float", "nothing allowed"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_function(mask: str, causal: bool) -> None:
    q, k, v = data(2, 3, 4, 5), data(2, 3, 4, 5), data(2, 3, 4, 6)
    some = np.random.default_rng(2).uniform(size=(4, 4)) > 0.4
    some[:, 0] = mask != "nothing allowed"
    some[2] &= mask != "nothing allowed"
    chosen = {"none": None, "bool": some, "float": np.where(some, 0.3, -2.0), "nothing allowed": some}[mask]
    allowed = None if chosen is None else chosen
    if causal and chosen is not None:
        tril = np.tril(np.ones((4, 4), bool))
        allowed = chosen & tril if chosen.dtype == bool else np.where(tril, chosen, -np.inf)
    given = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(
        *given, None if allowed is None else torch.from_numpy(allowed), is_causal=causal and chosen is None, scale=0.7
    )
    expected = torch.nan_to_num(expected)
    inputs = [as_ours(x) for x in (q, k, v)]
    added = None if chosen is None else as_ours(chosen).detach()
    found = F.scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], added, causal=causal, scale=0.7)
    np.testing.assert_allclose(found.to_numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    if mask != "nothing allowed":
        expected.sum().backward()
        grads = found.sum().backward()
        for a, b in zip(inputs, given, strict=True):
            np.testing.assert_allclose(grads[a].to_numpy(), b.grad.numpy(), rtol=1e-9, atol=1e-11)
    else:
        assert all(np.isfinite(g.to_numpy()).all() for g in found.sum().backward().values())


@pytest.mark.parametrize("mask", ["none", "causal", "one for all heads", "one for each head"])
def test_attention_of_groups(mask: str) -> None:
    q, k, v = data(2, 6, 4, 5), data(2, 2, 4, 5), data(2, 2, 4, 3)
    shape = (2, 6, 4, 4) if mask == "one for each head" else (2, 1, 4, 4)
    chosen = data(*shape) if mask.startswith("one") else None
    given = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    added = None if chosen is None else torch.from_numpy(chosen)
    expected = torch.nn.functional.scaled_dot_product_attention(
        *given, added, is_causal=mask == "causal", enable_gqa=True
    )
    inputs = [as_ours(x) for x in (q, k, v)]
    ours_mask = None if chosen is None else as_ours(chosen).detach()
    found = F.scaled_dot_product_attention(
        inputs[0], inputs[1], inputs[2], ours_mask, causal=mask == "causal", enable_gqa=True
    )
    np.testing.assert_allclose(found.to_numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    grads = (found**2).sum().backward()
    for a, b in zip(inputs, torch.autograd.grad((expected**2).sum(), given), strict=True):
        np.testing.assert_allclose(grads[a].to_numpy(), b.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("queries", "keys"), [(1, 5), (2, 5), (5, 2), (3, 3)])
def test_causal_attention_of_fewer_or_more_queries_than_keys(queries: int, keys: int) -> None:
    """PyTorch's two ways to say where the queries stand: at the first places, or at the last."""
    bias = importlib.import_module("torch.nn.attention.bias")
    q, k, v = data(2, queries, 4), data(2, keys, 4), data(2, keys, 3)
    for made, offset in ((bias.causal_upper_left, 0), (bias.causal_lower_right, keys - queries)):
        given = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
        mask = made(queries, keys)._materialize()
        expected = torch.nn.functional.scaled_dot_product_attention(*given, mask)
        inputs = [as_ours(x) for x in (q, k, v)]
        for dtype in (None, "float64"):  # the dtype of sums: the fused operation, and the composed one
            zeros = None if dtype is None else Tensor.zeros((queries, keys), dtype=dtype, device=Train)
            found = F.scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], zeros, causal=True, offset=offset)
            np.testing.assert_allclose(
                found.to_numpy(), np.nan_to_num(expected.detach().numpy()), rtol=1e-10, atol=1e-12
            )
            if mask.any(-1).all():
                grads = found.sum().backward()
                wanted = torch.autograd.grad(expected.sum(), given, retain_graph=True)
                for a, b in zip(inputs, wanted, strict=True):
                    np.testing.assert_allclose(grads[a].to_numpy(), b.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", range(int(os.environ.get("BURNPY_LONG_TESTS", "20"))))
def test_indices_of_the_largest(seed: int) -> None:
    """Of many ties; PyTorch takes the last of several NaN, and here is one at most."""
    rng = np.random.default_rng(seed)
    shape = (2, 3, *map(int, rng.integers(3, 9, 2)))
    x = rng.integers(-2, 3, shape).astype("float64")
    if seed % 3 == 1:
        x[0, 1, 1, 1] = np.nan
    if seed % 3 == 2:
        x[:, :, :2] = -np.inf
    kernel = tuple(map(int, rng.integers(1, 4, 2)))
    padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel)
    stride, dilation = (tuple(map(int, rng.integers(1, 3, 2))) for _ in range(2))
    if any(d * (k - 1) + 1 > n + 2 * p for d, k, n, p in zip(dilation, kernel, shape[2:], padding, strict=True)):
        dilation = (1, 1)
    ceil_mode = bool(rng.integers(2))
    if seed % 2:
        x = x[0]
    given = torch.from_numpy(x).requires_grad_()
    expected, places = torch.nn.functional.max_pool2d(
        given, kernel, stride, padding, dilation, ceil_mode, return_indices=True
    )
    mine = as_ours(x)
    found, indices = F.max_pool2d(
        mine, kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode, return_indices=True
    )
    np.testing.assert_array_equal(found.to_numpy(), expected.detach().numpy())
    np.testing.assert_array_equal(indices.to_numpy(), places.numpy())
    np.testing.assert_array_equal(
        mine.flatten(-2).gather(-1, indices.flatten(-2)).to_numpy(), found.flatten(-2).to_numpy()
    )
    expected.sum().backward()
    np.testing.assert_array_equal(found.sum().backward()[mine].to_numpy(), given.grad.numpy())


LAYERS = {
    "linear": (lambda g: ours.Linear(300, 200, device=NumPy, generator=g), lambda: torch.nn.Linear(300, 200)),
    "conv2d": (
        lambda g: ours.Conv2d(40, 60, 3, groups=2, device=NumPy, generator=g),
        lambda: torch.nn.Conv2d(40, 60, 3, groups=2),
    ),
    "embedding": (
        lambda g: ours.Embedding(300, 100, padding_idx=1, device=NumPy, generator=g),
        lambda: torch.nn.Embedding(300, 100, padding_idx=1),
    ),
    "attention": (
        lambda g: ours.MultiHeadAttention(120, 2, device=NumPy, generator=g),
        lambda: torch.nn.MultiheadAttention(120, 2),
    ),
    "lstm": (lambda g: ours.Lstm(100, 80, device=NumPy, generator=g), lambda: torch.nn.LSTM(100, 80)),
    "gru": (lambda g: ours.Gru(100, 80, device=NumPy, generator=g), lambda: torch.nn.GRU(100, 80)),
    "rnn cell": (lambda g: ours.RnnCell(100, 80, device=NumPy, generator=g), lambda: torch.nn.RNNCell(100, 80)),
    "batch_norm": (lambda g: ours.BatchNorm(5, device=NumPy), lambda: torch.nn.BatchNorm1d(5)),
    "layer_norm": (lambda g: ours.LayerNorm(5, device=NumPy), lambda: torch.nn.LayerNorm(5)),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
def test_first_values_have_the_same_distribution(make: Any) -> None:
    torch.manual_seed(0)
    mine, other = make[0](Generator(0)), make[1]()
    params = mine.named_params()
    for name, p in other.named_parameters():
        same_distribution(params[path_of(name)].value.to_numpy(), p.detach().numpy(), name)


INITIALIZERS: dict[str, tuple[init.Initializer, Callable[[Any], Any]]] = {
    "kaiming_uniform": (init.KaimingUniform(), lambda w: torch.nn.init.kaiming_uniform_(w)),
    "kaiming_uniform, fan_out": (
        init.KaimingUniform(init.gain("leaky_relu", 0.2), "fan_out"),
        lambda w: torch.nn.init.kaiming_uniform_(w, 0.2, "fan_out"),
    ),
    "kaiming_normal": (
        init.KaimingNormal(init.gain("tanh")),
        lambda w: torch.nn.init.kaiming_normal_(w, nonlinearity="tanh"),
    ),
    "xavier_uniform": (init.XavierUniform(2.0), lambda w: torch.nn.init.xavier_uniform_(w, 2.0)),
    "xavier_normal": (init.XavierNormal(), lambda w: torch.nn.init.xavier_normal_(w)),
    "uniform": (init.Uniform(-2.0, 1.0), lambda w: torch.nn.init.uniform_(w, -2.0, 1.0)),
    "normal": (init.Normal(1.0, 0.1), lambda w: torch.nn.init.normal_(w, 1.0, 0.1)),
    "truncated_normal": (
        init.TruncatedNormal(1.0, 2.0, 0.0, 3.0),
        lambda w: torch.nn.init.trunc_normal_(w, 1.0, 2.0, 0.0, 3.0),
    ),
    "orthogonal": (init.Orthogonal(1.5), lambda w: torch.nn.init.orthogonal_(w, 1.5)),
    "zeros": (init.Zeros(), torch.nn.init.zeros_),
    "ones": (init.Ones(), torch.nn.init.ones_),
    "constant": (init.Constant(0.3), lambda w: torch.nn.init.constant_(w, 0.3)),
}


@pytest.mark.parametrize("shape", [(200, 120), (40, 30, 3, 5)], ids=str)
@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers_have_the_same_distribution(name: str, shape: tuple[int, ...]) -> None:
    mine, other = INITIALIZERS[name]
    torch.manual_seed(1)
    theirs = other(torch.empty(shape)).numpy()
    fans = (shape[1], shape[0]) if len(shape) == 2 else None  # PyTorch has matrices the other way round
    found = mine(shape, device=NumPy, fans=fans, generator=Generator(1)).to_numpy()
    same_distribution(found, theirs, name)


def same_distribution(mine: Any, other: Any, name: str) -> None:
    """By the Kolmogorov-Smirnov distance, and by the extremes if the values are bounded."""
    a, b = np.sort(mine.reshape(-1)), np.sort(other.reshape(-1))
    assert a.size == b.size, name
    if a.size < 1000 and a.min() == a.max():
        np.testing.assert_array_equal(a, b, err_msg=name)
        return
    at = np.concatenate([a, b])
    distance = np.abs(np.searchsorted(a, at, "right") / a.size - np.searchsorted(b, at, "right") / b.size).max()
    assert distance < 2.2 * np.sqrt(2 / a.size), f"{name}: {distance}"
    assert a.std() == pytest.approx(b.std(), rel=0.05 if a.size > 1000 else 0.3, abs=1e-7), name


def test_dropout_keeps_as_many_and_the_mean() -> None:
    manual_seed(0)
    x = Tensor[Train].ones((200, 200)).require_grad()
    out = ours.Dropout(0.3)(x)
    kept = out.to_numpy() != 0
    assert abs(kept.mean() - 0.7) < 0.01
    np.testing.assert_allclose(out.to_numpy()[kept], 1 / 0.7, rtol=1e-6)
    np.testing.assert_array_equal(out.sum().backward()[x].to_numpy(), out.to_numpy())
