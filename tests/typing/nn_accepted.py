"""Code type checkers must accept of `burnpy.nn`, with the types they must infer. Runs, too."""

from __future__ import annotations

from typing import TypeAlias, TypeVar, assert_type

from burnpy import Autodiff, BoolTensor, Gradients, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.func import grad
from burnpy.nn import (
    BatchNorm,
    Conv2d,
    CrossEntropyLoss,
    DecoderCache,
    Dropout,
    Embedding,
    Flatten,
    Identity,
    KeyValueCache,
    LayerNorm,
    Linear,
    Lora,
    Lstm,
    LstmState,
    MaxPool2d,
    Module,
    MseLoss,
    MultiHeadAttention,
    Param,
    QuantizationError,
    QuantizedLinear,
    Relu,
    Sequential,
    Stateless,
    TransformerDecoder,
    TransformerEncoder,
    WeightNorm,
    add_lora,
    functional,
    merge_lora,
    quantization_error,
    rebound,
    stepped,
)
from burnpy.nn.summary import Summary, SummaryRow

Infer: TypeAlias = NumPy
Train: TypeAlias = Autodiff[Infer]
B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # as the library names it
M = TypeVar("M", bound=Module[Autodiff[NumPy]])


class Mlp(Module[B]):
    def __init__(self, device: B | type[B]) -> None:
        self.layers = [Linear(2, 8, device=device), Linear(8, 3, device=device)]
        self.relu = Relu()
        self.tail = Sequential(Relu(), Linear(3, 3, device=device), Dropout(0.1))
        self.scale = Param(Tensor.ones((), device=device))

    def forward(self, x: Tensor[B], *, factor: float = 1.0) -> Tensor[B]:
        for layer in self.layers:
            x = self.relu(layer(x))
        return self.tail(x) * self.scale.value * factor

    def valid(self: Mlp[Autodiff[I]]) -> Mlp[I]:
        return rebound(self)


class Bare(Module[B]):
    def __init__(self, device: B | type[B]) -> None:
        self.layer = Linear(2, 3, device=device)

    def forward(self, x: Tensor[B]) -> tuple[Tensor[B], int]:
        return self.layer(x), 1


class Residual(Module[B]):
    shortcut: Identity[B] | Sequential[B]

    def __init__(self, change: bool, device: B | type[B]) -> None:
        self.shortcut = Sequential(Linear(2, 2, device=device)) if change else Identity()

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return x + self.shortcut(x)


class Square(Stateless):
    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return x * x


# A model, its calls, and what is made of it.
model = Mlp(Train)
x = Tensor[Train].ones((4, 2))
assert_type(model, Mlp[Autodiff[NumPy]])
assert_type(model(x), Tensor[Autodiff[NumPy]])
assert_type(model(x, factor=2.0), Tensor[Autodiff[NumPy]])
assert_type(model.forward(x), Tensor[Autodiff[NumPy]])
assert_type(model.valid(), Mlp[NumPy])
assert_type(model.valid()(x.inner()), Tensor[NumPy])
assert_type(Mlp(Autodiff[Train]).valid(), Mlp[Autodiff[NumPy]])
assert_type(Mlp(Autodiff[Train]).valid().valid(), Mlp[NumPy])
assert_type(model.train(), Mlp[Autodiff[NumPy]])
assert_type(model.no_grad("tail").eval(), Mlp[Autodiff[NumPy]])
assert_type(model.map(lambda w: w * 2.0), Mlp[Autodiff[NumPy]])
assert_type(model.astype("float64"), Mlp[Autodiff[NumPy]])
assert_type(model.replace(relu=Relu()), Mlp[Autodiff[NumPy]])
assert_type(model.fork(), Mlp[Autodiff[NumPy]])
assert_type(model.fork(Train), Mlp[Autodiff[NumPy]])
assert_type(model.to_device(Train), Mlp[Autodiff[NumPy]])
assert_type(model.to_device(NumPy), Module[NumPy])
assert_type(model.with_state(model.state()), Mlp[Autodiff[NumPy]])
assert_type(model.device, Autodiff[NumPy])
assert_type(model.scale.value, Tensor[Autodiff[NumPy]])
assert_type(model.layers[0].weight, Param[Autodiff[NumPy]])
assert_type(model.named_params(), dict[str, Param[Autodiff[NumPy]]])
assert_type(model.relu(x), Tensor[Autodiff[NumPy]])
assert_type(model.relu(x.inner()), Tensor[NumPy])
assert_type(Square()(x), Tensor[Autodiff[NumPy]])

# Without the line, valid() is a module of the inner backend.
bare = Bare(Train)
assert_type(bare(x), tuple[Tensor[Autodiff[NumPy]], int])
assert_type(bare.valid(), Module[NumPy])

# A field that is one of two layers; one of them has no device.
residual = Residual(False, Train)
assert_type(residual.shortcut, Identity[Autodiff[NumPy]] | Sequential[Autodiff[NumPy]])
assert_type(residual(x), Tensor[Autodiff[NumPy]])
anywhere = Identity()
assert_type(anywhere(x), Tensor[Autodiff[NumPy]])
assert_type(anywhere(x.inner()), Tensor[NumPy])

# Sequences of layers.
plain = Sequential(Linear(2, 2, device=NumPy), Relu(), Flatten())
assert_type(plain, Sequential[NumPy])
assert_type(plain(x.inner()), Tensor[NumPy])
assert_type(plain[1:], Sequential[NumPy])
tracked = Sequential(Flatten(), Linear(2, 2, device=Train), Sequential(Relu(), Linear(2, 2, device=Train)))
assert_type(tracked, Sequential[Autodiff[NumPy]])
assert_type(tracked.valid(), Sequential[NumPy])

# Layers.
ids = IntTensor[Train].zeros((2, 3))
assert_type(Embedding(4, 6, device=Train)(ids), Tensor[Autodiff[NumPy]])
assert_type(Embedding(4, 6, device=Train).valid(), Embedding[NumPy])
words = Embedding(4, 6, device=Train)(ids)
assert_type(Lstm(6, 5, device=Train)(words), tuple[Tensor[Autodiff[NumPy]], LstmState[Autodiff[NumPy]]])
assert_type(LayerNorm(6, device=Train)(words), Tensor[Autodiff[NumPy]])
assert_type(MultiHeadAttention(6, 2, device=Train)(words, causal=True), Tensor[Autodiff[NumPy]])
assert_type(MultiHeadAttention(6, 2, device=Train)(words[:, 1:], words, causal=True, offset=1), Tensor[Autodiff[NumPy]])
attention = MultiHeadAttention(6, 2, device=Train)
assert_type(attention.forward(words), Tensor[Autodiff[NumPy]])
assert_type(attention(words, attention.project(words)), Tensor[Autodiff[NumPy]])
assert_type(
    attention(words, causal=True, cache=attention.empty_cache(2, 8)),
    tuple[Tensor[Autodiff[NumPy]], KeyValueCache[Autodiff[NumPy]]],
)
assert_type(
    attention.forward(words, causal=True, cache=attention.empty_cache(2, 8)),
    tuple[Tensor[Autodiff[NumPy]], KeyValueCache[Autodiff[NumPy]]],
)
encoder = TransformerEncoder(1, 6, 2, feedforward=8, device=Train)
assert_type(encoder(words), Tensor[Autodiff[NumPy]])
assert_type(encoder.forward(words, causal=True), Tensor[Autodiff[NumPy]])
assert_type(
    encoder.forward(words, cache=encoder.empty_cache(2, 8)),
    tuple[Tensor[Autodiff[NumPy]], tuple[KeyValueCache[Autodiff[NumPy]], ...]],
)
assert_type(encoder.layers[0].forward(words), Tensor[Autodiff[NumPy]])
assert_type(
    encoder.layers[0].forward(words, cache=attention.empty_cache(2, 8)),
    tuple[Tensor[Autodiff[NumPy]], KeyValueCache[Autodiff[NumPy]]],
)
decoder = TransformerDecoder(1, 6, 2, feedforward=8, device=Train)
assert_type(decoder.forward(words, words, causal=True), Tensor[Autodiff[NumPy]])
assert_type(
    decoder.forward(words, words, cache=decoder.empty_cache(2, 8)),
    tuple[Tensor[Autodiff[NumPy]], tuple[DecoderCache[Autodiff[NumPy]], ...]],
)
assert_type(decoder.layers[0].forward(words, words), Tensor[Autodiff[NumPy]])
assert_type(
    decoder.layers[0](words, words, cache=decoder.layers[0].empty_cache(2, 8)),
    tuple[Tensor[Autodiff[NumPy]], DecoderCache[Autodiff[NumPy]]],
)
images = Tensor[Infer].ones((2, 1, 4, 4))
assert_type(Conv2d(1, 2, 3, device=NumPy)(images), Tensor[NumPy])
assert_type(MaxPool2d(2)(images), Tensor[NumPy])
assert_type(BatchNorm(1, device=NumPy)(images), Tensor[NumPy])

# Losses, and a step.
loss = CrossEntropyLoss()(model(x), IntTensor[Train].zeros((4,)))
assert_type(loss, Tensor[Autodiff[NumPy]])
assert_type(MseLoss()(model(x), model(x)), Tensor[Autodiff[NumPy]])
grads = loss.backward()
assert_type(grads[model.scale.value], Tensor[NumPy])
assert_type(stepped(model, {}, grads.buffer_updates), Mlp[Autodiff[NumPy]])


# Generic code.
def weights(m: Module[B]) -> list[Tensor[B]]:
    return [p.value for p in m.params()]


def score(m: Mlp[B], t: Tensor[B]) -> float:
    return m(t).sum().item()


def train(m: Mlp[Autodiff[I]], t: Tensor[Autodiff[I]]) -> tuple[Gradients[I], float]:
    return m(t).sum().backward(), score(m.valid(), t.inner())


def trained(m: M) -> M:
    return m.map(lambda w: w * 0.5)


def mlp(device: B | type[B]) -> Mlp[B]:
    return Mlp(device)


assert_type(weights(model), list[Tensor[Autodiff[NumPy]]])
assert_type(weights(model.valid()), list[Tensor[NumPy]])
assert_type(train(model, x)[0], Gradients[NumPy])
assert_type(trained(model), Mlp[Autodiff[NumPy]])
assert_type(mlp(NumPy), Mlp[NumPy])
assert_type(mlp(Train), Mlp[Autodiff[NumPy]])


def total(m: Mlp[NumPy]) -> Tensor[NumPy]:
    return m(x.inner()).sum()


assert_type(grad(total)(model.valid()), Mlp[NumPy])

one_image = Tensor[Train].zeros((3, 8, 8))
assert_type(functional.max_pool2d(one_image, 2), Tensor[Autodiff[NumPy]])
assert_type(
    functional.max_pool2d(one_image, 2, return_indices=True), tuple[Tensor[Autodiff[NumPy]], IntTensor[Autodiff[NumPy]]]
)
assert_type(MaxPool2d(2)(one_image), Tensor[Autodiff[NumPy]])
assert_type(MaxPool2d(2).with_indices(one_image), tuple[Tensor[Autodiff[NumPy]], IntTensor[Autodiff[NumPy]]])

table = Linear(2, 3, device=Train).summary(depth=1, input=(4, 2))
assert_type(table, Summary)
assert_type(Sequential(Linear(2, 3, device=Train)).summary(input=(one_image[0, :4, :2],)), Summary)
assert_type(table.rows[0], SummaryRow)
assert_type(table.flops, int | None)

# Labels, indices and masks of the backend beneath.
tokens, labels = IntTensor[NumPy].zeros((2, 3)), IntTensor[NumPy].zeros((2,))
vectors = Embedding(4, 6, device=Train)(tokens)
assert_type(vectors, Tensor[Autodiff[NumPy]])
assert_type(CrossEntropyLoss()(vectors[:, 0], labels), Tensor[Autodiff[NumPy]])
MultiHeadAttention(6, 2, device=Train)(vectors, mask=BoolTensor[NumPy].ones((3, 3)), key_mask=tokens == 0)
assert_type(Lstm(6, 5, device=Train)(vectors, lengths=labels + 1)[0], Tensor[Autodiff[NumPy]])
assert_type(functional.multi_margin_loss(vectors[:, 0], labels), Tensor[Autodiff[NumPy]])

# Quantized and adapted models stay of their class.
row = Tensor[Train].ones((1, 2))
whole = Sequential(Linear(2, 3, device=Train), Relu())
small = assert_type(whole.quantized("int8"), Sequential[Train])
assert_type(quantization_error(whole, small, row), QuantizationError)
adapted = assert_type(add_lora(small, "0", rank=1), Sequential[Train])
assert_type(merge_lora(adapted), Sequential[Train])
of_ints = QuantizedLinear(Linear(2, 3, device=Train), "int8")
assert_type(of_ints.valid(), QuantizedLinear[Infer])
lora = Lora(of_ints, 1)
assert_type(lora(row), Tensor[Train])
assert_type(lora.valid()(row.inner()), Tensor[Infer])
assert_type(lora.merged(), Linear[Train])
assert_type(WeightNorm(Linear(2, 3, device=Train)).valid()(row.inner()), Tensor[Infer])
