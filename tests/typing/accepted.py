"""What type checkers must accept, with the types they must infer. Runs, too: `assert_type` returns its argument."""

from __future__ import annotations

from typing import TypeAlias, TypeVar, assert_type

from burnpy import (
    Autodiff,
    BoolTensor,
    Gradients,
    IntTensor,
    Tensor,
    broadcast_tensors,
    cat,
    maximum,
    minimum,
    stack,
    where,
)
from burnpy.autodiff import Balanced, checkpoint
from burnpy.backend import Backend, NumPy

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
assert_type(v @ v, Tensor[NumPy])
assert_type(ints @ ints, IntTensor[NumPy])

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
