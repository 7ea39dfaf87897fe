"""Layers match their formulas in training mode and eval mode, and report errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, Generator, IntTensor, Tensor, manual_seed
from burnpy.autodiff import checkpoint
from burnpy.backend import NumPy
from burnpy.backend.errors import (
    ArgumentError,
    BurnpyError,
    DeviceError,
    DTypeError,
    IndexRangeError,
    KindError,
    ShapeError,
)
from burnpy.nn import (
    AdaptiveAvgPool2d,
    AvgPool2d,
    BatchNorm,
    BceWithLogitsLoss,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Embedding,
    Flatten,
    Gru,
    GruCell,
    LayerNorm,
    Linear,
    Lstm,
    LstmCell,
    LstmState,
    MaxPool2d,
    MseLoss,
    MultiHeadAttention,
    NllLoss,
    PositionalEncoding,
    Relu,
    Rnn,
    RnnCell,
    Sequential,
    TransformerEncoder,
    TransformerEncoderLayer,
    init,
)
from burnpy.nn import functional as F  # noqa: N812  # PyTorch's name for it
from burnpy.nn.module_state import flatten_module, unflatten_module
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

Train = Autodiff[NumPy]
D: Any = {"device": Train}
WRONG: Any = 3


def drawn(*shape: int, device: Any = Train, seed: int = 0) -> Tensor[Any]:
    return Tensor.normal(shape, generator=Generator(seed), device=device)


def test_linear_is_a_product_and_a_sum() -> None:
    layer, x = Linear(3, 2, **D), drawn(4, 3)
    expected = x.to_numpy() @ layer.weight.value.to_numpy() + layer.bias.value.to_numpy()  # type: ignore[union-attr]
    np.testing.assert_allclose(layer(x).to_numpy(), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(layer(x[0]).to_numpy(), expected[0], rtol=1e-6, atol=1e-6)


def test_conv2d_is_a_sum_over_windows() -> None:
    layer, x = Conv2d(2, 3, (2, 3), stride=(1, 2), padding=(1, 0), **D), drawn(2, 2, 4, 5)
    padded = np.pad(x.to_numpy(), ((0, 0), (0, 0), (1, 1), (0, 0)))
    weight, bias = layer.weight.value.to_numpy(), layer.bias.value.to_numpy()  # type: ignore[union-attr]
    expected = np.zeros((2, 3, 5, 2))
    for n, o, i, j in np.ndindex(expected.shape):
        expected[n, o, i, j] = (padded[n, :, i : i + 2, 2 * j : 2 * j + 3] * weight[o]).sum() + bias[o]
    np.testing.assert_allclose(layer(x).to_numpy(), expected, rtol=1e-5, atol=1e-6)


def test_pools_are_of_windows() -> None:
    x = drawn(2, 3, 4, 6)
    windows = x.to_numpy().reshape(2, 3, 2, 2, 3, 2)
    np.testing.assert_allclose(MaxPool2d(2)(x).to_numpy(), windows.max((3, 5)))
    np.testing.assert_allclose(AvgPool2d(2)(x).to_numpy(), windows.mean((3, 5)), rtol=1e-5, atol=1e-7)
    means = AdaptiveAvgPool2d(1)(x).to_numpy()
    np.testing.assert_allclose(means[..., 0, 0], x.to_numpy().mean((2, 3)), rtol=1e-4, atol=1e-7)


def test_embedding_picks_rows_and_padding_has_no_gradient() -> None:
    layer = Embedding(4, 2, padding_idx=1, **D)
    index = IntTensor[Train].from_data([[1, 3], [3, 0]])
    out = layer(index)
    assert out.tolist() == layer.weight.value.to_numpy()[index.to_numpy()].tolist()
    assert layer.weight.value[1].tolist() == [0.0, 0.0]
    assert out.sum().backward()[layer.weight.value].tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [2.0, 2.0]]


def test_dropout_follows_the_device_and_the_override() -> None:
    x = Tensor[Train].ones((1000,))
    manual_seed(0)
    assert set(Dropout(0.5)(x).tolist()) == {0.0, 2.0}
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(1.0)(x).tolist() == [0.0] * 1000
    assert Dropout(0.5)(x.inner()) is not None
    assert Dropout(0.5)(x.inner()).tolist() == [1.0] * 1000
    assert set(Dropout(0.5).train()(x.inner()).tolist()) == {0.0, 2.0}
    model = Sequential(Linear(2, 2, **D), Dropout(0.5))
    assert model.valid()(Tensor[NumPy].ones((3, 2))).tolist() == model[0].valid()(Tensor[NumPy].ones((3, 2))).tolist()


def test_dropout_draws_from_its_generator() -> None:
    x = Tensor[Train].ones((50,))
    one, two = (Dropout(0.5, generator=Generator(3))(x).tolist() for _ in range(2))
    assert one == two != Dropout(0.5, generator=Generator(4))(x).tolist()


def test_dropout_in_a_checkpoint_is_the_same_twice() -> None:
    layer, x = Linear(6, 6, **D), drawn(4, 6)
    model = Sequential(layer, Dropout(0.5), Relu())
    manual_seed(1)
    plain = model(x).sum().backward()[layer.weight.value]
    manual_seed(1)
    again = checkpoint(model, x).sum().backward()[layer.weight.value]
    assert plain.tolist() == again.tolist()


def test_attention_by_hand() -> None:
    layer, x = MultiHeadAttention(6, 2, **D).astype("float64"), drawn(2, 4, 6).double()
    q, k, v = np.split(x.to_numpy() @ layer.in_proj_weight.value.to_numpy(), 3, 2)
    heads = []
    for h in range(2):
        part = slice(3 * h, 3 * h + 3)
        scores = q[..., part] @ k[..., part].swapaxes(1, 2) / np.sqrt(3)
        weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        heads.append(weights @ v[..., part])
    expected = np.concatenate(heads, 2) @ layer.out_proj.weight.value.to_numpy()
    np.testing.assert_allclose(layer(x).to_numpy(), expected, rtol=1e-9, atol=1e-12)


def test_attention_sees_what_masks_allow() -> None:
    layer, x = MultiHeadAttention(4, 2, **D), drawn(1, 3, 4)
    there = BoolTensor[Train].from_data([[True, True, False]])
    np.testing.assert_allclose(
        layer(x, key_mask=there).to_numpy()[:, :2], layer(x[:, :2]).to_numpy(), rtol=1e-5, atol=1e-6
    )
    causal = layer(x, causal=True).to_numpy()
    np.testing.assert_allclose(causal[:, :1], layer(x[:, :1]).to_numpy(), rtol=1e-5, atol=1e-6)
    mask = BoolTensor[Train].ones((3, 3)).tril()
    np.testing.assert_allclose(causal, layer(x, mask=mask).to_numpy(), rtol=1e-5, atol=1e-6)
    nothing = layer(x, key_mask=BoolTensor[Train].zeros((1, 3)))
    assert nothing.tolist() == [[[0.0] * 4] * 3], "the bias is 0 at first"


def test_attention_drops_weights_in_training_only() -> None:
    layer, x = MultiHeadAttention(4, 2, dropout=0.5, **D), drawn(2, 8, 4)
    assert layer(x).tolist() != layer(x).tolist()
    used = layer.eval()
    assert used(x).tolist() == used(x).tolist() == layer.valid()(x.inner()).tolist()


def test_a_transformer_is_causal_throughout() -> None:
    model = TransformerEncoder(2, 8, 2, feedforward=16, norm_first=True, **D).eval()
    x = drawn(1, 6, 8)
    whole, part = model(x, causal=True).to_numpy(), model(x[:, :4], causal=True).to_numpy()
    np.testing.assert_allclose(whole[:, :4], part, rtol=1e-4, atol=1e-5)
    assert "layers.1.self_attn.in_proj_weight" in model.named_params()
    assert model.layers[0].linear1.weight.value.tolist() != model.layers[1].linear1.weight.value.tolist()


def test_an_lstm_carries_its_state_on() -> None:
    layer, x = Lstm(3, 4, count=2, **D), drawn(2, 6, 3)
    whole, last = layer(x)
    first, state = layer(x[:, :2])
    second, end = layer(x[:, 2:], state)
    np.testing.assert_allclose(whole[:, :2].to_numpy(), first.to_numpy(), rtol=1e-5)
    np.testing.assert_allclose(whole[:, 2:].to_numpy(), second.to_numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last.cell.to_numpy(), end.cell.to_numpy(), rtol=1e-5, atol=1e-6)


def test_a_layer_of_cells_is_its_cell_step_by_step() -> None:
    x = drawn(2, 3, 3)
    for cls, cell_cls in ((Lstm, LstmCell), (Gru, GruCell), (Rnn, RnnCell)):
        layer: Any = cls(3, 4, **D)
        cell: Any = cell_cls(3, 4, **D).load_record(layer.layers[0][0].into_record())
        state = None
        for t in range(3):
            state = cell(x[:, t], state)
        last = layer(x)[1]
        for found, expected in zip(*((s if isinstance(s, tuple) else (s,)) for s in (state, last)), strict=True):
            np.testing.assert_allclose(found.to_numpy(), expected[0].to_numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cls", [Lstm, Gru, Rnn])
def test_elements_after_a_length_do_not_count(cls: Any) -> None:
    layer, x = cls(3, 4, count=2, bidirectional=True, **D), drawn(3, 5, 3)
    out, last = layer(x, lengths=IntTensor[Train].from_data([5, 2, 0]))
    short, short_last = layer(x[1:2, :2])
    np.testing.assert_allclose(out[1:2, :2].to_numpy(), short.to_numpy(), rtol=1e-5, atol=1e-6)
    assert not out[1, 2:].to_numpy().any()
    assert not out[2].to_numpy().any()
    hidden, short_hidden = (s.hidden if isinstance(s, LstmState) else s for s in (last, short_last))
    np.testing.assert_allclose(hidden[:, 1:2].to_numpy(), short_hidden.to_numpy(), rtol=1e-5, atol=1e-6)
    assert not hidden[:, 2].to_numpy().any()
    whole = layer(x)[0]
    assert layer(x, lengths=[5, 5, 5])[0].tolist() == whole.tolist()


def test_losses_are_their_functions() -> None:
    logits, classes = drawn(4, 3), IntTensor[Train].from_data([0, 2, 1, 1])
    p = logits.log_softmax(1).to_numpy()[np.arange(4), classes.to_numpy()]
    assert CrossEntropyLoss()(logits, classes).item() == pytest.approx(-p.mean(), rel=1e-5)
    assert CrossEntropyLoss(reduction="sum")(logits, classes).item() == pytest.approx(-p.sum(), rel=1e-5)
    assert NllLoss()(logits.log_softmax(1), classes).item() == pytest.approx(-p.mean(), rel=1e-5)
    assert MseLoss(reduction="none")(logits, logits * 0.0).tolist() == logits.square().tolist()
    target = (logits > 0.0).float()
    result = BceWithLogitsLoss()(logits, target).item()
    assert result == pytest.approx((-logits.abs()).exp().log1p().mean().item(), rel=1e-5)


TO_CHECK: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "linear": (lambda: Linear(3, 2, **D), (4, 3)),
    "conv2d": (lambda: Conv2d(2, 2, 2, **D), (2, 2, 3, 3)),
    "max_pool2d": (lambda: MaxPool2d(2), (1, 2, 4, 4)),
    "avg_pool2d": (lambda: AvgPool2d(2, padding=1), (1, 2, 3, 3)),
    "batch_norm": (lambda: BatchNorm(2, **D), (5, 2)),
    "batch_norm in use": (lambda: BatchNorm(2, **D).eval(), (3, 2)),
    "layer_norm": (lambda: LayerNorm(3, **D), (2, 3)),
    "attention": (lambda: MultiHeadAttention(4, 2, **D), (1, 3, 4)),
    "transformer": (lambda: TransformerEncoderLayer(4, 2, feedforward=5, activation="gelu", **D).eval(), (1, 3, 4)),
    "lstm": (lambda: Lstm(2, 2, **D), (1, 3, 2)),
    "gru": (lambda: Gru(2, 2, **D), (1, 3, 2)),
    "rnn cell": (lambda: RnnCell(2, 2, **D), (1, 2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TO_CHECK)
def test_first_and_second_derivatives_by_inputs_and_parameters(name: str) -> None:
    make, shape = TO_CHECK[name]
    model = make().astype("float64").to_device(NumPy)
    model = model.train(name not in ("batch_norm in use", "transformer"))

    def run(x: Tensor[Any], *params: Tensor[Any]) -> Tensor[Any]:
        out = unflatten_module(params, flatten_module(model.to_device(x.device))[1])(x)
        first: Tensor[Any] = out[0] if isinstance(out, tuple) else out
        return first.tanh()

    inputs = [drawn(*shape, device=NumPy).double(), *(p.value for p in model.params())]
    gradcheck(run, inputs)
    gradgradcheck(run, inputs, elements=8)


@every_row(
    "layer",
    [
        Conv2d(3, 4, 3, padding=1, **D),
        Conv2d(3, 4, 2, padding="same", bias=False, **D),
        MaxPool2d(3, stride=2, padding=1),
        AvgPool2d(2, ceil_mode=True),
        AvgPool2d(2, divisor_override=3),
        AdaptiveAvgPool2d((2, 3)),
    ],
)
def test_one_image_needs_no_batch(layer: Any) -> None:
    x = drawn(3, 7, 8).require_grad()
    alone, batch = layer(x), layer(x.unsqueeze(0))
    assert alone.shape == batch.shape[1:]
    assert alone.tolist() == batch.squeeze(0).tolist()
    np.testing.assert_array_equal(
        alone.sum().backward()[x].to_numpy(), layer(x.unsqueeze(0)).sum().backward()[x].to_numpy()
    )


def test_a_max_pool_says_where_the_largest_were() -> None:
    layer, x = MaxPool2d(2), drawn(2, 3, 4, 6).require_grad()
    values, indices = layer.with_indices(x)
    assert values.tolist() == layer(x).tolist()
    assert x.flatten(-2).gather(-1, indices.flatten(-2)).tolist() == values.flatten(-2).tolist()
    assert layer.with_indices(x[0])[1].tolist() == indices[0].tolist()
    both = Tensor[Train].from_data([[[float("nan"), 1.0], [float("nan"), 2.0]]])
    assert layer.with_indices(both)[1].tolist() == [[[0]]]


MISTAKES: list[tuple[Callable[[], object], type[BurnpyError], str]] = [
    (lambda: Linear(0, 2, **D), ArgumentError, r"Linear\(\) got in_features=0; expected a positive int"),
    (lambda: Linear(2, 2.5, **D), ArgumentError, r"out_features=2\.5"),  # type: ignore[arg-type]
    (
        lambda: Linear(3, 2, **D)(drawn(4, 2)),
        ShapeError,
        r"x of shape \(4, 2\) and weight of shape \(3, 2\).*transposed",
    ),
    (lambda: F.linear(drawn(4, 3), drawn(3, 2), drawn(3)), ShapeError, r"bias of shape \(3,\), which must be \(2,\)"),
    (lambda: F.linear(IntTensor[Train].zeros((2,)), drawn(2, 2)), KindError, r"a float Tensor as x.*x\.float\(\)"),  # type: ignore[call-overload]
    (lambda: Linear(3, 2, **D)(drawn(4, 3, device=NumPy)), DeviceError, "linear"),
    (lambda: Conv2d(3, 4, 3, groups=2, **D), ArgumentError, "groups=2 for 3 → 4 channels"),
    (
        lambda: Conv2d(3, 4, (3, 3, 3), **D),
        ArgumentError,
        r"kernel_size=\(3, 3, 3\); expected an int of at least 1, or two",
    ),
    (lambda: Conv2d(3, 4, 3, padding=-1, **D), ArgumentError, "padding=-1; expected an int of at least 0"),
    (
        lambda: Conv2d(3, 4, 3, **D)(drawn(8, 8)),
        ShapeError,
        r"\(N, in, height, width\), or \(in, height, width\) for one",
    ),
    (lambda: Conv2d(3, 4, 3, **D)(drawn(4, 8, 8)), ShapeError, r"x of shape \(4, 8, 8\), with 4 channels"),
    (lambda: MaxPool2d(3)(drawn(3, 2, 8)), ShapeError, "images of 2 × 8, padded 2 × 8"),
    (lambda: AdaptiveAvgPool2d(3)(drawn(1, 1, 3, 8, 8)), ShapeError, r"of shape \(1, 1, 3, 8, 8\)"),
    (lambda: AvgPool2d(3, divisor_override=0), ArgumentError, r"AvgPool2d\(\) got divisor_override=0"),
    (lambda: F.avg_pool2d(drawn(1, 3, 3), 2, divisor_override=0.5), ArgumentError, "expected an int"),  # type: ignore[arg-type]
    (lambda: Conv2d(3, 4, 3, **D)(drawn(1, 2, 8, 8)), ShapeError, "with 2 channels, .* takes 3"),
    (lambda: Conv2d(3, 4, 5, dilation=2, **D)(drawn(1, 3, 8, 8)), ShapeError, "padded 8 × 8, .* covers 9 × 9"),
    (lambda: MaxPool2d(2, padding=2)(drawn(1, 1, 8, 8)), ArgumentError, "at most half of the window"),
    (lambda: MaxPool2d(9)(drawn(1, 1, 8, 8)), ShapeError, "covers 9 × 9"),
    (lambda: AvgPool2d(0), ArgumentError, "kernel_size=0"),
    (lambda: BatchNorm(3, **D)(drawn(4, 2)), ShapeError, "with 2 channels, and weight of shape"),
    (lambda: BatchNorm(3, **D)(drawn(1, 3)), ShapeError, r"with 1 number for each channel.*model\.eval\(\)"),
    (lambda: BatchNorm(3, momentum=2.0, **D), ArgumentError, "momentum=2.0"),
    (lambda: F.batch_norm(drawn(4, 2), None, None), ArgumentError, "no running statistics"),
    (lambda: LayerNorm(3, **D)(drawn(3, 4)), ShapeError, r"normalized_shape=\(3,\), which must be its last"),
    (lambda: Dropout(1.5), ArgumentError, "p=1.5; expected a probability"),
    (lambda: Embedding(4, 2, **D)(IntTensor[Train].from_data([4])), IndexRangeError, "got index 4"),
    (lambda: Embedding(4, 2, **D)(IntTensor[Train].from_data([-1])), IndexRangeError, "got index -1"),
    (lambda: Embedding(4, 2, padding_idx=4, **D), ArgumentError, "padding_idx=4 for 4 rows"),
    (lambda: MultiHeadAttention(6, 4, **D), ArgumentError, "4 heads for size 6"),
    (lambda: MultiHeadAttention(6, 2, **D)(drawn(3, 6)), ShapeError, r"query of shape \(N, length, 6\)"),
    (
        lambda: F.scaled_dot_product_attention(drawn(3, 4), drawn(2, 5), drawn(2, 4)),
        ShapeError,
        r"query \(3, 4\), key \(2, 5\) and value \(2, 4\)",
    ),
    (
        lambda: F.scaled_dot_product_attention(drawn(3, 4), drawn(2, 4), drawn(2, 4), BoolTensor[Train].ones((3,))),
        ShapeError,
        r"mask of shape \(3,\), which does not broadcast to \(3, 2\)",
    ),
    (lambda: Gru(3, 4, **D)(drawn(2, 5, 3), lengths=[5]), ShapeError, r"Gru\(\) takes lengths of shape \(2,\) here"),
    (lambda: Gru(3, 4, **D)(drawn(2, 5, 3), lengths=[5, 6]), ArgumentError, "a length that is not from 0 to 5"),
    (lambda: Gru(3, 4, **D)(drawn(2, 5, 3), lengths=WRONG), KindError, "lengths as an IntTensor or a list of ints"),
    (lambda: Rnn(3, 4, **D)(drawn(2, 5, 3), drawn(2, 4)), ShapeError, r"hidden of shape \(2, 4\), expected \(1, 2"),
    (lambda: GruCell(3, 4, **D)(drawn(2, 5, 3)), ShapeError, r"GruCell\(\) takes x of shape \(N, 3\) or \(3,\)"),
    (lambda: RnnCell(3, 4, **D)(drawn(2, 3), WRONG), KindError, "takes a float Tensor as the state's hidden"),
    (lambda: Rnn(3, 4, nonlinearity=WRONG, **D), ArgumentError, "expected 'tanh' or 'relu'"),
    (lambda: Lstm(3, 4, **D)(drawn(2, 5, 2)), ShapeError, r"Lstm\(\) takes x of shape \(N, T, 3\)"),
    (
        lambda: Lstm(3, 4, **D)(drawn(2, 5, 3), LstmState(drawn(1, 2, 4), drawn(1, 2, 3))),
        ShapeError,
        r"cell of shape \(1, 2, 3\), expected \(1, 2, 4\)",
    ),
    (lambda: MseLoss(reduction="most"), ArgumentError, "reduction='most'"),  # type: ignore[arg-type]
    (lambda: init.KaimingNormal()((3,), device=NumPy), ShapeError, "has no fans"),
    (lambda: init.Orthogonal()((3,), device=NumPy), ShapeError, "makes matrices"),
    (lambda: init.gain("swish"), ArgumentError, "knows linear, "),  # type: ignore[arg-type]
    (lambda: init.gain("leaky_relu", True), DTypeError, r"gain\(\) got True; expected a Python float"),
    (lambda: init.KaimingUniform(True)((2, 2), device=NumPy), DTypeError, r"KaimingUniform\(\) got True; expected"),
    (lambda: init.Orthogonal(True)((2, 2), device=NumPy), DTypeError, r"Orthogonal\(\) got True; expected"),
    (lambda: init.Orthogonal(math.nan)((2, 2), device=NumPy), ArgumentError, "got gain=nan; expected a finite number"),
    (lambda: init.Uniform(False, True)((2, 2), device=NumPy), DTypeError, r"uniform\(\) got False; expected"),
    (lambda: init.TruncatedNormal(std=True)((2, 2), device=NumPy), KindError, "got std=True; expected a number"),
]


@every_row("made, error, words", MISTAKES, ids=[words[:40] for _, _, words in MISTAKES])
def test_mistakes_are_explained(made: Callable[[], object], error: type[BurnpyError], words: str) -> None:
    with pytest.raises(error, match=words):
        made()


def test_initializers_draw_from_their_generator_and_are_values() -> None:
    one, two = (Linear(3, 2, generator=Generator(5), **D).weight.value.tolist() for _ in range(2))
    assert one == two
    assert init.KaimingNormal() == init.KaimingNormal()
    assert init.KaimingNormal() != init.KaimingNormal(1.0)
    chosen = Linear(400, 300, initializer=init.XavierNormal(2.0), **D).weight.value
    assert chosen.std().item() == pytest.approx(2.0 * np.sqrt(2 / 700), rel=0.02)


def test_shapes_of_one_more_or_less() -> None:
    assert Flatten()(drawn(2, 3, 4)).shape == (2, 12)
    assert Linear(3, 2, bias=False, **D)(drawn(3)).shape == (2,)
    assert Embedding(4, 2, **D)(IntTensor[Train].from_data(1)).shape == (2,)
    assert Conv2d(1, 2, 1, **D)(drawn(0, 1, 2, 2)).shape == (0, 2, 2, 2)


def test_a_projected_lstm_without_elements_keeps_its_state_and_has_a_projection_below_its_size() -> None:
    lstm = Lstm(3, 5, proj_size=2, bidirectional=True, device=NumPy, generator=Generator(0))
    x, hidden, cell = (
        Tensor[NumPy].normal(shape, generator=Generator(1)) for shape in ((2, 4, 3), (2, 2, 2), (2, 2, 5))
    )
    output, state = lstm(x, (hidden, cell), lengths=[0, 4])
    assert output.shape == (2, 4, 4)
    assert output[0].abs().max().item() == 0.0
    assert state.hidden[:, 0].tolist() == hidden[:, 0].tolist()
    assert state.cell[:, 0].tolist() == cell[:, 0].tolist()
    step = lstm.layers[0][0](x[:, 0], (hidden[0], cell[0]))
    whole, _ = lstm(x, (hidden, cell))
    np.testing.assert_allclose(step.hidden.to_numpy(), whole[:, 0, :2].to_numpy(), rtol=1e-5)
    for size in (5, -1, 1.5):
        with pytest.raises(ArgumentError, match=f"proj_size={size}"):
            Lstm(3, 5, proj_size=size, device=NumPy)  # type: ignore[arg-type]  # a mistake
    with pytest.raises(ShapeError, match=r"hidden of shape \(2, 2, 5\), expected \(2, 2, 2\)"):
        lstm(x, (cell, cell))


def test_positions_are_sines_and_cosines() -> None:
    x = Tensor[NumPy].normal((2, 7, 6), generator=Generator(0))
    angles = np.outer(np.arange(3, 10), 100.0 ** (-np.arange(3) / 3))
    table = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(7, 6)
    np.testing.assert_allclose(PositionalEncoding(base=100.0)(x, offset=3).to_numpy(), x.to_numpy() + table, atol=1e-6)
    with pytest.raises(ShapeError, match="E even"):
        PositionalEncoding()(x[:, :, :5])
