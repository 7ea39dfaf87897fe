"""Code type checkers must accept, with the types they must infer. Runs, too: `assert_type` returns its argument."""

from __future__ import annotations

from typing import TypeAlias, TypeVar, assert_type

from burnpy import (
    Autodiff,
    BoolTensor,
    ComplexTensor,
    Gradients,
    IntTensor,
    Tensor,
    block_diag,
    broadcast_tensors,
    cartesian_prod,
    cat,
    chain_matmul,
    cross_entropy,
    maximum,
    meshgrid,
    minimum,
    nll_loss,
    stack,
    vander,
    where,
)
from burnpy.autodiff import Balanced, Forward, checkpoint
from burnpy.backend import Backend, NumPy
from burnpy.func import grad
from burnpy.nn.functional import (
    channel_shuffle,
    embedding,
    normalize,
    pixel_shuffle,
    pixel_unshuffle,
    scaled_dot_product_attention,
    softsign,
    tanhshrink,
    unfold,
)

Infer: TypeAlias = NumPy
Train: TypeAlias = Autodiff[Infer]
Twice: TypeAlias = Autodiff[Train]
B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # as the library names it

# The ten-line example.
x = Tensor[Train].from_data([[1.0, 2.0], [3.0, 4.0]]).require_grad()
assert_type(x, Tensor[Autodiff[NumPy]])
loss = (x @ x).relu().sum()
assert_type(loss, Tensor[Autodiff[NumPy]])
grads = loss.backward()
assert_type(grads, Gradients[NumPy])
gx = x.grad(grads)
assert_type(gx, Tensor[NumPy] | None)
v = x.inner()
assert_type(v, Tensor[NumPy])

# Second order: the gradients of Autodiff[Autodiff[B]] are tensors on Autodiff[B].
z = Tensor[Twice].from_data([1.0, 2.0]).require_grad()
first = (z * z * z).sum().backward()
assert_type(first, Gradients[Autodiff[NumPy]])
assert_type(first[z], Tensor[Autodiff[NumPy]])
second = first[z].sum().backward()
assert_type(second, Gradients[NumPy])
assert_type(second[z.inner()], Tensor[NumPy])
assert_type(Tensor[Twice].from_inner(z.inner()), Tensor[Autodiff[Autodiff[NumPy]]])

# A strategy inside of Autodiff does not show: gradients and inner tensors are on the inner backend's inner one.
Saving: TypeAlias = Autodiff[Balanced[NumPy]]
b = Tensor[Saving].from_data([1.0, 2.0]).require_grad()
assert_type(b, Tensor[Autodiff[Balanced[NumPy]]])
b_grads = (b * b).sum().backward()
assert_type(b_grads, Gradients[NumPy])
assert_type(b_grads[b], Tensor[NumPy])
assert_type(b.grad(b_grads), Tensor[NumPy] | None)
assert_type(b.grad_remove(b_grads), tuple[Tensor[NumPy] | None, Gradients[NumPy]])
assert_type(b.inner(), Tensor[NumPy])
assert_type((b > 1.0).inner(), BoolTensor[NumPy])
assert_type(Tensor.from_inner(b.inner()), Tensor[Autodiff[NumPy]])
assert_type(Tensor.from_inner(b.inner(), device=Saving), Tensor[Autodiff[Balanced[NumPy]]])


def layer(x: Tensor[B]) -> Tensor[B]:
    return x.exp()


assert_type(checkpoint(layer, b), Tensor[Autodiff[Balanced[NumPy]]])
checkpoint(layer, b, preserve_rng_state=False)

# Kinds.
assert_type(x > 0, BoolTensor[Autodiff[NumPy]])
assert_type(x.argmax(dim=1), IntTensor[Autodiff[NumPy]])
assert_type(x.argmax(dim=1).inner(), IntTensor[NumPy])
assert_type((x.argmax(dim=1) == 1).float().mean(), Tensor[Autodiff[NumPy]])
assert_type(IntTensor[Infer].arange(3) + 1, IntTensor[NumPy])
assert_type(IntTensor[Infer].arange(3) / 2, Tensor[NumPy])
assert_type(2 * x - 1, Tensor[Autodiff[NumPy]])
assert_type(x[0, None, ..., :1], Tensor[Autodiff[NumPy]])
assert_type(x.max(), Tensor[Autodiff[NumPy]])
assert_type(x.max(dim=0).values, Tensor[Autodiff[NumPy]])
assert_type(x.max(dim=0).indices, IntTensor[Autodiff[NumPy]])
assert_type(x.at[0].set(1.0), Tensor[Autodiff[NumPy]])

# Functions of several tensors keep the kind and the backend.
ints = IntTensor[Infer].arange(2)
assert_type(cat([v, v]), Tensor[NumPy])
assert_type(stack((x, x), dim=1), Tensor[Autodiff[NumPy]])
assert_type(cat([ints, ints]), IntTensor[NumPy])
assert_type(stack([v > 0, v > 1]), BoolTensor[NumPy])
assert_type(cat(list(v)), Tensor[NumPy])
assert_type(where(v > 0, v, 0.0), Tensor[NumPy])
assert_type(where(ints > 0, ints, 0), IntTensor[NumPy])
assert_type(maximum(v, 0.0), Tensor[NumPy])
assert_type(minimum(ints, ints), IntTensor[NumPy])
assert_type(broadcast_tensors(v, v), list[Tensor[NumPy]])
w = ComplexTensor[Infer].from_data([1j, 2.0])
assert_type(block_diag(w, w), ComplexTensor[NumPy])
assert_type(meshgrid(w, w), tuple[ComplexTensor[NumPy], ...])
assert_type(cartesian_prod(w, w), ComplexTensor[NumPy])
assert_type(vander(w), ComplexTensor[NumPy])
assert_type(chain_matmul(vander(w), vander(w)), ComplexTensor[NumPy])
assert_type(normalize(w, dim=0), ComplexTensor[NumPy])
assert_type(softsign(v), Tensor[NumPy])
assert_type(tanhshrink(w), ComplexTensor[NumPy])
assert_type(unfold(w.reshape(1, 1, 2), 1), ComplexTensor[NumPy])
assert_type(pixel_unshuffle(pixel_shuffle(w.reshape(1, 1, 2), 1), 1), ComplexTensor[NumPy])
assert_type(channel_shuffle(w.reshape(1, 2, 1), 2), ComplexTensor[NumPy])
assert_type(v @ v, Tensor[NumPy])
assert_type(ints @ ints, IntTensor[NumPy])

# The forms of PyTorch's methods that are chosen by a keyword.
i = IntTensor[Infer].arange(6).reshape(shape=(2, 3))
assert_type(i, IntTensor[NumPy])
assert_type(i.div(2), Tensor[NumPy])
assert_type(i.div(i + 1, rounding_mode=None), Tensor[NumPy])
assert_type(i.div(i + 1, rounding_mode="trunc"), IntTensor[NumPy])
assert_type(i.div(2, rounding_mode="floor"), IntTensor[NumPy])
assert_type(x.div(2.5, rounding_mode="floor"), Tensor[Autodiff[NumPy]])
assert_type(x.div(x, rounding_mode="trunc"), Tensor[Autodiff[NumPy]])
assert_type(i.nonzero(), IntTensor[NumPy])
assert_type(x.nonzero(as_tuple=True), tuple[IntTensor[Autodiff[NumPy]], ...])
assert_type((x > 0).nonzero(as_tuple=False), IntTensor[Autodiff[NumPy]])
assert_type(x.clamp(x - 1, 2.0), Tensor[Autodiff[NumPy]])
assert_type(i.clamp(min=i, max=3), IntTensor[NumPy])
assert_type(x.clamp_min(0.5).clamp_max(x), Tensor[Autodiff[NumPy]])
assert_type(x.add(x, alpha=0.5).sub(1, alpha=2), Tensor[Autodiff[NumPy]])
assert_type(i.add(i, alpha=2), IntTensor[NumPy])
assert_type(x.pow(exponent=2), Tensor[Autodiff[NumPy]])
assert_type(x.round(decimals=2), Tensor[Autodiff[NumPy]])
assert_type(x.flip(dims=0).flip(0, 1).permute(dims=(1, 0)).permute(1, 0), Tensor[Autodiff[NumPy]])
assert_type(x[:1].expand(size=(2, 2)).reshape(4).reshape(shape=[2, 2]), Tensor[Autodiff[NumPy]])
assert_type(x.mean(dtype="float64"), Tensor[Autodiff[NumPy]])
assert_type(i.prod(0, dtype="int32"), IntTensor[NumPy])
assert_type(x.cumsum(dim=0, dtype="float64"), Tensor[Autodiff[NumPy]])
assert_type((i > 0).sum(dtype="int32"), IntTensor[NumPy])
assert_type(i.roll(1), IntTensor[NumPy])
assert_type(x.take_along_dim(x.argmax()), Tensor[Autodiff[NumPy]])
assert_type(x[(0, 1), 0], Tensor[Autodiff[NumPy]])

# Devices by instance, class and alias.
assert_type(Tensor.zeros((2,), device=NumPy), Tensor[NumPy])
assert_type(Tensor.zeros((2,), device=NumPy()), Tensor[NumPy])
assert_type(Tensor.zeros((2,), device=Train), Tensor[Autodiff[NumPy]])
assert_type(Train.device(), Autodiff[NumPy])
assert_type(Autodiff(NumPy()), Autodiff[NumPy])
assert_type(x.device, Autodiff[NumPy])
assert_type(grads.device, NumPy)
assert_type(v.to_device(Train), Tensor[Autodiff[NumPy]])


# Generic code.
def standardised(t: Tensor[B]) -> Tensor[B]:
    return (t - t.mean(dim=0)) / t.std(dim=0).clamp(min=1e-6)


def doubled(t: Tensor[B]) -> Tensor[B]:
    return cat([t, stack([t, t])[0], maximum(t, 0.0)])


def identity_like(t: Tensor[B]) -> Tensor[B]:
    return Tensor.eye(t.shape[0], device=t.device)


def made_on(device: B | type[B]) -> Tensor[B]:
    return Tensor.ones((2, 2), device=device)


def derivative(t: Tensor[Autodiff[I]]) -> Tensor[I]:
    leaf = t.detach().require_grad()
    return leaf.sin().sum().backward()[leaf]


assert_type(standardised(x), Tensor[Autodiff[NumPy]])
assert_type(standardised(v), Tensor[NumPy])
assert_type(identity_like(v), Tensor[NumPy])
assert_type(made_on(Train), Tensor[Autodiff[NumPy]])
assert_type(derivative(x), Tensor[NumPy])
assert_type(derivative(z), Tensor[Autodiff[NumPy]])

# Factories, each with the class's backend and with device=; and methods that are loaded at first use.
assert_type(Tensor[Train].uniform((2,), high=2.0), Tensor[Autodiff[NumPy]])
assert_type(Tensor.uniform((2,), device=NumPy), Tensor[NumPy])
assert_type(Tensor.linspace(0.0, 1.0, 3, device=NumPy.device()), Tensor[NumPy])
assert_type(IntTensor[NumPy].randint(0, 3, (2,)), IntTensor[NumPy])
assert_type(IntTensor.permutation(3, device=NumPy), IntTensor[NumPy])
assert_type(IntTensor[NumPy].arange(1, 4, 2, dtype="int32"), IntTensor[NumPy])
assert_type(BoolTensor.full((2,), True, dtype=bool, device=Train), BoolTensor[Autodiff[NumPy]])
assert_type(BoolTensor.from_inner(BoolTensor[NumPy].zeros(2)), BoolTensor[Autodiff[NumPy]])
assert_type(x.sigmoid().bernoulli(), Tensor[Autodiff[NumPy]])
assert_type(x.categorical(), IntTensor[Autodiff[NumPy]])
assert_type(x.expm1(), Tensor[Autodiff[NumPy]])
assert_type((x > 0).ones_like(), BoolTensor[Autodiff[NumPy]])

# Ints and bools of a backend beneath, which carry no gradient, with tensors of those above.
index, labels, mask = IntTensor[NumPy].from_data([1, 0]), IntTensor[NumPy].zeros((2,)), BoolTensor[NumPy].ones((2, 2))
square = Tensor[Train].ones((2, 2)).require_grad()
wide_index = index.unsqueeze(1)
assert_type(square[index], Tensor[Autodiff[NumPy]])
assert_type(square[:, index], Tensor[Autodiff[NumPy]])
assert_type(square[mask], Tensor[Autodiff[NumPy]])
assert_type(square.at[index].add(1.0), Tensor[Autodiff[NumPy]])
assert_type(square.at[mask].set(square[mask]), Tensor[Autodiff[NumPy]])
assert_type(square.gather(1, wide_index), Tensor[Autodiff[NumPy]])
assert_type(square.scatter(1, wide_index, 0.0), Tensor[Autodiff[NumPy]])
assert_type(square.index_select(0, index), Tensor[Autodiff[NumPy]])
assert_type(square.take_along_dim(wide_index, 1), Tensor[Autodiff[NumPy]])
assert_type(square.index_add(0, index, square), Tensor[Autodiff[NumPy]])
assert_type(square.repeat_interleave(index, 0), Tensor[Autodiff[NumPy]])
assert_type(square.masked_fill(mask, 0.0), Tensor[Autodiff[NumPy]])
assert_type(square.masked_select(mask), Tensor[Autodiff[NumPy]])
assert_type(square.where(mask, square), Tensor[Autodiff[NumPy]])
assert_type(where(mask, square, 0.0), Tensor[Autodiff[NumPy]])
assert_type(where(mask, square, square), Tensor[Autodiff[NumPy]])
assert_type(cross_entropy(square, labels), Tensor[Autodiff[NumPy]])
assert_type(nll_loss(square.log_softmax(1), labels), Tensor[Autodiff[NumPy]])
assert_type(embedding(index, square), Tensor[Autodiff[NumPy]])
assert_type(scaled_dot_product_attention(square, square, square, mask=mask), Tensor[Autodiff[NumPy]])


def of_rows(x: Tensor[Autodiff[NumPy]]) -> Tensor[Autodiff[NumPy]]:
    return x[index].sum()


assert_type(grad(of_rows)(square), Tensor[Autodiff[NumPy]])
assert_type((square > 0.0) & mask, BoolTensor[Autodiff[NumPy]])
assert_type(mask | (square > 0.0), BoolTensor[Autodiff[NumPy]])
assert_type(square.argmax(1) == labels, BoolTensor[Autodiff[NumPy]])
assert_type(labels + square.argmax(1), IntTensor[Autodiff[NumPy]])
assert_type(square[square.argmax(1) * labels], Tensor[Autodiff[NumPy]])
twice = Tensor[Twice].ones((2, 2))
assert_type(twice[index], Tensor[Autodiff[Autodiff[NumPy]]])
assert_type(twice[square.argmax(1)], Tensor[Autodiff[Autodiff[NumPy]]])
assert_type(cross_entropy(twice, labels), Tensor[Autodiff[Autodiff[NumPy]]])
assert_type(Tensor[Forward[NumPy]].ones((2, 2))[index], Tensor[Forward[NumPy]])
assert_type(Tensor[Forward[Train]].ones((2, 2)).masked_fill(mask, 0.0), Tensor[Forward[Autodiff[NumPy]]])
assert_type(Tensor[Saving].ones((2, 2))[index], Tensor[Autodiff[Balanced[NumPy]]])


def picked(x: Tensor[B], y: IntTensor[B], m: BoolTensor[B]) -> Tensor[B]:
    return where(m, x[y], x) * cross_entropy(x, y)


assert_type(picked(square.inner(), labels, mask), Tensor[NumPy])
